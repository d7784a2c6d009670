# SPDX-License-Identifier: Apache-2.0
"""A full disk and files that vanish: a clear error, nothing lost, and a store that goes on.

A limit on the size of files is the full disk that a test can have without being root.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import lmdb
import pytest

import omsgrain as og
from omsgrain.errors import (
    AccessDeniedError,
    DiskFullError,
    StoreCutError,
    StoreDamagedError,
    StoreError,
)
from omsgrain.storage.lmdb.data_file import failure
from omsgrain.store.context import context_of
from support.child_process import run

BEGIN = """
import resource, signal, sys
import omsgrain as og
from omsgrain.store.context import context_of
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb import storage
storage.RUN = 300
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # half of a compiled module would stay for all others
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
def event(n):
    return {"type": "event", "content": f"number {n}", "created_at": 1_700_000_000_000 + n,
            "user_id": f"user {n % 10}", "namespace": "n" * 300, "subject": f"{n} " * 20}
def all_there(store, addresses):
    found = store.query(limit=10_000, order="oldest").results
    return ([hit.address for hit in found] == addresses == [g.address for g in store]
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
print(all_there(store, addresses), store.maintenance.check().ok, store.stats().watermark > 300)
store.close()
"""

FLUSH = """
storage.RUN = 1_000_000
for start in range(0, 2_000, 500):
    addresses += store.put_many([event(n) for n in range(start, start + 500)]).addresses
size = store.stats().file_bytes
for room in (0, 5_000, 100_000, 300_000):
    limit(size + room)
    for call in (context_of(store).storage.flush, store.maintenance.rebuild):
        try:
            call()
        except StoreError:
            refusals += 1
    print(store.stats().watermark, all_there(store, addresses))
print(refusals)
limit(resource.RLIM_INFINITY)
addresses.append(store.put(event(5_000)))
context_of(store).storage.flush()
print(all_there(store, addresses), store.maintenance.check().ok, store.stats().watermark)
size = store.stats().file_bytes
limit(size // 2)
for call in (store.maintenance.rebuild, lambda: store.maintenance.backup(path + ".copy")):
    try:
        call()
    except StoreError as error:
        print(error.code)
limit(resource.RLIM_INFINITY)
print(all_there(store, addresses), store.maintenance.check().ok)
store.close()
"""

SHORT = """
storage.RUN = 1_000_000
codes, found = set(), set()
for room in range(0, 40_000, 1_000):  # some writes of LMDB end half way
    limit(store.stats().file_bytes + room)
    many = lambda: store.put_many([event(n) for n in range(500)])
    for call in (many, context_of(store).storage.flush):
        try:
            call()
        except StoreError as error:
            codes.add(error.code)
            found.add("Input/output error" in str(error))
limit(resource.RLIM_INFINITY)
print(sorted(codes), sorted(found), store.maintenance.check().ok)
store.close()
"""

CHECK = """
from omsgrain.storage.check import check
addresses += [store.put(event(n)) for n in range(10)]
store.close()
from omsgrain.cli import run
limit(4_000)  # not a page more; what this prints is a file too
print(check(context_of(store).storage.path).ok)
with og.open(path, readonly=True) as again:
    print(again.maintenance.check().ok)
print(run(["check", path]))
"""

DENIED = """
import os, sys
import omsgrain as og
from omsgrain.store.context import context_of
from omsgrain.errors import StoreError
path = sys.argv[1]
with og.open(path) as store:
    store.put({"type": "event", "content": "tea", "created_at": 1_700_000_000_000})
os.chmod(path + "/data.mdb", 0o000)
if os.getuid() == 0:
    os.seteuid(65534)
for readonly in (True, False):
    try:
        og.open(path, readonly=readonly)
    except StoreError as error:
        print(error.code)
os.seteuid(os.getuid())
os.chmod(path + "/data.mdb", 0o644)
"""

NO_SIDE_FILE = """
import os
addresses.append(store.put(event(1)))
context_of(store).storage._env.head_file.close()
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
    assert lines[4:] == ["8", "True True 2001", "ERR_DISK_FULL", "ERR_DISK_FULL", "True True"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["memory.omsg"]  # no half a backup


def test_a_partial_write_is_a_full_disk(tmp_path: Path) -> None:
    lines = run(BEGIN + SHORT, tmp_path / "memory.omsg")
    assert lines == ["['ERR_DISK_FULL'] [False] True"]


def test_failures_of_a_store_have_codes(tmp_path: Path) -> None:
    """A copy that did not end, a missing permission, damage, and a full disk."""
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        store.put_many({"type": "event", "content": f"{n}" * 900, "created_at": n}
                       for n in range(1, 200))  # fmt: skip
    shutil.copytree(path, cut := tmp_path / "cut.omsg")
    os.truncate(cut / "data.mdb", (path / "data.mdb").stat().st_size // 2)
    with pytest.raises(StoreCutError):
        og.open(cut)
    os.truncate(cut / "data.mdb", 0)
    with pytest.raises(StoreCutError):
        og.open(cut, readonly=True)
    shutil.copytree(path, damaged := tmp_path / "damaged.omsg")
    (damaged / "data.mdb").write_bytes(b"x" * 100_000)
    with pytest.raises(StoreDamagedError):
        og.open(damaged)
    for number, kind in (
        (errno.EACCES, AccessDeniedError), (errno.EROFS, AccessDeniedError),
        (errno.ENOSPC, DiskFullError), (errno.EDQUOT, DiskFullError), (errno.EIO, StoreError),
    ):  # fmt: skip
        found = failure(path, "open the store", OSError(number, os.strerror(number)))
        assert type(found) is kind, number
    told = lmdb.DiskError(f"mdb_txn_commit: {os.strerror(errno.ENOSPC)}")
    assert type(failure(path, "write to the store", told)) is DiskFullError


def test_a_store_is_checked_on_a_full_disk(tmp_path: Path) -> None:
    assert run(BEGIN + CHECK, tmp_path / "memory.omsg") == [
        "True", "True", "10 grains, 60 index rows: no problems", "0",
    ]  # fmt: skip


def test_a_missing_permission_has_a_code() -> None:
    with TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        assert run(DENIED, Path(top, "memory.omsg")) == ["ERR_ACCESS", "ERR_ACCESS"]


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
        context_of(store).inner.flush,
        store.maintenance.rebuild,
    ):
        with pytest.raises(StoreError):
            call()
    assert store.get(address) == grain  # the open file has it still
    store.close()
    with og.open(path) as fresh:
        assert len(fresh) == again
        assert fresh.put(grain) == address
        assert fresh.maintenance.check().ok


# --- a disk of its own ---------------------------------------------------------------------------

FILL = """
import os, sys, threading
import omsgrain as og
from omsgrain.store.context import context_of
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.lmdb import storage
storage.RUN = 300
disk = sys.argv[1]
def event(n):
    return {"type": "event", "content": f"number {n} " + "x" * (n % 3_000),
            "created_at": 1_700_000_000_000 + n, "user_id": f"user {n % 10}"}
def all_there(store, addresses):
    found = store.query(limit=10_000, order="oldest").results
    return ([hit.address for hit in found] == addresses
            and [grain.address for grain in store] == addresses == sorted(set(addresses),
                key=addresses.index))
def full(call):
    try:
        call()
    except StoreError as error:
        return error.code
with open(disk + "/ballast", "wb") as file:
    file.write(bytes(800_000))
store = og.open(disk + "/memory.omsg", durability=sys.argv[2])
addresses, refusals, n = [], 0, 0
while refusals < 10:
    n += 1
    try:
        addresses.append(store.put(event(n)))
    except StoreError:
        refusals += 1
print(len(addresses) > 300, len(store) == len(addresses), all_there(store, addresses))
# Not a page is left; and many readers at once, in slots of LMDB's lock file that were never used.
with open(disk + "/last", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4_096))
    except OSError:
        pass
inside, ready, end = [], threading.Semaphore(0), threading.Event()
def read():
    with context_of(store).storage.read() as reader:
        inside.append(reader.count())
        ready.release()
        end.wait()
threads = [threading.Thread(target=read) for _ in range(300)]
for thread in threads:
    thread.start()
for thread in threads:
    ready.acquire()
end.set()
for thread in threads:
    thread.join()
print(set(inside) == {len(addresses)})
compact = context_of(store).storage.compact
print(full(compact), full(lambda: store.maintenance.backup(disk + "/copy")))
left = {*os.listdir(disk), *os.listdir(disk + "/memory.omsg")} - {"head"}
print(*sorted(left))
store.close()
store = og.open(disk + "/memory.omsg", readonly=True)
print(all_there(store, addresses), store.maintenance.check().ok)
store.close()
store = og.open(disk + "/memory.omsg", durability=sys.argv[2])
print(all_there(store, addresses))
os.unlink(disk + "/ballast")
os.unlink(disk + "/last")
for n in range(100_000, 100_100):
    addresses.append(store.put(event(n)))
print(all_there(store, addresses), store.maintenance.check().ok)
store.close()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.services
@pytest.mark.parametrize("durability", ["commit", "relaxed"])
def test_a_disk_that_is_full(disk: Path, durability: str) -> None:
    assert run(FILL, disk, durability) == [
        "True True True",
        "True",
        "ERR_DISK_FULL ERR_DISK_FULL",
        "ballast data.mdb last lock.mdb memory.omsg writer.lock",
        "True True",
        "True",
        "True True",
    ]


@pytest.mark.services
def test_a_new_store_on_a_full_disk(disk: Path) -> None:
    code = """
        import os, sys
        import omsgrain as og
        from omsgrain.errors import StoreError
        disk = sys.argv[1]
        with open(disk + "/ballast", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4_096))
            except OSError:
                pass
        try:
            og.open(disk + "/memory.omsg")
        except StoreError as error:
            print(error.code)
        os.unlink(disk + "/ballast")
        with og.open(disk + "/memory.omsg") as store:
            store.put(og.Belief(subject="room", relation="has", object="light"))
            print(store.maintenance.check().ok)
    """
    assert run(code, disk) == ["ERR_DISK_FULL", "True"]
