# SPDX-License-Identifier: Apache-2.0
"""Each of the ten types with many of its fields, in both encodings; then special cases."""

from __future__ import annotations

from typing import Any

from source.forms import Vector, encoded
from source.oms import DID

OTHER = "did:web:fleet.example"
HASH = "4c4149355d3f3e1114e6a72bc5c2813a3ecd4deab2ba8771eaca8556b2c032f2"
HASH_2 = "6f7fb8935e150f61a607ece0582c87c42b9975d356def0e41164b85852836145"
AT = 1768471200000

BELIEF: dict[str, Any] = {
    "type": "belief", "subject": "shelf-12", "relation": "mg:perceives", "created_at": AT,
    "object": {"boxes": 17, "free": False, "levels": [1, 2, 3]}, "confidence": 0.93,
    "source_type": "sensor", "namespace": "warehouse:zone-3", "author_did": DID, "importance": 1,
    "structural_tags": ["inventory", "shelf"], "user_id": "u7",
    "valid_from": "2026-01-15T10:00:00Z",
    "temporal_type": "state", "epistemic_status": "probable", "success_count": 3,
}  # fmt: skip
EVENT: dict[str, Any] = {
    "type": "event", "content": "Die Kiste steht schief. 棚が傾いている 📦", "created_at": AT,
    "role": "user", "session_id": "s-1", "run_id": "r-9", "user_id": "u7",
    "content_blocks": [{"type": "text", "text": "…"}, {"type": "image",
    "data": {"$bytes": "iVBORw=="}}],
    "model_id": "none", "token_usage": {"input": 12, "output": 0}, "consolidated": False,
}  # fmt: skip
STATE: dict[str, Any] = {
    "type": "state", "context": {"battery": 0.71, "docked": True, "queue": []}, "created_at": AT,
    "plan": ["undock", "scan aisle 3", "return"], "history": [{"did": "dock", "ok": True}],
}  # fmt: skip
WORKFLOW: dict[str, Any] = {
    "type": "workflow", "steps": ["stop", "photograph", "report"], "trigger": "shelf tilted",
    "created_at": AT, "importance": 0.75, "namespace": "warehouse:zone-3",
}  # fmt: skip
ACTION: dict[str, Any] = {
    "type": "action", "tool_name": "lift", "input": {"shelf": 12, "height_mm": 1450},
    "content": {"lifted": True, "load_kg": 12.5}, "is_error": False, "created_at": AT,
    "duration_ms": 2300, "tool_type": "client", "execution_mode": "function_call",
}  # fmt: skip
OBSERVATION: dict[str, Any] = {
    "type": "observation", "observer_id": "lidar-2", "observer_type": "lidar", "created_at": AT,
    "subject": "aisle-3", "object": [0.5, 1.25, 3], "confidence": 0.99, "frame_id": "map",
    "observation_mode": "real_time", "observation_scope": "point", "compression_ratio": 4,
    "structural_tags": ["profile:robotics"], "rob:robot_id": "r2", "rob:battery_pct": 71,
    "rob:pose": {"x": 1.5, "y": -2, "yaw": 0.25}, "rob:safety_state": "normal",
}  # fmt: skip
GOAL: dict[str, Any] = {
    "type": "goal", "description": "Count all boxes of zone 3", "goal_state": "active",
    "created_at": AT, "priority": -1, "criteria": ["every shelf seen"], "progress": 0.5,
    "deadline": "2026-01-15T12:00:00.250+01:00", "assigned_agent": DID, "evidence_required": 1,
    "allowed_transitions": ["satisfied"], "depends_on": [HASH],
}  # fmt: skip
REASONING: dict[str, Any] = {
    "type": "reasoning", "premises": ["shelf tilted", "load high"], "conclusion": "unload first",
    "inference_method": "abductive", "alternatives_considered": [{"do": "brace", "why_not": None}],
    "thinking_redacted": True, "random_seed": -9223372036854775808, "created_at": AT,
    "statistical_context": {"n": 18446744073709551615}, "derived_from": [HASH, HASH_2],
}  # fmt: skip
CONSENSUS: dict[str, Any] = {
    "type": "consensus", "participating_observers": ["lidar-2", "camera-1", "imu-1"],
    "threshold": 2, "agreement_count": 2, "dissent_count": 1, "dissent_grains": [HASH],
    "agreed_content": "shelf 12 is tilted", "created_at": AT,
}  # fmt: skip
CONSENT: dict[str, Any] = {
    "type": "consent", "subject_did": DID, "grantee_did": OTHER, "scope": ["store", "retrieve"],
    "is_withdrawal": False, "basis": "explicit_consent", "jurisdiction": "eu", "created_at": AT,
    "valid_to": 1800007200000, "witness_dids": [OTHER],
}  # fmt: skip

ALL = (BELIEF, EVENT, STATE, WORKFLOW, ACTION, OBSERVATION, GOAL, REASONING, CONSENSUS, CONSENT)

