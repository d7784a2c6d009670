# SPDX-License-Identifier: Apache-2.0
"""Compaction: a new data file with all rows in order, and nothing of what was removed.

LMDB keeps the pages of removed rows for use later, with their bytes in them, and the file never
shrinks. Here every table is copied, row by row in the order of its keys, into a file beside, which
then takes the place of the store's (``data_file.py``). Readers go on with the old file until their
snapshot ends; writers wait for their turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import lmdb

from omsgrain.errors import StoreError, UnsupportedError
from omsgrain.storage.base import CompactReport
from omsgrain.storage.lmdb.data_file import (
    DATA_FILE,
    MAX_TABLES,
    PART_DIRECTORY,
    clean,
    failure,
    replace,
    take_after,
)
from omsgrain.storage.lmdb.environment import Environment, extend
from omsgrain.storage.tables import TABLES, Table

if TYPE_CHECKING:
    from lmdb import Cursor

_ROWS = 20_000  # at the most in one snapshot of the old file
_BYTES = 4 << 20
_COMMIT = 64 << 20  # bytes of rows in a commit to the new file; LMDB keeps them in memory
_PLACE = 16

Row = tuple[bytes, bytes]


def compact(env: Environment) -> CompactReport:
    """Rewrite the store's file, without free pages, and put it in the place of the old one."""
    if os.name != "posix":
        raise UnsupportedError("compaction needs a system that can replace an open file")
    with env.exclusive():
        env.must_be_in_place()
        with env.reading():
            before, head, model = env.file_size(), env.file.head(), os.fstat(env.file.fd)
        try:
            _copy(env, model.st_mode & 0o777)
            take_after(env.path / PART_DIRECTORY / DATA_FILE, model)
            after = os.stat(env.path / PART_DIRECTORY / DATA_FILE).st_size
            env.must_be_in_place()
            replace(env.path, env.patience)
        except (lmdb.Error, OSError) as error:
            raise failure(env.path, "compact the store", error) from error
        finally:
            clean(env.path)
        with suppress(OSError):
            env.head_file.write(*head)
    return CompactReport(before, after)


def _copy(env: Environment, mode: int) -> None:
    """Write all rows to a file in ``data.part``, readable by its owner only, and sync it."""
    clean(env.path)
    part = env.path / PART_DIRECTORY
    part.mkdir()
    new = lmdb.open(
        os.fsencode(part),
        create=False,  # the directory
        lock=False,  # no other process has it
        map_size=max(env.map_size(), 2 * env.file_size()),
        sync=False,
        mode=mode,
        max_dbs=MAX_TABLES,
    )
    try:
        copy = _Copy(new, min(_COMMIT, env.budget.commit))
        with env.reading() as txn:
            names = {bytes(name) for name in txn.cursor().iternext(values=False)}
        if unknown := names.difference(table.name for table in TABLES):
            raise StoreError("the store has tables of another version", found=repr(min(unknown)))
        for table in TABLES:
            for rows in _rows(env, table):
                copy.add(table, rows)
            with env.reading() as txn:
                copy.compare(table, txn.stat(env.tables[table])["entries"])
        copy.end()
        with (part / DATA_FILE).open("rb+") as file:
            extend(new, file.fileno(), int(new.stat()["psize"]))
        new.sync(True)
    finally:
        new.close()


class _Copy:
    """Appends to the tables of the new file, in large commits."""

    def __init__(self, env: lmdb.Environment, most: int) -> None:
        self._env = env
        self._most = most
        self._begin()
        self._tables = {
            t: env.open_db(t.name, txn=self._txn, dupsort=t.places, dupfixed=t.places)
            for t in TABLES
        }

    def _begin(self) -> None:
        self._txn = self._env.begin(write=True)
        self._size = 0

    def add(self, table: Table, rows: list[Row]) -> None:
        with self._txn.cursor(self._tables[table]) as cursor:
            _, added = cursor.putmulti(rows, append=True)
        if added != len(rows):
            raise _damaged(table)
        self._size += _PLACE * len(rows) if table.places else sum(len(row[1]) for row in rows)
        if self._size > self._most:
            self._txn.commit()
            self._begin()

    def compare(self, table: Table, rows: int) -> None:
        if self._txn.stat(self._tables[table])["entries"] != rows:
            raise _damaged(table)

    def end(self) -> None:
        self._txn.commit()


def _rows(env: Environment, table: Table) -> Iterator[list[Row]]:
    """Walk the rows of a table by short snapshots; the caller keeps writers out."""
    key = value = b""
    while True:
        with env.reading() as txn, txn.cursor(env.tables[table]) as cursor:
            if not key:
                there = cursor.first()
            elif table.places:
                there = cursor.set_range_dup(key, value) and cursor.next()
            else:
                there = cursor.set_range(key) and cursor.next()
            rows = [] if not there else _some(cursor, table)
        if not rows:
            return
        yield rows
        key, value = rows[-1]


def _some(cursor: Cursor[bytes], table: Table) -> list[Row]:
    if table.places:
        return list(islice(cursor, _ROWS))
    rows: list[Row] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += len(row[1])
        if len(rows) == _ROWS or size > _BYTES:
            break
    return rows


def _damaged(table: Table) -> StoreError:
    return StoreError(f"the table {table.name.decode()} is damaged; look at what check() finds")
