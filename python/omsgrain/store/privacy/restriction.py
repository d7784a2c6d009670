# SPDX-License-Identifier: Apache-2.0
"""Restrict grains: they stay in the store, but no query finds them. GDPR Art. 18."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from omsgrain import _core
from omsgrain.errors import InvalidationDeniedError
from omsgrain.storage.base import Writer
from omsgrain.store import lifecycle
from omsgrain.store.context import Context, check_reason, seq_of
from omsgrain.store.privacy.identity import Identities, PersonalGrain, by_pages, select

_PAGE = 500  # grains per transaction


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


def restrict_grains(
    context: Context, addresses: Iterable[str], restricted: bool, reason_code: str
) -> RestrictionReport:
    """Restrict grains, or lift that, in one transaction."""
    digests = [_core.parse_address(address) for address in addresses]
    check_reason(reason_code)

    def work(writer: Writer) -> int:
        settings, changed = context.settings, []
        for digest in digests:
            seq = seq_of(writer, digest)
            done = lifecycle.restrict_asked(writer, settings, seq, restricted, reason_code)
            changed += [] if done is None else [done]
        _note(context, writer, changed, restricted, reason_code)
        return len(changed)

    return RestrictionReport(context.storage.write(work), len(digests), 0)


def restrict_person(
    context: Context,
    identities: Identities | Iterable[str],
    restricted: bool,
    reason_code: str,
) -> RestrictionReport:
    """Restrict a person's grains, or lift that; grains that only have a name do not change."""
    check_reason(reason_code)
    selection = select(context.storage, identities)
    changed = grains = locked = 0
    for page in by_pages((found for found in selection if found.own), _PAGE):
        grains += len(page)
        work = partial(_mark, context, page=page, restricted=restricted, reason_code=reason_code)
        now, stay = context.storage.write(work)
        changed, locked = changed + now, locked + stay
    return RestrictionReport(changed, grains, selection.unopened, locked)


def _mark(
    context: Context, writer: Writer, page: list[PersonalGrain], restricted: bool, reason_code: str
) -> tuple[int, int]:
    changed, locked = [], 0
    for found in page:
        try:
            done = lifecycle.restrict_asked(
                writer, context.settings, found.seq, restricted, reason_code
            )
        except InvalidationDeniedError:
            locked += 1
        else:
            changed += [] if done is None else [done]
    _note(context, writer, changed, restricted, reason_code)
    return len(changed), locked


def _note(
    context: Context, writer: Writer, changed: list[bytes], restricted: bool, reason_code: str
) -> None:
    if changed:
        details = None if restricted else {"ended": 1}
        context.note(writer, "restrict", changed, reason_code=reason_code, details=details)
