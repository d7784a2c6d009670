# SPDX-License-Identifier: Apache-2.0
"""What is wrong between the parts of an ontology, and between it and what it extends.

Only what stands in the ontology itself is told; what it extends has its own report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from omsgrain.formats.ontology import schemas
from omsgrain.formats.ontology.compose import Scope, fold_name
from omsgrain.formats.ontology.graph import ordered, reached, said
from omsgrain.formats.ontology.model import PATHS, EntityType
from omsgrain.formats.ontology.namespaces import choose_namespace, namespace_at
from omsgrain.formats.ontology.rules import RULES, problem
from omsgrain.formats.ontology.traits import MOST, Field, Traits
from omsgrain.formats.problems import MOST as MOST_TOLD
from omsgrain.formats.problems import Problem

__all__ = ["ALWAYS", "ANY", "Faults", "integrity"]

ALWAYS: Final = frozenset(("name", "entity_type", "entity_id"))
"""Fields that every entity can have."""
ANY: Final = "*"
"""Any type, at an end of a relationship."""


@dataclass(slots=True)
class Faults:
    """Errors and warnings of one file."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def tell(self, rule: str, pointer: str, says: str = "", **more: Any) -> None:
        """Add one, as its rule has it."""
        into = self.problems if rule in RULES else self.warnings
        if len(into) < MOST_TOLD:
            into.append(problem(rule, pointer, says, **more))


def integrity(scope: Scope, traits: Traits, told: Faults) -> None:
    """Find all of it.

    Args:
        scope: the ontology.
        traits: of it, put together.
        told: what becomes longer.
    """
    _extends(scope, told)
    _traits(scope, traits, told)
    _types(scope, traits, told)
    _subtypes(scope, told)
    _fields(scope, told)
    _relations(scope, told)
    _suggestions(scope, told)


def _extends(scope: Scope, told: Faults) -> None:
    own = scope.ontology
    if own.is_cut:
        told.tell("ONT-LARGE", "/namespaces", expected=f"at most {PATHS} characters of paths")
    for at, name in enumerate(own.extends):
        if name in scope.missing:
            told.tell("ONT-EXTENDS", f"/ontology/extends/{at}", name)
    cycles = [cycle for cycle in scope.cycles if own.id in cycle]
    if cycles:
        told.tell("ONT-CYCLE", "/ontology/extends", said(cycles[0]))
    # What one of those it extends sees already was told there.
    seen = [set(reached(upper, _uppers(scope))) for upper in own.extends]
    for one, other in scope.redefined:
        mine = one.name in own.traits or one.name in own.types or one.name in own.relations
        if not mine and not any({one.ontology, other.ontology} <= some for some in seen):
            told.tell("ONT-REDEFINED", "/ontology/extends",
                      f"{one.name!r} of {one.ontology} and of {other.ontology}")  # fmt: skip


def _uppers(scope: Scope) -> Any:
    by_id = {one.id: one for one in scope.order}
    return lambda name: [up for up in by_id[name].extends if up in by_id] if name in by_id else []


def _traits(scope: Scope, traits: Traits, told: Faults) -> None:
    own = scope.ontology.traits
    for cycle in traits.cycles:
        first = next((name for name in cycle if name in own), None)
        if first is not None:
            told.tell("ONT-CYCLE", f"{own[first].pointer}/extends",
                      said(cycle))  # fmt: skip
    for name, trait in own.items():
        for at, upper in enumerate(trait.extends):
            if upper not in scope.parts.traits:
                told.tell("ONT-TRAIT", f"{trait.pointer}/extends/{at}", repr(upper))
        found = traits.clashes(traits.of_trait(name), trait.extends)
        _conflicts(found, f"{trait.pointer}/extends", told)


def _types(scope: Scope, traits: Traits, told: Faults) -> None:
    listed = scope.ontology.document.get("entity_types")
    names: set[str] = set()
    for at, raw in enumerate(listed if isinstance(listed, list) else ()):
        name = raw.get("name") if isinstance(raw, dict) else None
        if isinstance(name, str):
            if name in names:
                told.tell("ONT-TYPE-TWICE", f"/entity_types/{at}/name", repr(name))
            names.add(name)
    for one in scope.ontology.types.values():
        for at, trait in enumerate(one.traits):
            if trait not in scope.parts.traits:
                told.tell("ONT-TRAIT", f"{one.pointer}/traits/{at}", repr(trait))
        whole = traits.of_type(one)
        _conflicts(traits.clashes(whole, one.traits), f"{one.pointer}/traits", told)
        if whole.fields or not one.traits:  # else a trait that is not known may define it
            for at, name in enumerate(one.required):
                if name not in whole.fields and name not in ALWAYS and name not in whole.conflicts:
                    told.tell("ONT-REQUIRED", f"{one.pointer}/schema/required/{at}", repr(name))
    if traits.is_full:
        told.tell("ONT-LARGE", "/traits", expected=f"at most {MOST} fields, inherited ones too")


