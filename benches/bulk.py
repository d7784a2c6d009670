# SPDX-License-Identifier: Apache-2.0
"""Rows S1, S3, S7, S9: many grains at once into a store on disk, and between it and a file.

Every sample writes a new store, and its time runs until the store is closed: by then all index
rows are in its file. Of areev only the writing is timed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import areev
import lmdb
import orjson

import omsgrain as og
from benches import areev_peer, data
from benches.measure import Case, Plan, Row, check, timed, timed_on
from omsgrain import container

BATCH = 1_000
MAP = 4 << 30
CHUNK = 1 << 20
STORE = "memory.omsg"

Work = Callable[[Path], None]
"""What makes a store in an empty directory."""


def put_many(plan: Plan) -> Case:
    grains = plan.grains()
    ours = _store(lambda store: store.put_many(grains, errors="collect", batch_size=BATCH))
    _check_store(plan, ours, og.encode_many(grains).addresses)
    return _against_areev(plan, ours, grains)


def put_many_lmdb(plan: Plan) -> Case:
    grains = plan.grains()
    batch = og.encode_many(grains)
    pairs = list(zip(batch.digests, batch.blobs, strict=True))
    commits = [sorted(pairs[i : i + BATCH]) for i in range(0, len(pairs), BATCH)]
    ours = _store(lambda store: store.put_many(grains, errors="collect", batch_size=BATCH))

    def peer(path: Path) -> None:
        with lmdb.open(str(path), map_size=MAP) as env:
            for commit in commits:
                with env.begin(write=True) as txn:
                    txn.cursor().putmulti(commit)

    _check_store(plan, ours, batch.addresses)
    peer(path := _new(plan, "peer"))
    with lmdb.open(str(path)) as env, env.begin() as txn:
        check(list(txn.cursor()) == sorted(pairs), "what the peer put is there")
    return Case(
        timed_on(lambda: _new(plan, "ours"), ours),
        timed_on(lambda: _new(plan, "peer"), peer),
        len(grains),
    )


def ingest(plan: Plan) -> Case:
    grains = plan.grains()
    lines = plan.directory / "grains.jsonl"
    lines.write_bytes(b"\n".join(orjson.dumps(grain) for grain in grains))
    program = Path(sys.executable).with_name("omsgrain")

    def ours(path: Path) -> None:
        command = [str(program), "ingest", str(path / STORE), str(lines)]
        subprocess.run(command, check=True, capture_output=True)

    _check_store(plan, ours, og.encode_many(grains).addresses)
    return _against_areev(plan, ours, grains)


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


def _store(work: Callable[[og.GrainStore], object]) -> Work:
    """Opens a store in a directory, works on it, closes it."""

    def run(path: Path) -> None:
        with og.open(path / STORE) as store:
            work(store)

    return run


def _against_areev(plan: Plan, ours: Work, grains: list[data.Fields]) -> Case:
    part = areev_peer.part(grains)
    texts = areev_peer.calls(part)

    def make() -> areev.Areev:
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

ROWS = (
    Row(
        "S1",
        f"put_many of dicts, all indexes, durable, {BATCH} a commit",
        ADD,
        60.0,
        put_many,
        count=50_000,
    ),
    Row(
        "S1-lmdb",
        f"put_many of dicts, all indexes, durable, {BATCH} a commit",
        f"py-lmdb putmulti of the blobs by address, sorted, durable, {BATCH} a commit",
        0.5,
        put_many_lmdb,
        count=50_000,
    ),
    Row(
        "S3",
        "omsgrain ingest of a JSONL file, all indexes, durable, with the start of Python",
        ADD,
        60.0,
        ingest,
        count=50_000,
    ),
    Row(
        "S7",
        "size of the store with all indexes, closed (goal: 2.5 times the blobs)",
        "the blobs alone",
        0.4,
        size,
        count=100_000,
        unit="B",
    ),
    Row("S9-write", "blobs to a .mg file, verified, durable", READ, 0.5, write_mg, count=200_000),
    Row("S9-verify", "verify of a .mg file, every grain", READ, 0.5, verify_mg, count=200_000),
    Row("S9-export", "export to a .mg file, durable", READ, 0.5, export_mg, count=200_000),
    Row(
        "S9-import",
        "import of a .mg file, verified, all indexes, durable",
        READ,
        0.5,
        import_mg,
        count=200_000,
    ),
)
