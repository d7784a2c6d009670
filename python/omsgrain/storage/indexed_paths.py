# SPDX-License-Identifier: Apache-2.0
"""The indexed paths of a store: which values inside grains have index rows.

The record in meta-0 is a msgpack list. Of each path it has the number in the keys of its rows, the
name of a field and the keys of maps inside it, and the gap: grains after the first sequence number
and up to the second have no rows of the path.

    declared    the gap is (0, last grain); each commit makes the rows of the next grains
    ready       the gap is empty, and queries may use the rows
    dropped     the gap is (last grain, FOREVER); each commit drops the rows of the last grains

So the index is a function of the blobs, their states and this record at any moment, also after a
crash between two commits. Encrypted grains have blind rows of the path instead: those up to
``blind`` and after the gap's end. Only a handle with the keys of all of them can close that gap
too. A dropped path stays in the record while the store has encrypted grains: these may have blind
rows of it, which a removal must find.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import msgpack

from omsgrain import _core
from omsgrain.errors import ErasedError, IntegrityError, KeyMissingError, RangeError
from omsgrain.storage import blind_index
from omsgrain.storage.tables import BLIND, INDEXED_RECORD, KEYED, META, SEALED, SEQUENCE

if TYPE_CHECKING:
    from omsgrain.storage.base import Reader, Storage, Writer

MOST_PATHS = 16
"""Indexed paths of a store."""
FOREVER = (1 << 63) - 1
"""Above every sequence number."""
_MOST_KEYS = 16  # of a path
_MOST_NUMBERS = 255  # of paths, with those that were dropped
_TOGETHER = 16_384  # sequence numbers in a commit that makes or drops rows
_OPENED = 4_096  # encrypted grains in a commit that makes blind rows
_OPENED_BYTES = 16 << 20

Keys: TypeAlias = tuple[str, ...]
"""The name of a field, and the keys of maps inside it."""


@dataclass(frozen=True, slots=True)
class IndexedPath:
    """A path whose values have index rows, but for grains in the gap ``(first, last]``."""

    number: int  # its number in the keys of its rows
    keys: Keys
    first: int = 0
    last: int = 0
    blind: int = 0  # up to which number, in the gap and before, encrypted grains have blind rows

    @property
    def ready(self) -> bool:
        return self.first >= self.last

    @property
    def blind_ready(self) -> bool:
        """Whether all encrypted grains have blind rows of it."""
        return self.blind >= self.last

    @property
    def dropped(self) -> bool:
        return self.last == FOREVER

    @property
    def retired(self) -> bool:
        """Whether it was dropped, and has no rows but blind ones."""
        return self.dropped and not self.first


def paths_of(reader: Reader) -> tuple[IndexedPath, ...]:
    """Return the indexed paths of a store, also those that are not ready or were dropped."""
    row = reader.row(META, INDEXED_RECORD)
    return () if row is None else _parsed(row)


def rows_with(row: bytes) -> _core.IndexedPaths:
    """Return what makes the index rows of a record's paths."""
    return core_of(_parsed(row))


def blind_paths(reader: Reader) -> _core.IndexedPaths | None:
    """Return what makes the blind rows of new encrypted grains; None without indexed paths."""
    paths = tuple([path for path in paths_of(reader) if not path.dropped])
    return core_of(paths) if paths else None


@lru_cache(maxsize=16)
def core_of(paths: tuple[IndexedPath, ...]) -> _core.IndexedPaths:
    return _core.IndexedPaths([(p.number, list(p.keys), p.first, p.last) for p in paths])


@lru_cache(maxsize=16)
def _parsed(row: bytes) -> tuple[IndexedPath, ...]:
    try:
        found = [
            IndexedPath(
                int(number),
                tuple(map(str, keys)),
                int(first),
                int(last),
                int(blind),
            )
            for number, keys, first, last, blind in msgpack.unpackb(row)
        ]
    except (ValueError, TypeError, OverflowError):
        found = []
    numbers = {one.number for one in found}
    if not 0 < len(found) == len(numbers) <= _MOST_NUMBERS or not all(map(_is_sound, found)):
        raise IntegrityError("the record of the indexed paths is damaged")
    return tuple(found)


def _is_sound(path: IndexedPath) -> bool:
    ends = path.first, path.last, path.blind
    numbers = 0 < path.number <= _MOST_NUMBERS and all(0 <= end <= FOREVER for end in ends)
    return numbers and 0 < len(path.keys) <= _MOST_KEYS


def _pack(paths: Iterable[IndexedPath]) -> bytes | None:
    """Return the record of paths; None if there are none."""
    rows = [(p.number, p.keys, p.first, p.last, p.blind) for p in paths]
    packed: bytes | None = msgpack.packb(rows) if rows else None
    return packed


