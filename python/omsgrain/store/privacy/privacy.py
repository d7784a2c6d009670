# SPDX-License-Identifier: Apache-2.0
"""``store.privacy``: the rights of the people that grains are about. Spec: OMS §9."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from omsgrain.errors import SchemaError
from omsgrain.storage.erasure_queue import WITHIN
from omsgrain.store.context import StorePart
from omsgrain.store.privacy import consent, erasure, erasure_scheduler, restriction
from omsgrain.store.privacy import report as reports
from omsgrain.store.privacy.identity import Identities

if TYPE_CHECKING:
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.crypto.signers import Signer
    from omsgrain.store.privacy.certificate import Certificate
    from omsgrain.store.privacy.consent import WithdrawalReport
    from omsgrain.store.privacy.erasure import ErasureReport
    from omsgrain.store.privacy.erasure_scheduler import DueErasure, DueReport
    from omsgrain.store.privacy.report import SubjectReport
    from omsgrain.store.privacy.restriction import RestrictionReport


class Privacy(StorePart):
    """``store.privacy``: what a store owes to the people that its grains are about."""

    __slots__ = ()

    def erase(
        self,
        identities: Identities | Iterable[str],
        *,
        reason_code: str,
        mentions: Literal["list", "erase", "tenant"] = "list",
        scrub: Literal["now", "queued"] = "now",
        ciphertext: bool = False,
        within_days: int = WITHIN,
        rekey: MasterKey | None = None,
    ) -> ErasureReport:
        """Erase a person: their keys, the grains that are theirs, and what tells of these.

        The keys go first, at once. Grains whose ``user_id``, ``subject_did``, ``grantee_did``,
        ``author_did``, ``observer_did`` or ``witness_dids`` is one of the names are removed;
        grains that only bear a name are listed, for others may bear it. Locks do not keep a grain,
        holds and minimum retentions do: it stays restricted, with the key that seals it, and goes
        with ``run_due`` once nothing keeps it any more.

        Call it again after a crash, or let ``run_due`` go on.

        Args:
            identities: the person's names: user ids, DIDs, e-mail addresses.
            reason_code: a word for the reason; it goes into the audit trail, so nothing personal.
            mentions: ``erase``: also what only bears the name; ``tenant``: that, too, but nothing
                that belongs to another user, whatever names it bears.
            scrub: ``now``: rewrite the store's files, which takes as long as ``compact``;
                ``queued``: leave that to ``run_due``.
            ciphertext: also remove what nobody can read any more.
            within_days: by when the files must be free of it, if not now.
            rekey: rewrite the key file under this master key, for media that do not overwrite
                in place; then destroy the old master key.

        Raises:
            SchemaError: not the names of a person, not a word for the reason, or ``rekey`` without
                keys. Nothing was done.
            StoreError: read-only, full or broken; what was erased stays erased, and the rest is in
                the queue.
            KeyMissingError, OSError: the key file cannot be changed; nothing was erased yet, and
                the order is in the queue.

        Spec: OMS §9, §20
        """
        return erasure.erase(
            self._context,
            identities,
            reason_code=reason_code,
            mentions=mentions,
            scrub=scrub,
            ciphertext=ciphertext,
            within_days=within_days,
            rekey=rekey,
        )

    def certify(
        self,
        report: ErasureReport,
        signer: Signer,
        *,
        reason_code: str,
        of: Literal["person", "tenant"] = "person",
        iat: int | None = None,
    ) -> Certificate:
        """Certify an erasure: a signed statement without names, for the person or a regulator.

        Args:
            report: what the erasure gave.
            signer: who signs.
            reason_code: that of the erasure.
            of: whether a person or a tenant was erased.
            iat: when it is signed, in epoch seconds; left out, if not given.

        Raises:
            SchemaError: not a word for the reason.
            SignatureError: the signer gave no signature that holds.
        """
        return erasure.certify(
            self._context, report, signer, reason_code=reason_code, of=of, iat=iat
        )

    def report(self, identities: Identities | Iterable[str]) -> SubjectReport:
        """Gather all that the store holds about a person.

        Args:
            identities: the person's names: user ids, DIDs, e-mail addresses; compared whole.

        Raises:
            SchemaError: not the names of a person.
            StoreError: the audit trail cannot be written.

        Spec: OMS §9
        """
        return reports.report(self._context, identities)

    def restrict(
        self,
        *addresses: str,
        person: Identities | Iterable[str] | None = None,
        reason_code: str,
    ) -> RestrictionReport:
        """Restrict grains, or all grains of a person: no query finds them, and they stay.

        A grain about a person is restricted whatever its policy says. A grain that is about no
        person obeys its policy. Grains that only bear the person's name stay in use.

        Args:
            addresses: the grains, restricted in one transaction.
            person: instead, the person's names: user ids, DIDs, e-mail addresses.
            reason_code: a word for the reason; it goes into the audit trail, so use nothing
                personal.

        Raises:
            NotFoundError: a grain is not in the store.
            InvalidationDeniedError: the policy of a grain refuses. Of a person's grains the report
                counts such as ``locked``.
            SchemaError: the reason is no word; not the names of a person; or grains and a person.
            StoreError: read-only, full or broken. Of a person's grains those before it stay
                restricted, and you can call it again.

        Spec: OMS §9
        """
        return self._restrict(addresses, person, True, reason_code)

    def unrestrict(
        self,
        *addresses: str,
        person: Identities | Iterable[str] | None = None,
        reason_code: str,
    ) -> RestrictionReport:
        """End the restriction of grains; arguments and errors are those of ``restrict``."""
        return self._restrict(addresses, person, False, reason_code)

    def _restrict(
        self,
        addresses: tuple[str, ...],
        person: Identities | Iterable[str] | None,
        restricted: bool,
        reason_code: str,
    ) -> RestrictionReport:
        if bool(addresses) == (person is not None):
            raise SchemaError("either grains or a person", expected="addresses, or person=")
        if person is None:
            return restriction.restrict_grains(self._context, addresses, restricted, reason_code)
        return restriction.restrict_person(self._context, person, restricted, reason_code)

    def withdraw_consent(
        self,
        consent_address: str,
        *,
        reason: str | None = None,
        sla_days: int | None = None,
        signer: Signer | None = None,
    ) -> WithdrawalReport:
        """Withdraw a consent, at once.

        A grain that says so is stored, and the consent stays beside it for audit. Grains on its
        ground whose policy is consent_cascade are queued for ``run_due``, which looks at
        holds and minimum retentions then; all others are named. A consent that is withdrawn
        already is not withdrawn twice; what is not queued yet is then queued.

        Args:
            consent_address: the consent; of several versions any one.
            reason: why, as a note of the audit trail, which can be erased.
            sla_days: erase within so many days, instead of 30.
            signer: signs the grain that withdraws it, for a store that wants signatures.

        Raises:
            NotFoundError: the consent is not in the store.
            SchemaError: the grain is no consent, or a withdrawal; or a preset refuses the grain
                that withdraws it.
            RangeError: not 0 to 30 days.
            KeyMissingError: it is sealed, and there is no key to it here.
            StoreError: read-only, full or broken; nothing was changed.

        Spec: OMS §9
        """
        return consent.withdraw_consent(
            self._context, consent_address, reason=reason, sla_days=sla_days, signer=signer
        )

    def due(self, until: int | None = None) -> list[DueErasure]:
        """Return the erasures that are queued, by their deadlines.

        Args:
            until: only those that must have been done by then, ms since 1970.
        """
        return erasure_scheduler.due_erasures(self._context, until)

    def retention_due(self, now: int | None = None) -> Iterator[str]:
        """Walk the grains that the preset keeps no longer, by its rules on how long at most.

        Consents are never due, nothing that is held, and nothing that must still be kept.

        Args:
            now: ms since 1970, instead of the clock.
        """
        return erasure_scheduler.retention_due(self._context, now)

    def run_due(self, *, now: int | None = None, everything: bool = False) -> DueReport:
        """Erase what is due: what withdrawn consents allowed, and what may be kept no longer.

        What a hold or a minimum retention keeps stays in the queue, restricted, and is named in
        the report. If the consent stands again the entry is dropped and the grain stays
        restricted, for nobody can tell whether it was restricted for another reason, too. Call it
        once a day or so; what has crashed half way goes on with the next call. Free pages
        of the files can still hold the bytes: ``scrub_due`` says by when a later call, or
        ``compact`` before it, rewrites the files.

        Args:
            now: ms since 1970, instead of the clock.
            everything: also what is queued for later.

        Raises:
            StoreError: read-only, full or broken; what was erased by then stays erased.

        Spec: OMS §9
        """
        return erasure_scheduler.run_due(self._context, now=now, everything=everything)
