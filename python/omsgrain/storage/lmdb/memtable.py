# SPDX-License-Identifier: Apache-2.0
"""The grains beyond the watermark: on disk as blobs, and not yet in the index tables.

Blobs are committed one by one; addresses and index rows are written in sorted runs, because rows
in random places of a tree cost several times as much. A process keeps the rest here,
made from the blobs themselves, and merges into every answer: a grain is found the moment its put
returns, and losing this loses nothing.

Nothing is taken out again. A grain that was removed, here or by another process, stays known,
since older snapshots still have it; whoever reads asks its snapshot whether the blob is there.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import NamedTuple, Protocol

from omsgrain import _core
from omsgrain.errors import OmsError

RUN = 65_536
"""Grains in a sorted run: the index is written when so many have gathered."""

_LARGE = (400_000, 1_500_000)  # grains: from each on runs are half as long
_PAGES = 16, 256  # places taken from the tail at a time, at first and at the most
_PAGE = 256  # keys taken from it
_LAST = 2**32 - 1  # beyond it no grain has a place, and reading says so
LEAST = 256
"""Fewer grains than this are not worth a commit in an idle moment."""

_TOGETHER = 256  # grains that are worth a thread which makes their index rows


class BlobReader(Protocol):
    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        """Return the next sequence numbers, blobs and addresses; None for a damaged blob."""
        ...

    def blob_at(self, seq: int) -> bytes | None: ...


def run_in(run: int, grains: int) -> int:
    """The length of a run in a store of some grains.

    LMDB holds every page that a transaction touches in memory, and never gives that memory back.
    The larger a store, the fewer of a run's random rows share a page: then a shorter run touches
    hardly more pages in all, and takes a part of the memory.
    """
    if grains < _LARGE[0]:
        return run  # asked after each put, and most stores are small
    return run >> sum(grains >= size for size in _LARGE)


class Appended(NamedTuple):
    """Grains that were put together, and have numbers that follow each other."""

    first: int  # the number of the first
    digests: list[bytes]  # their addresses
    blobs: list[bytes]  # the grains
    # their index rows, which a thread beside makes; of few grains none
    coming: _core.Coming | None = None

    @classmethod
    def of(
        cls,
        first: int,
        digests: list[bytes],
        blobs: list[bytes],
        paths: _core.IndexedPaths | None = None,
    ) -> Appended:
        """Begin to make the index rows of many at once: the disk is waited for meanwhile."""
        last = first + len(blobs)
        if len(blobs) < _TOGETHER or last > _LAST:
            return cls(first, digests, blobs)
        coming = _core.coming(list(range(first, last)), blobs, digests, paths)
        return cls(first, digests, blobs, coming)


class Memtable:
    """This process's index rows of the grains in ``(watermark, last]``.

    It only grows; after a run was written a new one takes its place, and snapshots that were
    opened before keep the old one.
    """

    def __init__(
        self,
        watermark: int,
        *,
        paths: _core.IndexedPaths | None = None,
    ) -> None:
        self.watermark = watermark  # the last sequence number that the index tables cover
        # The indexed paths of the rows. A commit that changes them also raises the watermark.
        self.paths = paths
        self.last = watermark  # the last sequence number known here
        # up to where it was read from snapshots. One that is older than this may lack
        # grains here that were removed in between, unless it filled this itself.
        self.filled = watermark
        self.rows_to = watermark
        # sequence number by address; the last one, if a grain was removed and came again
        self.digests: dict[bytes, int] = {}
        # the index rows up to ``rows_to``; made when a query or a flush needs them, or
        # beside, when many grains were put
        self.tail = _core.Tail(True, paths)
        self._earlier: dict[bytes, list[int]] = {}
        self.numbers: list[int] = []  # of all grains that were ever known here, rising
        self._held: list[Appended] = []  # whose rows are to be made next, up to _held_to
        self._held_to = watermark
        self._unmade: set[int] = set()  # those without rows: their blobs were gone already
        self._unmade_to = watermark  # snapshots before this number may still have them
        self._lock = threading.Lock()

    def extend(self, added: Sequence[Appended], last: int) -> None:
        """Take over what this process has committed, and the last number.

        The blobs are held until they have rows, so that none is read and hashed again for them.
        """
        with self._lock:
            # Else a reader was faster: it has the numbers without the blobs, or even the rows.
            before = self.last
            follows = self._held_to == before
            for first, digests, _, _ in added:
                if before < first and len(digests) == 1 and digests[0] not in self.digests:
                    self.digests[digests[0]] = first  # as below, but for the calls
                    self.numbers.append(first)
                elif before < first:
                    self._learn(range(first, first + len(digests)), digests)
                else:
                    known, follows = before + 1 - first, False
                    self._learn(range(first + known, first + len(digests)), digests[known:])
            if last > before:
                self.last = last
            if follows:
                self._held += added
                self._held_to = self.last
                if self.last - self.rows_to >= _TOGETHER and self.last <= _LAST:
                    self._add_held(later=True)

    def _add_held(self, *, later: bool) -> None:
        """Add the rows of what is held; ``rows_to`` says so only when they are there."""
        held, self._held = self._held, []
        for one in held:
            if one.coming is not None:
                self.tail.add_later(one.coming)
        few = [one for one in held if one.coming is None]
        numbers = [n for one in few for n in range(one.first, one.first + len(one.blobs))]
        blobs = [blob for one in few for blob in one.blobs]
        digests = [digest for one in few for digest in one.digests]
        if few and later:
            self.tail.add_later(_core.coming(numbers, blobs, digests, self.paths))
        elif few:
            self.tail.add(numbers, blobs, digests)
        self.rows_to = self._held_to

    def load(self, blobs: BlobReader, last: int) -> None:
        """Read what others have committed, up to ``last``."""
        while self.last < last:
            with self._lock:
                page = [row for row in blobs.hashed_page(self.last) if row[0] <= last]
                good = [(seq, digest) for seq, _, digest in page if digest and seq > self.last]
                self._learn([seq for seq, _ in good], [digest for _, digest in good])
                self.filled = max(self.filled, last)
                self.last = max(self.last, page[-1][0] if page else last)

    def _learn(self, numbers: Sequence[int], digests: Sequence[bytes]) -> None:
        if not self.digests.keys().isdisjoint(digests):
            for digest in digests:
                before = self.digests.get(digest)
                if before is not None:
                    self._earlier.setdefault(digest, []).append(before)
        self.digests.update(zip(digests, numbers, strict=True))
        self.numbers += numbers

    def numbers_of(self, digest: bytes) -> list[int]:
        """Return the numbers that an address ever had here, the last one first."""
        last = self.digests.get(digest)
        return [] if last is None else [last, *reversed(self._earlier.get(digest, ()))]

    def known(self, last: int) -> int:
        """How many grains up to ``last`` are known here, removed ones too."""
        return bisect_right(self.numbers, last)

    def load_rows(self, blobs: BlobReader, last: int) -> None:
        """Make the index rows up to ``last``."""
        while self.rows_to < last:
            with self._lock:
                if self._held:
                    self._add_held(later=False)
                    continue
                page = [row for row in blobs.hashed_page(self.rows_to) if row[0] <= last]
                upto = page[-1][0] if page else last
                numbers = self.numbers[self.known(self.rows_to) : self.known(upto)]
                gone = set(numbers).difference(row[0] for row in page)
                if gone:
                    self._unmade |= gone
                    self._unmade_to = max(self._unmade_to, last)
                self.add_rows([(seq, blob, digest) for seq, blob, digest in page if digest])
                self._held_to = self.rows_to = max(self.rows_to, upto)
        if last < self._unmade_to:
            with self._lock:
                self._make_late(blobs, last)

    def _make_late(self, blobs: BlobReader, last: int) -> None:
        """Make the rows of grains that an older snapshot still has."""
        found = [(seq, blobs.blob_at(seq)) for seq in sorted(self._unmade) if seq <= last]
        late = [(seq, blob, sha256(blob).digest()) for seq, blob in found if blob is not None]
        self._unmade.difference_update(seq for seq, _, _ in late)
        self.add_rows(late)

    def add_rows(self, grains: list[tuple[int, bytes, bytes]]) -> None:
        self.tail.add([g[0] for g in grains], [g[1] for g in grains], [g[2] for g in grains])

    def places(
        self, key: bytes, after: bytes | None, newest: bool, low: int, high: int
    ) -> Iterator[bytes]:
        """Walk the places of a term whose sequence numbers are in ``(low, high]``."""
        limit, most = _PAGES
        while True:
            page = self.tail.page(key, after, newest, limit)
            for place in page:
                if low < int.from_bytes(place[12:], "big") <= high:
                    yield place
            if len(page) < limit:
                return
            after, limit = page[-1], min(4 * limit, most)

    def between(self, first: bytes, last: bytes, low: int, high: int) -> Iterator[bytes]:
        """Walk the places of the terms from one to another, in any order."""
        yield from self.places(first, None, False, low, high)
        key = first
        while part := self.tail.rows_after(key, _PAGE):
            for key, places in part:
                if key > last:
                    return
                yield from (p for p in places if low < int.from_bytes(p[12:], "big") <= high)

    def count(self, key: bytes, low: int, high: int) -> int:
        if low == self.watermark and high >= self.rows_to:
            return self.tail.count(key)
        return sum(1 for _ in self.places(key, None, True, low, high))

    def keys(self, first: bytes, last: bytes) -> Iterator[bytes]:
        """Walk the terms from one to another, in order."""
        if self.tail.count(first):
            yield first
        key = first
        while part := self.tail.rows_after(key, _PAGE):
            for key, _ in part:
                if key > last:
                    return
                yield key


PAUSE = 2.0
"""Seconds without a write that make an idle moment."""

EAGER_PAUSE = 0.25
"""Seconds in which an eager thread lets work gather."""

_SELDOM = 63  # of 64 writes one asks whether there is work


class IdleThread:
    """Calls a function once after each spell of writing; if it is eager, beside the writes too.

    The function gets another one, which says whether to go on: not after a further write, unless
    it is eager, and not after the end.

    Attributes:
        wait: waits so many seconds, or until this ends, and tells whether it has ended. A test may
            put its own in the place.
    """

    def __init__(
        self,
        work: Callable[[Callable[[], bool]], object],
        *,
        name: str,
        eager: bool = False,
        wanted: Callable[[], bool] = lambda: True,
        every: float | None = None,
    ) -> None:
        self._work = work
        self._wanted = wanted  # whether there is work at all; asked until there is
        self._name = name
        self._eager = eager
        self._every = every  # seconds after which it works without a write too
        self._done = 0  # so many writes were followed by an idle moment
        self._writes = 0  # two threads may count as one; only that it has changed matters
        self._resting = False
        self._woken = threading.Condition()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.wait: Callable[[float], bool] = self._ended.wait

    def written(self) -> None:
        self._writes = writes = self._writes + 1
        if self._thread is not None or (writes & _SELDOM == 1 and self._wanted()):
            self.wake()

    def wake(self) -> None:
        """Let there be work, without asking whether there is."""
        if self._writes == self._done:
            self._writes += 1
        if self._resting or self._thread is None:
            with self._woken:
                self._woken.notify()
                if self._thread is None and not self._ended.is_set():
                    self._thread = threading.Thread(
                        target=self._run, name=f"omsgrain-{self._name}", daemon=True
                    )
                    with suppress(RuntimeError):  # the interpreter is ending
                        self._thread.start()

    def end(self) -> None:
        """Let the thread end; waits for nothing."""
        self._ended.set()
        with self._woken:
            self._woken.notify()

    def _run(self) -> None:
        while True:
            with self._woken:
                self._resting = True
                self._woken.wait_for(self._has_work, self._every)
                self._resting = False
            seen = self._writes
            if self.wait(EAGER_PAUSE if self._eager else PAUSE):
                return
            if self._eager or seen == self._writes:
                with suppress(OmsError):
                    self._work(partial(self._goes_on, seen))
                self._done = seen

    def _goes_on(self, seen: int) -> bool:
        return (self._eager or seen == self._writes) and not self._ended.is_set()

    def _has_work(self) -> bool:
        return self._writes != self._done or self._ended.is_set()
