# SPDX-License-Identifier: Apache-2.0
"""When grains were stored, by the audit trail.

The time inside an encrypted grain is encrypted too. The trail has the time of each put, and how
far the sequence numbers had come after it; both rise with the number of the entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omsgrain.storage.audit.log import HEAD_RECORD, HEAD_VALUE, NUMBER, read_entry
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import AUDIT, META


def last_before(reader: Reader, time: int) -> int:
    """Return the last sequence number that was given before a time, in ms."""
    before, after = _neighbours(reader, lambda body: bool(body["t"] >= time))
    if after is None:
        return reader.last_seq()
    return 0 if before is None else int(before["s"])


def stored_at(reader: Reader, seq: int) -> int | None:
    """Return when a sequence number was given, in ms; None if no entry tells."""
    _, after = _neighbours(reader, lambda body: bool(body["s"] >= seq))
    return None if after is None else int(after["t"])


_Body = dict[str, Any]


def _neighbours(
    reader: Reader, late: Callable[[_Body], bool]
) -> tuple[_Body | None, _Body | None]:
    """Return the last entry that is not late, and the first that is."""
    head = reader.row(META, HEAD_RECORD)
    low, high = 0, 0 if head is None else HEAD_VALUE.unpack(head)[0]
    before: _Body | None = None
    after: _Body | None = None
    while low < high:
        middle = (low + high) // 2
        body = _next(reader, middle)
        if body is None or late(body):
            after, high = body or after, middle
        else:
            before, low = body, int(body["i"])
    return before, after


def _next(reader: Reader, number: int) -> _Body | None:
    """Return the first readable entry after a number."""
    for _, row in reader.rows(AUDIT, NUMBER.pack(number)):
        body = read_entry(row)
        if body is not None:
            return body
    return None
