# SPDX-License-Identifier: Apache-2.0
"""What the consent block of a document binds its records to.

    retention_days    its records, and what is kept of the document, are erased so many days after
                      the consent (``timestamp``; else when the document was made, else now)
    sharing_allowed   false: its records leave for no purpose that is sharing

Both bind what the import stores, and nothing that was stored before. Spec: MIF 1.0 §6.3
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from omsgrain.engine.leaving import SHARING
from omsgrain.formats import times
from omsgrain.formats.mif1.consent import Consent as Block
from omsgrain.formats.problems import Problem
from omsgrain.gateways.mif.arriving import Arrived, Document
from omsgrain.grain import make

__all__ = ["Consent", "consent"]

_LAST = 2**62


class Consent(NamedTuple):
    """What the records of a document are bound to.

    Attributes:
        until: when they must be gone, ms since 1970.
        warnings: what follows from it that nobody may expect.
    """

    until: int | None = None
    warnings: tuple[Problem, ...] = ()


def consent(document: Document, now: int) -> Consent:
    """Read the consent of a document, and mark the records that are not to be shared.

    Args:
        document: its records are changed.
        now: ms since 1970.
    """
    given = next((one for one in document.records if one.kind == "consent"), None)
    if given is None:
        return Consent()
    said = Block.of(document.record_of(given))
    if said is None:
        return Consent()
    if not said.shares:
        document.records = [_unshared(one) for one in document.records]
    until = said.expires_at(_made(document, now))
    if until is None:
        return Consent()
    if until > now:
        return Consent(min(until, _LAST))
    says = "the time is over for which the consent lets its records be kept"
    return Consent(max(until, 0), (Problem("retention_over", given.pointer, says),))


def _made(document: Document, now: int) -> int:
    """When the document was made, as far as it says."""
    export = document.manifest.envelope.get("export")
    made = export.get("created_at") if isinstance(export, Mapping) else None
    instant = times.parse(made, floating=True) if isinstance(made, str) else None
    return now if instant is None else instant.millis


def _unshared(one: Arrived) -> Arrived:
    # Its parts are named by their addresses, and leave only with what names them.
    return one._replace(grain=make({**one.grain.fields, SHARING: False}))
