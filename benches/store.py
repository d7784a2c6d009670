# SPDX-License-Identifier: Apache-2.0
"""Rows S2, S10, A1: grains in and out of a store on disk, its check, and as a table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import lmdb

import omsgrain as og
from benches import sqlite_peer
from benches.measure import Case, Plan, Row, check, timed
from omsgrain.storage.base import CheckReport
from omsgrain.storage.check import check as check_store

THREADS = 8
MAP = 1 << 30


def put(plan: Plan) -> Case:
    store = og.open(plan.directory / "ours.omsg")
    env = _environment(plan.directory / "peer")
    batches = plan.batches()
    encoded = [og.encode_many(batch) for batch in batches]
    pairs = [list(zip(batch.digests, batch.blobs, strict=True)) for batch in encoded]
    ours, peer = iter(batches), iter(pairs)

    def put_ours() -> list[str]:
        return [store.put(fields) for fields in next(ours)]

    def put_peer() -> None:
        for digest, blob in next(peer):
            with env.begin(write=True) as txn:
                txn.put(digest, blob)

    case = Case(timed(put_ours), timed(put_peer), plan.count)
    case.ours()
    case.peer()
    for digest, blob in pairs[0]:
        check(store.get(digest.hex()).blob == blob, "what was put is there")
        with env.begin() as txn:
            check(txn.get(digest) == blob, "what the peer put is there")
    return case


def put_sqlite(plan: Plan) -> Case:
    """The peer has one table with an index on each of five columns, and commits each insert."""
    store = og.open(plan.directory / "ours.omsg")
    table = sqlite_peer.opened(plan.directory / "peer.db")
    batches = plan.batches()
    encoded = [og.encode_many(batch) for batch in batches]
    rows = [sqlite_peer.rows(one, batch) for one, batch in zip(encoded, batches, strict=True)]
    ours, peer = iter(batches), iter(rows)

    def put_ours() -> list[str]:
        return [store.put(fields) for fields in next(ours)]

    def put_peer() -> None:
        for row in next(peer):
            table.execute(sqlite_peer.INSERT, row)

    case = Case(timed(put_ours), timed(put_peer), plan.count)
    case.ours()
    case.peer()
    for row in rows[0]:
        check(store.get(row[0].hex()).blob == row[1], "what was put is there")
        found = table.execute("SELECT blob FROM grains WHERE address = ?", row[:1]).fetchone()
        check(found == (row[1],), "what the peer put is there")
    return case


def put_threads(plan: Plan) -> Case:
    many = og.open(plan.directory / "many.omsg")
    one = og.open(plan.directory / "one.omsg")
    pool = ThreadPoolExecutor(THREADS)
    for_many, for_one = iter(plan.batches()), iter(plan.batches())

    def put_many() -> list[list[str]]:
        grains = next(for_many)
        parts = [grains[i::THREADS] for i in range(THREADS)]
        return list(pool.map(lambda part: [many.put(fields) for fields in part], parts))

    def put_one() -> list[str]:
        return [one.put(fields) for fields in next(for_one)]

    addresses = [address for part in put_many() for address in part]
    put_one()
    check(len(many) == len(one) == plan.count, "all were put")
    check(all(address in one for address in addresses), "the same were put")
    return Case(timed(put_many), timed(put_one), plan.count)


def whole(plan: Plan) -> Case:
    path = plan.directory / "ours.omsg"
    batch = og.encode_many(plan.grains())
    with og.open(path) as store:
        check(store.put_many(batch).stored == plan.count, "all are new")

    def ours() -> CheckReport:
        return check_store(path)  # without the start of a process, which is the same for any size

    def peer() -> list[str]:
        return [sha256(blob).hexdigest() for blob in batch.blobs]

    report = ours()
    check(report.ok and report.grains == plan.count, "all were looked at, and all is well")
    check(peer() == batch.addresses, "the same addresses")
    return Case(timed(ours), timed(peer), plan.count)


def to_arrow(plan: Plan) -> Case:
    store = og.open(plan.directory / "ours.omsg")
    check(store.put_many(plan.grains()).stored == plan.count, "all are new")
    names = ("created_at", "subject", "confidence")

    def ours() -> Any:
        return store.to_arrow(columns=names).read_all()

    def peer() -> list[tuple[Any, ...]]:
        return [tuple(grain.fields[name] for name in names) for grain in store]

    table = ours()
    columns = [table["created_at"].cast("int64"), table["subject"], table["confidence"]]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    check(list(rows) == peer(), "the same values")
    return Case(timed(ours), timed(peer), plan.count)


def _environment(path: Path) -> lmdb.Environment:
    return lmdb.open(str(path), map_size=MAP)


ROWS = (
    Row("S2", "put of one dict, durable", "py-lmdb, one put a commit", 0.8, put, count=400),
    Row(
        "S2-sqlite",
        "put of one dict, durable",
        f"SQLite, five indexes, one insert a commit ({sqlite_peer.DURABLE})",
        1.0,
        put_sqlite,
        count=400,
    ),
    Row(
        "S2-threads",
        f"put, durable, {THREADS} threads together",
        "put by one thread",
        4.0,
        put_threads,
        count=400,
    ),
    Row(
        "A1",
        "to_arrow of three columns, read as one table",
        "walking the store for the same three fields",
        5.0,
        to_arrow,
        count=100_000,
    ),
    Row("S10", "check of a store, every row looked up", "hashlib.sha256 in a loop", 0.1, whole),
)
