# SPDX-License-Identifier: Apache-2.0
"""Queries by values at indexed paths answer as queries that test each grain."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.query import query as queries
from omsgrain.query import value_range, walk
from omsgrain.storage.tables import VALUES
from omsgrain.store.context import Settings, context_of
from support.child_process import ended
from support.query_stores import KINDS, TIME, opened
from support.store_kinds import POSTGRES, made

LONG = "long " * 12
NUMBERS: list[float] = [
    0, -0.0, 1, 1.0, -1, 2.5, -2.5, 1e300, -1e300, 5e-324, 2**53, 2**53 + 1, float(2**53),
    2**63 - 1, 2**63, 2**64 - 1, -(2**63), float(2**63), 0.1,
]  # fmt: skip
TEXTS = ["", "a", "ab", "Café", "Cafe\u0301", "\U0010ffff", LONG, LONG + "b", LONG[:28], LONG[:29]]
SOME: list[Any] = [*NUMBERS, *TEXTS, True, False, [1], {"deep": 1}, {"deep": "a"}, None]
SCALARS = [one for one in SOME if isinstance(one, str | int | float)]
ORDERED = [one for one in SCALARS if not isinstance(one, bool)]
PATHS = ["object", "object.x", "object.x.deep", "context.a\\.b", "observer_id", "observer_type"]
OBSERVERS = ["lidar-1", "lidar-2", LONG]
AUTHOR = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
BEYOND = [10**400, -(10**400), 2**70]

values = st.sampled_from(SOME)
grains = st.fixed_dictionaries(
    {"x": values, "room": values, "observer": st.sampled_from(OBSERVERS), "at": st.integers(0, 9)},
    optional={"whole": values},
)
tests = st.one_of(
    st.sampled_from([*SCALARS, *BEYOND]),
    st.dictionaries(
        st.sampled_from(["gt", "gte", "lt", "lte"]),
        st.sampled_from([*ORDERED, *BEYOND]),
        min_size=1,
    ),
    st.fixed_dictionaries({"eq": st.sampled_from(SCALARS), "ne": st.sampled_from(SCALARS)}),
)
questions = st.fixed_dictionaries(
    {},
    optional={
        "where": st.dictionaries(st.sampled_from(PATHS), tests, min_size=1, max_size=3),
        "observer_id": st.sampled_from([*OBSERVERS, "absent"]),
        "observer_type": st.sampled_from(["lidar", "radar"]),
        "subject": st.sampled_from(["hall", "dock"]),
        "namespace": st.sampled_from(["plant:*", "plant:1"]),
        "created_after": st.integers(TIME, TIME + 9),
        "created_before": st.integers(TIME, TIME + 9),
        "current": st.sampled_from([True, False, None]),
        "order": st.sampled_from(["newest", "oldest"]),
        "limit": st.sampled_from([1, 3, 50]),
    },
)


def fields(n: int, drawn: dict[str, Any]) -> dict[str, Any]:
    made = {
        "type": "observation",
        "observer_id": drawn["observer"],
        "observer_type": "lidar" if n % 3 else "radar",
        "subject": "hall" if n % 2 else "dock",
        "namespace": f"plant:{n % 3}",
        "created_at": TIME + drawn["at"],
        "context": {"a.b": drawn["room"], "n": n},
        "object": drawn.get("whole", {"x": drawn["x"]}),
    }
    return {key: value for key, value in made.items() if value is not None and value != ""}


@contextmanager
def untouched() -> Iterator[None]:
    """Queries see no indexed path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "paths_of", lambda reader: ())
        yield


