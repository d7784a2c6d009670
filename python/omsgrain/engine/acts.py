# SPDX-License-Identifier: Apache-2.0
"""What superseding, verifying and deleting do to the rows of a store, in a transaction.

Each asks the policy first, then changes the state, moves the index rows if the grain is no longer
current (or is again), and leaves an event for those who follow ``changes``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from omsgrain.engine import lineage, reviewing
from omsgrain.engine.admission import check_basis
from omsgrain.engine.incoming import Incoming
from omsgrain.engine.placing import known, place
from omsgrain.engine.world import StoreWorld, address_of, seq_of
from omsgrain.errors import (
    InvalidationDeniedError,
    KeyMissingError,
    NotFoundError,
    RangeError,
    SchemaError,
    SignatureError,
)
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.index import policy
from omsgrain.index.history.supersession import LIMIT
from omsgrain.store import toggles
from omsgrain.store.base import Reader, Unsealing, Writer
from omsgrain.store.state import PAST, State, Verification, pack, unpack
from omsgrain.store.tables import (
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

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings

__all__ = ["delete", "restrict", "restrict_asked", "set_verification", "state", "supersede"]

_WALK = 4_096  # grains of another lineage that are looked at for a circle


def state(reader: Reader, seq: int) -> State:
    """Return what became of a grain, counters and holds with it."""
    key = SEQUENCE.pack(seq)
    found = unpack(reader.row(STATES, key))
    count, last = counter_of(reader.row(COUNTERS, key))
    held = reader.row(HOLDS, key) is not None
    return replace(found, access_count=count, last_accessed_at=last, held=held)


def supersede(
    writer: Writer,
    settings: Settings,
    digest: bytes,
    given: Incoming,
    justification: str | None,
    *,
    whole: bool = True,
    since: int | None = None,
) -> tuple[bytes, bool]:
    """Put a grain in the place of the one with the digest.

    Args:
        writer: the transaction.
        settings: of the handle.
        digest: of the grain to supersede, by its stored or its plain address.
        given: the new grain alone, once for each of its signers.
        justification: why.
        whole: refuse it if a signature over the new grain cannot be kept, before anything else is
            done; without it, whoever asks ``place`` again is told.
        since: whoever says so may bind nothing that was here before. Refuse a policy that would
            come to cover grains up to this number, which it did not cover.

    Returns:
        The address that the new grain stands under, and whether anything was done.

    Raises:
        RangeError: a signature is one too many.
        OmsError: any other refusal.
    """
    seq = seq_of(writer, digest)
    there = _there(writer, given)
    new = given.grain(0) if there is None else _at(writer, there)
    signers = _signers(writer, given, there)
    world = StoreWorld(writer, new, signed={new.address: signers})
    old = address_of(writer, seq)
    _refuse_destroyed(writer, seq)
    key = SEQUENCE.pack(seq)
    before = unpack(writer.row(STATES, key))
    new_digest = bytes.fromhex(new.address)
    if new.address in before.successors and _is_joined(writer, seq, new.address):
        _place(writer, given, whole)  # perhaps it has one more signature
        return new_digest, False
    if there is not None:  # what is new has superseded nothing yet
        same = lineage.is_same(writer, seq, seq_of(writer, there))
        _refuse_circle(world, old, new.address, LIMIT if same else _WALK, sure=same)
    if settings.require is not None and not signers and settings.require.asks(new):
        raise SignatureError(
            "the store takes such a grain only with a signature that was verified"
        )
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
    rules = _check(world, act, settings)
    if since is not None:
        stored = None if there is None else seq_of(writer, there)
        if lineage.extends(writer, seq, stored, new, since):
            raise InvalidationDeniedError(
                "the supersession would bring grains that were here before under a policy with "
                "scope lineage",
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
    _set(writer, seq, before, after)
    writer.set_row(SUPERSEDES, SEQUENCE.pack(new_seq) + key, b"")
    lineage.join(writer, seq, new_seq)
    if before.restricted:  # or whoever may write could bring it back into use
        with suppress(InvalidationDeniedError):  # a locked rule about nobody stays in use
            restrict_asked(writer, settings, new_seq, True, "it superseded a restricted grain")
    _review(writer, writer.event(SUPERSEDED, seq, bytes.fromhex(old)), act, rules)
    return new_digest, True


def set_verification(
    writer: Writer, settings: Settings, digest: bytes, status: Verification, reason: str | None
) -> str | None:
    """Set the verification status; returns the operation, None if nothing changed."""
    seq = seq_of(writer, digest)
    before = unpack(writer.row(STATES, SEQUENCE.pack(seq)))
    if before.verification_status == status:
        return None
    operation = policy.operation_of(before.verification_status, status)
    old = address_of(writer, seq)
    _refuse_destroyed(writer, seq)
    act = policy.Act(operation, old, justification=reason, now=settings.clock())
    rules = _check(StoreWorld(writer), act, settings)
    _set(writer, seq, before, replace(before, verification_status=status))
    _review(writer, writer.event(VERIFIED, seq, bytes.fromhex(old)), act, rules)
    return operation


def restrict(writer: Writer, seq: int, restricted: bool) -> bytes | None:
    """Restrict a grain for a person's sake, or end that; gives its address if anything changed."""
    done = _restrict(writer, seq, restricted)
    return None if done is None else done[1]


