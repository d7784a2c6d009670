# SPDX-License-Identifier: Apache-2.0
"""Rows S1, S3, S7, S9: many grains at once into a store on disk, and between it and a file.

Every sample writes a new store, and its time runs until the store is closed: by then all index
rows are in its file. Of areev only the writing is timed.
"""

from __future__ import annotations

import csv
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import lmdb

import omsgrain as og
from benches import areev_peer, data, git_peer, peer, sqlite_peer
from benches.measure import Case, Plan, Row, check, timed, timed_on
from omsgrain import container
from omsgrain.batch import GrainBatch
from omsgrain.interchange.field_map import SourceColumn

BATCH = 1_000
MAP = 4 << 30
CHUNK = 1 << 20
STORE = "memory.omsg"

T = TypeVar("T")
Work = Callable[[Path], None]
"""What makes a store in an empty directory."""


def put_many(plan: Plan) -> Case:
    grains = plan.grains()
    ours = _puts(grains)
    _check_store(plan, ours, og.encode_many(grains).addresses)
    return _against_areev(plan, ours, grains)


def put_many_lmdb(plan: Plan) -> Case:
    grains = plan.grains()
    batch = og.encode_many(grains)
    pairs = list(zip(batch.digests, batch.blobs, strict=True))
    commits = [sorted(part) for part in _parts(pairs)]

    def theirs(path: Path) -> None:
        with lmdb.open(str(path), map_size=MAP) as env:
            for commit in commits:
                with env.begin(write=True) as txn:
                    txn.cursor().putmulti(commit)

    def found(path: Path) -> list[tuple[bytes, bytes]]:
        with lmdb.open(str(path)) as env, env.begin() as txn:
            return list(txn.cursor())

    return _against(plan, grains, batch, theirs, found)


def put_many_sqlite(plan: Plan) -> Case:
    """The peer's rows are ready, with the blob; it has an index on each of five columns."""
    grains = plan.grains()
    batch = og.encode_many(grains)
    commits = _parts(sqlite_peer.rows(batch, grains))

    def theirs(path: Path) -> None:
        with closing(sqlite_peer.opened(path / "peer.db")) as database:
            for commit in commits:
                database.execute("BEGIN")
                database.executemany(sqlite_peer.INSERT, commit)
                database.execute("COMMIT")

    def found(path: Path) -> list[tuple[bytes, bytes]]:
        with closing(sqlite3.connect(path / "peer.db")) as database:
            return database.execute("SELECT address, blob FROM grains ORDER BY 1").fetchall()

    return _against(plan, grains, batch, theirs, found)


def put_many_rocks(plan: Plan) -> Case:
    rocksdict = peer.module("rocksdict")
    grains = plan.grains()
    batch = og.encode_many(grains)
    commits = _parts(list(zip(batch.digests, batch.blobs, strict=True)))

    def opened(path: Path) -> Any:
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        return rocksdict.Rdict(str(path / "rocks"), options)

    def theirs(path: Path) -> None:
        synced = rocksdict.WriteOptions()
        synced.sync = True
        with closing(opened(path)) as database:
            for commit in commits:
                writes = rocksdict.WriteBatch(raw_mode=True)
                for digest, blob in commit:
                    writes.put(digest, blob)
                database.write(writes, synced)

    def found(path: Path) -> list[tuple[bytes, bytes]]:
        with closing(opened(path)) as database:
            return list(database.items())

    return _against(plan, grains, batch, theirs, found)


def put_many_git(plan: Plan) -> Case:
    """The peer keeps blobs under names of its own, in one pack that it compresses."""
    grains = plan.grains()
    batch = og.encode_many(grains)
    stream = git_peer.stream(batch.blobs)
    ours = _puts(grains)

    def make() -> Path:
        return git_peer.opened(_new(plan, "peer"))

    def theirs(repository: Path) -> None:
        git_peer.add(repository, stream)

    _check_store(plan, ours, batch.addresses)
    theirs(repository := make())
    found = git_peer.read(repository, git_peer.ids(repository))
    check(found == batch.blobs, "what the peer put is there")
    return Case(timed_on(lambda: _new(plan, "ours"), ours), timed_on(make, theirs), len(grains))


def ingest(plan: Plan) -> Case:
    orjson, grains = peer.module("orjson"), plan.grains()
    lines = plan.directory / "grains.jsonl"
    lines.write_bytes(b"\n".join(orjson.dumps(grain) for grain in grains))
    program = Path(sys.executable).with_name("omsgrain")

    def ours(path: Path) -> None:
        command = [str(program), "ingest", str(path / STORE), str(lines)]
        subprocess.run(command, check=True, capture_output=True)

    _check_store(plan, ours, og.encode_many(grains).addresses)
    return _against_areev(plan, ours, grains)


