# SPDX-License-Identifier: Apache-2.0
"""A store whose writer is killed loses nothing that ``put`` or ``put_many`` had returned."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.store.context import context_of
from support.child_process import ended
from support.store_contract import contents, pair, put

# Puts grains for ever, by turns one and many, and says each address once the call has returned.
WRITER = """
import sys
from random import Random
import omsgrain as og
path, seed = sys.argv[1], int(sys.argv[2])
random = Random(seed)
number = 0
def observation():
    global number
    number += 1
    return {
        "type": "observation", "observer_id": f"robot-{seed}", "observer_type": "sensor",
        "object": {"reading": random.random(), "note": "x" * random.randint(0, 2000)},
        "created_at": 1_700_000_000_000 + number, "subject": f"reading {number}",
        "namespace": "kills",
    }
with og.open(path) as store:
    print("ready", flush=True)
    while True:
        if random.random() < 0.5:
            addresses = [store.put(observation())]
        else:
            errors = random.choice(["raise", "collect"])
            items = [observation() for _ in range(random.randint(1, 400))]
            addresses = store.put_many(items, errors=errors, batch_size=100).addresses
        print(*addresses, sep="\\n", flush=True)
"""


def write_and_kill(path: Path, seed: int, lines: int, code: str = WRITER) -> list[str]:
    """Kill a writer after it has said so many lines; return all addresses that it had said."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path), str(seed)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child, child.stdout as said:
        assert said.readline() == "ready\n"
        returned = [said.readline().strip() for _ in range(lines)]
        child.kill()
        rest = said.read()
    # The kill may cut the last line short; that address was returned, but not said.
    return [line for line in [*returned, *rest.split("\n")[:-1]] if line]


