# SPDX-License-Identifier: Apache-2.0
"""Compact and rebuild a store on disk.

LMDB keeps the pages of removed rows for later use, with their bytes in them, and the file never
shrinks. A compaction copies every table, row by row in the order of its keys, into a new file,
which then replaces the store's (``data_file.py``). Readers continue with the old file until their
snapshot ends; writers wait for their turn.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import lmdb

from omsgrain.errors import IntegrityError, StoreError, UnsupportedError
from omsgrain.storage import mentions
from omsgrain.storage.base import CompactReport, RebuildReport, Writer
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
from omsgrain.storage.lmdb.memtable import RUN, Memtable
from omsgrain.storage.lmdb.writer import LmdbWriter
from omsgrain.storage.records import removed_digests, unpack
from omsgrain.storage.tables import (
    ADDRESS,
    ADDRESSES,
    BLOBS,
    MARK,
    OLD_ADDRESSES,
    SEQUENCE,
    STATES,
    SUPERSEDES,
    TABLES,
    Table,
)

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
            before, head, model = env.file.size(), env.file.head(), os.fstat(env.file.fd)
        try:
            _write_compacted(env, model.st_mode & 0o777)
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


def _write_compacted(env: Environment, mode: int) -> None:
    """Write all rows to a file in ``data.part``, readable by its owner only, and sync it."""
    clean(env.path)
    part = env.path / PART_DIRECTORY
    part.mkdir()
    new = lmdb.open(
        os.fsencode(part),
        create=False,  # the directory
        lock=False,  # no other process has it
        map_size=max(env.file.map_size(), 2 * env.file.size()),
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


def rebuild(writer: LmdbWriter) -> RebuildReport:
    """Rebuild all that follows from the blobs and their states.

    That is: the terms, the addresses that are missing or lead nowhere, the way from a grain to
    those that it superseded, and the counts.
    """
    writer.drop_terms()
    damaged: list[int] = []
    grains = rows = readdressed = after = blob_bytes = 0
    paths = writer.indexed_paths()
    run = Memtable(0, paths=paths)

    def write_run() -> None:
        nonlocal grains, rows, readdressed, run
        missing = {d: n for d, n in run.digests.items() if not writer.has_address(d, n)}
        writer.add_addresses(missing)
        writer.add_rows(run)
        grains, rows = grains + len(run.digests), rows + run.tail.rows()
        readdressed += len(missing)
        run = Memtable(0, paths=paths)

    while page := writer.hashed_page(after):
        after = page[-1][0]
        blob_bytes += sum(len(blob) for _, blob, _ in page)
        damaged += [seq for seq, _, digest in page if digest is None]
        good = [(seq, blob, digest) for seq, blob, digest in page if digest is not None]
        run.digests.update((digest, seq) for seq, _, digest in good)
        run.add_rows(good)
        if len(run.digests) >= RUN:
            write_run()
    write_run()
    readdressed += _lead_to_damaged(writer, damaged)
    if writer.addresses() > grains + len(damaged):
        _drop_stray_addresses(writer, set(damaged))
    lead_back(writer)
    mentions.forget(writer)
    counts = {"grains": grains + len(damaged), "blob_bytes": blob_bytes}
    writer.head = writer.head._replace(**counts)
    writer.set_watermark()
    return RebuildReport(grains, rows, readdressed, tuple(damaged))


def _lead_to_damaged(writer: LmdbWriter, damaged: list[int]) -> int:
    """Add missing addresses of damaged blobs, as their marks begin; return how many."""
    missing = {}
    for seq in damaged:
        mark = (writer.row(BLOBS, SEQUENCE.pack(seq)) or b"")[:MARK].ljust(32, b"\0")
        if not writer.has_address(mark, seq):
            missing[mark] = seq
    writer.add_addresses(missing)
    return len(missing)


def _drop_stray_addresses(writer: LmdbWriter, damaged: Container[int]) -> None:
    """Drop addresses without a grain; a damaged blob keeps the one that it was put under."""
    for table in (ADDRESSES, OLD_ADDRESSES):
        for key, _ in writer.rows(table):
            seq = int.from_bytes(key[ADDRESS:], "big")
            blob = writer.row(BLOBS, SEQUENCE.pack(seq))
            if blob is None or (seq not in damaged and blob[:ADDRESS] != key[:ADDRESS]):
                writer.set_row(table, key, None)


def lead_back(writer: Writer) -> None:
    """Rebuild the table that leads from a grain to those that it superseded."""
    there = {key for key, _ in writer.rows(SUPERSEDES)}
    removed = removed_digests(writer)
    wanted = set()
    for old, row in writer.rows(STATES):
        with suppress(IntegrityError):  # for check() to tell
            successors = [bytes.fromhex(address) for address in unpack(row).successors]
            for digest, new in zip(successors, writer.find(successors), strict=True):
                key = b"" if new is None else SEQUENCE.pack(new) + old
                # One that was removed and put again has superseded nothing since.
                if new is not None and (key in there or digest not in removed):
                    wanted.add(key)
    for key in there - wanted:
        writer.set_row(SUPERSEDES, key, None)
    for key in wanted - there:
        writer.set_row(SUPERSEDES, key, b"")
