# SPDX-License-Identifier: Apache-2.0
"""The stores: the contract over each, and what is particular to LMDB."""

from __future__ import annotations

import gc
import shutil
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

import lmdb
import pytest

import omsgrain as og
from omsgrain.errors import OmsError, StoreDamagedError, StoreError
from omsgrain.storage.base import Storage
from omsgrain.storage.lmdb import environment, storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import FORMAT, FORMAT_RECORD, FORMAT_VALUE, INDEXED_FORMAT, META
from support.child_process import run
from support.store_contract import StoreContract, contents, make_pairs, pair, put


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Storage:
        return MemoryStorage()


class TestLmdbStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Storage]:
        store = LmdbStorage(tmp_path / "memory.omsg")
        yield store
        store.close()


class TestRelaxedLmdbStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Storage]:
        store = LmdbStorage(tmp_path / "memory.omsg", durable=False)
        yield store
        store.close()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "memory.omsg"
    gc.collect()
    assert not storage._shared, "a store was left open"


@pytest.fixture
def small_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "FIRST_MAP", 256 << 10)


# --- opening -------------------------------------------------------------------------------------


def test_a_durability_that_cannot_be(path: Path) -> None:
    with pytest.raises(OmsError) as caught:
        og.open(path, durability="Commit")  # type: ignore[arg-type]
    assert caught.value.code == "ERR_SCHEMA"
    assert not path.exists()


@pytest.mark.parametrize("durable", [True, False])
def test_everything_is_there_after_reopening(path: Path, durable: bool) -> None:
    pairs = make_pairs(300)
    store = LmdbStorage(path, durable=durable)
    put(store, *pairs)
    store.flush()
    before = contents(store)
    store.close()
    names = {"data.mdb", "lock.mdb", "writer.lock", "head"}
    assert {entry.name for entry in path.iterdir()} == names
    for readonly in (True, False):
        store = LmdbStorage(path, readonly=readonly)
        assert contents(store) == before
        assert store.stats().format == FORMAT
        store.close()


def refuse(path: Path, kind: type[StoreError] = StoreError, *, readonly: bool = False) -> str:
    """The error of opening."""
    with pytest.raises(StoreError) as caught:
        LmdbStorage(path, readonly=readonly)
    assert type(caught.value) in (StoreError, StoreDamagedError)
    return str(caught.value)


def test_an_empty_directory_becomes_a_store(path: Path) -> None:
    path.mkdir()
    LmdbStorage(path).close()
    LmdbStorage(path, readonly=True).close()


def test_missing(path: Path) -> None:
    refuse(path, readonly=True)
    assert not path.exists()
    refuse(path / "deeper")
    assert not path.exists()


def test_not_a_store(path: Path) -> None:
    path.write_bytes(b"a file")
    refuse(path)
    refuse(path / "below")


