# SPDX-License-Identifier: Apache-2.0
"""Values under names: exact, with versions, on every kind of store."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import InvalidationDeniedError, NotFoundError, SchemaError, UnsupportedError
from omsgrain.integrations.entries import Entries, framework, pack, unpack

HARD: list[Any] = [
    None,
    "",
    "cafe\u0301",
    "\ud800",
    0,
    -(1 << 63),
    1 << 64,
    1.0,
    -0.0,
    True,
    [],
    {},
    [None, 1, 1.0, True],
    {"a": None},
    {"e\u0301": 1},
    {"": {"": [{}]}},
    {"value": 1},
    {"json": "1"},
    {"b": 1, "a": json.loads("[" * 30 + "]" * 30)},
]


def exactly(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("value", HARD, ids=lambda value: ascii(value)[:20])
def test_a_value_comes_back_exactly(memory: og.Memory, value: Any) -> None:
    entries = Entries(memory.store, memory.user, "test:values")
    address = entries.set("x", value)
    found = entries.get("x")
    assert found is not None
    assert exactly(found.value) == exactly(value)
    assert exactly(unpack(pack(value))) == exactly(value)
    assert entries.set("x", value) == address  # no version without a change
    assert len(entries.history("x")) == 1


@pytest.mark.parametrize("value", [{1: 2}, {"a": object()}, b"x", {1, 2}])
def test_what_is_not_json_is_refused(memory: og.Memory, value: Any) -> None:
    entries = Entries(memory.store, memory.user, "test:values")
    if value == {1: 2}:
        entries.set("x", value)  # as JSON has it: the key becomes a text
        found = entries.get("x")
        assert found is not None
        assert found.value == {"1": 2}
        return
    with pytest.raises(SchemaError):
        entries.set("x", value)
    assert len(memory.store) == 0


@pytest.mark.parametrize("name", ["", " ", '"', '"a"', "e\u0301", "\u00e9", "\ud800", "x" * 5_000])
def test_any_text_is_a_name(memory: og.Memory, name: str) -> None:
    entries = Entries(memory.store, memory.user, "test:names")
    entries.set("other", 1)
    assert entries.get(name) is None
    entries.set(name, 2)
    entries.set(name, 3)
    assert [entry.value for entry in entries.history(name)] == [2, 3]
    assert {entry.name: entry.value for entry in entries.all()} == {"other": 1, name: 3}
    assert entries.delete([name, "none"]) == 1
    assert {entry.name: entry.value for entry in entries.all()} == {"other": 1}


def test_a_value_that_changed_has_a_history_and_a_deleted_one_none(memory: og.Memory) -> None:
    entries = Entries(memory.store, memory.user, "test:values")
    first = entries.set("a", 1)
    entries.set("a", {"n": 2})
    entries.set_many({}, renamed={"a": "b", "none": "c"})
    assert entries.get("a") is None
    assert [(one.name, one.value) for one in entries.history("b")] == [
        ("a", 1),
        ("a", {"n": 2}),
        ("b", {"n": 2}),
    ]
    entries.delete(["b"])
    assert len(memory.store) == 0
    with pytest.raises(NotFoundError):
        memory.store.get(first)
    entries.set("a", 1)  # what was deleted may be stored again
    assert entries.get("a") is not None


def test_users_and_namespaces_are_apart(memory: og.Memory) -> None:
    one = Entries(memory.store, "ada", "test:a")
    other = Entries(memory.store, "ada", "test:b")
    third = Entries(memory.store, "bob", "test:a")
    for number, entries in enumerate((one, other, third)):
        entries.set("x", number)
    assert [[entry.value for entry in entries.all()] for entries in (one, other, third)] == [
        [0],
        [1],
        [2],
    ]
    assert other.delete(["x"]) == 1
    assert [len(list(entries.all())) for entries in (one, other, third)] == [1, 0, 1]


def test_several_values_and_new_names_are_one_transaction(memory: og.Memory) -> None:
    entries = Entries(memory.store, memory.user, "test:values")
    entries.set_many({"a": 1, "b": 2, "c": 3})
    held = entries.get("b")
    assert held is not None
    memory.store.holds.add(held.address, authority="court", reason_code="case")
    with pytest.raises(InvalidationDeniedError):
        entries.set_many({"a": 10, "new": 0}, renamed={"c": "d", "b": "e"})
    assert {entry.name: entry.value for entry in entries.all()} == {"a": 1, "b": 2, "c": 3}
    memory.store.holds.release(held.address, authority="court", reason_code="case")
    entries.set_many({"a": 10, "new": 0}, renamed={"c": "d", "b": "e"})
    found = {entry.name: entry.value for entry in entries.all()}
    assert found == {"a": 10, "new": 0, "d": 3, "e": 2}
    assert [entry.name for entry in entries.history("d")] == ["c", "d"]


def test_random_changes_against_a_dict(memory: og.Memory) -> None:
    entries, model, random = Entries(memory.store, memory.user, "test:r"), {}, Random(7)
    for _ in range(150):
        name = random.choice("abcde")
        match random.randrange(4):
            case 0 | 1:
                value = random.choice(HARD)
                entries.set(name, value)
                model[name] = value
            case 2:
                several = {n: random.choice(HARD) for n in random.sample("abcde", 3)}
                entries.set_many(several)
                model |= several
            case _:
                assert entries.delete([name]) == (name in model)
                model.pop(name, None)
        found = {entry.name: entry.value for entry in entries.all()}
        assert exactly(found) == exactly(model)


def test_two_handles_that_wrote_the_same_name_are_joined_by_the_next_change() -> None:
    with og.Memory(":memory:", user="ada") as memory:
        one, other = (Entries(memory.store, "ada", "test:r") for _ in range(2))
        for value in (1, 2):  # as if neither had seen the other
            memory.store.put(one._fields("a", pack(value), 0))
        found = other.get("a")
        assert found is not None
        assert [entry.value for entry in other.all()] == [found.value]
        other.set("a", 3)
        assert [entry.value for entry in one.all()] == [3]
        assert sorted(entry.value for entry in one.history("a")) == [1, 2, 3]


def test_a_framework_that_is_not_installed_is_named() -> None:
    with pytest.raises(UnsupportedError) as refused:
        framework("no_such_framework.memory", "crewai")
    assert "pip install crewai" in str(refused.value)


def test_values_with_a_tag(memory: og.Memory) -> None:
    values = Entries(memory.store, memory.user, "test:values")
    values.set_many({"x": 1, "y": 2, "z": 3}, tags={"x": ["hall"], "y": ["hall", "dock"]})
    assert [one.name for one in values.all("dock")] == ["y"]
    assert {one.name for one in values.all("hall")} == {"x", "y"}
    values.set_many({"y": 4}, tags={"y": ["dock"]})
    assert [(one.name, one.value) for one in values.all("hall")] == [("x", 1)]
