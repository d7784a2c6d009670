# SPDX-License-Identifier: Apache-2.0
"""The least that each shape of each type needs, and nothing else."""

from __future__ import annotations

from typing import Any

from support.known_grains import DID

A = "a" * 64  # any content address

MINIMAL: dict[str, dict[str, Any]] = {
    "belief": {
        "type": "belief", "subject": "s", "relation": "r", "object": "o", "confidence": 0.5,
    },
    "event": {"type": "event", "content": "c"},
    "event blocks": {"type": "event", "content_blocks": [{"type": "text"}]},
    "event triple": {"type": "event", "subject": "s", "relation": "r", "object": "o"},
    "state": {"type": "state", "context": {}},
    "workflow": {"type": "workflow", "steps": ["s"], "trigger": "t"},
    "action": {
        "type": "action", "tool_name": "t", "input": {}, "content": 0, "is_error": False,
    },
    "action definition": {
        "type": "action", "action_phase": "definition", "tool_name": "t",
        "tool_description": "d", "input_schema": {},
    },
    "action call": {"type": "action", "action_phase": "call", "tool_name": "t", "input": {}},
    "action result": {
        "type": "action", "action_phase": "result", "tool_call_id": "i", "content": "",
        "is_error": True, "derived_from": [A],
    },
    "action code": {
        "type": "action", "execution_mode": "code_exec", "code": "c", "is_error": False,
        "stdout": "",
    },
    "observation": {"type": "observation", "observer_id": "i", "observer_type": "lidar"},
    "goal": {"type": "goal", "description": "d", "goal_state": "active"},
    "reasoning": {"type": "reasoning"},
    "consensus": {
        "type": "consensus", "participating_observers": ["a"], "threshold": 1,
        "agreement_count": 1, "dissent_count": 0,
    },
    "consent": {
        "type": "consent", "subject_did": DID, "grantee_did": DID, "scope": ["store"],
        "is_withdrawal": False,
    },
    "consent withdrawn": {
        "type": "consent", "subject_did": DID, "grantee_did": DID, "scope": ["store"],
        "is_withdrawal": True, "prior_consent": A,
    },
}  # fmt: skip


def minimal(shape: str, **changes: Any) -> dict[str, Any]:
    """The least grain of a shape at time 0, with some fields set (None: left out)."""
    return {"created_at": 0, **MINIMAL[shape], **changes}
