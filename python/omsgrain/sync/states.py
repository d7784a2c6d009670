# SPDX-License-Identifier: Apache-2.0
"""What a store tells others of its grains, tombstones and holds; and short digests of these."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import groupby
from typing import Any, Final, TypeAlias

import blake3
import msgpack

from omsgrain.errors import IntegrityError, StoreError
from omsgrain.storage import records, tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import unpack
from omsgrain.storage.signatures import SEALED
from omsgrain.storage.tables import (
    EVENTS,
    HOLDS,
    META,
    SEQUENCE,
    SIGNATURES,
    STATES,
    SUPERSEDES,
    TOGGLES,
    Table,
)
from omsgrain.store import holds as holding
from omsgrain.sync.peer import START, GrainState, HoldToggle, Position, Space, Tombstone
from omsgrain.sync.protocol import pack_value

VERSION: Final = 8
"""Bytes of the version of a state, holds or a tombstone."""
_PIECE: Final = 64 << 10
"""Bytes of a piece of a state, about: also a bad line carries as many."""
_ITEMS: Final = 1_000
"""Successors and holds in a piece of a state, together."""
_NAME: Final = 64
"""Bytes that an address takes in a message, with what is said of it."""
_TOLD = {one: one for one in ("verified", "contested", "retracted")}
_ABOUT: dict[Space, tuple[Table, ...]] = {
    "states": (STATES, HOLDS, TOGGLES),
    "holds": (HOLDS, TOGGLES),
}


def state_told(reader: Reader, seq: int, address: bytes) -> GrainState | None:
    """Return what others are told of a grain; None if there is nothing to tell."""
    state = unpack(reader.row(STATES, SEQUENCE.pack(seq)))
    restricted = records.toggle_epoch(reader, seq, records.RESTRICTION, state.restricted)
    told = GrainState(
        address,
        tuple(sorted(_shown(reader, state.successors))),
        state.system_valid_to,
        _TOLD.get(state.verification_status, ""),  # type: ignore[arg-type]  # one of its words
        restricted,
        holds_told(reader, seq),
    )
    return None if told == GrainState(address) else told


def _shown(reader: Reader, successors: Sequence[str]) -> Iterator[bytes]:
    """Successors as others are told of them: one that was erased by its mark."""
    digests = [bytes.fromhex(one) for one in successors]
    below: Reader = getattr(reader, "inner", reader)
    for digest, seq in zip(digests, below.find(digests) if digests else (), strict=True):
        if seq is None and tombstones.refused(reader, [digest]):
            yield tombstones.mark_of(reader, digest) or digest
        else:
            yield digest


def holds_told(reader: Reader, seq: int) -> tuple[HoldToggle, ...]:
    """Return who holds a grain, and who did."""
    held = {one.authority: one for one in holding.holds(reader, seq)}
    turns = dict(records.named(reader, seq))
    found = []
    for authority in sorted(held.keys() | turns.keys()):
        hold = held.get(authority)
        at = turns.get(authority, 1)
        if hold is None:
            found.append(HoldToggle(authority, at))
        else:
            found.append(HoldToggle(authority, at, hold.reason_code, hold.since))
    return tuple(found)


def predecessors(reader: Reader, seq: int) -> Iterator[tuple[int, bytes]]:
    """Walk the grains that one superseded: number and address."""
    key = SEQUENCE.pack(seq)
    for row, _ in reader.rows(SUPERSEDES, prefix=key):
        (old,) = SEQUENCE.unpack(row[SEQUENCE.size :])
        blob = reader.blob_at(old)
        if blob is not None:
            yield old, sha256(blob).digest()


def storied(reader: Reader, first: int, last: int) -> set[int]:
    """Return the numbers, from one to another, of the grains that there may be more to tell of.

    Most grains have no state, and are not asked for one.
    """
    found: set[int] = set()
    for table in (*_ABOUT["states"], SUPERSEDES):
        for key, _ in reader.rows(table, SEQUENCE.pack(max(first - 1, 0))):
            (seq,) = SEQUENCE.unpack(key[: SEQUENCE.size])
            if seq > last:
                break
            found.add(seq)
    return found


def numbers(reader: Reader, space: Space) -> Iterator[int]:
    """Walk the numbers of the grains that have a state, or holds; each once."""
    before: set[int] = set()
    for table in _ABOUT[space]:
        met: set[int] = set()
        for key, _ in reader.rows(table):
            (seq,) = SEQUENCE.unpack(key[: SEQUENCE.size])
            if seq not in before and seq not in met:
                yield seq
            met.add(seq)
        before |= met


def signed(reader: Reader) -> Iterator[tuple[int, bytes]]:
    """Walk the grains that are signed: the number, and a digest of who signed.

    Signatures inside a seal are passed over: they are sealed with its place in this store.
    """
    rows = ((key, row) for key, row in reader.rows(SIGNATURES) if row[:1] != SEALED)
    for number, keys in groupby((key for key, _ in rows), key=lambda key: key[: SEQUENCE.size]):
        names = b"".join(key[SEQUENCE.size :] for key in keys)
        yield SEQUENCE.unpack(number)[0], blake3.blake3(names).digest(VERSION)


def version(told: GrainState | Tombstone | tuple[HoldToggle, ...]) -> bytes:
    """Return a short digest of what is told."""
    if isinstance(told, GrainState):
        # The first follows from the rest; the second is the judgement of one store.
        status = "" if told.status == "verified" else told.status
        told = replace(told, valid_to=None, status=status)
    return blake3.blake3(pack_value(told)).digest(VERSION)


def weight(told: GrainState) -> int:
    """How many bytes a state takes in a message, about."""
    named = sum(_of_hold(one) for one in told.holds)
    return _NAME * (1 + len(told.successors)) + named


def cut(told: GrainState, start: int) -> tuple[GrainState, int]:
    """Cut a piece out of a state that has more successors or holds than one message carries.

    Each piece is a state of its own. In which order they are taken over changes nothing.
    """
    successors, holds = told.successors[start:], told.holds[max(0, start - len(told.successors)) :]
    count = size = 0
    for one in (*(_NAME for _ in successors[:_ITEMS]), *map(_of_hold, holds[:_ITEMS])):
        if count == _ITEMS or (count and size + one > _PIECE):
            break
        size += one
        count += 1
    if count == len(successors) + len(holds):
        return replace(told, successors=successors, holds=holds), 0
    held = max(0, count - len(successors))
    return replace(told, successors=successors[:count], holds=holds[:held]), start + count


def joined(pieces: Iterable[GrainState]) -> dict[bytes, GrainState]:
    """Put the pieces of states together again, as far as they are here; by address."""
    found: dict[bytes, GrainState] = {}
    for one in pieces:
        if (before := found.get(one.address)) is not None:
            successors = tuple(sorted({*before.successors, *one.successors}))
            holds = tuple(sorted({*before.holds, *one.holds}, key=lambda hold: hold.authority))
            one = replace(one, successors=successors, holds=holds)
        found[one.address] = one
    return found


def _of_hold(told: HoldToggle) -> int:
    return _NAME + len(told.authority.encode()) + len(told.reason_code.encode())


def is_compared(told: GrainState) -> bool:
    """Whether two stores that differ in a state have something to tell each other."""
    return replace(told, status="") != GrainState(told.address) or told.status not in (
        "",
        "verified",
    )


def tombstone_of(mark: bytes, row: bytes) -> Tombstone:
    """Read a row of tombstones-0."""
    try:
        read = msgpack.unpackb(row)
        times, hint = records.counted(int(read.get("n", 1))), bytes(read.get("h", b""))
        return Tombstone(mark, int(read["t"]), str(read["r"]), times, hint)
    except (ValueError, TypeError, KeyError, AttributeError, msgpack.UnpackException):
        raise IntegrityError("a tombstone cannot be read: its row is damaged") from None


def tombstone_row(stone: Tombstone) -> bytes:
    """Make a row of tombstones-0."""
    told = {"t": stone.at, "r": stone.reason_code}
    more = {"n": stone.times if stone.times > 1 else 0, "h": stone.hint}
    row: bytes = msgpack.packb({**told, **{name: value for name, value in more.items() if value}})
    return row


MARK: Final = 32
_ID = b"sync.id"
_SEEN = b"sync.seen."
_FOLLOWED = b"sync.followed."
_CAME = b"sync.came."
_ERASING = b"sync.erasing."
_ID_BYTES = 16
_SHORT = 8
_BACK = 64  # numbers that are looked at for one that is taken

Spans: TypeAlias = list[tuple[int, int]]
"""Numbers from and to, both inclusive, rising."""


def store_id(reader: Reader) -> bytes | None:
    """Return the id of a store; None if it never took part in a sync."""
    return reader.row(META, _ID)


def identify(writer: Writer) -> bytes:
    """Return the id of a store; make one if there is none."""
    found = store_id(writer)
    if found is None:
        found = os.urandom(_ID_BYTES)
        writer.set_row(META, _ID, found)
    return found


def seen(reader: Reader, store: bytes, namespaces: Sequence[str] | None) -> Position | None:
    """Return how far the feed of another store was taken."""
    row = reader.row(META, _SEEN + store + _scope(namespaces))
    return None if row is None else Position(*_read(row))


def see(
    writer: Writer, store: bytes, namespaces: Sequence[str] | None, position: Position
) -> None:
    """Remember how far the feed of another store was taken."""
    packed = msgpack.packb([position.seq, position.mark])
    writer.set_row(META, _SEEN + store + _scope(namespaces), packed)


def followed(reader: Reader, store: bytes, namespaces: Sequence[str] | None) -> bytes:
    """Return the digest that the tombstones of a store had when they were taken; or nothing."""
    return reader.row(META, _FOLLOWED + store + _scope(namespaces)) or b""


def follow(writer: Writer, store: bytes, namespaces: Sequence[str] | None, digest: bytes) -> None:
    """Remember that all tombstones of a store were taken."""
    writer.set_row(META, _FOLLOWED + store + _scope(namespaces), digest)


def came(reader: Reader, store: bytes) -> Spans:
    """Return the numbers of the rows that came from another store."""
    row = reader.row(META, _CAME + store)
    return [] if row is None or not store else [(first, last) for first, last in _read(row)]


def add_came(writer: Writer, store: bytes, fresh: Spans, taken: Position | None) -> None:
    """Remember rows that came from another store."""
    end = START.seq if taken is None else taken.seq
    spans: Spans = []
    for first, last in (*came(writer, store), *fresh):
        if last <= end or last < first:
            continue
        if spans and spans[-1][1] + 1 >= first:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    writer.set_row(META, _CAME + store, msgpack.packb(spans) if spans else None)


def add_erasing(writer: Writer, marks: Sequence[bytes]) -> None:
    """Remember marks whose grains are to be looked for."""
    if marks:
        last = max((key for key, _ in writer.rows(META, prefix=_ERASING)), default=None)
        number = 0 if last is None else SEQUENCE.unpack(last[len(_ERASING) :])[0] + 1
        writer.set_row(META, _ERASING + SEQUENCE.pack(number), b"".join(marks))


def erasing(reader: Reader) -> set[bytes]:
    """Return the marks whose grains are to be looked for."""
    return {mark for _, row in reader.rows(META, prefix=_ERASING) for mark in _marks(row)}


def clear_erasing(writer: Writer, done: Container[bytes]) -> None:
    """Forget marks whose grains were looked for; those that others have added since stay."""
    for key, row in list(writer.rows(META, prefix=_ERASING)):
        left = b"".join(mark for mark in _marks(row) if mark not in done)
        if left != row:
            writer.set_row(META, key, left or None)


def _marks(row: bytes) -> Iterator[bytes]:
    return (row[at : at + MARK] for at in range(0, len(row), MARK))


def mark_at(reader: Reader, seq: int) -> bytes:
    """Return what tells that a store has the history it had, up to a number.

    It is a digest of the row at that number or next before it; nothing where there is none near.
    """
    for at in range(seq, max(seq - _BACK, 0), -1):
        row = reader.row(EVENTS, SEQUENCE.pack(at)) or reader.blob_at(at)
        if row is not None:
            return blake3.blake3(SEQUENCE.pack(at) + row).digest(_SHORT)
    return b""


def _scope(namespaces: Sequence[str] | None) -> bytes:
    if namespaces is None:
        return b""
    return blake3.blake3(msgpack.packb(sorted(set(namespaces)))).digest(_SHORT)


def _read(row: bytes) -> Iterator[Any]:
    try:
        return iter(msgpack.unpackb(row, use_list=False))
    except (ValueError, TypeError, msgpack.UnpackException):
        raise StoreError("what is remembered of a sync is damaged") from None