def pages(store: og.GrainStore, asked: dict[str, Any]) -> list[tuple[list[str], int | None, Any]]:
    found = []
    page: Any = store.query(scan=True, count=True, **asked)
    while page is not None:
        found.append(([hit.address for hit in page], page.total, page.next_cursor))
        page = page.next()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_those_of_tests_on_each_grain(kind: str, long: bool) -> None:
    @settings(max_examples=600 if long else 40 if kind == "memory" else 12, deadline=None)
    @given(
        st.lists(grains, min_size=1, max_size=12),
        st.lists(grains, max_size=6),
        st.sets(st.sampled_from(PATHS), min_size=1),
        st.lists(questions, min_size=1, max_size=8),
        st.sampled_from([(0, 0, 1), (0, 0, 3), (1_024, 16, 3), (1_024, 16, 16_384)]),
    )
    def check(
        before: list[dict[str, Any]],
        after: list[dict[str, Any]],
        paths: set[str],
        asked: list[dict[str, Any]],
        limits: tuple[int, int, int],
    ) -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            opened(kind, Path(folder)) as store,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(walk, "_FEW", limits[0])
            patch.setattr(walk, "_SHARE", limits[1])
            patch.setattr(walk, "_PATIENCE", 2)
            for module in (walk, value_range):
                patch.setattr(module, "GATHERED", limits[2])
            old = [store.put(fields(n, drawn)) for n, drawn in enumerate(before)]
            store.paths.add(*paths)
            new = [store.put(fields(100 + n, drawn)) for n, drawn in enumerate(after)]
            for n, address in enumerate(dict.fromkeys(old + new)):
                if n % 4 == 1:
                    store.supersede(
                        address, {**store.get(address).to_dict(), "context": {"n": 999 - n}}
                    )
                elif n % 4 == 3:
                    store.delete(address)
            for question in asked:
                with untouched():
                    expected = pages(store, question)
                assert pages(store, question) == expected, question
            report = store.maintenance.check()
            assert report.ok, report.problems

    check()


def test_a_rare_value_is_found_behind_many(tmp_path: Path) -> None:
    with og.open(tmp_path / "s.omsg", indexed=["object.x", "observer_id"]) as store:
        store.put_many([fields(n, drawn(n)) for n in range(3_000)])
        plan = store.query(where={"object.x": {"gte": 2_990}}, explain=True).plan
        assert plan is not None
        assert (plan.index, plan.estimate, plan.blobs) == ("object.x", 10, 10)
        page = store.query(
            observer_id="lidar-1", where={"object.x": {"lt": 10}}, limit=2, explain=True
        )
        assert page.plan is not None
        assert (page.plan.index, page.plan.looked_up) == ("object.x", ("observer_id",))
        plan = store.query(observer_id="absent", explain=True, count=True).plan
        assert plan is not None
        assert (plan.index, plan.estimate, plan.blobs) == ("observer_id", 0, 0)


def drawn(n: int) -> dict[str, Any]:
    return {"x": n, "room": "lab", "observer": OBSERVERS[n % 2], "at": n % 10}


def test_a_common_value_is_found_by_time(tmp_path: Path) -> None:
    with og.open(":memory:", indexed=["object.x"]) as store:
        store.put_many([fields(n, drawn(n)) for n in range(3_000)])
        page = store.query(where={"object.x": {"gt": 2.5}}, limit=5, explain=True)
        assert page.plan is not None
        assert (page.plan.index, page.plan.rows) == ("all", 6)


def test_what_is_refused_without_an_index(tmp_path: Path) -> None:
    with og.open(":memory:") as store:
        store.put_many([fields(n, drawn(n)) for n in range(20)])
        with pytest.raises(og.errors.UnsupportedError) as refused:
            store.query(observer_id="lidar-1")
        assert refused.value.field == "/observer_id"
        assert "store.paths.add" in (refused.value.expected or "")
        store.paths.add("observer_id")
        assert len(store.query(observer_id="lidar-1", limit=50)) == 10
        with pytest.raises(og.errors.UnsupportedError):
            store.query(where={"object.x": 3})


def keyed(tmp_path: Path) -> KeyRing:
    return KeyRing.create(tmp_path / "x.keys", master=bytes(32))


def owned(n: int) -> dict[str, Any]:
    return {**fields(n, drawn(n)), "user_id": f"user {n % 3}"}


