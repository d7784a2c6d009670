# SPDX-License-Identifier: Apache-2.0
"""Invalidation policies: who may supersede, contest, retract or delete a grain. Spec: OMS §23.

    reach         acts; derivations and supersessions: how far a policy extends
    modes         open, soft_locked, locked, quorum, delegated, timed, hold, consent_cascade;
                  the claim that a co-signer signs
    goals         transitions, evidence, dependencies, laundering
    delegation    what an agent may write under a delegated goal
    decide        the check over all of them; withdrawals of consent; exports
    presets       rules from laws and your own: ``rule_files`` parses them, ``rules`` has each kind

This package changes nothing: it reads grains through `PolicyLookup`, and permits or denies.
"""

from __future__ import annotations

from omsgrain.policy.decide import authorized, check, check_export, check_goal
from omsgrain.policy.delegation import check_delegation
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


def __dir__() -> list[str]:
    return __all__
