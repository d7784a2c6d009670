# SPDX-License-Identifier: Apache-2.0
"""How far a store goes back, what left it, and what bounds it: for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from omsgrain.storage.audit import times
from omsgrain.storage.audit.log import HEAD_RECORD, HEAD_VALUE, NUMBER, read_entry
from omsgrain.storage.base import Reader
from omsgrain.storage.records import removed_count
from omsgrain.storage.tables import AUDIT, META
from omsgrain.store.history_limiter import AgePosition, next_page

if TYPE_CHECKING:
    from omsgrain.store.context import Context

_ENTRIES: Final = 4_096  # of the audit trail that are looked at, the newest ones
_TOGETHER: Final = 512  # of them that are read at once: a server answers each read by itself


@dataclass(frozen=True, slots=True)
class HistoryState:
    """How far a store goes back, and what bounds it.

    Attributes:
        removed: number of grains that left the store since it was made, for any reason.
        oldest_at: when the oldest grain was created, ms since 1970; an encrypted grain counts
            from when it was stored. None if the store is empty, or no entry tells.
        retained_at: when grains last left by age or by size, ms since 1970. None if the newest
            entries of the audit trail have no such removal.
        keep: the age at which grains leave, ms: of this open store, else of that removal.
        max_bytes: the size of the data file at the most, likewise.
    """

    removed: int
    oldest_at: int | None
    retained_at: int | None
    keep: int | None
    max_bytes: int | None


def history_state(context: Context) -> HistoryState:
    """Return how far a store goes back, from one snapshot."""
    with context.storage.read() as reader:
        last = _last_removal(reader)
        details = {} if last is None else last.get("d", {})
        limits = context.settings.limits
        return HistoryState(
            removed=removed_count(reader),
            oldest_at=_oldest_at(reader),
            retained_at=None if last is None else int(last["t"]),
            keep=_number(details.get("keep")) if limits is None else limits.keep,
            max_bytes=_number(details.get("max_bytes")) if limits is None else limits.max_bytes,
        )


def _oldest_at(reader: Reader) -> int | None:
    at = next_page(reader, AgePosition(None, 0), None, 1).at
    if at.place is not None:
        return at.time
    return times.stored_at(reader, at.seq) if at.seq else None


def _last_removal(reader: Reader) -> dict[str, Any] | None:
    """Return the newest entry about grains that left by age or by size."""
    head = reader.row(META, HEAD_RECORD)
    last = 0 if head is None else HEAD_VALUE.unpack(head)[0]
    for first in range(last, max(0, last - _ENTRIES), -_TOGETHER):
        keys = [NUMBER.pack(number) for number in range(first, max(0, first - _TOGETHER), -1)]
        found = reader.some_rows(AUDIT, keys)
        for body in (read_entry(found[key]) for key in keys if key in found):
            if body is not None and body["o"] == "retain":
                return body
    return None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
