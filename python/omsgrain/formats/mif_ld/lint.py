# SPDX-License-Identifier: Apache-2.0
"""Warns of likely mistakes that the published schemas accept.

Some warnings follow the format's reference, which is stricter than the schemas: five entity types,
nine relationship types, durations, semantic versions, required members.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from posixpath import dirname, normpath
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

from omsgrain.formats import times
from omsgrain.formats.mif_ld import schema, temporal
from omsgrain.formats.mif_ld.defects import ENTITIES, RELATIONS, LintFinding, Way, warning
from omsgrain.formats.mif_ld.markdown import URN
from omsgrain.formats.mif_ld.records import LOCAL, Kind, Shape, relations_of
from omsgrain.formats.records import object_of, objects_at

RANGES: Final[dict[str, tuple[float, float]]] = {
    "user_explicit": (0.90, 1.00),
    "user_implicit": (0.70, 0.89),
    "agent_inferred": (0.50, 0.69),
    "external_import": (0.30, 0.70),
    "system_generated": (0.20, 0.50),
}
"""Source -> range of its confidence. Spec: MIF 0.1 §12.1"""
_SEMANTIC: Final = re.compile(
    r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
)
_LATER: Final = frozenset(("derivedfrom", "supersedes", "cites"))
"""Relationships whose target must be older."""
_FORM: Final = re.compile(
    r"(?:\.memory\.md|\.md|\.mif\.jsonld|\.memory\.json|\.jsonld|\.json)$", re.IGNORECASE
)
_Warnings = Iterator[LintFinding]
_Place = TypeVar("_Place")


def warnings(document: Any, kind: Kind, shape: Shape | None) -> _Warnings:
    if not isinstance(document, dict):
        return
    if "$schema" in document and kind != "ontology":
        yield warning("MIF-REF", ("$schema",), "is not followed", document["$schema"])
    if kind == "memory":
        yield from _memory(document, shape)
    elif kind == "entity-reference":
        yield from _entity(document, ())
    elif kind == "citation":
        yield from _authors(document, ())
    elif kind == "ontology":
        yield from _ontology(document)


class Dated(NamedTuple):
    id: str | None  # its ``@id``
    created: str | None  # when it was created
    file: str | None = None  # the path of its file, with slashes, if it has one
    # the memories that it derives from, with the index of the relationship
    sources: tuple[tuple[int, str], ...] = ()


def dated(memory: Any, file: str | None = None) -> Dated:
    """Return the members to compare; empty for anything that is not an object."""
    if not isinstance(memory, dict):
        return Dated(None, None)
    id, created = (
        said if isinstance(said := memory.get(name), str) else None for name in ("@id", "created")
    )
    sources = [
        (at, target)
        for at, name, target in relations_of(memory)
        if name.replace("-", "").casefold() in _LATER
    ]
    return Dated(id, created, file, tuple(sources))


def order(records: Iterable[tuple[_Place, Dated]]) -> Iterator[tuple[_Place, LintFinding]]:
    """Yield a warning for each memory that is older than one it derives from.

    Spec: MIF 1.x, temporal order
    """
    listed = list(records)
    made: dict[str, str | None] = {}
    for _, one in listed:
        for name in (one.id, _page(one.file)):
            if name is not None and _is_after(made.setdefault(name, one.created), one.created):
                made[name] = one.created
    for place, one in listed:
        for at, target in one.sources:
            found = next((name for name in _names(target, one.file) if name in made), None)
            if found is None or found in (one.id, _page(one.file)):
                continue
            if _is_after(made[found], one.created):
                says = "names a memory that is newer than this one"
                yield place, warning("MIF-ORDER", ("relationships", at), says, None)


def _page(path: str | None) -> str | None:
    """Remove the suffix of a path: /a/session.md and a/session.jsonld are the same memory.

    None if there is no path, or it leads out of its bundle.
    """
    bare = "" if path is None else normpath(path.lstrip("/"))
    return None if path is None or bare.split("/")[0] == ".." else f"/{_FORM.sub('', bare)}"


def _names(target: str, file: str | None) -> Iterator[str]:
    """Yield the possible names of a relationship's target: a URN, or paths in its bundle.

    The bundle's root is the highest directory above the file in which the path leads to a known
    memory.
    """
    if target.startswith(URN) or "://" in target:
        yield target
        return
    path = unquote(target.partition("#")[0])
    above = dirname(file or "")
    if not path.startswith("/"):
        yield from filter(None, [_page(f"{above}/{path}")])
        return
    parts = [part for part in above.split("/") if part]
    for depth in range(len(parts) + 1):
        yield from filter(None, [_page("/".join((*parts[:depth], path.lstrip("/"))))])
    yield URN + _FORM.sub("", path.lstrip("/"))  # corpus records have no path


def _memory(memory: dict[str, Any], shape: Shape | None) -> _Warnings:
    if memory.get("@id") == URN:
        yield warning("MIF-ID", ("@id",), "has no name after urn:mif:", memory["@id"])
    content = memory.get("content")
    if isinstance(content, str) and content and not content.strip():
        yield warning("MIF-EMPTY", ("content",), "is blank", content)
    both = "memoryType" in memory and "conceptType" in memory
    if both and memory["memoryType"] != memory["conceptType"]:
        yield warning(
            "MIF-TYPES", ("memoryType",), "differs from conceptType", memory["memoryType"]
        )
    namespace = memory.get("namespace")
    if isinstance(namespace, str) and namespace.split("/")[0] == LOCAL:
        yield warning("MIF-LOCAL", ("namespace",), "is never exported", namespace)
    if _is_after(memory.get("created"), memory.get("modified")):
        yield warning("MIF-ORDER", ("modified",), "is before created", memory["modified"])
    yield from _temporal(object_of(memory, "temporal"), ("temporal",))
    yield from temporal.order(memory)
    yield from _provenance(object_of(memory, "provenance"))
    yield from _version(object_of(memory, "ontology"), ("ontology", "version"))
    for at, one in objects_at(memory, "entities"):
        yield from _entity(one, ("entities", at))
    for at, one in objects_at(memory, "citations"):
        yield from _authors(one, ("citations", at))
    for at, one in objects_at(memory, "relationships") if shape == "0.1" else ():
        name = one.get("relationshipType")
        if isinstance(name, str) and ":" in name:
            says = f"is not one of {', '.join(RELATIONS)}"
            yield warning("MIF-REL", ("relationships", at, "relationshipType"), says, name,
                        "Other readers may not know it.")  # fmt: skip


def _temporal(temporal: dict[str, Any], way: Way) -> _Warnings:
    start, end = temporal.get("validFrom"), temporal.get("validUntil")
    if _is_after(start, end):
        yield warning("MIF-ORDER", (*way, "validUntil"), "is before validFrom", end)
    decay = object_of(temporal, "decay")
    for name, value, at in (("ttl", temporal.get("ttl"), way),
                            ("halfLife", decay.get("halfLife"), (*way, "decay"))):  # fmt: skip
        if isinstance(value, str) and value.startswith("P") and not schema.duration(value):
            yield warning("MIF-DURATION", (*at, name), "must match format duration", value)
    if "currentStrength" in decay and "strength" in decay:
        says = "is another name of currentStrength, which is also present"
        yield warning("MIF-STRENGTH", (*way, "decay", "strength"), says, decay["strength"])


def _provenance(provenance: dict[str, Any]) -> _Warnings:
    source, confidence = provenance.get("sourceType"), provenance.get("confidence")
    if not isinstance(source, str) or source not in RANGES:
        return
    if not isinstance(confidence, int | float) or isinstance(confidence, bool):
        return
    least, most = RANGES[source]
    if not least <= confidence <= most and 0 <= confidence <= 1:
        says = f"is outside {least:.2f} to {most:.2f}, the range of {source}"
        yield warning("MIF-CONFIDENCE", ("provenance", "confidence"), says, confidence)


def _entity(entity: dict[str, Any], way: Way) -> _Warnings:
    name = entity.get("entityType")
    if isinstance(name, str) and schema.pattern("^[a-z][a-z0-9-]*$").search(name):
        says = f"is not one of {', '.join(ENTITIES)}"
        yield warning("MIF-ENTITY", (*way, "entityType"), says, name,
                    "Only the memory's ontology can define it.")  # fmt: skip


def _authors(citation: dict[str, Any], way: Way) -> _Warnings:
    author = citation.get("author")
    if author == [] and way:
        says = "must NOT have fewer than 1 items"
        yield warning("MIF-EMPTY", (*way, "author"), says, author, "Remove it.")
    if isinstance(author, dict):
        yield from _entity(author, (*way, "author"))
    for at, one in objects_at(citation, "author"):
        yield from _entity(one, (*way, "author", at))


def _version(owner: dict[str, Any], way: Way) -> _Warnings:
    version = owner.get("version")
    if isinstance(version, str) and schema.pattern(r"^\d+\.\d+\.\d+").search(version):
        if not _SEMANTIC.fullmatch(version):
            yield warning("MIF-VERSION", way, "is not a semantic version", version)


def _ontology(ontology: dict[str, Any]) -> _Warnings:
    if "ontology" not in ontology:
        yield warning("MIF-MISSING", (), "must have required property 'ontology'", None,
                    "Add ontology with id and version.")  # fmt: skip
    yield from _version(object_of(ontology, "ontology"), ("ontology", "version"))
    for at, one in objects_at(object_of(ontology, "discovery"), "patterns"):
        if "suggest_entity" not in one:
            says = "must have required property 'suggest_entity'"
            yield warning("MIF-MISSING", ("discovery", "patterns", at), says, None,
                        "Add suggest_entity.")  # fmt: skip


def _is_after(first: Any, second: Any) -> bool:
    """Whether both are times and the first is later; a date without time compares by day."""
    if not isinstance(first, str) or not isinstance(second, str):
        return False
    if min(len(first), len(second)) == len("2026-01-26"):
        first, second = first[:10], second[:10]
    one, other = times.parse(first, floating=True), times.parse(second, floating=True)
    return one is not None and other is not None and one > other
