# SPDX-License-Identifier: Apache-2.0
"""Processes beside each other: the writer's lock, and readers that see each grain at once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb import commit_queue
from omsgrain.storage.lmdb.storage import LmdbStorage
from support.processes import Process
from support.store_contract import Pair, contents, make_pairs, put

LONG = 20.0  # seconds until a test that is stuck gives up


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.omsg"


def belief(number: int) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": f"room {number}",
        "relation": "has",
        "object": "light",
        "confidence": 0.5,
        "created_at": 1_700_000_000_000 + number,
    }


# --- the writer's lock ---------------------------------------------------------------------------

# Writes, and holds its turn until a line comes in.
HOLDER = """
import sys
from omsgrain.storage.lmdb.storage import LmdbStorage
store = LmdbStorage(sys.argv[1])
def work(writer):
    writer.put([(b"h" * 32, b"held")])
    print("inside", flush=True)
    sys.stdin.readline()
store.write(work)
print("done", flush=True)
sys.stdin.readline()
"""


def test_another_process_that_writes(path: Path) -> None:
    store = LmdbStorage(path, patience=0.05)
    one, other = make_pairs(2)
    with Process(HOLDER, path) as holder:
        assert holder.hear() == "inside"
        with pytest.raises(StoreError):
            put(store, one)
        assert contents(store) == []  # readers never wait
        holder.say()
        assert holder.hear() == "done"
        assert put(store, one, other) == [True, True]
        assert [seq for seq, _ in contents(store)] == [1, 2, 3]
        store.close()


def test_opening_while_another_process_writes(path: Path) -> None:
    LmdbStorage(path).close()
    with Process(HOLDER, path) as holder:
        assert holder.hear() == "inside"
        with pytest.raises(StoreError):
            LmdbStorage(path, patience=0.05)
        reader = LmdbStorage(path, readonly=True, patience=0.05)
        assert contents(reader) == []
        with pytest.raises(StoreError):  # it wants to write now
            LmdbStorage(path)
        assert contents(reader) == []
        reader.close()
        holder.say()
        assert holder.hear() == "done"
        LmdbStorage(path, patience=0.05).close()


def test_a_killed_holder_frees_the_lock(path: Path) -> None:
    LmdbStorage(path).close()
    with Process(HOLDER, path) as holder:
        assert holder.hear() == "inside"
        holder.child.kill()
        holder.child.wait()
        store = LmdbStorage(path, patience=0.5)
        assert put(store, *make_pairs(1)) == [True]
        assert store.stats().grains == 1  # the holder's work was never committed
        store.close()


def test_a_child_of_a_killed_holder_does_not_keep_the_lock(path: Path) -> None:
    LmdbStorage(path).close()
    code = """if True:
        import os, sys
        from omsgrain.storage.lmdb.storage import LmdbStorage
        store = LmdbStorage(sys.argv[1])
        store.write(lambda writer: None)
        store._env._lock.__enter__()  # as between two steps of a commit
        if not os.fork():
            print("child", flush=True)
            sys.stdin.readline()
            os._exit(0)
        os.kill(os.getpid(), 9)
    """
    with Process(code, path) as holder:
        assert holder.hear() == "child"
        assert holder.child.wait() == -9
        store = LmdbStorage(path, patience=2)
        assert put(store, *make_pairs(1)) == [True]
        store.close()
        holder.say()


def test_closing_while_writers_wait(path: Path) -> None:
    store = LmdbStorage(path, patience=LONG)
    with Process(HOLDER, path) as holder:
        assert holder.hear() == "inside"
        tried = threading.Event()
        lock = store._env._lock
        said: list[BaseException] = []

        class Telling(type(lock)):  # type: ignore[misc]
            __slots__ = ()

            def _try(self) -> None:
                try:
                    super()._try()
                finally:
                    tried.set()

        store._env._lock = Telling(path / "writer.lock", LONG)

        def write(one: Pair) -> None:
            try:
                put(store, one)
            except BaseException as error:
                said.append(error)

        threads = [threading.Thread(target=write, args=(one,)) for one in make_pairs(4)]
        for thread in threads:
            thread.start()
        assert tried.wait(LONG)
        store._let_go()  # as a close does after its own flush, which would have to wait too
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive()
        assert [type(error) for error in said] == [StoreError] * 4
        holder.say()
        assert holder.hear() == "done"


# Lets go of its turn when a line comes in, and tries at once to have it again.
BUSY = """
import sys
from pathlib import Path
from omsgrain.storage.lmdb import commit_queue as writer_lock
writer_lock._LOOK = 0.0
lock = writer_lock.WriterLock(Path(sys.argv[1]), 20)
lock.__enter__()
print("inside", flush=True)
sys.stdin.readline()
lock.__exit__()
try:
    lock._try()
except BlockingIOError:
    print("barred", flush=True)
else:
    print("again", flush=True)
with lock:
    print("last", flush=True)
