# SPDX-License-Identifier: Apache-2.0
"""Checks a memory's entity against the ontology that the memory names.

It reads the members of both shapes: ``memoryType`` and ``conceptType``, ``relationshipType`` and
``type``. It does not repeat the errors of the memory schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from omsgrain.formats.json_text import pointer_to
from omsgrain.formats.mif_ld.records import relations_of
from omsgrain.formats.ontology import model
from omsgrain.formats.ontology.integrity import ALWAYS, ANY, Judgement, breaches, value_at
from omsgrain.formats.ontology.load import Known, Library
from omsgrain.formats.records import object_of

Document = Mapping[str, Any]
_NAME: Final = re.compile("[a-z][a-z0-9-]{0,63}")


def judge_entity(
    document: Document,
    library: Library,
    *,
    ontology: str | None = None,
    others: Mapping[str, Document] | None = None,
) -> Judgement:
    """Check a memory's entity, namespace and relationships.

    Args:
        document: a memory.
        library: the ontologies.
        ontology: the ontology's id for memories that name none.
        others: memories by ``@id``. A relationship's target is checked only if it is among them.
    """
    report = Judgement()
    reference = object_of(document, "ontology")
    entity = document.get("entity")
    name = reference.get("id", ontology)
    if not isinstance(name, str):
        if isinstance(entity, dict) and "entity_type" in entity:
            report.add("ENT-NONE", "/entity", "it names no ontology")
        return report
    version = reference.get("version")
    known = library.get(name, version if isinstance(version, str) else None)
    if known is None:
        at, says = "/ontology/id", _named(name)
        if library.get(name) is not None:
            at, says = "/ontology/version", f"{name}, in this version"
        report.add("ENT-ONTOLOGY", at if "id" in reference else "/ontology", says)
        return report
    kind = None
    if isinstance(entity, dict):
        kind = _entity(document, entity, known, report)
    _namespace(document, known, report)
    if kind is not None:
        _relationships(document, kind, known, others or {}, report)
    return report


def _named(name: str) -> str:
    """Quote an unknown name, but only if it looks like one: it can be any text."""
    return repr(name) if _NAME.fullmatch(name) else ""


def _entity(document: Document, entity: Document, known: Known, report: Judgement) -> str | None:
    name = entity.get("entity_type")
    if not isinstance(name, str):
        report.add("ENT-NONE", "/entity", "it has no entity_type")
        return None
    one = known.scope.types.get(name)
    if one is None:
        report.add("ENT-TYPE", "/entity/entity_type", _named(name))
        return None
    own = document.get("conceptType", document.get("memoryType"))
    if own in model.BASES and one.base is not None and own != one.base:
        at = "/conceptType" if "conceptType" in document else "/memoryType"
        report.add("ENT-BASE", at, f"{one.name!r}", expected=one.base, found=own)
    _fields(document, entity, one, known, report)
    return name


def _fields(
    document: Document, entity: Document, one: model.EntityType, known: Known, report: Judgement
) -> None:
    whole = known.traits.of_type(one)
    allowed = ALWAYS | whole.conflicts.keys() | _above(one, known)
    for name in dict.fromkeys(one.required):
        if name not in entity:
            report.add("ENT-MISSING", "/entity", f"{name!r} of the type {one.name!r}",
                      expected=name)  # fmt: skip
    for name, value in entity.items():
        field = whole.fields.get(name)
        if field is None:
            if name not in allowed:
                report.add("ENT-UNKNOWN", pointer_to(("entity", name)))
            continue
        of = f"the trait {field.trait!r}" if field.trait else f"the type {one.name!r}"
        for way, _, asked in breaches(field.schema, value):
            pointer = pointer_to(("entity", name, *way))
            there = value_at(value, way)
            report.add("ENT-FIELD", pointer, f"{name!r} of {of}", expected=asked, found=there)
    for member, trait in whole.requires.items():
        if not _has(document, member):
            report.add("ENT-REQUIRES", "", f"{member!r}, which the trait {trait!r} requires",
                      expected=member)  # fmt: skip


def _above(one: model.EntityType, known: Known) -> set[str]:
    """Return the fields of the parent types: a subtype repeats what they require."""
    types = known.scope.types
    names: set[str] = set()
    for upper in model.reached(one.name, known.scope.parents)[1:]:
        names.update(known.traits.of_type(types[upper]).fields)
    return names


def _has(document: Document, member: str) -> bool:
    """Whether a memory has a member; a dot separates nested names."""
    value: Any = document
    for key in [member] if member in document else member.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True


def _namespace(document: Document, known: Known, report: Judgement) -> None:
    path = document.get("namespace")
    if not isinstance(path, str) or not known.scope.namespaces:
        return
    if model.replacement(known.scope, path) is not None:
        report.add(
            "ENT-REPLACED", "/namespace", expected=model.choose_namespace(known.scope, path)
        )
    elif model.namespace_at(known.scope, path) is None:
        report.add("ENT-NAMESPACE", "/namespace")


def _relationships(
    document: Document, kind: str, known: Known, others: Mapping[str, Document], report: Judgement
) -> None:
    for at, name, target in relations_of(document):
        one = known.scope.relations.get(model.fold_name(name))
        if one is None:
            continue
        far = object_of(others.get(target, {}), "entity").get("entity_type")
        if not isinstance(far, str) or far not in known.scope.types:
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
        report.add("ENT-END", pointer, says, expected=", ".join(wanted)[:200])


def _admits(known: Known, ends: tuple[str, ...], kind: str | None) -> bool:
    if kind is None or not ends or ANY in ends:
        return True
    return not set(model.reached(kind, known.scope.parents)).isdisjoint(ends)
