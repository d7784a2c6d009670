# SPDX-License-Identifier: Apache-2.0
"""Holds: orders that keep a grain from any change. ``store.holds`` adds and ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import msgpack

from omsgrain import _core
from omsgrain.errors import IntegrityError, NotFoundError, RangeError, SchemaError
from omsgrain.storage import records
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.tables import HELD, HOLDS, RELEASED, SEQUENCE
from omsgrain.store.context import StorePart, address_of, check_reason, seq_of, stored_digest

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


HoldChange: TypeAlias = Callable[[Writer, bytes, Hold], None]


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


class Holds(StorePart):
    """``store.holds``: who keeps grains from any change."""

    __slots__ = ()

    def add(self, address: str, *, authority: str, reason_code: str) -> None:
        """Hold a grain: nothing may supersede, delete or erase it until the release.

        Args:
            address: the grain.
            authority: who orders the hold; the same authority releases it.
            reason_code: a word for the reason, such as ``litigation``; it goes into the audit
                trail, so use nothing personal.

        Raises:
            NotFoundError: the grain is not in the store.
            SchemaError: an empty authority, or a reason that is no word.
            RangeError: an authority of more than 1,024 letters.
            StoreError: read-only, full or broken; nothing was stored.
        """
        if isinstance(authority, str) and len(authority) > LONGEST:
            raise RangeError(
                "so long a name has no authority",
                field="/authority",
                expected=f"at most {LONGEST} letters",
            )
        self._change("hold", hold, address, authority, reason_code)

    def release(self, address: str, *, authority: str, reason_code: str) -> None:
        """End an authority's hold; the holds of others stay.

        Raises:
            NotFoundError: the authority does not hold this grain.
            SchemaError, StoreError: as ``add``.
        """
        self._change("release", release, address, authority, reason_code)

    def _change(
        self, operation: str, change: HoldChange, address: str, authority: str, reason_code: str
    ) -> None:
        context = self._context
        digest = _core.parse_address(address)
        if not _is_name(authority):
            raise SchemaError("a hold names who asks for it", field="/authority")
        check_reason(reason_code)
        wanted = Hold(authority, reason_code, context.settings.clock())

        def work(writer: Writer) -> None:
            about = stored_digest(writer, digest)
            change(writer, about, wanted)
            context.note(writer, operation, [about], reason_code=reason_code)

        context.storage.write(work)

    def of(self, address: str) -> tuple[Hold, ...]:
        """Return the holds of a grain.

        Raises:
            NotFoundError: the grain is not in the store.
        """
        digest = _core.parse_address(address)
        with self._context.storage.read() as reader:
            return holds(reader, seq_of(reader, digest))

    def active(self) -> Iterator[tuple[str, Hold]]:
        """Walk all holds, each with the address of its grain, in order of arrival.

        Raises:
            IntegrityError: a row is damaged.
        """
        with self._context.storage.read() as reader:
            seqs = [SEQUENCE.unpack(key)[0] for key, _ in reader.rows(HOLDS)]
            found = [(address_of(reader, seq), one) for seq in seqs for one in holds(reader, seq)]
        yield from found


def _is_name(value: object) -> bool:
    """Whether a value is a text that is not empty and can be written as UTF-8."""
    try:
        return isinstance(value, str) and bool(value.strip()) and bool(value.encode())
    except UnicodeEncodeError:  # half a character of UTF-16
        return False
