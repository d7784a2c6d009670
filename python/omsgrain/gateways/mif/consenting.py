# SPDX-License-Identifier: Apache-2.0
"""What the consent block of a document binds its records to.

    retention_days      its records, and what is kept of the document, are erased so many days after
                        the consent (``timestamp``; else when the document was made, else now)
    sharing_allowed     false: its records leave for no purpose that is sharing

Both bind what the import stores, and nothing that was stored before. Spec: MIF 1.0 §6.3
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from omsgrain.engine.leaving import SHARING
from omsgrain.formats import times
from omsgrain.formats.problems import Problem
from omsgrain.gateways.mif.arriving import Arrived, Document
from omsgrain.grain import make

__all__ = ["Consent", "consent"]

_DAY = 86_400_000
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
    block = document.record_of(given)
    if block.get("sharing_allowed") is False:
        document.records = [_unshared(one) for one in document.records]
    days = block.get("retention_days")
    if type(days) not in (int, float) or days < 0:
        return Consent()
    until = min(_start(block, document, now) + int(days * _DAY), _LAST)
    if until > now:
        return Consent(until)
    says = "the time is over for which the consent lets its records be kept"
    return Consent(max(until, 0), (Problem("retention_over", given.pointer, says),))


def _start(block: Mapping[str, Any], document: Document, now: int) -> int:
    """When the time begins to run."""
    export = document.manifest.envelope.get("export")
    made = export.get("created_at") if isinstance(export, Mapping) else None
    for text in (block.get("timestamp"), made):
        instant = times.parse(text, floating=True) if isinstance(text, str) else None
        if instant is not None:
            return instant.millis
    return now


def _unshared(one: Arrived) -> Arrived:
    # Its parts are named by their addresses, and leave only with what names them.
    return one._replace(grain=make({**one.grain.fields, SHARING: False}))
