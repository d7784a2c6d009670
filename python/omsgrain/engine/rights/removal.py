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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import msgpack

from omsgrain.engine import lineage, origins, reviewing
from omsgrain.errors import IntegrityError, OmsError, StoreError
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.store import due, tombstones
from omsgrain.store.base import Reader, Store, Writer
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
    Table,
)

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings

__all__ = ["Names", "forget_talk", "mark_erased", "names_of", "remember", "remove_grains"]

_DIGEST = 32
_NAMESPACE = slice(3, 5)  # its hash in the header
_ROWS = 20_000  # events or states a page

Row: TypeAlias = tuple[bytes, bytes]
Marking: TypeAlias = Callable[[Writer, Iterable[Row], Mapping[bytes, bytes]], None]


@dataclass(frozen=True, slots=True)
class Names:
    """The addresses of a grain.

    Attributes:
        stored: the digest that it is stored under.
        plain: the digest of what it says; None if it is sealed, and no key here opens it.
        said: the blob of what it says, if that is known.
    """

    stored: bytes
    plain: bytes | None
    said: bytes | None = field(default=None, repr=False)

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
    if not blob[1] & ENCRYPTED_BIT:
        return Names(stored, stored, blob)
    try:
        grain = reader.grain(seq)
    except StoreError:
        raise
    except OmsError:  # damaged, or sealed with a key of elsewhere
        grain = None
    if grain is None or grain.sealed:
        return Names(stored, None)
    return Names(stored, sha256(grain.blob).digest(), grain.blob)


def remove_grains(
    writer: Writer,
    settings: Settings,
    seqs: Iterable[int],
    *,
    reason_code: str,
    tombstone: bool = True,
    marked: bool = True,
) -> int:
    """Remove grains with all that tells of them, in a transaction.

    Nobody is asked whether they may go: that is the caller's part, and so is the entry in the
    audit trail, which comes after this. Reviews, and all events and states if these are to be
    marked, are read, so give as many grains at once as a transaction should have.

    Args:
        writer: the transaction.
        settings: of the handle.
        seqs: their numbers; what is not there is passed over.
        reason_code: a word for the reason.
        tombstone: remember what they were, so that they do not come back unnoticed.
        marked: put marks in the place of their addresses now. If not, ``mark_erased`` must come
            after it, once for many transactions, and they need their tombstones for that.

    Returns:
        How many were removed.
    """
    found = {seq: names for seq in seqs if (names := names_of(writer, seq)) is not None}
    if not found:
        return 0
    now = settings.clock()
    tombstones.key(writer)  # the marks are made with it
    # First, since an entry about notes says how many grains there are.
    forget_talk(writer, settings, found.values(), reason_code=reason_code)
    marks: dict[bytes, bytes] = {}
    below: Reader = getattr(writer, "inner", writer)
    for names in found.values():
        if tombstone:
            remember(writer, names, now, reason_code)
        if names.plain is None:
            continue
        # Another grain may stand in the clear under what this one was before it was sealed.
        if not names.sealed or below.find([names.plain])[0] is None:
            if (mark := tombstones.mark_of(writer, names.plain)) is not None:
                marks[names.plain] = mark
    if marked:
        _mark_states(writer, writer.rows(STATES), marks)
        _mark_events(writer, writer.rows(EVENTS), marks)
    _forget_blind(writer, [seq for seq, names in found.items() if names.plain is None])
    for seq, names in found.items():
        lineage.leave(writer, seq)
        writer.remove(seq)
        writer.event(DELETED, seq, marks.get(names.stored, names.stored))
    due.drop(writer, found.keys())
    return len(found)


def remember(writer: Writer, names: Names, at: int, reason_code: str) -> None:
    """Remember what a grain was, so that it does not come back unnoticed.

    Args:
        writer: the transaction.
        names: the grain's.
        at: when it goes, ms since 1970.
        reason_code: a word for the reason.
    """
    hint = b"" if names.said is None else names.said[_NAMESPACE]
    if names.plain is not None:
        tombstones.add(writer, "address", names.plain, at, reason_code, hint)
    if names.sealed:  # a store without its key knows it by this one
        tombstones.add(writer, "address", names.stored, at, reason_code, hint)
    if names.said is not None:
        origins.remember(writer, names.said, names.stored, at, reason_code)


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
        if reviewing.is_about(row, addresses):
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


def mark_erased(store: Store, only: Collection[bytes] | None = None) -> None:
    """Put marks in the place of the addresses of all grains that are gone and have a tombstone.

    It reads all events and states once, by pages, and can be done again at any time.

    Args:
        store: where.
        only: plain addresses, where it is known which grains are gone: then the others are not
            asked for under each of the keys.
    """
    for table, work in ((STATES, _mark_states), (EVENTS, _mark_events)):
        after: bytes | None = None
        while True:
            with store.read() as reader:
                rows = list(islice(reader.rows(table, after), _ROWS))
                marks = _marks(reader, table, rows, only)
            if not rows:
                break
            after = rows[-1][0]
            if marks:
                keys = [key for key, row in rows if not marks.keys().isdisjoint(_said(table, row))]
                again = partial(_mark_again, table=table, keys=keys, work=work, only=only)
                store.write(again)


def _mark_again(
    writer: Writer,
    table: Table,
    keys: Sequence[bytes],
    work: Marking,
    only: Collection[bytes] | None,
) -> None:
    # Asked anew, for a grain may have come back since.
    rows = [(key, row) for key in keys if (row := writer.row(table, key)) is not None]
    work(writer, rows, _marks(writer, table, rows, only))


def _marks(
    reader: Reader, table: Table, rows: Sequence[Row], only: Collection[bytes] | None
) -> dict[bytes, bytes]:
    """The marks of those grains that rows name, and that were erased."""
    named = {digest for _, row in rows for digest in _said(table, row)}
    digests = list(named if only is None else named.intersection(only))
    below: Reader = getattr(reader, "inner", reader)
    gone = [digests[i] for i in tombstones.refused(reader, digests)]
    return {
        digest: mark
        for digest, seq in zip(gone, below.find(gone), strict=True)
        if seq is None and (mark := tombstones.mark_of(reader, digest)) is not None
    }


def _said(table: Table, row: bytes) -> list[bytes]:
    """The addresses that a row names."""
    if table is EVENTS:
        return [row[-_DIGEST:]] if len(row) == EVENT.size else []
    if not row[:1] or not row[0] & SUPERSEDED:
        return []
    try:
        return [digest for digest in msgpack.unpackb(row[1:])["s"] if len(digest) == _DIGEST]
    except (ValueError, KeyError, TypeError, msgpack.UnpackException):
        return []  # damaged: `check` tells it


def _mark_states(writer: Writer, rows: Iterable[Row], marks: Mapping[bytes, bytes]) -> None:
    """Put marks in the place of successors that are removed; what they superseded stays past."""
    for key, row in rows:
        if marks.keys().isdisjoint(_said(STATES, row)):
            continue
        try:
            state = unpack(row)
        except IntegrityError:  # damage must not keep others from being erased; `check` tells it
            continue
        named = (bytes.fromhex(address) for address in state.successors)
        after = tuple(sorted(marks.get(digest, digest).hex() for digest in named))
        state = replace(state, superseded_by=after[0], successors=after)
        writer.set_row(STATES, key, pack(state))


def _mark_events(writer: Writer, rows: Iterable[Row], marks: Mapping[bytes, bytes]) -> None:
    """Put marks into all events with the addresses, those of an earlier life among them."""
    for key, row in rows:
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
