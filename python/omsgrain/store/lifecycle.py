# SPDX-License-Identifier: Apache-2.0
"""What superseding, verifying and deleting do to the rows of a store, in a transaction.

Each asks the policy first, then changes the state, moves the index rows if the grain is no longer
current (or is again), and leaves an event for those who follow ``changes``.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
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
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.query.history import MOST_VERSIONS
from omsgrain.storage import records
from omsgrain.storage.base import KeyedReader, Reader, Writer
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
from omsgrain.store import holds as holding
from omsgrain.store import policy_context, reviews
from omsgrain.store import reviews as reviewing
from omsgrain.store.base import check_reason
from omsgrain.store.holds import Hold
from omsgrain.store.policy_context import PolicyContext, address_of, seq_of, stored_digest
from omsgrain.store.prepared import Incoming, Item, take_one
from omsgrain.store.reviews import Review
from omsgrain.store.write import Bringing, check_basis, known, place, refuse

if TYPE_CHECKING:
    from omsgrain.store.base import Settings

_WALK = 4_096  # grains of another lineage that are looked at for a circle


def state_of(reader: Reader, seq: int) -> GrainStatus:
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
    """Put a grain in the place of the one with the digest."""
    seq = seq_of(writer, digest)
    there = _there(writer, given)
    new = given.grain(0) if there is None else _at(writer, there)
    signers = _signers(writer, given, there)
    world = PolicyContext(writer, new, signed={new.address: signers})
    old = address_of(writer, seq)
    _refuse_destroyed(writer, seq)
    key = SEQUENCE.pack(seq)
    before = unpack(writer.row(STATES, key))
    new_digest = bytes.fromhex(new.address)
    if new.address in before.successors and _is_joined(writer, seq, new.address):
        _place(writer, given, whole)  # perhaps it has one more signature
        return new_digest, False
    if there is not None:  # what is new has superseded nothing yet
        same = policy_context.is_same(writer, seq, seq_of(writer, there))
        _refuse_circle(world, old, new.address, MOST_VERSIONS if same else _WALK, sure=same)
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
        if policy_context.extends(writer, seq, stored, new, since):
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
    policy_context.join(writer, seq, new_seq)
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
    rules = _check(PolicyContext(writer), act, settings)
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
    """
    grain = writer.grain(seq) if restricted else None
    if grain is None or not _is_about_nobody(grain):
        return restrict(writer, seq, restricted)
    act = policy.Act("restrict", grain.address, justification=reason, now=settings.clock())
    rules = _check(PolicyContext(writer), act, settings)
    done = _restrict(writer, seq, restricted)
    if done is None:
        return None
    _review(writer, done[0], act, rules)
    return done[1]


def _is_about_nobody(grain: Grain) -> bool:
    from omsgrain.store.privacy.identity import is_about_nobody

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
    records.flip(writer, seq, records.RESTRICTION, restricted)
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
    from omsgrain.policy.presets import load

    seq = seq_of(writer, digest)
    old = address_of(writer, seq)
    _refuse_destroyed(writer, seq)
    act = policy.Act("delete", old, justification=reason, now=settings.clock())
    world = PolicyContext(writer)
    rules = _check(world, act, settings)
    if (grain := world.grain(act.address)) is not None:
        preset = settings.preset or load(())  # what a grain says of its own retention binds always
        rules += preset.check_delete(grain, act.now, approvals=approvals)
    number = writer.event(DELETED, seq, bytes.fromhex(old))
    _review(writer, number, act, rules)
    policy_context.leave(writer, seq)
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
        from omsgrain.storage import signatures

        found.update(signatures.signers(writer, seq))
    return tuple(sorted(found))


def _co_signers(
    world: PolicyContext, settings: Settings, new: Grain, old: str
) -> Mapping[str, str]:
    """Who has signed that the new grain may supersede the old one, each with the key."""
    if "supersession_auth" not in new:
        return {}
    from omsgrain import crypto

    named = policy.authorized(world, policy.Act("supersede", old, new=new, now=settings.clock()))
    return crypto.check_co_signers(
        new, policy.claim(new), old, resolver=settings.resolver, authorized=named
    ).keys


def _check(world: PolicyContext, act: policy.Act, settings: Settings) -> tuple[str, ...]:
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
    review = reviews.Review(number, act.operation, act.address, by, reason, act.now, rules)
    reviews.add(writer, review)


def _about_sealed(reader: Reader, act: policy.Act) -> bool:
    """Whether an act is about sealed grains."""
    digests = [bytes.fromhex(act.address)]
    if act.new is not None:
        digests.append(bytes.fromhex(act.new.address))
    blobs = [reader.get(digest) for digest in digests]
    return any(blob is not None and blob[1] & ENCRYPTED_BIT for blob in blobs)


