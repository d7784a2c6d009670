# SPDX-License-Identifier: Apache-2.0
"""Erasures with a deadline: the queue in due-0, sorted by deadline.

    key     deadline, ms, u64 ++ number, u64: of the grain, or the next that is free
    value   MessagePack map: "kind", "seq" of the grain if it is about one, and what else is needed

The queue has the numbers of grains, never their addresses: the plain address of a sealed grain
must not be known without its key, and that of an erased one not at all.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgpack

from omsgrain.errors import IntegrityError, RangeError
from omsgrain.storage.tables import DUE

if TYPE_CHECKING:
    from omsgrain.storage.base import Reader, Writer

CONSENT: Final = "consent"
"""The kind of an entry for a grain whose consent was withdrawn; "consent" is its number."""
RETENTION: Final = "retention"
"""The kind of an entry for a grain whose retention ends, by the terms of its import."""
EXPIRY: Final = "expiry"
"""The kind of an entry for a grain that was stored with an end of life."""
ENDS: Final = (RETENTION, EXPIRY)

SCRUB: Final = "scrub"
"""The kind of an entry for rewriting the files without erased data."""
WITHIN: Final = 30
"""The default number of days for that."""

KEY = struct.Struct(">QQ")
_DEADLINE = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class QueuedErasure:
    key: bytes  # of its row
    deadline: int  # when it must have been done, ms since 1970
    kind: str  # what is to be done
    seq: int | None  # the grain that it is about, if it is about one
    what: Mapping[str, Any]  # the rest, as it was added


def add(writer: Writer, deadline: int, what: Mapping[str, Any]) -> bytes:
    if not 0 <= deadline < 1 << 63:
        raise RangeError("not a time", field="/deadline", expected="ms since 1970")
    number = what.get("seq", 0)
    while writer.row(DUE, key := KEY.pack(deadline, number)) is not None:
        number += 1
    writer.set_row(DUE, key, msgpack.packb(dict(what)))
    return key


def due(reader: Reader, until: int | None = None) -> Iterator[QueuedErasure]:
    for key, row in reader.rows(DUE):
        found = _read(key, row)
        if until is not None and found.deadline > until:
            return
        yield found


def retention_over(reader: Reader, now: int) -> frozenset[int]:
    """Return the numbers of the grains whose retention is over: only their person gets them.

    The consent, the term of their import or their end of life allows no longer use. They stay in
    the store until ``store.privacy.run_due``, or as long as a hold keeps them.
    """
    return frozenset(
        one.seq for one in due(reader, now) if one.kind in ENDS and one.seq is not None
    )


def expire(writer: Writer, seq: int, before: int | None, at: int | None) -> None:
    """Queue the end of life of a grain, in place of an earlier entry."""
    if before is not None:
        for key, row in list(writer.rows(DUE, prefix=_DEADLINE.pack(before))):
            found = _read(key, row)
            if found.kind == EXPIRY and found.seq == seq:
                done(writer, key)
    if at is not None:
        add(writer, at, {"kind": EXPIRY, "seq": seq})


def done(writer: Writer, key: bytes) -> None:
    writer.set_row(DUE, key, None)


def drop(writer: Writer, seqs: Collection[int]) -> int:
    """Remove all entries about some grains, which are gone; return their number."""
    keys = [found.key for found in due(writer) if found.seq in seqs]
    for key in keys:
        done(writer, key)
    return len(keys)


def _read(key: bytes, row: bytes) -> QueuedErasure:
    try:
        deadline, _ = KEY.unpack(key)
        what = msgpack.unpackb(row)
        kind, seq = what["kind"], what.get("seq")
        sound = isinstance(kind, str) and (seq is None or type(seq) is int)
        if kind == CONSENT:  # one that lacks its consent would pass for one that was withdrawn
            sound = sound and seq is not None and type(what.get("consent")) is int
        sound = sound and not (kind in ENDS and seq is None)
    except (struct.error, KeyError, TypeError, ValueError, AttributeError):
        sound = False
    if not sound:
        raise IntegrityError("an erasure that is due cannot be read: its row is damaged")
    return QueuedErasure(key, deadline, kind, seq, what)