def test_a_directory_of_something_else_is_left_alone(path: Path) -> None:
    path.mkdir()
    (path / "letter.txt").write_text("dear")
    refuse(path)
    assert [entry.name for entry in path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("junk", [b"junk" * 4096, b"\0" * 16384, b"x"])
def test_a_file_that_is_not_lmdb(path: Path, junk: bytes) -> None:
    path.mkdir()
    (path / "data.mdb").write_bytes(junk)
    refuse(path, StoreDamagedError)
    refuse(path, StoreDamagedError, readonly=True)
    assert (path / "data.mdb").read_bytes() == junk


@pytest.mark.parametrize("key", [b"somebody's", META.name])
def test_lmdb_of_another_program(path: Path, key: bytes) -> None:
    with lmdb.open(str(path)) as env, env.begin(write=True) as txn:
        txn.put(key, b"value")
    before = (path / "data.mdb").read_bytes()
    refuse(path)
    refuse(path, readonly=True)
    assert (path / "data.mdb").read_bytes() == before


@pytest.mark.parametrize("number", [FORMAT - 1, INDEXED_FORMAT + 1])
def test_another_format(path: Path, number: int) -> None:
    LmdbStorage(path).close()
    with lmdb.open(str(path), max_dbs=1) as env:
        meta = env.open_db(META.name)
        with env.begin(write=True) as txn:
            txn.put(FORMAT_RECORD, FORMAT_VALUE.pack(number), db=meta)
    for readonly in (False, True):
        assert "another version" in refuse(path, readonly=readonly)


def test_a_creation_that_was_killed_is_finished(path: Path) -> None:
    lmdb.open(str(path)).close()  # the file is made, the tables are not
    refuse(path, readonly=True)
    store = LmdbStorage(path)
    put(store, *make_pairs(3))
    assert store.stats().grains == 3
    store.close()


# --- sharing -------------------------------------------------------------------------------------


def test_two_handles_of_one_process_share_the_file(path: Path, tmp_path: Path) -> None:
    first = LmdbStorage(path)
    (tmp_path / "alias").symlink_to(path)
    second = LmdbStorage(tmp_path / "alias")
    one, other = make_pairs(2)
    put(first, one)
    assert put(second, one, other) == [False, True]
    first.close()
    assert second.stats().grains == 2
    with pytest.raises(StoreError):
        first.stats()
    second.close()
    third = LmdbStorage(path)
    assert third.stats().grains == 2
    third.close()


def test_a_readonly_handle_refuses_beside_a_writing_one(path: Path) -> None:
    writer = LmdbStorage(path)
    reader = LmdbStorage(path, readonly=True)
    assert (writer.readonly, reader.readonly) == (False, True)
    one = make_pairs(1)[0]
    put(writer, one)
    assert reader.stats().grains == 1
    with pytest.raises(StoreError):
        put(reader, one)
    writer.close()
    assert reader.stats().grains == 1
    reader.close()


def test_a_writing_handle_beside_a_readonly_one(path: Path) -> None:
    LmdbStorage(path).close()
    reader = LmdbStorage(path, readonly=True)
    writer = LmdbStorage(path)
    put(writer, *make_pairs(5))
    assert reader.stats().grains == 5
    with pytest.raises(StoreError):
        put(reader, *make_pairs(1))
    reader.close()
    writer.close()


def test_the_strictest_handle_decides_on_durability(path: Path) -> None:
    relaxed = LmdbStorage(path, durable=False)
    put(relaxed, *make_pairs(5))
    env = relaxed._env
    assert not env.durable
    strict = LmdbStorage(path)
    assert strict._env is env
    assert env.durable
    assert put(relaxed, *make_pairs(5)) == [False] * 5
    relaxed.close()
    strict.close()


def test_a_forgotten_handle_is_closed(path: Path) -> None:
    put(LmdbStorage(path), *make_pairs(2))
    gc.collect()
    assert not storage._shared


def test_use_after_fork_is_refused_and_reopening_works(path: Path) -> None:
    code = """
        import os, sys, threading
        from hashlib import sha256
        from omsgrain.errors import StoreError
        from omsgrain.storage.lmdb.storage import LmdbStorage
        store = LmdbStorage(sys.argv[1])
        def digest(n):
            return sha256(n.to_bytes(32, "big")).digest()
        def put(store, n):
            pair = (digest(n), n.to_bytes(32, "big"))
            return store.write(lambda writer: writer.put([pair]))
        put(store, 1)
        go = True
        def write():
            n = 100
            while go:
                n += 1
                put(store, n)
        thread = threading.Thread(target=write)
        thread.start()
        for round in range(3):
            child = os.fork()
            if not child:
                for call in (store.stats, store.sync, lambda: put(store, 9)):
                    try:
                        call()
                        os._exit(1)
                    except StoreError:
                        pass
                store.close()
                again = LmdbStorage(sys.argv[1])
                if put(again, 10 + round) != [True] or again.stats().grains < 2:
                    os._exit(2)
                again.close()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, "the child failed"
        go = False
        thread.join()
        with store.read() as reader:
            print(reader.find([digest(n) for n in range(10, 13)]).count(None))
        store.close()
    """
    assert run(code, path) == ["0"]


# --- growing -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_map")
def test_the_map_grows_by_itself(path: Path) -> None:
    store = LmdbStorage(path)
    size = store.stats().map_bytes
    pairs = [pair(Random(n).randbytes(20_000)) for n in range(200)]
    for start in range(0, 200, 10):
        put(store, *pairs[start : start + 10])
    assert store.stats().map_bytes > size
    assert [blob for _, blob in contents(store)] == [blob for _, blob in pairs]
    store.close()


@pytest.mark.usefixtures("small_map")
def test_one_transaction_larger_than_the_map(path: Path) -> None:
    store = LmdbStorage(path)
    pairs = [pair(Random(n).randbytes(20_000)) for n in range(200)]
    assert put(store, *pairs) == [True] * 200
    store.close()
    store = LmdbStorage(path, readonly=True)
    assert [blob for _, blob in contents(store)] == [blob for _, blob in pairs]
    store.close()


@pytest.mark.usefixtures("small_map")
def test_the_map_grows_under_readers(path: Path) -> None:
    store = LmdbStorage(path)
    pairs = [pair(Random(n).randbytes(20_000)) for n in range(150)]
    done = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        try:
            while not done.is_set():
                for _, blob in contents(store):
                    if sha256(blob).digest() not in digests:
                        wrong.append("damaged")
        except Exception as error:
            wrong.append(error)

    digests = {digest for digest, _ in pairs}
    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for one in pairs:
        put(store, one)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
    store.close()


@pytest.mark.usefixtures("small_map")
@pytest.mark.parametrize("readonly", [True, False])
def test_another_process_lets_the_map_grow(path: Path, readonly: bool) -> None:
    LmdbStorage(path).close()
    store = LmdbStorage(path, readonly=readonly)
    assert contents(store) == []
    code = """
        import sys
        from random import Random
        from omsgrain.storage.lmdb.storage import LmdbStorage
        store = LmdbStorage(sys.argv[1])
        for n in range(100):
            blob = Random(n).randbytes(20_000)
            store.write(lambda writer: writer.put([(blob[:32], blob)]))
        store.close()
    """
    run(code, path)
    assert [blob for _, blob in contents(store)] == [
        Random(n).randbytes(20_000) for n in range(100)
    ]
    if not readonly:
        assert put(store, *make_pairs(1)) == [True]
    store.close()


def test_a_map_that_cannot_grow(path: Path) -> None:
    code = """
        import resource, sys
        from pathlib import Path
        from random import Random
        from omsgrain.errors import StoreError
        from omsgrain.storage.lmdb.storage import LmdbStorage
        store = LmdbStorage(sys.argv[1])
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20),) * 2)
        blob = Random(1).randbytes(1 << 20)
        stored = 0
        try:
            for n in range(100):
                store.write(lambda writer: writer.put([(n.to_bytes(32, "big"), blob)]))
                stored += 1
        except StoreError as error:
            print(error.code)
        print(stored == store.stats().grains, stored > 10)
        store.write(lambda writer: writer.put([(b"\\1" * 32, b"small")]))
        store.close()
    """
    assert run(code, path) == ["ERR_STORE", "True True"]


# --- trouble -------------------------------------------------------------------------------------


def test_a_full_disk(path: Path) -> None:
    # A limit on the file's size is the full disk that a test can have without being root.
    code = """
        import resource, signal, sys
        from random import Random
        from omsgrain.errors import StoreError
        from omsgrain.storage.lmdb.storage import LmdbStorage
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        sys.dont_write_bytecode = True  # half of a compiled module would stay for all others
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        store = LmdbStorage(sys.argv[1])
        blobs = [Random(n).randbytes(1000) for n in range(3000)]
        def put(some):
            return store.write(lambda writer: writer.put([(b[:32], b) for b in some]))
        stored = 0
        for start in range(0, 3000, 100):
            try:
                put(blobs[start : start + 100])
                stored += 100
            except StoreError as error:
                print(error.code)
                break
        try:
            put(blobs)
        except StoreError as error:
            print(error.code)
        print(stored == store.stats().grains, stored >= 100)
        with store.read() as reader:
            print(all(reader.get(b[:32]) == b for b in blobs[:stored]))
        store.close()
        store = LmdbStorage(sys.argv[1])
        print(stored == store.stats().grains)
        store.close()
    """
    assert run(code, path) == ["ERR_DISK_FULL", "ERR_DISK_FULL", "True True", "True", "True"]
    store = LmdbStorage(path)  # with room again it takes what it refused
    assert put(store, *make_pairs(1_000)) == [True] * 1_000
    store.close()


def test_a_vanished_directory(path: Path) -> None:
    store = LmdbStorage(path)
    one, other = make_pairs(2)
    put(store, one)
    shutil.rmtree(path)
    with pytest.raises(StoreError):
        put(store, other)
    store.close()
    fresh = LmdbStorage(path)
    assert put(fresh, one) == [True]
    fresh.close()


def test_a_transaction_that_does_not_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omsgrain.storage.lmdb.data_file.MAP_PATIENCE", 0.01)
    monkeypatch.setattr(environment, "FIRST_MAP", 256 << 10)
    store = LmdbStorage(path)
    with store.read(), pytest.raises(StoreError):
        put(store, *(pair(Random(n).randbytes(20_000)) for n in range(100)))
    assert put(store, *make_pairs(5)) == [True] * 5
    store.close()
