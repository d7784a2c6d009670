# SPDX-License-Identifier: Apache-2.0
"""Checks the parts of an ontology against each other and against the ontologies it extends.

It reports only the ontology itself; an extended ontology has its own report.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from omsgrain.errors import library
from omsgrain.formats.json_text import kind_of, pointer_to
from omsgrain.formats.mif_ld.schema import FORMATS
from omsgrain.formats.ontology.model import (
    PATHS,
    EntityType,
    OntologyScope,
    choose_namespace,
    fold_name,
    namespace_at,
    ordered,
    reached,
    said,
)
from omsgrain.formats.problems import MOST as MOST_PROBLEMS
from omsgrain.formats.problems import Problem
from omsgrain.formats.records import objects_at

_SHOWN: Final = 200

RULES: Final[dict[str, str]] = {
    # an ontology
    "ONT-CYCLE": "the ontologies or traits extend one another in a circle",
    "ONT-TWICE": "two different ontologies have the same id and version",
    "ONT-CONFLICT": "two traits define the field differently, and nothing overrides it",
    "ONT-SUBTYPE-UNKNOWN": "the parent type is unknown",
    "ONT-SUBTYPE-SELF": "the type is a subtype of itself",
    "ONT-SUBTYPE-CYCLE": "the types are subtypes of one another in a circle",
    "ONT-SUBTYPE-REQUIRED": "the subtype does not require a field that its parent requires",
    "ONT-LARGE": "the ontology exceeds a limit",
    # an entity
    "ENT-ONTOLOGY": "the ontology is not loaded",
    "ENT-TYPE": "the ontology does not define the entity type",
    "ENT-BASE": "the memory's type differs from that of its entity type",
    "ENT-MISSING": "a field that the entity type requires is missing",
    "ENT-FIELD": "the field does not match its trait or entity type",
    "ENT-REQUIRES": "the memory lacks a member that a trait requires",
    "ENT-END": "the relationship does not allow these types",
}

WARNINGS: Final[dict[str, str]] = {
    # an ontology
    "ONT-EMPTY": "the ontology is empty",
    "ONT-EXTENDS": "the extended ontology is not loaded",
    "ONT-REDEFINED": "two ontologies define it differently, and neither extends the other",
    "ONT-TYPE-TWICE": "the type is defined twice; the first definition counts",
    "ONT-TRAIT": "the trait is unknown",
    "ONT-TYPE": "the entity type is unknown",
    "ONT-NAMESPACE": "the namespace is unknown",
    "ONT-NAME": "the relationship's name is another relationship's name in a different spelling",
    "ONT-RETYPED": "the field has another type in the parent type",
    "ONT-REQUIRED": "the field is required, but neither the type nor a trait defines it",
    "ONT-SCHEMA": "the field's schema is invalid: the field is not checked",
    "ONT-REGEX": "the regular expression is invalid: it is not used",
    "ONT-PATTERN": "the pattern can match nothing, or suggests nothing",
    # an entity
    "ENT-NONE": "the entity has no ontology or no type: it is not checked",
    "ENT-UNKNOWN": "neither the entity type nor a trait defines the field",
    "ENT-NAMESPACE": "the ontology does not have the namespace",
    "ENT-REPLACED": "the ontology replaces this namespace by another",
}


DEPTH: Final = 128
"""Nesting of a value. The validator recurses."""

_PROGRAM: Final = 256 << 10  # bytes of a compiled pattern
_REFERENCES: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))


class SchemaFault(ValueError):
    """The schema is invalid."""


def check_schema(schema: Any) -> None:
    """Raise SchemaFault if a schema is invalid."""
    _validator(_text(schema))


def breaches(schema: Any, value: Any) -> Iterator[tuple[list[str | int], str, str]]:
    """Yield a value's defects: the path in it, the schema keyword, and what that requires.

    An invalid schema yields nothing.
    """
    if _is_deep(value):
        yield [], "depth", f"at most {DEPTH} levels of objects and arrays"
        return
    try:
        validator = _validator(_text(schema))
    except SchemaFault:
        return
    try:
        for error in validator.iter_errors(value):
            keyword = str(error.kind.name)
            rules = value_at(schema, error.schema_path)
            yield list(error.instance_path), keyword, _asks(keyword, rules)
    except ValueError:  # a value that JSON cannot represent
        yield [], "type", "a JSON value"


def _text(schema: Any) -> str:
    if _is_deep(schema):
        raise SchemaFault
    waiting = [schema]
    for one in waiting:
        if isinstance(one, dict):
            if not _REFERENCES.isdisjoint(one):
                raise SchemaFault
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return json.dumps(schema)


def _is_deep(value: Any) -> bool:
    """Whether a value is nested too deeply; goes level by level, without recursion."""
    level = [value]
    for _ in range(DEPTH + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


@lru_cache(maxsize=4096)
def _validator(text: str) -> Any:
    jsonschema_rs = library("formats", "jsonschema_rs", "jsonschema-rs is not installed")
    options = jsonschema_rs.RegexOptions(size_limit=_PROGRAM, dfa_size_limit=_PROGRAM * 8)
    try:
        return jsonschema_rs.Draft202012Validator(
            json.loads(text),
            formats=FORMATS,
            validate_formats=True,
            pattern_options=options,
            offline=True,
        )
    except ValueError as error:
        raise SchemaFault from error


def value_at(value: Any, way: Iterable[Any]) -> Any:
    """The value at a path; None if there is none, as in a schema behind a reference."""
    for key in way:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _asks(keyword: str, rules: Any) -> str:
    text = json.dumps(rules, ensure_ascii=True)
    return f"{keyword} {text}" if rules is not None and len(text) <= 200 else keyword


MOST: Final = 300_000
"""Inherited fields of all traits and types of an ontology. They limit the memory use."""


class OntologyField(NamedTuple):
    schema: Any  # its schema
    trait: str | None  # the defining trait; None if the type defines it
    ontology: str  # the id of the defining ontology
    pointer: str  # the field's JSON pointer in that ontology
    # equal definitions elsewhere. A trait can override one of them and not the others
    also: tuple[OntologyField, ...] = ()


class Composed(NamedTuple):
    fields: Mapping[str, OntologyField]  # by name
    # the definitions of each conflicting field, by name
    conflicts: Mapping[str, tuple[OntologyField, ...]]
    # members that a memory must have, with the trait that requires each
    requires: Mapping[str, str]


class Traits:
    """The visible traits of an ontology, with inherited fields."""

    def __init__(self, scope: OntologyScope) -> None:
        self._traits = scope.traits
        self._left = MOST
        self.is_full = False  # whether fields were skipped because of the limit
        self._of: dict[str, Composed] = {}
        self._merged: dict[tuple[str, ...], Composed] = {}
        self._types: dict[str, Composed] = {}
        self._reach: dict[str, frozenset[str]] = {}
        self._known: dict[str, tuple[str, ...]] = {}  # the known traits that each extends
        order, self.cycles = ordered(self._traits, self._uppers)
        for name in order:
            trait = self._traits[name]
            whole = self._below(
                self._merge(trait.extends),
                trait.fields,
                name,
                trait.ontology,
                f"{trait.pointer}/fields",
            )
            if trait.requires:
                requires = {**whole.requires, **dict.fromkeys(trait.requires, name)}
                whole = whole._replace(requires=requires)
            self._of[name] = whole

    def of_trait(self, name: str) -> Composed:
        return self._of.get(name, _NOTHING)

    def of_type(self, one: EntityType) -> Composed:
        if one.name not in self._types:
            whole, place = self._merge(one.traits), f"{one.pointer}/schema/properties"
            self._types[one.name] = self._below(whole, one.properties, None, one.ontology, place)
        return self._types[one.name]

    def clashes(
        self, whole: Composed, names: Iterable[str]
    ) -> Mapping[str, tuple[OntologyField, ...]]:
        """The conflicts that arise here and in none of the named traits."""
        if not whole.conflicts:
            return whole.conflicts
        before = {key for name in names for key in self.of_trait(name).conflicts}
        return {key: some for key, some in whole.conflicts.items() if key not in before}

    def _below(
        self,
        above: Composed,
        own: Mapping[str, Any],
        trait: str | None,
        ontology: str,
        pointer: str,
    ) -> Composed:
        """Merge inherited fields with own ones, which override them."""
        if not own:
            return above  # shared, because it can be large
        above = above if self._can(above) else _NOTHING
        made = {
            key: OntologyField(schema, trait, ontology, pointer + pointer_to((key,)))
            for key, schema in own.items()
        }
        conflicts = {key: some for key, some in above.conflicts.items() if key not in own}
        return Composed({**above.fields, **made}, conflicts, above.requires)

    def _merge(self, names: tuple[str, ...]) -> Composed:
        # Unknown traits and those of a cycle have no fields here.
        listed = [self._of[name] for name in names if name in self._of]
        if len(listed) < 2:
            return listed[0] if listed else _NOTHING
        if names in self._merged:
            return self._merged[names]
        found: dict[str, dict[tuple[str, str], OntologyField]] = {}
        requires: dict[str, str] = {}
        for one in listed:
            if not self._can(one):
                break
            some = [
                *(
                    (key, (field._replace(also=()), *field.also) if field.also else (field,))
                    for key, field in one.fields.items()
                ),
                *one.conflicts.items(),
            ]
            for key, fields in some:
                here = found.setdefault(key, {})
                here.update({(field.ontology, field.pointer): field for field in fields})
            requires.update((key, by) for key, by in one.requires.items() if key not in requires)
        settled = {key: self._settled(tuple(here.values())) for key, here in found.items()}
        self._merged[names] = Composed(
            {key: some[0] for key, some in settled.items() if len(some) == 1},
            {key: some for key, some in settled.items() if len(some) > 1},
            requires,
        )
        return self._merged[names]

    def _can(self, one: Composed) -> bool:
        """Whether the limit allows a copy of these fields."""
        self._left -= len(one.fields) + len(one.requires)
        self._left -= sum(len(field.also) for field in one.fields.values())
        self._left -= sum(len(some) for some in one.conflicts.values())
        self.is_full = self.is_full or self._left < 0
        return self._left >= 0

    def _settled(self, listed: tuple[OntologyField, ...]) -> tuple[OntologyField, ...]:
        """Return one definition if all are equal or one overrides the others; else all."""
        if len(listed) == 1:
            return listed
        over: set[str | None] = set()
        for one in listed:
            over |= self._over(one.trait or "")
        # In a cycle, each trait extends the other, so neither overrides.
        listed = tuple(one for one in listed if one.trait not in over) or listed
        if any(one.schema != listed[0].schema for one in listed):
            return listed
        return (listed[0]._replace(also=listed[1:]),)

    def _over(self, name: str) -> frozenset[str]:
        """Return all traits that a trait extends; empty if the limit is reached."""
        if name not in self._reach:
            above = self._above(name) if self._left > 0 else set()
            self._left -= len(above)
            self.is_full = self.is_full or self._left < 0
            self._reach[name] = frozenset(above)
        return self._reach[name]

    def _above(self, name: str) -> set[str]:
        """Return all traits that a trait extends, without itself.

        It reuses known results: walking from every trait again would take quadratic time.
        """
        found: set[str] = set()
        waiting = [name]
        for one in waiting:
            for upper in self._uppers(one):
                if upper not in found:
                    found.add(upper)
                    known = self._reach.get(upper)
                    if known is None:
                        waiting.append(upper)
                    else:
                        found |= known
        found.discard(name)
        return found

    def _uppers(self, name: str) -> tuple[str, ...]:
        known = self._known.get(name)
        if known is None:
            trait = self._traits.get(name)
            listed = () if trait is None else trait.extends
            known = self._known[name] = tuple(up for up in listed if up in self._traits)
        return known


_NOTHING: Final = Composed({}, {}, {})


ALWAYS: Final = frozenset(("name", "entity_type", "entity_id"))
"""Fields that every entity can have."""
ANY: Final = "*"
"""Allows any type at a relationship's end."""


