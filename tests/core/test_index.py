# SPDX-License-Identifier: Apache-2.0
"""The index tables: a pure function of the blobs, written behind a watermark."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import ADDRESSES, TERMS, Table
from omsgrain.store.context import context_of
from support.child_process import run

TIME = 1_700_000_000_000


def grains(count: int, seed: int = 1) -> og.batch.GrainBatch:
    """Grains with terms of every kind, some long, in no order of time."""
    random = Random(seed)
    kinds: list[dict[str, Any]] = [
        {"type": "belief", "subject": "s", "relation": "r", "object": "o", "confidence": 0.5},
        {"type": "event", "content": "something happened"},
        {"type": "observation", "observer_id": "robot", "observer_type": "human"},
    ]
    return og.encode_many(
        {
            **kinds[n % 3],
            "created_at": TIME + random.randrange(count),
            "subject": f"room {random.randrange(50)} {'x' * random.randrange(60)}",
            "relation": random.choice(["has", "is", "y" * 50]),
            "namespace": random.choice(["house", "garden", "n" * 490]),
            "user_id": f"user {random.randrange(9)}",
            "structural_tags": random.sample(["a", "b", "t" * 41, "\u00e9"], 2),
            "x_number": n,
        }
        for n in range(count)
    )


def dump(store: og.GrainStore, table: Table) -> list[tuple[bytes, bytes]]:
    inner = context_of(store).storage
    assert isinstance(inner, LmdbStorage)
    with inner.read() as reader, reader._txn.cursor(inner._env.tables[table]) as cursor:
        return [(bytes(key), bytes(value)) for key, value in cursor]


def digest_of(store: og.GrainStore, table: Table) -> tuple[int, str]:
    inner = context_of(store).storage
    assert isinstance(inner, LmdbStorage)
    hashed, rows = sha256(), 0
    with inner.read() as reader, reader._txn.cursor(inner._env.tables[table]) as cursor:
        for key, value in cursor:
            hashed.update(len(key).to_bytes(4, "big") + key + value)
            rows += 1
    return rows, hashed.hexdigest()


def small_runs(monkeypatch: pytest.MonkeyPatch, run: int) -> None:
    for module in ("memtable", "storage", "maintenance"):
        monkeypatch.setattr(f"omsgrain.storage.lmdb.{module}.RUN", run)


def test_rebuilding_gives_the_same_bytes(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 200_000 if request.config.getoption("--long") else 3_000
    small_runs(monkeypatch, count // 7)
    with og.open(tmp_path / "memory.omsg", durability="relaxed") as store:
        batch = grains(count)
        assert store.put_many(batch, errors="collect").stored == count
        context_of(store).inner.flush()
        before = [digest_of(store, table) for table in (ADDRESSES, TERMS)]
        report = store.maintenance.rebuild()
        assert (report.grains, report.readdressed, report.damaged) == (count, 0, ())
        assert [digest_of(store, table) for table in (ADDRESSES, TERMS)] == before
        assert before[0][0] == count
        assert before[1][0] == report.rows > 8 * count
        small_runs(monkeypatch, count // 3)
        store.maintenance.rebuild()
        assert [digest_of(store, table) for table in (ADDRESSES, TERMS)] == before
        assert store.maintenance.check().ok


def test_how_grains_came_makes_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = grains(1_000)
    tables = []
    for name, run_size, step, close in (
        ("one", 10_000, 1_000, False),
        ("two", 30, 7, False),
        ("three", 10_000, 90, True),
        ("four", 333, 1_000, False),
    ):
        small_runs(monkeypatch, run_size)
        store = og.open(tmp_path / name, durability="relaxed")
        for start in range(0, 1_000, step):
            store.put_many(batch.blobs[start : start + step])
            if close:
                store.close()
                store = og.open(tmp_path / name, durability="relaxed")
        context_of(store).inner.flush()
        tables.append((dump(store, ADDRESSES), dump(store, TERMS)))
        store.close()
    assert all(table == tables[0] for table in tables)


def test_the_watermark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_runs(monkeypatch, 100)
    path, blobs = tmp_path / "memory.omsg", grains(350).blobs
    with og.open(path) as store:
        store.put_many(blobs[:99])
        assert store.stats().watermark == 0
        assert dump(store, ADDRESSES) == dump(store, TERMS) == []
        store.put(blobs[99])
        assert store.stats().watermark == 100
        store.put_many(blobs[100:150])
        assert store.stats().watermark == 100
        assert len(dump(store, ADDRESSES)) == 100
        before = dump(store, TERMS)
        assert {int.from_bytes(place[12:], "big") for _, place in before} == set(range(1, 101))
    with og.open(path, readonly=True) as store:
        assert store.stats().watermark == 150  # closing flushes
        assert len(store) == 150
    with og.open(path) as store:
        store.put_many(blobs[150:])
        assert store.stats().watermark == 350
        context_of(store).inner.flush()  # nothing is left to write
        assert store.stats().watermark == 350


def test_a_fresh_process_finds_the_tail(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    code = """
        import os, sys, omsgrain as og
        from omsgrain.store.context import context_of
        store = og.open(sys.argv[1])
        for n in range(30):
            print(store.put(og.Belief(subject=f"room {n % 3}", relation="has", object="light",
                                      created_at=1_700_000_000_000 + n)), flush=True)
            if n == 12:
                context_of(store).storage.flush()
        os._exit(0)  # no close, and so no flush
    """
    addresses = run(code, path)
    with og.open(path, readonly=True) as store:
        assert store.stats().watermark == 13
        assert [store.get(address).address for address in addresses] == addresses
        hits = store.query(relation="has", order="oldest").results
        assert [hit.address for hit in hits] == addresses
        page = store.query(subject="room 1", count=True)
        assert page.total == len(page.results) == 10
    with og.open(path) as store:
        report = store.put_many([store.get(address) for address in addresses])
        assert report.duplicates == 30


def test_old_snapshots_while_a_run_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader sees a prefix of the grains that were put, whole and in order."""
    small_runs(monkeypatch, 25)
    blobs = [
        og.encode(
            {
                "type": "event",
                "content": str(n),
                "user_id": f"user {n % 2}",
                "created_at": TIME + n,
            }
        )
        for n in range(600)
    ]
    order = [og.address(blob) for blob in blobs]
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                size = len(store)
                page = store.query(order="oldest", limit=10_000, count=True)
                found = [hit.address for hit in page.results]
                if found != order[: len(found)] or page.total != len(found) < size:
                    wrong.append((size, page.total, len(found)))
                halves = [store.query(user_id=f"user {n}", limit=10_000) for n in range(2)]
                for n, half in enumerate(halves):
                    found = [hit.address for hit in half.results][::-1]
                    if found != order[n::2][: len(found)]:
                        wrong.append((n, len(found)))
        except Exception as error:
            wrong.append(error)

    with og.open(tmp_path / "memory.omsg", durability="relaxed") as store:
        inner = context_of(store).storage
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        with ExitStack() as held:
            old = {}
            for start in range(0, 600, 10):
                store.put_many(blobs[start : start + 10])
                if start in (100, 110, 300):
                    old[start + 10] = held.enter_context(inner.read())
            done.set()
            for thread in threads:
                thread.join()
            for size, reader in old.items():
                places = reader.places(og._core.term("all", None), None, False)
                seqs = [int.from_bytes(place[12:], "big") for place in places]
                assert seqs == list(range(1, size + 1))
    assert not wrong


