# SPDX-License-Identifier: Apache-2.0
"""Supersede, verify, restrict and delete grains.

Each function checks the policies, changes the state, and moves the index rows if the grain starts
or stops being current. Then it writes an event for the change feed.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from omsgrain import _core, policy
from omsgrain.errors import (
    InvalidationDeniedError,
    KeyMissingError,
    NotFoundError,
    OmsWarning,
    RangeError,
    SchemaError,
    SignatureError,
)
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT, ENVELOPE_BYTE, SIGNED_BIT
from omsgrain.query.filters import conditions
from omsgrain.query.history import MOST_VERSIONS
from omsgrain.query.query import among
from omsgrain.query.walk import Walk
from omsgrain.storage import records
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import PAST, GrainStatus, Verification, pack, unpack
from omsgrain.storage.tables import (
    COUNTERS,
    DELETED,
    HOLDS,
    RESTRICTED,
    SEQUENCE,
    STATES,
    SUPERSEDED,
    SUPERSEDES,
    VERIFIED,
    counter_of,
)
from omsgrain.store import policy_context, reviews
from omsgrain.store.context import Context, address_of, check_reason, seq_of, stored_digest
from omsgrain.store.expiry import end_of, set_end_of
from omsgrain.store.policy_context import PolicyContext, check_retention
from omsgrain.store.prepared import PreparedGrains
from omsgrain.store.privacy.identity import is_about_nobody
from omsgrain.store.vectors import add_vectors
from omsgrain.store.write import (
    Item,
    address_of_same,
    check_basis,
    grain_of,
    place,
    prepare_one,
    put_admitted,
    refuse,
    write_grains,
)

if TYPE_CHECKING:
    from omsgrain.query.filters import Conditions, Filters
    from omsgrain.query.times import Time
    from omsgrain.store.context import Settings
    from omsgrain.store.vectors import ModelVectors

_REPLACED = 100  # grains that one grain replaces
_WALK = 4_096  # grains of another lineage to search for a cycle


def state_of(reader: Reader, seq: int) -> GrainStatus:
    """Return the status of a grain, including counters and holds."""
    key = SEQUENCE.pack(seq)
    found = unpack(reader.row(STATES, key))
    count, last = counter_of(reader.row(COUNTERS, key))
    held = reader.row(HOLDS, key) is not None
    return replace(found, access_count=count, last_accessed_at=last, held=held)


def put_successor(
    writer: Writer,
    settings: Settings,
    digest: bytes,
    given: PreparedGrains,
    justification: str | None,
    *,
    whole: bool = True,
    since: int | None = None,
) -> tuple[bytes, bool]:
    """Supersede the grain with a digest; returns the new digest and whether anything changed."""
    seq = seq_of(writer, digest)
    there = address_of_same(writer, given, 0)
    new = grain_of(given, 0) if there is None else _at(writer, there)
    signers = _signers(writer, given, there)
    world = PolicyContext(writer, new, signed={new.address: signers})
    old = address_of(writer, seq)
    _refuse_destroyed(writer, seq)
    key = SEQUENCE.pack(seq)
    before = unpack(writer.row(STATES, key))
    new_digest = bytes.fromhex(new.address)
    if new.address in before.successors and _is_joined(writer, seq, new.address):
        _place(writer, given, whole)  # it may add a signature
        return new_digest, False
    if there is not None:  # a new grain has superseded nothing yet
        same = policy_context.is_same(writer, seq, seq_of(writer, there))
        _refuse_circle(world, old, new.address, MOST_VERSIONS if same else _WALK, sure=same)
    if settings.require is not None and not signers and settings.require.asks(new):
        raise SignatureError("the store requires a verified signature for this grain")
    now = settings.clock()
    agreed = _co_signers(world, settings, new, old)
    act = policy.Act(
        "supersede",
        old,
        new=new,
        signers=frozenset(signers),
        co_signers=frozenset(agreed),
        keys=agreed,
        justification=justification,
        now=now,
    )
    rules = world.check(act, settings)
    if since is not None:
        stored = None if there is None else seq_of(writer, there)
        if policy_context.extends(writer, seq, stored, new, since):
            raise InvalidationDeniedError(
                "the supersession would extend a policy with scope lineage to older grains of "
                "this store",
                field="/invalidation_policy/scope",
                rule="reach",
            )
    if settings.preset is not None:
        check_basis(writer, settings, given, new)
        rules += settings.preset.check_put(new, encrypted=_is_sealed(writer, given, there))
        if (target := world.grain(old)) is not None:
            rules += settings.preset.reviews("supersede", target)
    _place(writer, given, whole)
    new_seq = seq_of(writer, new_digest)
    known_from = new.get("system_valid_from", new.get("created_at", 0))
    ends = [known_from] if before.system_valid_to is None else [known_from, before.system_valid_to]
    successors = tuple(sorted({*before.successors, new.address}))
    after = replace(
        before, superseded_by=successors[0], system_valid_to=min(ends), successors=successors
    )
    set_state(writer, seq, before, after)
    writer.set_row(SUPERSEDES, SEQUENCE.pack(new_seq) + key, b"")
    policy_context.join(writer, seq, new_seq)
    if before.restricted:  # or a new version would lift the restriction
        # A locked grain without a person stays unrestricted
        with suppress(InvalidationDeniedError):
            restrict_asked(writer, settings, new_seq, True, "it superseded a restricted grain")
    writer.event(SUPERSEDED, seq, bytes.fromhex(old))
    _review(writer, act, rules)
    return new_digest, True


def set_status(
    writer: Writer, settings: Settings, digest: bytes, status: Verification, reason: str | None
) -> str | None:
    """Set the verification status; returns the operation, or None if nothing changed."""
    seq = seq_of(writer, digest)
    before = unpack(writer.row(STATES, SEQUENCE.pack(seq)))
    if before.verification_status == status:
        return None
    operation = policy.operation_of(before.verification_status, status)
    old = address_of(writer, seq)
    _refuse_destroyed(writer, seq)
    act = policy.Act(operation, old, justification=reason, now=settings.clock())
    rules = PolicyContext(writer).check(act, settings)
    set_state(writer, seq, before, replace(before, verification_status=status))
    writer.event(VERIFIED, seq, bytes.fromhex(old))
    _review(writer, act, rules)
    return operation


def restrict(writer: Writer, seq: int, restricted: bool) -> bytes | None:
    """Restrict a grain for a person, or lift that; returns its address if anything changed."""
    blob = writer.blob_at(seq)
    before = unpack(writer.row(STATES, SEQUENCE.pack(seq)))
    if blob is None or before.restricted == restricted:
        return None
    set_state(writer, seq, before, replace(before, restricted=restricted))
    records.flip(writer, seq, records.RESTRICTION, restricted)
    digest = sha256(blob).digest()
    writer.event(RESTRICTED, seq, digest)
    return digest


def restrict_asked(
    writer: Writer, settings: Settings, seq: int, restricted: bool, reason: str | None
) -> bytes | None:
    """Restrict any grain, or lift that; returns its address if anything changed.

    A restriction of personal data overrides every lock. Other grains obey their policy.
    """
    grain = writer.grain(seq) if restricted else None
    if grain is None or not is_about_nobody(grain):
        return restrict(writer, seq, restricted)
    act = policy.Act("restrict", grain.address, justification=reason, now=settings.clock())
    rules = PolicyContext(writer).check(act, settings)
    done = restrict(writer, seq, restricted)
    if done is not None:
        _review(writer, act, rules)
    return done


def remove(
    writer: Writer,
    settings: Settings,
    digest: bytes,
    reason: str | None,
    approvals: Collection[str] = (),
) -> None:
    seq = seq_of(writer, digest)
    old = address_of(writer, seq)
    _refuse_destroyed(writer, seq)
    act = policy.Act("delete", old, justification=reason, now=settings.clock())
    world = PolicyContext(writer)
    rules = world.check(act, settings)
    if (grain := world.grain(act.address)) is not None:
        rules += check_retention(settings, grain, act.now, approvals)
    writer.event(DELETED, seq, bytes.fromhex(old))
    _review(writer, act, rules)
    policy_context.leave(writer, [seq])
    writer.remove(seq)
    records.count_removed(writer, 1)


def _place(writer: Writer, given: PreparedGrains, whole: bool) -> None:
    for one in place(writer, given, range(len(given.pairs))):
        if whole and one.refusal is not None:
            raise one.refusal


def _is_sealed(reader: Reader, given: PreparedGrains, there: bytes | None) -> bool:
    blob = None if there is None else reader.get(there)
    return bool(given.sealed) or (blob is not None and bool(blob[1] & ENCRYPTED_BIT))


def _at(reader: Reader, digest: bytes) -> Grain:
    grain = reader.grain(seq_of(reader, digest))
    if grain is None:
        raise NotFoundError("no grain with this address is in the store")
    return grain


def _signers(writer: Writer, given: PreparedGrains, there: bytes | None) -> tuple[str, ...]:
    """Return who verifiably signed the new grain, now or earlier."""
    found = {one.signer for one in given.signatures.values() if one.proven}
    seq = None if there is None else writer.find([there])[0]
    if seq is not None:
        from omsgrain.storage import signatures

        found.update(signatures.signers(writer, seq))
    return tuple(sorted(found))


def _co_signers(
    world: PolicyContext, settings: Settings, new: Grain, old: str
) -> Mapping[str, str]:
    """Return the authorized co-signers of the supersession, each with the key."""
    if "supersession_auth" not in new:
        return {}
    from omsgrain import crypto

    named = policy.authorized(world, policy.Act("supersede", old, new=new, now=settings.clock()))
    return crypto.check_co_signers(
        new, policy.claim(new), old, resolver=settings.resolver, authorized=named
    ).keys


def _review(writer: Writer, act: policy.Act, rules: tuple[str, ...]) -> None:
    """Ask for a review of the act, under the number of its event, which was written last."""
    if not rules:
        return
    reason, by = act.justification, None
    if act.new is not None:
        reason, by = act.new.get("supersession_justification", reason), act.new.address
    if _about_sealed(writer, act):
        reason = None  # reviews are plain text; the encrypted grain may have it
    number = writer.last_seq()
    review = reviews.Review(number, act.operation, act.address, by, reason, act.now, rules)
    reviews.add(writer, review)


def _about_sealed(reader: Reader, act: policy.Act) -> bool:
    digests = [bytes.fromhex(act.address)]
    if act.new is not None:
        digests.append(bytes.fromhex(act.new.address))
    blobs = [reader.get(digest) for digest in digests]
    return any(blob is not None and blob[1] & ENCRYPTED_BIT for blob in blobs)


def set_state(writer: Writer, seq: int, before: GrainStatus, after: GrainStatus) -> None:
    writer.set_row(STATES, SEQUENCE.pack(seq), pack(after))
    past = bool(after.bits & PAST)
    if past != bool(before.bits & PAST):
        writer.set_past(seq, past)


def _is_joined(reader: Reader, seq: int, new: str) -> bool:
    """Whether a successor is still joined, and was not removed and put again."""
    found = reader.find([bytes.fromhex(new)])[0]
    row = None if found is None else SEQUENCE.pack(found) + SEQUENCE.pack(seq)
    return row is not None and reader.row(SUPERSEDES, row) is not None


def _refuse_destroyed(reader: Reader, seq: int) -> None:
    blob = reader.blob_at(seq)
    if blob is not None and blob[1] & ENCRYPTED_BIT:
        with suppress(KeyMissingError):
            reader.keys_of(seq)


def _refuse_circle(world: PolicyContext, old: str, new: str, most: int, *, sure: bool) -> None:
    """Refuse a successor that the old grain itself supersedes, directly or indirectly."""
    if old == new:
        raise SchemaError("a grain cannot supersede itself")
    seen, waiting = {new}, [new]
    while waiting:
        for address in world.successors(waiting.pop()):
            if address == old:
                raise SchemaError("the new grain is an earlier version of the old one")
            if address in seen:
                continue
            if len(seen) < most:
                seen.add(address)
                waiting.append(address)
            elif sure:
                raise RangeError(
                    "the new grain has too many later versions to check for a cycle",
                    expected=f"at most {most}",
                )


def supersede(context: Context, old: str, new: Item, justification: str | None) -> str:
    digest = _core.parse_address(old)
    if isinstance(new, dict) and justification is not None:
        name = "supersession_justification"
        if new.get(name, justification) != justification:
            raise SchemaError("two justifications that differ", field=f"/{name}")
        new = {**new, name: justification}
    if isinstance(new, dict):
        new = _protected(context, digest, new)
    else:
        new = _with_signature(context, new)
    given = prepare_one(new, replacing=True, resolver=context.settings.resolver)
    for note in given.warnings:
        warnings.warn(note.message, OmsWarning, stacklevel=3)

    def work(writer: Writer) -> str:
        before = stored_digest(writer, digest)
        refuse(writer, context.settings, given)
        after, done = put_successor(writer, context.settings, digest, given, justification)
        if done:
            context.note(writer, "supersede", [before, after])
        return after.hex()

    return write_grains(context, given, work)


def replace_many(
    context: Context,
    items: Sequence[tuple[Item, Filters]],
    expires_at: Time | None = None,
    vectors: Sequence[ModelVectors | None] = (),
) -> list[str]:
    """Put grains, each in place of the current ones that match its filters, in one transaction.

    Returns their addresses. There are vectors for each item, or none at all.
    """
    each = [conditions(filters) for _, filters in items]
    for asked in each:
        if asked.which != "current" or not asked.terms:
            raise SchemaError(
                "what is replaced is current, and found by an index", field="/current"
            )
    end = None if expires_at is None else end_of(context, expires_at)
    parts = [prepare_one(item, resolver=context.settings.resolver) for item, _ in items]
    for note in (note for part in parts for note in part.warnings):
        warnings.warn(note.message, OmsWarning, stacklevel=3)
    given = PreparedGrains.joined(parts)

    def work(writer: Writer) -> list[str]:
        found = []
        for i, asked in enumerate(each):
            one = given if len(each) == 1 else given.only([i])
            found.append(_put_for_matches(context, writer, one, asked))
        set_end_of(writer, found, end)
        if vectors:
            add_vectors(context, writer, zip(found, vectors, strict=True))
        return [digest.hex() for digest in found]

    return write_grains(context, given, work)


def _put_for_matches(
    context: Context, writer: Writer, given: PreparedGrains, asked: Conditions
) -> bytes:
    walk = Walk(*among(writer, asked, scan=False), True)
    found, more = walk.page(walk.places(None), _REPLACED)
    if more:
        expected = f"filters that at most {_REPLACED} current grains match"
        raise RangeError("too many grains to replace", expected=expected)
    there = address_of_same(writer, given, 0)
    same = None if there is None else there.hex()
    olds = [grain.address for _, grain in found if grain.address != same]
    if same is None and not olds:
        return put_admitted(context, writer, given, True, False).digests[0]
    refuse(writer, context.settings, given)
    after = there or b""
    for old in olds:
        digest = bytes.fromhex(old)
        after, done = put_successor(writer, context.settings, digest, given, None)
        if done:
            context.note(writer, "supersede", [digest, after])
    return after


def _with_signature(context: Context, item: Item) -> Item:
    """Return the stored envelope of a signed grain that is given without one, or else the item."""
    blob = item.blob if isinstance(item, Grain) else item
    if isinstance(blob, Mapping) or bytes(blob[:1]) == ENVELOPE_BYTE:
        return item
    if len(blob) < 2 or not blob[1] & SIGNED_BIT:
        return item
    from omsgrain.storage import signatures

    with context.storage.read() as reader:
        seq = reader.find([sha256(blob).digest()])[0]
        found = None if seq is None else signatures.by_signer(signatures.signatures(reader, seq))
    return item if found is None else found.envelope


def _protected(context: Context, old: bytes, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, with the policy of the goal that they supersede if they name none."""
    with context.storage.read() as reader:
        seq = reader.find([old])[0]
        grain = None if seq is None else reader.grain(seq)
    if grain is None or grain.sealed or grain.type != "goal":
        return fields
    terms = policy.inherited(grain, fields, context.settings.clock())
    return fields if terms is None else {**fields, policy.FIELD: terms}