@dataclass(slots=True)
class Judgement:
    """What is wrong with one ontology or one memory."""

    problems: list[Problem] = field(default_factory=list)  # at most a thousand errors
    warnings: list[Problem] = field(default_factory=list)  # at most a thousand warnings

    @property
    def ok(self) -> bool:
        return not self.problems

    def add(
        self,
        rule: str,
        pointer: str,
        says: str = "",
        *,
        expected: str | None = None,
        found: object = None,
    ) -> None:
        """Add an error or a warning, depending on the rule."""
        into = self.problems if rule in RULES else self.warnings
        if len(into) >= MOST_PROBLEMS:
            return
        words = RULES.get(rule) or WARNINGS[rule]
        if len(says) > _SHOWN:  # a list of names may be of any length
            says = f"{says[: _SHOWN - 1]}…"
        message = f"{says}: {words}" if says else words
        kind = None if found is None else kind_of(found)
        into.append(Problem(rule, pointer, message, expected, kind))


def integrity(scope: OntologyScope, traits: Traits, report: Judgement) -> None:
    _extends(scope, report)
    _traits(scope, traits, report)
    _types(scope, traits, report)
    _subtypes(scope, report)
    _entity_fields(scope, report)
    _relations(scope, report)
    _suggestions(scope, report)


