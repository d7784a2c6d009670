# SPDX-License-Identifier: Apache-2.0
"""The parts of an erasure: removing grains, and tombstones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.privacy import load
from omsgrain.storage import tombstones
from omsgrain.storage.base import Writer
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import BLIND, DUE, KEYED, PLAIN, TOMBSTONES
from omsgrain.store.context import Settings, context_of, seq_of
from omsgrain.store.privacy.removal import remove_grains
from support.counted_reads import CountedStorage
from support.erasure_stores import BEN, USER, below, is_gone
from support.invented_people import Clock, belief, opened
from support.store_kinds import POSTGRES, made

# --- the parts -----------------------------------------------------------------------------------


def test_removing_without_a_tombstone(store: og.GrainStore) -> None:
    blob = og.encode(belief("lit", **BEN))
    address = store.put(blob)
    digest = bytes.fromhex(address)

    def work(writer: Writer) -> tuple[int, int]:
        seq = seq_of(writer, digest)
        first = remove_grains(
            writer, context_of(store).settings, [seq, seq, 999], reason_code="x", tombstone=False
        )
        again = remove_grains(writer, context_of(store).settings, [seq], reason_code="x")
        return len(first), len(again)

    assert context_of(store).storage.write(work) == (1, 0)
    assert is_gone(store, address)
    with below(store).read() as reader:
        for table in (TOMBSTONES, BLIND, PLAIN, KEYED):
            assert not list(reader.rows(table))
    store.put(blob)
    assert len(store) == 1


def test_blind_rows_go_without_the_key(tmp_path: Path) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=Clock())) as store:
        for n in range(4):
            store.put(belief(f"lit {n}", **USER))
        inner = below(store)
        with inner.read() as reader:
            before = len(list(reader.rows(BLIND)))
        gone = inner.write(lambda w: remove_grains(w, Settings(), [1, 3], reason_code="x"))
        with inner.read() as reader:
            assert (len(gone), len(list(reader.rows(BLIND)))) == (2, before // 2)
            assert len(list(reader.rows(KEYED))) == len(list(reader.rows(PLAIN))) == 2
        assert len(store.query(user_id="ann-17").results) == 2


def test_tombstones_hold_a_mark_and_no_more() -> None:
    store, digest = MemoryStorage(), bytes(range(32))

    def add(writer: Writer) -> None:
        tombstones.add(writer, "address", [(digest, b"")], 7, "gdpr17")
        tombstones.add(writer, "identity", [("ame\u0301lie", b"")], 7, "gdpr17")
        tombstones.add(writer, "urn", [("urn:x:1", b"")], 7, "gdpr17")
        tombstones.add(writer, "urn", [("urn:x:1", b"")], 8, "other")

    with store.read() as reader:
        assert tombstones.refused(reader, [digest]) == set()
        assert not tombstones.has(reader, "address", digest)
    store.write(add)
    with store.read() as reader:
        found = list(reader.rows(TOMBSTONES))
        assert len(found) == 3
        assert all(len(key) == 32 and b"gdpr17" in row for key, row in found)
        assert tombstones.refused(reader, [bytes(32), digest]) == {1}
        assert tombstones.has(reader, "identity", "am\u00e9lie")
        assert tombstones.has(reader, "urn", "urn:x:1")
        assert not tombstones.has(reader, "identity", "urn:x:1")
        shared = tombstones.export_key(reader)
        assert shared is not None
        assert digest not in b"".join(key + row for key, row in found)
    other = MemoryStorage()
    records = (shared, b"", b"")
    other.write(lambda writer: tombstones.import_keys(writer, records))
    other.write(add)
    with other.read() as reader:
        assert [key for key, _ in reader.rows(TOMBSTONES)] == [key for key, _ in found]
    other.write(lambda writer: tombstones.import_keys(writer, records))
    for wrong in (bytes(32), b"short"):
        with pytest.raises(err.StoreError):
            other.write(partial(tombstones.import_keys, records=(wrong, b"", b"")))
    for what, value in (("address", b"short"), ("address", "x" * 32), ("urn", b"x")):
        with pytest.raises(err.SchemaError):
            tombstones.mark(shared, what, value)  # type: ignore[arg-type]


def record(what: str, **fields: Any) -> dict[str, Any]:
    """A grain that was a record of a document, under one id."""
    return belief(what, **USER, x_src=b'{"f":"aimem","id":"urn:example:7","k":"chunk"}', **fields)


def test_a_record_is_let_back_by_what_comes_in_only(tmp_path: Path) -> None:
    rules = tmp_path / "house.toml"
    rules.write_text(
        'name = "house"\ntitle = "House rules"\n[[forbid]]\nid = "notes"\nfields = ["x:note"]\n'
        'reason = "A rule of nobody."\nsource = "nowhere"\n'
    )
    with og.GrainStore(MemoryStorage(), Settings(preset=load([rules]))) as store:
        store.put(record("lit"))
        store.privacy.erase(["ann-17"], reason_code="gdpr17", scrub="queued")
        odd = store.put_many([record("dim", **{"x:note": 1})], errors="collect", allow_erased=True)
        assert [bad.error.code for bad in odd.errors] == ["ERR_SCHEMA"]
        with pytest.raises(err.ErasedError):
            store.put(record("red"))
        store.put(record("dim"), allow_erased=True)
        store.put(record("red"))


def test_a_record_is_let_back_by_superseding_too(tmp_path: Path) -> None:
    """An import that brings it back with its past is no half of one."""
    with og.open(tmp_path / "memory.omsg") as store:
        old = store.put(belief("dark"))
        new = store.supersede(old, record("lit", supersession_justification="it changed"))
        store.export_mg(tmp_path / "all.mg")
        store.delete_many([new], erased="asked")
        assert store.import_mg(tmp_path / "all.mg", errors="collect").merged == 0
        with pytest.raises(err.ErasedError):
            store.put(record("red"))
        report = store.import_mg(tmp_path / "all.mg", allow_erased=True)
        assert (report.stored, report.errors) == (1, [])
        store.put(record("red"))


# --- what an erasure costs -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "lmdb", POSTGRES])
def test_erasing_one_grain_reads_as_much_after_many_erasures(tmp_path: Path, kind: str) -> None:
    """It read every event of the store: 3.7 s after a million erasures."""
    inner = made(kind, tmp_path / "m.omsg")
    counted = CountedStorage(inner)
    store, read = og.GrainStore(counted), list[int]()
    for many in (20, 200, 2_000):
        doomed = [belief(f"{many} {n}", user_id="old") for n in range(many)]
        store.put_many([*doomed, belief(f"one of {many}", user_id=f"new {many}")])
        store.privacy.erase(["old"], reason_code="asked", scrub="queued")
        inner.write(lambda writer: writer.drop_rows(DUE, b"", 100))
        old = store.put(belief("old", user_id=f"new {many}"))
        store.supersede(old, belief("newer", user_id=f"new {many}"))
        counted.rows = 0
        report = store.privacy.erase([f"new {many}"], reason_code="asked", scrub="queued")
        assert report.erased == 3
        read.append(counted.rows)
        assert store.maintenance.check().ok
    assert max(read) - min(read) < 10
    store.maintenance.rebuild()
    assert store.maintenance.check().ok
    store.close()
