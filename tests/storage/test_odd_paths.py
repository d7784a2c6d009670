# SPDX-License-Identifier: Apache-2.0
"""Paths that name no file on any system: refused as such, and nothing is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain import container
from omsgrain.errors import OmsError, StoreError
from omsgrain.storage.memory import MemoryStorage
from omsgrain.sync import LocalPeer, write_bundle
from omsgrain.sync.bundle import BundleFile

Call = Callable[[og.GrainStore, Path, str], object]

READS: dict[str, Call] = {
    "read": lambda store, room, path: container.read(path),
    "verify": lambda store, room, path: container.verify(path),
    "parts": lambda store, room, path: container.parts(path),
    "bundle": lambda store, room, path: BundleFile(path),
    "import": lambda store, room, path: store.import_mg(path),
    "open": lambda store, room, path: og.open(path),
    "look": lambda store, room, path: og.open(path, readonly=True),
    "restore": lambda store, room, path: og.restore(path, room / "new"),
}
WRITES: dict[str, Call] = {
    "write": lambda store, room, path: container.write(path, []),
    "export": lambda store, room, path: store.export_mg(path),
    "sync": lambda store, room, path: write_bundle(LocalPeer(store), path),
    "backup": lambda store, room, path: store.maintenance.backup(path),
    "to": lambda store, room, path: og.restore(room / "memory.omsg", path),
}


def refused(call: Call, room: Path, path: str) -> str:
    with og.open(room / "memory.omsg") as store:
        before = sorted(room.iterdir())
        with pytest.raises(OmsError) as refusal:
            call(store, room, path)
        assert sorted(room.iterdir()) == before
    return refusal.value.code


@pytest.mark.parametrize(
    "path", ["a\0b", "a\ud800b", "p" * 300, "p" * 5_000], ids=["nul", "lone", "long", "longer"]
)
@pytest.mark.parametrize("call", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
def test_impossible_file_names(
    call: Call, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(call, tmp_path, path) in ("ERR_STORE", "ERR_NOT_FOUND")


def test_no_name_is_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for make in (og.open, og.BackupRepository):
        with pytest.raises(StoreError):
            make("")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("path", ["", ".", "..", "/"])
@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES)
def test_a_directory_is_no_place_for_a_file(
    call: Call, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(call, tmp_path, path) == "ERR_STORE"


def test_tables() -> None:
    pytest.importorskip("pyarrow")
    with og.GrainStore(MemoryStorage()) as store:
        for path in ("a\0b", "a\ud800b", "p" * 5_000):
            for call in (store.parquet.write, store.parquet.read):
                with pytest.raises(OmsError) as refusal:
                    call(path)
                assert refusal.value.code == "ERR_STORE"
        for path in ("", "."):
            with pytest.raises(StoreError):
                store.parquet.write(path)
