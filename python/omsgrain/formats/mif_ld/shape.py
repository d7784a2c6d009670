# SPDX-License-Identifier: Apache-2.0
"""Which kind of document it is, and of which shape: told by what is in it, never by its name.

A memory of shape 0.1 is no memory of shape 1.x, nor the other way round: a member that only one of
them can have says which it is. Where both could be, ``conceptType`` makes it 1.x.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

__all__ = ["KINDS", "MEMORY_TYPES", "SHAPES", "Kind", "Shape", "kind_of", "shape_of", "telling"]

Shape = Literal["0.1", "1.x"]
Kind = Literal["memory", "citation", "entity-reference", "ontology", "corpus"]
SHAPES: Final[tuple[Shape, ...]] = ("0.1", "1.x")
KINDS: Final[tuple[Kind, ...]] = (
    "memory", "citation", "entity-reference", "ontology", "corpus"
)  # fmt: skip
MEMORY_TYPES: Final = ("semantic", "episodic", "procedural")

_BY_TYPE: Final[dict[str, Kind]] = {
    "MemoryCorpus": "corpus",
    "Memory": "memory",
    "Concept": "memory",
    "Citation": "citation",
    "EntityReference": "entity-reference",
    "mif:Ontology": "ontology",
}
_OF_MEMORY: Final = ("@id", "memoryType", "conceptType", "content", "created")
_OF_ONTOLOGY: Final = ("ontology", "entity_types", "namespaces", "traits", "discovery")


def kind_of(document: Any) -> Kind | None:
    """What kind of document it is; None if it says nothing that is known."""
    if not isinstance(document, dict):
        return None
    said = document.get("@type")
    for name in said if isinstance(said, list) else [said]:
        if isinstance(name, str) and name in _BY_TYPE:
            return _BY_TYPE[name]
    if "citationType" in document or "citationRole" in document:
        return "citation"
    if not document.keys().isdisjoint(_OF_MEMORY):
        return "memory"
    if not document.keys().isdisjoint(_OF_ONTOLOGY):
        return "ontology"
    if "entityType" in document or _is_entity(document.get("entity")):
        return "entity-reference"
    return None


def _is_entity(value: Any) -> bool:
    return isinstance(value, dict) and "@id" in value


def shape_of(document: dict[str, Any]) -> Shape:
    """The shape of a memory; of one with members of both, what the first of them says."""
    for told, _ in telling(document):
        return told
    return "1.x" if "conceptType" in document else "0.1"


def telling(document: dict[str, Any]) -> Iterator[tuple[Shape, tuple[str | int, ...]]]:
    """The members that only one shape can have: that, and where they stand, as ways of keys."""
    old, new = "memoryType" in document, "conceptType" in document
    if old != new:
        yield ("0.1", ("memoryType",)) if old else ("1.x", ("conceptType",))
    said = document.get("@type")
    names = said if isinstance(said, list) else [said]
    if "Concept" in names and "Memory" not in names:
        yield "1.x", ("@type",)
    elif isinstance(said, list) and "Memory" in said and "Concept" not in said:
        yield "0.1", ("@type",)
    listed = document.get("relationships")
    for at, one in enumerate(listed) if isinstance(listed, list) else ():
        if isinstance(one, dict):
            shape = _of_relationship(one)
            if shape is not None:
                yield shape, ("relationships", at)


def _of_relationship(one: dict[str, Any]) -> Shape | None:
    old = "relationshipType" in one or one.get("@type") == "Relationship"
    new = "type" in one
    if old != new:
        return "0.1" if old else "1.x"
    target = one.get("target")
    if isinstance(target, dict):
        return "0.1"
    return "1.x" if isinstance(target, str) else None
