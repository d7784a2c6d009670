# SPDX-License-Identifier: Apache-2.0
"""What a store tells others of its grains, tombstones and holds; and short digests of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import groupby
from typing import Final

import blake3
import msgpack

from omsgrain.engine import holding
from omsgrain.errors import IntegrityError
from omsgrain.store import toggles, tombstones
from omsgrain.store.base import Reader
from omsgrain.store.signatures import SEALED
from omsgrain.store.state import unpack
from omsgrain.store.tables import (
    HOLDS,
    SEQUENCE,
    SIGNATURES,
    STATES,
    SUPERSEDES,
    TOGGLES,
    Table,
)
from omsgrain.sync.peer import GrainState, HoldTurn, Space, Tombstone
from omsgrain.sync.wire import pack

__all__ = [
    "VERSION",
    "cut",
    "holds_told",
    "is_compared",
    "joined",
    "numbers",
    "predecessors",
    "signed",
    "state_told",
    "storied",
    "tombstone_of",
    "tombstone_row",
    "version",
    "weight",
]

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
    restricted = toggles.turn(reader, seq, toggles.RESTRICTION, state.restricted)
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


def holds_told(reader: Reader, seq: int) -> tuple[HoldTurn, ...]:
    """Return who holds a grain, and who did."""
    held = {one.authority: one for one in holding.holds(reader, seq)}
    turns = dict(toggles.named(reader, seq))
    found = []
    for authority in sorted(held.keys() | turns.keys()):
        hold = held.get(authority)
        at = turns.get(authority, 1)
        if hold is None:
            found.append(HoldTurn(authority, at))
        else:
            found.append(HoldTurn(authority, at, hold.reason_code, hold.since))
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


def version(told: GrainState | Tombstone | tuple[HoldTurn, ...]) -> bytes:
    """Return a short digest of what is told."""
    if isinstance(told, GrainState):
        # The first follows from the rest; the second is the judgement of one store.
        status = "" if told.status == "verified" else told.status
        told = replace(told, valid_to=None, status=status)
    return blake3.blake3(pack(told)).digest(VERSION)


def weight(told: GrainState) -> int:
    """How many bytes a state takes in a message, about."""
    named = sum(_of_hold(one) for one in told.holds)
    return _NAME * (1 + len(told.successors)) + named


def cut(told: GrainState, start: int) -> tuple[GrainState, int]:
    """Cut a piece out of a state that has more successors or holds than one message carries.

    Each piece is a state of its own. In which order they are taken over changes nothing.

    Args:
        told: the whole.
        start: the first of the successors, and then of the holds, that goes along.

    Returns:
        The piece, and where the next begins; 0 after the last.
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


def _of_hold(told: HoldTurn) -> int:
    return _NAME + len(told.authority.encode()) + len(told.reason_code.encode())


def is_compared(told: GrainState) -> bool:
    """Whether two stores that differ in a state have something to tell each other."""
    return replace(told, status="") != GrainState(told.address) or told.status not in (
        "",
        "verified",
    )


def tombstone_of(mark: bytes, row: bytes) -> Tombstone:
    """Read a row of tombstones-0.

    Raises:
        IntegrityError: it is damaged.
    """
    try:
        read = msgpack.unpackb(row)
        times, hint = toggles.counted(int(read.get("n", 1))), bytes(read.get("h", b""))
        return Tombstone(mark, int(read["t"]), str(read["r"]), times, hint)
    except (ValueError, TypeError, KeyError, AttributeError, msgpack.UnpackException):
        raise IntegrityError("a tombstone cannot be read: its row is damaged") from None


def tombstone_row(stone: Tombstone) -> bytes:
    """Make a row of tombstones-0."""
    told = {"t": stone.at, "r": stone.reason_code}
    more = {"n": stone.times if stone.times > 1 else 0, "h": stone.hint}
    row: bytes = msgpack.packb({**told, **{name: value for name, value in more.items() if value}})
    return row
