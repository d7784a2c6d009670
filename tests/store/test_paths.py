# SPDX-License-Identifier: Apache-2.0
"""Indexed paths: declared, built, kept, dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.storage import indexed_paths
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.lmdb.writer import LmdbWriter
from omsgrain.storage.tables import (
    FORMAT,
    FORMAT_RECORD,
    FORMAT_VALUE,
    INDEXED_FORMAT,
    META,
    PAST_TERMS,
    TERMS,
    VALUES,
)
from omsgrain.store.context import context_of
from support.child_process import ended
from support.query_stores import KINDS, TIME, opened

PATHS = ["object.metres", "observer_id"]


def reading(n: int) -> dict[str, Any]:
    return {
        "type": "observation",
        "observer_id": f"lidar-{n % 5}",
        "observer_type": "lidar",
        "subject": "hall",
        "object": {"metres": n / 4},
        "created_at": TIME + n,
    }


def put_all(store: og.GrainStore, count: int) -> list[str]:
    return [store.put(reading(n)) for n in range(count)]


def value_rows(store: og.GrainStore) -> list[tuple[bytes, bytes, bytes]]:
    """The rows of values in the file of a store."""
    storage = context_of(store).inner
    assert isinstance(storage, LmdbStorage)
    if not storage.readonly:
        storage.flush()
    found = []
    with storage.read() as reader:
        for table in (TERMS, PAST_TERMS):
            with reader.cursor(table) as cursor:
                if cursor.set_range(VALUES):
                    found += [(table.name, key, place) for key, place in cursor]
    return found


def format_of(store: og.GrainStore) -> int:
    """The format in the record that every version of the code looks at first."""
    with context_of(store).storage.read() as reader:
        record = reader.row(META, FORMAT_RECORD)
    assert record is not None
    number = int(FORMAT_VALUE.unpack(record)[0])
    assert number == store.stats().format
    return number


def found(store: og.GrainStore) -> tuple[int | None, str]:
    page = store.query(
        observer_id="lidar-3", where={"object.metres": {"gt": 2}}, count=True, explain=True
    )
    assert page.plan is not None
    return page.total, page.plan.index


@pytest.mark.parametrize("kind", KINDS)
def test_paths_are_added_kept_and_dropped(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path) as store:
        store.put_many([reading(n) for n in range(40)])
        assert store.paths.declared() == []
        done: list[int] = []
        store.paths.add("observer_id", "object.metres", progress=done.append)
        assert [(one.path, one.ready) for one in store.paths.declared()] == [
            ("object.metres", True),
            ("observer_id", True),
        ]
        assert done
        store.paths.add("observer_id")
        assert found(store)[0] == 6
        store.put(reading(43))
        assert found(store)[0] == 7
        assert [entry.operation for entry in store.audit.entries()].count("index") == 1
        store.paths.drop("observer_id")
        with pytest.raises(err.NotFoundError):
            store.paths.drop("observer_id")
        assert [one.path for one in store.paths.declared()] == ["object.metres"]
        assert store.query(where={"object.metres": {"gte": 10.75}}).results
        store.put(reading(48))
        store.paths.add("observer_id")
        assert found(store)[0] == 8
        report = store.maintenance.check()
        assert report.ok, report.problems
        if kind != "memory":
            store.maintenance.backup(tmp_path / "copy.omsg")
            with og.open(tmp_path / "copy.omsg") as copy:
                assert found(copy)[0] == 8
                assert len(copy.paths.declared()) == 2
                report = copy.maintenance.check()
                assert report.ok, report.problems


def test_a_store_keeps_its_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.omsg"
    with og.open(path, indexed=["observer_id"]) as store:
        store.put_many([reading(n) for n in range(20)])
    with og.open(path) as store:
        assert found(store)[1] == "observer_id"
    with og.open(path, indexed=PATHS) as store:
        assert len(store.paths.declared()) == 2
        store.maintenance.compact()
        store.maintenance.backup(tmp_path / "b.omsg")
    with og.open(path, readonly=True, indexed=PATHS) as store:
        assert found(store)[0] == 2
        first = value_rows(store)
        with pytest.raises(err.StoreError):
            store.paths.add("observer_type")
        store.maintenance.backup_to(tmp_path / "parts")
    og.restore(tmp_path / "b.omsg", tmp_path / "c.omsg")
    og.restore(tmp_path / "parts", tmp_path / "d.omsg")
    for name in ("b.omsg", "c.omsg", "d.omsg"):
        with og.open(tmp_path / name) as store:
            assert found(store) == (2, "observer_id")
            assert value_rows(store) == first
            assert store.maintenance.check().ok


def test_older_code_refuses_only_stores_with_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.omsg"
    with og.open(path) as store:
        store.put(reading(1))
        assert format_of(store) == FORMAT
        store.paths.add("observer_id")
        assert format_of(store) == INDEXED_FORMAT > FORMAT
        store.paths.drop("observer_id")
        assert format_of(store) == FORMAT
        assert value_rows(store) == []


def test_a_rebuild_writes_the_same_rows(tmp_path: Path) -> None:
    with og.open(tmp_path / "a.omsg", indexed=["observer_id"]) as store:
        addresses = put_all(store, 30)
        store.supersede(addresses[3], {**reading(3), "subject": "dock"})
        store.paths.add("object.metres")
        store.retract(addresses[4])
        store.delete(addresses[5])
        before = value_rows(store)
        assert len(before) == 60
        assert sum(name == PAST_TERMS.name for name, _, _ in before) == 4
        store.maintenance.rebuild()
        assert value_rows(store) == before


BUILD = """
import os, sys
import omsgrain as og
from omsgrain.storage import indexed_paths
indexed_paths._TOGETHER = 10
store = og.open(sys.argv[1])
steps = []
def killed(done):
    steps.append(done)
    if len(steps) == int(sys.argv[2]):
        os._exit(9)