def _extends(scope: OntologyScope, report: Judgement) -> None:
    own = scope.ontology
    if own.is_cut:
        report.add("ONT-LARGE", "/namespaces", expected=f"at most {PATHS} characters of paths")
    for at, name in enumerate(own.extends):
        if name in scope.missing:
            report.add("ONT-EXTENDS", f"/ontology/extends/{at}", name)
    cycles = [cycle for cycle in scope.cycles if own.id in cycle]
    if cycles:
        report.add("ONT-CYCLE", "/ontology/extends", said(cycles[0]))
    # The report of an extended ontology has its own redefinitions.
    seen = [set(reached(upper, _uppers(scope))) for upper in own.extends]
    for one, other in scope.redefined:
        mine = one.name in own.traits or one.name in own.types or one.name in own.relations
        if not mine and not any({one.ontology, other.ontology} <= some for some in seen):
            report.add("ONT-REDEFINED", "/ontology/extends",
                      f"{one.name!r} of {one.ontology} and of {other.ontology}")  # fmt: skip


def _uppers(scope: OntologyScope) -> Any:
    by_id = {one.id: one for one in scope.order}
    return lambda name: [up for up in by_id[name].extends if up in by_id] if name in by_id else []


def _traits(scope: OntologyScope, traits: Traits, report: Judgement) -> None:
    own = scope.ontology.traits
    for cycle in traits.cycles:
        first = next((name for name in cycle if name in own), None)
        if first is not None:
            report.add("ONT-CYCLE", f"{own[first].pointer}/extends",
                      said(cycle))  # fmt: skip
    for name, trait in own.items():
        for at, upper in enumerate(trait.extends):
            if upper not in scope.traits:
                report.add("ONT-TRAIT", f"{trait.pointer}/extends/{at}", repr(upper))
        found = traits.clashes(traits.of_trait(name), trait.extends)
        _conflicts(found, f"{trait.pointer}/extends", report)


