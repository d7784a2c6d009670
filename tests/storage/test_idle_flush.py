# SPDX-License-Identifier: Apache-2.0
"""The index is written in a idle moment, by a thread that costs nothing until then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from omsgrain.errors import StoreError
from omsgrain.storage.lmdb import memtable, storage
from omsgrain.storage.lmdb.memtable import LEAST, IdleThread
from omsgrain.storage.lmdb.storage import LmdbStorage
from support.child_process import run
from support.store_contract import make_pairs, put

LONG = 20.0  # seconds until a test that is stuck gives up


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "memory.omsg"
    assert not storage._shared, "a store was left open"


class Moments:
    """Stands for the clock: each pause lasts until the test says how it ended."""

    def __init__(self, watched: IdleThread) -> None:
        self.pauses = threading.Semaphore(0)
        self.flushes = threading.Semaphore(0)
        self.endings: SimpleQueue[bool] = SimpleQueue()
        self._flush = watched._work
        watched._work = self.flush
        watched.wait = self.wait

    def wait(self, seconds: float) -> bool:
        self.pauses.release()
        return self.endings.get(timeout=LONG)

    def flush(self, still: Callable[[], bool]) -> None:
        try:
            self._flush(still)
        finally:
            self.flushes.release()

    def begun(self) -> None:
        """The thread waits for the end of a pause."""
        assert self.pauses.acquire(timeout=LONG)

    def over(self) -> None:
        """The pause is over, and the store is still open."""
        self.endings.put(False)

    def flushed(self) -> None:
        assert self.flushes.acquire(timeout=LONG)

    def close(self, store: LmdbStorage) -> None:
        """Close the store while the thread waits, or rests."""
        thread = quiet_of(store)._thread
        store.close()
        self.endings.put(True)
        if thread is not None:
            thread.join(LONG)
            assert not thread.is_alive()


def quiet_of(store: LmdbStorage) -> IdleThread:
    found = store._env._idle_flush
    assert found is not None
    return found


@pytest.mark.parametrize("durable", [True, False])
def test_a_quiet_moment(path: Path, durable: bool) -> None:
    store = LmdbStorage(path, durable=durable)
    moments = Moments(quiet_of(store))
    put(store, *make_pairs(LEAST))
    assert store.stats().watermark == 0
    moments.begun()
    moments.over()
    moments.flushed()
    assert store.stats().watermark == LEAST
    put(store, *make_pairs(LEAST, seed=2))
    moments.begun()
    moments.over()
    moments.flushed()
    assert store.stats().watermark == 2 * LEAST
    moments.close(store)


def test_while_others_write_it_is_not_quiet(path: Path) -> None:
    store = LmdbStorage(path, durable=False)
    moments = Moments(quiet_of(store))
    put(store, *make_pairs(LEAST))
    for seed in range(2, 5):
        moments.begun()
        put(store, *make_pairs(1, seed=seed))  # within the pause
        moments.over()
    moments.begun()
    assert store.stats().watermark == 0
    moments.over()
    moments.flushed()
    assert store.stats().watermark == LEAST + 3
    moments.close(store)


def test_a_few_grains_are_not_worth_it(path: Path) -> None:
    store = LmdbStorage(path, durable=False)
    moments = Moments(quiet_of(store))
    put(store, *make_pairs(LEAST - 1))
    moments.begun()
    moments.over()
    moments.flushed()
    assert store.stats().watermark == 0
    put(store, *make_pairs(1, seed=2))
    moments.begun()
    moments.over()
    moments.flushed()
    assert store.stats().watermark == LEAST
    moments.close(store)


def test_an_error_is_left_for_the_next_time(path: Path) -> None:
    store = LmdbStorage(path, durable=False)
    moments = Moments(quiet_of(store))
    inner = moments._flush

    def refuse(still: Callable[[], bool]) -> None:
        raise StoreError("no room")

    moments._flush = refuse
    put(store, *make_pairs(LEAST))
    moments.begun()
    moments.over()
    moments.flushed()
    moments._flush = inner
    put(store, *make_pairs(1, seed=2))
    moments.begun()
    moments.over()
    moments.flushed()
    assert store.stats().watermark == LEAST + 1
    moments.close(store)


def test_no_thread_before_the_first_write(path: Path) -> None:
    store = LmdbStorage(path)
    reader = LmdbStorage(path, readonly=True)
    with reader.read() as snapshot:
        assert snapshot.count() == 0
    store.flush()
    assert quiet_of(store)._thread is None
    put(store, *make_pairs(1))
    second = LmdbStorage(path)
    put(second, *make_pairs(1))
    thread = quiet_of(second)._thread
    assert thread is not None and thread.daemon
    assert [t.name for t in threading.enumerate()].count(thread.name) == 1
    store.close()
    reader.close()
    assert thread.is_alive()
    second.close()
    thread.join(LONG)
    assert not thread.is_alive()


def test_by_the_clock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memtable, "PAUSE", 0.001)
    store = LmdbStorage(path, durable=False)
    flushed = threading.Event()
    watched = quiet_of(store)
    inner = watched._work

    def flush(still: Callable[[], bool]) -> None:
        inner(still)
        if store.stats().watermark:
            flushed.set()

    watched._work = flush
    put(store, *make_pairs(LEAST))
    assert flushed.wait(LONG)
    store.close()


def test_a_fork_beside_it(path: Path) -> None:
    """The child has no such thread, and gets its own when it writes."""
    code = """
        import os, sys, threading
        from hashlib import sha256
        from omsgrain.storage.lmdb import memtable as quiet
        from omsgrain.storage.lmdb.storage import LmdbStorage
        quiet.PAUSE = 0.0005
        def put(store, start):
            blobs = [b"%d" % n for n in range(start, start + 300)]
            store.write(lambda writer: writer.put([(sha256(b).digest(), b) for b in blobs]))
        def await_flush(store, least):
            while store.stats().watermark < least:
                pass
        store = LmdbStorage(sys.argv[1], durable=False)
        for round in range(5):
            put(store, 1_000 * round)
            child = os.fork()
            if not child:
                assert threading.active_count() == 1
                again = LmdbStorage(sys.argv[1], durable=False)
                put(again, 1_000 * round + 500)
                await_flush(again, 600 * round + 600)
                again.close()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            await_flush(store, 600 * round + 600)
        store.close()
        print("done")
    """
    assert run(code, path) == ["done"]
