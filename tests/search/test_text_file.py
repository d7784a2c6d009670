# SPDX-License-Identifier: Apache-2.0
"""The file of the text index: damage, what stays in it, and handles that may not write it."""

from __future__ import annotations

import gc
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.search import feed, text_file
from omsgrain.search.text_file import SqliteTextIndex
from omsgrain.storage.base import TEXT_FILE, Storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from support.text_stores import Opened, answers, grown, remove, say, seqs, truth


@pytest.fixture
def index() -> Iterator[SqliteTextIndex]:
    index = SqliteTextIndex(None)
    yield index
    index.close()


def test_a_handle_that_is_dropped_closes_its_file() -> None:
    handle = text_file.Handle(None, readonly=False)
    connection = handle.read(lambda db: db)
    del handle
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")


# --- damage --------------------------------------------------------------------------------------


def test_a_file_is_used_again(
    disk: LmdbStorage, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grown(disk)
    monkeypatch.setattr(feed, "write", None)
    assert answers(opened(path), disk) == truth_without_patch(disk, monkeypatch)


def truth_without_patch(store: Storage, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    monkeypatch.undo()
    return truth(store)


def rewrite(path: Path, work: Callable[[bytes], bytes]) -> None:
    path.write_bytes(work(path.read_bytes()))


def sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda p: rewrite(p, lambda b: b""),
    "not a database": lambda p: rewrite(p, lambda b: b"x" * len(b)),
    "no header": lambda p: rewrite(p, lambda b: bytes(100) + b[100:]),
    "cut to a page": lambda p: rewrite(p, lambda b: b[:4096]),
    "cut in half": lambda p: rewrite(p, lambda b: b[: len(b) // 2]),
    "all but the first page": lambda p: rewrite(p, lambda b: b[:4096] + bytes(len(b) - 4096)),
    "of a newer version": lambda p: sql(p, "PRAGMA user_version = 999"),
    "another program's": lambda p: sql(p, "PRAGMA application_id = 7"),
    "another program's, unnumbered": lambda p: sql(
        p, "PRAGMA user_version = 0", "PRAGMA application_id = 0"
    ),
    "without its state": lambda p: sql(p, "DROP TABLE state"),
    "with an empty state": lambda p: sql(p, "DELETE FROM state"),
    "with a strange state": lambda p: sql(p, "UPDATE state SET last = 'x'"),
    "without the words": lambda p: sql(p, "DROP TABLE words_data"),
    "without sizes": lambda p: sql(p, "DELETE FROM words_docsize"),
    "with another FTS5 format": lambda p: sql(p, "UPDATE words_config SET v = 1"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("readonly", [False, True])
def test_an_unusable_file_is_rebuilt(
    disk: LmdbStorage, opened: Opened, damage: Callable[[Path], object], readonly: bool
) -> None:
    path = grown(disk)
    damage(path)
    before = path.read_bytes()
    assert answers(opened(path, readonly=readonly), disk) == truth(disk)
    if readonly:
        assert path.read_bytes() == before
    else:
        index = opened(path)
        assert index.check(disk.read) == ()


@pytest.mark.parametrize("fill", [b"\0", b"\xff"], ids=["zeros", "ones"])
def test_a_damaged_page_is_noticed(disk: LmdbStorage, opened: Opened, fill: bytes) -> None:
    path = grown(disk)
    whole, right = path.read_bytes(), truth(disk)
    for start in range(0, len(whole), 4096):
        path.write_bytes(whole[:start] + fill * 4096 + whole[start + 4096 :])
        index = SqliteTextIndex(path)
        assert index.check(disk.read) or answers(index, disk) == right
        assert answers(index, disk) == right
        index.close()


def test_damage_while_it_is_in_use(disk: LmdbStorage, opened: Opened) -> None:
    path = grown(disk)
    index = opened(path)
    index.catch_up(disk.read)
    rewrite(path, lambda b: b[:4096] + b"\xff" * (len(b) - 4096))
    assert answers(index, disk) == truth(disk)


@pytest.mark.parametrize(
    ("change", "seq"),
    [
        ("INSERT INTO gone VALUES (5)", 5),
        ("INSERT INTO words (rowid, says) VALUES (8, 'ghost')", 8),
        ("UPDATE words_docsize SET sz = x'090909' WHERE id = 7", 7),
        ("UPDATE words_data SET block = CAST(replace(block, 'number', 'numbes') AS BLOB)", 1),
    ],
    ids=["one too few", "one too many", "another size", "another word"],
)
def test_check_finds_what_sqlite_cannot(
    disk: LmdbStorage, opened: Opened, change: str, seq: int
) -> None:
    path = grown(disk, 20)
    sql(path, change)
    index = opened(path)
    assert [(p.where, p.seq) for p in index.check(disk.read)] == [("text", seq)]
    index.rebuild(disk.read)
    assert index.check(disk.read) == ()


def test_check_finds_damage(disk: LmdbStorage, opened: Opened) -> None:
    path = grown(disk)
    sql(path, "UPDATE words_data SET block = substr(block, 1, 30) WHERE id > 100")
    index = opened(path)
    assert [(p.where, p.seq) for p in index.check(disk.read)] == [("text", None)]
    assert index.check(disk.read) == ()
    assert answers(index, disk) == truth(disk)


def test_another_store_under_the_same_file(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / TEXT_FILE
    first, shorter, longer, as_long = (MemoryStorage() for _ in range(4))
    say(first, *(f"owl {n}" for n in range(50)))
    say(shorter, *(f"cat {n}" for n in range(20)))
    say(longer, *(f"cat {n}" for n in range(70)))
    say(as_long, *(f"cat {n}" for n in range(50)))
    for other in (shorter, longer, as_long):
        opened(path).catch_up(first.read)
        index = opened(path)
        assert seqs(index.search(other.read, "owl")) == []
        assert len(seqs(index.search(other.read, "cat", limit=99))) == other.stats().grains
        assert index.check(other.read) == ()


def test_a_store_that_fell_back_under_an_open_index(store: MemoryStorage, opened: Opened) -> None:
    """It is behind what the index has seen, so the index begins again."""
    index = opened(None)
    say(store, *(f"owl {n}" for n in range(50)))
    index.catch_up(store.read)
    older = MemoryStorage()
    say(older, *(f"owl {n}" for n in range(40)))
    assert len(seqs(index.search(older.read, "owl", limit=99))) == 40


def test_removing_the_grain_that_it_is_known_by(
    disk: LmdbStorage, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grown(disk, 20)
    remove(disk, 20)
    with monkeypatch.context() as patch:
        patch.setattr(feed, "_wipe", None)  # nothing is made anew
        assert 20 not in seqs(opened(path).search(disk.read, "owl", limit=30))
        (seq,) = say(disk, "owl again")
        assert seqs(opened(path).search(disk.read, "again")) == [seq]
        remove(disk, seq)
        assert seqs(opened(path).search(disk.read, "again")) == []
        assert seqs(opened(path).search(disk.read, "again")) == []


# --- what stays ----------------------------------------------------------------------------------


def found_in_files(path: Path, word: str) -> bool:
    raw = b"".join(p.read_bytes() for p in path.parent.glob(f"{path.name}*"))
    return any(word.encode(code) in raw for code in ("utf-8", "utf-16-le", "utf-16-be"))


@pytest.mark.parametrize("other", [False, True], ids=["alone", "beside a reader"])
def test_scrub_leaves_nothing(disk: LmdbStorage, opened: Opened, other: bool) -> None:
    """Each word begins with a letter of its own, so that the index does not shorten it."""
    secrets = ["zzyzxsecret", "jjkanswer", "ыыоченьтаино", "ωωμυστικο", "uncommonest"]
    path = disk.path / TEXT_FILE
    index = opened(path)
    say(disk, *(f"filler {n} about {n % 50} and {n * n}" for n in range(2_000)))
    hidden = say(disk, *(f"{secret} filler" for secret in secrets), " ".join(secrets))
    index.catch_up(disk.read)
    beside = opened(path) if other else None
    if beside:
        assert seqs(beside.search(disk.read, secrets[0]))
    assert all(found_in_files(path, secret) for secret in secrets)
    remove(disk, *hidden)
    index.scrub(disk.read)
    assert not any(found_in_files(path, secret) for secret in secrets)
    assert index.check(disk.read) == ()
    if beside:
        assert seqs(beside.search(disk.read, secrets[0])) == []
        assert len(seqs(beside.search(disk.read, "filler", limit=3_000))) == 2_000
        assert not any(found_in_files(path, secret) for secret in secrets)


def test_scrub_without_removals_changes_nothing(
    disk: LmdbStorage, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grown(disk)
    monkeypatch.setattr(feed, "_wipe", None)
    opened(path).scrub(disk.read)
    assert answers(opened(path), disk) == truth_without_patch(disk, monkeypatch)


def test_what_was_never_made_needs_no_care(disk: LmdbStorage, opened: Opened) -> None:
    index = opened(disk.path / TEXT_FILE)
    say(disk, "owl")
    index.scrub(disk.read)
    index.rebuild(disk.read)
    assert index.check(disk.read) == ()
    assert not index.exists


def test_a_reader_beside_a_long_read_holds_up_scrubbing(
    disk: LmdbStorage, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = grown(disk)
    monkeypatch.setattr(text_file, "PATIENCE", 0.05)
    index = opened(path)
    remove(disk, 1)
    index.catch_up(disk.read)
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM state").fetchall()
    with pytest.raises(StoreError):
        index.scrub(disk.read)
    reader.close()
    index.scrub(disk.read)
    assert index.check(disk.read) == ()


# --- handles -------------------------------------------------------------------------------------


def test_a_reader_takes_the_file_or_a_copy(disk: LmdbStorage, opened: Opened) -> None:
    path = grown(disk)
    reader = opened(path, readonly=True)
    assert answers(reader, disk) == truth(disk)
    before = path.read_bytes()
    say(disk, "owl 17 sees more")
    remove(disk, 5)
    assert answers(reader, disk) == truth(disk)
    assert path.read_bytes() == before
    say(disk, "owl 17 sees more again")
    assert answers(reader, disk) == truth(disk)
    for work in (reader.scrub, reader.rebuild):
        with pytest.raises(StoreError):
            work(disk.read)
    assert path.read_bytes() == before


def test_a_reader_without_a_file(disk: LmdbStorage, opened: Opened) -> None:
    say(disk, "owl")
    assert seqs(opened(disk.path / TEXT_FILE, readonly=True).search(disk.read, "owl")) == [1]
    assert not (disk.path / TEXT_FILE).exists()


def test_a_directory_that_cannot_be_written(
    disk: LmdbStorage, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    say(disk, "owl")
    assert seqs(opened(disk.path / TEXT_FILE).search(disk.read, "owl")) == [1]
    assert not (disk.path / TEXT_FILE).exists()


def test_after_closing(store: MemoryStorage, index: SqliteTextIndex) -> None:
    index.catch_up(store.read)
    index.close()
    index.close()
    with pytest.raises(StoreError):
        index.search(store.read, "owl")


def test_sqlite_without_full_text_search(
    store: MemoryStorage, index: SqliteTextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file, "_TABLES", text_file._TABLES.replace("fts5(", "fts55("))
    with pytest.raises(og.errors.UnsupportedError):
        index.search(store.read, "owl")


@pytest.mark.parametrize("answer", ["database or disk is full", "disk I/O error"])
def test_errors_of_sqlite_are_store_errors(
    store: MemoryStorage, index: SqliteTextIndex, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError(answer)

    say(store, "owl")
    monkeypatch.setattr(feed, "_forget", refuse)
    with pytest.raises(StoreError) as caught:
        index.search(store.read, "owl")
    assert caught.value.code == "ERR_STORE"
    monkeypatch.undo()
    assert seqs(index.search(store.read, "owl")) == [1]


def test_a_search_during_a_rebuild(
    disk: LmdbStorage, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another handle empties it between catching up and reading."""
    path = grown(disk)
    index, other = opened(path), opened(path)
    expected = answers(index, disk)
    emptied: list[int] = []
    caught_up = index.catch_up

    def and_then_emptied(read: feed.Read) -> int:
        upto = caught_up(read)
        if len(emptied) % 2 == 0:
            other._handle.write(feed.empty)
        emptied.append(upto)
        return upto

    monkeypatch.setattr(index, "catch_up", and_then_emptied)
    assert answers(index, disk) == expected
    assert len(emptied) >= 2
