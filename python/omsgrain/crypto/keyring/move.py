# SPDX-License-Identifier: Apache-2.0
"""A key file written anew, and put in the place of the old one, which is overwritten.

    .NAME.rekey-new    the new one while it is written
    .NAME.rekey-old    another name of the old one until it is overwritten

Both go at the next turn, if whoever made them was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from omsgrain.crypto import disk
from omsgrain.crypto.keyring.file import START, RingFile
from omsgrain.crypto.keyring.lock import lock
from omsgrain.crypto.keyring.record import Record
from omsgrain.durable import sync_directory
from omsgrain.errors import KeyMissingError

__all__ = ["bury", "has_leftovers", "rewrite", "steady", "swap", "tidy", "write_copy"]

_PIECE = 1 << 20

T = TypeVar("T")


def _new(path: Path) -> Path:
    return path.with_name(f".{path.name}.rekey-new")


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.rekey-old")


def steady(path: Path, read: Callable[[], T]) -> T:
    """Read a key file; again, if another one took its place meanwhile.

    Raises:
        KeyMissingError: as from ``read``, where the file is still the one.
    """
    while True:
        before = _identity(path)
        try:
            return read()
        except KeyMissingError:
            if _identity(path) == before:
                raise


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def has_leftovers(path: Path) -> bool:
    """Tell whether a file was being written anew."""
    return _new(path).exists() or _old(path).exists()


def tidy(path: Path) -> None:
    """Do away with what a process that was killed has left; the turn is the caller's."""
    old = _old(path)
    with suppress(FileNotFoundError):
        if os.path.samefile(old, path):
            old.unlink()  # it was killed before it came to put the new one in its place
    disk.remove(old)
    disk.remove(_new(path))


def rewrite(
    file: RingFile, wrapped: bytes, generation: int, copy: Callable[[Record, int], bytes]
) -> RingFile:
    """Write the new file beside the old; it is locked from the start."""
    return write_copy(file, _new(file.path), wrapped, generation, copy)


def write_copy(
    file: RingFile,
    path: Path,
    wrapped: bytes,
    generation: int,
    copy: Callable[[Record, int], bytes],
) -> RingFile:
    """Write the records of a file into a new one; it is on the disk when this returns.

    Raises:
        OSError: it is there (FileExistsError), or cannot be written.
    """
    fresh = RingFile.create(path, wrapped, generation)
    try:
        lock(fresh.handle)
        end, piece = START, bytearray()
        for offset, record in file.records(START):
            piece += copy(record, offset)
            if len(piece) >= _PIECE:
                disk.write_at(fresh.handle, bytes(piece), end)
                end, piece = end + len(piece), bytearray()
        disk.write_at(fresh.handle, bytes(piece), end)
        end, head = end + len(piece), file.head
        fresh.commit(fresh.head.next(end=end, records=head.records, erased=head.erased))
        fresh.appear()
    except BaseException:
        fresh.discard()
        raise
    return fresh


def swap(file: RingFile, fresh: RingFile) -> None:
    """Put the new file in the place of the old one.

    Raises:
        OSError: that is not possible; the new one is gone, the old one as it was.
    """
    path, old = file.path, _old(file.path)
    try:
        with suppress(OSError):  # not every file system has links; then it may stay unwiped
            os.link(path, old)
        os.replace(fresh.path, path)
    except BaseException:
        old.unlink(missing_ok=True)
        fresh.close()
        disk.remove(fresh.path)
        raise
    fresh.path = path
    sync_directory(path.parent)


def bury(file: RingFile) -> None:
    """Overwrite the old file; who has it open sees that by its slots and opens the new one."""
    try:
        disk.zero(file.handle, 0, os.fstat(file.handle).st_size)
        file.sync()
        _old(file.path).unlink(missing_ok=True)
    finally:
        file.close()
