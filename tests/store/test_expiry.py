# SPDX-License-Identifier: Apache-2.0
"""The end of a grain's life: unseen at once, removed by ``run_due``, and grains that replace."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from omsgrain.query.filters import Filters
from omsgrain.storage import erasure_queue
from omsgrain.store.context import Settings, context_of
from support.invented_people import Clock
from support.query_stores import TIME, note
from support.store_kinds import POSTGRES, SEALED_POSTGRES, made, opened

KINDS = ["memory", "lmdb", "sealed memory", "sealed lmdb", POSTGRES, SEALED_POSTGRES]


@pytest.fixture
def clock() -> Clock:
    return Clock(TIME)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, Settings(clock=clock)) as store:
        yield store


def seen(store: og.GrainStore) -> dict[str, list[int]]:
    """What each way to read finds."""
    ways: dict[str, list[Any]] = {
        "query": [hit.grain for hit in store.query(user_id="ada", order="oldest")],
        "count": list(range(store.query(user_id="ada", count=True).total or 0)),
        "iter": list(store.iter_query(user_id="ada"))[::-1],
        "search": sorted(
            [hit.grain for hit in store.search("open", user_id="ada")],
            key=lambda grain: grain["created_at"],
        ),
    }
    found = {
        way: [g if isinstance(g, int) else g["created_at"] - TIME for g in grains]
        for way, grains in ways.items()
    }
    found["namespaces"] = [int(one[-1]) for one in store.namespaces("house:", user_id="ada")]
    return found


def all_see(store: og.GrainStore, *expected: int) -> None:
    for way, found in seen(store).items():
        assert found == ([*range(len(expected))] if way == "count" else [*expected]), way


def test_it_is_unseen_at_once_and_then_removed(store: og.GrainStore, clock: Clock) -> None:
    addresses = [
        store.put(note(1)),
        store.put(note(2), expires_at=timedelta(milliseconds=1_500)),
        store.put(note(3), expires_at=TIME + 90_000),
    ]
    all_see(store, 1, 2, 3)
    clock.now += 1_499
    all_see(store, 1, 2, 3)
    clock.now += 1
    all_see(store, 1, 3)
    assert store.status(addresses[1]).expires_at == TIME + 1_500
    assert len(store) == 3
    report = store.privacy.run_due()
    assert (report.expired, report.kept) == (1, ())
    assert len(store) == 2
    all_see(store, 1, 3)
    assert store.put(note(2))  # what expired may come in again
    clock.now += 100_000
    all_see(store, 1, 2)


def test_pages_and_cursors_go_on(store: og.GrainStore, clock: Clock) -> None:
    store.put_many([note(n) for n in range(4)])
    store.put_many([note(n) for n in range(4, 8)], expires_at=TIME + 50)
    page = store.query(user_id="ada", limit=2)
    assert [hit.grain["created_at"] - TIME for hit in page] == [7, 6]
    clock.now += 50
    following = page.next()
    assert following is not None
    assert [hit.grain["created_at"] - TIME for hit in following] == [3, 2]


def test_a_grain_put_again_after_its_end_lives_on(store: og.GrainStore, clock: Clock) -> None:
    addresses = [store.put(note(n), expires_at=TIME + 10) for n in (1, 2, 3, 4)]
    store.put(note(4))  # before its end: the end stays
    clock.now += 10
    all_see(store)
    assert store.put(note(1)) == addresses[0]
    report = store.put_many([note(2), note(5)])
    assert (report.addresses[0], report.stored, report.duplicates) == (addresses[1], 1, 1)
    store.put(note(3), expires_at=TIME + 90)
    assert store.put(note(1), dedupe="semantic") == addresses[0]
    all_see(store, 1, 2, 3, 5)
    assert store.privacy.run_due().expired == 1
    clock.now += 80
    all_see(store, 1, 2, 5)


def test_what_reads_by_address_shows_it_until_it_is_removed(
    store: og.GrainStore, clock: Clock
) -> None:
    old = store.put(note(1))
    new = store.supersede(old, note(2))
    store.privacy.expire([new], TIME + 10)
    clock.now += 10
    assert store.graph.heads(old) == []
    assert store.get(new)["object"] == "open 2"
    assert [grain.address for grain in store.history(old)] == [old, new]
    assert [grain.address for grain in store] == [old, new]
    assert (store.exists(new), new in store, len(store)) == (True, True, 2)
    store.privacy.run_due()
    assert (store.exists(new), len(store)) == (False, 1)


def test_graphs_lack_grains_whose_end_has_come(store: og.GrainStore, clock: Clock) -> None:
    def goal(n: int, **fields: Any) -> str:
        text = f"goal {n}"
        return store.put(
            {"type": "goal", "subject": "door", "description": text, "goal_state": "suspended",
             "created_at": TIME + n, "user_id": "ada", **fields}
        )  # fmt: skip

    source = store.put(note(1))
    middle = store.put(note(2, derived_from=[source]))
    leaf = store.put(note(3, derived_from=[middle]))
    needed = goal(4)
    wanted = goal(5, depends_on=[needed])
    same = [store.put(note(6, created_at=TIME + n)) for n in (6, 7, 8)]
    goals = store.graph.goals(wanted)
    assert [len(one.heads) for one in goals.goals] == [1, 1]
    clock.now += 10
    store.privacy.expire([middle, needed, same[0], same[1]], clock.now)
    assert [node.address for node in store.graph.provenance(middle).nodes] == [middle, source]
    for removed in (False, True):  # both answer alike
        if removed:
            assert store.privacy.run_due().expired == 4
        graph = store.graph.provenance(leaf)
        assert [node.address for node in graph.nodes] == [leaf, middle]
        assert (graph.missing, graph.complete) == ((middle,), True)
        graph = store.graph.descendants(source)
        assert ([node.address for node in graph.nodes], graph.links) == ([source], ())
        goals = store.graph.goals(wanted)
        assert [(one.address, len(one.heads)) for one in goals.goals] == [(wanted, 1), (needed, 0)]
        assert goals.waits_for == (needed,)
        for which in ("current", "all"):
            assert list(store.graph.duplicates(which=which)) == []


def test_duplicates_count_those_that_live(store: og.GrainStore, clock: Clock) -> None:
    same = [store.put(note(1, created_at=TIME + n, user_id=None)) for n in range(4)]
    store.privacy.expire(same[:2], TIME + 10)
    clock.now += 10
    (group,) = store.graph.duplicates()
    assert (group.count, group.addresses) == (2, tuple(same[2:]))


def test_a_thread_lacks_messages_whose_end_has_come(store: og.GrainStore, clock: Clock) -> None:
    for n in (1, 2):
        message = {"type": "event", "role": "user", "content": f"message {n}", "session_id": "s"}
        ends = TIME + 10 if n == 1 else None
        store.put(message | {"user_id": "ada", "created_at": TIME + n}, expires_at=ends)
    assert len(store.graph.thread("s")) == 2
    clock.now += 10
    assert [grain["content"] for grain in store.graph.thread("s")] == ["message 2"]


def test_a_memory_is_gone_with_its_end(store: og.GrainStore, clock: Clock) -> None:
    memory = og.Memory(store, user="ada")
    tea = memory.remember("Ada likes tea.")
    other = memory.remember("Ada has a boat.")
    store.privacy.expire([tea, other], TIME + 10)
    clock.now += 10
    assert (memory.recall(), memory.recall("tea"), memory.context("tea")) == ([], [], "")
    for call in (lambda: memory.history(tea), lambda: memory.update(tea, "Ada likes milk.")):
        with pytest.raises(err.NotFoundError):
            call()
    again = memory.remember("Ada likes tea.")
    assert again != tea
    assert [one.address for one in memory.recall()] == [again]
    memory.forget(other)  # what is still stored can be forgotten earlier
    assert other not in store
    assert store.privacy.run_due().expired == 1
    assert [one.address for one in memory.recall("tea")] == [again]


def test_an_import_brings_an_expired_memory_again(store: og.GrainStore, clock: Clock) -> None:
    memory = og.Memory(store, user="ada")
    address = memory.remember("Ada likes tea.")
    document, _ = export_document(store, "ada", format="mif2")
    store.privacy.expire([address], TIME + 10)
    clock.now += 10
    assert memory.recall() == []
    import_document(store, document.data, user_id="ada")
    assert [one.text for one in memory.recall()] == ["Ada likes tea."]


def test_another_end_and_none(store: og.GrainStore, clock: Clock) -> None:
    address = store.put(note(1), expires_at=TIME + 10)
    other = store.put(note(2), expires_at=TIME + 10)
    store.privacy.expire([address], datetime.fromtimestamp(TIME // 1000 + 60, timezone.utc))
    clock.now += 10
    all_see(store, 1)
    store.privacy.expire([address, other], None)
    clock.now += 100_000
    all_see(store, 1, 2)
    assert store.privacy.due() == []
    assert store.privacy.run_due().expired == 0


def test_a_deleted_grain_leaves_the_queue(store: og.GrainStore) -> None:
    store.delete(store.put(note(1), expires_at=TIME + 10))
    assert store.privacy.due() == []


def test_what_is_over_leaves_no_export(store: og.GrainStore, clock: Clock, tmp_path: Path) -> None:
    store.put(note(1))
    store.put(note(2), expires_at=TIME + 10)
    clock.now += 10
    store.export_mg(tmp_path / "m.mg")
    with og.open(":memory:") as other:
        other.import_mg(tmp_path / "m.mg")
        assert len(other) == 1


def test_a_hold_keeps_what_is_over(store: og.GrainStore, clock: Clock) -> None:
    address = store.put(note(1), expires_at=TIME + 10)
    store.holds.add(address, authority="court", reason_code="case")
    clock.now += 10
    report = store.privacy.run_due()
    assert [one[0] for one in report.kept] == [address]
    all_see(store)
    assert store.status(address).restricted


def test_another_process_sees_the_end(tmp_path: Path) -> None:
    clock = Clock(TIME)
    settings = Settings(clock=clock)
    with (
        og.GrainStore(made("lmdb", tmp_path / "m.omsg"), settings) as store,
        og.open(tmp_path / "m.omsg", readonly=True) as other,
    ):
        store.put(note(1))
        assert len(other.query(user_id="ada")) == 1
        store.put(note(2), expires_at=TIME + 10)  # long ago for the other's clock
        assert [hit.grain["created_at"] for hit in other.query(user_id="ada")] == [TIME + 1]
        assert len(store.query(user_id="ada")) == 2


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (-1, "ERR_RANGE"),
        (1 << 63, "ERR_SCHEMA"),
        ("soon", "ERR_SCHEMA"),
        (timedelta(days=-30_000), "ERR_RANGE"),
    ],
)
def test_refused_ends(end: Any, code: str) -> None:
    with og.open(":memory:") as store:
        for call in (
            lambda: store.put(note(1), expires_at=end),
            lambda: store.put_many([note(1)], expires_at=end),
            lambda: store.privacy.expire([], end),
        ):
            with pytest.raises(err.OmsError) as refused:
                call()
            assert (refused.value.code, refused.value.field) == (code, "/expires_at")
        assert len(store) == 0


def test_replaced_grains_have_a_history(store: og.GrainStore, clock: Clock) -> None:
    def replace(n: int, **given: Any) -> str:
        key: Filters = {"namespace": "house:0", "subject": "door", "user_id": "ada"}
        return store.put(note(n, namespace="house:0"), replaces=key, **given)

    first = replace(1)
    second = replace(2, expires_at=TIME + 10)
    assert replace(2) == second  # the same again lives on
    clock.now += 10
    assert [hit.address for hit in store.query(user_id="ada")] == [second]
    assert store.status(first).superseded_by == second
    assert [g["created_at"] - TIME for g in store.history(second)] == [1, 2]
    with pytest.raises(err.SchemaError):
        store.put(note(3), replaces={"user_id": "ada", "current": None})
    for more in ({"dedupe": "semantic"}, {"allow_erased": True}):
        with pytest.raises(err.SchemaError):  # they would do nothing
            replace(3, **more)
    assert context_of(store).settings.clock() == TIME + 10


def test_a_damaged_entry_is_told(store: og.GrainStore) -> None:
    def work(writer: Any) -> None:
        erasure_queue.add(writer, TIME, {"kind": erasure_queue.EXPIRY})

    context_of(store).storage.write(work)
    with pytest.raises(err.IntegrityError):
        store.privacy.due()
