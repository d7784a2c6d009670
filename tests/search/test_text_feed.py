# SPDX-License-Identifier: Apache-2.0
"""The text index is fed in the background, and a search need not wait for it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

import omsgrain as og
from omsgrain.errors import SchemaError
from omsgrain.search import feed
from omsgrain.storage.base import TEXT_FILE
from omsgrain.storage.lmdb.memtable import IdleThread
from omsgrain.store.context import context_of
from omsgrain.store.store import GrainStore

LONG = 20.0  # seconds until a test that is stuck gives up
START = 1_768_471_200_000


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GrainStore]:
    where = tmp_path / "memory.omsg" if request.param == "disk" else ":memory:"
    with og.open(where, durability="relaxed") as store:
        yield store


def say(store: GrainStore, first: int, count: int = 1, text: str = "lamp") -> list[str]:
    grains = [
        {"type": "event", "content": f"{text} {n}", "created_at": START + n}
        for n in range(first, first + count)
    ]
    return [address for address in store.put_many(grains).addresses if address]


class Moments:
    """Stands for the clock of a store's feed: each pause ends when the test says so."""

    def __init__(self, store: GrainStore) -> None:
        found = context_of(store)._text_feed
        assert found is not None
        self.feed: IdleThread = found
        self.pauses, self.fed = threading.Semaphore(0), threading.Semaphore(0)
        self.endings: SimpleQueue[bool] = SimpleQueue()
        self._work = found._work
        found._work, found.wait = self.work, self.wait

    def wait(self, seconds: float) -> bool:
        self.pauses.release()
        return self.endings.get(timeout=LONG)

    def work(self, still: Callable[[], bool]) -> None:
        try:
            self._work(still)
        finally:
            self.fed.release()

    def pass_one(self) -> None:
        """Let a pause begin and end, and the feed do its work."""
        assert self.pauses.acquire(timeout=LONG)
        self.endings.put(False)
        assert self.fed.acquire(timeout=LONG)

    def end(self) -> None:
        self.endings.put(True)
        if self.feed._thread is not None:
            self.feed.end()
            self.feed._thread.join(LONG)
            assert not self.feed._thread.is_alive()


def behind(store: GrainStore) -> int:
    return store.search("lamp", wait=False).behind


# --- a search that does not wait -----------------------------------------------------------------


def test_it_answers_from_what_is_there(store: GrainStore) -> None:
    say(store, 0, 20)
    first = store.search("lamp", limit=100, wait=False)
    assert (len(first), first.behind) == (0, 20)
    assert len(store.search("lamp", limit=100)) == 20
    say(store, 20, 5)
    page = store.search("lamp", limit=100, wait=False)
    assert (len(page), page.behind) == (20, 5)
    page = store.search("lamp", limit=100)
    assert (len(page), page.behind) == (25, 0)
    assert store.search("lamp", limit=100, wait=False) == page


def test_it_finds_no_removed_grain(store: GrainStore) -> None:
    addresses = say(store, 0, 20)
    assert len(store.search("lamp", limit=5)) == 5
    for address in addresses[10:]:
        store.delete(address)
    assert len(store.search("lamp", limit=10, wait=False)) == 10
    assert len(store.search("lamp", limit=10, wait=False, type="event")) == 10


def test_an_index_of_another_store(tmp_path: Path) -> None:
    """Its numbers mean other grains here, so nothing of it is an answer."""
    for name, count in (("one", 5), ("two", 9)):
        with og.open(tmp_path / name) as store:
            say(store, len(name) * count, count)
            assert len(store.search("lamp")) == count
    (tmp_path / "one" / TEXT_FILE).replace(tmp_path / "two" / TEXT_FILE)
    with og.open(tmp_path / "two") as store:
        page = store.search("lamp", wait=False)
        assert (len(page), page.behind) == (0, 9)
        assert len(store.search("lamp")) == 9


