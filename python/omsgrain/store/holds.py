# SPDX-License-Identifier: Apache-2.0
"""Holds, which protect grains from any change, and ``store.holds``."""

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
"""Maximum number of characters in an authority's name."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold: an authority's order not to change a grain.

    Attributes:
        authority: who ordered it.
        reason_code: the reason, one word.
        since: ms since 1970.
    """

    authority: str
    reason_code: str
    since: int


HoldChange: TypeAlias = Callable[[Writer, bytes, Hold], None]


def hold(writer: Writer, digest: bytes, wanted: Hold) -> None:
    """Add a hold. It replaces a hold of the same authority."""
    seq = seq_of(writer, digest)
    held = holds(writer, seq)
    others = [h for h in held if h.authority != wanted.authority]
    _set_holds(writer, seq, [*others, wanted])
    if len(others) == len(held):
        records.flip(writer, seq, records.hold_of(wanted.authority), True, wanted.authority)
    writer.event(HELD, seq, digest)


def release(writer: Writer, digest: bytes, ended: Hold) -> None:
    seq = seq_of(writer, digest)
    held = holds(writer, seq)
    others = [h for h in held if h.authority != ended.authority]
    if len(others) == len(held):
        raise NotFoundError("this authority has no hold on the grain", field="/authority")
    _set_holds(writer, seq, others)
    records.flip(writer, seq, records.hold_of(ended.authority), False, ended.authority)
    writer.event(RELEASED, seq, digest)


def holds(reader: Reader, seq: int) -> tuple[Hold, ...]:
    row = reader.row(HOLDS, SEQUENCE.pack(seq))
    try:
        return () if row is None else tuple(Hold(*item) for item in msgpack.unpackb(row))
    except (ValueError, TypeError):
        raise IntegrityError("the row with the holds of a grain is damaged") from None


def _set_holds(writer: Writer, seq: int, wanted: list[Hold]) -> None:
    rows = [[h.authority, h.reason_code, h.since] for h in wanted]
    writer.set_row(HOLDS, SEQUENCE.pack(seq), msgpack.packb(rows) if rows else None)


class Holds(StorePart):
    """``store.holds``: legal holds on grains."""

    __slots__ = ()

    def add(self, address: str, *, authority: str, reason_code: str) -> None:
        """Hold a grain. Until the release, it cannot be superseded, deleted or erased.

        Args:
            address: the grain.
            authority: who orders the hold; only the same authority can release it.
            reason_code: the reason, one word such as ``litigation``. It goes into the audit trail,
                so do not use personal data.

        Raises:
            NotFoundError: the grain is not in the store.
            SchemaError: the authority is empty, or the reason is not one word.
            RangeError: the authority has more than 1,024 characters.
            StoreError: the store is read-only, full or damaged. Nothing was stored.
        """
        if isinstance(authority, str) and len(authority) > LONGEST:
            raise RangeError(
                "the authority's name is too long",
                field="/authority",
                expected=f"at most {LONGEST} characters",
            )
        self._change("hold", hold, address, authority, reason_code)

    def release(self, address: str, *, authority: str, reason_code: str) -> None:
        """Release an authority's hold. Holds of other authorities stay.

        Args:
            address: the grain.
            authority: who ordered the hold.
            reason_code: the reason for the release, one word.

        Raises:
            NotFoundError: the authority has no hold on this grain.
            SchemaError, StoreError: as for ``add``.
        """
        self._change("release", release, address, authority, reason_code)

    def _change(
        self, operation: str, change: HoldChange, address: str, authority: str, reason_code: str
    ) -> None:
        context = self._context
        digest = _core.parse_address(address)
        if not _is_name(authority):
            raise SchemaError("a hold needs the name of its authority", field="/authority")
        check_reason(reason_code)
        wanted = Hold(authority, reason_code, context.settings.clock())

        def work(writer: Writer) -> None:
            about = stored_digest(writer, digest)
            change(writer, about, wanted)
            context.note(writer, operation, [about], reason_code=reason_code)

        context.storage.write(work)

    def of(self, address: str) -> tuple[Hold, ...]:
        """Return the holds of a grain.

        Args:
            address: the grain.

        Raises:
            NotFoundError: the grain is not in the store.
        """
        digest = _core.parse_address(address)
        with self._context.storage.read() as reader:
            return holds(reader, seq_of(reader, digest))

    def active(self) -> Iterator[tuple[str, Hold]]:
        """Iterate over all holds with the address of their grain, in storage order.

        Raises:
            IntegrityError: a row is damaged.
        """
        with self._context.storage.read() as reader:
            seqs = [SEQUENCE.unpack(key)[0] for key, _ in reader.rows(HOLDS)]
            found = [(address_of(reader, seq), one) for seq in seqs for one in holds(reader, seq)]
        yield from found


def _is_name(value: object) -> bool:
    """Whether a value is a text with visible characters that UTF-8 can encode."""
    try:
        return isinstance(value, str) and bool(value.strip()) and bool(value.encode())
    except UnicodeEncodeError:  # an unpaired surrogate
        return False
