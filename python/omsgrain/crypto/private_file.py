# SPDX-License-Identifier: Apache-2.0
"""Secrets in files: only their owner may read them, and writes are on the disk.

A new file has no name until it is complete. So a power cut leaves neither a partial file, nor a
temporary file with a secret. Linux has unnamed files; elsewhere the file has its name from the
start.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omsgrain.durable import DENIED, sync_directory
from omsgrain.errors import KeyMissingError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


_OTHERS = 0o077  # the permissions of group and others
_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
_FULL = getattr(fcntl, "F_FULLFSYNC", None)
_PIECE = 1 << 20
#: The path of an unnamed file.
_OPEN_FILES = Path("/proc/self/fd")
#: The longest wait, in seconds, for each piece of a key from a pipe.
_PATIENCE = 30.0
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
_NAMELESS = getattr(os, "O_TMPFILE", 0) if _OPEN_FILES.is_dir() else 0


def create(path: Path) -> int:
    """Open a new file, mode 0600, which gets its name with `appear`; never an existing file."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    if _NAMELESS:
        try:
            return os.open(path.parent, os.O_RDWR | _NAMELESS | _FLAGS, 0o600)
        except OSError:  # a file system without them; or the next call raises the reason
            pass
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)


def appear(handle: int, path: Path) -> None:
    """Give a new file its name, and sync that to the disk."""
    if not os.fstat(handle).st_nlink:
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.link(_OPEN_FILES / str(handle), path.name, dst_dir_fd=directory)
        finally:
            os.close(directory)
    sync_directory(path.parent)


def discard(handle: int, path: Path) -> None:
    """Close an unfinished new file, and remove it."""
    try:
        named = os.fstat(handle).st_nlink > 0
    finally:
        os.close(handle)
    if named:
        remove(path)


@contextmanager
def new_file(path: Path) -> Iterator[int]:
    """Yield a new file, mode 0600, that appears on the disk at the end of the block."""
    handle = create(path)
    try:
        yield handle
        sync(handle)
        appear(handle, path)
    except BaseException:
        discard(handle, path)
        raise
    os.close(handle)


def write_new(path: Path, data: bytes) -> None:
    """Write a new file; errors are those of `new_file`."""
    with new_file(path) as handle:
        write_at(handle, data, 0)


def open_private(path: Path) -> tuple[int, bool]:
    """Open a file that only its owner may read; also for writing, if possible."""
    readonly = False
    try:
        handle = os.open(path, os.O_RDWR | _FLAGS)
    except OSError as error:
        if error.errno not in DENIED:
            raise
        handle, readonly = os.open(path, os.O_RDONLY | _FLAGS), True
    try:
        refuse_others(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle, readonly


def read_key(path: str | Path, limit: int, *, private: bool = True) -> bytes:
    """Read a key from a file or a pipe."""
    handle = os.open(path, os.O_RDONLY | _FLAGS | _AT_ONCE)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise KeyMissingError("not a key file", expected="a file", found="a directory")
        if private:
            refuse_others(handle)
        data = b"".join(_pieces(handle, limit + 1))
    finally:
        os.close(handle)
    if len(data) > limit:
        raise KeyMissingError("not a key file", expected=f"at most {limit} bytes")
    if not data and stat.S_ISFIFO(mode):
        raise KeyMissingError("not a key file", expected="a key", found="a pipe without a writer")
    return data


def _pieces(handle: int, size: int) -> Iterator[bytes]:
    while size > 0:
        try:
            piece = os.read(handle, size)
        except BlockingIOError:  # a pipe whose writer has not written yet
            if not select.select([handle], [], [], _PATIENCE)[0]:
                raise KeyMissingError("the pipe with the key is empty for too long") from None
            continue
        if not piece:
            return
        size -= len(piece)
        yield piece


def refuse_others(handle: int) -> None:
    """Check that only its owner may use an open file."""
    mode = os.fstat(handle).st_mode
    if os.name == "posix" and mode & _OTHERS:
        raise KeyMissingError(
            "group or others may use the key file",
            expected="mode 0600",
            found=f"{mode & 0o777:04o}",
        )


def read_at(handle: int, size: int, offset: int) -> bytes:
    """Read that many bytes, or fewer at the end of the file."""
    if hasattr(os, "pread"):
        return os.pread(handle, size, offset)
    os.lseek(handle, offset, os.SEEK_SET)
    return os.read(handle, size)


def write_at(handle: int, data: bytes, offset: int) -> None:
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
    """Sync the file to the disk; macOS needs another call."""
    if fcntl is not None and _FULL is not None:
        try:
            fcntl.fcntl(handle, _FULL)
            return
        except OSError:  # a file system without it
            pass
    os.fsync(handle)


def remove(path: Path) -> None:
    """Overwrite a file, then remove it; a missing file is fine."""
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
