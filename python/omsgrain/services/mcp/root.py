# SPDX-License-Identifier: Apache-2.0
"""Files below one directory, and nowhere else.

A path is resolved, links and all, and must lead below the directory then. It is walked from there
step by step, following no link: what was put in its way since does not lead out either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

from omsgrain.services.mcp.problems import refuse

__all__ = ["Root"]

_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_FILE: Final = _NO_LINK | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _FILE  # a pipe must not keep us
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
_BY_STEPS: Final = os.open in os.supports_dir_fd


class Root:
    """The directory below which documents are read and written.

    Args:
        path: an existing directory; None: no path is taken.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = None if path is None else path.resolve(strict=True)

    def read(self, path: str, most: int, *, field: str) -> bytes:
        """Read a file.

        Args:
            path: below the root, or relative to it.
            most: bytes that are taken.
            field: the argument that the path is, for errors.

        Raises:
            UnsupportedError: the path is not below the root, no file, or of one too large; what
                is elsewhere makes no difference.
        """
        with self._parent(path, field) as (directory, name):
            try:
                number = os.open(name, _READ, dir_fd=directory)
            except (OSError, ValueError):
                raise refuse("no_file", field=field) from None
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                os.close(number)
                raise refuse("no_file", field=field)
            with open(number, "rb") as file:
                data = b"" if found.st_size > most else file.read(most + 1)
            if found.st_size > most or len(data) > most:
                raise refuse("too_large", field=field, expected=f"at most {most} bytes")
            return data

    def find(self, path: str, most: int, *, field: str) -> bytes | None:
        """Read the beginning of a file, if it is there; arguments are those of `read`."""
        with self._parent(path, field) as (directory, name), suppress(FileNotFoundError):
            number = os.open(name, _READ, dir_fd=directory)
            with open(number, "rb") as file:
                regular = stat.S_ISREG(os.fstat(number).st_mode)
                return file.read(most + 1) if regular else b""
        return None

    def write(self, path: str, data: bytes, *, field: str) -> str:
        """Write a new file, which only its owner may read.

        Args:
            path: below the root, or relative to it; there must be nothing yet.
            data: what is written.
            field: the argument that the path is, for errors.

        Returns:
            The path relative to the root.

        Raises:
            UnsupportedError: the path is not below the root, or cannot be made.
            OSError: the disk is full, say; there is no file then.
        """
        with self._parent(path, field) as (directory, name):
            partial = os.path.join(os.path.dirname(name), f".{token_hex(8)}.partial")
            try:
                number = os.open(partial, _WRITE, 0o600, dir_fd=directory)
            except OSError:
                raise refuse("file_exists", field=field) from None
            try:
                with open(number, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                try:  # never over what is there
                    os.link(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
                except (OSError, ValueError):
                    raise refuse("file_exists", field=field) from None
            finally:
                with suppress(OSError):
                    os.unlink(partial, dir_fd=directory)
            return self._below(path, field).as_posix()

    @contextmanager
    def _parent(self, path: str, field: str) -> Iterator[tuple[int | None, str]]:
        """The directory of a file, open, and the name of the file in it."""
        below = self._below(path, field)
        assert self._path is not None
        if not _BY_STEPS:
            yield None, os.fspath(self._path / below)
            return
        try:
            directory = os.open(self._path, _DIRECTORY)
        except OSError:
            raise refuse("no_file", field=field) from None
        try:
            for step in below.parts[:-1]:
                try:
                    inner = os.open(step, _DIRECTORY | _NO_LINK, dir_fd=directory)
                except OSError:
                    raise refuse("no_file", field=field) from None
                os.close(directory)
                directory = inner
            yield directory, below.name
        finally:
            os.close(directory)

    def _below(self, path: str, field: str) -> Path:
        """A path relative to the root, without links on its way."""
        if self._path is None:
            raise refuse("no_root", field=field)
        try:
            found = Path(os.path.realpath(self._path / path)).relative_to(self._path)
        except (OSError, ValueError, RuntimeError):
            raise refuse("outside_root", field=field) from None
        if not found.parts:
            raise refuse("no_file", field=field)
        return found
