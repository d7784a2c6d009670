# SPDX-License-Identifier: Apache-2.0
"""Compaction: nothing lost, nothing left, beside readers, writers and kills."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import lmdb
import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb import maintenance, storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.lmdb.writer import LmdbWriter
from omsgrain.storage.tables import BLOBS, TABLES
from support.child_process import check, ended, run
from support.processes import Process
from support.store_contract import Pair, contents, pair, put

NAMES = {"data.mdb", "lock.mdb", "writer.lock", "head"}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "memory.omsg"
    assert not storage._shared, "a store was left open"


@pytest.fixture
def store(path: Path) -> Iterator[LmdbStorage]:
    store = LmdbStorage(path)
    yield store
    store.close()


def blobs(count: int, seed: int = 1) -> list[Pair]:
    """Grains that check() has nothing to say about."""
    random = Random(seed)
    grains = [
        og.encode(
            {
                "type": "event",
                "content": f"{seed} {n} " + "x" * random.choice([5, 50, 9_000]),
                "user_id": f"user {n % 7}",
                "created_at": 1_700_000_000_000 + n,
            }
        )
        for n in range(count)
    ]
    return [pair(blob) for blob in grains]


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def rows(path: Path) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """Every row of every table, as any program that knows LMDB reads them."""
    copy = path.with_name("copy")
    copy.mkdir(exist_ok=True)
    shutil.copy(path / "data.mdb", copy)  # this process has the store open
    found = {}
    with lmdb.open(str(copy), readonly=True, max_dbs=64, lock=False) as env:
        for table in TABLES:
            many = table.places
            db = env.open_db(table.name, create=False, dupsort=many, dupfixed=many)
            with env.begin(db=db) as txn:
                found[table.name] = list(txn.cursor())
    return found


# --- what it does --------------------------------------------------------------------------------


def test_the_same_rows_in_a_smaller_file(path: Path, store: LmdbStorage) -> None:
    pairs = blobs(300)
    for n in range(0, 300, 10):
        put(store, *pairs[n : n + 10])
        store.flush()
    before, stat = rows(path), (path / "data.mdb").stat()
    report = store.compact()
    after = (path / "data.mdb").stat()
    assert report.before == stat.st_size > report.after == after.st_size
    assert (after.st_mode, after.st_uid) == (stat.st_mode, stat.st_uid)
    assert rows(path) == before
    assert names(path) == NAMES
    assert [blob for _, blob in contents(store)] == [blob for _, blob in pairs]
    assert store.stats().file_bytes == report.after
    assert store.check().ok
    assert store.compact().after == report.after
    more = blobs(20, seed=2)
    assert put(store, *more, pairs[0]) == [True] * 20 + [False]
    assert store.check().grains == 320
    store.close()
    again = LmdbStorage(path, readonly=True)
    assert len(contents(again)) == 320
    again.close()


def test_the_new_file_is_private_while_it_is_written(
    path: Path, store: LmdbStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, *blobs(10))
    (path / "data.mdb").chmod(0o600)
    found: list[int] = []

    class Telling(maintenance._Copy):
        def end(self) -> None:
            found.append((path / "data.part" / "data.mdb").stat().st_mode & 0o777)
            super().end()

    monkeypatch.setattr(maintenance, "_Copy", Telling)
    store.compact()
    assert found == [0o600]


def test_no_byte_of_removed_grains(path: Path, store: LmdbStorage) -> None:
    pairs = blobs(100)
    secrets = [
        pair(
            og.encode(
                {
                    "type": "event",
                    "content": f"secret {n} " * (1 + 2_000 * (n % 2)),
                    "user_id": f"hidden {n}",
                    "created_at": n + 1,
                }
            )
        )
        for n in range(20)
    ]
    for n in range(0, 100, 5):
        put(store, *pairs[n : n + 5], secrets[n // 5])
        if n % 25 == 0:
            store.flush()
    with store.read() as reader:
        seqs = reader.find([digest for digest, _ in secrets])
    for seq in seqs:
        assert seq is not None
        store.write(partial(LmdbWriter.remove, seq=seq))
    store.flush()

    def remnants() -> set[bytes]:
        raw = b"".join(entry.read_bytes() for entry in path.iterdir())
        return {word for word in (b"secret", b"hidden") if word in raw}

    assert remnants() == {b"secret", b"hidden"}
    store.compact()
    assert remnants() == set()
    assert store.check().ok
    assert [blob for _, blob in contents(store)] == [blob for _, blob in pairs]


def test_relaxed_and_an_empty_store(path: Path) -> None:
    store = LmdbStorage(path, durable=False)
    store.compact()
    pairs = blobs(30)
    put(store, *pairs)
    store.compact()
    assert len(contents(store)) == 30
    store.close()
    assert check(path).ok


def test_many_commits_to_the_new_file(
    path: Path, store: LmdbStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_COMMIT", 10_000)
    monkeypatch.setattr(maintenance, "_BYTES", 3_000)
    monkeypatch.setattr(maintenance, "_ROWS", 7)
    put(store, *blobs(200))
    store.flush()
    before = rows(path)
    store.compact()
    assert rows(path) == before
    assert store.check().ok


def test_refused(path: Path, store: LmdbStorage) -> None:
    put(store, *blobs(3))
    with pytest.raises(StoreError):
        store.write(lambda writer: store.compact())
    reader = LmdbStorage(path, readonly=True)
    with pytest.raises(StoreError):
        reader.compact()
    reader.close()
    (path / "data.part").write_text("not a directory")  # a file that cannot be made
    with pytest.raises(StoreError):
        store.compact()
    (path / "data.part").unlink()
    assert store.compact().after > 0
    store.close()
    with pytest.raises(StoreError):
        store.compact()


def test_another_store_at_the_path_is_left_alone(path: Path, store: LmdbStorage) -> None:
    put(store, *blobs(5))
    path.rename(path.with_name("moved"))
    other = LmdbStorage(path)
    put(other, *blobs(3, seed=2))
    other.close()
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(StoreError):
        store.compact()
    assert (path / "data.mdb").read_bytes() == before
    assert put(store, *blobs(2, seed=3)) == [True] * 2  # it is open still
    assert len(contents(store)) == 7


def test_a_damaged_table_is_not_copied(path: Path, store: LmdbStorage) -> None:
    put(store, *blobs(50))
    copied = maintenance._some

    def some(cursor: object, table: object) -> list[tuple[bytes, bytes]]:
        rows = copied(cursor, table)  # type: ignore[arg-type]
        return rows[:-1] if table is BLOBS else rows

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StoreError):
        patch.setattr(maintenance, "_some", some)
        store.compact()
    assert names(path) == NAMES
    assert store.check().grains == 50


# --- beside others -------------------------------------------------------------------------------

OTHER = """
import sys
from hashlib import sha256
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.base import pages
store = LmdbStorage(sys.argv[1], readonly=sys.argv[2] == "r")
snapshot = store.read()
snapshot.__enter__()
print("ready", flush=True)
for line in sys.stdin:
    if snapshot:
        snapshot.__exit__(None, None, None)  # it was open across the first compaction
        snapshot = None
    word, n = line.split()
    if word == "put":
        blob = b"x" * int(n)
        store.write(lambda writer: writer.put([(sha256(blob).digest(), blob)]))
    print(sum(len(page) for page in pages(store)), flush=True)