@pytest.mark.parametrize("kind", ["memory", "tail", POSTGRES])
def test_equal_values_of_encrypted_grains_are_found_by_blind_rows(
    kind: str, tmp_path: Path
) -> None:
    with (
        keyed(tmp_path) as keys,
        og.GrainStore(made(kind, tmp_path / "s.omsg"), Settings(keys=keys)) as store,
        og.open(":memory:") as twin,
    ):
        store.paths.add("observer_id", "object.x")
        for one in (store, twin):
            one.put_many([owned(n) for n in range(20)])
        gone = store.put({**owned(3), "subject": "gone"})
        asked: list[dict[str, Any]] = [
            {"observer_id": "lidar-1"},
            {"observer_id": LONG, "subject": "hall"},
            {"where": {"object.x": 7}},
            {"where": {"object.x": 7, "observer_type": "lidar"}, "user_id": "user 1"},
        ]
        store.delete(gone)
        for question in asked:
            expected = [hit.grain["created_at"] for hit in twin.query(scan=True, **question)]
            page = store.query(explain=True, **question)
            assert [hit.grain["created_at"] for hit in page] == expected
            assert page.plan is not None
            assert page.plan.index != "all"
            assert len(page) < 20
        with pytest.raises(og.errors.UnsupportedError) as refused:
            store.query(where={"object.x": {"gt": 7}})
        assert refused.value.field == "/user_id"
        high = store.query(where={"object.x": {"gt": 7}}, user_id="user 1")
        assert [hit.grain["object"]["x"] for hit in high] == [19, 16, 13, 10]
        assert value_lists(store) == []
        report = store.maintenance.check()
        assert report.ok, report.problems


def value_lists(store: og.GrainStore) -> list[bytes]:
    """The plain keys of values."""
    with context_of(store).inner.read() as reader:
        return list(reader.keys(VALUES))


def asked_of(store: og.GrainStore, twin: og.GrainStore) -> None:
    """Equal values of encrypted and plain grains are found as in a store in the clear."""
    for question in ({"observer_id": "lidar-1"}, {"where": {"object.x": 7}}):
        expected = [hit.grain["created_at"] for hit in twin.query(scan=True, **question)]
        page = store.query(explain=True, **question)
        assert [hit.grain["created_at"] for hit in page] == expected
        assert page.plan is not None
        assert page.plan.index in ("observer_id", "object.x")
    assert all(one.ready for one in store.paths.declared())
    report = store.maintenance.check()
    assert report.ok, report.problems


@pytest.mark.parametrize("kind", ["memory", "tail", POSTGRES])
def test_a_path_added_beside_encrypted_grains_gets_blind_rows(kind: str, tmp_path: Path) -> None:
    with (
        keyed(tmp_path) as keys,
        og.GrainStore(made(kind, tmp_path / "s.omsg"), Settings(keys=keys)) as store,
        og.open(":memory:") as twin,
    ):
        olds = []
        for one in (store, twin):
            one.put_many([fields(n, drawn(n)) for n in range(20, 24)])
            olds.append([one.put(owned(n)) for n in range(20)])
        store.paths.add("observer_id", "object.x")
        for one, old in zip((store, twin), olds, strict=True):
            one.put(owned(30))
            one.delete(old[1])
            one.supersede(old[7], {**owned(7), "context": {"n": 0}})
        asked_of(store, twin)
        store.paths.drop("observer_id")
        for one in (store, twin):
            one.put_many([owned(n) for n in range(40, 44)])
        store.paths.add("observer_id")  # some have rows of before
        asked_of(store, twin)
        for one, old in zip((store, twin), olds, strict=True):
            one.delete(old[3])
        keys.erase(["user 0"])
        for hit in list(twin.query(user_id="user 0", limit=50)):
            twin.delete(hit.address)
        store.paths.add("context.n")
        asked_of(store, twin)


def test_blind_rows_of_a_path_wait_for_all_keys(tmp_path: Path) -> None:
    """Until then the values of one user are compared; with the keys, adding goes on."""
    path = tmp_path / "s.omsg"
    (tmp_path / "other").mkdir()
    with keyed(tmp_path) as keys, keyed(tmp_path / "other") as others:
        with og.open(path, keys=keys) as store:
            store.put_many([owned(n) for n in range(6)])
        with og.open(path, keys=others) as store:
            store.put(owned(6))
        with og.open(path) as store:
            store.paths.add("observer_id")
            assert store.paths.declared()[0].ready
        for ring in (others, keys):  # each has some of the keys only
            with og.open(path, keys=ring, indexed=["observer_id"]) as store:
                assert not store.paths.declared()[0].ready
                with pytest.raises(og.errors.UnsupportedError):
                    store.query(observer_id="lidar-1")
                assert len(store.query(observer_id="lidar-1", user_id="user 0")) == 1
        with og.open(path, keys=others) as store:
            gone = [hit.address for hit in store.query(user_id="user 0")]
            assert len(gone) == 1
            store.delete(gone[0])
        with og.open(path, keys=keys, indexed=["observer_id"]) as store:
            assert store.paths.declared()[0].ready
            assert len(store.query(observer_id="lidar-1")) == 3


