# SPDX-License-Identifier: Apache-2.0
"""The oracle against the known addresses: who checks others is checked first.  Spec: OMS §24."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import cbor2
import pytest

import oracle
from support.known_grains import VECTORS, Vector


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)
def test_vectors(vector: Vector) -> None:
    stages = oracle.stages(vector.fields, keep_type_name=True)
    assert stages["address"] == vector.address
    assert vector.size in (None, len(stages["blob"]))
    assert vector.header in (None, stages["header"].hex())


def test_old_type_name_is_written_as_the_new_one() -> None:
    fact, belief = VECTORS[0], VECTORS[1]
    assert oracle.encode(fact.fields) == oracle.encode(belief.fields)


# Hand-made from the tables of the two formats, not by running an encoder.
@pytest.mark.parametrize(
    ("value", "msgpack", "cbor"),
    [
        (0, "00", "00"),
        (23, "17", "17"),
        (24, "18", "1818"),
        (127, "7f", "187f"),
        (128, "cc80", "1880"),
        (255, "ccff", "18ff"),
        (256, "cd0100", "190100"),
        (65535, "cdffff", "19ffff"),
        (65536, "ce00010000", "1a00010000"),
        (2**32, "cf0000000100000000", "1b0000000100000000"),
        (2**64 - 1, "cfffffffffffffffff", "1bffffffffffffffff"),
        (-1, "ff", "20"),
        (-32, "e0", "381f"),
        (-33, "d0df", "3820"),
        (-128, "d080", "387f"),
        (-129, "d1ff7f", "3880"),
        (-32768, "d18000", "397fff"),
        (-32769, "d2ffff7fff", "398000"),
        (-(2**31) - 1, "d3ffffffff7fffffff", "3a80000000"),
        (-(2**63), "d38000000000000000", "3b7fffffffffffffff"),
        (1.5, "cb3ff8000000000000", "f93e00"),
        (100000.0, "cb40f86a0000000000", "fa47c35000"),
        (1.1, "cb3ff199999999999a", "fb3ff199999999999a"),
        (-0.0, "cb8000000000000000", "f98000"),
        (2.0**-24, "cb3e70000000000000", "f90001"),
        ("", "a0", "60"),
        ("ü", "a2c3bc", "62c3bc"),
        (b"\x01", "c40101", "4101"),
        ([None, True, False], "93c0c3c2", "83f6f5f4"),
        ({"b": 1, "aa": 2}, "82a2616102a16201", "a261620162616102"),
    ],
)
def test_packing(value: Any, msgpack: str, cbor: str) -> None:
    assert oracle.pack_msgpack(value).hex() == msgpack
    assert oracle.pack_cbor(value).hex() == cbor
    assert cbor2.loads(bytes.fromhex(cbor)) == value


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-15T10:00:00Z", 1768471200000),
        ("2026-01-15t11:00:00.0009+01:00", 1768471200000),
        ("2026-01-15 05:29:59.9999-04:30", 1768471199999),
        ("1969-12-31T23:59:59.9995z", -1),
        ("2016-12-31T23:59:60Z", 1483228800000),
        ("2017-01-01T00:59:60.9+01:00", 1483228800000),
        (datetime(1969, 12, 31, 23, 59, 59, 999999, timezone.utc), -1),
        (datetime(2026, 1, 15, 12, tzinfo=timezone(timedelta(hours=2))), 1768471200000),
        (17, 17),
    ],
)
def test_times(given: Any, ms: int) -> None:
    assert oracle.epoch_ms(given) == ms


def test_aliases_hold_only_under_a_name_of_1_1() -> None:
    old = {"tool_name": "ls", "args": {}, "result": 1, "ok": True, "created_at": 0}
    assert oracle.compact({"type": "tool_call", **old}) == {
        "t": "action", "tn": "ls", "inp": {}, "cnt": 1, "iserr": False, "ca": 0,
    }  # fmt: skip
    assert oracle.compact({"type": "tool", **old})["args"] == {}
    assert oracle.compact({"type": "tool_call", **old, "input": {"x": 1}})["args"] == {}


def test_compaction() -> None:
    fields = {
        "type": "event", "content": "e\u0301", "confidence": 1, "user_id": None, "created_at": 5,
        "x_map": {"subject": None, "b": [None, {"e\u0301": None}]},
        "content_refs": [{"uri": "u:1", "modality": "text", "other": None}],
        "structural_tags": ["profile:legal", "reg:gdpr"],
        "legal:effective_date": "1970-01-01T00:00:01Z",
        "fin:market_timestamp": "1970-01-01T00:00:01Z",
    }  # fmt: skip
    assert oracle.compact(fields) == {
        "t": "event", "content": "\u00e9", "c": 1.0, "ca": 5,
        "x_map": {"b": [None, {}]},
        "cr": [{"u": "u:1", "m": "text"}],
        "tags": ["profile:legal", "reg:gdpr"],
        "legal:effective_date": 1000,
        "fin:market_timestamp": "1970-01-01T00:00:01Z",
    }  # fmt: skip
    assert oracle.stages(fields)["header"][1] == 1 << 6 | 8
    assert oracle.stages(fields, "cbor", sensitivity=3)["header"][1] == 3 << 6 | 32 | 8