"""


@pytest.mark.parametrize("mode", ["r", "w"])
def test_another_process_continues(path: Path, store: LmdbStorage, mode: str) -> None:
    pairs = blobs(40)
    put(store, *pairs)
    with Process(OTHER, path, mode) as other:
        assert other.hear() == "ready"
        expected = 40
        for round in range(4):
            store.compact()
            if round % 2:  # else it has to find out by itself
                put(store, *blobs(3, seed=10 + round))
                expected += 3
            if mode == "w":
                other.say(f"put {1_000 + round}")
                expected += 1
            else:
                other.say("count 0")
            assert other.hear() == str(expected)
            assert len(contents(store)) == expected
    assert names(path) == NAMES


def test_the_other_process_compacts(path: Path, store: LmdbStorage) -> None:
    pairs = blobs(60)
    code = """
        import sys
        from omsgrain.storage.lmdb.storage import LmdbStorage
        store = LmdbStorage(sys.argv[1])
        store.compact()
        store.close()
    """
    for n in range(0, 60, 20):
        put(store, *pairs[n : n + 20])
        with store.read() as reader:
            run(code, path)
            assert reader.count() == n + 20  # on the old file
            assert reader.get(pairs[n][0]) == pairs[n][1]
        second = LmdbStorage(path)  # shares the first, whatever files lie there
        assert second._env is store._env
        assert len(contents(second)) == n + 20
        second.close()
    assert store.check().ok


def test_all_at_once(path: Path) -> None:
    """Another process and two threads put while this one compacts again and again."""
    store = LmdbStorage(path, durable=False)
    code = """
        import sys
        from hashlib import sha256
        from omsgrain.storage.lmdb.storage import LmdbStorage
        store = LmdbStorage(sys.argv[1], durable=False)
        print("ready", flush=True)
        sys.stdin.readline()
        for n in range(150):
            blob = b"other %d" % n
            store.write(lambda writer: writer.put([(sha256(blob).digest(), blob)]))
            with store.read() as reader:
                assert reader.get(sha256(blob).digest()) == blob
        store.close()
        print("done", flush=True)
    """
    wrong: list[BaseException] = []

    def write(who: bytes) -> None:
        try:
            for n in range(60):
                digest, blob = pair(b"%s %d" % (who, n))
                put(store, (digest, blob))
                with store.read() as reader:
                    assert reader.get(digest) == blob
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(who,)) for who in (b"one", b"two")]
    with Process(code, path) as other:
        assert other.hear() == "ready"
        other.say()
        for thread in threads:
            thread.start()
        compactions = 0
        while any(thread.is_alive() for thread in threads) or compactions < 5:
            store.compact()
            compactions += 1
        assert other.hear() == "done"
    for thread in threads:
        thread.join()
    assert not wrong
    assert len({blob for _, blob in contents(store)}) == 150 + 2 * 60
    store.compact()
    assert names(path) == NAMES
    store.close()


def test_a_replacement_waits_for_those_who_open(
    path: Path, store: LmdbStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, *blobs(5))
    monkeypatch.setattr(store._env, "patience", 0.02)
    code = """
        import sys
        from pathlib import Path
        from omsgrain.storage.lmdb.data_file import passing
        with passing(Path(sys.argv[1]), 5):
            print("inside", flush=True)
            sys.stdin.readline()
        print("out", flush=True)
        sys.stdin.readline()
    """
    with Process(code, path) as opener:
        assert opener.hear() == "inside"
        with pytest.raises(StoreError):
            store.compact()
        assert names(path) == NAMES
        opener.say()
        assert opener.hear() == "out"
        store.compact()


def test_a_fork_beside_a_compaction(path: Path) -> None:
    """The child holds neither the door nor the writers' turn."""
    code = """
        import os, sys, threading
        from omsgrain.storage.lmdb.storage import LmdbStorage
        store = LmdbStorage(sys.argv[1])
        store.write(lambda writer: writer.put([(b"a" * 32, b"blob")]))
        go = True
        def work():
            while go:
                store.compact()
        thread = threading.Thread(target=work)
        thread.start()
        children = []
        for _ in range(8):
            child = os.fork()
            if not child:
                sys.stdin.readline()  # lives on, with whatever it inherited
                os._exit(0)
            children.append(child)
        go = False
        thread.join()
        again = LmdbStorage(sys.argv[1], patience=1)
        again.compact()
        print(len(again.read().__enter__().page(0)), flush=True)
        os._exit(0)
    """
    with Process(code, path) as other:
        assert other.hear() == "1"


