# SPDX-License-Identifier: Apache-2.0
"""Erasing a person: keys first, then all that stands in the clear, then the bytes left behind.

    order     in the queue, so that a crash at any point is gone on from
    keys      destroyed at once, whatever the number of grains, unless one must be kept
    grains    by pages: rows beside sealed ones, then what stands in the clear
    scrub     the store's files are written anew, without free pages

Spec: OMS §9, §20
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from omsgrain.counts import counted
from omsgrain.engine.reasons import check_reason
from omsgrain.engine.rights import unkeying
from omsgrain.engine.rights.carrying import WITHIN, Carrying
from omsgrain.engine.rights.orders import ERASE, Order
from omsgrain.engine.rights.selector import Identities, select
from omsgrain.errors import OmsError, RangeError, SchemaError
from omsgrain.store import due, tombstones
from omsgrain.store.base import Writer

if TYPE_CHECKING:
    from omsgrain.crypto import Signer
    from omsgrain.crypto.keyring import MasterKey
    from omsgrain.engine.rights.certificate import Certificate

__all__ = ["Erasing", "ErasureReport"]


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What became of the erasure of a person. It names no person.

    Attributes:
        keys: how many keys were destroyed.
        sealed: how many grains nobody can read any more.
        erased: how many grains were removed.
        named: grains that only bear the name, with the fields that do; they stay.
        kept: grains that stay, restricted, each with the rule that keeps it.
        scrubbed: the files hold no bytes of what was removed.
        scrub_due: by when they must not, ms since 1970, if they still may.
        rekeyed: the key file was written anew.
        incomplete: what is not done: ``kept``; ``unopened``: grains that could not be looked into,
            for want of a key or by damage; ``key``: a key that could not be destroyed; ``scrub``;
            ``rekey``.
    """

    keys: int
    sealed: int
    erased: int
    named: tuple[tuple[str, tuple[str, ...]], ...]
    kept: tuple[tuple[str, str], ...]
    scrubbed: bool
    scrub_due: int | None
    rekeyed: bool
    incomplete: tuple[str, ...]

    __repr__ = counted

    @property
    def complete(self) -> bool:
        """Whether all of it is done."""
        return not self.incomplete

    @property
    def matched(self) -> bool:
        """Whether anything in the store bore one of the names, or may have."""
        counts = self.keys, self.sealed, self.erased, self.named, self.kept
        return any(counts) or not {"unopened", "key"}.isdisjoint(self.incomplete)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        return {"complete": self.complete, **asdict(self)}


class Erasing(Carrying):
    """The part of a GrainStore that erases people."""

    def erase_subject(
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
        with ``run_due_erasures`` once nothing keeps it any more.

        Call it again after a crash, or let ``run_due_erasures`` go on.

        Args:
            identities: the person's names: user ids, DIDs, e-mail addresses.
            reason_code: a word for the reason; it goes into the audit trail, so nothing personal.
            mentions: ``erase``: also what only bears the name; ``tenant``: that, too, but nothing
                that belongs to another user, whatever names it bears.
            scrub: ``now``: write the store's files anew, which takes as long as ``compact``;
                ``queued``: leave that to ``run_due_erasures``.
            ciphertext: also remove what nobody can read any more.
            within_days: by when the files must be free of it, if not now.
            rekey: write the key file anew under this master key, for media that do not overwrite
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
        from omsgrain.crypto.master import load_master

        people = Identities(identities)
        _check(reason_code, mentions, scrub, within_days)
        ring = self._settings.keys
        if rekey is not None and ring is None:
            raise SchemaError("the store was opened without keys", field="/rekey")
        if rekey is not None:
            load_master(rekey)  # one that is none must not be found out at the end
        live = unkeying.numbers_of(ring, people)
        with self._store.read() as reader:
            gone = unkeying.left_behind(reader, ring, people, ciphertext=ciphertext)
        order = Order(
            tuple(dict.fromkeys((*live, *gone))),
            (),
            0,
            reason_code,
            mentions=mentions == "erase",
            ciphertext=ciphertext,
            tenant=mentions == "tenant",
        )
        key, order = self._store.write(partial(self._place, people=people, order=order))
        self._store.sync()  # before a key is gone the disk must know what goes with it
        done = self._carry_out(key, order, select(self._store, people), within_days)
        incomplete = ["kept"] * bool(done.kept) + ["unopened"] * bool(done.unopened)
        incomplete += ["key"] * bool(done.kept_keys and not done.kept)
        rekeyed = False
        if rekey is not None and ring is not None:
            try:
                ring.rekey(rekey)
                rekeyed = True
            except (OmsError, OSError):
                incomplete.append("rekey")
        scrubbed = scrub == "now" and self._scrub()
        scrub_due = None if scrubbed else self._scrub_due()
        return ErasureReport(
            done.keys,
            done.sealed,
            done.erased,
            tuple(done.named),
            tuple(done.kept.values()),
            scrubbed,
            scrub_due,
            rekeyed,
            (*incomplete, *(["scrub"] if not scrubbed else [])),
        )

    def certify_erasure(
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
        from omsgrain.engine.rights.certificate import Certificate
        from omsgrain.store.audit.ends import checkpoint

        with self._store.read() as reader:
            end = checkpoint(reader)
        now = self._settings.clock()
        made = Certificate.of_report(report, end, reason_code=reason_code, of=of, time=now)
        return made.signed(signer, iat=iat)

    def _place(self, writer: Writer, people: Identities, order: Order) -> tuple[bytes, Order]:
        """Put the order into the queue, and remember that these names were erased."""
        now, shared = self._settings.clock(), tombstones.key(writer)
        marks = tuple(tombstones.mark(shared, "identity", name) for name in people)
        for name in people:
            tombstones.again(writer, "identity", name, now, order.reason_code)
        order = replace(order, marks=marks, last=writer.last_seq())
        key = due.add(writer, now, order.what(ERASE))
        told: dict[str, int | str] = {"keys": len(order.numbers)}
        self._note(writer, "erase", [], reason_code=order.reason_code, details=told)
        return key, order


def _check(reason_code: str, mentions: str, scrub: str, within_days: int) -> None:
    check_reason(reason_code)
    if mentions not in ("list", "erase", "tenant"):
        expected = '"list", "erase" or "tenant"'
        raise SchemaError("what to do with names", field="/mentions", expected=expected)
    if scrub not in ("now", "queued"):
        raise SchemaError("when to scrub", field="/scrub", expected='"now" or "queued"')
    if type(within_days) is not int or not 0 <= within_days <= WITHIN:
        raise RangeError("not a time for erasing", field="/within_days", expected="0 to 30 days")
