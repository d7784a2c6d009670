# SPDX-License-Identifier: Apache-2.0
"""The definitions of OMS 1.2: types, fields, short keys, kinds, ranges, profiles.

The core is built from the same table, so these are the rules of ``encode`` and ``decode``. The
table is parsed on first use, not on import.

    >>> from omsgrain import registry
    >>> registry.field("confidence").maximum
    1
    >>> registry.short_key("content", "action")
    'cnt'
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from omsgrain._core import registry_json

__all__ = [
    "ALIASES",
    "FIELDS",
    "INVALIDATION_MODES",
    "LIGHTWEIGHT",
    "MG_RELATIONS",
    "NESTED",
    "OPEN_LICENSES",
    "PHASES",
    "PHI_TAGS",
    "PROFILES",
    "RELATED_TO_RELATION_TYPES",
    "TYPES",
    "Alias",
    "Field",
    "GrainType",
    "NestedField",
    "Phase",
    "Profile",
    "field",
    "short_key",
]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a grain, or of a domain profile.

    Attributes:
        name: the full name.
        short: the key in the payload; for a profile's field, its name.
        kind: ``string``, ``float64``, ``datetime``, ``address``, ``array[did]`` and so on.
        scope: the part of the specification that defines the field, or the profile.
        required: whether every grain must have it.
        enum: the allowed values, if they are listed.
        open_enum: the usual values; others are allowed too.
        minimum: the minimum value.
        maximum: the maximum value.
        index_layer: whether it is part of the status in a store, and never in a blob.
        supersede_only: whether it is allowed only in a grain that supersedes another.
        elidable: whether selective disclosure may hide it.
        nested: the name of the table in ``NESTED`` for its entries.
        since: the OMS version that defines it, if later than 1.2.
        doc: its meaning.
        keys: the known keys of a map, each with its kind.
    """

    name: str
    short: str
    kind: str
    scope: str
    required: bool = False
    enum: tuple[str | int, ...] = ()
    open_enum: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    index_layer: bool = False
    supersede_only: bool = False
    elidable: bool = True
    nested: str | None = None
    since: str | None = None
    doc: str = ""
    keys: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class NestedField:
    """A key in the entries of ``content_refs``, ``embedding_refs`` or ``related_to``."""

    name: str
    short: str
    kind: str
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class GrainType:
    """One of the ten types.

    Attributes:
        byte: the type byte of the header.
        name: the 1.2 name.
        legacy: names of OMS 1.1 that readers accept.
        later: names of later versions that readers accept.
        required: required fields in addition to type and created_at; for an action, see
            ``PHASES``.
        required_any: groups of fields; one group must be complete.
        non_empty: required arrays that must not be empty.
        doc: what the type is for.
    """

    byte: int
    name: str
    legacy: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    required_any: tuple[tuple[str, ...], ...] = ()
    non_empty: tuple[str, ...] = ()
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """The required and forbidden fields of an action in a phase.

    ``name`` is the value of ``action_phase``, or empty for an action in one grain. A row with an
    ``execution_mode`` applies only to actions with that mode.
    """

    name: str
    required: tuple[str, ...]
    required_any: tuple[tuple[str, ...], ...] = ()
    forbidden: tuple[str, ...] = ()
    execution_mode: str | None = None


@dataclass(frozen=True, slots=True)
class Alias:
    """Field names of OMS 1.1 that readers accept in one type; ``negate`` inverts the boolean."""

    old: tuple[str, ...]
    name: str
    type: str
    negate: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """A domain profile: its fields and rules apply if the tag ``profile:<name>`` is present."""

    name: str
    prefix: str
    rules: tuple[str, ...]
    fields: tuple[Field, ...]


