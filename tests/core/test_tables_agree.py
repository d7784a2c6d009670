# SPDX-License-Identifier: Apache-2.0
"""The core's table against the oracle's own, and the generator against both."""

from __future__ import annotations

from random import Random

import oracle_tables as tables
from omsgrain import registry
from oracle import short_key
from support.random_grains import OPTIONAL, PROFILE_FIELDS, REQUIRED, random_grain


def test_short_keys() -> None:
    for field in registry.FIELDS:
        assert short_key(field.scope, field.name) == field.short
        assert field.name in tables.SHORT.keys() | tables.SAME
    names = {field.name for field in registry.FIELDS}
    assert names == tables.SHORT.keys() | tables.SAME
    for name, row in tables.NESTED.items():
        assert row == {f.name: f.short for f in registry.NESTED[_table_of(name)]}


def _table_of(name: str) -> str:
    table = registry.field(name).nested
    assert table is not None
    return table


def test_kinds() -> None:
    floats = {f.name for f in registry.FIELDS if f.kind == "float64"}
    entries = {f.name for row in registry.NESTED.values() for f in row if f.kind == "float64"}
    assert floats | entries == tables.FLOAT64
    assert {f.name for f in registry.FIELDS if f.kind == "datetime"} == tables.DATETIME
    profiles = {
        profile.name: tuple(f.name for f in profile.fields if f.kind == "datetime")
        for profile in registry.PROFILES
    }
    assert {name: fields for name, fields in profiles.items() if fields} == tables.PROFILE_DATETIME


def test_types_and_aliases() -> None:
    assert {t.name: t.byte for t in registry.TYPES} == tables.TYPE_BYTE
    older = {old: t.name for t in registry.TYPES for old in (*t.legacy, *t.later) if old != t.name}
    assert older == tables.OLD_NAMES
    aliases: dict[str, dict[str, tuple[str, bool]]] = {}
    for row in registry.ALIASES:
        aliases.setdefault(row.type, {}).update({old: (row.name, row.negate) for old in row.old})
    assert aliases == tables.ALIASES


def test_the_generator_knows_every_field_that_is_written() -> None:
    made = set(OPTIONAL) | {name for shapes in REQUIRED.values() for s in shapes for name in s}
    written = {field.name for field in registry.FIELDS if not field.index_layer}
    apart = {"type", "created_at", "_elided"}
    assert made | apart == written
    profile_fields = {f.name for profile in registry.PROFILES for f in profile.fields}
    assert profile_fields | written >= PROFILE_FIELDS


def test_the_generator_reaches_everything() -> None:
    rng = Random("reach")
    grains = [random_grain(rng) for _ in range(2000)]
    seen = {name for fields in grains for name in fields}
    assert seen >= set(OPTIONAL) | {"_elided"} | PROFILE_FIELDS
    assert {fields["type"] for fields in grains} == {*tables.TYPES, *tables.OLD_NAMES}
    for type_name, aliases in tables.ALIASES.items():
        assert aliases.keys() <= {n for _ in range(1500) for n in random_grain(rng, type_name)}
