# SPDX-License-Identifier: Apache-2.0
"""The hash of a file beside all else that is done with it: it takes longer than the rest."""

from __future__ import annotations

from hashlib import sha256
from queue import Queue
from threading import Thread
from types import TracebackType

_ALONE = 4 << 20  # bytes from which on a thread is worth while
_AHEAD = 8  # pieces that wait at the most
PIECE = 1 << 18
"""Bytes that are given at once: more than that would be kept in memory for nothing."""


class Hashing:
    """SHA-256 of pieces in turn. Leaving it ends its thread."""

    def __init__(self) -> None:
        self._digest = sha256()
        self._size = 0
        self._pieces: Queue[bytes | None] = Queue(_AHEAD)
        self._thread: Thread | None = None
        self._given_up = False
        self._failed: BaseException | None = None

    def add(self, piece: bytes) -> None:
        """Hash on; soon, if not now."""
        self._size += len(piece)
        if self._thread is None:
            if self._size < _ALONE:
                self._digest.update(piece)
                return
            self._thread = Thread(target=self._work, name="omsgrain-hashing", daemon=True)
            self._thread.start()
        self._pieces.put(piece)

    def _work(self) -> None:
        # Pieces are taken in any case: who adds them waits for room.
        while (piece := self._pieces.get()) is not None:
            try:
                if not self._given_up:
                    self._digest.update(piece)
            except BaseException as error:
                self._failed, self._given_up = error, True

    def digest(self) -> bytes:
        """The hash of all pieces."""
        self._end()
        if self._failed is not None:
            raise self._failed
        return self._digest.digest()

    def _end(self) -> None:
        if self._thread is not None:
            self._pieces.put(None)
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Hashing:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._given_up = True
        self._end()
