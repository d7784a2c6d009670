# SPDX-License-Identifier: Apache-2.0
"""Tables in sorted runs: rows with random keys of one size and no values, many at a time.

Written one by one, each row would change a page of its own. Here the rows that a commit writes for
a group, which is the beginning of their keys, are a run: a few pages side by side. Runs of a group
are merged when the newer ones are about as large, so a group has few, and a row is rewritten few
times (a log-structured merge tree for each group).

    key on disk                             value
    group, 8                                its runs: number, u32 ++ most entries, u32, of each
    group, 8 ++ a run, 8 ++ last entry, 32  up to 127 entries, in order

An entry is a key without its group. A key is in one run only. A removed row leaves its chunk at
once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import lmdb

from omsgrain import _core
from omsgrain.storage.tables import pieces

if TYPE_CHECKING:
    from lmdb import Cursor

GROUP = 8
ENTRY = 32
_RUN = 8
_HEAD = GROUP + _RUN
_NUMBER = 4
_BEYOND = b"\xff" * (_RUN + ENTRY + 1)  # follows all keys of a group
_SMALLER = 3
"""A run is merged with newer ones if it is at most so many times as large as they are together."""
_MOST = 1 << 17
"""Entries that a merge makes at most, 4 MB: a commit has to wait for it."""


def runs_of(cursor: Cursor[bytes], group: bytes) -> list[bytes]:
    """Return the runs of a group, 8 bytes each."""
    return pieces(cursor.get(group) or b"", _RUN)


def _entries(run: bytes) -> int:
    return int.from_bytes(run[_NUMBER:], "big")


def has(cursor: Cursor[bytes], key: bytes) -> bool:
    """Return whether a table has a row."""
    group, entry = key[:GROUP], key[GROUP:]
    for run in runs_of(cursor, group):
        head = group + run
        if cursor.set_range(head + entry) and cursor.key().startswith(head):
            if _core.run_without(head, cursor.value(), entry)[0] is not None:
                return True
    return False


def suffixes(cursor: Cursor[bytes], prefixes: Sequence[bytes], most: int) -> list[bytes]:
    """Return for each prefix the rest of the keys that begin with it, concatenated.

    They are in order within a run only. A prefix is at least a group.
    """
    return _core.run_suffixes(cursor, list(prefixes), most)


def page(
    cursor: Cursor[bytes], after: bytes | None, prefix: bytes, limit: int
) -> list[tuple[bytes, bytes]]:
    """Return the next rows of a table in order."""
    rows: list[tuple[bytes, bytes]] = []
    start = prefix if after is None or after < prefix else after
    for group in _groups(cursor, start[:GROUP], prefix):
        least = start[GROUP:] if group == start[:GROUP] else b""
        own: list[bytes] = []
        for run in runs_of(cursor, group):
            own += _some(cursor, group + run, least, prefix[GROUP:], limit)
        own.sort()
        rows += [(group + entry, b"") for entry in own if group + entry != after]
        if len(rows) >= limit:
            break
    return rows[:limit]


def _groups(cursor: Cursor[bytes], first: bytes, prefix: bytes) -> Iterator[bytes]:
    there = cursor.set_range(first)
    while there and (group := cursor.key()[:GROUP]).startswith(prefix[:GROUP]):
        if cursor.key() != group:
            raise lmdb.CorruptedError("the list of a key's runs is missing")
        yield group
        there = cursor.set_range(group + _BEYOND)


def _some(
    cursor: Cursor[bytes], head: bytes, least: bytes, prefix: bytes, limit: int
) -> Iterable[bytes]:
    """Return entries of a run from one on, a few more than ``limit`` if there are more."""
    some: list[bytes] = []
    there = cursor.set_range(head + max(least, prefix))
    while there and cursor.key().startswith(head) and len(some) <= limit:
        chunk = pieces(cursor.value(), ENTRY)
        if [cursor.key()[_HEAD:]] != chunk[-1:]:
            raise lmdb.CorruptedError("the rows of a run are not in order")
        some += [entry for entry in chunk if entry >= least and entry.startswith(prefix)]
        if not chunk[-1].startswith(prefix):
            break
        there = cursor.next()
    return some


def add(cursor: Cursor[bytes], rows: Iterable[tuple[bytes, bytes]]) -> None:
    """Add rows that are not there yet, in any order: of each group a run."""
    if isinstance(rows, _core.BlindRows):
        for group, entries in rows.runs():
            _add_run(cursor, group, entries)
        return
    keys = sorted(key for key, _ in rows)
    for group, own in groupby(keys, lambda key: key[:GROUP]):
        _add_run(cursor, group, b"".join([key[GROUP:] for key in own]))


def _add_run(cursor: Cursor[bytes], group: bytes, entries: bytes) -> None:
    """Write a run, merged with those before it that are not much larger."""
    total = len(entries) // ENTRY
    kept = sorted(runs_of(cursor, group), key=_entries, reverse=True)
    chunks = [entries]
    while kept and (size := _entries(kept[-1])) <= _SMALLER * total and size + total <= _MOST:
        chunks += _taken(cursor, group + kept.pop())
        total += size
    used = {run[:_NUMBER] for run in kept}
    number = next(n for i in range(len(kept) + 1) if (n := i.to_bytes(_NUMBER, "big")) not in used)
    run = number + total.to_bytes(_NUMBER, "big")
    cursor.putmulti(_core.run_rows(group + run, chunks))
    cursor.put(group, b"".join([*kept, run]))


def _taken(cursor: Cursor[bytes], head: bytes) -> list[bytes]:
    """Take the chunks of a run out of the table."""
    chunks = []
    there = cursor.set_range(head)
    while there and cursor.key().startswith(head):
        chunks.append(cursor.value())
        there = cursor.delete()
    return chunks


def remove(cursor: Cursor[bytes], keys: Sequence[bytes]) -> None:
    """Remove rows, whether they are there or not."""
    for group, own in groupby(sorted(keys), lambda key: key[:GROUP]):
        left = [key[GROUP:] for key in own]
        for run in runs_of(cursor, group):
            left = _remove_from(cursor, group + run, left)
            if not left:
                break


def _remove_from(cursor: Cursor[bytes], head: bytes, entries: list[bytes]) -> list[bytes]:
    """Remove entries, which are in order, from a run; returns those that it does not have."""
    missing: list[bytes] = []
    done = 0
    while done < len(entries):
        if not cursor.set_range(head + entries[done]):
            break
        key = cursor.key()
        if not key.startswith(head):
            break
        end = bisect_right(entries, key[_HEAD:], done)
        rows, lacks = _core.run_without(head, cursor.value(), b"".join(entries[done:end]))
        if rows is not None:
            cursor.delete()
            cursor.putmulti(rows)
        missing += pieces(lacks, ENTRY)
        done = end
    return missing + entries[done:]


def drop(cursor: Cursor[bytes], group: bytes, most: int) -> int:
    """Remove rows of a group, about ``most`` if there are so many; returns how many."""
    removed = 0
    for run in runs_of(cursor, group):
        there = cursor.set_range(group + run)
        while there and cursor.key().startswith(group + run):
            if removed >= most:
                return removed
            removed += len(cursor.value()) // ENTRY
            there = cursor.delete()
    if cursor.set_key(group):
        cursor.delete()
    return removed
