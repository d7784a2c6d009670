# SPDX-License-Identifier: Apache-2.0
"""Stores of format 1 are brought to today's; and a store is made from a backup."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import lmdb
import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb import backup, storage
from omsgrain.storage.lmdb.environment import HeadFile
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import FORMAT
from support.child_process import check, ended
from support.store_contract import contents, pair, put

GRAINS, WATERMARK = 40, 30
MAP = 40 << 10  # full: there is no room for the new tables
NEW = {"addresses-1", "old-addresses-0", "terms-2", "past-2", "states-0", "events-0"}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "memory.omsg"
    assert not storage._shared, "a store was left open"


def blob(number: int) -> bytes:
    fields = {"subject": f"room {number % 5}", "relation": "has", "object": "light " * number}
    return og.encode({"type": "belief", "confidence": 0.5, "created_at": number + 1, **fields})


@pytest.fixture
def old(path: Path) -> Path:
    """A store of format 1, with a tail beyond the watermark, made with LMDB alone."""
    path.mkdir()
    env = lmdb.open(str(path), max_dbs=8, map_size=MAP)
    with env, env.begin(write=True) as txn:
        blobs, addresses, meta = (
            env.open_db(name, txn=txn) for name in (b"blobs-0", b"addresses-0", b"meta-0")
        )
        terms = env.open_db(b"terms-0", txn=txn, dupsort=True, dupfixed=True)
        size = 0
        for number in range(GRAINS):
            raw, seq = blob(number), struct.pack(">Q", number + 1)
            digest = sha256(raw).digest()
            txn.put(seq, digest[:8] + raw, db=blobs)
            size += len(raw)
            if number < WATERMARK:
                txn.put(digest, seq, db=addresses)
                txn.put(b"a", bytes(8) + seq, db=terms)
        head = struct.pack(">4Q", GRAINS, size, GRAINS, WATERMARK)
        txn.put(b"head", head, db=meta)
        txn.put(b"omsgrain.format", struct.pack(">I", 1), db=meta)
    (path / "lock.mdb").unlink()
    HeadFile(path / "head").write(GRAINS, size)
    return path


def names(path: Path) -> set[str]:
    """The tables in the file."""
    copy = path.with_name("looked at")
    shutil.copytree(path, copy)
    with lmdb.open(str(copy)) as env, env.begin() as txn:
        found = {key.decode() for key, _ in txn.cursor()}
    shutil.rmtree(copy)
    return found


def format_of(path: Path) -> int:
    with lmdb.open(str(path), max_dbs=1) as env:
        with env.begin(db=env.open_db(b"meta-0")) as txn:
            record = txn.get(b"omsgrain.format")
    assert record is not None
    return int.from_bytes(record, "big")


def test_opened_for_writing(old: Path) -> None:
    assert names(old) == {"blobs-0", "addresses-0", "terms-0", "meta-0"}
    with og.open(old) as store:
        stats = store.stats()
        assert (stats.grains, stats.watermark, stats.format) == (GRAINS, GRAINS, FORMAT)
        assert stats.map_bytes > MAP
        assert store.query(relation="has", count=True).total == GRAINS
        assert store.query(subject="room 3", count=True).total == GRAINS // 5
        assert [grain.blob for grain in store] == [blob(n) for n in range(GRAINS)]
        report = store.maintenance.check()
        assert report.ok, report.problems
        store.put({"type": "event", "content": "new", "created_at": 1})
    assert names(old) >= NEW
    assert not {"terms-0", "addresses-0"} & names(old)
    assert format_of(old) == FORMAT
    with og.open(old, readonly=True) as store:
        assert len(store) == GRAINS + 1
        assert store.maintenance.check().ok


def test_opened_for_reading(old: Path) -> None:
    before = (old / "data.mdb").read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            LmdbStorage(old, readonly=True)
        assert caught.value.expected == f"store format {FORMAT}"
    assert (old / "data.mdb").read_bytes() == before
    report = check(old)
    assert [problem.where for problem in report.problems] == ["file"]
    LmdbStorage(old).close()
    LmdbStorage(old, readonly=True).close()


@pytest.mark.parametrize(
    "moment", ["LmdbWriter.drop_terms", "LmdbWriter.add_rows", "upgrade.FORMAT_VALUE.pack"]
)
def test_killed_halfway(old: Path, moment: str) -> None:
    code = f"""if True:
        import os, sys
        from types import SimpleNamespace
        from omsgrain.storage.lmdb import maintenance as upgrade
        from omsgrain.storage.lmdb.storage import LmdbStorage
        from omsgrain.storage.lmdb.writer import LmdbWriter
        pack = upgrade.FORMAT_VALUE.pack
        upgrade.FORMAT_VALUE = SimpleNamespace(pack=pack)
        calls = 0
        def die(*args):
            global calls
            calls += 1
            if args[0] is not upgrade.FORMAT or calls == 2:  # the first only compares
                os.kill(os.getpid(), 9)
            return pack(*args)
        {moment} = die
        LmdbStorage(sys.argv[1])
    """
    assert ended(code, old).returncode == -9
    assert format_of(old) == 1
    with lmdb.open(str(old), max_dbs=8) as env:
        terms = env.open_db(b"terms-0", dupsort=True, dupfixed=True)
        with env.begin(db=terms) as txn:
            assert txn.stat()["entries"] == WATERMARK
    with og.open(old) as store:
        assert store.query(relation="has", count=True).total == GRAINS
        assert store.maintenance.check().ok


def test_compacted_when_brought_over(old: Path) -> None:
    store = LmdbStorage(old)
    store.compact()
    assert [raw for _, raw in contents(store)] == [blob(n) for n in range(GRAINS)]
    assert store.check().ok
    store.close()


# --- restore -------------------------------------------------------------------------------------


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
