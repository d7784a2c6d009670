# SPDX-License-Identifier: Apache-2.0
"""How often something about a grain was begun and ended, so that stores agree on what came last.

    key of toggles-0   number of the grain, u64 ++ what it is about
    value              MessagePack list: the turn ++ a name

The turn is odd while it is on, and even when it is off again: the higher of two turns is the later
one, whatever the clocks say. What was begun once and never ended has no row, and is at turn 1.
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

__all__ = ["RESTRICTION", "flip", "hold_of", "named", "put", "turn"]

RESTRICTION: Final = b"r"
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
    put(writer, seq, what, turn(writer, seq, what, not on) + 1, name)


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
    try:
        at, name = msgpack.unpackb(row)
    except (ValueError, TypeError, msgpack.UnpackException):
        at = name = None
    if type(at) is not int or at < 1 or type(name) is not str:
        raise IntegrityError("how often a grain was held or restricted cannot be read")
    return at, name
