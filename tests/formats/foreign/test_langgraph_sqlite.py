# SPDX-License-Identifier: Apache-2.0
"""Databases of LangGraph's store: items, what is no memory, and hostile databases."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from omsgrain import formats
from omsgrain.errors import UnsupportedError
from omsgrain.formats.foreign import langgraph
from omsgrain.formats.foreign.langgraph import LANGGRAPH
from omsgrain.formats.problems import DocumentError
from omsgrain.formats.table import sniff_file
from support.foreign_files import DATA, USER, fates, imported, texts
from support.mif_imports import opened

FILE = DATA / "langgraph.sqlite"
TABLE = (
    "CREATE TABLE store (prefix text, key text, value text, created_at TIMESTAMP,"
    " updated_at TIMESTAMP)"
)
ROW = "INSERT INTO store VALUES (?, ?, ?, '2026-11-24 15:59:50', '2026-11-24 15:59:50')"


def base(path: Path, *statements: str, rows: list[tuple[Any, ...]] | None = None) -> Path:
    with closing(sqlite3.connect(path)) as made:
        for statement in statements:
            made.execute(statement)
        if rows:
            made.executemany(ROW, rows)
        made.commit()
    return path


def refusal(path: Path) -> str | None:
    with pytest.raises(DocumentError) as refused:
        LANGGRAPH.load_file(path)
    return refused.value.rule


def test_items_are_memories_with_their_whole_value() -> None:
    document = json.loads(formats.dump(formats.load(FILE, user_id=USER), format="mif2").data)
    by_id = {one["external_id"]: one for one in document["memories"]}
    assert set(by_id) == {"memories.ada/beds", "memories.ada/tea", "users.ada/profile"}
    tea = by_id["memories.ada/tea"]
    assert tea["content"] == "Ada prefers jasmine tea"
    assert tea["tags"] == ["memories.ada"]
    assert tea["metadata"]["langgraph"] == {
        "namespace": ["memories", "ada"],
        "key": "tea",
        "value": {"text": "Ada prefers jasmine tea", "strength": 0.9},
    }
    assert by_id["memories.ada/beds"]["content"] == "The greenhouse has 24 beds"
    profile = by_id["users.ada/profile"]
    assert json.loads(profile["content"]) == profile["metadata"]["langgraph"]["value"]
    assert profile["metadata"]["langgraph"]["ttl_minutes"] == 60.0
    assert profile["created_at"] == "2026-11-24T15:59:50Z"


def test_what_is_no_memory_is_reported() -> None:
    found = formats.load(FILE, user_id=USER)
    assert [(one.rule, one.pointer, one.message.split(":")[0]) for one in found.dropped] == [
        ("left_out", "/store", "expiry times, 1"),
        ("left_out", "/checkpoints", "checkpoints, 1"),
    ]


def test_vectors_are_reported(tmp_path: Path) -> None:
    vectors = "CREATE TABLE store_vectors (prefix text, key text, embedding BLOB)"
    path = base(tmp_path / "x", TABLE, vectors, "INSERT INTO store_vectors VALUES ('a', 'b', 'c')")
    (one,) = LANGGRAPH.load_file(path).dropped
    assert (one.pointer, one.message.split(":")[0]) == ("/store_vectors", "store_vectors, 1")


def test_a_changed_item_supersedes(tmp_path: Path) -> None:
    later = tmp_path / "later.sqlite"
    shutil.copy(FILE, later)
    base(
        later,
        'UPDATE store SET value = \'{"text": "Mint"}\', updated_at ='
        " '2027-01-01 00:00:00' WHERE key = 'tea'",
    )
    with opened() as store:
        imported(store, FILE)
        assert sorted(fates(imported(store, later))) == ["unchanged", "unchanged", "updated"]
        assert "Mint" in texts(store)


def test_bad_rows_are_skipped(tmp_path: Path) -> None:
    rows = [
        ("a", "1", "{"),
        ("a", "2", "[]"),
        ("a", "3", None),
        (b"\xff", "4", "{}"),
        ("a", "5", '{"text": "good"}'),
        ("a", "6", "{}"),
        ("", "7", '{"content": {}}'),
    ]
    found = LANGGRAPH.load_file(base(tmp_path / "x", TABLE, rows=rows))
    assert [(one.rule, one.pointer) for one in found.problems] == [
        ("not_lines", "/store/1/value"),
        ("not_record", "/store/2/value"),
        ("not_record", "/store/3"),
        ("not_record", "/store/6"),
    ]
    assert len(found.pointers) == 3


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE other (x)", "CREATE VIEW store AS SELECT 1 AS prefix, 2 AS key"),
        ("CREATE TABLE store (prefix text)",),
        ("CREATE VIRTUAL TABLE store USING fts5(prefix, key, value, created_at, updated_at)",),
    ],
)
def test_other_stores_are_refused(tmp_path: Path, statements: tuple[str, ...]) -> None:
    assert refusal(base(tmp_path / "x", *statements)) == "not_record"


def test_work_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("a", str(n), '{"text": "x"}') for n in range(200)]
    path = base(tmp_path / "x", TABLE, rows=rows)
    monkeypatch.setattr(langgraph, "_STEPS", 10)
    monkeypatch.setattr(langgraph, "_LOOKS", 20)
    assert refusal(path) == "not_sqlite"


def test_pending_writes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute(TABLE)
        made.execute(ROW, ("a", "b", "{}"))
        made.commit()
        assert refusal(path) == "pending_writes"
    assert sniff_file(path) == "langgraph"


def test_nothing_is_written_beside_it(tmp_path: Path) -> None:
    shutil.copy(FILE, tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    LANGGRAPH.load_file(tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == before


def cut(data: bytes) -> bytes:
    return data[:20_000]


def zeros(data: bytes) -> bytes:
    return data[:4_096] + bytes(len(data) - 4_096)


def pages(data: bytes) -> bytes:
    return data[:4_096] + data[8_192:] + data[4_096:8_192]


@pytest.mark.parametrize("damage", [cut, zeros, pages])
def test_a_damaged_database_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "x"
    path.write_bytes(damage(FILE.read_bytes()))
    assert refusal(path) == "not_sqlite"


def test_the_bytes_of_a_database_are_not_read() -> None:
    data = FILE.read_bytes()
    assert formats.sniff(data) == "langgraph"
    with pytest.raises(UnsupportedError):
        formats.load(data)


def test_another_database_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        sniff_file(base(tmp_path / "x", "CREATE TABLE notes (x)"))
