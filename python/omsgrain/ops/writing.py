# SPDX-License-Identifier: Apache-2.0
"""New files that appear whole and on the disk, or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType

from omsgrain.durable import successor, sync_directory

__all__ = ["NewFiles", "private_files", "refuse_existing", "write_new"]


def refuse_existing(path: Path, replace: bool) -> None:
    """See that a file may be written.

    Raises:
        FileExistsError: it is there, and is not to be replaced.
    """
    if not replace and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet.

    Raises:
        FileExistsError: it is there.
        OSError: it cannot be written.
    """
    with NewFiles() as files:
        files.add(path, [data])


@contextmanager
def private_files() -> Iterator[None]:
    """Files that are made in the block are for their owner alone, from their first byte."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


class NewFiles:
    """Some files that belong together. At the end of the block they get their names, in turn."""

    def __init__(self, *, replace: bool = False) -> None:
        """Begin.

        Args:
            replace: files that are there.
        """
        self._replace = replace
        self._waiting: list[tuple[Path, Path]] = []
        self._dropped: list[Path] = []

    def __enter__(self) -> NewFiles:
        return self

    def add(self, path: Path, pieces: Iterable[bytes]) -> Path:
        """Write a file, beside where it is to be; one that replaces another keeps its mode.

        Returns:
            Where it is until then.

        Raises:
            FileExistsError: it is there, and is not to be replaced.
            OSError: it cannot be written.
        """
        refuse_existing(path, self._replace)
        start = os.fsencode(path.name)[:100].decode("utf-8", "ignore")  # names have 255 bytes
        partial = path.with_name(f".{start}.{token_hex(4)}.partial")
        with successor(partial, path) as file:
            self._waiting.append((partial, path))
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        return partial

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
