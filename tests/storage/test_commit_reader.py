# SPDX-License-Identifier: Apache-2.0
"""What the core reads of the newest commit in one call is what a snapshot reads."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lmdb
import pytest

import omsgrain as og
from omsgrain import _core
from omsgrain import errors as err
from omsgrain.query.query import run
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import BLOBS, COUNTER, COUNTERS, SEQUENCE
from omsgrain.store.context import Settings, context_of


def belief(n: int) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": f"door {n % 5}",
        "relation": "is",
        "object": f"open {n}",
        "confidence": 0.9,
        "created_at": 1_700_000_000_000 + n * 7919 % 1000,
        "user_id": f"u{n % 2}",
    }


def put_many(store: og.GrainStore, grains: list[dict[str, Any]]) -> list[str]:
    return [address for address in store.put_many(grains).addresses if address is not None]


def lmdb_of(store: og.GrainStore) -> LmdbStorage:
    storage = context_of(store).storage
    assert isinstance(storage, LmdbStorage)
    return storage


def see_get(store: og.GrainStore, address: str) -> None:
    context = context_of(store)
    with context.storage.read() as reader:
        grain = reader.named(bytes.fromhex(address))
    found = context.get(address)
    if grain is None:
        assert found is None
        with pytest.raises(err.NotFoundError):
            store.get(address)
        return
    if found is not None:  # where grains of the memtable were removed, a snapshot is asked
        assert (found.blob, found.address, found.fields) == (grain.blob, address, grain.fields)
    assert store.get(address) == grain


QUERIES: list[Mapping[str, Any]] = [
    {"subject": "door 1", "relation": "is"},
    {"subject": "door 2"},
    {"user_id": "u1"},
    {"relation": "was"},
    {"type": "belief"},
    {},
]


def see_queries(store: og.GrainStore) -> None:
    for filters in QUERIES:
        for order in ("newest", "oldest"):
            for limit in (1, 3, 50):
                with context_of(store).storage.read() as reader:
                    expected = run(reader, filters, order=order, limit=limit)  # type: ignore
                page = store.query(order=order, limit=limit, **filters)
                assert page.results == expected.results
                assert page.next_cursor == expected.next_cursor


def test_the_core_reads_what_a_snapshot_reads(tmp_path: Path) -> None:
    rng = random.Random(26)
    with og.open(tmp_path / "memory.omsg") as store, og.open(tmp_path / "memory.omsg") as other:
        addresses: list[str] = []
        for n in range(60):
            match rng.choice(("put", "put", "put", "many", "supersede", "delete", "flush")):
                case "put":
                    addresses.append(rng.choice((store, other)).put(belief(n)))
                case "many":
                    batch = [belief(1000 * n + i) for i in range(9)]
                    addresses += put_many(store, batch)
                case "supersede" if addresses:
                    old = rng.choice(addresses)
                    if old in store:
                        addresses.append(store.supersede(old, {**belief(n), "relation": "was"}))
                case "delete" if addresses:
                    gone = rng.choice(addresses)
                    if gone in store:
                        store.delete(gone)
                case _:
                    lmdb_of(store).flush()
            for address in rng.sample(addresses, min(4, len(addresses))):
                see_get(store, address)
            there = [one for one in addresses if one in store]
            assert [grain.address for grain in store.get_many(there)] == there
            see_queries(store)


def test_a_page_is_read_in_one_call(tmp_path: Path) -> None:
    with og.open(tmp_path / "memory.omsg") as store:
        addresses = put_many(store, [belief(n) for n in range(40)])
        for flushed in (False, True):
            if flushed:
                lmdb_of(store).flush()
            store.query(subject="door 1")  # of a new commit, a snapshot is read first
            context, term = context_of(store), _core.term("all", None)
            page = context.page(term, True, 10, 0)
            assert page is not None
            rows, last, more = page
            assert more
            assert len(rows) == 10
            assert SEQUENCE.unpack(bytes(4) + last[12:])[0] == addresses.index(rows[-1][1]) + 1
            assert context.page(term, True, 50, 0) is not None
            # What only the grain itself tells is left to a snapshot.
            assert context.page(term, True, 10, store.get(addresses[0]).header.type_byte) is None


def test_reads_in_one_call_are_counted(tmp_path: Path) -> None:
    now = [5_000]
    storage = LmdbStorage(tmp_path / "memory.omsg")
    with og.GrainStore(storage, Settings(clock=lambda: now[0])) as store:
        first, second = (store.put(belief(n)) for n in (1, 6))
        for _ in range(3):
            store.get(first)
        now[0] = 6_000
        store.get_many([first, second, first])
        store.query(subject="door 1", relation="is")
        assert store.status(first).access_count == 6
        assert store.status(second).access_count == 2
        now[0] = 7_000
        store.query(subject="door 1", relation="is", limit=1, order="oldest")
        oldest = min((first, second), key=lambda one: store.get(one)["created_at"])
        assert store.status(oldest).last_accessed_at == 7_000
    with og.open(tmp_path / "quiet.omsg", count_access=False) as store:
        first = store.put(belief(1))
        for _ in range(3):
            store.get(first)
            store.query(subject="door 1", relation="is")
        assert store.status(first).access_count == 0


def test_what_another_process_put_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    code = f"""
import sys, omsgrain as og
with og.open({str(path)!r}) as store:
    for line in sys.stdin:
        n = int(line)
        if n < 0:
            store.maintenance.compact()
        print(store.put({{"type": "belief", "subject": "door 1", "relation": "is",
            "confidence": 0.5, "object": f"other {{n}}", "created_at": 1800000000000 + n}}))
        sys.stdout.flush()
