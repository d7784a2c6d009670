# SPDX-License-Identifier: Apache-2.0
"""Imports that are all or nothing, in one transaction; and dry runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.interchange.mif_import import import_document
from omsgrain.store import import_batch
from support.aimem_imports import holdings
from support.child_process import ended
from support.mif_imports import MAKERS, Maker, contents, current, fates, opened
from support.paths import TESTS

makers = pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)


def trail(store: og.GrainStore) -> int:
    return sum(1 for _ in store.audit.entries())


@makers
@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite", "rename"])
def test_all_is_what_batches_would_have_done(
    store: og.GrainStore, maker: Maker, strategy: str
) -> None:
    before = [maker.memory(1, "tea"), maker.memory(2, "milk")]
    comes = [
        maker.memory(1, "coffee"), maker.memory(3, "milk"), maker.memory(4, "water"),
        maker.memory(5, "water"), maker.memory(2, "milk", tags=["a"]),
    ]  # fmt: skip
    with opened() as other:
        for one in (store, other):
            maker.take(one, *before)
        whole = maker.take(store, *comes, merge_strategy=strategy, atomic=True)
        batches = maker.take(other, *comes, merge_strategy=strategy, batch_size=1)
        assert fates(whole) == fates(batches)
        assert contents(store) == contents(other)
    assert (whole.stored, whole.failed) == (True, False)
    assert store.maintenance.check().ok
    held = holdings(store)
    maker.take(store, *comes, merge_strategy=strategy, atomic=True)
    assert holdings(store) == held


@makers
def test_one_bad_record_stops_all(store: og.GrainStore, maker: Maker) -> None:
    good = [maker.memory(n, f"text {n}") for n in range(4)]
    bad = {**maker.memory(9, "x"), "content": 7}
    report = maker.take(store, *good, bad, atomic=True)
    assert (report.stored, report.failed, len(store)) == (False, True, 0)
    assert fates(report) == ["imported"] * 4 + ["refused"]
    assert maker.take(store, *good, atomic=True).stored


@makers
def test_one_that_the_store_refuses_stops_all(store: og.GrainStore, maker: Maker) -> None:
    maker.take(store, maker.memory(1, "tea"))
    store.holds.add(current(store, maker.id(1)).address, authority="court", reason_code="case")
    before, entries = holdings(store), trail(store)
    comes = [maker.memory(2, "milk"), maker.memory(1, "coffee"), maker.memory(3, "water")]
    report = maker.take(store, *comes, atomic=True)
    assert (report.stored, report.failed) == (False, True)
    assert [one.pointer for one in report.errors] == ["/memories/1"]
    assert (holdings(store), trail(store)) == (before, entries)


def test_another_import_between_deciding_and_storing(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker, record, others = MAKERS[0], import_batch.record, [True]

    def late(*args: Any, **options: Any) -> Any:
        if others:
            others.pop()
            maker.take(store, maker.memory(1, "tea"))
        return record(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(import_batch, "record", late)
        report = maker.take(store, maker.memory(1, "coffee"), maker.memory(2, "tea"), atomic=True)
    assert fates(report) == ["updated", "imported"]  # else the text would be nowhere
    assert contents(store) == ["coffee", "tea"]


def test_a_dry_run_leaves_no_trace(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    maker.take(store, maker.memory(1, "tea"))
    before, entries = holdings(store), trail(store)
    for atomic in (False, True):
        comes = [maker.memory(1, "coffee"), maker.memory(2, "milk")]
        report = maker.take(store, *comes, dry_run=True, atomic=atomic)
        assert fates(report) == ["updated", "imported"]
        assert (report.stored, report.failed) == (False, False)
    assert (holdings(store), trail(store)) == (before, entries)


KILLED = """
import json, os, sys
import omsgrain as og
from omsgrain.store.import_batch import _ImportTransaction
from omsgrain.interchange.mif_import import import_document
from support.mif_imports import MAKERS
path, file = sys.argv[1], sys.argv[2]
put = _ImportTransaction._put
def killed(self, *args):
    put(self, *args)
    os.kill(os.getpid(), 9)
_ImportTransaction._put = killed
with og.open(path) as store:
    import_document(store, MAKERS[0].load(json.load(open(file))), atomic=True)
"""


def test_killed_within_the_transaction(tmp_path: Path) -> None:
    maker = MAKERS[0]
    document = maker.document(*(maker.memory(n, f"text {n}") for n in range(20)))
    path, file = tmp_path / "m.omsg", tmp_path / "d.json"
    file.write_text(json.dumps(document))
    with og.open(path) as store:
        maker.take(store, maker.memory(1, "as it was"))
        before = holdings(store)
    assert ended(KILLED, path, file, cwd=TESTS).returncode == -9
    with og.open(path) as store:
        assert holdings(store) == before
        report = import_document(store, maker.load(document), atomic=True)
        assert report.stored
        assert store.maintenance.check().ok


def test_a_full_disk_leaves_nothing(store: og.GrainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = MAKERS[0]

    def full(*_: Any) -> None:
        raise StoreError("the disk is full")

    from omsgrain.store.import_batch import _ImportTransaction

    with monkeypatch.context() as patch:
        patch.setattr(_ImportTransaction, "_put", full)
        with pytest.raises(StoreError):
            maker.take(store, maker.memory(1, "tea"), atomic=True)
    assert len(store) == 0


@makers
@pytest.mark.parametrize("atomic", [False, True])
def test_an_import_that_is_stopped(store: og.GrainStore, maker: Maker, atomic: bool) -> None:
    memories = [maker.memory(n, f"text {n}") for n in range(25)]
    data = json.dumps(maker.document(*memories)).encode()
    calls = 0

    def alive() -> None:
        nonlocal calls
        calls += 1
        if calls == 4:  # before anything, before the first transaction, and then after each
            raise KeyboardInterrupt

    options: dict[str, Any] = {"batch_size": 10, "atomic": atomic}
    if atomic:
        calls = 2
    with pytest.raises(KeyboardInterrupt):
        import_document(store, data, alive=alive, **options)
    assert len(store) == (0 if atomic else 20)
    assert store.maintenance.check().ok
    report = import_document(store, data, **options)
    assert report.count("imported") == (25 if atomic else 5)
    assert report.count("unchanged") == (0 if atomic else 20)
