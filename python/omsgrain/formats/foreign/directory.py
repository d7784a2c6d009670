# SPDX-License-Identifier: Apache-2.0
"""The files of a directory that another system keeps: bounded, in order, and no links.

A symbolic link is reported and never followed, so nothing outside of the directory is read.
"""

from __future__ import annotations

import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from omsgrain.errors import SchemaError
from omsgrain.formats import json_text, times
from omsgrain.formats.document import Import
from omsgrain.formats.foreign.base import LIMITS, ForeignFormat, ForeignLimits, Translation
from omsgrain.formats.json_text import pointer_to
from omsgrain.formats.problems import DocumentFindings

_ENTRIES: Final = 1_000_000
"""Entries of directories that are looked at; a source tree has many that are no memory."""
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class TextFile(NamedTuple):
    name: str  # its path in the directory, with slashes
    text: str
    changed: str  # when it was changed, as MIF spells times

    @property
    def pointer(self) -> str:
        return pointer_to((self.name,))


class DirectoryFormat(ForeignFormat):
    """A format of another system whose documents are directories of text files."""

    reads_directories = True

    @abstractmethod
    def is_file(self, root: Path, name: str) -> bool:
        """Whether a file, by its path in the directory, belongs to the memory."""

    @abstractmethod
    def file(self, file: TextFile, into: Translation) -> None:
        """Make records of one file."""

    def files_in(self, root: Path) -> Iterator[Path]:
        return (path for path in _walk(root, LIMITS, _ignore) if self._has(root, path))

    def load_directory(
        self, root: Path, *, user_id: str | None = None, limits: ForeignLimits = LIMITS
    ) -> Import:
        into = Translation(self, limits)
        others = files = 0
        left = limits.document
        for path in _walk(root, limits, into.skip):
            if not self._has(root, path):
                others += 1
                continue
            files += 1
            if files > limits.files:
                most = f"at most {limits.files}"
                raise SchemaError("the directory has too many files", expected=most)
            name = path.relative_to(root).as_posix()
            data, changed = _read(path, left)
            left -= len(data)
            if left < 0:
                raise json_text.too_large(f"{limits.document} bytes in all files", "more")
            try:
                text = data.removeprefix(json_text.MARK).decode()
                name.encode()
            except UnicodeError:
                into.skip("not_text", pointer_to((name.encode("ascii", "replace").decode(),)))
                continue
            self.file(TextFile(name, text, changed), into)
        into.left_out("files", others, "", "no files of this format")
        return into.imported(user_id)

    def check_directory(self, root: Path) -> DocumentFindings:
        return self.checked(str(root), lambda: self.load_directory(root))

    def translate(self, data: bytes, into: Translation) -> None:
        raise SchemaError(f"{self.title} is a directory", field="/format", found="a file")

    def _has(self, root: Path, path: Path) -> bool:
        return self.is_file(root, path.relative_to(root).as_posix())


def _ignore(rule: str, at: str) -> None:
    pass


def _walk(root: Path, limits: ForeignLimits, skip: Callable[[str, str], Any]) -> Iterator[Path]:
    """The regular files of a directory and those below it, in the order of their paths."""
    found: list[Path] = []
    left = _ENTRIES
    for inside, directories, names in os.walk(root, onerror=_refuse):
        here = Path(inside)
        left -= len(directories) + len(names)
        if left < 0:
            most = f"at most {_ENTRIES} entries"
            raise SchemaError("the directory has too many files", expected=most)
        kept = []
        for name in sorted(directories):
            way = (here / name).relative_to(root)
            if (here / name).is_symlink():
                skip("symlink", pointer_to((_shown(way),)))
            elif len(way.parts) > limits.depth:
                skip("too_deep", pointer_to((_shown(way),)))
            elif name != ".git":
                kept.append(name)
        directories[:] = kept
        for name in sorted(names):
            path = here / name
            if path.is_symlink():
                skip("symlink", pointer_to((_shown(path.relative_to(root)),)))
            elif path.is_file():
                found.append(path)
    yield from sorted(found, key=lambda path: path.relative_to(root).as_posix())


def _shown(path: Path) -> str:
    return path.as_posix().encode("utf-8", "replace").decode()


def _refuse(error: OSError) -> NoReturn:
    raise error  # os.walk would skip an unreadable directory


def _read(path: Path, most: int) -> tuple[bytes, str]:
    """The bytes of a file, one more than allowed at most, and when it was changed."""
    handle = os.open(path, _OPEN)
    with os.fdopen(handle, "rb") as source:
        about = os.fstat(source.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise SchemaError("a file of the directory was replaced meanwhile")
        millis = min(max(about.st_mtime_ns // 1_000_000, 0), times.LAST)
        return source.read(max(most, 0) + 1), times.spell(millis)
