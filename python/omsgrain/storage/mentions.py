# SPDX-License-Identifier: Apache-2.0
"""Where addresses occur: in events, and as successors in states.

An erasure must replace an address in every row that contains it. Reading all rows would take
longer with every erasure. So the table named-0 leads from an address to the rows:

    key    the first 8 bytes of the address
    value  9 bytes each: "E" ++ number of an event | "S" ++ number of a grain with that successor

Writers do not maintain it. An erasure first updates it by the events since the last update; the
record ``named`` has the last event. So each event is read once, whatever wrote it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace as changed
from itertools import islice
from typing import TYPE_CHECKING

import msgpack

from omsgrain.errors import IntegrityError
from omsgrain.storage.records import SUPERSEDED as PAST_BIT
from omsgrain.storage.records import pack, unpack
from omsgrain.storage.tables import (
    EVENT,
    EVENTS,
    META,
    NAMED,
    REVIEWS,
    SEQUENCE,
    STATES,
    SUPERSEDED,
    Table,
)

if TYPE_CHECKING:
    from omsgrain.storage.base import Reader, Transactions, Writer

NAMED_RECORD = b"named"
"""The last event that the table covers, u64."""

_DIGEST = 32
_PREFIX = 8
_EVENT, _STATE = b"E", b"S"
_PLACE = 1 + SEQUENCE.size
_EVENTS = 20_000  # events per transaction
_ROWS = 100_000  # rows to drop at a time


def said(table: Table, row: bytes) -> list[bytes]:
    """Return the addresses in a row of events-0 or states-0; none for a damaged row."""
    if table is EVENTS:
        return [row[-_DIGEST:]] if len(row) == EVENT.size else []
    if not row[:1] or not row[0] & PAST_BIT:
        return []
    try:
        return [digest for digest in msgpack.unpackb(row[1:])["s"] if len(digest) == _DIGEST]
    except (ValueError, KeyError, TypeError):
        return []  # `check` reports it


def prepare(store: Transactions) -> None:
    """Update the table before an erasure, in small transactions."""
    with store.read() as reader:
        late = next(reader.rows(EVENTS, after=reader.row(META, NAMED_RECORD)), None)
    while late is not None and store.write(catch_up) == _EVENTS:
        pass


def catch_up(writer: Writer) -> int:
    """Update the table by at most 20,000 events; returns their number."""
    rows = list(islice(writer.rows(EVENTS, after=writer.row(META, NAMED_RECORD)), _EVENTS))
    if not rows:
        return 0
    found: dict[bytes, list[bytes]] = {}
    ended: dict[bytes, None] = {}
    for key, row in rows:
        for digest in said(EVENTS, row):
            found.setdefault(digest[:_PREFIX], []).append(_EVENT + key)
            kind, seq, _ = EVENT.unpack(row)
            if kind == SUPERSEDED:
                ended[SEQUENCE.pack(seq)] = None
    for key, row in writer.some_rows(STATES, list(ended)).items():
        for digest in said(STATES, row):
            found.setdefault(digest[:_PREFIX], []).append(_STATE + key)
    _change(writer, found, {})
    writer.set_row(META, NAMED_RECORD, rows[-1][0])
    return len(rows)


def places(reader: Reader, digests: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the keys of the events and of the states that may contain the addresses."""
    found = reader.some_rows(NAMED, list({digest[:_PREFIX] for digest in digests}))
    keys: dict[bytes, dict[bytes, None]] = {_EVENT: {}, _STATE: {}}
    for row in found.values():
        for place in _split(row):
            keys.setdefault(place[:1], {})[place[1:]] = None
    return list(keys[_EVENT]), list(keys[_STATE])


def named(reader: Reader, digests: Collection[bytes]) -> set[bytes]:
    """Return those of some addresses that may occur in rows, after ``catch_up``."""
    prefixes = {digest[:_PREFIX] for digest in digests}
    if next(reader.rows(NAMED), None) is None:
        return set()
    found = reader.some_rows(NAMED, list(prefixes))
    return {digest for digest in digests if digest[:_PREFIX] in found}


