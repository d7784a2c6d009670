# SPDX-License-Identifier: Apache-2.0
"""Damage to an audit trail is found, and named for what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest

from omsgrain.storage import audit
from omsgrain.storage.audit import AuditEntry, AuditLog, Checkpoint
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import AUDIT, META
from support.audit_trails import HEAD, KEY, PAIRS, TIME, key, lived, named, rows, set_row, verify
from support.scale import Scale


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    in_memory = request.param == "memory"
    store: Storage = MemoryStorage() if in_memory else LmdbStorage(tmp_path / "memory.omsg")
    yield store
    store.close()


# What somebody does to the rows, and which entries are named for it.


def edit(number: int, name: str, value: Any, *, rehash: bool = False) -> Callable[[Storage], None]:
    def act(store: Storage) -> None:
        row = rows(store)[number]
        body = msgpack.packb(msgpack.unpackb(row[32:]) | {name: value})
        hash = sha256(rows(store)[number - 1][:32] + body).digest() if rehash else row[:32]
        set_row(store, number, hash + body)

    return act


def swap(one: int, other: int, *, renumber: bool = False) -> Callable[[Storage], None]:
    def act(store: Storage) -> None:
        before = rows(store)
        for number, row in ((one, before[other]), (other, before[one])):
            if renumber:
                row = row[:32] + msgpack.packb(msgpack.unpackb(row[32:]) | {"i": number})
            set_row(store, number, row)

    return act


def drop(*numbers: int) -> Callable[[Storage], None]:
    def act(store: Storage) -> None:
        for number in numbers:
            set_row(store, number, None)

    return act


def drop_and_close_up(number: int) -> Callable[[Storage], None]:
    def act(store: Storage) -> None:
        before = rows(store)
        for later in range(number, 10):
            set_row(store, later, before[later + 1])
        set_row(store, 10, None)

    return act


def overwrite(number: int, change: Callable[[bytes], bytes]) -> Callable[[Storage], None]:
    return lambda store: set_row(store, number, change(rows(store)[number]))


def meta(name: bytes, change: Callable[[bytes], bytes | None]) -> Callable[[Storage], None]:
    return lambda store: store.write(
        lambda writer: writer.set_row(META, name, change(writer.row(META, name) or b""))
    )


DAMAGE: dict[str, tuple[Callable[[Storage], None], list[int | None]]] = {
    "edited": (edit(5, "t", TIME + 1), [5]),
    "edited first": (edit(1, "o", "import"), [1]),
    "edited last": (edit(10, "a", "did:web:other.example"), [10]),
    "edited and hashed anew": (edit(5, "t", TIME + 1, rehash=True), [6]),
    "edited last and hashed anew": (edit(10, "t", 1, rehash=True), [10]),
    "hash": (overwrite(5, lambda row: bytes(32) + row[32:]), [5]),
    "hash of the last": (overwrite(10, lambda row: bytes(32) + row[32:]), [10, 10]),
    "not MessagePack": (overwrite(5, lambda row: row[:32] + b"\xc1"), [5]),
    "no map": (overwrite(5, lambda row: row[:32] + b"\x93\x01\x02\x03"), [5]),
    "deep": (overwrite(5, lambda row: row[:32] + b"\x91" * 5_000), [5]),
    "long": (overwrite(5, lambda row: row + bytes(1 << 16)), [5]),
    "cut": (overwrite(5, lambda row: row[:40]), [5]),
    "empty": (overwrite(5, lambda row: b""), [5]),
    "field of another kind": (edit(5, "t", "noon"), [5]),
    "field nobody knows": (edit(5, "z", 1), [5]),
    "half a tag": (edit(5, "g", b"0123456789"), [5]),
    "nested details": (edit(6, "d", {"authority": ["x"]}), [6]),
    "swapped": (swap(5, 7), [5, 7]),
    "swapped neighbours": (swap(5, 6), [5, 6]),
    "swapped and renumbered": (swap(5, 7, renumber=True), [5, 6, 7, 8]),
    "dropped": (drop(5), [5]),
    "dropped two": (drop(5, 6), [5]),
    "dropped first": (drop(1), [1]),
    "dropped last": (drop(9, 10), [9]),
    "dropped all": (drop(*range(1, 11)), [1]),
    "dropped and closed up": (drop_and_close_up(8), [8, 9, 10]),
    "copied behind the end": (lambda store: set_row(store, 11, rows(store)[10]), [11, 11]),
    "key that is no number": (
        lambda store: store.write(lambda writer: writer.set_row(AUDIT, b"x", b"x")),
        [None],
    ),
    "number beyond all": (lambda store: set_row(store, 2**64 - 1, b"x"), [11, 2**64 - 1, 11]),
    "end gone": (meta(HEAD, lambda head: None), [None]),
    "end cut": (meta(HEAD, lambda head: head[:12]), [None]),
    "end of another hash": (meta(HEAD, lambda head: head[:8] + bytes(32)), [10]),
    "end too early": (meta(HEAD, lambda head: key(8) + head[8:]), [9]),
    "end too late": (meta(HEAD, lambda head: key(12) + head[8:]), [11]),
    "another key of tags": (meta(KEY, lambda value: bytes(32)), [1]),
    "no key of tags": (meta(KEY, lambda value: None), [1]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(store: Storage, name: str) -> None:
    lived(store)
    act, numbers = DAMAGE[name]
    act(store)
    assert named(verify(store)) == numbers
    list(AuditLog(store).entries(address=PAIRS[3][0].hex()))


def test_any_flipped_byte_names_its_entry(store: Storage, scale: Scale) -> None:
    lived(store)
    random = Random(4)
    before = rows(store)

    def work(writer: Writer) -> None:
        for _ in range(scale.noise // 50):
            number = random.randrange(1, 11)
            row = bytearray(before[number])
            row[random.randrange(len(row))] ^= random.randrange(1, 256)
            writer.set_row(AUDIT, key(number), bytes(row))
            assert set(named(audit.verify(writer, grains=True))) == {number}
            writer.set_row(AUDIT, key(number), before[number])

    store.write(work)


def test_noise_is_reported_and_never_raises(store: Storage, scale: Scale) -> None:
    random = Random(5)
    lived(store)

    def work(writer: Writer) -> None:
        body = msgpack.packb({random.choice("itoagsc"): random.choice([1, "x", b"x", None])})
        for row in (random.randbytes(random.randrange(80)), bytes(32) + body):
            writer.set_row(AUDIT, key(random.randrange(1, 12)), row)
        assert not audit.verify(writer).ok
        audit.checkpoint(writer)

    for _ in range(scale.noise // 100):
        store.write(work)
        list(AuditLog(store).entries(address=PAIRS[3][0].hex()))


def test_a_damaged_entry_is_listed_as_such(store: Storage) -> None:
    lived(store)
    set_row(store, 5, b"x")
    listed = list(AuditLog(store).entries(operation="erase"))
    assert listed[0] == AuditEntry(5, sound=False)
    assert [entry.operation for entry in listed] == ["", "erase"]


def test_the_number_of_problems_is_bounded(store: Storage) -> None:
    def work(writer: Writer) -> None:
        for number in range(1, 1_101):
            writer.set_row(AUDIT, key(number), b"x")

    store.write(work)
    report = verify(store)
    assert (report.ok, report.entries, len(report.problems)) == (False, 1_100, 1_000)


def rewrite(store: Storage, first: int, last: int, change: dict[str, Any]) -> None:
    """Change an entry and make the rest fit, as an expert would."""
    before = rows(store)
    hash = before[first - 1][:32]
    for number, row in before.items():
        if number > last:
            set_row(store, number, None)
        elif number >= first:
            body = msgpack.unpackb(row[32:]) | (change if number == first else {})
            packed = msgpack.packb(body)
            hash = sha256(hash + packed).digest()
            set_row(store, number, hash + packed)
    store.write(lambda writer: writer.set_row(META, HEAD, key(last) + hash))


@pytest.mark.parametrize(
    ("first", "last", "seen"),
    [(4, 10, [7]), (7, 10, [7]), (8, 10, []), (4, 8, [7]), (6, 6, [7]), (9, 9, [])],
)
def test_a_rewritten_tail_differs_from_a_checkpoint(
    store: Storage, first: int, last: int, seen: list[int]
) -> None:
    lived(store)
    row = rows(store)[7]
    kept = Checkpoint(7, row[:32].hex(), TIME)
    rewrite(store, first, last, {"a": "did:web:nobody.example"})
    assert named(verify(store)) == []
    assert named(verify(store, kept)) == seen
