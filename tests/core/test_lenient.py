# SPDX-License-Identifier: Apache-2.0
"""Invalid grains of other writers can be read leniently, with any content."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import cbor2
import msgpack
import pytest

import omsgrain as og
from omsgrain import errors as err

FIELDS = {
    "type": "belief",
    "subject": "lamp",
    "relation": "is",
    "object": "on",
    "confidence": 1.0,
    "source_type": "sensor",
    "created_at": 1_700_000_000_000,
}
HEADER = og.encode(FIELDS, encoding="cbor")[:9]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2020, 1, 1, tzinfo=timezone.utc), "2020-01-01 00:00:00+00:00"),
        (cbor2.undefined, "undefined"),
        (cbor2.CBORTag(4_000, "x"), "CBORTag(4000, 'x')"),
        (float("nan"), {"$float": "nan"}),
        ([float("inf"), 1.5, None, True], [{"$float": "inf"}, 1.5, None, True]),
        ({b"k": 1}, {"b'k'": 1}),
        ({(1, 2): b"x"}, {"(1, 2)": {"$bytes": "eA=="}}),
        (10**5_000, "<int>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_foreign_value_is_shown_as_json(value: object, shown: object) -> None:
    grain = og.decode(HEADER + cbor2.dumps({"s": "lamp", "o": value}), strict=False)
    assert grain.warnings
    assert json.loads(grain.to_json(), parse_constant=pytest.fail) == {
        "subject": "lamp",
        "object": shown,
    }


def test_a_timestamp_of_messagepack_is_shown() -> None:
    blob = og.encode(FIELDS)[:9] + msgpack.packb({"o": msgpack.Timestamp(1, 2), "n": 1})
    assert "1" in json.loads(og.decode(blob, strict=False).to_json())["object"]


@pytest.mark.parametrize(
    "payload",
    [
        b"\xa1\x61o\xd8\x1c\x81\xd8\x1d\x00",  # a list that holds itself
        b"\xd9\x01\x00\xa1\x61o\x82\x79\x01\x00"
        + b"x" * 256
        + b"\x98\xff"
        + b"\xd8\x19\x00" * 255,
        b"\xa1\x61o" + b"\x81" * 200 + b"\x01",
    ],
    ids=["a circle", "a text that stands everywhere", "deep"],
)
def test_more_than_its_bytes_can_hold_is_refused(payload: bytes) -> None:
    with pytest.raises(err.CorruptError):
        og.decode(HEADER + payload, strict=False)


def test_small_values_are_not_too_many() -> None:
    values: list[Any] = [msgpack.ExtType(1, b"x")] * 100
    blob = og.encode(FIELDS)[:9] + msgpack.packb({"o": values})
    assert len(og.decode(blob, strict=False)["object"]) == 100
