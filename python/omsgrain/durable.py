# SPDX-License-Identifier: Apache-2.0
"""Names of files, files that take the place of others, and names brought to the disk.

Without its name a file that is synced is lost.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO

from omsgrain.errors import StoreError

__all__ = ["file_path", "successor", "sync_directory"]

_LONGEST = 4_096 if os.name == "posix" else 32_767
"""Bytes: no system takes a longer path."""


def file_path(path: str | os.PathLike[str]) -> Path:
    """Return a path that the system can be asked for: from others comes what Python refuses.

    Raises:
        StoreError: no file can be called so.
    """
    path = Path(path)
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        name = b"\0"
    if b"\0" in name or len(name) > _LONGEST:
        raise StoreError(
            "no file can be called so", expected=f"a path of at most {_LONGEST} bytes, without NUL"
        )
    return path


def successor(path: Path, old: Path) -> BinaryIO:
    """Make a file that is to take the place of another, and open it for writing.

    Who may not read the old one may not read the new one either, from its first byte. Where there
    is no old one, the umask decides.

    Args:
        path: the new file; there must be nothing yet.
        old: what it will replace.

    Raises:
        OSError: it is there (FileExistsError), or cannot be made.
        StoreError: what it would replace is a device or a pipe.
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
