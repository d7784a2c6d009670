# SPDX-License-Identifier: Apache-2.0
"""Vectors of grains: what is taken, how it is kept, and exact search among them."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import OmsError
from omsgrain.search import vectors
from omsgrain.search.nearest import Nearest
from omsgrain.search.text import Match
from omsgrain.storage.base import Storage
from omsgrain.storage.tables import EMBEDDED, EVENT, EVENTS, MODELS, VECTORS
from support.store_kinds import POSTGRES, made
from support.vector_stores import Floats, add, cosine, noise, put, remove, set_row


@pytest.fixture(params=["memory", "lmdb", POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    store = made(request.param, tmp_path / "m.omsg")
    yield store
    store.close()


def search(store: Storage, query: Floats, **options: Any) -> list[Match]:
    with store.read() as reader:
        return Nearest().search(reader, query, **options)


class Sequential:
    """The least that a sequence is."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, at: int) -> float:
        return self.values[at]


VALUES = [1.5, -2.0, 0.25]
RAW = struct.pack("<3f", *VALUES)


@pytest.mark.parametrize(
    "vector",
    [
        VALUES,
        tuple(VALUES),
        array("f", VALUES),
        array("d", VALUES),
        RAW,
        bytearray(RAW),
        memoryview(RAW),
        memoryview(array("f", VALUES)),
        memoryview(array("d", VALUES)),
        memoryview(array("f", [1.5, 9, -2.0, 9, 0.25, 9]))[::2],
        Sequential(VALUES),
    ],
    ids=lambda vector: type(vector).__name__,
)
def test_forms_of_a_vector(vector: object) -> None:
    assert vectors.pack(vector) == RAW


def test_whole_numbers_are_numbers() -> None:
    assert vectors.pack([1, True, -3]) == struct.pack("<3f", 1, 1, -3)
    assert vectors.pack(array("B", [1, 2, 3, 4])) == struct.pack("<4f", 1, 2, 3, 4)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "u1", "<f4"])
def test_vectors_of_numpy(kind: str) -> None:
    import numpy

    assert vectors.pack(numpy.array([3, 0, 4], kind)) == struct.pack("<3f", 3, 0, 4)


TOO_LONG = vectors.DIMENSIONS + 1


@pytest.mark.parametrize(
    ("vector", "code"),
    [
        ([], "ERR_RANGE"),
        (b"", "ERR_RANGE"),
        ([1.0] * TOO_LONG, "ERR_RANGE"),
        (bytes(4 * TOO_LONG), "ERR_RANGE"),
        (range(10**12), "ERR_RANGE"),
        ([0.0, 0.0], "ERR_RANGE"),
        ([1e-60], "ERR_RANGE"),  # zero as a float32
        ([1.0, math.nan], "ERR_RANGE"),
        ([1.0, math.inf], "ERR_RANGE"),
        ([1.0, -math.inf], "ERR_RANGE"),
        ([math.inf, math.nan], "ERR_RANGE"),
        ([1e39], "ERR_RANGE"),  # infinite as a float32
        ([10**400], "ERR_RANGE"),
        (struct.pack("<2f", 1, math.nan), "ERR_RANGE"),
        (b"12345", "ERR_SCHEMA"),
        (None, "ERR_SCHEMA"),
        (1.0, "ERR_SCHEMA"),
        ("1234", "ERR_SCHEMA"),
        (["1", "2"], "ERR_SCHEMA"),
        ([[1.0], [2.0]], "ERR_SCHEMA"),
        ({0: 1.0}, "ERR_SCHEMA"),
        ({1.0, 2.0}, "ERR_SCHEMA"),
        (iter([1.0]), "ERR_SCHEMA"),
        (memoryview(bytes(16)).cast("B", (4, 4)), "ERR_SCHEMA"),
        (memoryview(array("f", range(4))).cast("B").cast("f", (2, 2)), "ERR_SCHEMA"),
    ],
)
def test_invalid_vectors(vector: object, code: str) -> None:
    with pytest.raises(OmsError) as caught:
        vectors.pack(vector)
    assert (caught.value.code, caught.value.field) == (code, "/vector")


def test_the_longest_vector(store: Storage) -> None:
    (seq,) = put(store, 1)
    longest = [1.0] * vectors.DIMENSIONS
    add(store, {seq: longest})
    (found,) = search(store, longest)
    assert found.seq == seq
    assert found.score == pytest.approx(1.0)


def test_vectors_are_kept_as_they_came(store: Storage) -> None:
    first, second = put(store, 2)
    add(store, {first: VALUES, second: [3e38, 1e-45, 0.0]}, "a")
    add(store, {first: [7.0]}, "b")
    with store.read() as reader:
        assert vectors.vectors_of(reader, first) == {"a": array("f", VALUES), "b": array("f", [7])}
        assert vectors.vectors_of(reader, second) == {"a": array("f", [3e38, 1e-45, 0])}
        assert vectors.vectors_of(reader, 999) == {}
        assert vectors.models(reader) == [vectors.Model("a", 1, 3), vectors.Model("b", 2, 1)]
        rows = dict(reader.rows(VECTORS))
        assert rows[struct.pack(">IQ", 1, first)] == RAW
        assert [key for key, _ in reader.rows(MODELS)] == [b"a\x003", b"b\x001"]


