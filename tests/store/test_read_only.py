# SPDX-License-Identifier: Apache-2.0
"""A store that may only be read: of another user, in a directory without write permission.

The reader is a process of an unprivileged user. It cannot note in LMDB's lock file that it reads.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb.storage import LmdbStorage
from support.child_process import ended, run
from support.processes import Process
from support.store_contract import put

TIME = 1_768_471_200_000
# Root may write anywhere, so the child becomes nobody; what it needs is imported before.
NOBODY = """
import os, sys, tempfile
import omsgrain as og
from omsgrain.store.context import context_of
from omsgrain.errors import OmsError
from omsgrain.search.text_file import to_read
from omsgrain.storage.check import check
from omsgrain.storage.lmdb.storage import LmdbStorage
path = sys.argv[1]
with tempfile.TemporaryDirectory() as room, og.open(room + "/first.omsg") as first:
    first.put(og.Belief(subject="room", relation="has", object="light"))
    first.search("light"), first.query(user_id="ada"), list(first)
    check(context_of(first).storage.path)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""
# Root without the right to pass over permissions, which can still import what is its own.
POWERLESS = """
import ctypes, os, sys
if os.getuid() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for power in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        assert libc.prctl(24, power, 0, 0, 0) == 0  # from the bounding set, for children
    sets[0] &= ~6
    sets[1] &= ~6
    assert libc.capset(header, sets) == 0
path = sys.argv[1]
"""


def event(n: int) -> dict[str, object]:
    return {"type": "event", "content": f"number {n} kettle", "created_at": TIME + n,
            "user_id": "ada"}  # fmt: skip


def pair(n: int) -> tuple[bytes, bytes]:
    """The input of a store for a grain: its address and its blob."""
    blob = og.encode(event(n))
    return bytes.fromhex(og.address(blob)), blob


def close(path: Path, *, lock: bool = True) -> None:
    """Allow only root to write to a store."""
    for file in path.iterdir():
        if not lock and file.name in ("lock.mdb", "writer.lock"):
            file.unlink()
        else:
            file.chmod(0o444)
    path.chmod(0o555)


def reopen(path: Path) -> None:
    """Let the owner write again: root may anyway."""
    path.chmod(0o755)
    for file in path.iterdir():
        file.chmod(0o644)


@pytest.fixture
def path() -> Iterator[Path]:
    """A store of 30 grains in a directory that everybody may look into."""
    with TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        path = Path(top, "memory.omsg")
        with og.open(path) as store:
            store.put_many(event(n) for n in range(30))
            assert len(store.search("kettle").results) == 10
        yield path
        reopen(path)


READ = """
before = sorted(os.listdir(path))
with og.open(path, readonly=True) as store:
    print(len(store), len(store.search("kettle").results), len(store.query(user_id="ada").results))
    folder = context_of(store).storage.path
    print(to_read(folder / "text.db") is not None, check(folder).ok)
    try:
        store.put(og.Belief(subject="room", relation="has", object="light"))
    except OmsError as error:
        print(error.code)
    try:
        og.open(path)
    except OmsError as error:
        print(error.code)
try:
    og.open(path)
except OmsError as error:
    print(error.code)
print(sorted(os.listdir(path)) == before)
"""


@pytest.mark.parametrize("lock", [True, False], ids=["used", "copied"])
def test_a_store_in_a_closed_directory_opens_to_read(path: Path, lock: bool) -> None:
    close(path, lock=lock)
    lines = ["30 10 30", "True True", "ERR_STORE", "ERR_ACCESS", "ERR_ACCESS", "True"]
    assert run(NOBODY + READ, path) == lines


COMMANDS = """
from omsgrain.cli import run
room, address = sys.argv[2:]
given = {"STORE": path, "ADDRESS": address}
for line in (
    "stats STORE", "query STORE --user ada", "query STORE --user ada --count",
    "search STORE kettle", "get STORE ADDRESS", "state STORE ADDRESS", "history STORE ADDRESS",
    "provenance STORE ADDRESS", "duplicates STORE", "reviews STORE", "due STORE", "verify STORE",
    "audit STORE", "audit STORE --verify", "report STORE ada", "token list STORE",
    "export STORE m.mg", "backup STORE copy.omsg", "inspect STORE -o page.html", "check STORE",
):
    code = run([given.get(word, room + "/" + word if "." in word else word)
                for word in line.split()])
    print("ran", code, line, file=sys.stderr)
"""


