# SPDX-License-Identifier: Apache-2.0
"""What goes with a grain that is erased: itself, and whatever names it or talks about it.

    blob, index and blind rows, state, vectors, signatures     go
    reviews that name it, notes of the audit trail about it    go
    what is due about it                                       goes
    events, and states of grains that it superseded            have a mark in place of its address

The mark is that of its tombstone. Followers of ``changes`` and indexes beside the store learn of
the removal by a last event, by the grain's number. The address of a sealed grain is that of random
bytes, which tells nothing; it stays in events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import msgpack

from omsgrain.engine import lineage
from omsgrain.errors import OmsError, StoreError
from omsgrain.store import due, tombstones
from omsgrain.store.base import Reader, Writer
from omsgrain.store.sealing import key_of
from omsgrain.store.state import SUPERSEDED, pack, unpack
from omsgrain.store.tables import (
    AUDIT,
    BLIND,
    DELETED,
    EVENT,
    EVENTS,
    KEPT,
    KEYED,
    META,
    NOTES,
    PLAIN,
    REVIEWS,
    SEALED,
    SEQUENCE,
    STATES,
)

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings

__all__ = ["Names", "forget_talk", "names_of", "remove_grains"]

_ENCRYPTED = 2  # bit of the second header byte
_DIGEST = 32


@dataclass(frozen=True, slots=True)
class Names:
    """The addresses of a grain.

    Attributes:
        stored: the digest that it is stored under.
        plain: the digest of what it says; None if it is sealed, and no key here opens it.
    """

    stored: bytes
    plain: bytes | None

    @property
    def sealed(self) -> bool:
        """Whether the two differ."""
        return self.stored != self.plain


def names_of(reader: Reader, seq: int) -> Names | None:
    """Return the addresses of a grain; None if it is not there."""
    blob = reader.blob_at(seq)
    if blob is None:
        return None
    stored = sha256(blob).digest()
    if not blob[1] & _ENCRYPTED:
        return Names(stored, stored)
    try:
        grain = reader.grain(seq)
    except StoreError:
        raise
    except OmsError:  # damaged, or sealed with a key of elsewhere
        grain = None
    if grain is None or grain.sealed:
        return Names(stored, None)
    return Names(stored, sha256(grain.blob).digest())


def remove_grains(
    writer: Writer,
    settings: Settings,
    seqs: Iterable[int],
    *,
    reason_code: str,
    tombstone: bool = True,
) -> int:
    """Remove grains with all that tells of them, in a transaction.

    Nobody is asked whether they may go: that is the caller's part, and so is the entry in the
    audit trail, which comes after this. All events, states and reviews are read, so give as many
    grains at once as a transaction should have.

    Args:
        writer: the transaction.
        settings: of the handle.
        seqs: their numbers; what is not there is passed over.
        reason_code: a word for the reason.
        tombstone: remember what they were, so that they do not come back unnoticed.

    Returns:
        How many were removed.
    """
    found = {seq: names for seq in seqs if (names := names_of(writer, seq)) is not None}
    if not found:
        return 0
    now, key = settings.clock(), tombstones.key(writer)
    # First, since an entry about notes says how many grains there are.
    forget_talk(writer, settings, found.values(), reason_code=reason_code)
    marks: dict[bytes, bytes] = {}
    below: Reader = getattr(writer, "inner", writer)
    for names in found.values():
        if names.plain is None:
            continue
        if tombstone:
            tombstones.add(writer, "address", names.plain, now, reason_code)
        # Another grain may stand in the clear under what this one was before it was sealed.
        if not names.sealed or below.find([names.plain])[0] is None:
            marks[names.plain] = tombstones.mark(key, "address", names.plain)
    _mark_states(writer, marks)
    _mark_events(writer, marks)
    _forget_blind(writer, [seq for seq, names in found.items() if names.plain is None])
    for seq, names in found.items():
        lineage.leave(writer, seq)
        writer.remove(seq)
        writer.event(DELETED, seq, marks.get(names.stored, names.stored))
    due.drop(writer, found.keys())
    return len(found)


def forget_talk(
    writer: Writer, settings: Settings, names: Iterable[Names], *, reason_code: str
) -> None:
    """Erase what people have written about grains: notes of the audit trail, and reviews.

    Args:
        writer: the transaction.
        settings: of the handle.
        names: the grains.
        reason_code: a word for the reason, for the entry that says how many notes went.
    """
    from omsgrain.store import audit

    digests = {digest for one in names for digest in (one.stored, one.plain) if digest}
    addresses = {digest.hex() for digest in digests}
    for key, row in list(writer.rows(REVIEWS)):
        review = msgpack.unpackb(row)
        if not addresses.isdisjoint((review.get("address"), review.get("by"))):
            writer.set_row(REVIEWS, key, None)
    if numbers := _notes_about(writer, digests):
        audit.erase_notes(
            writer,
            numbers,
            actor=settings.actor,
            time=settings.clock(),
            reason_code=reason_code,
        )


def _notes_about(reader: Reader, digests: Collection[bytes]) -> list[int]:
    """The entries of the audit trail that have a note, and are about some grains."""
    from omsgrain.store.audit.entry import KEY_BYTES, KEY_RECORD, NUMBER, TAG, hmac, read_entry

    shared = reader.row(META, KEY_RECORD)
    if shared is None or len(shared) != KEY_BYTES or next(reader.rows(NOTES), None) is None:
        return []
    wanted = {hmac(shared, digest)[:TAG] for digest in digests}
    found = []
    for place, _ in reader.rows(NOTES):
        entry = read_entry(reader.row(AUDIT, place) or b"")
        tags = b"" if entry is None else entry.get("g", b"")
        if any(tags[at : at + TAG] in wanted for at in range(0, len(tags), TAG)):
            found.append(NUMBER.unpack(place)[0])
    return found


def _mark_states(writer: Writer, marks: Mapping[bytes, bytes]) -> None:
    """Put marks in the place of successors that are removed; what they superseded stays past."""
    for key, row in writer.rows(STATES):
        if not row[0] & SUPERSEDED or not _named(row, marks):
            continue
        state = unpack(row)
        named = (bytes.fromhex(address) for address in state.successors)
        after = tuple(sorted(marks.get(digest, digest).hex() for digest in named))
        state = replace(state, superseded_by=after[0], successors=after)
        writer.set_row(STATES, key, pack(state))


def _named(row: bytes, marks: Mapping[bytes, bytes]) -> bool:
    try:
        return any(digest in marks for digest in msgpack.unpackb(row[1:])["s"])
    except (ValueError, KeyError, TypeError, msgpack.UnpackException):
        return False  # damaged: `check` tells it


def _mark_events(writer: Writer, marks: Mapping[bytes, bytes]) -> None:
    """Put marks into all events with the addresses, those of an earlier life among them."""
    for key, row in writer.rows(EVENTS):
        mark = marks.get(row[-_DIGEST:])
        if mark is not None and len(row) == EVENT.size:
            kind, seq, _ = EVENT.unpack(row)
            writer.set_row(EVENTS, key, EVENT.pack(kind, seq, mark))


def _forget_blind(writer: Writer, seqs: Iterable[int]) -> None:
    """Take out the blind rows of many grains that cannot be opened.

    Which rows are theirs is told by the places only, so all rows of a key are read: here once, and
    not once for each grain.
    """
    by_key: dict[bytes, set[bytes]] = {}
    for seq in seqs:
        number = key_of(writer, seq)
        if number is not None:
            by_key.setdefault(number, set()).add(SEQUENCE.pack(seq))
    for number, keys in by_key.items():
        ends = {key[-4:] for key in keys}
        for row, _ in writer.rows(BLIND, prefix=number):
            if row[-4:] in ends:
                writer.set_row(BLIND, row, None)
        for row, value in writer.rows(PLAIN, prefix=number):
            if value in keys:
                writer.set_row(PLAIN, row, None)
        for key in keys:
            writer.set_row(SEALED, key, None)
            writer.set_row(KEYED, number + key, None)
            writer.set_row(KEPT, number + key, None)
