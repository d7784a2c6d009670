# SPDX-License-Identifier: Apache-2.0
"""The file ``head`` beside the data: how far the store had come, written after each commit.

LMDB keeps the roots of its last two commits and takes the newer one that it can read. If bytes of
that root are damaged it would open the commit before, and what was put since would be gone without
a word. So opening compares: a store that is behind its side file is refused. A side file that is
behind the store, missing or damaged itself says nothing; the next commit writes it again.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from pathlib import Path

from omsgrain.errors import StoreError

__all__ = ["SideFile", "compare"]

_LAYOUT = struct.Struct(">4sQQ")
_SUM = struct.Struct(">I")
_MAGIC = b"omsh"
_pwrite = getattr(os, "pwrite", None)  # one call of the system less, where there is one
_NEW = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class SideFile:
    """The last sequence number and the bytes of all blobs, as the last commit left them."""

    __slots__ = ("_fd", "_lock", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._lock = threading.Lock()  # a sync may note what it has while others commit

    def write(self, last_seq: int, blob_bytes: int) -> None:
        """Note how far the store has come. Not synced: after a power cut it may be behind."""
        body = _LAYOUT.pack(_MAGIC, last_seq, blob_bytes)
        body += _SUM.pack(zlib.crc32(body))
        with self._lock:
            if self._fd is None:
                self._fd = os.open(self._path, _NEW, 0o666)
            if _pwrite is not None:
                _pwrite(self._fd, body, 0)
                return
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, body)

    def raise_to(self, last_seq: int, blob_bytes: int) -> None:
        """Note how far the store has come, unless a commit beside this one has noted more."""
        if (self.read() or 0) <= last_seq:
            self.write(last_seq, blob_bytes)

    def read(self) -> int | None:
        """Return the last sequence number noted; None if there is none that can be trusted."""
        try:
            raw = self._path.read_bytes()
        except OSError:
            return None
        body, check = raw[: _LAYOUT.size], raw[_LAYOUT.size :]
        if len(check) != _SUM.size or _SUM.unpack(check)[0] != zlib.crc32(body):
            return None
        magic, last_seq, _ = _LAYOUT.unpack(body)
        return int(last_seq) if magic == _MAGIC else None

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def compare(noted: int | None, found: int, path: Path) -> None:
    """Refuse a store that is behind what was noted.

    Raises:
        StoreError: it is.
    """
    if noted is not None and noted > found:
        raise StoreError(
            f"the newest commit of the store {str(path)!r} is damaged; an older state was found",
            expected=f"sequence number {noted}",
            found=str(found),
        )