def test_a_vector_in_place_of_another_is_an_event_and_the_same_again_is_none(
    store: Storage,
) -> None:
    (seq,) = put(store, 1)
    for vector in ([1.0, 0.0], [0.0, 1.0], [0.0, 1.0]):
        add(store, {seq: vector})
    with store.read() as reader:
        assert vectors.vectors_of(reader, seq) == {"m": array("f", [0, 1])}
        found = [EVENT.unpack(row) for _, row in reader.rows(EVENTS)]
        digest = sha256(b"\1\0grain 0").digest()
        assert found == [(EMBEDDED, seq, digest)] * 2


def refused(
    work: Callable[..., object], *args: object, **options: object
) -> tuple[str, str | None]:
    with pytest.raises(OmsError) as caught:
        work(*args, **options)
    return caught.value.code, caught.value.field


def test_what_cannot_be_added(store: Storage) -> None:
    (seq,) = put(store, 1)
    add(store, {seq: [1.0, 2.0]})
    assert refused(add, store, {seq: [0.0, 0.0]}) == ("ERR_RANGE", "/vector")
    assert refused(add, store, {999: [1.0, 2.0]}) == ("ERR_NOT_FOUND", None)
    for name in ("", "x" * 201, "ü" * 101, "m\x003"):
        assert refused(add, store, {seq: [1.0]}, name) == ("ERR_RANGE", "/model")
    for wrong in ("\ud800", None, 7, b"m"):
        assert refused(add, store, {seq: [1.0]}, wrong) == ("ERR_SCHEMA", "/model")
    with store.read() as reader:
        assert vectors.vectors_of(reader, seq) == {"m": array("f", [1, 2])}
        assert [model.name for model in vectors.models(reader)] == ["m"]


