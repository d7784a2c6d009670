# SPDX-License-Identifier: Apache-2.0
"""Make the index of a store again from its blobs; bring an older store to the format of today."""

from __future__ import annotations

from contextlib import suppress

from omsgrain.errors import IntegrityError
from omsgrain.storage import mentions
from omsgrain.storage.base import RebuildReport, Writer
from omsgrain.storage.lmdb.environment import Environment
from omsgrain.storage.lmdb.memtable import RUN, Memtable
from omsgrain.storage.lmdb.writer import LmdbWriter
from omsgrain.storage.records import unpack
from omsgrain.storage.tables import (
    ADDRESSES,
    BLOBS,
    DELETED,
    EVENT,
    EVENTS,
    FORMAT,
    FORMAT_RECORD,
    FORMAT_VALUE,
    META,
    SEQUENCE,
    STATES,
    SUPERSEDES,
)


def rebuild(writer: LmdbWriter) -> RebuildReport:
    """Rebuild all that follows from the blobs and their states.

    That is: the terms, the addresses that are missing or lead nowhere, the way from a grain to
    those that it superseded, and the counts.
    """
    writer.drop_terms()
    damaged: list[int] = []
    grains = rows = readdressed = after = blob_bytes = 0
    run = Memtable(0)

    def write_run() -> None:
        nonlocal grains, rows, readdressed, run
        missing = {d: seq for d, seq in run.digests.items() if writer.row_of(d) != seq}
        writer.add_addresses(missing)
        writer.add_rows(run)
        grains, rows = grains + len(run.digests), rows + run.tail.rows()
        readdressed += len(missing)
        run = Memtable(0)

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
    if writer.entries(ADDRESSES) > grains:
        _drop_stray_addresses(writer)
    lead_back(writer)
    mentions.forget(writer)
    counts = {"grains": grains + len(damaged), "blob_bytes": blob_bytes}
    writer.head = writer.head._replace(**counts)
    writer.set_watermark()
    return RebuildReport(grains, rows, readdressed, tuple(damaged))


def _drop_stray_addresses(writer: LmdbWriter) -> None:
    """Drop addresses without a grain; a damaged blob keeps the one that it was put under."""
    for digest, row in writer.rows(ADDRESSES):
        if len(row) != SEQUENCE.size or writer.row(BLOBS, row) is None:
            writer.set_row(ADDRESSES, digest, None)


def lead_back(writer: Writer) -> None:
    """Rebuild the table that leads from a grain to those that it superseded."""
    there = {key for key, _ in writer.rows(SUPERSEDES)}
    removed = {
        EVENT.unpack(row)[2]
        for _, row in writer.rows(EVENTS)
        if len(row) == EVENT.size and row[:1] == DELETED
    }
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


_DROPPED = b"terms-0"


def upgrade(env: Environment) -> None:
    """Bring a store that is open for writing to the format of today."""

    def work(writer: LmdbWriter) -> None:
        before = writer.row(META, FORMAT_RECORD)
        if before == FORMAT_VALUE.pack(FORMAT):
            return  # another process was here before
        writer.set_row(META, FORMAT_RECORD, FORMAT_VALUE.pack(FORMAT))
        if before == FORMAT_VALUE.pack(1):
            rebuild(writer)
            writer.drop_table(env.file.env, _DROPPED)

    env.write(work, alone=True)
    env.file.format = FORMAT