def _types(scope: OntologyScope, traits: Traits, report: Judgement) -> None:
    names: set[str] = set()
    for at, raw in objects_at(scope.ontology.document, "entity_types"):
        name = raw.get("name")
        if isinstance(name, str):
            if name in names:
                report.add("ONT-TYPE-TWICE", f"/entity_types/{at}/name", repr(name))
            names.add(name)
    for one in scope.ontology.types.values():
        for at, trait in enumerate(one.traits):
            if trait not in scope.traits:
                report.add("ONT-TRAIT", f"{one.pointer}/traits/{at}", repr(trait))
        whole = traits.of_type(one)
        _conflicts(traits.clashes(whole, one.traits), f"{one.pointer}/traits", report)
        if whole.fields or not one.traits:  # else an unknown trait can define the field
            for at, name in enumerate(one.required):
                if name not in whole.fields and name not in ALWAYS and name not in whole.conflicts:
                    report.add("ONT-REQUIRED", f"{one.pointer}/schema/required/{at}", repr(name))
    if traits.is_full:
        report.add("ONT-LARGE", "/traits", expected=f"at most {MOST} fields, inherited ones too")


def _conflicts(found: Any, pointer: str, report: Judgement) -> None:
    for name, listed in found.items():
        sources = [f"the trait {one.trait!r} ({one.ontology}{one.pointer})" for one in listed]
        report.add("ONT-CONFLICT", pointer, f"{name!r} of {' and '.join(sources)}")


