# SPDX-License-Identifier: Apache-2.0
"""``store.privacy``: report, restrict and erase personal data. Spec: OMS §9."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from omsgrain import _core
from omsgrain.errors import InvalidationDeniedError, SchemaError
from omsgrain.storage.audit.verify import checkpoint
from omsgrain.storage.base import Writer
from omsgrain.storage.erasure_queue import WITHIN
from omsgrain.store import expiry, lifecycle
from omsgrain.store.context import Context, StorePart, check_reason, seq_of
from omsgrain.store.privacy import consent, erasure, erasure_scheduler
from omsgrain.store.privacy.identity import Identities, by_pages, select
from omsgrain.store.privacy.report import SubjectReport

if TYPE_CHECKING:
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.crypto.signers import Signer
    from omsgrain.query.times import Time
    from omsgrain.store.privacy.certificate import Certificate
    from omsgrain.store.privacy.consent import WithdrawalReport
    from omsgrain.store.privacy.erasure import ErasureReport
    from omsgrain.store.privacy.erasure_scheduler import DueErasure, DueReport


_PAGE = 500  # grains of a person that one transaction restricts


@dataclass(frozen=True, slots=True)
class RestrictionReport:
    """The result of ``restrict`` or ``unrestrict``.

    Attributes:
        restricted: number of changed grains.
        grains: number of examined grains: those given, or the person's.
        unopened: number of grains that could not be read, because a key is missing or they are
            damaged.
        locked: number of the person's grains about no person that a policy keeps in use.
    """

    restricted: int
    grains: int
    unopened: int
    locked: int = 0

    @property
    def complete(self) -> bool:
        """Whether all of the person's grains could be examined."""
        return not self.unopened


