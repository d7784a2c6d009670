# SPDX-License-Identifier: Apache-2.0
"""Secrets in files: only their owner may read them, and what was written is on the disk."""

from __future__ import annotations

import os
from pathlib import Path

from omsgrain.errors import KeyMissingError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "create",
    "open_private",
    "read_at",
    "refuse_others",
    "remove",
    "sync",
    "sync_names",
    "write_at",
    "zero",
]

_OTHERS = 0o077  # what group and others may do
_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
_FULL = getattr(fcntl, "F_FULLFSYNC", None)
_PIECE = 1 << 20


def create(path: Path) -> int:
    """Open a new file, mode 0600; one that is there is never opened.

    Raises:
        OSError: it is there (FileExistsError), or cannot be made.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)


def open_private(path: Path) -> int:
    """Open a file to read and write that only its owner may read.

    Raises:
        KeyMissingError: others may read it (Windows is not asked).
        OSError: it cannot be opened.
    """
    handle = os.open(path, os.O_RDWR | _FLAGS)
    try:
        refuse_others(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


def refuse_others(handle: int) -> None:
    """See that only its owner may use an open file.

    Raises:
        KeyMissingError: others may (Windows is not asked).
    """
    mode = os.fstat(handle).st_mode
    if os.name == "posix" and mode & _OTHERS:
        raise KeyMissingError(
            "a key file that others may use", expected="mode 0600", found=f"{mode & 0o777:04o}"
        )


def read_at(handle: int, size: int, offset: int) -> bytes:
    """Read so many bytes, or fewer where the file ends."""
    if hasattr(os, "pread"):
        return os.pread(handle, size, offset)
    os.lseek(handle, offset, os.SEEK_SET)
    return os.read(handle, size)


def write_at(handle: int, data: bytes, offset: int) -> None:
    """Write all of the data."""
    while data:
        if hasattr(os, "pwrite"):
            done = os.pwrite(handle, data, offset)
        else:
            os.lseek(handle, offset, os.SEEK_SET)
            done = os.write(handle, data)
        data, offset = data[done:], offset + done


def zero(handle: int, start: int, end: int) -> None:
    """Overwrite a part of the file in place."""
    for offset in range(start, end, _PIECE):
        write_at(handle, bytes(min(_PIECE, end - offset)), offset)


def sync(handle: int) -> None:
    """Bring what was written to the medium; macOS has to be asked in another way."""
    if fcntl is not None and _FULL is not None:
        try:
            fcntl.fcntl(handle, _FULL)
            return
        except OSError:  # a file system without it
            pass
    os.fsync(handle)


def sync_names(directory: Path) -> None:
    """Bring the names of files to the medium."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Overwrite a file, then remove it; one that is not there is as good."""
    try:
        handle = os.open(path, os.O_RDWR | _FLAGS)
    except FileNotFoundError:
        return
    try:
        zero(handle, 0, os.fstat(handle).st_size)
        sync(handle)
    finally:
        os.close(handle)
    path.unlink(missing_ok=True)
