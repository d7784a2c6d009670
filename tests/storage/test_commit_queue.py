# SPDX-License-Identifier: Apache-2.0
"""Threads of one process share a commit, and one that fails takes nothing along."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain.storage.lmdb import environment
from omsgrain.storage.lmdb.commit_queue import CommitQueue, PendingWrite
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.store.context import context_of
from support.child_process import run
from support.store_contract import Pair, contents, make_pairs, pair, put

LONG = 20.0  # seconds until a test that is stuck gives up


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.omsg"


@pytest.fixture
def store(path: Path) -> Iterator[LmdbStorage]:
    store = LmdbStorage(path, durable=False)
    yield store
    store.close()


class Together:
    """Works of many threads, all waiting while this one holds the store: one commit for all."""

    def __init__(self, store: LmdbStorage) -> None:
        self.store = store
        self.threads: list[threading.Thread] = []
        self.said: dict[int, Any] = {}

    def add(self, work: Callable[..., Any]) -> None:
        number = len(self.threads)

        def do() -> None:
            try:
                self.said[number] = self.store.write(work)
            except BaseException as error:
                self.said[number] = error

        self.threads.append(threading.Thread(target=do))

    def go(self) -> list[Any]:
        """Let them all queue up behind a first work, then let that one end."""
        queue = self.store._env._queue.queue
        inside, end = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            inside.set()
            assert end.wait(LONG)

        first = threading.Thread(target=self.store.write, args=(hold,))
        first.start()
        assert inside.wait(LONG)
        for number, thread in enumerate(self.threads, start=1):
            thread.start()
            while len(queue._waiting) < number:  # in this order
                pass
        end.set()
        for thread in [first, *self.threads]:
            thread.join(LONG)
            assert not thread.is_alive()
        return [self.said[number] for number in range(len(self.threads))]


@pytest.fixture
def together(store: LmdbStorage) -> Together:
    return Together(store)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many works each commit had, and each try of one."""
    sizes: list[int] = []
    inner = environment.Environment._commit

    def commit(self: environment.Environment, members: list[Any], apart: bool) -> None:
        sizes.append(len(members))
        inner(self, members, apart)

    monkeypatch.setattr(environment.Environment, "_commit", commit)
    return sizes


def putting(*pairs: Pair) -> Callable[..., Any]:
    return lambda writer: writer.put(pairs)


def failing(error: type[BaseException], *pairs: Pair) -> Callable[..., Any]:
    def work(writer: Any) -> None:
        writer.put(pairs)
        raise error

    return work


# --- one commit for many -------------------------------------------------------------------------


def test_waiting_works_share_a_commit(
    store: LmdbStorage, together: Together, commits: list[int]
) -> None:
    pairs = make_pairs(40)
    for one in pairs:
        together.add(putting(one))
    together.add(putting(pairs[0], pairs[39]))  # it sees what the works before it put
    assert together.go() == [[True]] * 40 + [[False, False]]
    assert commits == [1, 41]
    assert [blob for _, blob in contents(store)] == [blob for _, blob in pairs]


def test_one_that_fails_takes_nothing_along(
    store: LmdbStorage, together: Together, commits: list[int]
) -> None:
    good, bad = make_pairs(10), make_pairs(10, seed=2)
    for n in range(10):
        together.add(putting(good[n]))
        together.add(failing(ZeroDivisionError, bad[n], good[9]))
    together.add(putting(bad[0]))  # and what failed was not put
    said = together.go()
    assert said[::2] == [[True]] * 11
    assert {type(error) for error in said[1::2]} == {ZeroDivisionError}
    assert commits == [1, 21, 21], "taken back, and begun again with each apart"
    with store.read() as reader:
        assert [reader.get(d) for d, _ in good] == [blob for _, blob in good]
        assert reader.find([d for d, _ in bad]) == [11, *[None] * 9]
        assert reader.count() == reader.last_seq() == 11
    assert put(store, *bad) == [False, *[True] * 9]
    assert store.check().grains == 20


@pytest.mark.parametrize("place", [0, 2])
def test_an_interrupt_leaves_the_others_served(
    store: LmdbStorage, together: Together, place: int
) -> None:
    """It strikes the thread that commits for all, in its own work or in that of another."""
    pairs = make_pairs(6)
    struck = threading.Event()

    def strike(writer: Any) -> Any:
        if not struck.is_set():
            struck.set()
            raise KeyboardInterrupt
        return writer.put([pairs[place]])

    for n, one in enumerate(pairs):
        together.add(strike if n == place else putting(one))
    said = together.go()
    assert [type(one) for one in said].count(KeyboardInterrupt) == 1
    assert said.count([True]) == 5
    lost = next(n for n, one in enumerate(said) if isinstance(one, KeyboardInterrupt))
    with store.read() as reader:
        found = reader.find([digest for digest, _ in pairs])
    assert [n for n, seq in enumerate(found) if seq is None] == [lost]
    assert put(store, *pairs).count(True) == 1


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where a shell in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_a_thread_that_waits(store: LmdbStorage) -> None:
    """Its work is not done, and those behind it are: the lead passes it by."""
    queue = store._env._queue.queue
    pairs = make_pairs(2)
    inside, end, served, struck = (threading.Event() for _ in range(4))

    def hold(_: object) -> None:
        inside.set()
        assert end.wait(LONG)

    def interrupt() -> None:
        while len(queue._waiting) < 1:
            pass
        behind.start()
        while len(queue._waiting) < 2:
            pass
        while not struck.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            struck.wait(LONG / 4)  # Python drops what a callback of its collector raises

    def write_behind() -> None:
        put(store, pairs[1])
        served.set()

    first = threading.Thread(target=store.write, args=(hold,))
    behind = threading.Thread(target=write_behind)
    first.start()
    assert inside.wait(LONG)
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        store.write(putting(pairs[0]))
    struck.set()
    end.set()
    assert served.wait(LONG)
    first.join(LONG)
    behind.join(LONG)
    assert put(store, *pairs) == [True, False]
    assert not queue._waiting