def replace(writer: Writer, marks: Mapping[bytes, bytes]) -> None:
    """Replace addresses by marks in all events and states that contain them.

    Grains that an erased grain superseded stay past.
    """
    if not marks:
        return
    while catch_up(writer):
        pass
    events, states = places(writer, list(marks))
    more: dict[bytes, list[bytes]] = {}
    less: dict[bytes, list[bytes]] = {}

    def moved(digest: bytes, place: bytes) -> None:
        less.setdefault(digest[:_PREFIX], []).append(place)
        more.setdefault(marks[digest][:_PREFIX], []).append(place)

    again: list[tuple[bytes, bytes]] = []
    for key, row in writer.some_rows(EVENTS, events).items():
        for digest in said(EVENTS, row):
            if digest in marks:
                again.append((key, row[:-_DIGEST] + marks[digest]))
                moved(digest, _EVENT + key)
    writer.set_rows(EVENTS, again)
    again = []
    for key, row in writer.some_rows(STATES, states).items():
        named = [digest for digest in said(STATES, row) if digest in marks]
        if named and (after := _marked(row, marks)) is not None:
            again.append((key, after))
            for digest in named:
                moved(digest, _STATE + key)
    writer.set_rows(STATES, again)
    _change(writer, more, less)


def release(writer: Writer, leaving: Mapping[bytes, int]) -> None:
    """Drop the events of grains that leave without a trace, and what leads to their rows.

    A review keeps its event. ``leaving`` has the numbers of the grains by each of their addresses.
    """
    while catch_up(writer):
        pass
    if next(writer.rows(NAMED), None) is None:  # no grain ever had an event
        return
    gone = {SEQUENCE.pack(seq) for seq in leaving.values()}
    successors = [
        digest
        for row in writer.some_rows(STATES, list(gone)).values()
        for digest in said(STATES, row)
    ]
    prefixes = {digest[:_PREFIX] for digest in (*leaving, *successors)}
    known = {
        prefix: [*_split(row)] for prefix, row in writer.some_rows(NAMED, [*prefixes]).items()
    }
    keys = [place[1:] for row in known.values() for place in row if place[:1] == _EVENT]
    kept = writer.some_rows(REVIEWS, keys)
    dropped = [
        key
        for key, row in writer.some_rows(EVENTS, keys).items()
        if key not in kept and len(row) == EVENT.size and row[1:-_DIGEST] in gone
    ]
    dead = {_EVENT + key for key in dropped} | {_STATE + key for key in gone}
    less = {prefix: [place for place in row if place in dead] for prefix, row in known.items()}
    writer.unset_rows(EVENTS, dropped)
    _change(writer, {}, {prefix: places for prefix, places in less.items() if places})


def _marked(row: bytes, marks: Mapping[bytes, bytes]) -> bytes | None:
    try:
        state = unpack(row)
    except IntegrityError:  # damage must not keep others from being erased; `check` tells it
        return None
    named = (bytes.fromhex(address) for address in state.successors)
    after = tuple(sorted(marks.get(digest, digest).hex() for digest in named))
    return pack(changed(state, superseded_by=after[0], successors=after))


def _change(
    writer: Writer, more: Mapping[bytes, list[bytes]], less: Mapping[bytes, list[bytes]]
) -> None:
    prefixes = list({**more, **less})
    known = writer.some_rows(NAMED, prefixes)
    rows: list[tuple[bytes, bytes]] = []
    for prefix in prefixes:
        kept = dict.fromkeys([*_split(known.get(prefix, b"")), *more.get(prefix, ())])
        for place in less.get(prefix, ()):
            if place not in more.get(prefix, ()):
                kept.pop(place, None)
        if kept:
            rows.append((prefix, b"".join(kept)))
        else:
            writer.set_row(NAMED, prefix, None)
    writer.set_rows(NAMED, rows)


def _split(row: bytes) -> Iterator[bytes]:
    return (row[at : at + _PLACE] for at in range(0, len(row), _PLACE))


def forget(writer: Writer) -> None:
    while writer.drop_rows(NAMED, b"", _ROWS):
        pass
    writer.set_row(META, NAMED_RECORD, None)
