# SPDX-License-Identifier: Apache-2.0
"""The store in PostgreSQL against a bare COPY of the same blobs.

Run as ``python -m benches.postgres URL``.

The URL is of a database that may be written full; the server is the one that is measured, with the
settings that it has. Ways are taken by turns, round after round, so that a slow moment of the
machine hits all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median
from struct import Struct
from typing import Any

import orjson
import psycopg

import omsgrain as og
from benches import areev_peer, data, machine
from benches.measure import check
from omsgrain.storage.postgres import PostgresStorage

BATCHES = 1_000, 10_000
SCHEMA = "omsgrain_bench"
ROBOTS = [f"robot-{n}" for n in range(500)]
LIMIT = 10
PEER_GRAINS = 10_000  # twenty of each robot
_START, _END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_ROW, _LENGTH = Struct(">hi"), Struct(">i")
Pairs = list[tuple[bytes, bytes]]
Way = Callable[[Pairs], None]


def pairs(count: int, first: int) -> Pairs:
    batch = og.encode_many(data.standard(count, first))
    return list(zip(batch.digests, batch.blobs, strict=True))


class Bare:
    """A table of addresses and blobs, with nothing else, in a schema of the benchmark's own."""

    def __init__(self, url: str, key: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.name = f"{SCHEMA}.{'keyed' if key else 'plain'}"
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        self.connection.execute(f"DROP TABLE IF EXISTS {self.name}")
        self.connection.execute(f"CREATE TABLE {self.name} (digest bytea {key}, blob bytea)")

    def put(self, batch: Pairs) -> None:
        rows = b"".join(
            [_ROW.pack(2, 32) + d + _LENGTH.pack(len(blob)) + blob for d, blob in batch]
        )
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY {self.name} FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.write(_START + rows + _END)

    def get(self, digest: bytes) -> Any:
        text = f"SELECT blob FROM {self.name} WHERE digest = %b"
        return self.connection.execute(text, (digest,), binary=True).fetchone()


class ServerTime:
    """Processor seconds of the processes that serve this database; 0 if it is not on this machine.

    Other work on the machine makes everything slower, but this hardly longer. What a process had
    taken when it was last seen stays in the sum, or one that ends would make it less.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._ticks: dict[tuple[int, Any], int] = {}

    def __call__(self) -> float:
        rows = self._connection.execute(
            "SELECT pid, backend_start FROM pg_stat_activity WHERE datname = current_database()"
        )
        for pid, begun in rows.fetchall():
            stat = Path(f"/proc/{pid}/stat")
            if stat.exists() and "postgres" in (text := stat.read_text()):
                self._ticks[pid, begun] = sum(map(int, text.rpartition(")")[2].split()[11:13]))
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")


def rates(
    ways: dict[str, Way], batch: int, count: int, rounds: int, server_time: ServerTime
) -> Iterator[dict[str, Any]]:
    """Grains a second of each way, by turns; the median round."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    server, client = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    first = batch * 1_000_000
    for _ in range(rounds):
        for name, way in ways.items():
            grains = pairs(count, first)
            first += count
            there, here = server_time(), time.process_time()
            begin = time.perf_counter()
            for start in range(0, count, batch):
                way(grains[start : start + batch])
            took[name].append(count / (time.perf_counter() - begin))
            server[name] += server_time() - there
            client[name] += time.process_time() - here
    for name, rounds_of in took.items():
        print(f"{batch:,} {name}: {median(rounds_of):,.0f}", file=sys.stderr)
        yield {
            "what": f"put, {batch:,} a batch",
            "way": name,
            "grains/s": round(median(rounds_of)),
            "least": round(min(rounds_of)),
            "most": round(max(rounds_of)),
            "server us": round(1e6 * server[name] / count / rounds, 1),
            "client us": round(1e6 * client[name] / count / rounds, 1),
        }


def latency(what: str, way: str, calls: Sequence[Callable[[], Any]]) -> dict[str, Any]:
    """The time of one call, in microseconds."""
    for call in calls[:5]:
        call()
    took = []
    for call in calls[5:]:
        begin = time.perf_counter()
        call()
        took.append(1e6 * (time.perf_counter() - begin))
    took.sort()
    p50, p95 = took[len(took) // 2], took[len(took) * 95 // 100]
    return {"what": what, "way": way, "p50 us": round(p50), "p95 us": round(p95)}


def peer(url: str, count: int) -> Iterator[dict[str, Any]]:
    """The same of areev in the same database; it gets few grains, since each term is a commit."""
    import areev

    place = url.replace("postgresql://", "postgres://") + "?schema=areev"
    db = areev.Areev(place, ns="warehouse:zone-3", telemetry="off", index_text=False)
    calls = areev_peer.calls(data.standard(count))
    took = []
    for call in calls:
        begin = time.perf_counter()
        areev_peer.add(db, [call])
        took.append(areev_peer.BATCH / (time.perf_counter() - begin))
    yield {"what": "put, 1,000 a batch", "way": "areev", "grains/s": round(median(took))}
    for robot in ROBOTS:
        found = orjson.loads(db.recall(robot, k=LIMIT))
        check([g["fields"]["subject"] for g in found] == [robot] * LIMIT, "ten of the robot")
    asked = [partial(db.recall, robot, k=LIMIT) for robot in ROBOTS]
    yield latency("query: newest 10 of a robot", "areev", asked)
    ones = [areev_peer.calls([grain])[0] for grain in data.standard(30, 99_000_000)]
    yield latency("put of one", "areev", [partial(areev_peer.add, db, [one]) for one in ones])


def questions(url: str, bare: Bare) -> Iterator[dict[str, Any]]:
    """What one grain, one query and one put cost in a store of some grains."""
    below = PostgresStorage(url, tenant="bench copied")
    store = og.GrainStore(below)
    with below.read() as reader:
        blobs = [blob for _, blob in reader.page(0, 2_000)]
    some = [(sha256(blob).digest(), blob) for blob in blobs]
    bare.put(some)
    asked = some[:: max(1, len(some) // 500)]
    yield latency("get", "bare SELECT", [partial(bare.get, d) for d, _ in asked])
    yield latency("get", "omsgrain", [partial(store.get, d.hex()) for d, _ in asked])
    for robot in ROBOTS:
        found = [hit.grain["subject"] for hit in store.query(subject=robot, limit=LIMIT).results]
        check(found == [robot] * LIMIT, "ten of the robot")
    yield latency(
        "query: newest 10 of a robot",
        "omsgrain",
        [partial(store.query, subject=robot, limit=LIMIT) for robot in ROBOTS],
    )
    yield latency(
        "query: newest 10 of a robot and a user",
        "omsgrain",
        [
            partial(store.query, subject=f"robot-{n}", user_id=f"u{n % 100}", limit=LIMIT)
            for n in range(500)
        ],
    )
    yield latency(
        "query: count of a tag",
        "omsgrain",
        [lambda: store.query(tag="shelf", limit=1, count=True) for _ in range(100)],
    )
    ones = data.standard(300, 77_000_000_000)
    yield latency("put of one", "omsgrain", [partial(store.put, f) for f in ones])
    yield latency(
        "put of one", "bare COPY", [partial(bare.put, [p]) for p in pairs(300, 78_000_000_000)]
    )
    store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--count", type=int, default=50_000, help="grains of a round")
    parser.add_argument("--batches", type=int, nargs="*", default=BATCHES, help="grains a commit")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    bare, keyed = Bare(asked.url, ""), Bare(asked.url, "PRIMARY KEY")
    store = PostgresStorage(asked.url, tenant="bench put")
    server_time = ServerTime(bare.connection)
    ways: dict[str, Way] = {
        "bare COPY, no index": bare.put,
        "bare COPY, address as key": keyed.put,
        "omsgrain": lambda batch: _all_new(store, batch),
    }
    rows = [
        row
        for b in asked.batches
        for row in rates(ways, b, asked.count, asked.rounds, server_time)
    ]
    stats = store.stats()
    rows += questions(asked.url, keyed)
    rows += peer(asked.url, PEER_GRAINS)
    (server,) = psycopg.connect(asked.url).execute("SHOW server_version").fetchone() or ("",)
    about: dict[str, Any] = {
        **machine.describe(),
        "server": f"PostgreSQL {server}",
        **machine.versions(),
    }
    about |= {"grains": stats.grains, "bytes of tables": stats.file_bytes}
    print(json.dumps({"about": about, "rows": rows}, indent=1))


def _all_new(store: PostgresStorage, batch: Pairs) -> None:
    if not all(store.write(lambda writer: writer.put(batch))):
        raise SystemExit("grains were there before: give an empty database")


if __name__ == "__main__":
    main()