# --- kills ---------------------------------------------------------------------------------------

# Dies before the n-th time that it makes, names or changes a file; says so if it got to the end.
DYING = """
import os, sys
from omsgrain.storage.lmdb import maintenance, storage
store = storage.LmdbStorage(sys.argv[1])
store.write(lambda writer: None)
left = int(sys.argv[2])
def count(event, args):
    global left
    watched = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown"}
    writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)
    if event in watched or writes:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
sys.addaudithook(count)
store.compact()
print("whole")
os._exit(0)
"""
STEPS = 12


def kill(path: Path, step: int, code: str = DYING) -> bool:
    """Whether it was killed."""
    done = ended(code, path, step)
    assert (done.returncode, done.stdout) in ((-9, ""), (0, "whole\n")), done.stderr
    return done.returncode != 0


@pytest.mark.parametrize(
    ("step", "first"),
    [(n, "old") for n in range(STEPS)] + [(n, "new") for n in range(3, 10)],
)
def test_killed_at_each_step(path: Path, step: int, first: str) -> None:
    """Open handles and new ones can come in any order."""
    pairs, more = blobs(40), blobs(10, seed=2)
    store = LmdbStorage(path)
    put(store, *pairs)
    assert kill(path, step) == (step < STEPS - 1)
    if first == "new":
        assert check(path).grains == 40
    assert put(store, *more) == [True] * 10
    assert len(contents(store)) == 50
    store.close()
    store = LmdbStorage(path)
    assert [blob for _, blob in contents(store)] == [blob for _, blob in pairs + more]
    assert names(path) == NAMES
    store.compact()
    report = check(path)
    assert (report.ok, report.grains) == (True, 50), report.problems
    store.close()


@pytest.mark.parametrize(
    "moment", ["maintenance._Copy.add", "maintenance._Copy.end", "maintenance.replace"]
)
def test_killed_while_it_copies(path: Path, moment: str) -> None:
    store = LmdbStorage(path)
    put(store, *blobs(40))
    code = DYING.replace(
        "sys.addaudithook(count)",
        f"inner = {moment}\n"
        "def die(*args):\n    inner(*args)\n    os.kill(os.getpid(), 9)\n"
        f"{moment} = die",
    )
    assert kill(path, 0, code)
    assert put(store, *blobs(5, seed=2)) == [True] * 5
    store.close()
    report = check(path)
    assert (report.ok, report.grains) == (True, 45)
    LmdbStorage(path).close()
    assert names(path) == NAMES
