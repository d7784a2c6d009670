# SPDX-License-Identifier: Apache-2.0
"""The end of life of a grain: a time in its status, and an entry in the queue of erasures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.errors import RangeError
from omsgrain.query import times
from omsgrain.query.walk import ended
from omsgrain.storage import erasure_queue
from omsgrain.storage.base import Writer
from omsgrain.storage.records import pack, unpack
from omsgrain.storage.tables import SEQUENCE, STATES
from omsgrain.store.context import Context, seq_of, stored_digest

if TYPE_CHECKING:
    from omsgrain.query.times import Time

_LATEST = 1 << 62


def end_of(context: Context, value: Time) -> int:
    """Return an end of life in ms since 1970; a span of time counts from now on."""
    at = times.millis(value, field="/expires_at", now=context.settings.clock(), ahead=True)
    if not 0 <= at <= _LATEST:
        expected = "1970 or later, or a time span"
        raise RangeError("not an end of life", field="/expires_at", expected=expected)
    return at


def set_end(writer: Writer, seqs: Iterable[int], at: int | None) -> None:
    for seq in seqs:
        key = SEQUENCE.pack(seq)
        before = unpack(writer.row(STATES, key))
        if before.expires_at != at:
            writer.set_row(STATES, key, pack(replace(before, expires_at=at)))
            erasure_queue.expire(writer, seq, before.expires_at, at)


def set_end_of(writer: Writer, digests: Sequence[bytes], at: int | None) -> None:
    """Do the same for grains by their stored digests."""
    set_end(writer, [seq for seq in writer.find(digests) if seq is not None], at)


def renew(context: Context, writer: Writer, digests: Sequence[bytes]) -> None:
    """Lift the end of life of grains that are stored again after it came."""
    if (over := ended(writer, context.settings.clock)) is not None:
        for seq in writer.find(digests):
            if seq is not None and over(seq):
                set_end(writer, [seq], None)


def expire(context: Context, addresses: Iterable[str], at: Time | None) -> None:
    digests = [_core.parse_address(address) for address in addresses]
    end = None if at is None else end_of(context, at)

    def work(writer: Writer) -> None:
        set_end(writer, [seq_of(writer, digest) for digest in digests], end)
        context.note(writer, "expire", [stored_digest(writer, digest) for digest in digests])

    context.storage.write(work)
