# SPDX-License-Identifier: Apache-2.0
"""What Python objects become: taken by value, or refused."""

from __future__ import annotations

import uuid
from collections import UserDict
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import pytest

import omsgrain as og
import oracle
from omsgrain.errors import OmsError
from support.minimal_grains import minimal
from support.refusals import CORRUPT, SCHEMA, rejected

UTC = timezone.utc


class Odd:
    """Nothing that a grain can hold."""


@pytest.mark.parametrize(
    "value",
    [
        date(2026, 1, 1), datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), {1}, frozenset(),
        Decimal(1), Fraction(1, 2), uuid.UUID(int=1), 1j, Odd(), Odd, range(3), iter([]),
        timedelta(1), ..., "\ud800", "a\udfffb",
    ],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_other_objects(value: Any) -> None:
    rejected(minimal("belief", x_value=value), SCHEMA, field="/x_value")
    rejected(minimal("belief", x_list=[0, value]), SCHEMA, field="/x_list/1")
    rejected(minimal("belief", subject=value), SCHEMA, field="/subject")
    rejected({"x_value": value}, SCHEMA, type_byte=0xF0)


def test_keys_that_are_no_text() -> None:
    keys: tuple[Any, ...] = (5, None, b"x", ("x",), 1.5, True)
    for key in keys:
        rejected({**minimal("belief"), key: 1}, SCHEMA, CORRUPT)
        rejected(minimal("belief", x_map={key: 1}), SCHEMA, CORRUPT)
    rejected(minimal("belief", **{"\ud800": 1}), SCHEMA)
    rejected(minimal("belief", x_map={"\ud800": 1}), SCHEMA)


def test_values_that_are_no_map() -> None:
    others: tuple[Any, ...] = (None, 5, "x", b"x", [], [("type", "belief")])
    for value in others:
        with pytest.raises((OmsError, TypeError)) as caught:
            og.encode(value)
        assert getattr(caught.value, "code", "ERR_NOT_MAP") == "ERR_NOT_MAP"


def test_values_that_are_no_blob() -> None:
    others: tuple[Any, ...] = (None, 5, 1000, "x", [1, 2], (1,), range(3), 1.5)
    calls: tuple[Any, ...] = (og.decode, og.address, og.read_header, og.verify, og.Grain)
    for value in others:
        for call in calls:
            with pytest.raises(TypeError):
                call(value)
        with pytest.raises(TypeError):
            og.address_many([value])
        with pytest.raises(TypeError):
            og.decode_many([value])
        with pytest.raises(TypeError):
            og.verify_many([(value, "a" * 64)])


def test_a_blob_is_any_bytes() -> None:
    blob = og.encode(minimal("belief"))
    part = memoryview(blob + blob)[: len(blob)]
    others: tuple[Any, ...] = (bytearray(blob), memoryview(blob), part)
    for same in others:
        assert og.decode(same).blob == blob
        assert og.address(same) == og.address_many([same])[0] == oracle.address(blob)
        assert og.read_header(same) == og.verify(same)


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not this"


class Number(IntEnum):
    TWO = 2


class Real(float):
    pass


class Index:
    def __index__(self) -> int:
        return 2


class Fields(Mapping[str, Any]):
    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (Text("text"), "text"), (Number.TWO, 2), (Real(0.5), 0.5), (Index(), 2),
        (bytearray(b"ab"), b"ab"), (memoryview(b"abcd")[::2], b"ac"), (memoryview(b"ab"), b"ab"),
        ((1, (2,)), [1, [2]]), (MappingProxyType({"x": 1}), {"x": 1}), (UserDict(x=1), {"x": 1}),
        (Fields({"x": 1}), {"x": 1}), ({Text("x"): Text("y")}, {"x": "y"}),
    ],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_python_types_are_taken_by_value(given: Any, plain: Any) -> None:
    expected = oracle.encode(minimal("belief", x_value=plain))
    assert og.encode(minimal("belief", x_value=given)) == expected
    for wrap in (MappingProxyType, UserDict, Fields):
        assert og.encode(wrap(minimal("belief", x_value=given))) == expected
    assert og.encode_many([Fields(minimal("belief", x_value=given))]).blobs == [expected]


def test_index_objects_in_integer_fields() -> None:
    fields = minimal("belief", category=Index(), created_at=Index(), priority=Number.TWO)
    plain = minimal("belief", category=2, created_at=2, priority=2)
    assert og.encode(fields) == oracle.encode(plain)


def test_an_interrupt_comes_through() -> None:
    class Broken(Fields):
        def __getitem__(self, key: str) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        og.encode(Broken(minimal("belief")))
    with pytest.raises(KeyboardInterrupt):
        og.encode(minimal("belief", x_value=Broken({"x": 1})))
