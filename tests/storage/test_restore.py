# SPDX-License-Identifier: Apache-2.0
"""A store is copied, and made from a copy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb import backup, storage
from omsgrain.storage.lmdb.environment import HeadFile
from omsgrain.storage.lmdb.storage import LmdbStorage
from support.child_process import ended
from support.store_contract import contents, pair, put

GRAINS = 40


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "memory.omsg"
    assert not storage._shared, "a store was left open"


def blob(number: int) -> bytes:
    fields = {"subject": f"room {number % 5}", "relation": "has", "object": "light " * number}
    return og.encode({"type": "belief", "confidence": 0.5, "created_at": number + 1, **fields})


def make(path: Path) -> LmdbStorage:
    store = LmdbStorage(path)
    for start in range(0, GRAINS, 10):
        put(store, *(pair(blob(n)) for n in range(start, start + 10)))
    return store


def test_restore(path: Path, tmp_path: Path) -> None:
    store = make(path)
    copy, new = tmp_path / "monday.omsg", tmp_path / "new.omsg"
    store.backup(copy)
    put(store, pair(blob(GRAINS)))
    store.close()
    assert {entry.name for entry in copy.iterdir()} == {"data.mdb", "head"}
    og.restore(copy, new)
    store = LmdbStorage(new)
    assert [raw for _, raw in contents(store)] == [blob(n) for n in range(GRAINS)]
    assert store.check().ok
    with pytest.raises(StoreError):
        og.restore(copy, new)  # there is something
    store.close()


@pytest.mark.parametrize(
    ("store_mode", "file_mode", "found"),
    [
        (0o755, 0o644, (0o755, 0o644)),
        (0o700, 0o600, (0o700, 0o600)),
        (0o555, 0o444, (0o755, 0o644)),
    ],
)
def test_a_backup_has_the_permissions_of_the_store(
    path: Path, tmp_path: Path, store_mode: int, file_mode: int, found: tuple[int, int]
) -> None:
    """With any mode of the backup's directory; its owner may restore it."""
    before = os.umask(0o022)
    try:
        store = make(path)
        (path / "data.mdb").chmod(file_mode)
        path.chmod(store_mode)
        public = tmp_path / "public"
        public.mkdir()
        public.chmod(0o777)
        store.backup(public / "copy.omsg")
        store.close()
        made = public / "copy.omsg"
        assert made.stat().st_mode & 0o777 == found[0]
        assert {entry.stat().st_mode & 0o777 for entry in made.iterdir()} == {found[1]}
    finally:
        os.umask(before)


KILLED = """
import os, signal, sys
import omsgrain as og
from omsgrain.storage.lmdb import backup
def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)
backup._finish = kill
path, copy, how = sys.argv[1:]
if how == "backup":
    og.open(path, readonly=True).maintenance.backup(copy)
else:
    og.restore(path, copy)
"""


@pytest.mark.parametrize("how", ["backup", "restore"])
def test_the_next_copy_removes_a_killed_one(path: Path, tmp_path: Path, how: str) -> None:
    make(path).close()
    new = tmp_path / "new.omsg"
    killed = ended(KILLED, path, new, how)
    assert killed.returncode == -9
    (left,) = (entry for entry in tmp_path.iterdir() if entry != path)
    assert left.stat().st_mode & 0o077 == 0
    if how == "backup":
        with og.open(path, readonly=True) as store:
            store.maintenance.backup(new)
    else:
        og.restore(path, new)
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, new.name}
    assert LmdbStorage(new).check().ok


@pytest.mark.parametrize("kind", ["link", "other", "file"])
def test_foreign_files_stay(path: Path, tmp_path: Path, kind: str) -> None:
    """Where all may write, somebody could have put it there."""
    store = make(path)
    part, theirs = tmp_path / ".copy.omsg.part", tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "copy.omsg").mkdir()
    if kind == "link":
        part.symlink_to(theirs)
    elif kind == "other":
        part.mkdir()
        (part / "letter").write_text("dear")
    else:
        part.write_text("dear")
    with pytest.raises(StoreError):
        store.backup(tmp_path / "copy.omsg")
    assert (theirs / "copy.omsg").exists() and part.exists()
    assert kind != "other" or (part / "letter").exists()
    store.close()


def test_two_backups_to_one_place(path: Path, tmp_path: Path) -> None:
    store = make(path)
    with backup.appearing(tmp_path / "copy.omsg") as made:
        with pytest.raises(StoreError):
            store.backup(tmp_path / "copy.omsg")
        (made / "note").write_text("still here")
    assert [entry.name for entry in (tmp_path / "copy.omsg").iterdir()] == ["note"]
    store.close()


def test_a_backup_that_is_damaged_or_none(path: Path, tmp_path: Path) -> None:
    store = make(path)
    copy, new = tmp_path / "monday.omsg", tmp_path / "new.omsg"
    store.backup(copy)
    store.close()
    raw = (copy / "data.mdb").read_bytes()
    (copy / "data.mdb").write_bytes(raw.replace(b"light light", b"light night", 1))
    for source in (copy, tmp_path / "nothing", tmp_path):
        with pytest.raises(StoreError):
            og.restore(source, new)
        assert not new.exists()


def test_a_backup_that_fell_back_is_noticed(path: Path, tmp_path: Path) -> None:
    store = make(path)
    copy = tmp_path / "monday.omsg"
    store.backup(copy)
    put(store, pair(blob(GRAINS)))
    HeadFile(copy / "head").write(GRAINS + 1, 1)  # as if its newest commit were damaged
    store.close()
    with pytest.raises(StoreError):
        og.restore(copy, tmp_path / "new.omsg")
