# SPDX-License-Identifier: Apache-2.0
"""Orders that a grain stays as it is, whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgpack

from omsgrain.errors import IntegrityError, NotFoundError
from omsgrain.storage import records
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.tables import HELD, HOLDS, RELEASED, SEQUENCE
from omsgrain.store.policy_context import seq_of

LONGEST = 1_024
"""Letters of the name of an authority: no store takes a longer one from another."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Somebody's order that a grain stays as it is.

    Attributes:
        authority: who gave it.
        reason_code: a word for the reason.
        since: ms since 1970.
    """

    authority: str
    reason_code: str
    since: int


HoldAct: TypeAlias = Callable[[Writer, bytes, Hold], None]


def hold(writer: Writer, digest: bytes, wanted: Hold) -> None:
    """Add a hold; one of the same authority is replaced."""
    seq = seq_of(writer, digest)
    held = holds(writer, seq)
    others = [h for h in held if h.authority != wanted.authority]
    _set_holds(writer, seq, [*others, wanted])
    if len(others) == len(held):
        records.flip(writer, seq, records.hold_of(wanted.authority), True, wanted.authority)
    writer.event(HELD, seq, digest)


def release(writer: Writer, digest: bytes, ended: Hold) -> None:
    """End the hold of an authority."""
    seq = seq_of(writer, digest)
    held = holds(writer, seq)
    others = [h for h in held if h.authority != ended.authority]
    if len(others) == len(held):
        raise NotFoundError("this authority does not hold the grain", field="/authority")
    _set_holds(writer, seq, others)
    records.flip(writer, seq, records.hold_of(ended.authority), False, ended.authority)
    writer.event(RELEASED, seq, digest)


def holds(reader: Reader, seq: int) -> tuple[Hold, ...]:
    """Return the holds of a grain."""
    row = reader.row(HOLDS, SEQUENCE.pack(seq))
    try:
        return () if row is None else tuple(Hold(*item) for item in msgpack.unpackb(row))
    except (ValueError, TypeError, msgpack.UnpackException):
        raise IntegrityError("who holds a grain cannot be read: its row is damaged") from None


def _set_holds(writer: Writer, seq: int, wanted: list[Hold]) -> None:
    rows = [[h.authority, h.reason_code, h.since] for h in wanted]
    writer.set_row(HOLDS, SEQUENCE.pack(seq), msgpack.packb(rows) if rows else None)
