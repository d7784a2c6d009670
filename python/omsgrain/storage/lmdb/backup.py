# SPDX-License-Identifier: Apache-2.0
"""Copies of a store as directories: made under another name, and named once they are complete."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from omsgrain.errors import StoreError
from omsgrain.storage.lmdb.data_file import DATA_FILE, HEAD_FILE, failure, sync_names
from omsgrain.storage.lmdb.environment import Environment, HeadFile
from omsgrain.storage.tables import FORMAT_RECORD, HEAD, HEAD_RECORD, META, Table

if TYPE_CHECKING:
    from omsgrain.storage.lmdb.storage import LmdbStorage
    from omsgrain.storage.lmdb.writer import LmdbWriter

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def must_be_new(path: Path) -> None:
    try:
        there = path.exists()
    except OSError as error:  # a name that is too long
        raise failure(path, "look at", error) from error
    if there:
        raise StoreError(f"there is something at {str(path)!r} already", expected="a new path")


@contextmanager
def appearing(path: Path, doing: str = "make the backup") -> Iterator[Path]:
    """A directory that gets its name when the block ends well, and is gone when it does not.

    Until then it is in ``.NAME.part`` beside, which no other user may read. What a killed process
    left there is removed first: it has all that is in a store.
    """
    must_be_new(path)
    part = path.with_name(f".{path.name}.part")
    made = part / path.name
    try:
        with _own(part, path.name):
            made.mkdir()
            yield made
            os.rename(made, path)
            sync_names(path)
    except (lmdb.Error, OSError) as error:
        raise failure(path, doing, error) from error


@contextmanager
def _own(part: Path, name: str) -> Iterator[None]:
    """Have a directory for oneself, and remove it in the end."""
    with suppress(FileExistsError):
        part.mkdir(mode=0o700)
    held = os.open(part, _DIRECTORY) if fcntl is not None else None
    try:
        if held is not None:
            if os.fstat(held).st_uid != os.geteuid():  # where all may write, say
                raise FileExistsError(errno.EEXIST, "the directory belongs to another user")
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(f"another process is making {str(part)!r} just now") from None
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

    The copy appears whole or not at all. Only those who may read the store may read it.
    """
    with appearing(path) as made:
        _fill(made, env)


def _fill(made: Path, env: Environment) -> None:
    env.copy(made)
    _finish(made)
    for file in made.iterdir():
        file.chmod(_no_wider(file, env.path / DATA_FILE) | 0o600)
    made.chmod(_no_wider(made, env.path) | 0o700)


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


def restore_copy(source: Path, made: Path) -> None:
    """Check a copy of a store completely, and copy it to an empty directory."""
    from omsgrain.storage.check import check_in_child
    from omsgrain.storage.lmdb.storage import LmdbStorage

    report = check_in_child(source)
    if not report.ok:
        raise StoreError(
            f"the backup {str(source)!r} is not as it was made",
            expected="a check without problems",
            found=report.problems[0].message,
        )
    with closing(LmdbStorage(source, readonly=True)) as backup:
        _fill(made, backup.env())


# --- rows of another storage ---------------------------------------------------------------------

_OWN = {FORMAT_RECORD, HEAD_RECORD}
Appendable = tuple[int, bytes, bytes]
"""A sequence number, the digest of a blob, and the blob."""


def add_rows(target: LmdbStorage, table: Table, rows: Sequence[tuple[bytes, bytes]]) -> None:
    """Add rows of a table that another storage has, except the records about its own files."""
    if table is META:
        rows = [row for row in rows if row[0] not in _OWN]
    target.write(lambda writer: writer.set_rows(table, rows))


def add_grains(target: LmdbStorage, grains: Sequence[Appendable]) -> None:
    """Append grains under the numbers that they have in another storage.

    Their states must be there already: index rows depend on them.
    """
    target.write(partial(_append, grains=grains))


def _append(writer: LmdbWriter, *, grains: Sequence[Appendable]) -> None:
    # A run ends where a number is missing.
    for _, run in groupby(enumerate(grains), lambda one: one[1][0] - one[0]):
        some = [grain for _, grain in run]
        writer.append(some[0][0], [(digest, blob) for _, digest, blob in some])
