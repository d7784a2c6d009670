# SPDX-License-Identifier: Apache-2.0
"""Queries: what they read, what they count, and the walk through all matches."""

from __future__ import annotations

import dataclasses
import gc
import pickle
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.query.filters import Filters
from omsgrain.query.query import Page, iterate
from omsgrain.storage.base import Reader, Which, entries
from omsgrain.storage.tables import Table
from omsgrain.store.context import context_of
from support.query_stores import (
    KINDS,
    OLD_STATE,
    TIME,
    ask,
    event,
    numbers,
    opened,
    put,
    remove,
    set_state,
    verified,
)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path) as store:
        yield store


# --- what it costs -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def big(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[og.GrainStore]:
    """Grains in the index and beyond it; of the first ones every third is past."""
    count = 1_000_000 if request.config.getoption("--long") else 2_000
    path = tmp_path_factory.mktemp("query") / "memory.omsg"
    with og.open(path, durability="relaxed") as store:
        for start in range(0, count - 500, 10_000):
            store.put_many([robot(n) for n in range(start, min(start + 10_000, count - 500))])
        context_of(store).inner.flush()
        store.put_many([robot(n) for n in range(count - 500, count)])
        for n in (*range(0, 1_500, 3), *range(count - 500, count, 3)):
            state = verified("retracted") if n % 20 == 4 else OLD_STATE
            set_state(store, og.address(og.encode(robot(n))), state)
        yield store


def robot(n: int) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": f"robot {n % 50}",
        "relation": "sees" if n % 2 else "hears",
        "object": {"shelf": n % 7},
        "confidence": n % 11 / 10,
        "created_at": TIME + n,
        "namespace": f"lab:{n % 9}",
        "user_id": f"user {n % 20}",
        "session_id": f"session {n % 25}",
        "run_id": f"run {n % 19}",
        "structural_tags": [f"tag {n % 10}", "all"],
        "x_src": b'{"f":"lab","k":"note","id":"note %d"}' % (n % 23),
    }


