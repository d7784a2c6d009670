# SPDX-License-Identifier: Apache-2.0
"""Remove an erased grain with everything that names it.

    blob, index and blind rows, state, vectors, signatures     are removed
    reviews that name it, notes of the audit trail about it    are removed
    queued erasures of it                                      are removed
    events, and states of grains that it superseded            have a mark instead of its address

The mark is that of its tombstone. A last event reports the removal to consumers of the change
feed and to indexes beside the store: one for all grains of a batch (``records.py``), and one of
its own for a grain that events or states name. The address of an encrypted grain reveals nothing,
because it covers random bytes; it stays in events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from omsgrain import policy
from omsgrain.errors import (
    InvalidationDeniedError,
    KeyMissingError,
    OmsError,
    RangeError,
    StoreError,
)
from omsgrain.grain import Grain, decoded_grains, stored_grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.policy.decide import is_privileged
from omsgrain.query.history import members
from omsgrain.storage import blind_index, erasure_queue, mentions, records, tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.tables import AUDIT, DELETED, GUARDS, HOLDS, META, NOTES, REVIEWS, SEQUENCE
from omsgrain.store import policy_context, reviews, source_tombstones
from omsgrain.store.policy_context import PolicyContext, check_retention
from omsgrain.store.privacy.identity import is_about_nobody

if TYPE_CHECKING:
    from omsgrain.store.context import Settings

_NAMESPACE = slice(3, 5)  # the hash of the namespace in the header


@dataclass(slots=True)
class GrainAddresses:
    """The digests of a grain."""

    stored: bytes  # the digest of the stored blob
    plain: bytes | None  # the digest of the plain blob; None if it is encrypted without a key here
    said: bytes | None = field(default=None, repr=False)  # the plain blob, if it is readable

    @classmethod
    def of(cls, grain: Grain, encrypted: bool) -> GrainAddresses:
        """Return those of a grain of the store, given whether it is encrypted there."""
        digest = bytes.fromhex(grain.address)
        if not encrypted:
            return cls(digest, digest, grain.blob)
        if grain.sealed:
            return cls(digest, None)
        return cls(digest, sha256(grain.blob).digest(), grain.blob)

    @property
    def sealed(self) -> bool:
        return self.stored != self.plain

    @property
    def both(self) -> set[bytes]:
        return {self.stored} if self.plain is None else {self.stored, self.plain}


def names_of(reader: Reader, seq: int) -> GrainAddresses | None:
    """Return the digests of a grain; None if it is not in the store."""
    return names_of_many(reader, [seq]).get(seq)


def names_of_many(reader: Reader, seqs: Iterable[int]) -> dict[int, GrainAddresses]:
    """Return the digests of those grains that are in the store."""
    found = {}
    for seq, blob, digest in reader.hashed_blobs(list(seqs)):
        stored = digest or sha256(blob).digest()
        if not blob[1] & ENCRYPTED_BIT:
            found[seq] = GrainAddresses(stored, stored, blob)
            continue
        try:
            grain = reader.grain(seq)
        except StoreError:
            raise
        except OmsError:  # damaged, or encrypted with an unknown key
            grain = None
        found[seq] = (
            GrainAddresses(stored, None) if grain is None else GrainAddresses.of(grain, True)
        )
    return found


def remove_grains(
    writer: Writer,
    settings: Settings,
    seqs: Iterable[int],
    *,
    reason_code: str,
    tombstone: bool = True,
) -> list[bytes]:
    """Remove grains as ``remove_named`` does, those of them that are there."""
    found = names_of_many(writer, sorted(seqs))
    return remove_named(writer, settings, found, reason_code=reason_code, tombstone=tombstone)


def remove_named(
    writer: Writer,
    settings: Settings,
    found: Mapping[int, GrainAddresses],
    *,
    reason_code: str,
    tombstone: bool = True,
) -> list[bytes]:
    """Remove grains with everything that names them, in a transaction.

    All reviews are read, so remove as many grains at once as a transaction can have. The caller
    checks the rules first, and writes the audit entry afterwards. The numbers of the grains, which
    are in the store, rise. With a tombstone, imports recognize them. Returns their stored digests.
    """
    if not found:
        return []
    now = settings.clock()
    # First, because the audit entry about notes counts grains.
    forget_talk(writer, settings, found.values(), reason_code=reason_code)
    if tombstone:
        remember(writer, list(found.values()), now, reason_code)
    else:  # or a bounded history would grow by the events of its grains
        mentions.release(writer, {one: seq for seq, names in found.items() for one in names.both})
    marks = _new_marks(writer, found.values())
    mentions.replace(writer, marks)
    policy_context.leave(writer, list(found))
    writer.remove_many(list(found))
    records.count_removed(writer, len(found))
    together = []
    alone = {names.stored for names in found.values() if names.sealed}
    if alone and not tombstone:  # or a bounded history would grow by an event a grain
        alone = mentions.named(writer, alone)
    for seq, names in found.items():
        if names.stored in marks or names.stored in alone:
            writer.event(DELETED, seq, marks.get(names.stored, names.stored))
        else:
            together.append(seq)
    records.add_removal(writer, together, join=not tombstone)
    erasure_queue.drop(writer, found.keys())
    mentions.catch_up(writer)  # or the next erasure has to process these events
    return [names.stored for names in found.values()]


def _new_marks(writer: Writer, found: Iterable[GrainAddresses]) -> dict[bytes, bytes]:
    """Return the marks of grains that are named by events or states, by their plain addresses."""
    while mentions.catch_up(writer):
        pass
    plain = {names.plain: names.sealed for names in found if names.plain is not None}
    said = list(mentions.named(writer, plain))
    # A plain grain in the store may have the plain address of an encrypted one.
    said = [
        digest
        for digest, seq in zip(said, writer.raw.find(said), strict=True)
        if not plain[digest] or seq is None
    ]
    if said:
        tombstones.key(writer)  # the marks need it; with it each put looks for tombstones
    marks = ((digest, tombstones.mark_of(writer, digest)) for digest in said)
    return {digest: mark for digest, mark in marks if mark is not None}


def remember(writer: Writer, found: Iterable[GrainAddresses], at: int, reason_code: str) -> None:
    """Add tombstones for grains, so that imports recognize them."""
    addresses: list[tuple[bytes, bytes]] = []
    said: list[tuple[bytes, bytes]] = []
    for names in found:
        hint = b"" if names.said is None else names.said[_NAMESPACE]
        if names.plain is not None:
            addresses.append((names.plain, hint))
        if names.sealed:  # for stores without its key
            addresses.append((names.stored, hint))
        if names.said is not None:
            said.append((names.said, names.stored))
    tombstones.add(writer, "address", addresses, at, reason_code)
    source_tombstones.remember(writer, said, at, reason_code)


def forget_talk(
    writer: Writer, settings: Settings, names: Iterable[GrainAddresses], *, reason_code: str
) -> None:
    """Erase what people wrote about grains: notes of the audit trail, and reviews."""
    from omsgrain.storage import audit

    if next(writer.rows(REVIEWS), None) is None and next(writer.rows(NOTES), None) is None:
        return
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
    """Return the audit entries about these grains that have a note."""
    from omsgrain.storage.audit.log import KEY_BYTES, KEY_RECORD, NUMBER, TAG, hmac, read_entry

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


def mark_names(writer: Writer, digests: Iterable[bytes]) -> None:
    """Replace those addresses that were erased and are not in the store by marks."""
    mentions.replace(writer, _marks(writer, set(digests)))


def _marks(reader: Reader, named: Collection[bytes]) -> dict[bytes, bytes]:
    """Return the marks of grains that were erased and are not in the store again."""
    digests = list(named)
    gone = [digests[i] for i in tombstones.refused(reader, digests)]
    return {
        digest: mark
        for digest, seq in zip(gone, reader.raw.find(gone), strict=True)
        if seq is None and (mark := tombstones.mark_of(reader, digest)) is not None
    }


def refusal(
    reader: Reader,
    settings: Settings,
    grain: Grain,
    now: int,
    operation: Literal["erase", "compact"] = "erase",
) -> str | None:
    """Return the rule that keeps a grain from removal; None if it may go."""
    if grain.sealed:
        return "key"
    act = policy.Act(operation, grain.address, now=now)
    try:
        review = PolicyContext(reader).check(act, settings)
        if review and operation == "compact":
            return review[0]
        check_retention(settings, grain, now)
    except InvalidationDeniedError as error:
        return error.rule or error.code
    except KeyMissingError:
        return "key"  # an unreadable source may have a policy that keeps it
    return None


def refusals(
    reader: Reader,
    settings: Settings,
    grains: Mapping[int, Grain],
    now: int,
    operation: Literal["erase", "compact"] = "erase",
) -> dict[int, str]:
    """Return the rules that keep some of these grains, as ``refusal`` does for one."""
    keys = [SEQUENCE.pack(seq) for seq in grains]
    held = reader.some_rows(HOLDS, keys).keys()
    guarded = settings.delegation or next(reader.rows(GUARDS), None) is not None
    found: dict[int, str] = {}
    for (seq, grain), key in zip(grains.items(), keys, strict=True):
        if guarded or key in held or policy_context.is_bound(grain):
            rule = refusal(reader, settings, grain, now, operation)
        else:
            rule = _retained(settings, grain, now)
        if rule is not None:
            found[seq] = rule
    return found


def kept_by_rules(
    reader: Reader,
    settings: Settings,
    grains: Mapping[int, Grain],
    now: int,
    operation: Literal["erase", "compact"] = "erase",
) -> dict[int, str]:
    """Return the rules that keep some of these grains from automatic removal."""
    grains = _ruled(reader, settings, grains)
    kept: dict[int, str] = {}
    for seq, grain in grains.items():
        try:
            if grain.sealed:
                kept[seq] = "key"
            elif grain.type == "consent":
                kept[seq] = "consent"
            elif is_privileged(grain):
                kept[seq] = "privilege"
        except StoreError:
            raise
        except OmsError as error:  # damaged: its rules are unknown
            kept[seq] = error.code
    rest = {seq: grain for seq, grain in grains.items() if seq not in kept} if kept else grains
    return kept | refusals(reader, settings, rest, now, operation)


def _ruled(reader: Reader, settings: Settings, grains: Mapping[int, Grain]) -> Mapping[int, Grain]:
    """Return those grains that a rule may keep, without decoding the others."""
    if settings.preset is not None or settings.delegation:
        return grains
    if next(reader.rows(GUARDS), None) is not None:
        return grains
    bound = policy_context.may_keep([grain.blob for grain in grains.values()])
    held: Collection[bytes] = ()
    if next(reader.rows(HOLDS), None) is not None:
        held = reader.some_rows(HOLDS, [SEQUENCE.pack(seq) for seq in grains])
    return {
        seq: grain
        for i, (seq, grain) in enumerate(grains.items())
        if i in bound or (held and SEQUENCE.pack(seq) in held)
    }


def _retained(settings: Settings, grain: Grain, now: int) -> str | None:
    try:
        check_retention(settings, grain, now)
    except InvalidationDeniedError as error:
        return error.rule or error.code
    return None


def lock(reader: Reader, settings: Settings, grain: Grain, now: int) -> str | None:
    """Return the policy rule that keeps an impersonal grain from an erasure from outside.

    A lock does not keep a grain from the erasure of its person. For a grain about no person, a
    tombstone from outside is an order to delete it, and its policy must allow that.
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
    """Return whether a grain under a key must be kept, and the key with it.

    Only grains that may have a reason to stay are decrypted, unless a preset keeps grains by kind.
    """
    try:
        for seq in _candidates(reader, settings, number):
            grain = readable(reader, seq)
            if grain is not None and refusal(reader, settings, grain, now) is not None:
                return True
    except RangeError:  # the lineage is too long, so each grain is checked later
        return True
    return False


