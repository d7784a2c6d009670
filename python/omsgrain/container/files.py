# SPDX-License-Identifier: Apache-2.0
"""Names of container files, and what the system says of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from omsgrain.durable import file_path
from omsgrain.errors import NotFoundError, StoreError


@contextmanager
def os_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a StoreError."""
    try:
        yield
    except OSError as error:
        kind = NotFoundError if isinstance(error, FileNotFoundError) else StoreError
        reason = error.strerror or type(error).__name__
        raise kind(f"could not {doing} {str(path)!r}", found=reason) from error


def target_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is to be written.

    Raises:
        StoreError: no file can be called so.
    """
    path = file_path(path)
    if not path.name:
        raise StoreError(f"could not write {str(path)!r}", expected="the name of a file")
    return path


def part(path: Path, number: int) -> Path:
    """The name of the n-th file, from 1, of what is too large for one. Spec: OMS §11."""
    return path.with_name(f"{path.stem}-{number:04d}{path.suffix}")


def parts(path: str | os.PathLike[str]) -> list[Path]:
    """The files of an export: the path itself, or ``name-0001.mg`` and those that follow.

    Raises:
        NotFoundError: there is neither.
        StoreError: no file can be called so.
    """
    path = file_path(path)
    found: list[Path] = []
    with os_errors("open", path):
        if path.exists():
            return [path]
        while (next_part := part(path, len(found) + 1)).exists():
            found.append(next_part)
    if not found:
        raise NotFoundError(f"there is neither {str(path)!r} nor {str(part(path, 1))!r}")
    return found


@contextmanager
def spool(directory: Path) -> Iterator[IO[bytes]]:
    """A file without a name, on the disk that the result goes to."""
    with os_errors("write to", directory):
        file = tempfile.TemporaryFile(dir=directory)
    try:
        yield file
    finally:
        # On a full disk closing fails too, and would hide what happened first.
        with suppress(OSError):
            file.close()