TYPES: tuple[GrainType, ...]
"""The ten types of grains."""
FIELDS: tuple[Field, ...]
"""All fields, by scope."""
NESTED: dict[str, tuple[NestedField, ...]]
"""The fields of entries: of ``content_refs``, ``embedding_refs`` and ``related_to``."""
PHASES: tuple[Phase, ...]
"""The phases of an action, with the fields that each requires and forbids."""
ALIASES: tuple[Alias, ...]
"""Field names of OMS 1.1 with their current names."""
PROFILES: tuple[Profile, ...]
"""The domain profiles."""
RELATED_TO_RELATION_TYPES: tuple[str, ...]
"""The allowed relation types of ``related_to``."""
MG_RELATIONS: tuple[str, ...]
"""The known relations in ``mg:``; any other gives a warning."""
PHI_TAGS: tuple[str, ...]
"""The known tags in ``phi:``; any other gives a warning."""
INVALIDATION_MODES: tuple[str, ...]
"""The modes of an invalidation policy."""
LIGHTWEIGHT: tuple[str, ...]
"""The fields that the lightweight profile allows."""
OPEN_LICENSES: tuple[str, ...]
"""Licences that the healthcare profile refuses; a final ``-`` matches any ending."""

_RENAMED = {"type": "kind", "min": "minimum", "max": "maximum", "enum_int": "enum"}


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _frozen(inner)) for key, inner in value.items())
    return tuple(_frozen(inner) for inner in value) if isinstance(value, list) else value


def _row(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: _frozen(value) for key, value in raw.items()}


def _field_row(raw: dict[str, Any]) -> dict[str, Any]:
    return {_RENAMED.get(key, key): value for key, value in _row(raw).items()}


def _profile(raw: dict[str, Any]) -> Profile:
    name = raw["name"]
    fields = (Field(short=f["name"], scope=name, **_field_row(f)) for f in raw["fields"])
    return Profile(name, raw["prefix"], tuple(raw["rules"]), tuple(fields))


# An unknown key in the table is a TypeError, so these classes cannot drift from the table.
_BUILD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "TYPES": lambda table: tuple(GrainType(**_row(raw)) for raw in table["type"]),
    "FIELDS": lambda table: tuple(Field(**_field_row(raw)) for raw in table["fields"]["all"]),
    "NESTED": lambda table: {
        name: tuple(NestedField(**_field_row(raw)) for raw in rows)
        for name, rows in table["nested"].items()
    },
    "PHASES": lambda table: tuple(Phase(**_row(raw)) for raw in table["phase"]),
    "ALIASES": lambda table: tuple(Alias(**_row(raw)) for raw in table["aliases"]["all"]),
    "PROFILES": lambda table: tuple(_profile(raw) for raw in table["profile"]),
    "RELATED_TO_RELATION_TYPES": lambda table: tuple(table["related_to_relation_types"]),
    "MG_RELATIONS": lambda table: tuple(table["mg_relations"]),
    "PHI_TAGS": lambda table: tuple(table["phi_tags"]),
    "INVALIDATION_MODES": lambda table: tuple(table["invalidation_modes"]),
    "LIGHTWEIGHT": lambda table: tuple(table["lightweight"]),
    "OPEN_LICENSES": lambda table: tuple(table["open_licenses"]),
}


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(registry_json())
    return table


@cache
def _load(name: str) -> Any:
    return _BUILD[name](_table())


# Hidden from type checkers, which would otherwise accept every unknown name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _BUILD:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _load(name)


def __dir__() -> list[str]:
    return __all__


@cache
def _names() -> tuple[dict[str, Field], dict[tuple[str, str], Field], dict[str, str]]:
    """Return fields by name, fields by defining type, and 1.2 type names by any name."""
    shared: dict[str, Field] = {}
    own: dict[tuple[str, str], Field] = {}
    for row in _load("FIELDS"):
        shared.setdefault(row.name, row)
        own[row.scope, row.name] = row
    types = {name: t.name for t in _load("TYPES") for name in (t.name, *t.legacy, *t.later)}
    return shared, own, types


def field(name: str, type: str | None = None) -> Field:
    """Return a field by its full name, as grains of a type have it. Spec: OMS §6.

    Args:
        name: the full name.
        type: a type name, also of OMS 1.1. Only ``content`` differs by type, in actions. None for
            the shared meaning, which also applies to unknown types.

    Raises:
        KeyError: there is no such field or type.
    """
    shared, own, types = _names()
    return shared[name] if type is None else own.get((types[type], name), shared[name])


def short_key(name: str, type: str | None = None) -> str:
    """Return the payload key of a field. Spec: OMS §6.

    Args:
        name: the full name.
        type: as for ``field``.

    Raises:
        KeyError: there is no such field or type.
    """
    return field(name, type).short
