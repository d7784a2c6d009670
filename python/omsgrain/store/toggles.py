# SPDX-License-Identifier: Apache-2.0
"""How often something about a grain was begun and ended, so that stores agree on what came last.

    key of toggles-0   number of the grain, u64 ++ what it is about
    value              MessagePack list: the turn ++ a name

The turn is odd while it is on, and even when it is off again: the higher of two turns is the later
one, whatever the clocks say. What was begun once and never ended has no row, and is at turn 1.

A number that nobody can have counted to comes from an attacker. None is taken over, none is
written, and one that an earlier version took over is read as the beginning of a new count.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgpack

from omsgrain.errors import IntegrityError
from omsgrain.store.tables import SEQUENCE, TOGGLES

if TYPE_CHECKING:
    from omsgrain.store.base import Reader, Writer

__all__ = [
    "JUMP",
    "MOST",
    "RESTRICTION",
    "counted",
    "flip",
    "hold_of",
    "is_sound",
    "named",
    "put",
    "taken",
    "turn",
]

RESTRICTION: Final = b"r"
MOST: Final = 1 << 32
"""The highest number that is written: nobody holds and releases so often."""
JUMP: Final = 1 << 16
"""How much higher than one's own a number from another store can be."""
_HOLD = b"h"
_NAME = 16


def hold_of(authority: str) -> bytes:
    """What the hold of an authority goes by."""
    return _HOLD + sha256(authority.encode("utf-8")).digest()[:_NAME]


def turn(reader: Reader, seq: int, what: bytes, on: bool) -> int:
    """Return the turn that something is at.

    Args:
        reader: a snapshot or a transaction.
        seq: the grain.
        what: ``RESTRICTION``, or what ``hold_of`` gives.
        on: whether it is on now.

    Raises:
        IntegrityError: its row is damaged.
    """
    row = reader.row(TOGGLES, SEQUENCE.pack(seq) + what)
    return int(on) if row is None else _read(row)[0]


def flip(writer: Writer, seq: int, what: bytes, on: bool, name: str = "") -> None:
    """Count that something was begun, or ended, just now."""
    at = turn(writer, seq, what, not on) + 1
    put(writer, seq, what, at if at <= MOST else at - 2, name)


def taken(mine: int, told: int) -> int:
    """Return the turn to go on with, when another store tells one.

    What is on there is on here as well, also if its number cannot be; that it ended is believed
    with a number that can be only.

    Args:
        mine: the turn here.
        told: the turn there, of any size.
    """
    if told <= min(mine + JUMP, MOST):
        return max(mine, told)
    return mine + 1 if told % 2 and not mine % 2 else mine


def counted(number: int) -> int:
    """Return a stored number; one that nobody can have counted to is where a count begins."""
    return number if number <= MOST else 2 - number % 2


def is_sound(row: bytes) -> bool:
    """Whether a row is one that this or an earlier version wrote."""
    try:
        return _parsed(row)[0] > 1
    except IntegrityError:
        return False


def put(writer: Writer, seq: int, what: bytes, at: int, name: str = "") -> None:
    """Set the turn that something is at.

    Args:
        writer: the transaction.
        seq: the grain.
        what: as of ``turn``.
        at: the turn.
        name: of the authority, of a hold.
    """
    value = msgpack.packb([at, name]) if at > 1 else None
    writer.set_row(TOGGLES, SEQUENCE.pack(seq) + what, value)


def named(reader: Reader, seq: int) -> Iterator[tuple[str, int]]:
    """Walk the authorities whose holds were ended at least once, with the turns of their holds.

    Raises:
        IntegrityError: a row is damaged.
    """
    for _, row in reader.rows(TOGGLES, prefix=SEQUENCE.pack(seq) + _HOLD):
        at, name = _read(row)
        yield name, at


def _read(row: bytes) -> tuple[int, str]:
    at, name = _parsed(row)
    return counted(at), name


def _parsed(row: bytes) -> tuple[int, str]:
    try:
        at, name = msgpack.unpackb(row)
    except (ValueError, TypeError, msgpack.UnpackException):
        at = name = None
    if type(at) is not int or at < 1 or type(name) is not str:
        raise IntegrityError("how often a grain was held or restricted cannot be read")
    return at, name
