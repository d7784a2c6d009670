# SPDX-License-Identifier: Apache-2.0
"""A full disk and files that vanish: a clear error, nothing lost, and a store that goes on.

A limit on the size of files is the full disk that a test can have without being root.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omsgrain as og
from child import run
from omsgrain.errors import StoreError

BEGIN = """
import resource, signal, sys
import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.store import lmdb, upkeep
lmdb.RUN = 300
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
def event(n):
    return {"type": "event", "content": f"number {n}", "created_at": 1_700_000_000_000 + n,
            "user_id": f"user {n % 10}", "namespace": "n" * 300, "subject": f"{n} " * 20}
def all_there(store, addresses):
    found = store.query(limit=10_000, order="oldest").results
    return ([hit.content_address for hit in found] == addresses == [g.address for g in store]
            and [g.address for g in store.get_many(addresses)] == addresses)
path = sys.argv[1]
store = og.open(path)
addresses, refusals = [], 0
"""

PUT = """
limit(600_000)
while refusals < 20:  # some are refused as they come, some for the run that they would begin
    try:
        addresses.append(store.put(event(len(addresses) + 1000 * refusals)))
    except StoreError:
        refusals += 1
print(len(addresses) > 300, all_there(store, addresses), len(store) == len(addresses))
store.close()
store = og.open(path)
print(all_there(store, addresses))
limit(resource.RLIM_INFINITY)
for n in range(100_000, 100_400):
    addresses.append(store.put(event(n)))
print(all_there(store, addresses), store.check().ok, store.stats().watermark > 300)
store.close()
"""

FLUSH = """
lmdb.RUN = 1_000_000
for start in range(0, 2_000, 500):
    addresses += store.put_many([event(n) for n in range(start, start + 500)]).addresses
size = store.stats().file_bytes
for room in (0, 5_000, 100_000, 300_000):
    limit(size + room)
    for call in (store._store.flush, store.rebuild):
        try:
            call()
        except StoreError:
            refusals += 1
    print(store.stats().watermark, all_there(store, addresses))
print(refusals)
limit(resource.RLIM_INFINITY)
addresses.append(store.put(event(5_000)))
store._store.flush()
print(all_there(store, addresses), store.check().ok, store.stats().watermark)
size = store.stats().file_bytes
limit(size // 2)
for call in (store.rebuild, lambda: store.backup(path + ".copy")):
    try:
        call()
    except StoreError as error:
        print(error.code)
limit(resource.RLIM_INFINITY)
print(all_there(store, addresses), store.check().ok)
store.close()
"""

NO_SIDE_FILE = """
import os
addresses.append(store.put(event(1)))
store._store._env.side.close()
os.unlink(path + "/head")
os.mkdir(path + "/head")  # it can be written no more
addresses.append(store.put(event(2)))
print(all_there(store, addresses))
store.close()
"""


def test_puts_on_a_full_disk(tmp_path: Path) -> None:
    lines = run(BEGIN + PUT, tmp_path / "memory.omsg")
    assert lines == ["True True True", "True", "True True True"]


def test_flush_and_rebuild_on_a_full_disk(tmp_path: Path) -> None:
    lines = run(BEGIN + FLUSH, tmp_path / "memory.omsg")
    assert lines[:4] == ["0 True"] * 4
    assert lines[4:] == ["8", "True True 2001", "ERR_STORE", "ERR_STORE", "True True"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["memory.omsg"]  # no half a backup


def test_a_side_file_that_cannot_be_written(tmp_path: Path) -> None:
    assert run(BEGIN + NO_SIDE_FILE, tmp_path / "memory.omsg") == ["True"]


@pytest.mark.parametrize("again", [False, True])
def test_a_directory_that_vanished(tmp_path: Path, again: bool) -> None:
    path = tmp_path / "memory.omsg"
    grain = og.Belief(subject="room", relation="has", object="light", created_at=1)
    store = og.open(path)
    address = store.put(grain)
    shutil.rmtree(path)
    if again:  # another store is there now
        with og.open(path) as other:
            other.put(og.Belief(subject="room", relation="has", object="door", created_at=2))
    for call in (
        lambda: store.put({"type": "event", "content": "lost", "created_at": 3}),
        store._store.flush,
        store.rebuild,
    ):
        with pytest.raises(StoreError):
            call()
    assert store.get(address) == grain  # the open file has it still
    store.close()
    with og.open(path) as fresh:
        assert len(fresh) == again
        assert fresh.put(grain) == address
        assert fresh.check().ok
