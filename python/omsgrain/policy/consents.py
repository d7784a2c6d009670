# SPDX-License-Identifier: Apache-2.0
"""What may supersede a withdrawal of consent. Spec: OMS §9, §23.

A withdrawal that was superseded takes nothing back any more. So what supersedes it has to be about
it: another consent of the same person, whatever reason is given with it. Everything else that was
ever said, even by that person, could be replayed to bring the consent back.
"""

from __future__ import annotations

from omsgrain.errors import InvalidationDeniedError
from omsgrain.grain import Grain
from omsgrain.policy.reach import denied, replaced

_TYPE = "consent"


def after_withdrawal(names: frozenset[str], target: Grain, new: Grain) -> None:
    """Refuse a grain that supersedes a withdrawal and is not about it."""
    if target.type != _TYPE or target.get("is_withdrawal") is not True:
        return
    if new.type != _TYPE or new.get("subject_did") != target.get("subject_did"):
        raise _refusal("/subject_did", "a consent of the same subject_did", "another")
    prior = new.get("prior_consent")
    if prior in names or not names.isdisjoint(replaced(new)):
        return
    # What the person said of the same consent before withdrawing it was withdrawn with it.
    earlier = new.get("created_at", 0) < target.get("created_at", 0)
    if earlier or prior != target.get("prior_consent"):
        expected = "the withdrawal, or in a later grain the consent that it withdrew"
        raise _refusal("/prior_consent", expected, "an earlier grain" if earlier else "another")


def _refusal(field: str, expected: str, found: str) -> InvalidationDeniedError:
    text = "a grain that is not about a withdrawal of consent does not supersede it"
    return denied(text, _TYPE, field=field, expected=expected, found=found)