def ingest_mapped(plan: Plan) -> Case:
    """The same grains as CSV, by a mapping, and as JSON lines."""
    orjson, grains = peer.module("orjson"), plan.grains()
    columns = [name for name in grains[0] if name not in ("type", "structural_tags")]
    mapping = og.Mapping(
        grains[0]["type"],
        {
            name: SourceColumn(name, unit="ms" if name == "created_at" else None)
            for name in columns
        },
        {"structural_tags": grains[0]["structural_tags"]},
    )
    table, lines, file = (plan.directory / name for name in ("g.csv", "g.jsonl", "g.toml"))
    with table.open("w", newline="", encoding="utf-8") as target:
        rows = csv.writer(target, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows([grain[name] for name in columns] for grain in grains)
    lines.write_bytes(b"\n".join(orjson.dumps(grain) for grain in grains))
    file.write_text(mapping.to_toml(), encoding="utf-8")
    program = str(Path(sys.executable).with_name("omsgrain"))

    def ours(path: Path) -> None:
        command = [program, "ingest", str(path / STORE), str(table), "--mapping", str(file)]
        subprocess.run(command, check=True, capture_output=True)

    def theirs(path: Path) -> None:
        command = [program, "ingest", str(path / STORE), str(lines)]
        subprocess.run(command, check=True, capture_output=True)

    _check_store(plan, ours, og.encode_many(grains).addresses)
    return Case(
        timed_on(lambda: _new(plan, "ours"), ours),
        timed_on(lambda: _new(plan, "theirs"), theirs),
        len(grains),
    )


def size(plan: Plan) -> Case:
    batch = og.encode_many(plan.grains())
    path = _new(plan, "ours")
    _store(lambda store: store.put_many(batch))(path)
    files = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    blobs = sum(map(len, batch.blobs))
    with og.open(path / STORE, readonly=True) as store:
        stats = store.stats()
    check((stats.grains, stats.blob_bytes) == (plan.count, blobs), "all were put")
    check(stats.watermark == stats.last_seq, "all are in the index tables")
    return Case(lambda: float(files), lambda: float(blobs), plan.count)


def export_mg(plan: Plan) -> Case:
    batch = og.encode_many(plan.grains())
    store = og.open(_new(plan, "ours") / STORE)
    store.put_many(batch)
    file = plan.directory / "grains.mg"
    store.export_mg(file)
    with container.read(file) as source:
        check(source.verify().ok, "the file is good")
        check(list(source) == batch.blobs, "it holds the grains")
    return Case(timed(lambda: store.export_mg(file)), timed(lambda: _hash(file)), plan.count)


def write_mg(plan: Plan) -> Case:
    batch = og.encode_many(plan.grains())
    blobs, file = batch.blobs, plan.directory / "grains.mg"
    container.write(file, blobs)
    with container.read(file) as source:
        check(list(source) == blobs, "it holds the grains")
    return Case(
        timed(lambda: container.write(file, blobs)), timed(lambda: _hash(file)), plan.count
    )


def verify_mg(plan: Plan) -> Case:
    file = plan.directory / "grains.mg"
    container.write(file, og.encode_many(plan.grains()).blobs)
    check(container.verify(file).verified == plan.count, "the grains are good")
    return Case(timed(lambda: container.verify(file)), timed(lambda: _hash(file)), plan.count)


def import_mg(plan: Plan) -> Case:
    batch = og.encode_many(plan.grains())
    file = plan.directory / "grains.mg"
    container.write(file, batch.blobs)
    ours = _store(lambda store: store.import_mg(file))
    _check_store(plan, ours, batch.addresses)
    check(_hash(file) == sha256(file.read_bytes()).hexdigest(), "the peer reads all of it")
    return Case(timed_on(lambda: _new(plan, "ours"), ours), timed(lambda: _hash(file)), plan.count)


def import_mg_put(plan: Plan) -> Case:
    """Against the same grains put as dicts, which are in memory already."""
    grains = plan.grains()
    batch = og.encode_many(grains)
    file = plan.directory / "grains.mg"
    container.write(file, batch.blobs)
    ours, theirs = _store(lambda store: store.import_mg(file)), _puts(grains)
    for work in (ours, theirs):
        _check_store(plan, work, batch.addresses)
    return Case(
        timed_on(lambda: _new(plan, "ours"), ours),
        timed_on(lambda: _new(plan, "peer"), theirs),
        plan.count,
    )


def _puts(grains: list[data.Fields]) -> Work:
    return _store(lambda store: store.put_many(grains, errors="collect", batch_size=BATCH))


def _parts(items: list[T]) -> list[list[T]]:
    """What goes into each commit."""
    return [items[i : i + BATCH] for i in range(0, len(items), BATCH)]


def _against(
    plan: Plan,
    grains: list[data.Fields],
    batch: GrainBatch,
    theirs: Work,
    found: Callable[[Path], list[tuple[bytes, bytes]]],
) -> Case:
    """Our puts against a peer's, which keeps blobs by address; both write a new file a sample."""
    ours = _puts(grains)
    _check_store(plan, ours, batch.addresses)
    theirs(path := _new(plan, "peer"))
    pairs = sorted(zip(batch.digests, batch.blobs, strict=True))
    check(found(path) == pairs, "what the peer put is there")
    return Case(
        timed_on(lambda: _new(plan, "ours"), ours),
        timed_on(lambda: _new(plan, "peer"), theirs),
        len(grains),
    )


def _store(work: Callable[[og.GrainStore], object]) -> Work:
    """Opens a store in a directory, works on it, closes it."""

    def run(path: Path) -> None:
        with og.open(path / STORE) as store:
            work(store)

    return run


def _against_areev(plan: Plan, ours: Work, grains: list[data.Fields]) -> Case:
    part = areev_peer.part(grains)
    texts = areev_peer.calls(part)

    def make() -> Any:
        return areev_peer.opened(_new(plan, "peer"))

    wanted = areev_peer.addresses(part)
    check(areev_peer.add(make(), texts) == wanted, "the peer writes the same blobs")
    return Case(
        timed_on(lambda: _new(plan, "ours"), ours),
        timed_on(make, lambda db: areev_peer.add(db, texts)),
        len(grains),
        len(part),
    )


def _check_store(plan: Plan, work: Work, addresses: list[str]) -> None:
    path = _new(plan, "ours")
    work(path)
    with og.open(path / STORE, readonly=True) as store:
        check([change.address for change in store.changes()] == addresses, "the grains are there")
        stats = store.stats()
    check(stats.watermark == stats.last_seq, "all are in the index tables")


def _new(plan: Plan, name: str) -> Path:
    """An empty directory; what it held is gone."""
    path = plan.directory / name
    if path.exists():
        shutil.rmtree(path)
    path.mkdir()
    return path


def _hash(file: Path) -> str:
    digest = sha256()
    with file.open("rb", buffering=0) as source:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


ADD = f"{areev_peer.NAME} add_batch, {areev_peer.BATCH} a call, a fiftieth of the grains"
READ = "reading the file, hashlib.sha256"
PUT = f"put_many of dicts, all indexes, durable, {BATCH} a commit"

ROWS = (
    Row("S1", PUT, ADD, 50.0, put_many, count=50_000),
    Row(
        "S1-lmdb",
        PUT,
        f"py-lmdb putmulti of the blobs by address, sorted, durable, {BATCH} a commit",
        0.85,
        put_many_lmdb,
        count=50_000,
    ),
    Row(
        "S1-sqlite",
        PUT,
        f"SQLite, five indexes, executemany, {BATCH} a commit ({sqlite_peer.DURABLE})",
        7.0,
        put_many_sqlite,
        count=50_000,
    ),
    Row(
        "S1-rocks",
        PUT,
        f"RocksDB by rocksdict, the blobs by address, a write batch of {BATCH}, synced",
        None,
        put_many_rocks,
        count=50_000,
    ),
    Row(
        "S1-git",
        PUT,
        "git fast-import of the blobs, with its start",
        1.5,
        put_many_git,
        count=50_000,
    ),
    Row(
        "S3",
        "omsgrain ingest of a JSONL file, all indexes, durable, with the start of Python",
        ADD,
        45.0,
        ingest,
        count=50_000,
    ),
    Row(
        "S3-mapped",
        "omsgrain ingest of a CSV file by a mapping, all indexes, durable",
        "omsgrain ingest of the same grains as a JSONL file",
        1 / 1.5,
        ingest_mapped,
        count=50_000,
    ),
    Row(
        "S7",
        "size of the store with all indexes, closed",
        "the blobs alone",
        1 / 2.4,
        size,
        count=100_000,
        unit="B",
    ),
    Row("S9-write", "blobs to a .mg file, verified, durable", READ, 0.4, write_mg, count=200_000),
    Row("S9-verify", "verify of a .mg file, every grain", READ, 0.4, verify_mg, count=200_000),
    Row("S9-export", "export to a .mg file, durable", READ, 0.4, export_mg, count=200_000),
    Row(
        "S9-import",
        "import of a .mg file, verified, all indexes, durable",
        READ,
        None,
        import_mg,
        count=200_000,
    ),
    Row(
        "S9-import-put",
        "import of a .mg file, verified, all indexes, durable",
        f"put_many of the same as dicts, {BATCH} a commit",
        1.5,
        import_mg_put,
        count=200_000,
    ),
)