def test_nothing_returned_is_lost(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "memory.omsg"
    random = Random(20)
    returned: set[str] = set()
    for seed in range(50 if request.config.getoption("--long") else 3):
        returned.update(write_and_kill(path, seed, random.randint(1, 1_500)))
        with og.open(path) as store:
            report = store.verify()
            assert all(store.exists(address) for address in returned)
            assert report.verified == len(store) == store.stats().grains
            assert [change.seq for change in store.changes()] == list(range(1, len(store) + 1))
            kept = og.Belief(subject=f"round {seed}", relation="was", object="survived")
            returned.add(store.put(kept))


# The same, with an index that is written every few grains.
FLUSHING = (
    "from omsgrain.storage.lmdb import memtable, storage\nstorage.RUN = memtable.RUN = 90\n"
    + WRITER
)


def test_nothing_returned_is_lost_from_the_index(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "memory.omsg"
    random = Random(21)
    returned: set[str] = set()
    watermarks = set()
    for seed in range(50 if request.config.getoption("--long") else 3):
        returned.update(write_and_kill(path, seed, random.randint(200, 1_500), FLUSHING))
        with og.open(path, readonly=True) as store:
            watermarks.add(store.stats().watermark)
            assert returned <= queried(store, type="observation") == {g.address for g in store}
            some = random.sample(sorted(returned), 20)
            for grain in store.get_many(some):
                found = store.query(subject=grain["subject"], namespace="kills").results
                assert grain.address in {hit.address for hit in found}
            assert store.query(type="observation", count=True).total == len(store)
            report = store.maintenance.check()
            assert report.ok, report.problems
            assert report.grains == len(store)
    assert 0 not in watermarks  # the kills came after flushes, or amid them


def queried(store: og.GrainStore, **filters: str) -> set[str]:
    """All addresses that a query gives, page by page."""
    found, cursor = set(), None
    while True:
        page = store.query(**filters, limit=1_000, cursor=cursor)  # type: ignore[arg-type]
        found |= {hit.address for hit in page.results}
        if (cursor := page.next_cursor) is None:
            return found


@pytest.mark.parametrize("moment", ["add_addresses", "add_rows", "set_watermark"])
@pytest.mark.parametrize("call", ["store.flush()", "store.rebuild()"])
def test_killed_while_the_index_is_written(tmp_path: Path, moment: str, call: str) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        store.put_many(
            [og.Belief(subject=f"room {n}", relation="has", object="light") for n in range(50)]
        )
        context_of(store).inner.flush()
    code = f"""if True:
        import os, sys
        import omsgrain as og
        from omsgrain.storage.lmdb.storage import LmdbStorage
        from omsgrain.storage.lmdb.writer import LmdbWriter
        store = LmdbStorage(sys.argv[1])
        for n in range(50, 80):
            og.GrainStore(store).put(og.Belief(subject=f"room {{n}}", relation="has", object="x"))
        inner = LmdbWriter.{moment}
        def die(*args):
            inner(*args)
            os.kill(os.getpid(), 9)
        LmdbWriter.{moment} = die
        {call}
    """
    assert ended(code, path).returncode == -9
    with og.open(path) as store:
        assert store.stats().watermark == 50
        assert store.query(relation="has", count=True).total == len(store) == 80
        assert store.maintenance.check().ok
        context_of(store).inner.flush()
        assert store.maintenance.check().ok


def test_readers_beside_a_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    og.open(path).close()
    with og.open(path, readonly=True) as store:
        for seed in range(2):
            addresses = write_and_kill(path, seed, 300)
            assert all(store.exists(address) for address in addresses)
            store.verify()


@pytest.mark.parametrize(
    "moment",
    [
        "data_file.lmdb.open = die",  # the directory is made
        "data_file.open_tables = die",  # LMDB's file is made
        "data_file.os.fsync = die",  # the tables are committed
    ],
)
def test_killed_while_it_is_made(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "memory.omsg"
    code = f"""if True:
        import os, sys
        from omsgrain.storage.lmdb import data_file, storage
        def die(*args, **options):
            os.kill(os.getpid(), 9)
        {moment}
        storage.LmdbStorage(sys.argv[1])
    """
    assert ended(code, path).returncode == -9
    assert path.is_dir()
    with og.open(path) as store:
        store.put(og.Belief(subject="store", relation="is", object="whole"))
        assert store.verify().verified == 1


@pytest.mark.parametrize("size", [1, 4_096, 8_191])
def test_killed_in_its_first_write(tmp_path: Path, size: int) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        address = store.put(og.Belief(subject="store", relation="is", object="whole"))
    with (path / "data.mdb").open("rb+") as file:
        file.truncate(size)
    with pytest.raises(StoreError):  # it was more than begun, as the file beside it says
        og.open(path)
    assert (path / "data.mdb").stat().st_size == size
    (path / "head").unlink()
    with pytest.raises(StoreError):
        og.open(path, readonly=True)
    with og.open(path) as store:
        assert not store.exists(address)
        store.put(og.Belief(subject="store", relation="is", object="whole"))
        assert store.verify().verified == 1


def test_killed_before_a_short_file_is_extended(tmp_path: Path) -> None:
    """LMDB does not write pages at the end of the file that are free again already."""
    path = tmp_path / "memory.omsg"
    code = """if True:
        import os, sys
        from omsgrain.storage.lmdb import environment, storage
        def die(*args):
            os.kill(os.getpid(), 9)
        def work(writer):
            for blob in (b"small", b"large" * 100_000):  # the first has all other pages in place
                writer.put([(b"b" * 32, blob)])
                writer.remove(writer.find([b"b" * 32])[0])
        store = storage.LmdbStorage(sys.argv[1])
        environment.extend = die
        store.write(work)
    """
    first, second = (
        pair(og.encode({"type": "event", "content": c, "created_at": 1})) for c in "ab"
    )
    store = LmdbStorage(path)
    put(store, first)
    store.close()
    size = (path / "data.mdb").stat().st_size
    assert ended(code, path).returncode == -9
    assert (path / "data.mdb").stat().st_size - size < 400_000
    store = LmdbStorage(path, readonly=True)
    assert contents(store) == [(1, first[1])]
    assert store.check().ok
    store.close()
    store = LmdbStorage(path)
    assert put(store, first, second) == [False, True]
    assert store.check().ok
    store.close()
    assert (path / "data.mdb").stat().st_size - size > 400_000
