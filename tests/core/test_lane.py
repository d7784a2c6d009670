# SPDX-License-Identifier: Apache-2.0
"""Batches of one shape, which take the fast path, with other shapes in their middle.

Whatever way a grain takes, its bytes are those of the oracle, and its refusal and its warnings
are those of the general way.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone, tzinfo
from random import Random
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omsgrain as og
import oracle
from omsgrain import _core
from omsgrain.grain import Encoding, make, options
from support.random_grains import grains, random_grain, shuffled
from support.random_values import values
from support.scale import Scale

STANDARD: dict[str, Any] = {
    "type": "belief",
    "subject": "robot-1",
    "relation": "mg:perceives",
    "object": "shelf 1 has 1 boxes",
    "confidence": 0.93,
    "source_type": "sensor",
    "created_at": 1_768_471_200_000,
    "namespace": "warehouse:zone-3",
    "author_did": "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
    "importance": 0.5,
    "structural_tags": ["inventory", "shelf"],
    "user_id": "u1",
}
EVENT: dict[str, Any] = {
    "type": "event",
    "content": "Ein Satz, который 終わる 🙂",
    "role": "user",
    "session_id": "session-1",
    "created_at": 1_768_471_200_000,
    "namespace": "shared",
    "user_id": "u1",
}


class Text(str):
    """A text that is not exactly a str."""


class Whole(int):
    """An int that is not exactly an int."""


def general(fields: Any, encoding: Encoding) -> tuple[str, Any, list[str]]:
    """Encode the fields without the fast path: `_core.encode` never takes it."""
    try:
        blob, warnings = _core.encode(fields, options(encoding=encoding))
    except og.errors.OmsError as error:
        return (error.code, error.field, [])
    return ("", blob, warnings)


def compared(batch: list[Any], encoding: Encoding = "msgpack") -> None:
    """One call for all, with whatever the lane held before, and one call for each."""
    whole = og.encode_many(batch, errors="collect", encoding=encoding)
    good = dict(zip(whole.indices, whole.blobs, strict=True))
    bad = {error.index: error.error for error in whole.errors}
    notes: dict[int, list[str]] = {}
    for warning in whole.warnings:
        notes.setdefault(warning.index, []).append(warning.message)
    assert sorted([*good, *bad]) == list(range(len(batch)))
    for i, fields in enumerate(batch):
        code, expected, warnings = general(fields, encoding)
        if i in bad:
            assert (bad[i].code, bad[i].field) == (code, expected)
        else:
            assert (good[i], notes.get(i, [])) == (expected, warnings), fields
            if encoding == "msgpack":
                assert make(fields).blob == expected
    assert whole.addresses == [oracle.address(blob) for blob in whole.blobs]


def other_keys(fields: dict[str, Any]) -> dict[str, Any]:
    """The same with keys that are other objects."""
    return {key.encode().decode(): value for key, value in fields.items()}


ODD: list[Any] = [
    None, "", Text("x"), Text("mg:perceives"), Whole(1), True, False, 0, 1, -1, 2**63, 2**64,
    -(2**70), 0.5, 1.5, float("nan"), float("inf"), -0.0, "\ud800", "\ufeffx", "e\u0301", "é",
    "senzor", "mg:no", b"x", bytearray(b"x"), memoryview(b"x"), [], ["x"], ("x",), ["pii:x"],
    ["phi:name"], ["phi:no"], ["profile:healthcare"], [None], [1], [Text("x")], ["\ud800"],
    ["e\u0301"], {}, {"k": None},
    {"k": {"k": []}}, {1: 2}, {"\ud800": 1}, {"e\u0301": 1, "é": 2}, object(), 1j, "event", "fact",
    "2026-01-15T10:00:00Z", datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=timezone.utc),
]  # fmt: skip


@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
@pytest.mark.parametrize("base", [STANDARD, EVENT], ids=["belief", "event"])
def test_any_odd_value_in_the_middle(base: dict[str, Any], encoding: Encoding) -> None:
    for name in base:
        compared([base, *({**base, name: odd} for odd in ODD), base], encoding)


@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
def test_other_shapes_in_the_middle(encoding: Encoding) -> None:
    some: list[dict[Any, Any]] = [
        {**STANDARD, "lab:own": 1},
        {**STANDARD, "confidnce": 1},
        {**STANDARD, "st": "x"},
        {**STANDARD, "system_valid_to": 1},
        {**STANDARD, Text("lab:own"): 1},
        {**STANDARD, "\ud800": 1},
        {**STANDARD, 5: 1},
        {**STANDARD, "lab:" + "x" * 200: 1},
        {**STANDARD, **{f"lab:{i}": i for i in range(40)}},
        dict(reversed(STANDARD.items())),
        {
            ("subject" if k == "subject" else k): v
            for k, v in STANDARD.items()
            if k != "importance"
        },
        {Text(k): v for k, v in STANDARD.items()},
        {k: v for k, v in STANDARD.items() if k != "type"},
        {},
        EVENT,
        {**EVENT, "type": "episode"},
        {**EVENT, "type": "no type"},
    ]
    compared([STANDARD, *some, STANDARD, EVENT, STANDARD], encoding)


def test_only_dicts_take_the_fast_path() -> None:
    for other in (None, 5, "x", [], [STANDARD]):
        assert _core.encode_plain(other) is None  # type: ignore[arg-type]
    assert _core.encode_plain(STANDARD) == oracle.encode(STANDARD)


@given(st.sampled_from(sorted(STANDARD)), values(), st.integers(0, 4))
def test_any_value_in_any_field(name: str, value: Any, at: int) -> None:
    batch = [dict(STANDARD) for _ in range(5)]
    batch[at][name] = value
    for encoding in ("msgpack", "cbor"):
        compared(batch, encoding)


@settings(max_examples=max(1, settings().max_examples // 10))
@given(grains(), grains())
def test_two_grains_in_turn(one: dict[str, Any], other: dict[str, Any]) -> None:
    batch = [one, one, other, one, other]
    for encoding in ("msgpack", "cbor"):
        expected = [oracle.encode(fields, encoding) for fields in batch]
        assert og.encode_many(batch, encoding=encoding).blobs == expected


def test_shapes_of_every_kind_again_and_again(scale: Scale) -> None:
    rng = Random("lane")
    for _ in range(scale.grains // 20):
        some = [random_grain(rng) for _ in range(3)]
        batch = [fields if i % 2 else other_keys(fields) for i, fields in enumerate(some * 3)]
        expected = [oracle.encode(fields) for fields in batch]
        assert og.encode_many(batch).blobs == expected
        turned = [shuffled(rng, fields) for fields in batch]
        assert [og.encode(fields) for fields in turned] == expected


def test_keys_of_other_objects_with_the_same_text() -> None:
    lines = [json.dumps({**STANDARD, "subject": f"robot-{i}"}) for i in range(50)]
    batch = [json.loads(line) for line in lines]
    assert og.encode_many(batch).blobs == [oracle.encode(fields) for fields in batch]


def test_keys_that_are_gone_mean_nothing() -> None:
    # The memory of keys that were freed is used again for keys of other text.
    for i in range(300):
        fields = {**STANDARD, f"lab:{i % 7}": i, f"lab:other{i % 5}": "x"}
        for _ in range(3):
            assert og.encode(other_keys(fields)) == oracle.encode(fields)


def test_a_datetime_that_changes_the_dict() -> None:
    class Zone(tzinfo):
        def utcoffset(self, moment: datetime | None) -> timedelta:
            fields.clear()
            og.encode(STANDARD)  # the lane is asked for once more, in the middle
            return timedelta(0)

        def dst(self, moment: datetime | None) -> None: ...

        def tzname(self, moment: datetime | None) -> None: ...

    fields = {**STANDARD, "valid_from": datetime(2026, 1, 1, tzinfo=Zone())}
    before = {**STANDARD, "valid_from": 1}
    batch = og.encode_many([before, fields, before], errors="collect")
    assert batch.indices[0] == 0 and batch.indices[-1] == 2
    assert batch.blobs[0] == batch.blobs[-1] == oracle.encode(before)


def test_an_int_that_changes_its_own_dict() -> None:
    class Whole:
        def __index__(self) -> int:
            other = "minimum_retention_years"
            policy.pop(other)  # of another name at its end, and so without end
            policy[other] = self
            return 5

    policy: dict[str, Any] = {"regulation": "x", "minimum_retention_years": Whole()}
    fields = {**STANDARD, "retention_policy": policy}
    batch = og.encode_many([STANDARD, fields, STANDARD], errors="collect")
    assert [(error.index, error.error.code) for error in batch.errors] == [(1, "ERR_SCHEMA")]
    assert batch.indices == [0, 2]


def test_an_interrupt_in_a_number_is_raised() -> None:
    class Whole:
        def __index__(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        og.encode_many([STANDARD, {**STANDARD, "access": Whole()}, STANDARD], errors="collect")


@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
def test_a_value_nested_in_itself_is_too_large(encoding: Encoding) -> None:
    some: Any = ["x"]
    for _ in range(24):
        some = [some] * 10 if len(some) == 1 else {str(i): some for i in range(10)}
    for name in ("lab:own", "object"):
        fields = {**STANDARD, name: {"all": some}}
        assert general(fields, encoding)[0] == "ERR_TOO_LARGE"
        batch = og.encode_many([STANDARD, fields, STANDARD], errors="collect", encoding=encoding)
        assert [(error.index, error.error.code) for error in batch.errors] == [
            (1, "ERR_TOO_LARGE")
        ]


def test_references_are_given_back() -> None:
    key, value = "lab:" + "".join(["o", "wn"]), "".join(["some", " text"])
    fields = {**STANDARD, key: value, "structural_tags": [value]}
    og.encode_many([fields] * 3)
    held = sys.getrefcount(value)
    og.encode_many([fields] * 100)
    for _ in range(100):
        og.encode(fields)
    assert sys.getrefcount(value) == held
    for i in range(200):  # other shapes take its place, and the key with it
        og.encode({**STANDARD, f"lab:{i}": 1})
        og.encode({**STANDARD, f"lab:{i}": 1})
    del fields
    assert sys.getrefcount(key) <= 3


def test_threads_have_lanes_of_their_own() -> None:
    done: list[bool] = []

    def work(number: int) -> None:
        own = [{**STANDARD, f"lab:{number}": i} for i in range(200)]
        done.append(og.encode_many(own).blobs == [oracle.encode(fields) for fields in own])

    threads = [Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 8


def test_a_grain_that_is_too_large_is_refused_as_ever() -> None:
    large = {**STANDARD, "object": "x" * (1 << 20)}
    batch = og.encode_many([STANDARD, large, STANDARD], errors="collect")
    assert batch.indices == [0, 2]
    assert [error.error.code for error in batch.errors] == ["ERR_TOO_LARGE"]
    profile = og.encode_many([STANDARD, EVENT], errors="collect", profile="lightweight")
    assert [error.error.code for error in profile.errors] == ["ERR_SCHEMA"] * 2
