# SPDX-License-Identifier: Apache-2.0
"""Changing what is thought of a grain: superseding, contesting, retracting, holding, deleting.

The grain itself never changes; its state does, in one transaction with what causes it. Every way
out of "current and trusted" asks the same policy check first.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from omsgrain import _core
from omsgrain.engine import acts, holding, reviewing
from omsgrain.engine.admission import refuse
from omsgrain.engine.bringing import Bringing
from omsgrain.engine.holding import Hold
from omsgrain.engine.incoming import Incoming
from omsgrain.engine.reasons import check_reason
from omsgrain.engine.reviewing import Review
from omsgrain.engine.world import seq_of, stored_digest
from omsgrain.errors import OmsWarning, RangeError, SchemaError
from omsgrain.index import policy
from omsgrain.intake import Item, take_one
from omsgrain.store.base import Writer
from omsgrain.store.state import State, Verification

__all__ = ["Changing"]

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
            after, done = acts.supersede(writer, self._settings, digest, given, justification)
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
            operation = acts.set_verification(writer, self._settings, digest, status, reason)
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
        from omsgrain.engine.rights import removal

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
                acts.delete(writer, self._settings, digest, reason, approvals)
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

    def state(self, address: str) -> State:
        """Return what became of a grain.

        ``access_count`` includes what this handle has counted; what other processes have counted
        and not written yet is missing.

        Raises:
            NotFoundError: it is not in the store.
        """
        digest = _core.parse_address(address)
        with self._store.read() as reader:
            state = acts.state(reader, seq_of(reader, digest))
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