def test_an_interrupt_of_the_thread_that_leads_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes between the end of a commit and the thread's own: the lead is not lost."""
    queue, works = CommitQueue(_settle), list[int]()
    take, struck = type(queue.queue).take, threading.Event()

    def strike(self: Any) -> list[PendingWrite]:
        if not struck.is_set():
            struck.set()
            raise KeyboardInterrupt
        return take(self)

    monkeypatch.setattr(type(queue.queue), "take", strike)
    with pytest.raises(KeyboardInterrupt):
        queue.write(works.append)
    queue.write(works.append)
    with queue.exclusive():
        assert works == [1]
    queue.write(works.append)
    assert works == [1, 1]


def _settle(members: list[PendingWrite]) -> None:
    for member in members:
        member.settle(member.work(len(members)), None)


def test_a_leader_waits_for_the_threads_that_wrote_before() -> None:
    queue, sizes = CommitQueue(_settle), list[int]()
    queue._threads, queue._pause = 3, LONG  # as after a long commit with three threads
    threads = [threading.Thread(target=queue.write, args=(sizes.append,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert sizes == [3, 3, 3]


def test_the_map_grows_inside_a_shared_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch, commits: list[int]
) -> None:
    monkeypatch.setattr(environment, "FIRST_MAP", 256 << 10)
    store = LmdbStorage(path, durable=False)
    together = Together(store)
    pairs = [pair(Random(n).randbytes(50_000)) for n in range(30)]
    for n, one in enumerate(pairs):
        together.add(failing(ZeroDivisionError, one) if n % 5 == 4 else putting(one))
    said = together.go()
    good = [one for n, one in enumerate(pairs) if n % 5 != 4]
    assert [one for n, one in enumerate(said) if n % 5 != 4] == [[True]] * 24
    assert {type(one) for one in said[4::5]} == {ZeroDivisionError}
    assert commits.count(30) > 1  # tried again
    assert [blob for _, blob in contents(store)] == [blob for _, blob in good]
    store.close()


def test_a_work_that_failed_leaves_no_rows_behind(store: LmdbStorage) -> None:
    """A work may query what it put; what it then takes back must not be found later."""
    inner = og.GrainStore(store)
    kept, gone = (og.encode(grain) for grain in (belief(1), belief(2)))
    inner.put(kept)
    key = og._core.term("relation", "has")

    def work(writer: Any) -> None:
        writer.put([(bytes.fromhex(og.address(gone)), gone)])
        assert writer.term_count(key) == 2
        assert len(list(writer.places(key, None, True))) == 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(work)
    page = inner.query(relation="has", count=True)
    assert (len(page.results), page.total) == (1, 1)
    other = inner.put(belief(3))  # it has the sequence number of the one that is gone
    page = inner.query(relation="has", count=True)
    assert (page.total, page.results[0].address) == (2, other)
    context_of(inner).inner.flush()
    assert inner.maintenance.check().ok
    assert inner.query(relation="has", count=True).total == 2


def test_a_work_sees_the_terms_of_the_works_before_it(
    store: LmdbStorage, together: Together
) -> None:
    key = og._core.term("relation", "has")
    blobs = [og.encode(belief(n)) for n in range(10)]

    def work(n: int) -> Callable[..., Any]:
        def count(writer: Any) -> int:
            writer.put([(bytes.fromhex(og.address(blobs[n])), blobs[n])])
            found: int = writer.term_count(key)
            if n % 3 == 2:
                raise ZeroDivisionError
            return found

        return count

    for n in range(10):
        together.add(work(n))
    said = [one for one in together.go() if isinstance(one, int)]
    assert said == list(range(1, 8))
    store.flush()
    assert store.check().ok
    assert og.GrainStore(store).query(relation="has", count=True).total == 7


def belief(number: int) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": f"room {number}",
        "relation": "has",
        "object": "light",
        "confidence": 0.5,
        "created_at": 1_700_000_000_000 + number,
    }


def test_many_threads_put(path: Path) -> None:
    with og.open(path) as store:
        addresses: dict[int, list[str]] = {}

        def write(share: int) -> None:
            addresses[share] = []
            for n in range(20):
                addresses[share].append(address := store.put(belief(100 * share + n)))
                assert store.get(address)["subject"] == f"room {100 * share + n}"
                found = store.query(subject=f"room {100 * share + n}").results
                assert [hit.address for hit in found] == [address]

        threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(share) for share in addresses.values()] == [20] * 8
        # Durable: in the file, and not only in the memory of this process.
        code = """
            import sys, omsgrain as og
            with og.open(sys.argv[1], readonly=True) as store:
                print(len(store), store.query(relation="has", count=True).total)
        """
        assert run(code, path) == ["160 160"]
        assert store.verify().verified == 160