def index_again(storage: Storage) -> None:
    """Make the rows of the record's paths in a new copy of all rows but those of the index."""
    storage.flush()
    with storage.read() as reader:
        paths, last = paths_of(reader), reader.last_seq()
    if paths:
        begun = [
            replace(path, first=0, last=path.last if path.dropped else last) for path in paths
        ]
        storage.write(lambda writer: writer.set_paths(_pack(begun), later=False), alone=True)
        while storage.write(make_rows, alone=True):
            pass


def add(writer: Writer, wanted: Sequence[Keys]) -> int:
    """Index some paths from now on; return how many are new.

    ``make_rows`` and ``make_blind_rows`` do the rest.
    """
    paths = {path.keys: path for path in paths_of(writer)}
    before = sum(not path.dropped for path in paths.values())
    last = writer.last_seq()
    blind = 0 if _has_encrypted(writer) else FOREVER
    for keys in dict.fromkeys(wanted):
        old = paths.get(keys)
        if old is None:
            numbers = {path.number for path in paths.values()}
            number = min(set(range(1, len(paths) + 2)) - numbers)
            paths[keys] = IndexedPath(number, keys, 0, last if writer.count() else 0, blind)
        elif old.dropped:
            paths[keys] = replace(old, last=last, blind=blind)
    kept = sum(not path.dropped for path in paths.values())
    if kept > MOST_PATHS or len(paths) > _MOST_NUMBERS:
        raise RangeError(
            "too many indexed paths",
            field="/indexed",
            expected=f"at most {MOST_PATHS}; drop one first",
            found=str(kept),
        )
    added = kept - before
    if added:
        writer.set_paths(_pack(paths.values()))
    return added


def drop(writer: Writer, keys: Keys) -> bool | None:
    """Begin to drop a path; return whether it was indexed, None if its rows are being made.

    ``make_rows`` does the rest.
    """
    paths = list(paths_of(writer))
    for at, path in enumerate(paths):
        if path.keys == keys and not path.dropped:
            if not path.ready:
                return None
            paths[at] = replace(path, first=writer.last_seq(), last=FOREVER, blind=0)
            writer.set_paths(_pack(paths))
            return True
    return False


def make_rows(writer: Writer) -> int:
    """Make or drop the rows of the next grains of a path; return how many numbers it covered.

    0 says that nothing is left to do.
    """
    paths = list(paths_of(writer))
    for at, path in enumerate(paths):
        keep = path.retired and _has_encrypted(writer)
        if path.ready or keep:
            continue
        only = core_of((replace(path, first=0, last=0),))
        if path.dropped:
            first = max(0, path.first - _TOGETHER)
            writer.change_values(only, first, path.first, add=False)
        else:
            first = min(path.last, path.first + _TOGETHER)
            writer.change_values(only, path.first, first, add=True)
        paths[at] = replace(path, first=first)
        if paths[at].retired and not _has_encrypted(writer):
            del paths[at]
        writer.set_paths(_pack(paths), later=False)
        return max(1, abs(first - path.first))
    return 0


def make_blind_rows(writer: Writer) -> int:
    """Make the blind rows of the next encrypted grains; return how many numbers it covered.

    0 says that nothing is left to do, or that the next grain's key is not here. A grain whose key
    was destroyed needs no rows.
    """
    paths = paths_of(writer)
    lacking = [path for path in paths if not (path.dropped or path.blind_ready)]
    if not lacking or writer.raw is writer:
        return 0
    only = core_of(tuple([replace(path, first=0, last=0) for path in lacking]))
    first = done = min(path.blind for path in lacking)
    last = max(path.last for path in lacking)
    rows: list[bytes] = []
    size = 0
    for n, (key, _) in enumerate(writer.rows(SEALED, SEQUENCE.pack(first))):
        (seq,) = SEQUENCE.unpack(key)
        if seq > last:
            done = FOREVER
            break
        if n == _OPENED or size >= _OPENED_BYTES:
            break
        try:
            keys = writer.keys_of(seq)
        except KeyMissingError:
            break
        except ErasedError:
            done = seq
            continue
        with suppress(IntegrityError, KeyMissingError):  # no query shows a damaged grain
            if (grain := writer.grain(seq)) is not None and keys is not None:
                rows += blind_index.value_rows(seq, grain, keys, only)
                size += len(grain.blob)
        done = seq
    else:
        done = FOREVER
    if done > first:
        there = writer.some_rows(BLIND, rows)  # of a path that was indexed before
        writer.set_rows(BLIND, [(row, b"") for row in rows if row not in there])
        made = [
            replace(path, blind=max(path.blind, done)) if path in lacking else path
            for path in paths
        ]
        writer.set_paths(_pack(made), later=False)
    return min(done, last) - first


def _has_encrypted(reader: Reader) -> bool:
    return next(reader.rows(KEYED), None) is not None
