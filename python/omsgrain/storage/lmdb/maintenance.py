# SPDX-License-Identifier: Apache-2.0
"""Keeping a store well: making its index anew, and copying it while it is in use."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import lmdb

from omsgrain.errors import IntegrityError, StoreError
from omsgrain.storage import mentions
from omsgrain.storage.base import RebuildReport, Writer
from omsgrain.storage.lmdb.data_file import DATA_FILE, HEAD_FILE, failure, sync_names
from omsgrain.storage.lmdb.environment import Environment, HeadFile
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
    HEAD,
    HEAD_RECORD,
    META,
    SEQUENCE,
    STATES,
    SUPERSEDES,
)

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def rebuild(writer: LmdbWriter) -> RebuildReport:
    """Make anew all that follows from the blobs and their states.

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
    """Make the table anew that leads from a grain to those that it superseded."""
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


def must_be_new(path: Path) -> None:
    """Refuse to write where something is."""
    try:
        there = path.exists()
    except OSError as error:  # a name that is too long
        raise failure(path, "look at", error) from error
    if there:
        raise StoreError(f"there is something at {str(path)!r} already", expected="a new path")


@contextmanager
def appearing(path: Path, like: Path | None = None) -> Iterator[Path]:
    """A directory that gets its name when the block ends well, and is gone when it does not.

    Until then it is in ``.NAME.part`` beside, where nobody else may read. What a process that was
    killed left there goes first: it has all that is in a store.
    """
    must_be_new(path)
    part = path.with_name(f".{path.name}.part")
    made = part / path.name
    try:
        with _own(part, path.name):
            made.mkdir()
            yield made
            made.chmod(_no_wider(made, like or made) | 0o700)
            os.rename(made, path)
            sync_names(path)
    except (lmdb.Error, OSError) as error:
        raise failure(path, "make the backup", error) from error


@contextmanager
def _own(part: Path, name: str) -> Iterator[None]:
    """Have a directory for oneself, and remove it in the end."""
    with suppress(FileExistsError):
        part.mkdir(mode=0o700)
    held = os.open(part, _DIRECTORY) if fcntl is not None else None
    try:
        if held is not None:
            if os.fstat(held).st_uid != os.geteuid():  # where all may write, say
                raise FileExistsError(errno.EEXIST, "there is a directory of somebody else")
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(f"somebody is making {str(part)!r} just now") from None
        for left in part.iterdir():
            if left.name != name:
                raise FileExistsError(errno.EEXIST, "there is a directory with something else")
            shutil.rmtree(left)
        try:
            yield
        finally:
            shutil.rmtree(part, ignore_errors=True)
    finally:
        if held is not None:
            os.close(held)


def _no_wider(path: Path, like: Path) -> int:
    """The permissions that both files give."""
    return path.stat().st_mode & like.stat().st_mode & 0o777


def copy(env: Environment, path: Path) -> None:
    """Copy a store as it is now to a directory that is not there yet.

    The copy appears whole or not at all, and nobody may read it who may not read the store.
    """
    with appearing(path, env.path) as made:
        env.copy(made)
        _finish(made)
        for file in made.iterdir():
            file.chmod(_no_wider(file, env.path / DATA_FILE) | 0o600)


def _finish(made: Path) -> None:
    """Give a copied data file its note of how far it has come, and see that the disk has both."""
    with lmdb.open(os.fsencode(made), readonly=True, lock=False, max_dbs=1) as copied:
        meta = copied.open_db(META.name, create=False)
        with copied.begin(db=meta) as txn:
            record = txn.get(HEAD_RECORD)
    if record is not None:
        side = HeadFile(made / HEAD_FILE)
        side.write(*HEAD.unpack(record)[:2])
        side.close()
    for file in made.iterdir():
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())


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
