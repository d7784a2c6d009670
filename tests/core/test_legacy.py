# SPDX-License-Identifier: Apache-2.0
"""The names of OMS 1.1: read and kept, taken on writing, never in the way.  Spec: OMS §1.2."""

from __future__ import annotations

from typing import Any

import pytest

import omsgrain as og
import oracle
from omsgrain.grain import Encoding
from oracle_tables import OLD_NAMES
from support.crafted_blobs import made
from support.minimal_grains import minimal
from support.refusals import SCHEMA, refused, rejected

ENCODINGS: tuple[Encoding, ...] = ("msgpack", "cbor")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_old_type_names(encoding: Encoding, old: str, new: str) -> None:
    fields = minimal(new, type=old)
    kept = og.encode(fields, encoding=encoding, keep_type_name=True)
    assert kept == oracle.encode(fields, encoding, keep_type_name=True)
    grain = og.decode(kept)
    assert (grain.type, grain["type"], grain.to_dict()["type"]) == (new, old, old)
    assert (grain.blob, grain.address) == (kept, oracle.address(kept))
    assert grain.upgrade().blob == og.encode(fields, encoding=encoding) != kept
    assert grain.upgrade().upgrade() == grain.upgrade()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_old_field_names_in_a_blob(encoding: Encoding) -> None:
    action = minimal("action", content=[1], is_error=False)
    for names in (("args", "res", "ok"), ("arguments", "result", "success")):
        values: tuple[Any, ...] = ({}, [1], True)
        old = dict(zip(names, values, strict=True))
        data = made(encoding, {"t": "tool_call", "ca": 0, "tn": "t"} | old)
        grain = og.decode(data)
        assert grain.blob == data
        assert grain.to_dict() == action | {"type": "tool_call"}
        assert grain.upgrade().blob == oracle.encode(action, encoding)
    for by_id, by_type in (("sid", "stype"), ("sensor_id", "sensor_type")):
        data = made(encoding, {"t": "observation", "ca": 0, by_id: "i", by_type: "lidar"})
        grain = og.decode(data)
        assert grain.blob == data
        assert grain.to_dict() == minimal("observation")
        assert grain.upgrade().blob == oracle.encode(minimal("observation"), encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_old_field_names_count_only_under_an_old_type_name(encoding: Encoding) -> None:
    old = {"ca": 0, "tn": "t", "args": {}, "res": 1, "ok": True}
    for name in ("action", "tool"):
        refused(made(encoding, {"t": name} | old), SCHEMA)
        full = {"inp": {}, "cnt": 1, "iserr": False}
        assert og.decode(made(encoding, {"t": name} | old | full))["args"] == {}
    both = made(encoding, {"t": "tool_call", "inp": {"new": 1}} | old)
    grain = og.decode(both)
    assert (grain["input"], grain["args"]) == ({"new": 1}, {})
    other = made(encoding, {"t": "goal", "desc": "d", "gs": "active", "ca": 0, "ok": 5, "sid": 1})
    assert og.decode(other)["ok"] == 5
    refused(made(encoding, {"t": "tool_call"} | old | {"ok": 1}), SCHEMA)


def test_old_field_names_in_a_dict() -> None:
    old: dict[str, Any] = {"created_at": 0, "tool_name": "t", "arguments": {}, "result": 0}
    expected = oracle.encode(minimal("action"))
    assert og.encode({"type": "tool_call", "success": True} | old) == expected
    assert og.encode({"type": "tool_call", "ok": True} | old) == expected
    for name in ("action", "tool"):
        rejected({"type": name, "success": True} | old, SCHEMA)
    no_bools: tuple[Any, ...] = (1, "true", 0.0, [])
    for value in no_bools:
        rejected({"type": "tool_call", "success": value} | old, SCHEMA)
    sensor = {"type": "observation", "created_at": 0, "sensor_id": "i", "sensor_type": "lidar"}
    assert og.encode(sensor) == oracle.encode(minimal("observation"))
    rejected(minimal("goal", sensor_id=5) | {"goal_state": "x"}, SCHEMA)
    og.encode(minimal("goal", sensor_id=5, arguments=5, success="often"))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("input", {"arguments": {"a": 1}, "args": {"b": 1}}),
        ("content", {"result": 1, "res": 2}),
        ("is_error", {"success": True, "ok": False}),
    ],
)
def test_two_old_names_of_one_field_in_any_order(name: str, values: dict[str, Any]) -> None:
    fields = minimal("action", type="tool_call") | values
    del fields[name]
    backwards = dict(reversed(fields.items()))
    assert og.encode(fields) == og.encode(backwards)