def restrict_asked(
    writer: Writer, settings: Settings, seq: int, restricted: bool, reason: str | None
) -> bytes | None:
    """Restrict any grain, or end that; gives its address if anything changed.

    What is about a person is restricted for that person's sake, and passes every lock. What is
    about nobody obeys its policy.

    Raises:
        InvalidationDeniedError: its policy refuses.
    """
    grain = writer.grain(seq) if restricted else None
    if grain is None or not _is_about_nobody(grain):
        return restrict(writer, seq, restricted)
    act = policy.Act("restrict", grain.address, justification=reason, now=settings.clock())
    rules = _check(StoreWorld(writer), act, settings)
    done = _restrict(writer, seq, restricted)
    if done is None:
        return None
    _review(writer, done[0], act, rules)
    return done[1]


def _is_about_nobody(grain: Grain) -> bool:
    from omsgrain.engine.rights.selector import is_about_nobody

    return is_about_nobody(grain)


def _restrict(writer: Writer, seq: int, restricted: bool) -> tuple[int, bytes] | None:
    """Set the state; gives the number of the event and the address, if anything changed."""
    key = SEQUENCE.pack(seq)
    blob = writer.blob_at(seq)
    before = unpack(writer.row(STATES, key))
    if blob is None or before.restricted == restricted:
        return None
    after = replace(before, restricted=restricted)
    writer.set_row(STATES, key, pack(after))
    toggles.flip(writer, seq, toggles.RESTRICTION, restricted)
    past = bool(after.bits & PAST)
    if past != bool(before.bits & PAST):
        writer.set_past(seq, past)
    digest = sha256(blob).digest()
    return writer.event(RESTRICTED, seq, digest), digest


def delete(
    writer: Writer,
    settings: Settings,
    digest: bytes,
    reason: str | None,
    approvals: Collection[str] = (),
) -> None:
    """Take a grain out, with all that is known of it."""
    from omsgrain.privacy import load

    seq = seq_of(writer, digest)
    old = address_of(writer, seq)
    _refuse_destroyed(writer, seq)
    act = policy.Act("delete", old, justification=reason, now=settings.clock())
    world = StoreWorld(writer)
    rules = _check(world, act, settings)
    if (grain := world.grain(act.address)) is not None:
        preset = settings.preset or load(())  # what a grain says of its own retention binds always
        rules += preset.check_delete(grain, act.now, approvals=approvals)
    number = writer.event(DELETED, seq, bytes.fromhex(old))
    _review(writer, number, act, rules)
    lineage.leave(writer, seq)
    writer.remove(seq)


def _place(writer: Writer, given: Incoming, whole: bool) -> None:
    for one in place(writer, given, range(len(given.pairs))):
        if whole and one.refusal is not None:
            raise one.refusal


def _there(writer: Writer, given: Incoming) -> bytes | None:
    """The address that the new grain has in the store already, sealed or not."""
    below: Writer = getattr(writer, "inner", writer)
    digest = given.pairs[0][0]
    return digest if below.find([digest])[0] is not None else known(writer, given, 0)


def _is_sealed(reader: Reader, given: Incoming, there: bytes | None) -> bool:
    """Whether the new grain is stored sealed, by now or by what is done now."""
    blob = None if there is None else reader.get(there)
    return bool(given.sealed) or (blob is not None and bool(blob[1] & ENCRYPTED_BIT))


