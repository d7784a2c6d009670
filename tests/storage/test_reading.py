# SPDX-License-Identifier: Apache-2.0
"""Reading a store: what snapshots share, the gate that they pass, and how reads are counted."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain import _core
from omsgrain import errors as err
from omsgrain.storage.lmdb.data_file import MapResizeLock
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import COUNTER, COUNTERS, SEQUENCE
from omsgrain.store.context import MANY, context_of, write_reads


def belief(n: int) -> dict[str, object]:
    return {
        "type": "belief",
        "subject": "door",
        "relation": "is",
        "object": f"open {n}",
        "confidence": 0.9,
        "created_at": 1_700_000_000_000 + n,
    }


# --- snapshots -----------------------------------------------------------------------------------


def test_snapshots_of_a_commit_share_what_they_know(tmp_path: Path) -> None:
    with og.open(tmp_path / "memory.omsg") as store:
        first = store.put(belief(1))
        below = context_of(store).storage
        assert isinstance(below, LmdbStorage)
        with below.read() as one, below.read() as two:
            assert one.head is two.head
            assert one.memtable is two.memtable
        second = store.put(belief(2))
        with below.read() as three:
            assert three.head is not one.head
            assert three.find([bytes.fromhex(a) for a in (first, second)]) == [1, 2]
        below.flush()
        with below.read() as four:
            assert four.head.watermark == 2
            assert four.find([bytes.fromhex(a) for a in (second, "0" * 64)]) == [2, None]


def test_a_compacted_file_is_another_one(tmp_path: Path) -> None:
    with og.open(tmp_path / "memory.omsg") as store:
        addresses = [store.put(belief(n)) for n in range(3)]
        store.get(addresses[0])
        store.maintenance.compact()
        assert [g.address for g in store.get_many(addresses)] == addresses
        assert len(store) == 3


def test_grains_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    with og.open(tmp_path / "memory.omsg") as store:
        addresses = [store.put(belief(n)) for n in range(3)]
        with context_of(store).storage.read() as reader:
            first, *_, last = reader.places(_core.term("all", None), None, newest=False)
            gone = bytes(15) + b"\x09"
            found = reader.grains_at([last, gone, first])
            with pytest.raises(err.IntegrityError):
                reader.grains_at([first[:-1] + last[-1:]])
        assert [place for place, _ in found] == [last, first]
        assert {grain.address for _, grain in found} < set(addresses)


def test_a_held_file_knows_whether_it_has_a_name(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        _core.HeldFile(path)
    path.write_bytes(b"one")
    held = _core.HeldFile(path)
    assert held.has_name()
    path.rename(tmp_path / "other")
    path.write_bytes(b"two")
    assert held.has_name()
    path.replace(tmp_path / "other")
    assert not held.has_name()
    held.close()
    held.close()
    assert not held.has_name()


# --- the gate ------------------------------------------------------------------------------------


def test_a_transaction_inside_keeps_the_lock_open() -> None:
    gate = MapResizeLock()
    gate.enter()
    assert not gate.shut(0.0)
    assert len(gate.marks) == 1
    gate.leave()
    gate.leave()  # as after a fork
    assert gate.shut(0.0)
    gate.open()


def test_a_late_transaction_waits() -> None:
    gate = MapResizeLock()
    passed: list[str] = []

    def late() -> None:
        gate.enter()
        passed.append("late")
        gate.leave()

    with gate.alone():
        thread = threading.Thread(target=late)
        thread.start()
        passed.append("alone")
    thread.join()
    assert passed == ["alone", "late"]
    assert not gate.marks


def test_many_threads_and_one_alone() -> None:
    gate, turns = MapResizeLock(), 300
    inside = [0]
    wrong: list[int] = []

    def pass_through() -> None:
        for _ in range(turns):
            gate.enter()
            if inside[0]:
                wrong.append(1)
            gate.leave()

    threads = [threading.Thread(target=pass_through) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        with gate.alone():
            inside[0] = 1
            inside[0] = 0
    for thread in threads:
        thread.join()
    assert not wrong
    assert not gate.marks


# --- counts --------------------------------------------------------------------------------------


def test_counts_are_written_when_many_have_gathered() -> None:
    access = _core.ReadCounts(MANY)
    digests = [SEQUENCE.pack(n) * 4 for n in range(MANY)]
    assert not access.count(digests[:-1], 5)
    assert not access.count(digests[:9], 7)
    assert access.of(digests[0]) == (2, 7)
    assert access.count([digests[-1]], 6)
    assert access.take()
    assert not access.take()  # it is being written
    access.count([digests[0]], 8)
    assert access.of(digests[0]) == (3, 8)
    access.written(False)
    assert access.of(digests[0]) == (3, 8)


def test_counts_of_two_names_of_a_grain_come_together(tmp_path: Path) -> None:
    """A sealed grain is read by its own address and by its plain address."""
    with og.open(tmp_path / "memory.omsg") as store:
        store.put(belief(1))

        class Same:
            def __init__(self, writer: object) -> None:
                self.writer = writer

            def __getattr__(self, name: str) -> object:
                return getattr(self.writer, name)

            def find(self, digests: list[bytes]) -> list[int]:
                return [1 for _ in digests]

        access = _core.ReadCounts(MANY)
        access.count([b"a" * 32, b"b" * 32, b"a" * 32], 9)
        assert access.take()
        context_of(store).storage.write(lambda writer: write_reads(access, Same(writer)))  # type: ignore[arg-type]
        with context_of(store).storage.read() as reader:
            row = reader.row(COUNTERS, SEQUENCE.pack(1))
        assert row is not None
        assert COUNTER.unpack(row) == (3, 9)


# --- the import ----------------------------------------------------------------------------------


def test_the_import_loads_only_the_core() -> None:
    code = """
import sys
before = set(sys.modules)
import omsgrain
loaded = {name for name in set(sys.modules) - before if name.startswith("omsgrain")}
assert loaded == {"omsgrain", "omsgrain._core"}, loaded
for name in omsgrain.__all__:
    assert getattr(omsgrain, name) is not None
    assert name in dir(omsgrain)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError):
        _ = og.nothing
    assert og.errors is err