"""
    with (
        og.open(path) as store,
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        own = store.put(belief(1))
        assert other.stdin is not None
        assert other.stdout is not None
        for n in (1, 2, -3, 4):
            for _ in range(2):
                store.get(own)
                store.query(subject="door 1")
            print(n, file=other.stdin, flush=True)
            address = other.stdout.readline().strip()
            page = store.query(subject="door 1", limit=1) if n > 0 else None
            assert store.get(address)["object"] == f"other {n}"
            assert page is None or page.results[0].address == address
        other.stdin.close()


def test_damage_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        addresses = put_many(store, [belief(n) for n in range(10)])
    env = lmdb.open(str(path), max_dbs=64, create=False)
    blobs = env.open_db(BLOBS.name, create=False)
    with env.begin(write=True) as txn:
        found = txn.get(SEQUENCE.pack(2), db=blobs)
        assert found is not None
        row = bytearray(found)
        row[-3] ^= 1
        txn.put(SEQUENCE.pack(2), bytes(row), db=blobs)
    env.close()
    with og.open(path) as store:
        assert store.get(addresses[0]).address == addresses[0]
        for _ in range(2):
            with pytest.raises(err.IntegrityError):
                store.get(addresses[1])
            with pytest.raises(err.IntegrityError):
                store.get_many(addresses)
            with pytest.raises(err.IntegrityError):
                store.query(subject="door 1")
        assert store.status(addresses[1]).access_count == 0


def test_a_closed_store_answers_no_more(tmp_path: Path) -> None:
    store, other = og.open(tmp_path / "memory.omsg"), og.open(tmp_path / "memory.omsg")
    address = store.put(belief(1))
    store.get(address)
    latest = lmdb_of(store).latest()
    assert latest is not None
    store.close()
    assert other.get(address) == other.get(address)
    for ask in (lambda: store.get(address), lambda: store.query(subject="door 1")):
        with pytest.raises(err.StoreError):
            ask()
    other.close()
    assert latest.get(address, None, None) is None


@pytest.mark.parametrize("address", ["", "0" * 63, "0" * 65, "A" * 64, "\ud800" * 64, "é" * 64])
def test_what_is_not_an_address_is_refused_as_ever(tmp_path: Path, address: str) -> None:
    with og.open(tmp_path / "memory.omsg") as store:
        store.get(store.put(belief(1)))
        with pytest.raises(err.AddressError):
            store.get(address)
        with pytest.raises(err.AddressError):
            store.get_many([address])


def test_threads_read_while_another_writes(tmp_path: Path) -> None:
    wrong: list[BaseException] = []
    with og.open(tmp_path / "memory.omsg", durability="relaxed") as store:
        addresses = [store.put(belief(n)) for n in range(5)]
        done = threading.Event()

        def read() -> None:
            try:
                while not done.is_set():
                    known = len(addresses)
                    assert store.get(addresses[known - 1]).address == addresses[known - 1]
                    there = {hit.address for hit in store.query(user_id="u1", limit=1000)}
                    assert there >= {a for n, a in enumerate(addresses[:known]) if n % 2}
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for n in range(5, 120):
            addresses.append(store.put(belief(n)))
            if n % 40 == 0:
                lmdb_of(store).flush()
            if n == 100:
                store.maintenance.compact()
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_refused_write_ends_beside_threads_that_read_without_a_pause(tmp_path: Path) -> None:
    refused = []
    with og.open(tmp_path / "memory.omsg", durability="relaxed") as store:
        address = store.put(belief(0))
        done = threading.Event()
        left = []

        def read() -> None:
            for n in range(100_000):  # many times what the writes take
                if done.is_set():
                    left.append(n)
                    return
                store.get(address)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            with pytest.raises(err.NotFoundError) as failure:
                store.delete("0" * 64)
            refused.append(failure.value.code)
        done.set()
        for thread in threads:
            thread.join()
    assert len(refused) == 10
    assert len(left) == 2, "the writes waited until the reads had ended"


# --- the write of counts -------------------------------------------------------------------------


def test_counts_of_grains_that_were_removed_meanwhile_are_dropped(tmp_path: Path) -> None:
    """Reads in one call note sequence numbers, which hold only as long as nothing is written."""
    with og.open(tmp_path / "memory.omsg") as store, og.open(tmp_path / "memory.omsg") as other:
        addresses = put_many(store, [belief(n) for n in range(30)])
        store.get(addresses[0])
        assert len(store.get_many(addresses)) == 30
        other.delete(addresses[7])
        context_of(store).write_counts()
        with context_of(store).storage.read() as reader:
            rows = [*reader.rows(COUNTERS)]
        counted = {SEQUENCE.unpack(key)[0]: COUNTER.unpack(row)[0] for key, row in rows}
        numbers = [n for n in range(1, 31) if n != 8]
        assert counted == {n: 1 + (n == 1) for n in numbers}
        # Again, with numbers of this commit.
        store.query(limit=1)
        store.query(limit=50)
        context_of(store).write_counts()
        store.get(addresses[3])
        assert [store.status(addresses[n]).access_count for n in (0, 3)] == [3, 3]
        again = other.put(belief(7))
        assert again == addresses[7]
        assert store.status(again).access_count == 0
        assert lmdb_of(store).check().ok


def test_numbers_that_a_read_noted_are_not_looked_up(tmp_path: Path) -> None:
    with og.open(tmp_path / "memory.omsg") as store:
        addresses = put_many(store, [belief(n) for n in range(30)])
        store.get(addresses[0])
        below, counts = lmdb_of(store), _core.ReadCounts(100)
        latest = below.latest()
        assert latest is not None
        assert latest.get_many(addresses, counts, 5) is not None
        counts.count([bytes.fromhex(addresses[4]), bytes(32)], 6)
        assert counts.take()
        unknown = below.write(lambda writer: counts.digests(writer.follows()))
        assert unknown == [bytes(32)]
        store.put(belief(100))
        assert len(below.write(lambda writer: counts.digests(writer.follows()))) == 31