def _at(reader: Reader, digest: bytes) -> Grain:
    grain = reader.grain(seq_of(reader, digest))
    if grain is None:
        raise NotFoundError("no grain with this address is in the store")
    return grain


def _signers(writer: Writer, given: Incoming, there: bytes | None) -> tuple[str, ...]:
    """Whose signature over the new grain was verified, now or when it came."""
    found = {one.signer for one in given.signatures.values() if one.proven}
    seq = None if there is None else writer.find([there])[0]
    if seq is not None:
        from omsgrain.store import signatures

        found.update(signatures.signers(writer, seq))
    return tuple(sorted(found))


def _co_signers(world: StoreWorld, settings: Settings, new: Grain, old: str) -> Mapping[str, str]:
    """Who has signed that the new grain may supersede the old one, each with the key."""
    if "supersession_auth" not in new:
        return {}
    from omsgrain import crypto

    named = policy.authorized(world, policy.Act("supersede", old, new=new, now=settings.clock()))
    return crypto.check_co_signers(
        new, policy.claim(new), old, resolver=settings.resolver, authorized=named
    ).keys


def _check(world: StoreWorld, act: policy.Act, settings: Settings) -> tuple[str, ...]:
    """Ask the policies; gives what asks for a review."""
    verdict = policy.check(
        world, act, hold_authorities=settings.hold_authorities, delegation=settings.delegation
    )
    return verdict.rules if verdict.review else ()


def _review(writer: Writer, number: int, act: policy.Act, rules: tuple[str, ...]) -> None:
    if not rules:
        return
    reason, by = act.justification, None
    if act.new is not None:
        reason, by = act.new.get("supersession_justification", reason), act.new.address
    if _about_sealed(writer, act):
        reason = None  # it would stand in the clear; a sealed grain may say it itself
    review = reviewing.Review(number, act.operation, act.address, by, reason, act.now, rules)
    reviewing.add(writer, review)


def _about_sealed(reader: Reader, act: policy.Act) -> bool:
    """Whether an act is about sealed grains."""
    digests = [bytes.fromhex(act.address)]
    if act.new is not None:
        digests.append(bytes.fromhex(act.new.address))
    blobs = [reader.get(digest) for digest in digests]
    return any(blob is not None and blob[1] & ENCRYPTED_BIT for blob in blobs)


def _set(writer: Writer, seq: int, before: State, after: State) -> None:
    writer.set_row(STATES, SEQUENCE.pack(seq), pack(after))
    past = bool(after.bits & PAST)
    if past != bool(before.bits & PAST):
        writer.set_past(seq, past)


def _is_joined(reader: Reader, seq: int, new: str) -> bool:
    """Whether a successor is the one that superseded, and was not removed and put again."""
    found = reader.find([bytes.fromhex(new)])[0]
    row = None if found is None else SEQUENCE.pack(found) + SEQUENCE.pack(seq)
    return row is not None and reader.row(SUPERSEDES, row) is not None


def _refuse_destroyed(reader: Reader, seq: int) -> None:
    """Refuse what nobody can read any more.

    Raises:
        ErasedError: the key that sealed the grain was destroyed.
    """
    blob = reader.blob_at(seq)
    if blob is not None and blob[1] & ENCRYPTED_BIT and isinstance(reader, Unsealing):
        with suppress(KeyMissingError):
            reader.keys_of(seq)


def _refuse_circle(world: StoreWorld, old: str, new: str, most: int, *, sure: bool) -> None:
    """Refuse a successor that the old grain itself supersedes, however far back.

    Args:
        world: the grains.
        old: the grain that is to be superseded.
        new: by which.
        most: grains to look at.
        sure: refuse if these are not all, too. Two lineages can only be joined by a grain that
            was removed and came again, and need not be looked through.
    """
    if old == new:
        raise SchemaError("a grain cannot supersede itself")
    seen, waiting = {new}, [new]
    while waiting:
        for address in world.successors(waiting.pop()):
            if address == old:
                raise SchemaError("the new grain was superseded by the old one")
            if address in seen:
                continue
            if len(seen) < most:
                seen.add(address)
                waiting.append(address)
            elif sure:
                raise RangeError(
                    "too many versions came after the new grain to tell whether the old one did",
                    expected=f"at most {most}",
                )