def readable(reader: Reader, seq: int) -> Grain | None:
    """Return a grain; None if it is missing or damaged, in which case no rule can keep it."""
    try:
        return reader.grain(seq)
    except StoreError:
        raise
    except OmsError:
        return None


def readable_many(reader: Reader, seqs: Iterable[int]) -> dict[int, Grain]:
    """Return those grains that are readable, in the given order, decoded together."""
    blobs = {seq: blob for seq in seqs if (blob := reader.blob_at(seq)) is not None}
    plain = {seq: blob for seq, blob in blobs.items() if not blob[1] & ENCRYPTED_BIT}
    known = dict(zip(plain, decoded_grains(list(plain.values())), strict=True))
    found = {seq: known.get(seq) or readable(reader, seq) for seq in blobs}
    return {seq: grain for seq, grain in found.items() if grain is not None}


def sound_many(reader: Reader, seqs: Sequence[int]) -> dict[int, Grain]:
    """Return those grains that are not damaged. Plain ones are decoded when they are read."""
    return {
        seq: grain
        for seq, blob, digest in reader.hashed_blobs(seqs)
        if digest is not None
        and (
            grain := readable(reader, seq)
            if blob[1] & ENCRYPTED_BIT
            else stored_grain(blob, digest.hex())
        )
        is not None
    }


def _candidates(reader: Reader, settings: Settings, number: bytes) -> Iterator[int]:
    for key, _ in reader.rows(HOLDS):
        (seq,) = SEQUENCE.unpack(key)
        if blind_index.key_of(reader, seq) == number:
            yield seq
    yield from blind_index.seqs_of(reader, number, kept=not keeps_by_kind(settings))
    seen: set[int] = set()
    for key, _ in reader.rows(GUARDS):
        (guard,) = SEQUENCE.unpack(key[SEQUENCE.size :])
        if guard not in seen:
            for seq in members(reader, guard):
                seen.add(seq)
                if blind_index.key_of(reader, seq) == number:
                    yield seq


def keeps_by_kind(settings: Settings) -> bool:
    """Whether a preset keeps grains by kind, beyond the retention that grains state themselves."""
    if settings.preset is None:
        return False
    from omsgrain.policy.presets import load
    from omsgrain.policy.rules import Keep

    always = load(()).rules
    return any(isinstance(rule, Keep) and rule not in always for rule in settings.preset.rules)
