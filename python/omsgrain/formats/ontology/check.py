# SPDX-License-Identifier: Apache-2.0
"""A memory's entity, judged by the ontology that the memory names.

Members of memories of both shapes are read: ``memoryType`` and ``conceptType``,
``relationshipType`` and ``type``. What the schema of memories refuses is not told here again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from omsgrain.formats.ontology.integrity import ALWAYS, ANY, Faults, breaches
from omsgrain.formats.ontology.load import Known, Library
from omsgrain.formats.ontology.model import (
    BASES,
    EntityType,
    choose_namespace,
    fold_name,
    namespace_at,
    reached,
    replacement,
)
from omsgrain.formats.problems import MOST, Problem, pointer_to

Document = Mapping[str, Any]
_NONE: Final[dict[str, Any]] = {}
_NAME: Final = re.compile("[a-z][a-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found.

    Attributes:
        problems: the errors, at most a thousand.
        warnings: what is accepted with a warning; at most a thousand.
    """

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.problems


def judge_entity(
    document: Document,
    library: Library,
    *,
    ontology: str | None = None,
    others: Mapping[str, Document] | None = None,
) -> Judgement:
    """Judge a memory's entity, namespace and relationships.

    Args:
        document: a memory.
        library: the ontologies.
        ontology: the id of the one for memories that name none.
        others: memories by ``@id``. The far ends of relationships are known of these only, and
            others are not judged.
    """
    told = Faults()
    reference = _object(document.get("ontology"))
    entity = document.get("entity")
    name = reference.get("id", ontology)
    if not isinstance(name, str):
        if isinstance(entity, dict) and "entity_type" in entity:
            told.tell("ENT-NONE", "/entity", "it names no ontology")
        return _judgement(told)
    version = reference.get("version")
    known = library.get(name, version if isinstance(version, str) else None)
    if known is None:
        at, says = "/ontology/id", _named(name)
        if library.get(name) is not None:
            at, says = "/ontology/version", f"{name}, in this version"
        told.tell("ENT-ONTOLOGY", at if "id" in reference else "/ontology", says)
        return _judgement(told)
    kind = None
    if isinstance(entity, dict):
        kind = _entity(document, entity, known, told)
    _namespace(document, known, told)
    if kind is not None:
        _relationships(document, kind, known, others or {}, told)
    return _judgement(told)


def _named(name: str) -> str:
    """An unknown name, if it looks like a name: a memory may have any text there."""
    return repr(name) if _NAME.fullmatch(name) else ""


def _judgement(told: Faults) -> Judgement:
    return Judgement(tuple(told.problems[:MOST]), tuple(told.warnings[:MOST]))


def _entity(document: Document, entity: Document, known: Known, told: Faults) -> str | None:
    """Judge the entity by its type; the name of that, if it is known."""
    name = entity.get("entity_type")
    if not isinstance(name, str):
        told.tell("ENT-NONE", "/entity", "it has no entity_type")
        return None
    one = known.scope.parts.types.get(name)
    if one is None:
        told.tell("ENT-TYPE", "/entity/entity_type", _named(name))
        return None
    own = _type_of(document)
    if own is not None and one.base is not None and own != one.base:
        at = "/conceptType" if "conceptType" in document else "/memoryType"
        told.tell("ENT-BASE", at, f"{one.name!r}", expected=one.base, found=own)
    _fields(document, entity, one, known, told)
    return name


def _type_of(document: Document) -> str | None:
    value = document.get("conceptType", document.get("memoryType"))
    return value if value in BASES else None


def _fields(
    document: Document, entity: Document, one: EntityType, known: Known, told: Faults
) -> None:
    whole = known.traits.of_type(one)
    allowed = ALWAYS | whole.conflicts.keys() | _above(one, known)
    for name in dict.fromkeys(one.required):
        if name not in entity:
            told.tell("ENT-MISSING", "/entity", f"{name!r} of the type {one.name!r}",
                      expected=name)  # fmt: skip
    for name, value in entity.items():
        field = whole.fields.get(name)
        if field is None:
            if name not in allowed:
                told.tell("ENT-UNKNOWN", pointer_to(("entity", name)))
            continue
        of = f"the trait {field.trait!r}" if field.trait else f"the type {one.name!r}"
        for way, _, asked in breaches(field.schema, value):
            pointer = pointer_to(("entity", name, *way))
            there = value if not way else _at(value, way)
            told.tell("ENT-FIELD", pointer, f"{name!r} of {of}", expected=asked, found=there)
    for member, trait in whole.requires.items():
        if not _has(document, member):
            told.tell("ENT-REQUIRES", "", f"{member!r}, which the trait {trait!r} requires",
                      expected=member)  # fmt: skip


def _above(one: EntityType, known: Known) -> set[str]:
    """Fields of the types in whose place it may stand: a subtype repeats what it requires."""
    types = known.scope.parts.types
    names: set[str] = set()
    for upper in reached(one.name, known.scope.parents)[1:]:
        names.update(known.traits.of_type(types[upper]).fields)
    return names


def _has(document: Document, member: str) -> bool:
    """Whether a member is there; one inside another is named with a point."""
    value: Any = document
    for key in [member] if member in document else member.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True


def _at(value: Any, way: list[str | int]) -> Any:
    for key in way:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _namespace(document: Document, known: Known, told: Faults) -> None:
    path = document.get("namespace")
    if not isinstance(path, str) or not known.scope.parts.namespaces:
        return
    if replacement(known.scope, path) is not None:
        told.tell("ENT-REPLACED", "/namespace", expected=choose_namespace(known.scope, path))
    elif namespace_at(known.scope, path) is None:
        told.tell("ENT-NAMESPACE", "/namespace")


def _relationships(
    document: Document, kind: str, known: Known, others: Mapping[str, Document], told: Faults
) -> None:
    for at, name, target in _related(document):
        one = known.scope.parts.relations.get(fold_name(name))
        if one is None:
            continue
        far = _object(_object(others.get(target)).get("entity")).get("entity_type")
        if not isinstance(far, str) or far not in known.scope.parts.types:
            far = None
        pointer = pointer_to(("relationships", at))
        ways = [(one.sources, one.targets)]
        if one.symmetric:
            ways.append((one.targets, one.sources))
        if any(
            _admits(known, near_end, kind) and _admits(known, far_end, far)
            for near_end, far_end in ways
        ):
            continue
        near = any(_admits(known, near_end, kind) for near_end, _ in ways)
        wanted = sorted({name for pair in ways for name in pair[1 if near else 0]})
        says = f"{one.name!r} {'to' if near else 'from'} {far if near else kind!r}"
        told.tell("ENT-END", pointer, says, expected=", ".join(wanted)[:200])


def _admits(known: Known, ends: tuple[str, ...], kind: str | None) -> bool:
    """Whether a type may stand at an end; one that is not known may."""
    if kind is None or not ends or ANY in ends:
        return True
    return not set(reached(kind, known.scope.parents)).isdisjoint(ends)


def _related(document: Document) -> Iterator[tuple[int, str, str]]:
    """The relationships of a memory of either shape: place, type, and ``@id`` of the target."""
    listed = document.get("relationships")
    for at, one in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(one, dict):
            continue
        name = one.get("relationshipType", one.get("type"))
        target = one.get("target")
        if isinstance(target, dict):
            target = target.get("@id")
        if isinstance(name, str) and isinstance(target, str):
            yield at, name, target


def _object(value: Any) -> Document:
    return value if isinstance(value, Mapping) else _NONE
