# SPDX-License-Identifier: Apache-2.0
"""Invalidation policies: who may take a grain from "current and trusted". Spec: OMS §23.

    act           what is asked, and of whom
    modes         open, soft_locked, locked, quorum, delegated, timed, hold, consent_cascade
    reach         derivations and supersessions: how far a policy extends
    goals         transitions, evidence, dependencies, laundering
    consents      what may supersede a withdrawal
    delegation    what an agent may write under a goal that was handed to it
    export        what profiles say of a grain that leaves
    decide        the check over all of them
    payload       what a co-signer signs

Nothing here changes anything: it reads grains through `World`, and answers or refuses.
"""

from __future__ import annotations

from omsgrain.policy.decide import authorized, check, check_goal
from omsgrain.policy.delegation import check_delegation
from omsgrain.policy.export import check_export
from omsgrain.policy.goals import inherited
from omsgrain.policy.modes import FIELD, claim, covers_lineage, holds_others
from omsgrain.policy.reach import (
    HOPS,
    LIMIT,
    Act,
    Operation,
    PolicyLookup,
    PolicyVerdict,
    Scope,
    operation_of,
)

__all__ = [
    "FIELD",
    "HOPS",
    "LIMIT",
    "Act",
    "Operation",
    "PolicyLookup",
    "PolicyVerdict",
    "Scope",
    "authorized",
    "check",
    "check_delegation",
    "check_export",
    "check_goal",
    "claim",
    "covers_lineage",
    "holds_others",
    "inherited",
    "operation_of",
]
