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

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from omsgrain import policy
from omsgrain.errors import (
    InvalidationDeniedError,
    KeyMissingError,
    OmsError,
    RangeError,
    StoreError,
)
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.query.history import members
from omsgrain.storage import blind_index, erasure_queue, mentions, tombstones
from omsgrain.storage.base import Reader, Storage, Writer
from omsgrain.storage.blind_index import key_of
from omsgrain.storage.tables import (
    AUDIT,
    BLIND,
    DELETED,
    EVENTS,
    GUARDS,
    HOLDS,
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
from omsgrain.store import policy_context, reviews, source_tombstones
from omsgrain.store.policy_context import PolicyContext, check_retention
from omsgrain.store.privacy.identity import is_about_nobody

if TYPE_CHECKING:
    from omsgrain.store.context import Settings

_NAMESPACE = slice(3, 5)  # its hash in the header
_ROWS = 20_000  # events or states a page


@dataclass(frozen=True, slots=True)
class GrainAddresses:
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


def names_of(reader: Reader, seq: int) -> GrainAddresses | None:
    """Return the addresses of a grain; None if it is not there."""
    blob = reader.blob_at(seq)
    if blob is None:
        return None
    stored = sha256(blob).digest()
    if not blob[1] & ENCRYPTED_BIT:
        return GrainAddresses(stored, stored, blob)
    try:
        grain = reader.grain(seq)
    except StoreError:
        raise
    except OmsError:  # damaged, or sealed with a key of elsewhere
        grain = None
    if grain is None or grain.sealed:
        return GrainAddresses(stored, None)
    return GrainAddresses(stored, sha256(grain.blob).digest(), grain.blob)


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
    audit trail, which comes after this. All reviews are read, so give as many grains at once as a
    transaction should have.
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
    mentions.replace(writer, marks)
    _forget_blind(writer, [seq for seq, names in found.items() if names.plain is None])
    for seq, names in found.items():
        policy_context.leave(writer, seq)
        writer.remove(seq)
        writer.event(DELETED, seq, marks.get(names.stored, names.stored))
    erasure_queue.drop(writer, found.keys())
    mentions.catch_up(writer)  # or the next erasure would pay for the events of this one
    return len(found)


def remember(writer: Writer, names: GrainAddresses, at: int, reason_code: str) -> None:
    """Remember what a grain was, so that it does not come back unnoticed."""
    hint = b"" if names.said is None else names.said[_NAMESPACE]
    if names.plain is not None:
        tombstones.add(writer, "address", names.plain, at, reason_code, hint)
    if names.sealed:  # a store without its key knows it by this one
        tombstones.add(writer, "address", names.stored, at, reason_code, hint)
    if names.said is not None:
        source_tombstones.remember(writer, names.said, names.stored, at, reason_code)


def forget_talk(
    writer: Writer, settings: Settings, names: Iterable[GrainAddresses], *, reason_code: str
) -> None:
    """Erase what people have written about grains: notes of the audit trail, and reviews."""
    from omsgrain.storage import audit

    digests = {digest for one in names for digest in (one.stored, one.plain) if digest}
    addresses = {digest.hex() for digest in digests}
    for key, row in list(writer.rows(REVIEWS)):
        if reviews.is_about(row, addresses):
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
    from omsgrain.storage.audit.log import (
        KEY_BYTES,
        KEY_RECORD,
        NUMBER,
        TAG,
        hmac,
        read_entry,
    )

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


def mark_erased(store: Storage) -> None:
    """Put marks in the place of the addresses of all grains that are gone and have a tombstone.

    Removing a grain does so at once. This is for what was cut off before an older version came to
    it: it reads all events and states once, by pages, and can be done again at any time.
    """
    for table in (STATES, EVENTS):
        after: bytes | None = None
        while True:
            with store.read() as reader:
                rows = list(islice(reader.rows(table, after), _ROWS))
                marks = _marks(
                    reader, {one for _, row in rows for one in mentions.said(table, row)}
                )
            if not rows:
                break
            after = rows[-1][0]
            if marks:
                store.write(partial(mark_names, digests=list(marks)))


def mark_names(writer: Writer, digests: Iterable[bytes]) -> None:
    """Put marks in the place of those of some addresses that were erased, and are not here."""
    mentions.replace(writer, _marks(writer, set(digests)))


def _marks(reader: Reader, named: Collection[bytes]) -> dict[bytes, bytes]:
    """The marks of those of some grains that were erased, and have not come back."""
    digests = list(named)
    below: Reader = getattr(reader, "inner", reader)
    gone = [digests[i] for i in tombstones.refused(reader, digests)]
    return {
        digest: mark
        for digest, seq in zip(gone, below.find(gone), strict=True)
        if seq is None and (mark := tombstones.mark_of(reader, digest)) is not None
    }


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


def refusal(reader: Reader, settings: Settings, grain: Grain, now: int) -> str | None:
    """Return the rule that keeps a grain from being erased; None if it may go."""
    if grain.sealed:
        return "key"
    act = policy.Act("erase", grain.address, now=now)
    try:
        PolicyContext(reader).check(act, settings)
        check_retention(settings, grain, now)
    except InvalidationDeniedError as error:
        return error.rule or error.code
    except KeyMissingError:
        return "key"  # a grain that this one derives from may hold it, and cannot be read
    return None


def lock(reader: Reader, settings: Settings, grain: Grain, now: int) -> str | None:
    """Return the rule of a policy that keeps a grain about nobody from an erasure from outside.

    Locks do not keep a grain from the person it is about. Of one that is about nobody a tombstone
    is the order of somebody elsewhere to delete it, and its policy is asked as for that.
    """
    if not is_about_nobody(grain):
        return None
    act = policy.Act("delete", grain.address, justification="erased elsewhere", now=now)
    try:
        PolicyContext(reader).check(act, settings)
    except InvalidationDeniedError as error:
        return error.rule or error.code
    except KeyMissingError:
        return "key"
    return None


def keeps_key(reader: Reader, settings: Settings, number: bytes, now: int) -> bool:
    """Tell whether a grain that a key seals must be kept, and the key with it.

    Only those are opened that can have a reason: the time does not grow with the others, unless
    a preset has rules on how long grains must be kept.
    """
    try:
        for seq in _candidates(reader, settings, number):
            grain = readable(reader, seq)
            if grain is not None and refusal(reader, settings, grain, now) is not None:
                return True
    except RangeError:  # too long a lineage to tell: each grain is asked then
        return True
    return False


def readable(reader: Reader, seq: int) -> Grain | None:
    """Return a grain; None if it is not there or damaged, so that nothing of it can be kept."""
    try:
        return reader.grain(seq)
    except StoreError:
        raise
    except OmsError:
        return None


def _candidates(reader: Reader, settings: Settings, number: bytes) -> Iterator[int]:
    for key, _ in reader.rows(HOLDS):
        (seq,) = SEQUENCE.unpack(key)
        if blind_index.key_of(reader, seq) == number:
            yield seq
    yield from blind_index.seqs_of(reader, number, kept=not _keeps_by_kind(settings))
    seen: set[int] = set()
    for key, _ in reader.rows(GUARDS):
        (guard,) = SEQUENCE.unpack(key[SEQUENCE.size :])
        if guard not in seen:
            for seq in members(reader, guard):
                seen.add(seq)
                if blind_index.key_of(reader, seq) == number:
                    yield seq


def _keeps_by_kind(settings: Settings) -> bool:
    """Whether a preset keeps grains by what they are, and not by what they say of themselves."""
    if settings.preset is None:
        return False
    from omsgrain.policy.presets import load
    from omsgrain.policy.rules import Keep

    always = load(()).rules
    return any(isinstance(rule, Keep) and rule not in always for rule in settings.preset.rules)