def test_every_command_that_reads_opens_it(path: Path) -> None:
    room = path.parent / "room"
    room.mkdir()
    room.chmod(0o777)
    with og.open(path, readonly=True) as store:
        address = next(iter(store)).address
    close(path)
    done = ended(POWERLESS + COMMANDS, path, room, address)
    ran = [line for line in done.stderr.splitlines() if line.startswith("ran")]
    assert len(ran) == 20, done.stderr
    assert [line for line in ran if not line.startswith("ran 0")] == [], done.stderr


SNAPSHOT = """
store = LmdbStorage(path, readonly=True)
while True:
    with store.read() as reader:
        print(reader.count(), flush=True)
        sys.stdin.readline()
        print(len([reader.blob_at(seq) for seq in range(1, 31)]), flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("lock", [True, False], ids=["used", "copied"])
def test_a_writer_waits_for_a_reader_that_it_cannot_see(path: Path, lock: bool) -> None:
    """It would use the pages again that the reader is reading."""
    close(path, lock=lock)
    with Process(NOBODY + SNAPSHOT, path) as reader:
        assert reader.hear() == "30"
        reopen(path)
        with pytest.raises(StoreError):
            LmdbStorage(path, patience=0)
        reader.say()
        assert reader.hear() == "30"
        writer = LmdbStorage(path)  # waits until the reader's snapshot has ended
        put(writer, pair(99))
        reader.say()
        assert reader.hear() == "31"
        writer._env._lock.patience = 0
        with pytest.raises(StoreError):
            put(writer, pair(100))
        reader.say()
        assert reader.hear() == "30"
        writer._env._lock.patience = 30
        put(writer, pair(100))
        assert writer.stats().grains == 32
        writer.close()


CHURN = """
store = og.open(path, readonly=True)
print("ready", flush=True)
rounds = 0
while rounds < 40 or sys.stdin.readline() != "end\\n":
    rounds += 1
    grains = [grain["content"] for grain in store]  # each is hashed again
    if rounds == 40:
        print("read", flush=True)
print(len(store), flush=True)
"""


def test_reading_beside_a_busy_writer(path: Path) -> None:
    close(path)
    with Process(NOBODY + CHURN, path) as reader:
        assert reader.hear() == "ready"
        reopen(path)
        churn(path, reader)


def churn(path: Path, reader: Process) -> None:
    with og.open(path) as store:
        kept = []
        for n in range(100):
            kept.append(store.put(og.encode(event(1_000 + n))))
            if n % 2:
                store.delete(kept.pop(0), reason="no longer needed")
            if n % 40 == 20:
                store.maintenance.compact()
        assert reader.hear() == "read"
        reader.say("end")
        assert reader.hear() == str(len(store))
        assert store.maintenance.check().ok


BOUND = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x00020000) == 0, ctypes.get_errno()  # mounts of its own
for options in (["--make-rprivate", "/"], ["--bind", sys.argv[1], sys.argv[2]],
                ["-o", "remount,bind,ro", sys.argv[2]]):
    subprocess.run(["mount", *options], check=True)
sys.argv[1] = sys.argv[2]
"""


@pytest.mark.services
def test_a_store_on_a_medium_that_only_reads_while_others_write(path: Path) -> None:
    """The same files can be written elsewhere: LMDB alone would take them for unchanging."""
    bound = path.parent / "bound"
    shutil.copytree(path, bound)
    code = BOUND + NOBODY.replace("os.getuid() == 0", "False") + SNAPSHOT
    with Process(code, path, bound) as reader:
        assert reader.hear() == "30"
        with pytest.raises(StoreError):
            LmdbStorage(path, patience=0)
        reader.say()
        assert reader.hear() == "30"
        with og.open(path) as store:
            store.put(event(99))
        reader.say()
        assert reader.hear() == "31"
