# SPDX-License-Identifier: Apache-2.0
"""Restricting grains: they are kept, and left out of all use. GDPR Art. 18."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from omsgrain import _core
from omsgrain.errors import InvalidationDeniedError
from omsgrain.storage.base import Writer
from omsgrain.store import lifecycle
from omsgrain.store.base import Base, check_reason
from omsgrain.store.policy_context import seq_of
from omsgrain.store.privacy.identity import Identities, PersonalGrain, by_pages, select

_PAGE = 500  # grains a transaction


@dataclass(frozen=True, slots=True)
class RestrictionReport:
    """What ``restrict_subject`` did.

    Attributes:
        restricted: how many grains were restricted now.
        grains: how many are the person's, with those that were restricted before.
        unopened: grains that could not be looked into, for want of a key or by damage.
        locked: grains about nobody, written by the person, that a policy keeps in use.
    """

    restricted: int
    grains: int
    unopened: int
    locked: int = 0

    @property
    def complete(self) -> bool:
        """Whether all of the person's grains are restricted."""
        return not self.unopened


class Restricting(Base):
    """The part of a GrainStore that restricts grains."""

    def restrict(self, address: str, *, reason_code: str) -> None:
        """Leave a grain out of all results by default; it stays, and ``get`` gives it.

        A grain about a person is restricted whatever its policy says. Of one that is about nobody
        the policy decides.

        Args:
            address: the grain.
            reason_code: a word for the reason; it goes into the audit trail, so nothing personal.

        Raises:
            NotFoundError: it is not in the store.
            InvalidationDeniedError: it is about nobody, and its policy refuses.
            SchemaError: the reason is no word.
            StoreError: read-only, full or broken; nothing was changed.
        """
        self._restrict(address, True, reason_code)

    def unrestrict(self, address: str, *, reason_code: str) -> None:
        """End the restriction of a grain; arguments and errors are those of ``restrict``."""
        self._restrict(address, False, reason_code)

    def _restrict(self, address: str, restricted: bool, reason_code: str) -> None:
        digest = _core.parse_address(address)
        check_reason(reason_code)

        def work(writer: Writer) -> None:
            seq = seq_of(writer, digest)
            settings = self._settings
            changed = lifecycle.restrict_asked(writer, settings, seq, restricted, reason_code)
            if changed is not None:
                told = None if restricted else {"ended": 1}
                self._note(writer, "restrict", [changed], reason_code=reason_code, details=told)

        self._store.write(work)

    def restrict_subject(
        self, identities: Identities | Iterable[str], *, reason_code: str
    ) -> RestrictionReport:
        """Restrict all grains of a person; those that only bear the same name stay in use.

        What the person only wrote, and is about nobody, obeys its policy, as with ``restrict``.

        Args:
            identities: the person's names: user ids, DIDs, e-mail addresses.
            reason_code: as of ``restrict``.

        Raises:
            SchemaError: not the names of a person, or the reason is no word.
            StoreError: read-only, full or broken; grains before stay restricted, and it can be
                asked again.

        Spec: OMS §9
        """
        check_reason(reason_code)
        selection = select(self._store, identities)
        restricted = grains = locked = 0
        for page in by_pages((found for found in selection if found.own), _PAGE):
            grains += len(page)
            now, stay = self._store.write(partial(self._mark, page=page, reason_code=reason_code))
            restricted, locked = restricted + now, locked + stay
        return RestrictionReport(restricted, grains, selection.unopened, locked)

    def _mark(
        self, writer: Writer, page: list[PersonalGrain], reason_code: str
    ) -> tuple[int, int]:
        changed, locked = [], 0
        for found in page:
            try:
                digest = lifecycle.restrict_asked(
                    writer, self._settings, found.seq, True, reason_code
                )
            except InvalidationDeniedError:
                locked += 1
            else:
                changed += [] if digest is None else [digest]
        if changed:
            self._note(writer, "restrict", changed, reason_code=reason_code)
        return len(changed), locked