class Counting:
    """A snapshot that counts what is read of it."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.blobs_read = self.states = self.places_read = self.looked_up = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)

    @property
    def raw(self) -> Counting:
        return self

    def grain(self, seq: int) -> og.Grain | None:
        self.blobs_read += 1
        return self.reader.grain(seq)

    def grains_at(self, places: Sequence[bytes]) -> list[tuple[bytes, og.Grain]]:
        return Reader.grains_at(cast("Reader", self), places)

    def row(self, table: Table, key: bytes) -> bytes | None:
        self.states += 1
        return self.reader.row(table, key)

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        self.looked_up += 1
        return self.reader.has_term(key, place, which)

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        for place in self.reader.places(key, after, newest, which):
            self.places_read += 1
            yield place


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        ({"subject": "robot 3", "relation": "sees"}, "subject relation"),
        ({"subject": "robot 3"}, "subject"),
        ({"relation": "sees"}, "relation"),
        ({"user_id": "user 4"}, "user_id"),
        ({"session_id": "session 5"}, "session_id"),
        ({"run_id": "run 6"}, "run_id"),
        ({"tag": "tag 7"}, "tag"),
        ({"origin": "note 8"}, "origin"),
        ({"namespace": "lab:8"}, "namespace"),
        ({"namespace": "lab:*"}, "namespace"),
        ({"created_after": TIME + 300, "created_before": TIME + 340}, "all"),
        ({"created_before": TIME + 40, "order": "oldest"}, "all"),
        ({"subject": "robot 3", "current": False}, "subject"),
        ({"subject": "robot 3", "current": None, "order": "oldest"}, "subject"),
        ({"user_id": "user 4", "verification_status": "retracted"}, "user_id"),
    ],
)
@pytest.mark.parametrize("second", [False, True])
def test_only_named_columns_are_read(
    big: og.GrainStore, asked: dict[str, Any], index: str, second: bool
) -> None:
    cursor = ask(big, 5, **asked).next_cursor if second else None
    with context_of(big).storage.read() as reader:
        counting = Counting(reader)
        page = ask(counting, 5, **asked, cursor=cursor, explain=True)
    assert page.plan is not None
    assert len(page.results) == 5
    # One more, to know whether there is another page; it is read, for it may be bookkeeping.
    assert (page.plan.index, page.plan.blobs) == (index, counting.blobs_read)
    assert page.plan.rows <= 6
    assert counting.blobs_read == (5 if "namespace" in asked else 6)
    lists = 9 if asked.get("namespace") == "lab:*" else 1  # of each the first is looked at
    assert counting.places_read <= page.plan.rows + lists - 1
    assert counting.states == (6 if "verification_status" in asked else 0)
    assert counting.looked_up == 0


def test_the_shortest_list_is_walked(big: og.GrainStore) -> None:
    with context_of(big).storage.read() as reader:
        counting = Counting(reader)
        asked = {"relation": "sees", "tag": "tag 4", "subject": "robot 4", "user_id": "user 4"}
        page = ask(counting, 5, **asked, explain=True)
    assert page.plan is not None
    assert page.plan.index == "subject relation"
    assert page.plan.looked_up == ("user_id", "tag")
    assert (page.plan.tested, page.plan.blobs) == ((), len(page.results))
    assert counting.looked_up <= 2 * page.plan.rows


def test_what_is_tested_is_read(big: og.GrainStore) -> None:
    page = ask(big, 5, user_id="user 4", min_confidence=0.9, explain=True)
    assert page.plan is not None
    assert (page.plan.index, page.plan.tested) == ("user_id", ("min_confidence",))
    assert len(page.results) == 5 < page.plan.blobs == page.plan.rows <= page.plan.estimate
    assert all(hit.grain["confidence"] >= 0.9 for hit in page.results)


def test_no_snapshot_stays_open(store: og.GrainStore) -> None:
    """A walk that is left half-way goes at once: it holds a transaction of the file."""
    store.put_many([event(str(n), n, namespace=f"a:{n % 3}", subject="s") for n in range(30)])
    gc.disable()
    try:
        with context_of(store).storage.read() as reader:
            before = sys.getrefcount(reader)
            for asked in ({}, {"namespace": "a:*"}, {"subject": "s", "min_confidence": 0.0}):
                for count in (False, True):
                    ask(reader, 5, **asked, count=count, explain=True)
            assert sys.getrefcount(reader) == before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "asked", [{}, {"subject": "s"}, {"namespace": "a:*"}, {"subject": "s", "type": "event"}]
)
def test_counts_are_exact(store: og.GrainStore, asked: dict[str, Any]) -> None:
    """Also where the index cannot count: grains of the tail that are past or were removed."""
    addresses = [
        put(store, event(str(n), n, subject="s", namespace=f"a:{n % 3}")) for n in range(20)
    ]
    left: dict[str, bool] = dict.fromkeys(addresses, True)

    def check() -> None:
        for current in (True, False, None):
            expected = sum(current is None or now is current for now in left.values())
            page = ask(store, 3, **asked, current=current, count=True)
            assert page.total == expected
            if page.next_cursor is not None:
                page = ask(store, 3, **asked, current=current, count=True, cursor=page.next_cursor)
                assert page.total == expected

    check()
    for number, address in enumerate(addresses[::4]):
        if number % 2:
            [seq] = numbers(store, address)
            remove(store, seq)
            del left[address]
        else:
            set_state(store, address, OLD_STATE)
            left[address] = False
        check()


def test_removed_grains_are_skipped(big: og.GrainStore) -> None:
    class Gone(Counting):
        def grain(self, seq: int) -> og.Grain | None:
            return super().grain(seq) if seq % 3 else None

    with context_of(big).storage.read() as reader:
        page = ask(Gone(reader), 5, user_id="user 1", current=None)
        assert len(page.results) == 5
        assert 0 not in {seq % 3 for seq in numbers(big, *(h.address for h in page.results))}


def test_another_grain_is_damage(big: og.GrainStore) -> None:
    class Mixed(Counting):
        def grain(self, seq: int) -> og.Grain | None:
            return super().grain(seq + 1)

    with context_of(big).storage.read() as reader, pytest.raises(err.IntegrityError):
        ask(Mixed(reader), 5, user_id="user 1")


@pytest.mark.parametrize("current", [True, False, None])
def test_the_index_counts_where_it_can(tmp_path: Path, current: bool | None) -> None:
    with opened("flushed", tmp_path) as store:
        store.put_many([event(str(n), n, user_id="u") for n in range(60)])
        for address in [hit.address for hit in ask(store, 20).results]:
            set_state(store, address, OLD_STATE)
        with context_of(store).storage.read() as reader:
            counting = Counting(reader)
            page = ask(counting, 5, user_id="u", current=current, count=True)
    assert page.total == {True: 40, False: 20, None: 60}[current]
    assert counting.places_read == 6


# --- all matches, one after the other ------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        {},
        {"subject": "robot 3"},
        {"relation": "sees"},
        {"object": {"shelf": 3}},
        {"subject": "robot 3", "relation": "hears"},
        {"subject": "robot 3", "object": {"shelf": 3}},
        {"relation": "hears", "object": {"shelf": 3}},
        {"subject": "robot 3", "relation": "hears", "object": {"shelf": 3}},
        {"subject": "nobody"},
    ],
)
def test_iter_query(big: og.GrainStore, pattern: dict[str, Any]) -> None:
    found = [
        grain.address for grain in iterate(context_of(big).storage.read, cast("Filters", pattern))
    ]
    grains = ((entry.seq, og.Grain(entry.blob)) for entry in entries(context_of(big).storage))
    with context_of(big).storage.read() as reader:
        expected = [
            (-grain["created_at"], grain.address)
            for seq, grain in grains
            if all(grain.get(n) == v for n, v in pattern.items()) and not reader.is_past(seq)
        ]
    assert found == [address for _, address in sorted(expected)]


def test_iter_query_holds_no_snapshot_and_no_stale_place(store: og.GrainStore) -> None:
    addresses = [put(store, event(str(n), n, subject="s")) for n in range(100)]
    met = []
    for grain in iterate(context_of(store).storage.read, {"subject": "s"}):
        met.append(grain["content"])
        if grain["content"] == "90":
            for n in (89, 20, 10):
                set_state(store, addresses[n], OLD_STATE)
            put(store, event("new", 200, subject="s"))
            put(store, event("older", -1, subject="s"))
    gone = {"20", "10"}  # 89 was read with the page of 90
    assert met == [*(str(n) for n in range(99, -1, -1) if str(n) not in gone), "older"]


def test_iter_query_reads_by_and_by(big: og.GrainStore) -> None:
    opened = 0

    def read() -> AbstractContextManager[Reader]:
        nonlocal opened
        opened += 1
        return context_of(big).storage.read()

    found = iterate(read, {"relation": "sees"})
    assert opened == 0
    next(found)
    assert opened == 1
    left = sum(1 for _ in found)
    assert left > 600
    assert 4 <= opened <= 4 + left / 1_000


def test_iter_query_reads_by_size(tmp_path: Path) -> None:
    """A page of large grains would fill the memory."""
    opened_snapshots = 0
    with opened("memory", tmp_path) as store:
        store.put_many([event(f"{n} " * 300_000, n) for n in range(12)])

        def read() -> AbstractContextManager[Reader]:
            nonlocal opened_snapshots
            opened_snapshots += 1
            return context_of(store).storage.read()

        assert sum(1 for _ in iterate(read, {})) == 12
    assert opened_snapshots == 2


def test_a_late_cursor_gives_the_same_page(big: og.GrainStore) -> None:
    page, same = ask(big, 5, user_id="user 1"), ask(big, 5, user_id="user 1")
    whole = Page(page.results, None, same.next_cursor, None, None, 0)
    assert page == whole == same
    assert repr(page) == repr(whole)
    copy = pickle.loads(pickle.dumps(page))
    assert (copy.next_cursor, copy.total, copy.plan) == (whole.next_cursor, None, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        page.next_cursor = None  # type: ignore[misc]
    with pytest.raises(AttributeError):
        _ = page.nothing
