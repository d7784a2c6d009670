# SPDX-License-Identifier: Apache-2.0
"""Taking over what a file claims became of its grains.

A grain proves itself by its address; its state is what somebody says. So a claim counts no more
than the same act of whoever imports it: the policies are asked, and nothing is raised by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from omsgrain.engine import acts
from omsgrain.errors import OmsError, StoreError
from omsgrain.exchange import Claim, Merged
from omsgrain.grain import Grain
from omsgrain.store.base import Writer

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings

__all__ = ["merge"]

_RANK = {"verified": 0, "unverified": 1, "contested": 2, "retracted": 3}
"""A status outside may only be followed away from trust."""


Note: TypeAlias = Callable[[str, list[bytes]], None]
"""Adds an entry to the audit trail: the operation, and the grains."""


def merge(writer: Writer, settings: Settings, claims: list[Claim], note: Note) -> Merged:
    """Take over those claims whose grains are here and whose policies allow it."""
    taken, before = 0, writer.count()
    refused: list[tuple[str, OmsError]] = []
    waiting: list[Claim] = []
    for claim in claims:
        try:
            done = _merge(writer, settings, claim, note)
        except StoreError:
            raise
        except OmsError as error:
            refused.append((claim.address, error))
            continue
        if done is None:
            waiting.append(claim)
        else:
            taken += done
    return Merged(writer.count() - before, taken, refused, waiting)


def _merge(writer: Writer, settings: Settings, claim: Claim, note: Note) -> bool | None:
    """Whether something was taken over; None if a grain that it names is not here."""
    digest = bytes.fromhex(claim.address)
    seq = writer.find([digest])[0]
    if seq is None:
        return None
    changed = False
    if claim.superseded_by is not None:
        new = bytes.fromhex(claim.superseded_by)
        blob = claim.new or writer.get(new)
        if blob is None:
            return None
        if acts.supersede(writer, settings, digest, Grain(blob), None):
            note("supersede", [digest, new])
            changed = True
    status = claim.verification_status
    if status in ("contested", "retracted"):
        now = acts.state(writer, seq).verification_status
        if _RANK[status] > _RANK[now]:
            operation = acts.set_verification(writer, settings, digest, status, None)
            if operation is not None:
                note(operation, [digest])
                changed = True
    return changed
