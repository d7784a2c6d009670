# SPDX-License-Identifier: Apache-2.0
"""Ontologies: what kinds of things memories are about, by which fields, in which namespaces.

model       an ontology and its parts, as they were written
load        files of YAML or JSON, read and checked one by one and together
graph       what extends what: an order without cycles
compose     all that an ontology sees: its own, and what it extends
traits      the fields of a type, put together of its traits
integrity   what is wrong between the parts: subtypes, traits, names that nothing has
namespaces  paths with and without underscore, ``replaces`` and ``type_hint``
patterns    regexes and globs in an engine whose time is linear
check       a memory's entity, judged by its ontology
discover    which entity and namespace a text or a file suggests

Spec: MIF 0.1 §10.8, the schema of ontologies
"""

from omsgrain.formats.ontology.check import Judgement, judge_entity
from omsgrain.formats.ontology.discover import Suggestion, suggest
from omsgrain.formats.ontology.integrity import choose_namespace, choose_type
from omsgrain.formats.ontology.load import Library, LoadReport, load

__all__ = [
    "Judgement",
    "Library",
    "LoadReport",
    "Suggestion",
    "choose_namespace",
    "choose_type",
    "judge_entity",
    "load",
    "suggest",
]