def delete_many(
    context: Context,
    addresses: Iterable[str],
    reason: str | None,
    approvals: Collection[str],
    erased: str | None,
    beside: Iterable[str],
) -> None:
    if erased is not None:
        check_reason(erased)
    known = list(dict.fromkeys(map(_core.parse_address, addresses)))
    digests = list(dict.fromkeys((*known, *map(_core.parse_address, beside))))

    def work(writer: Writer) -> None:
        about = [stored_digest(writer, digest) for digest in digests]
        for i, digest in enumerate(digests):
            if erased is not None and i < len(known):
                _remember(context, writer, digest, erased)
            remove(writer, context.settings, digest, reason, approvals)
        context.note(writer, "delete", about, note=reason)

    context.storage.write(work)


def _remember(context: Context, writer: Writer, digest: bytes, reason_code: str) -> None:
    """Remember what a grain was, so that no import brings it back."""
    from omsgrain.store.privacy import removal

    names = removal.names_of(writer, seq_of(writer, digest))
    if names is not None:
        removal.remember(writer, [names], context.settings.clock(), reason_code)


def status(context: Context, address: str) -> GrainStatus:
    """Return the status of a grain, with the reads that this handle has counted."""
    digest = _core.parse_address(address)
    with context.storage.read() as reader:
        found = state_of(reader, seq_of(reader, digest))
    count, last = context.reads_of(digest)
    if not count:
        return found
    return replace(
        found,
        access_count=found.access_count + count,
        last_accessed_at=max(last, found.last_accessed_at or 0),
    )