def test_models_are_not_without_number(store: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_MODELS", 3)
    (seq,) = put(store, 1)
    for name in ("a", "b", "c", "a"):
        add(store, {seq: [1.0]}, name)
    for name, vector in (("d", [1.0]), ("a", [1.0, 2.0])):
        assert refused(add, store, {seq: vector}, name) == ("ERR_RANGE", "/model")


def test_the_models_of_one_user_leave_room_for_others(
    store: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_MODELS", 2)
    event = {"type": "event", "content": "tea", "created_at": 1}
    grains = [og.encode(event | {"user_id": user}) for user in ("ada", "grace")]
    pairs = [(sha256(grain).digest(), grain) for grain in grains]
    store.write(lambda writer: writer.put(pairs))
    with store.read() as reader:
        ada, grace = (seq or 0 for seq in reader.find([digest for digest, _ in pairs]))
    add(store, {ada: [1.0]}, "a")
    add(store, {ada: [1.0]}, "b")
    assert refused(add, store, {ada: [1.0]}, "c") == ("ERR_RANGE", "/model")
    add(store, {grace: [1.0]}, "c")
    add(store, {ada: [1.0]}, "c")  # which grace uses first
    remove(store, [ada])
    add(store, {grace: [1.0]}, "a")


def test_no_tenant_fixes_the_dimension_of_a_model(store: Storage) -> None:
    first, second = put(store, 2)
    add(store, {first: [1.0]})
    add(store, {second: [1.0, 0.0, 0.0]})
    assert search(store, [1.0]) == [Match(first, 1.0)]
    assert search(store, [1.0, 0.0, 0.0], model="m") == [Match(second, 1.0)]
    add(store, {first: [0.0, 1.0, 0.0]})  # in place of the other, which was its model's last
    with store.read() as reader:
        assert vectors.vectors_of(reader, first) == {"m": array("f", [0, 1, 0])}
        assert vectors.models(reader) == [vectors.Model("m", 2, 3)]
        assert len(list(reader.rows(VECTORS))) == 2


def test_a_model_is_forgotten_with_its_last_vector(store: Storage) -> None:
    first, second, third = put(store, 3)
    add(store, {first: [1.0], second: [1.0]})
    add(store, {third: [1.0]}, "other")
    for seq, left in ((first, ["m", "other"]), (second, ["other"]), (third, [])):
        remove(store, [seq])
        with store.read() as reader:
            assert [model.name for model in vectors.models(reader)] == left


@pytest.mark.parametrize("row", [b"", b"\x81\xa2id\x01", b"\x93\x01\x02\x03", b"\xc1"])
def test_a_damaged_model(store: Storage, row: bytes) -> None:
    store.write(lambda writer: writer.set_row(MODELS, b"m", row))
    assert refused(search, store, [1.0]) == ("ERR_STORE", None)


def test_search_agrees_with_the_definition(store: Storage) -> None:
    random = Random(5)
    for dimension in (1, 3, 8, 29):
        seqs = put(store, 60, 1000 * dimension)
        rows = {seq: noise(random, dimension) for seq in seqs}
        add(store, rows, f"{dimension} values")
        for limit in (1, 7, 60, 500):
            query = noise(random, dimension)
            best = sorted(((cosine(query, v), seq) for seq, v in rows.items()), reverse=True)
            found = search(store, query, model=f"{dimension} values", limit=limit)
            assert [near.score for near in found] == pytest.approx([c for c, _ in best[:limit]])
            if dimension > 1:
                assert [near.seq for near in found] == [seq for _, seq in best[:limit]]


def test_pages_of_rows_are_one_ranking(store: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    from omsgrain.search import nearest

    random = Random(6)
    rows = {seq: noise(random, 4) for seq in put(store, 200)}
    add(store, rows)
    query = noise(random, 4)
    whole = search(store, query, limit=20)
    for size in (1, 16, 48, 160):
        monkeypatch.setattr(nearest, "_PAGE", size)
        assert search(store, query, limit=20) == whole


def test_of_equals_the_newest_comes_first(store: Storage) -> None:
    seqs = put(store, 40)
    add(store, {seq: [2.0, 0.0] if seq % 2 else [0.0, 1.0] for seq in seqs})
    found = search(store, [1.0, 0.0], limit=25)
    odd, even = [s for s in seqs if s % 2], [s for s in seqs if not s % 2]
    assert [near.seq for near in found] == sorted(odd, reverse=True) + sorted(even)[:14:-1]
    assert {near.score for near in found} == {1.0, 0.0}


def test_only_allowed_grains(store: Storage) -> None:
    random = Random(7)
    rows = {seq: noise(random, 6) for seq in put(store, 100)}
    add(store, rows)
    query = noise(random, 6)
    whole = [near.seq for near in search(store, query, limit=100)]
    allowed = set(random.sample(whole, 30)) | {999}
    found = search(store, query, limit=100, allowed=allowed)
    assert [near.seq for near in found] == [seq for seq in whole if seq in allowed]
    assert search(store, query, allowed=()) == []


def test_only_accepted_grains_and_few_are_asked(store: Storage) -> None:
    random = Random(8)
    rows = {seq: noise(random, 6) for seq in put(store, 1_000)}
    add(store, rows)
    query = noise(random, 6)
    whole = [near.seq for near in search(store, query, limit=1_000)]
    asked = []

    def third(seq: int) -> bool:
        asked.append(seq)
        return seq % 3 == 0

    found = search(store, query, limit=5, accept=third)
    assert [near.seq for near in found] == [seq for seq in whole if seq % 3 == 0][:5]
    assert len(asked) == len(set(asked)) < 200
    both = search(store, query, allowed=whole[:20], accept=third, limit=20)
    assert [near.seq for near in both] == [seq for seq in whole[:20] if seq % 3 == 0]
    assert search(store, query, accept=lambda seq: False) == []


def test_models_are_never_compared(store: Storage) -> None:
    first, second = put(store, 2)
    add(store, {first: [1.0, 0.0]}, "a")
    assert search(store, [1.0, 0.0]) == [Match(first, 1.0)]
    add(store, {second: [1.0, 0.0]}, "b")
    assert search(store, [1.0, 0.0], model="a") == [Match(first, 1.0)]
    assert search(store, [1.0, 0.0], model="b") == [Match(second, 1.0)]
    for model in (None, "c", "", 7):
        bad = refused(search, store, [1.0, 0.0], model=model)
        assert bad == ("ERR_SCHEMA", "/model")


def test_invalid_searches(store: Storage) -> None:
    assert search(store, [1.0]) == []  # no vectors yet, of whatever model
    assert search(store, [1.0], model="m") == []
    (seq,) = put(store, 1)
    add(store, {seq: [1.0, 2.0]})
    assert refused(search, store, [1.0]) == ("ERR_SCHEMA", "/vector")
    assert refused(search, store, [0.0, 0.0]) == ("ERR_RANGE", "/vector")
    for limit in (0, -1, 10_001):
        assert refused(search, store, [1.0, 0.0], limit=limit) == (
            "ERR_RANGE",
            "/limit",
        )


def test_a_removed_grain_is_found_no_more(store: Storage) -> None:
    first, second = put(store, 2)
    add(store, {first: [1.0, 0.0], second: [1.0, 1.0]}, "a")
    add(store, {first: [1.0]}, "b")
    remove(store, [first])
    assert [near.seq for near in search(store, [1.0, 0.0], model="a")] == [second]
    assert refused(search, store, [1.0], model="b") == ("ERR_SCHEMA", "/model")
    with store.read() as reader:
        assert len(list(reader.rows(VECTORS))) == 1


def test_a_row_of_another_size_is_passed_over(store: Storage) -> None:
    first, second = put(store, 2)
    add(store, {first: [1.0, 0.0], second: [1.0, 1.0]})
    key = struct.pack(">IQ", 1, first)
    for damaged in (b"", b"123", bytes(12), struct.pack("<2f", math.nan, 1)):
        set_row(store, key, damaged)
        assert [near.seq for near in search(store, [1.0, 0.0])] == [second]
