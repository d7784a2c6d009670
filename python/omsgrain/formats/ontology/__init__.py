# SPDX-License-Identifier: Apache-2.0
"""Ontologies: what kinds of things memories are about, by which fields, in which namespaces.

model       an ontology and its parts; what it extends; its namespaces
load        files of YAML or JSON, read and checked one by one and together
integrity   the rules; what is wrong between the parts; traits put together
check       a memory's entity, judged by its ontology
discover    which entity and namespace a text or a file suggests

Spec: MIF 0.1 §10.8, the schema of ontologies
"""

from omsgrain.formats.ontology.check import Judgement, judge_entity
from omsgrain.formats.ontology.discover import Suggestion, suggest
from omsgrain.formats.ontology.load import Library, LoadReport, load
from omsgrain.formats.ontology.model import choose_namespace, choose_type

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
