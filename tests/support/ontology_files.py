# SPDX-License-Identifier: Apache-2.0
"""Ontologies for tests: those in ``data/ontologies``, and ones put together by a test."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from omsgrain.formats.ontology import load
from omsgrain.formats.ontology.load import Known, Library
from omsgrain.formats.problems import Problem
from support.paths import TEST_DATA

DATA = TEST_DATA / "ontologies"

Told = list[tuple[str, str]]


def told(problems: Iterable[Problem]) -> Told:
    """Rules and places."""
    return [(one.rule, one.pointer) for one in problems]


def library(*names: str) -> Library:
    """The ontologies of these files, whatever is wrong with them."""
    return load([DATA / name for name in names], strict=False)


def ontology(id: str = "test", *extends: str, **parts: Any) -> dict[str, Any]:
    """An ontology."""
    head: dict[str, Any] = {"id": id, "version": "1.0.0"}
    if extends:
        head["extends"] = list(extends)
    return {"ontology": head, **parts}


def of(*documents: dict[str, Any]) -> Library:
    """These ontologies, as JSON, whatever is wrong with them."""
    return load([json.dumps(one).encode() for one in documents], strict=False)


def only(*documents: dict[str, Any]) -> Known:
    """The first of these ontologies."""
    return of(*documents).known[0]


def kind(name: str, **parts: Any) -> dict[str, Any]:
    """A type of entities."""
    return {"name": name, "base": "semantic", **parts}


def memory(
    id: str = "test", entity: dict[str, Any] | None = None, **members: Any
) -> dict[str, Any]:
    """A memory of shape 0.1 that names an ontology."""
    made = {
        "@context": "https://mif-spec.dev/schema/context.jsonld",
        "@type": "Memory",
        "@id": "urn:mif:memory:one",
        "memoryType": "semantic",
        "content": "Invented.",
        "created": "2026-01-26T10:00:00Z",
        "ontology": {"@type": "OntologyReference", "id": id},
        **members,
    }
    return made if entity is None else {**made, "entity": entity}
