# SPDX-License-Identifier: Apache-2.0
"""Ontologies define the entity types, fields and namespaces of memories.

model       an ontology and its parts; extension; namespaces
load        reading and checking of YAML and JSON files
integrity   the rules, checks between parts, and inherited fields
check       checking of a memory's entity against its ontology
discover    suggestions of an entity type and namespace for a text or file

Spec: MIF 0.1 §10.8, the schema of ontologies
"""

from omsgrain.formats.ontology.check import judge_entity
from omsgrain.formats.ontology.discover import Suggestion, suggest
from omsgrain.formats.ontology.integrity import Judgement
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