getattr(store.paths, sys.argv[3])("object.metres", progress=killed)
"""


@pytest.mark.parametrize("after", [1, 4])
@pytest.mark.parametrize("verb", ["add", "drop"])
def test_a_killed_build_goes_on(verb: str, after: int, tmp_path: Path) -> None:
    path = tmp_path / "a.omsg"
    with og.open(path, indexed=["object.metres"] if verb == "drop" else []) as store:
        addresses = put_all(store, 60)
    assert ended(BUILD, path, after, verb).returncode == 9
    with og.open(path) as store:
        assert [one.ready for one in store.paths.declared()] == [False] * (verb == "add")
        store.put(reading(99))
        store.delete(addresses[2])
        store.delete(addresses[58])
        store.supersede(addresses[3], {**reading(3), "subject": "dock"})
        store.supersede(addresses[57], {**reading(57), "subject": "dock"})
        report = store.maintenance.check()
        assert report.ok, report.problems
        rows = value_rows(store)
        assert 0 < len(rows) < 61
        store.maintenance.rebuild()
        assert value_rows(store) == rows
        high = {"object.metres": {"gte": 14}}
        assert store.query(subject="hall", where=high, count=True).total == 3
        store.paths.add("object.metres")
        assert len(value_rows(store)) == 61
        assert store.query(where=high, count=True).total == 4
        report = store.maintenance.check()
        assert report.ok, report.problems


def test_another_handle_learns_of_new_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.omsg"
    with og.open(path) as store:
        store.put(reading(1))
        script = (
            "import sys; import omsgrain as og\n"
            "with og.open(sys.argv[1], indexed=['observer_id']) as s: pass\n"
        )
        assert ended(script, path).returncode == 0
        store.put(reading(2))
        assert store.query(observer_id="lidar-2", explain=True).results
        with context_of(store).storage.read() as reader:
            assert [one.ready for one in indexed_paths.paths_of(reader)] == [True]
        assert len(value_rows(store)) == 2


def test_there_are_at_most_16_paths(tmp_path: Path) -> None:
    with og.open(":memory:") as store:
        store.paths.add(*[f"object.value{n}" for n in range(16)])
        with pytest.raises(err.RangeError) as refused:
            store.paths.add("observer_id")
        assert refused.value.field == "/indexed"
        store.paths.drop("object.value3")
        store.paths.add("observer_id")


@pytest.mark.parametrize("path", ["", "object.", "subject.x", "no_field", 7, "superseded_by"])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(err.SchemaError) as refused:
        og.open(":memory:", indexed=[path])
    assert refused.value.field == "/indexed"
    with pytest.raises(err.SchemaError):
        og.open(":memory:", indexed="observer_id")


def test_a_full_disk_leaves_the_record_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with og.open(tmp_path / "a.omsg") as store:
        store.put_many([reading(n) for n in range(20)])

        def full(self: LmdbWriter, *args: Any, **given: Any) -> None:
            raise err.StoreError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(LmdbWriter, "change_values", full)
            with pytest.raises(err.StoreError):
                store.paths.add("observer_id")
        assert store.maintenance.check().ok
        store.put(reading(20))
        assert store.query(observer_id="lidar-0", scan=True, count=True).total == 5
        store.paths.add("observer_id")
        assert store.query(observer_id="lidar-0", count=True).total == 5
        assert store.maintenance.check().ok


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"junk",
        b"\xc1",
        msgpack.packb([]),
        msgpack.packb([[1, [], 0, 0, False]]),
        msgpack.packb([[0, ["observer_id"], 0, 0, False]]),
        msgpack.packb([[256, ["observer_id"], 0, 0, False]]),
        msgpack.packb([[1, ["observer_id"], -1, 0, False]]),
        msgpack.packb([[1, ["observer_id"], 0, 1 << 63, False]]),
        msgpack.packb([[1, ["object"] * 17, 0, 0, False]]),
        msgpack.packb([[1, ["observer_id"], 0, 0, False]] * 2),
        msgpack.packb([[1, ["observer_id"], 0, 0]]),
        msgpack.packb([[1, 7, float("inf"), 0, False]]),
    ],
)
def test_a_damaged_record_is_an_error(record: bytes) -> None:
    with og.open(":memory:") as store:
        store.put(reading(1))
        with pytest.raises(err.IntegrityError):
            context_of(store).storage.write(lambda writer: writer.set_paths(record))
        assert store.paths.declared() == []
