# SPDX-License-Identifier: Apache-2.0
"""The result of a policy check, in the letters of the policy table."""

from __future__ import annotations

from typing import Any

from omsgrain.errors import InvalidationDeniedError
from omsgrain.policy import Act, check
from support.policy_table import NOW, OPERATIONS, PROOFS, Case, Proof
from support.policy_world import FakeWorld, at, grain, replaces


def act(
    operation: Any, label: str = "target", proof: Proof = PROOFS["nothing"], **new: Any
) -> Act:
    fields = {"author_did": proof.writer, "supersession_justification": proof.written} | new
    if proof.about:
        fields["related_to"] = [*new.get("related_to", ()), *replaces(label)]
    return Act(
        operation,
        at(label),
        new=grain(**fields) if operation == "supersede" else None,
        signers=proof.signers,
        co_signers=proof.co_signers,
        justification=proof.justification,
        now=NOW,
    )


def outcome(world: FakeWorld, what: Act, authorities: frozenset[str] = frozenset()) -> str:
    """The letter of the table."""
    try:
        return "r" if check(world, what, hold_authorities=authorities).review else "."
    except InvalidationDeniedError as error:
        assert error.rule is not None
        return "D"


def outcomes(world: FakeWorld, case: Case, proof: Proof, **new: Any) -> str:
    acts = (act(operation, proof=proof, **new) for operation in OPERATIONS)
    return "".join(outcome(world, what, case.authorities) for what in acts)
