# SPDX-License-Identifier: Apache-2.0
"""Paths, files that replace others, directories synced to the disk, and refusals of the system.

A synced file is lost if its directory entry is not synced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from types import TracebackType
from typing import BinaryIO

from omsgrain.errors import AccessDeniedError, DiskFullError, StoreError

_LONGEST = 4_096 if os.name == "posix" else 32_767
"""Bytes: no system takes a longer path."""
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)
_ROOM = 4 << 20  # bytes; more than the largest grain


def file_path(path: str | os.PathLike[str]) -> Path:
    """Return the path; refuse one that Python or the system cannot open."""
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        name = b"\0"
    if b"\0" in name or not 0 < len(name) <= _LONGEST:  # Python takes "" for the directory
        raise StoreError(
            "no file can be called so", expected=f"a path of 1 to {_LONGEST} bytes, without NUL"
        )
    return Path(path)


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file or directory from any other here; None if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return (stat.st_dev, stat.st_ino)


def store_error(
    path: Path, doing: str, error: BaseException, kind: type[StoreError] = StoreError
) -> StoreError:
    """Make the StoreError for a refusal of the system: full, not allowed, or else of a kind."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    number = getattr(error, "errno", None)
    if number in _FULL or any(os.strerror(one) in reason for one in _FULL):
        kind = DiskFullError
    elif os.strerror(errno.EIO) in reason and _is_full(path):
        # LMDB says so of a write that ended half way, for want of room.
        kind, reason = DiskFullError, os.strerror(errno.ENOSPC)
    elif number in DENIED:
        kind = AccessDeniedError
    return kind(f"could not {doing} {str(path)!r}", found=reason)


def _is_full(path: Path) -> bool:
    """Whether a commit of a usual size finds no room beside the store."""
    try:
        from tempfile import TemporaryFile  # slow to import, and needed after a failed commit only

        with TemporaryFile(dir=path) as file:
            file.write(bytes(_ROOM))
    except OSError as error:
        return error.errno in _FULL
    return False


def successor(path: Path, old: Path) -> BinaryIO:
    """Make a file that is to take the place of another, and open it for writing.

    A user who may not read the old file may not read the new one, from its first byte. Without an
    old file the umask decides.
    """
    if os.name != "posix":
        return path.open("xb")  # elsewhere the directory says who may read
    try:
        before = os.stat(old)
    except OSError:
        return path.open("xb")
    if S_ISDIR(before.st_mode):
        return path.open("xb")  # which cannot get the name
    if not S_ISREG(before.st_mode) or _names_open_file(old):
        # The name of a device can be taken, by root: without /dev/null no shell works any more.
        raise StoreError(
            f"could not write {str(old)!r}", expected="a file", found="a device or pipe"
        )
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    mode = before.st_mode & 0o777
    handle = os.open(path, flags, mode & ~0o070)  # the group may be another one
    with suppress(OSError):  # then fewer may read it
        if before.st_uid == os.geteuid():  # of somebody else's file the umask takes its part
            if before.st_gid != os.fstat(handle).st_gid:
                os.fchown(handle, -1, before.st_gid)
            os.fchmod(handle, mode)
    return os.fdopen(handle, "wb")


def _names_open_file(path: Path) -> bool:
    """Whether it is as /dev/stdout, a link to whatever a process has open."""
    return path.is_symlink() and os.readlink(path).startswith(("/proc/", "/dev/fd/"))


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    if os.name != "posix":
        return  # elsewhere a directory cannot be opened to be synced
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def refuse_existing(path: Path, replace: bool) -> None:
    """See that a file may be written."""
    if not replace and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet."""
    with NewFiles() as files:
        files.add(path, [data])


@contextmanager
def private_files() -> Iterator[None]:
    """Make the files of the block private to their owner from their first byte."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


class NewFiles:
    """Files that belong together. They get their names in turn at the end of the block."""

    def __init__(self, *, replace: bool = False) -> None:
        """Begin."""
        self._replace = replace
        self._waiting: list[tuple[Path, Path]] = []
        self._dropped: list[Path] = []

    def __enter__(self) -> NewFiles:
        return self

    def add(self, path: Path, pieces: Iterable[bytes]) -> Path:
        """Write a file, and return where it is until the end of the block."""
        with self.open(path) as file:
            for piece in pieces:
                file.write(piece)
        return self._waiting[-1][0]

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        """Write a file, beside where it is to be; one that replaces another keeps its mode."""
        refuse_existing(path, self._replace)
        start = os.fsencode(path.name)[:100].decode("utf-8", "ignore")  # names have 255 bytes
        partial = path.with_name(f".{start}.{os.urandom(4).hex()}.partial")
        with successor(partial, path) as file:
            self._waiting.append((partial, path))
            yield file
            file.flush()
            os.fsync(file.fileno())

    def drop(self, path: Path) -> None:
        """Remove a file that belongs to one that is replaced."""
        self._dropped.append(path)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                for path in self._dropped:
                    path.unlink(missing_ok=True)
                for file, path in self._waiting:
                    refuse_existing(path, self._replace)
                    os.replace(file, path)
                for directory in {path.parent for _, path in self._waiting}:
                    sync_directory(directory)
        finally:
            for file, _ in self._waiting:
                with suppress(OSError):
                    file.unlink()