def test_a_snapshot_from_before_a_flush(tmp_path: Path) -> None:
    key = og._core.term("relation", "has")
    blobs = grains(200).blobs
    with og.open(tmp_path / "memory.omsg") as store:
        inner = context_of(store).inner
        store.put_many(blobs[:60])

        def flush_put_flush() -> None:
            inner.flush()
            store.put_many(blobs[60:])
            inner.flush()

        with inner.read() as empty_handed, inner.read() as reader:
            before = list(reader.places(key, None, True))
            writer = threading.Thread(target=flush_put_flush)
            writer.start()
            writer.join()
            for old in (reader, empty_handed):  # one has the rows already, one makes them now
                assert list(old.places(key, None, True)) == before
                assert list(old.places(key, None, False)) == before[::-1]
                assert old.term_count(key) == len(before)
                assert all(old.has_term(key, place) for place in before)
                assert old.find([sha256(blob).digest() for blob in blobs[59:61]]) == [60, None]
        total = store.query(relation="has", count=True).total
        assert total is not None and total > len(before)


def test_plans(tmp_path: Path) -> None:
    with og.open(tmp_path / "memory.omsg", durability="relaxed") as store:
        store.put_many(grains(900))
        context_of(store).inner.flush()
        store.put_many(grains(100, seed=2))
        subject = store.query(type="belief").results[0].grain["subject"]
        user = "user 3"

        def plan(**filters: Any) -> Any:
            return store.query(**filters, explain=True).plan

        assert plan(limit=10).index == "all"
        assert plan(limit=10).rows <= 11  # one more, to know whether there is another page
        rare = plan(subject=subject, user_id=user, namespace="house")
        assert rare.index == "subject"
        assert set(rare.looked_up) == {"user_id", "namespace"}
        assert rare.rows <= rare.estimate < 100
        both = plan(subject=subject, relation="has")
        assert (both.index, both.looked_up) == ("subject relation", ())
        nothing = plan(subject="nobody", type="belief")
        assert (nothing.rows, nothing.estimate) == (0, 0)
        newest = store.query(limit=1).results[0].grain["created_at"]
        late = plan(created_after=newest)
        assert late.rows <= 2
        early = plan(created_before=TIME + 10, order="oldest", limit=1_000)
        assert early.rows <= 25
        filters = ("type", "namespace", "subject", "relation", "object", "user_id", "tag")
        for name in filters:
            assert plan(**{name: "belief"}).index == name