class Privacy(StorePart):
    """``store.privacy``: report, restrict and erase personal data."""

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
        """Erase a person: their keys, their grains, and what refers to these grains.

        The keys are destroyed first. Then grains are removed whose ``user_id``, ``subject_did``,
        ``grantee_did``, ``author_did``, ``observer_did`` or ``witness_dids`` is one of the names.
        Grains that have a name elsewhere are listed, because other people may have the same name.
        A lock does not keep a grain. A hold or a minimum retention does: the grain and its key
        stay, restricted, until ``run_due`` removes them after the end of the hold or retention.

        If a crash interrupts the erasure, call it again, or let ``run_due`` resume it.
        Spec: OMS §9, §20.

        Args:
            identities: the person's names: user ids, DIDs, e-mail addresses.
            reason_code: the reason, one word. It goes into the audit trail, so do not use personal
                data.
            mentions: "list" lists grains that only have a name. "erase" erases them too. "tenant"
                erases them, but nothing that belongs to another user.
            scrub: "now" rewrites the store's files, which takes as long as ``compact``. "queued"
                leaves that to ``run_due``.
            ciphertext: also remove grains that cannot be decrypted any more.
            within_days: with "queued", days until the files must be rewritten, 0 to 30.
            rekey: rewrite the key file under this new master key. Use it on media that do not
                overwrite in place, and then destroy the old master key.

        Returns:
            The counts of erased and kept grains, and what is left to do. It contains no name.

        Raises:
            SchemaError: the names, the reason or another argument is invalid, or ``rekey`` is
                given without keys. Nothing was done.
            RangeError: ``within_days`` is out of range. Nothing was done.
            StoreError: the store is read-only, full or damaged. Erased data stays erased, and the
                rest is queued.
            KeyMissingError, OSError: the key file cannot be changed. Nothing was erased yet, and
                the request is queued.
        """
        return erasure.erase(
            self._context, identities, reason_code, mentions, scrub, ciphertext, within_days, rekey
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
        """Certify an erasure in a signed certificate without names.

        Args:
            report: the result of ``erase``.
            signer: the signer.
            reason_code: the reason given to ``erase``.
            of: whether a "person" or a "tenant" was erased.
            iat: the time of the signature in epoch seconds; default: left out.

        Returns:
            The certificate. ``to_json`` writes it.

        Raises:
            SchemaError: the reason is not one word.
            SignatureError: the signer returned an invalid signature.
        """
        from omsgrain.store.privacy.certificate import Certificate

        context = self._context
        with context.storage.read() as reader:
            end = checkpoint(reader)
        now = context.settings.clock()
        made = Certificate.of_report(report, end, reason_code=reason_code, of=of, time=now)
        return made.signed(signer, iat=iat)

    def report(self, identities: Identities | Iterable[str]) -> SubjectReport:
        """Report everything that the store has about a person. Spec: OMS §9.

        The report notes an export in the audit trail, unless the store is read-only.

        Args:
            identities: the person's names: user ids, DIDs, e-mail addresses. Names match whole
                values only.

        Returns:
            The report. It reads grains on demand, so it can exceed the memory.

        Raises:
            SchemaError: the names are invalid.
            StoreError: the audit trail cannot be written.
        """
        context = self._context
        made = SubjectReport(context.storage, context.settings, Identities(identities))
        if not context.storage.readonly:
            details: dict[str, int | str] = {
                "grains": made.own + made.named,
                "purpose": "access",
                "complete": int(made.complete),
            }
            context.storage.write(
                lambda writer: context.note(writer, "export", [], details=details)
            )
        return made

    def restrict(
        self,
        *addresses: str,
        person: Identities | Iterable[str] | None = None,
        reason_code: str,
    ) -> RestrictionReport:
        """Restrict grains, or all grains of a person: they stay, but no query finds them.

        A grain about a person is restricted whatever its policy. Other grains obey their policy.
        Grains that only have the person's name are not restricted. Spec: OMS §9.

        Args:
            addresses: the grains, which are restricted in one transaction.
            person: instead of addresses, the person's names: user ids, DIDs, e-mail addresses.
            reason_code: the reason, one word. It goes into the audit trail, so do not use personal
                data.

        Returns:
            The number of restricted grains, and of those that could not be restricted.

        Raises:
            NotFoundError: a grain is not in the store.
            InvalidationDeniedError: a policy forbids it. With ``person``, such grains are counted
                as ``locked`` instead.
            SchemaError: the reason is not one word, the names are invalid, or there are both
                addresses and a person.
            StoreError: the store is read-only, full or damaged. With ``person``, the grains before
                stay restricted, and you can call it again.
        """
        return self._restrict(addresses, person, True, reason_code)

    def unrestrict(
        self,
        *addresses: str,
        person: Identities | Iterable[str] | None = None,
        reason_code: str,
    ) -> RestrictionReport:
        """Lift the restriction of grains. Arguments and errors are those of ``restrict``.

        Args:
            addresses: the grains.
            person: instead of addresses, the person's names.
            reason_code: the reason, one word.

        Returns:
            The number of grains whose restriction was lifted.
        """
        return self._restrict(addresses, person, False, reason_code)

    def _restrict(
        self,
        addresses: tuple[str, ...],
        person: Identities | Iterable[str] | None,
        restricted: bool,
        reason_code: str,
    ) -> RestrictionReport:
        if bool(addresses) == (person is not None):
            raise SchemaError(
                "give either addresses or a person", expected="addresses, or person="
            )
        context = self._context
        digests = [_core.parse_address(address) for address in addresses]
        check_reason(reason_code)
        if person is None:

            def given(writer: Writer) -> int:
                seqs = (seq_of(writer, digest) for digest in digests)
                return _restrict(context, writer, seqs, restricted, reason_code)[0]

            return RestrictionReport(context.storage.write(given), len(digests), 0)
        selection = select(context.storage, person)
        changed = grains = locked = 0
        for page in by_pages((found for found in selection if found.own), _PAGE):
            grains += len(page)
            now, stay = context.storage.write(
                partial(
                    _restrict,
                    context,
                    seqs=[found.seq for found in page],
                    restricted=restricted,
                    reason_code=reason_code,
                    skip_locked=True,
                )
            )
            changed, locked = changed + now, locked + stay
        return RestrictionReport(changed, grains, selection.unopened, locked)

    def withdraw_consent(
        self,
        consent_address: str,
        *,
        reason: str | None = None,
        sla_days: int | None = None,
        signer: Signer | None = None,
    ) -> WithdrawalReport:
        """Withdraw a consent. Spec: OMS §9.

        The store adds a withdrawal grain and keeps the consent for audit. Grains that depend on
        the consent and have the policy mode ``consent_cascade`` are queued for ``run_due``, which
        respects holds and minimum retentions. The report lists the other dependent grains. If the
        consent is withdrawn already, the call only queues grains that are not queued yet.

        Args:
            consent_address: any version of the consent.
            reason: a note for the audit trail. It can be erased.
            sla_days: days until the queued grains must be erased, 0 to 30; default 30.
            signer: signs the withdrawal, for a store that requires signatures.

        Returns:
            The withdrawal, the queued grains with their deadline, and the other dependent grains.

        Raises:
            NotFoundError: the consent is not in the store.
            SchemaError: the grain is not a consent, or is a withdrawal; or a preset rejects the
                withdrawal.
            RangeError: ``sla_days`` is out of range.
            KeyMissingError: the consent is encrypted, and its key is missing.
            StoreError: the store is read-only, full or damaged. Nothing was changed.
        """
        return consent.withdraw_consent(self._context, consent_address, reason, sla_days, signer)

    def due(self, until: Time | None = None) -> list[DueErasure]:
        """Return the queued erasures by deadline.

        Args:
            until: only those due by this time; a span such as `7d` counts from now on. None for
                all.

        Raises:
            SchemaError: not a time.
        """
        return erasure_scheduler.due_erasures(self._context, until)

    def expire(self, addresses: Iterable[str], at: Time | None) -> None:
        """Set or lift the end of life of grains, in one transaction.

        From then on no query or search finds them, and exports and syncs leave them out. They stay
        in the store, and ``get`` reads them, until ``run_due`` removes them.

        Args:
            addresses: the grains.
            at: a time, or how long from now as a ``timedelta``; None for no end.

        Raises:
            NotFoundError: a grain is not in the store. Nothing was changed.
            RangeError, SchemaError: not a time.
            StoreError: the store is read-only, full or damaged.
        """
        expiry.expire(self._context, addresses, at)

    def retention_due(self, now: Time | None = None) -> Iterator[str]:
        """Return the addresses of grains whose maximum retention by the preset has passed.

        Consents, held grains and grains with an open minimum retention are left out.

        Args:
            now: the time that counts as now; default: the store's clock.

        Raises:
            SchemaError: not a time.
        """
        return erasure_scheduler.retention_due(self._context, now)

    def run_due(self, *, now: Time | None = None, everything: bool = False) -> DueReport:
        """Erase grains under withdrawn consents, and grains whose retention ended.

        Call it about once a day; it also resumes interrupted erasures. A grain that a hold or a
        minimum retention keeps stays in the queue, restricted, and the report lists it. If a
        consent is valid again, its entry is dropped; the grain stays restricted, because there may
        be another reason for that. Free pages of the files can still contain erased bytes: until
        ``scrub_due``, a later call or ``compact`` must rewrite the files. Spec: OMS §9.

        Args:
            now: the time that counts as now; default: the store's clock.
            everything: also erase what is queued for later.

        Returns:
            The counts of erased grains, and the grains and entries that stay.

        Raises:
            SchemaError: not a time.
            StoreError: the store is read-only, full or damaged. Erased data stays erased.
        """
        return erasure_scheduler.run_due(self._context, now, everything)


def _restrict(
    context: Context,
    writer: Writer,
    seqs: Iterable[int],
    restricted: bool,
    reason_code: str,
    skip_locked: bool = False,
) -> tuple[int, int]:
    """Restrict grains, or lift that; returns how many changed, and how many a policy locks."""
    changed, locked = [], 0
    for seq in seqs:
        try:
            done = lifecycle.restrict_asked(writer, context.settings, seq, restricted, reason_code)
        except InvalidationDeniedError:
            if not skip_locked:
                raise
            locked += 1
        else:
            changed += [] if done is None else [done]
    if changed:
        details = None if restricted else {"ended": 1}
        context.note(writer, "restrict", changed, reason_code=reason_code, details=details)
    return len(changed), locked