_WITHDRAWAL = {**CONSENT, "is_withdrawal": True, "prior_consent": HASH}
_DEFINITION = {
    "type": "action", "action_phase": "definition", "tool_name": "lift", "created_at": AT,
    "tool_description": "Lift the fork", "input_schema": {"type": "object"}, "strict": True,
}  # fmt: skip
_CALL = {
    "type": "action", "action_phase": "call", "tool_name": "lift", "input": {"shelf": 12},
    "tool_call_id": "c-1", "created_at": AT,
}  # fmt: skip
_RESULT = {
    "type": "action", "action_phase": "result", "tool_call_id": "c-1", "content": "jammed",
    "is_error": True, "error_type": "timeout", "derived_from": [HASH], "created_at": AT,
}  # fmt: skip
_CODE = {
    "type": "action", "execution_mode": "code_exec", "code": "print(2)", "stdout": "2\n",
    "is_error": False, "exit_code": 0, "created_at": AT,
}  # fmt: skip
_TOOL_CALL = {
    "type": "tool_call", "tool_name": "lift", "arguments": {"shelf": 12}, "result": [1, None],
    "success": True, "created_at": AT,
}  # fmt: skip
_OLD_OBSERVATION = {
    "type": "observation", "sensor_id": "t-1", "sensor_type": "temperature", "created_at": AT,
}  # fmt: skip
_TRIPLE_EVENT = {
    "type": "event", "subject": "r2", "relation": "mg:did", "object": "dock", "created_at": AT,
}  # fmt: skip
_OPAQUE = {"type": "acme:weld", "created_at": AT, "subject": "seam 4", "acme:amps": 180}
_ELIDED = {
    "type": "belief", "relation": "prefers", "confidence": 0.5, "created_at": AT,
    "_elided": {"subject": f"sha256:{HASH}", "object": f"sha256:{HASH_2}"}, "_disclosure_of": HASH,
}  # fmt: skip
_READING: dict[str, Any] = {
    "type": "observation", "observer_id": "thermometer 4", "observer_type": "temperature",
    "subject": "greenhouse", "object": {"value": 22.5, "unit": "Cel"}, "confidence": 0.98,
    "created_at": AT, "namespace": "plant:7",
}  # fmt: skip

_MORE: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("021-action-definition", "an action that defines a tool", _DEFINITION, {}),
    ("022-action-call", "an action that calls a tool", _CALL, {}),
    ("023-action-result", "an action that is the result of a call", _RESULT, {}),
    ("024-action-code", "code that was run, complete in one grain", _CODE, {}),
    ("025-event-triple", "an event without content, said by a triple", _TRIPLE_EVENT, {}),
    ("026-consent-withdrawal", "a withdrawal names the consent", _WITHDRAWAL, {}),
    ("027-episode", "the 1.1 name of event, kept", {**EVENT, "type": "episode"},
     {"keep_type_name": True}),
    ("028-checkpoint-renamed", "the 1.1 name of state, written as state",
     {**STATE, "type": "checkpoint"}, {}),
    ("029-tool-call-fields",
     "1.1 field names of an action are written by their 1.2 names, success negated",
     _TOOL_CALL, {"keep_type_name": True}),
    ("030-sensor-fields", "1.1 field names of an observation", _OLD_OBSERVATION, {}),
    ("031-domain-type", "a domain profile type: opaque, keys still compacted", _OPAQUE,
     {"type_byte": 0xF0}),
    ("032-reserved-type", "a reserved type, in CBOR", _OPAQUE, {"type_byte": 0x0B,
     "encoding": "cbor"}),
    ("033-elided", "required fields that are elided count as present", _ELIDED, {}),
    ("034-lightweight", "the lightweight profile changes no byte", {
        "type": "belief", "subject": "t-1", "relation": "reads", "object": "22.5", "confidence": 1,
        "created_at": AT, "namespace": "iot"}, {"profile": "lightweight"}),
    ("035-related-weight", "a weight is a float64 too: an integer given for it becomes one", {
        **_TRIPLE_EVENT, "related_to": [{"hash": HASH, "relation_type": "causal", "weight": 1}]},
     {}),
    ("036-reading-msgpack", "a sensor's reading in the lightweight profile", _READING,
     {"profile": "lightweight"}),
    ("037-reading-cbor", "the same in CBOR, with the number as a short float", _READING,
     {"profile": "lightweight", "encoding": "cbor"}),
    ("038-reading-composed", "texts of a reading are composed, and an object can be text", {
        **_READING, "subject": "Gewa\u0308chshaus", "object": "22,5 \u212b",
        "namespace": "pla\u030antering"}, {"profile": "lightweight"}),
)  # fmt: skip


def vectors() -> list[Vector]:
    """Two of each type, then the special ones."""
    out = []
    for n, fields in enumerate(ALL):
        kind = fields["type"]
        out += [
            encoded(f"types/{2 * n + 1:03}-{kind}-msgpack", f"{kind}, in MessagePack", fields),
            encoded(
                f"types/{2 * n + 2:03}-{kind}-cbor",
                f"{kind}, in CBOR",
                fields,
                {"encoding": "cbor"},
            ),
        ]
    return out + [encoded(f"types/{name}", text, *rest) for name, text, *rest in _MORE]
