# SPDX-License-Identifier: Apache-2.0
"""Stores with words in them, and text indexes of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain.search.text import TextIndex, TextMatches, texts_of
from omsgrain.search.text_file import SqliteTextIndex
from omsgrain.storage.base import TEXT_FILE, Storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.location import Budget
from omsgrain.storage.tables import DELETED
from support.store_kinds import made

CREATED = 1_768_471_200_000


def event(content: str, **fields: Any) -> bytes:
    return og.encode({"type": "event", "content": content, "created_at": CREATED, **fields})


def put(store: Storage, *blobs: bytes) -> list[int]:
    pairs = [(sha256(blob).digest(), blob) for blob in blobs]
    store.write(lambda writer: writer.put(pairs))
    with store.read() as reader:
        return [seq for seq in reader.find([digest for digest, _ in pairs]) if seq]


def say(store: Storage, *contents: str) -> list[int]:
    return put(store, *map(event, contents))


def remove(store: Storage, *seqs: int) -> None:
    """Remove grains as the engine does: the grain and the event in one commit."""

    def work(writer: Any) -> None:
        for seq in seqs:
            digest = sha256(writer.blob_at(seq)).digest()
            writer.remove(seq)
            writer.event(DELETED, seq, digest)

    store.write(work)


def seqs(found: TextMatches) -> list[int]:
    return [match.seq for match in found.matches]


@contextmanager
def texts_in(kind: str, path: Path) -> Iterator[TextIndex]:
    """An index in memory, or one in PostgreSQL; it is of whatever store feeds it."""
    if kind != "postgres":
        with closing(SqliteTextIndex(None)) as index:
            yield index
        return
    with closing(made(kind, path)) as store, closing(texts_of(store, Budget())) as index:
        yield index


class Opened:
    """Opens indexes, and closes them all at the end."""

    def __init__(self) -> None:
        self._indexes: list[SqliteTextIndex] = []

    def __call__(self, path: Path | None, *, readonly: bool = False) -> SqliteTextIndex:
        self._indexes.append(SqliteTextIndex(path, readonly=readonly))
        return self._indexes[-1]

    def close(self) -> None:
        for index in self._indexes:
            index.close()


def grown(disk: LmdbStorage, count: int = 300) -> Path:
    """An index of so many grains, in its file."""
    say(disk, *(f"owl number {n} sees shelf {n % 7}" for n in range(count)))
    index = SqliteTextIndex(disk.path / TEXT_FILE)
    index.catch_up(disk.read)
    index.close()
    assert [p.name for p in disk.path.glob("text.db*")] == [TEXT_FILE]
    return disk.path / TEXT_FILE


def answers(index: TextIndex, store: Storage) -> list[list[int]]:
    return [
        seqs(index.search(store.read, query, limit=400))
        for query in ("owl", '"shelf 3"', "17", "num*", "+sees -2", "nothing")
    ]


def truth(store: Storage) -> list[list[int]]:
    index = SqliteTextIndex(None)
    try:
        return answers(index, store)
    finally:
        index.close()
