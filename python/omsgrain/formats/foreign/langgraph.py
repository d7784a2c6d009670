# SPDX-License-Identifier: Apache-2.0
"""The SQLite database of LangGraph's store: each item of the table ``store`` is a memory.

Checkpoints in the same database are states of runs, to be resumed by the same program: messages in
progress, channel values, pending writes, in a serialization of Python objects. They are no memory,
and are reported by their number.

The database is opened read-only and as immutable, so nothing is written beside it. It may be
hostile: views and virtual tables are refused, and the steps that a statement takes are limited.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from omsgrain.errors import UnsupportedError
from omsgrain.formats import json_text
from omsgrain.formats.base import Said
from omsgrain.formats.document import Import
from omsgrain.formats.foreign.base import ForeignFormat, ForeignLimits, Translation
from omsgrain.formats.problems import DocumentError, Problem

_MAGIC: Final = b"SQLite format 3\0"
_MADE: Final = (b"CREATE TABLE store (", b"CREATE TABLE checkpoints (")
_STORE: Final = "store"
_COLUMNS: Final = ("prefix", "key", "value", "created_at", "updated_at")
_EXPIRY: Final = ("expires_at", "ttl_minutes")
_LEFT: Final = {
    "checkpoints": "states of runs, which only their program can resume",
    "writes": "pending writes of runs",
    "store_vectors": "vectors of an unnamed model; embed the memories again",
}
"""Tables that are no memory, and why."""
_TEXTS: Final = ("text", "content", "memory", "data")
"""Members that hold the text of an item; the first one that is a text counts."""
_STEPS: Final = 10_000  # instructions of SQLite between two looks at the limit
_LOOKS: Final = 100_000  # looks of one database


class LangGraph(ForeignFormat):
    name = "langgraph"
    title = "a store of LangGraph in SQLite"
    opens_files = True
    limits = ForeignLimits(document=512 << 20)

    def sniff(self, said: Said) -> bool:
        return said.data.startswith(_MAGIC) and any(one in said.data for one in _MADE)

    def translate(self, data: bytes, into: Translation) -> None:
        raise UnsupportedError("a database is read from a file", expected="its path")

    def load_file(
        self, path: Path, *, user_id: str | None = None, limits: ForeignLimits | None = None
    ) -> Import:
        limits = self.limits if limits is None else limits
        if (size := path.stat().st_size) > limits.document:
            raise json_text.too_large(f"{limits.document} bytes", f"{size} bytes")
        into = Translation(self, limits)
        with _opened(path) as base:
            tables = _tables(base)
            if _STORE in tables:
                self._items(base, into)
            for name, why in _LEFT.items():
                if name in tables:
                    (count,) = base.execute(f"SELECT count(*) FROM {name}").fetchone()
                    into.left_out(name, count, f"/{name}", why)
        return into.imported(user_id)

    def _items(self, base: sqlite3.Connection, into: Translation) -> None:
        known = {_text(row[1]) for row in base.execute(f"PRAGMA table_info({_STORE})")}
        if not known.issuperset(_COLUMNS):
            raise _refused("not_record", "the table store has not the columns of a store")
        names = [*_COLUMNS, *(one for one in _EXPIRY if one in known)]
        rows = base.execute(f"SELECT {', '.join(names)} FROM store ORDER BY prefix, key")
        expiring = 0
        for at, row in enumerate(rows):
            item = {name: _text(value) for name, value in zip(names, row, strict=True)}
            expiring += item.get("expires_at") is not None
            self._item(item, f"/store/{at}", into)
        into.left_out("expiry times", expiring, "/store", "kept in the metadata, not applied")

    def _item(self, item: dict[str, Any], at: str, into: Translation) -> None:
        prefix, key, spelled = (item.pop(name) for name in _COLUMNS[:3])
        if not all(isinstance(one, str) for one in (prefix, key, spelled)):
            return into.skip("not_record", at)
        try:
            value = into.limits.parse(spelled.encode())
        except DocumentError:
            return into.skip("not_lines", f"{at}/value")
        if not isinstance(value, dict):
            return into.skip("not_record", f"{at}/value")
        made, changed = item.pop("created_at"), item.pop("updated_at")
        rest = {name: one for name, one in item.items() if one is not None}
        into.memory(
            (prefix, key),
            _text_of(value),
            at,
            rest={"namespace": prefix.split("."), "key": key, "value": value, **rest},
            created_at=made,
            updated_at=changed,
            external_id=f"{prefix}/{key}",
            tags=[prefix] if prefix else None,
        )


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading, with limits on the work that it can cause."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise _refused("pending_writes", "the database has writes in NAME-wal; close its program")
    left = _LOOKS

    def look() -> int:
        nonlocal left
        left -= 1
        return int(left < 0)

    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as base:
            base.text_factory = bytes
            for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON"):
                base.execute(f"PRAGMA {pragma}")
            base.set_progress_handler(look, _STEPS)
            yield base
    except (sqlite3.Error, UnicodeDecodeError):  # a message can have bytes of the database
        raise _refused("not_sqlite", "the database is damaged, or too much work") from None


def _tables(base: sqlite3.Connection) -> set[str]:
    """The plain tables of a database."""
    found = set()
    for kind, name, sql in base.execute("SELECT type, name, sql FROM sqlite_master"):
        plain = _text(kind) == "table" and str(_text(sql)).startswith("CREATE TABLE ")
        if plain and isinstance(text := _text(name), str):
            found.add(text)
        elif _text(name) == _STORE:
            raise _refused("not_record", "the store is no plain table")
    return found


def _text(value: Any) -> Any:
    """A value of a row; None in place of a text that is not UTF-8."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _text_of(value: dict[str, Any]) -> str:
    """The text of an item; its JSON if it has none."""
    for name in _TEXTS:
        said = value.get(name)
        inner = said.get("content") if isinstance(said, dict) else said
        if isinstance(inner, str) and inner.strip():
            return inner
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _refused(rule: str, says: str) -> DocumentError:
    return DocumentError([Problem(rule, "", says)])


LANGGRAPH: Final = LangGraph()