def _subtypes(scope: OntologyScope, report: Judgement) -> None:
    own, types = scope.ontology.types, scope.types
    _, cycles = ordered(own, lambda n: [up for up in scope.parents(n) if up != n and up in own])
    round_about = set()
    for cycle in cycles:
        round_about.update(cycle)
        report.add("ONT-SUBTYPE-CYCLE", f"{own[cycle[0]].pointer}/subtype_of",
                  said(cycle))  # fmt: skip
    for one in own.values():
        for at, name in enumerate(one.subtype_of):
            pointer = f"{one.pointer}/subtype_of/{at}"
            if name == one.name:
                report.add("ONT-SUBTYPE-SELF", pointer, repr(name))
            elif name not in types:
                report.add("ONT-SUBTYPE-UNKNOWN", pointer, repr(name))
            elif not {one.name, name} <= round_about:
                _against(one, types[name], pointer, report)


def _against(one: EntityType, parent: EntityType, pointer: str, report: Judgement) -> None:
    for name in dict.fromkeys(parent.required):
        if name not in one.required:
            report.add("ONT-SUBTYPE-REQUIRED", pointer, f"{name!r} of {parent.name!r}")
    for name, schema in one.properties.items():
        other = parent.properties.get(name)
        kinds = [part.get("type") for part in (schema, other) if isinstance(part, dict)]
        if len(kinds) == 2 and None not in kinds and kinds[0] != kinds[1]:
            report.add(
                "ONT-RETYPED", f"{one.pointer}/schema/properties", f"{name!r} of {one.name!r}"
            )


def _entity_fields(scope: OntologyScope, report: Judgement) -> None:
    places = [(f"{one.pointer}/fields", one.fields) for one in scope.ontology.traits.values()]
    places += [
        (f"{one.pointer}/schema/properties", one.properties)
        for one in scope.ontology.types.values()
    ]
    for pointer, listed in places:
        for name, schema in listed.items():
            try:
                check_schema(schema)
            except SchemaFault:
                report.add("ONT-SCHEMA", pointer + pointer_to((name,)), repr(name))


def _relations(scope: OntologyScope, report: Judgement) -> None:
    folded: dict[str, str] = {}
    for name, one in scope.ontology.relations.items():
        before = folded.setdefault(fold_name(name), name)
        if before != name:
            report.add("ONT-NAME", one.pointer, f"{name!r} and {before!r}")
        for end, listed in (("from", one.sources), ("to", one.targets)):
            for at, wanted in enumerate(listed):
                if wanted != ANY and wanted not in scope.types:
                    report.add("ONT-TYPE", f"{one.pointer}/{end}/{at}", repr(wanted))


def _suggestions(scope: OntologyScope, report: Judgement) -> None:
    for group in ("patterns", "content_patterns", "file_patterns"):
        for at, one in objects_at(scope.ontology.discovery, group):
            pointer = f"/discovery/{group}/{at}"
            entity = one.get("suggest_entity")
            if isinstance(entity, str) and entity not in scope.types:
                report.add("ONT-TYPE", f"{pointer}/suggest_entity", repr(entity))
            for key in ("suggest_namespace", "namespace", "namespaces"):
                paths = one.get(key)
                for path in paths if isinstance(paths, list) else [paths]:
                    if not isinstance(path, str) or namespace_at(scope, path) is not None:
                        continue
                    if namespace_at(scope, choose_namespace(scope, path)) is None:
                        report.add("ONT-NAMESPACE", f"{pointer}/{key}", repr(path))