BLIND_BUILD = """
import os, sys
import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.storage import indexed_paths
indexed_paths._OPENED = 4
store = og.open(sys.argv[1], keys=KeyRing.open(sys.argv[2], master=bytes(32)))
steps = []
def killed(done):
    steps.append(done)
    if len(steps) == int(sys.argv[3]):
        os._exit(9)
store.paths.add("observer_id", "object.x", progress=killed)
"""


@pytest.mark.parametrize("after", [1, 4])
def test_killed_while_making_blind_rows(after: int, tmp_path: Path) -> None:
    path = tmp_path / "s.omsg"
    with keyed(tmp_path) as keys, og.open(":memory:") as twin:
        with og.open(path, keys=keys) as store:
            for one in (store, twin):
                one.put_many([owned(n) for n in range(20)])
        assert ended(BLIND_BUILD, path, tmp_path / "x.keys", after).returncode == 9
        with og.open(path, keys=keys) as store:
            assert not all(one.ready for one in store.paths.declared())
            for one in (store, twin):
                one.put(owned(31))
            assert len(store.query(observer_id="lidar-1", user_id="user 0")) == 4
            store.maintenance.rebuild()
            store.maintenance.backup_to(tmp_path / "parts")
        og.restore(tmp_path / "parts", tmp_path / "r.omsg")
        for copy in (path, tmp_path / "r.omsg"):
            with og.open(copy, keys=keys) as store:
                store.paths.add("observer_id", "object.x")
                asked_of(store, twin)
                store.maintenance.rebuild()
                asked_of(store, twin)


def test_filters_of_fields(tmp_path: Path) -> None:
    """Every filter of one field, plain and indexed, in all that chooses grains."""
    action = {
        "type": "action", "tool_name": "gripper", "input": {"n": 1},
        "content": "a cup", "is_error": False, "created_at": TIME, "author_did": AUTHOR,
    }  # fmt: skip
    grains: list[dict[str, Any]] = [
        action,
        {**action, "is_error": True, "tool_name": "camera"},
        {"type": "goal", "subject": "cup", "description": "wash the cup", "goal_state": "active",
         "created_at": TIME, "entity_id": "cup-7"},
        {"type": "event", "content": "a cup, please", "role": "user", "created_at": TIME},
        fields(1, drawn(1)),
    ]  # fmt: skip
    asked: list[dict[str, Any]] = [
        {"tool_name": "gripper"}, {"is_error": True}, {"is_error": False}, {"author_did": AUTHOR},
        {"goal_state": "active"}, {"entity_id": "cup-7"}, {"role": "user"},
        {"observer_id": "lidar-2"}, {"observer_type": "lidar"}, {"tool_name": "none"},
    ]  # fmt: skip
    counts = [1, 1, 1, 2, 1, 1, 1, 1, 1, 0]
    names = sorted({name for one in asked for name in one})
    with og.open(tmp_path / "s.omsg") as store:
        store.put_many(grains)
        for indexed in (False, True):
            if indexed:
                store.paths.add(*names)
            for one, count in zip(asked, counts, strict=True):
                scan = not indexed
                assert store.query(scan=scan, count=True, **one).total == count, one
                assert len(list(store.iter_query(scan=scan, **one))) == count
        assert len(store.search("cup", tool_name="camera")) == 1
        assert store.export_mg(tmp_path / "x.mg", role="user").grains == 1
        for wrong in ({"is_error": 1}, {"role": True}, {"tool_name": 7}):
            with pytest.raises(og.errors.SchemaError) as refused:
                store.query(**wrong)
            assert refused.value.field == f"/{next(iter(wrong))}"