def _conflicts(found: Any, pointer: str, told: Faults) -> None:
    for name, listed in found.items():
        told.tell("ONT-CONFLICT", pointer, f"{name!r} of {' and '.join(map(_source, listed))}")


def _source(one: Field) -> str:
    return f"the trait {one.trait!r} ({one.ontology}{one.pointer})"


def _subtypes(scope: Scope, told: Faults) -> None:
    own, types = scope.ontology.types, scope.parts.types
    _, cycles = ordered(own, lambda n: [up for up in scope.parents(n) if up != n and up in own])
    round_about = set()
    for cycle in cycles:
        round_about.update(cycle)
        told.tell("ONT-SUBTYPE-CYCLE", f"{own[cycle[0]].pointer}/subtype_of",
                  said(cycle))  # fmt: skip
    for one in own.values():
        for at, name in enumerate(one.subtype_of):
            pointer = f"{one.pointer}/subtype_of/{at}"
            if name == one.name:
                told.tell("ONT-SUBTYPE-SELF", pointer, repr(name))
            elif name not in types:
                told.tell("ONT-SUBTYPE-UNKNOWN", pointer, repr(name))
            elif not {one.name, name} <= round_about:
                _against(one, types[name], pointer, told)


def _against(one: EntityType, parent: EntityType, pointer: str, told: Faults) -> None:
    for name in dict.fromkeys(parent.required):
        if name not in one.required:
            told.tell("ONT-SUBTYPE-REQUIRED", pointer, f"{name!r} of {parent.name!r}")
    for name, schema in one.properties.items():
        other = parent.properties.get(name)
        kinds = [part.get("type") for part in (schema, other) if isinstance(part, dict)]
        if len(kinds) == 2 and None not in kinds and kinds[0] != kinds[1]:
            told.tell(
                "ONT-RETYPED", f"{one.pointer}/schema/properties", f"{name!r} of {one.name!r}"
            )


def _fields(scope: Scope, told: Faults) -> None:
    places = [(f"{one.pointer}/fields", one.fields) for one in scope.ontology.traits.values()]
    places += [
        (f"{one.pointer}/schema/properties", one.properties)
        for one in scope.ontology.types.values()
    ]
    for pointer, listed in places:
        for name, schema in listed.items():
            try:
                schemas.check(schema)
            except schemas.SchemaFault:
                key = name.replace("~", "~0").replace("/", "~1")
                told.tell("ONT-SCHEMA", f"{pointer}/{key}", repr(name))


def _relations(scope: Scope, told: Faults) -> None:
    folded: dict[str, str] = {}
    for name, one in scope.ontology.relations.items():
        before = folded.setdefault(fold_name(name), name)
        if before != name:
            told.tell("ONT-NAME", one.pointer, f"{name!r} and {before!r}")
        for end, listed in (("from", one.sources), ("to", one.targets)):
            for at, wanted in enumerate(listed):
                if wanted != ANY and wanted not in scope.parts.types:
                    told.tell("ONT-TYPE", f"{one.pointer}/{end}/{at}", repr(wanted))


def _suggestions(scope: Scope, told: Faults) -> None:
    for group in ("patterns", "content_patterns", "file_patterns"):
        listed = scope.ontology.discovery.get(group)
        for at, one in enumerate(listed if isinstance(listed, list) else ()):
            if not isinstance(one, dict):
                continue
            pointer = f"/discovery/{group}/{at}"
            entity = one.get("suggest_entity")
            if isinstance(entity, str) and entity not in scope.parts.types:
                told.tell("ONT-TYPE", f"{pointer}/suggest_entity", repr(entity))
            for key in ("suggest_namespace", "namespace", "namespaces"):
                paths = one.get(key)
                for path in paths if isinstance(paths, list) else [paths]:
                    if not isinstance(path, str) or namespace_at(scope, path) is not None:
                        continue
                    if namespace_at(scope, choose_namespace(scope, path)) is None:
                        told.tell("ONT-NAMESPACE", f"{pointer}/{key}", repr(path))
