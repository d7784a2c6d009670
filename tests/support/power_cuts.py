# SPDX-License-Identifier: Apache-2.0
"""Every state of the files in a directory that a kill or a power cut could leave.

A kill leaves what was written, the last write perhaps in part. A power cut leaves what was synced
and any of the sectors written since, in any order; and the names as they are, or as they were
when the directory was synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

SECTOR = 32  # bytes; that of a disk is larger, so less is torn

#: Inode by name, and content by inode.
State = tuple[tuple[tuple[str, int], ...], tuple[tuple[int, bytes], ...]]


class Cuts:
    """Collects the states while it is used as a context."""

    def __init__(self, directory: Path, seed: int = 1, tries: int = 3) -> None:
        self.directory = directory
        self.random = Random(seed)
        self.tries = tries
        self.states: dict[State, None] = {}
        self._synced: dict[int, bytes] = {}
        self._since: dict[int, list[tuple[int, bytes | None]]] = {}
        self._names = self._look()
        self._known = dict(self._names)
        for name, inode in self._names.items():
            self._synced[inode] = (directory / name).read_bytes()
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Cuts:
        self._write, self._cut_off = os.pwrite, os.ftruncate
        self._patch.setattr(os, "pwrite", self.pwrite)
        self._patch.setattr(os, "ftruncate", self.ftruncate)
        self._patch.setattr(os, "fsync", self.fsync)
        for name in ("replace", "link", "unlink"):
            self._patch.setattr(os, name, self.around(getattr(os, name)))
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def pwrite(self, handle: int, data: bytes, offset: int) -> int:
        inode = os.fstat(handle).st_ino
        self._write(handle, data[: len(data) // 2], offset)
        self.kill()
        self._write(handle, data, offset)
        since = self._since.setdefault(inode, [])
        at = 0
        while at < len(data):
            size = SECTOR - (offset + at) % SECTOR
            since.append((offset + at, data[at : at + size]))
            at += size
        self.note()
        return len(data)

    def ftruncate(self, handle: int, size: int) -> None:
        self._cut_off(handle, size)
        self._since.setdefault(os.fstat(handle).st_ino, []).append((size, None))
        self.note()

    def fsync(self, handle: int) -> None:
        inode = os.fstat(handle).st_ino
        if os.path.isdir(f"/dev/fd/{handle}"):
            self._names = self._look()
        else:
            self._synced[inode] = self._content(inode, whole=True)
            self._since[inode] = []
        self.note()

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def do(*args: Any, **options: Any) -> None:
            self.note()
            call(*args, **options)
            self.note()

        return do

    def note(self) -> None:
        self.kill()
        for _ in range(self.tries):
            self.cut()

    def kill(self) -> None:
        names = self._look()
        content = {inode: (self.directory / name).read_bytes() for name, inode in names.items()}
        self._add(names, content)

    def cut(self) -> None:
        names = self.random.choice([self._look(), self._names])
        self._add(names, {inode: self._content(inode) for inode in names.values()})

    def _content(self, inode: int, whole: bool = False) -> bytes:
        content = bytearray(self._synced.get(inode, b""))
        for offset, data in self._since.get(inode, []):
            if not whole and self.random.random() < 0.5:
                continue
            if data is None:
                del content[offset:]
            else:
                content += bytes(max(0, offset + len(data) - len(content)))
                content[offset : offset + len(data)] = data
        return bytes(content)

    def _look(self) -> dict[str, int]:
        return {entry.name: entry.stat().st_ino for entry in os.scandir(self.directory)}

    def _add(self, names: dict[str, int], content: dict[int, bytes]) -> None:
        self.states[tuple(sorted(names.items())), tuple(sorted(content.items()))] = None


def restore(state: State, directory: Path) -> None:
    """Make the files of a state in a new directory."""
    directory.mkdir()
    names, content = state
    first: dict[int, Path] = {}
    for name, inode in names:
        path = directory / name
        if inode in first:
            os.link(first[inode], path)
        else:
            path.write_bytes(dict(content)[inode])
            path.chmod(0o600)
            first[inode] = path