def _set(writer: Writer, seq: int, before: GrainStatus, after: GrainStatus) -> None:
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
    """Refuse what nobody can read any more."""
    blob = reader.blob_at(seq)
    if blob is not None and blob[1] & ENCRYPTED_BIT and isinstance(reader, KeyedReader):
        with suppress(KeyMissingError):
            reader.keys_of(seq)


def _refuse_circle(world: PolicyContext, old: str, new: str, most: int, *, sure: bool) -> None:
    """Refuse a successor that the old grain itself supersedes, however far back."""
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


_STATUSES = ("unverified", "verified", "contested", "retracted")


class Changing(Bringing):
    """The part of a GrainStore that changes what is thought of a grain."""

    def supersede(self, old: str, new: Item, justification: str | None = None) -> str:
        """Put a grain in the place of another, in one step: both or nothing.

        The old grain stays, with ``superseded_by`` and ``system_valid_to`` in its state, and
        leaves current results. Its own policy, and those of grains that it stands under, decide
        whether it may.

        Args:
            old: address of the grain to supersede. One that is superseded already gets a second
                successor: a fork, whose heads all stay.
            new: fields, a grain, or a blob; it may be in the store already. Fields that supersede
                a protected goal and name no policy get the goal's.
            justification: the reason, for policies that ask for one. Given fields, it becomes
                their ``supersession_justification``; a grain cannot be changed any more, so
                beside one it is kept in the list of reviews only.

        Returns:
            The address of the new grain.

        Raises:
            NotFoundError: the old grain is not in the store.
            InvalidationDeniedError: a policy or a hold refuses.
            EvidenceRequiredError: the goal asks for evidence that is not there.
            SchemaError: the new grain is the old one, or an ancestor of it.
            RangeError: the new grain is there with as many signatures as it can have, and comes
                with another.
            OmsError: any other refusal of the new grain.
            StoreError: read-only, full or broken; nothing was stored.

        Spec: OMS §23
        """
        digest = _core.parse_address(old)
        if isinstance(new, dict) and justification is not None:
            name = "supersession_justification"
            if new.get(name, justification) != justification:
                raise SchemaError("two justifications that differ", field=f"/{name}")
            new = {**new, name: justification}
        if isinstance(new, dict):
            new = self._protected(digest, new)
        intake = take_one(new, replacing=True, resolver=self._settings.resolver)
        for note in intake.warnings:
            warnings.warn(note.message, OmsWarning, stacklevel=2)

        def work(writer: Writer, given: Incoming) -> str:
            before = stored_digest(writer, digest)
            refuse(writer, self._settings, given)
            after, done = supersede(writer, self._settings, digest, given, justification)
            if done:
                self._note(writer, "supersede", [before, after])
            return after.hex()

        return self._bring(intake, work)

    def _protected(self, old: bytes, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields, with the policy of the goal that they supersede if they name none."""
        with self._store.read() as reader:
            seq = reader.find([old])[0]
            grain = None if seq is None else reader.grain(seq)
        if grain is None or grain.sealed:
            return fields
        terms = policy.inherited(grain, fields, self._settings.clock())
        return fields if terms is None else {**fields, policy.FIELD: terms}

    def contest(self, address: str, *, reason: str | None = None) -> None:
        """Say that a grain is in doubt; it stays among current results, marked as contested.

        Args:
            address: the grain.
            reason: why; some policies ask for it.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as ``supersede``.

        Spec: OMS §23
        """
        self.set_verification(address, "contested", reason=reason)

    def retract(self, address: str, *, reason: str | None = None) -> None:
        """Withdraw a grain: it leaves current results and stays readable by its address.

        Args:
            address: the grain.
            reason: why; some policies ask for it.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as ``supersede``.

        Spec: OMS §23
        """
        self.set_verification(address, "retracted", reason=reason)

    def set_verification(
        self, address: str, status: Verification, *, reason: str | None = None
    ) -> None:
        """Set what verification found: unverified, verified, contested or retracted.

        Raises:
            SchemaError: an unknown status.
            NotFoundError, InvalidationDeniedError, StoreError: as ``supersede``.

        Spec: OMS §23
        """
        if status not in _STATUSES:
            raise SchemaError(
                "unknown verification status", field="/status", expected=", ".join(_STATUSES)
            )
        digest = _core.parse_address(address)

        def work(writer: Writer) -> None:
            about = [stored_digest(writer, digest)]
            operation = set_verification(writer, self._settings, digest, status, reason)
            if operation is not None:
                self._note(writer, operation, about, reason_code=status, note=reason)

        self._store.write(work)

    def delete(
        self, address: str, *, reason: str | None = None, approvals: Collection[str] = ()
    ) -> None:
        """Take a grain out of the store; its address stays in the audit trail, under a key.

        Free pages of the file can still hold its bytes until ``compact``.

        Args:
            address: the grain.
            reason: why; some policies ask for it.
            approvals: approvals that were given, by the names that a retention policy asks for.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as ``supersede``; a hold or a
                minimum retention refuses too.

        Spec: OMS §28
        """
        self.delete_many((address,), reason=reason, approvals=approvals)

    def delete_many(
        self,
        addresses: Iterable[str],
        *,
        reason: str | None = None,
        approvals: Collection[str] = (),
        erased: str | None = None,
        beside: Iterable[str] = (),
    ) -> None:
        """Take several grains out in one step: all of them, or none.

        Args:
            addresses: the grains; at most a thousand.
            reason: why; some policies ask for it.
            approvals: as ``delete``.
            erased: remember also what they were, under this word for the reason: no import brings
                them back then, unless it is allowed to. Without it they may come again.
            beside: grains that go with them, of which nothing is remembered.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as ``delete``; nothing was done.
            SchemaError: ``erased`` is no word.
        """
        from omsgrain.store.privacy import removal

        if erased is not None:
            check_reason(erased)
        known = list(dict.fromkeys(map(_core.parse_address, addresses)))
        digests = list(dict.fromkeys((*known, *map(_core.parse_address, beside))))

        def work(writer: Writer) -> None:
            about = [stored_digest(writer, digest) for digest in digests]
            for i, digest in enumerate(digests):
                names = removal.names_of(writer, seq_of(writer, digest))
                if erased is not None and names is not None and i < len(known):
                    removal.remember(writer, names, self._settings.clock(), erased)
                delete(writer, self._settings, digest, reason, approvals)
            self._note(writer, "delete", about, note=reason)

        self._store.write(work)

    def hold(self, address: str, *, authority: str, reason_code: str) -> None:
        """Keep a grain as it is: nothing may supersede, delete or erase it until the release.

        Args:
            address: the grain.
            authority: who asks for it; the same one releases it.
            reason_code: a word for the reason, such as ``litigation``; it goes into the audit
                trail, so nothing personal.

        Raises:
            NotFoundError, StoreError: as ``supersede``.
            SchemaError: an empty authority, or a reason that is no word.
            RangeError: an authority of more than 1,024 letters.
        """
        if isinstance(authority, str) and len(authority) > holding.LONGEST:
            raise RangeError(
                "so long a name has no authority",
                field="/authority",
                expected=f"at most {holding.LONGEST} letters",
            )
        self._hold("hold", holding.hold, address, authority, reason_code)

    def release(self, address: str, *, authority: str, reason_code: str) -> None:
        """End the hold of an authority; those of others go on.

        Raises:
            NotFoundError: the authority holds no such grain.
            SchemaError, StoreError: as ``hold``.
        """
        self._hold("release", holding.release, address, authority, reason_code)

    def _hold(
        self, operation: str, act: holding.HoldAct, address: str, authority: str, reason_code: str
    ) -> None:
        digest = _core.parse_address(address)
        if not _says(authority):
            raise SchemaError("a hold names who asks for it", field="/authority")
        check_reason(reason_code)
        hold = Hold(authority, reason_code, self._settings.clock())

        def work(writer: Writer) -> None:
            about = stored_digest(writer, digest)
            act(writer, about, hold)
            self._note(writer, operation, [about], reason_code=reason_code)

        self._store.write(work)

    def holds(self, address: str) -> tuple[Hold, ...]:
        """Return who holds a grain.

        Raises:
            NotFoundError: it is not in the store.
        """
        digest = _core.parse_address(address)
        with self._store.read() as reader:
            return holding.holds(reader, seq_of(reader, digest))

    def reviews(self) -> Iterator[Review]:
        """What policies accepted on condition that somebody looks at it, oldest first.

        Raises:
            IntegrityError: a row is damaged.
        """
        with self._store.read() as reader:
            return iter(list(reviewing.reviews(reader)))

    def reviewed(self, number: int) -> None:
        """Take a review off the list.

        Raises:
            NotFoundError: there is no such review.
        """

        def work(writer: Writer) -> None:
            reviewing.reviewed(writer, number)
            self._note(writer, "policy", [], reason_code="reviewed", details={"review": number})

        self._store.write(work)

    def state(self, address: str) -> GrainStatus:
        """Return what became of a grain.

        ``access_count`` includes what this handle has counted; what other processes have counted
        and not written yet is missing.

        Raises:
            NotFoundError: it is not in the store.
        """
        digest = _core.parse_address(address)
        with self._store.read() as reader:
            state = state_of(reader, seq_of(reader, digest))
        count, last = self._access.of(digest)
        if not count:
            return state
        return replace(
            state,
            access_count=state.access_count + count,
            last_accessed_at=max(last, state.last_accessed_at or 0),
        )


def _says(value: object) -> bool:
    """Whether a value is a text, and not an empty one, that can be written down."""
    try:
        return isinstance(value, str) and bool(value.strip()) and bool(value.encode())
    except UnicodeEncodeError:  # half a character of UTF-16
        return False