def test_without_a_right_to_write(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        say(store, 0, 5)
        assert len(store.search("lamp")) == 5
    with og.open(path) as store:
        say(store, 5, 3)
    with og.open(path, readonly=True) as store:
        page = store.search("lamp", wait=False)
        assert (len(page), page.behind) == (5, 3)
        assert len(store.search("lamp")) == 8


def test_wait_is_a_bool(store: GrainStore) -> None:
    with pytest.raises(SchemaError):
        store.search("lamp", wait=1)  # type: ignore[arg-type]


# --- in the background ---------------------------------------------------------------------------


def test_a_quiet_moment(store: GrainStore) -> None:
    say(store, 0, 3)
    assert len(store.search("lamp")) == 3
    moments = Moments(store)
    context_of(store).feed_texts_soon()
    moments.pass_one()
    say(store, 3, 4)
    assert behind(store) == 4
    moments.pass_one()
    assert behind(store) == 0
    moments.end()


def test_one_that_did_not_wait_is_enough(store: GrainStore) -> None:
    say(store, 0, 3)
    moments = Moments(store)
    assert behind(store) == 3
    moments.pass_one()
    assert behind(store) == 0
    moments.end()


def test_a_write_stops_it(store: GrainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "WATCHED_PAGE", 10)
    say(store, 0, 100)
    moments = Moments(store)
    inner, steps = moments._work, []

    def work(still: Callable[[], bool]) -> None:
        def watched() -> bool:
            steps.append(1)
            if len(steps) == 3:
                say(store, 100)
            return still()

        inner(watched)

    moments._work = work
    assert behind(store) == 100
    moments.pass_one()
    assert behind(store) == 71  # three pages, and then the new grain came first
    moments.pass_one()
    assert behind(store) == 0
    moments.end()


def test_without_an_index_nothing_is_done(tmp_path: Path) -> None:
    with og.open(tmp_path / "memory.omsg") as store:
        for n in range(130):
            say(store, n)
        found = context_of(store)._text_feed
        assert found is not None and found._thread is None
    assert not (tmp_path / "memory.omsg" / TEXT_FILE).exists()


def test_an_index_that_another_process_made(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path, durability="relaxed") as writer:
        say(writer, 0)
        with og.open(path, durability="relaxed") as other:
            assert len(other.search("lamp")) == 1
        moments = Moments(writer)
        for n in range(1, 65):  # it looks for an index now and then
            say(writer, n)
        moments.pass_one()
        with og.open(path, readonly=True) as reader:
            assert behind(reader) == 0
        moments.end()


def test_at_ingest(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path, text_index="ingest") as store:
        moments = Moments(store)
        say(store, 0, 10)
        moments.pass_one()
        assert behind(store) == 0
        moments.end()
        say(store, 10, 10)
    with og.open(path, readonly=True) as store:  # closing waited for the rest
        page = store.search("lamp", limit=100, wait=False)
        assert (len(page), page.behind) == (20, 0)


def test_closing_does_not_wait_for_an_index_that_was_not_searched(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        say(store, 0, 2)
        assert len(store.search("lamp")) == 2
    with og.open(path) as store:
        say(store, 2, 3)
        assert behind(store) == 3
    with og.open(path, readonly=True) as store:
        assert behind(store) == 3


def test_a_store_that_was_dropped(tmp_path: Path) -> None:
    store = og.open(tmp_path / "memory.omsg", text_index="ingest")
    say(store, 0)
    found = context_of(store)._text_feed
    assert found is not None and found._thread is not None
    thread = found._thread
    del store, found
    gc.collect()
    thread.join(LONG)
    assert not thread.is_alive()


def test_only_two_kinds(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        og.open(tmp_path / "memory.omsg", text_index="never")  # type: ignore[arg-type]
    assert caught.value.field == "/text_index"
    assert not (tmp_path / "memory.omsg").exists()


# --- at once, with progress ----------------------------------------------------------------------


def test_progress(store: GrainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "WATCHED_PAGE", 10)
    say(store, 0, 25)
    steps: list[int] = []
    store.maintenance.index_text(steps.append)
    assert steps == [10, 10, 5]
    assert behind(store) == 0
    store.maintenance.index_text()
