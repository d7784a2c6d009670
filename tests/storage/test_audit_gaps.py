# SPDX-License-Identifier: Apache-2.0
"""Entries that aged out leave gaps which a later entry states; other gaps are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.storage.audit import Checkpoint
from omsgrain.storage.audit.gaps import GAPS_RECORD
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import AUDIT, META
from omsgrain.store.context import Settings, context_of
from support.audit_trails import key, named, rows, set_row, verify
from support.invented_people import Clock

TIME = 1_700_000_000_000
DAY = 86_400_000


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    inner: Storage = MemoryStorage()
    if request.param == "lmdb":
        inner = LmdbStorage(tmp_path / "m.omsg")
    with og.GrainStore(inner, Settings(clock=Clock(TIME))) as store:
        yield store


def event(n: int, **more: Any) -> dict[str, Any]:
    return {"type": "event", "content": f"reading {n}", "created_at": TIME + n * DAY, **more}


def aged(store: og.GrainStore, days: int) -> int:
    """Remove what was created before some day."""
    clock = context_of(store).settings.clock
    assert isinstance(clock, Clock)
    clock.now = TIME + days * DAY + 7 * DAY
    return store.maintenance.retain(keep="7d").removed


def storage(store: og.GrainStore) -> Storage:
    return context_of(store).inner


def test_entries_go_with_their_grains(store: og.GrainStore) -> None:
    addresses = [store.put(event(n)) for n in range(10)]
    store.holds.add(addresses[3], authority="did:web:court.example", reason_code="case")
    assert aged(store, 6) == 5
    left = [(entry.number, entry.operation) for entry in store.audit.entries()]
    assert left == [
        (1, "put"),  # has the hash of the key
        (4, "put"),  # of the held grain
        *((n, "put") for n in range(7, 11)),
        (11, "hold"),
        (12, "retain"),
    ]
    assert verify(storage(store), grains=True).ok
    assert aged(store, 9) == 3
    numbers = [entry.number for entry in store.audit.entries()]
    assert numbers == [1, 4, 10, 11, 12, 13]
    assert verify(storage(store), grains=True).ok


def test_old_statements_of_gaps_go_too(store: og.GrainStore) -> None:
    for n in range(40):
        store.put(event(n))
        aged(store, n)
    found = [entry.operation for entry in store.audit.entries()]
    assert len(found) < 8 and found.count("retain") < 4
    assert verify(storage(store)).ok and len(store) == 1


def test_entries_of_a_batch_stay_with_its_last_grain(store: og.GrainStore) -> None:
    store.put(event(0))
    store.put_many([event(n) for n in range(1, 60)])
    aged(store, 30)
    assert [entry.number for entry in store.audit.entries()] == [1, 2, 3]
    aged(store, 60)
    assert [entry.number for entry in store.audit.entries()] == [1, 3, 4]
    assert verify(storage(store)).ok


def drop(number: int) -> Callable[[Storage], None]:
    return lambda store: set_row(store, number, None)


def forge(store: Storage) -> None:
    """Drop an entry, and let the record of gaps have it."""
    set_row(store, 11, None)

    def work(writer: Writer) -> None:
        record = bytearray(writer.row(META, GAPS_RECORD) or b"")
        record[40:48] = key(11)
        writer.set_row(META, GAPS_RECORD, bytes(record))

    store.write(work)


def edit(store: Storage) -> None:
    row = bytearray(rows(store)[7])
    row[0] ^= 1
    set_row(store, 7, bytes(row))


DAMAGE: dict[str, tuple[Callable[[Storage], None], list[int | None]]] = {
    "an entry beside a gap": (drop(7), [2, 5]),
    "an entry after the last gap": (drop(9), [2, 5, 9]),
    "the entry that states the gaps": (drop(12), [2, 5, 12]),
    "the hash that the statement covers": (edit, [8, 2, 5]),
    "an entry, with a forged record": (forge, [2, 5, 11]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_other_gaps_are_found(store: og.GrainStore, name: str) -> None:
    addresses = [store.put(event(n)) for n in range(10)]
    store.holds.add(addresses[3], authority="did:web:court.example", reason_code="case")
    aged(store, 6)
    store.put(event(20))
    act, numbers = DAMAGE[name]
    act(storage(store))
    assert named(verify(storage(store))) == numbers


def test_a_checkpoint_of_a_dropped_entry_proves_nothing(store: og.GrainStore) -> None:
    for n in range(5):
        store.put(event(n))
    old = store.audit.checkpoint()
    for n in range(5, 10):
        store.put(event(n))
    new = store.audit.checkpoint()
    aged(store, 8)
    assert named(store.audit.verify(old)) == [5]
    assert store.audit.verify(new).ok
    assert not store.audit.verify(Checkpoint(10, "0" * 64, TIME)).ok


def test_a_damaged_trail_stays_as_it_is(store: og.GrainStore) -> None:
    for n in range(10):
        store.put(event(n))
    set_row(storage(store), 3, b"x")
    aged(store, 6)
    assert set(rows(storage(store))) == {1, *range(3, 12)}
    assert named(verify(storage(store))) == [3]
    storage(store).write(lambda writer: writer.set_row(AUDIT, key(1), b"x"))
    aged(store, 8)
    assert set(rows(storage(store))) == {1, *range(3, 13)}