"""


def test_a_long_waiter_goes_before_a_busy_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "_LONG", 0.0)
    first, end = threading.Event(), threading.Event()

    class Telling(commit_queue.WriterLock):
        __slots__ = ()

        def _goes_first(self) -> bool:
            if super()._goes_first():
                first.set()
            return first.is_set()

    lock = Telling(tmp_path / "writer.lock", LONG)

    def wait() -> None:
        with lock:
            end.wait(LONG)

    with Process(BUSY, tmp_path / "writer.lock") as busy:
        assert busy.hear() == "inside"
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert first.wait(LONG)
        busy.say()
        assert busy.hear() == "barred"
        end.set()
        assert busy.hear() == "last"  # and lets others by when its turn has come
        waiting.join(LONG)
    lock.close()


def test_two_processes_write(path: Path) -> None:
    og.open(path).close()
    code = """if True:
        import sys, omsgrain as og
        path, who, run = sys.argv[1], sys.argv[2], int(sys.argv[3])
        from omsgrain.storage.lmdb import memtable, storage
        storage.RUN = memtable.RUN = run
        with og.open(path) as store:
            print("ready", flush=True)
            sys.stdin.readline()
            for n in range(60):
                grain = og.Belief(subject=f"{who} {n}", relation="has", object="light",
                                  created_at=1_700_000_000_000 + n)
                for again in range(2):  # the other has it, or it is a duplicate
                    store.put(grain if n % 2 else {"type": "belief", "subject": f"both {n}",
                        "relation": "has", "object": "light", "confidence": 0.5,
                        "created_at": 1_700_000_000_000 + n})
        print("done", flush=True)
    """
    with Process(code, path, "left", 7) as left, Process(code, path, "right", 11) as right:
        for one in (left, right):
            assert one.hear() == "ready"
        for one in (left, right):
            one.say()
        for one in (left, right):
            assert one.hear() == "done"
    with og.open(path) as store:
        subjects = [grain["subject"] for grain in store]
        expected = {f"{who} {n}" for who in ("left", "right") for n in range(1, 60, 2)}
        expected |= {f"both {n}" for n in range(0, 60, 2)}
        assert len(subjects) == 90
        assert set(subjects) == expected
        assert store.query(relation="has", count=True).total == 90
        assert store.maintenance.check().ok


# --- readers in other processes ------------------------------------------------------------------

READER = """
import sys, omsgrain as og
with og.open(sys.argv[1], readonly=True) as store:
    print("ready", flush=True)
    for line in sys.stdin:
        address, subject = line.rstrip("\\n").split("\\t")
        got = store.get(address)["subject"] == subject
        page = store.query(subject=subject, count=True)
        found = [hit.address for hit in page.results] == [address]
        newest = store.query(relation="has", limit=1).results[0].address == address
        total = store.query(relation="has", count=True).total
        print(got and found and newest and page.total == 1 and total == len(store), flush=True)
"""


@pytest.mark.parametrize("run", [7, 1_000])
def test_a_reader_sees_each_grain_at_once(
    path: Path, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any flush, and across flushes."""
    monkeypatch.setattr("omsgrain.storage.lmdb.storage.RUN", run)
    with og.open(path) as store:
        with Process(READER, path) as reader:
            assert reader.hear() == "ready"
            for n in range(50):
                address = store.put(belief(n))
                reader.say(f"{address}\troom {n}")
                assert reader.hear() == "True", f"grain {n}"
        assert (store.stats().watermark > 0) == (run < 50)


def test_processes_see_each_other_by_turns(path: Path) -> None:
    """Ping-pong: each puts what follows from the grain of the other."""
    code = """if True:
        import sys, omsgrain as og
        with og.open(sys.argv[1]) as store:
            print("ready", flush=True)
            for line in sys.stdin:
                n = store.get(line.strip())["x_n"]
                assert store.query(relation="has", limit=1).results[0].grain["x_n"] == n
                print(store.put(og.Belief(subject="ball", relation="has", object="bounced",
                    x_n=n + 1, created_at=1_700_000_000_000 + n + 1)), flush=True)
    """
    with og.open(path) as store, Process(code, path) as other:
        assert other.hear() == "ready"
        n = 0
        for _ in range(25):
            mine = og.Belief(
                subject="ball",
                relation="has",
                object="thrown",
                x_n=n,
                created_at=1_700_000_000_000 + n,
            )
            other.say(store.put(mine))
            n = store.get(other.hear())["x_n"]
            hits = store.query(subject="ball", limit=1, count=True)
            assert hits.results[0].grain["x_n"] == n
            assert hits.total == n + 1
            n += 1
        assert n == 50


# --- the door ------------------------------------------------------------------------------------

# As LMDB is in the midst of opening: it has its lock file for itself, and not yet written there
# what the number of the last commit is.
OPENING = """
import fcntl, sys
from pathlib import Path
from omsgrain.storage.lmdb.data_file import passing
path = Path(sys.argv[1])
with passing(path, 5):
    with open(path / "lock.mdb", "r+b", buffering=0) as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX, 1)
        lock.seek(48)  # behind magic, format and a mutex
        lock.write(bytes(8))
        print("inside", flush=True)
        sys.stdin.readline()
"""


@pytest.mark.parametrize("count", [10, 11])  # LMDB's roots take turns
def test_a_kill_during_opening_does_no_harm(path: Path, count: int) -> None:
    pairs = make_pairs(count)
    store = LmdbStorage(path)
    for one in pairs:
        put(store, one)
    store.close()
    code = """
        import sys
        from omsgrain.storage.lmdb import data_file as door
        from omsgrain.storage.lmdb.storage import LmdbStorage
        sleep = door.time.sleep
        def tell(seconds):
            door.time.sleep = sleep
            print("waits", flush=True)
        door.time.sleep = tell
        store = LmdbStorage(sys.argv[1])
        store.write(lambda writer: writer.put([(b"n" * 32, b"new")]))
        print(store.stats().grains, flush=True)
        store.close()
        sys.stdin.readline()
    """
    with Process(OPENING, path) as first:
        assert first.hear() == "inside"
        with pytest.raises(StoreError):
            LmdbStorage(path, patience=0.02)
        with Process(code, path) as second:
            assert second.hear() == "waits"
            first.child.kill()
            assert second.hear() == str(count + 1)
    store = LmdbStorage(path, readonly=True)
    assert [blob for _, blob in contents(store)] == [*(blob for _, blob in pairs), b"new"]
    store.close()
