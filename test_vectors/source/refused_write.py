# SPDX-License-Identifier: Apache-2.0
"""Fields that a writer must refuse, and lines of JSON that are not one."""

from __future__ import annotations

from typing import Any

from source.forms import Vector, changed, refused_write
from source.types import (
    ACTION,
    AT,
    BELIEF,
    CONSENSUS,
    CONSENT,
    EVENT,
    GOAL,
    HASH,
    HASH_2,
    OBSERVATION,
    STATE,
    WORKFLOW,
)  # fmt: skip

_B: dict[str, Any] = {
    "type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 0.5,
    "created_at": AT,
}  # fmt: skip
_CALL = {
    "type": "action",
    "action_phase": "call",
    "tool_name": "lift",
    "input": {},
    "created_at": AT,
}
_RESULT = {
    "type": "action", "action_phase": "result", "tool_call_id": "c", "content": "",
    "is_error": False,
    "derived_from": [HASH], "created_at": AT,
}  # fmt: skip
_DEFINITION = {
    "type": "action", "action_phase": "definition", "tool_name": "lift", "tool_description": "x",
    "input_schema": {}, "created_at": AT,
}  # fmt: skip


def _nested(depth: int) -> dict[str, Any]:
    """A belief whose deepest value stands at the given depth; the payload map is depth 1."""
    value: Any = []
    for _ in range(depth - 2):
        value = [value]
    return changed(_B, x=value)


_MISSING = (
    ("belief", BELIEF, ("subject", "relation", "object", "confidence", "created_at")),
    ("state", STATE, ("context",)),
    ("workflow", WORKFLOW, ("steps", "trigger")),
    ("action", ACTION, ("tool_name", "input", "content", "is_error")),
    ("observation", OBSERVATION, ("observer_id", "observer_type")),
    ("goal", GOAL, ("description", "goal_state")),
    ("consensus", CONSENSUS,
     ("participating_observers", "threshold", "agreement_count", "dissent_count")),
    ("consent", CONSENT, ("subject_did", "grantee_did", "scope", "is_withdrawal")),
    ("definition", _DEFINITION, ("tool_name", "tool_description", "input_schema")),
    ("call", _CALL, ("tool_name", "input")),
    ("result", _RESULT, ("tool_call_id", "content", "is_error", "derived_from")),
)  # fmt: skip

_SCHEMA = "ERR_SCHEMA"
_ROWS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("101-no-type", "ERR_NO_TYPE", "no type", changed(_B, type=...)),
    ("102-unknown-type", "ERR_UNKNOWN_TYPE", "a type that does not exist", changed(_B,
     type="memory")),
    ("103-type-case", "ERR_UNKNOWN_TYPE", "type names are lower case", changed(_B, type="Belief")),
    ("104-subject-empty", "ERR_EMPTY", "an empty subject", changed(_B, subject="")),
    ("105-relation-empty", "ERR_EMPTY", "an empty relation", changed(_B, relation="")),
    ("106-event-empty", "ERR_EMPTY", "an event that says nothing",
     {"type": "event", "content": "", "created_at": AT}),
    ("107-event-nothing", _SCHEMA, "an event with two parts of a triple",
     {"type": "event", "subject": "a", "relation": "b", "created_at": AT}),
    ("108-block-type", _SCHEMA, "a content block without type",
     changed(EVENT, content_blocks=[{"text": "x"}])),
    ("109-steps-empty", "ERR_EMPTY", "a workflow without steps", changed(WORKFLOW, steps=[])),
    ("110-confidence-high", "ERR_RANGE", "confidence over 1", changed(_B, confidence=1.01)),
    ("111-confidence-low", "ERR_RANGE", "confidence under 0", changed(_B, confidence=-0.1)),
    ("112-count-negative", "ERR_RANGE", "a negative count", changed(_B, success_count=-1)),
    ("113-uint8", "ERR_RANGE", "256 in a uint8 field", changed(_B, category=256)),
    ("114-bool-for-number", _SCHEMA, "a bool is no number", changed(_B, confidence=True)),
    ("115-text-for-number", _SCHEMA, "text is no number", changed(_B, confidence="0.5")),
    ("116-float-for-int", _SCHEMA, "a float in an integer field", changed(_B, success_count=1.0)),
    ("117-number-for-text", _SCHEMA, "a number is no text", changed(_B, subject=1)),
    ("118-object-kind", _SCHEMA, "object is text or a map", changed(_B, object=["c"])),
    ("119-array-item", _SCHEMA, "an item of the wrong kind", changed(_B, structural_tags=["a",
     1])),
    ("120-closed-enum", _SCHEMA, "a goal_state that does not exist", changed(GOAL,
     goal_state="done")),
    ("121-enum-int", _SCHEMA, "a consolidation_level that does not exist",
     changed(_B, consolidation_level=4)),
    ("122-phase", _SCHEMA, "an action_phase that does not exist", changed(ACTION,
     action_phase="end")),
    ("123-definition-content", _SCHEMA, "a definition must not carry content",
     changed(_DEFINITION, content="x")),
    ("124-call-result", _SCHEMA, "a call must not carry is_error", changed(_CALL, is_error=False)),
    ("125-code-output", _SCHEMA, "code that was run needs stdout or content",
     {"type": "action", "execution_mode": "code_exec", "code": "1", "is_error": False,
      "created_at": AT}),
    ("126-observation-mode", _SCHEMA, "an observation_mode that does not exist",
     changed(OBSERVATION, observation_mode="lazy")),
    ("127-human-model", _SCHEMA, "a human has no observer_model",
     changed(OBSERVATION, observer_type="human", observer_model="x")),
    ("128-withdrawal", _SCHEMA, "a withdrawal names the consent", changed(CONSENT,
     is_withdrawal=True)),
    ("129-relation-type", _SCHEMA, "a relation_type that does not exist",
     changed(_B, related_to=[{"hash": HASH, "relation_type": "likes"}])),
    ("130-weight", "ERR_RANGE", "a weight over 1",
     changed(_B, related_to=[{"hash": HASH, "relation_type": "similar", "weight": 2.0}])),
    ("131-content-ref", _SCHEMA, "a content_ref without uri",
     changed(_B, content_refs=[{"modality": "image"}])),
    ("132-embedding-ref", _SCHEMA, "an embedding_ref without dimensions",
     changed(_B, embedding_refs=[{"vector_id": "v", "model": "m"}])),
    ("133-hash-format", "ERR_HASH_FORMAT", "an address in upper case",
     changed(_B, derived_from=[HASH.upper()])),
    ("134-hash-length", "ERR_HASH_LENGTH", "an address of 65 characters",
     changed(_B, derived_from=[HASH + "0"])),
    ("135-did", "ERR_DID", "a DID without method", changed(_B, author_did="did:key")),
    ("136-elided-hash", "ERR_HASH_FORMAT", "an elided value is sha256: and 64 hex",
     changed(_B, subject=..., _elided={"subject": "md5:" + HASH})),
    ("137-not-elidable", _SCHEMA, "confidence cannot be elided",
     changed(_B, confidence=..., _elided={"confidence": "sha256:" + HASH})),
    ("138-superseded-by", _SCHEMA, "superseded_by is kept by the store",
     changed(_B, superseded_by=HASH)),
    ("139-system-valid-to", _SCHEMA, "system_valid_to is kept by the store",
     changed(_B, system_valid_to=AT)),
    ("140-verification", _SCHEMA, "verification_status is kept by the store",
     changed(_B, verification_status="verified")),
    ("141-access-count", _SCHEMA, "access_count is kept by the store", changed(_B,
     access_count=1)),
    ("142-last-accessed", _SCHEMA, "last_accessed_at is kept by the store",
     changed(_B, last_accessed_at=AT)),
    ("143-short-beside", _SCHEMA, "a short key beside its full name", changed(_B, s="a")),
    ("144-short-instead", _SCHEMA, "a short key instead of its full name",
     changed(_B, subject=..., s="a")),
    ("145-short-nested", _SCHEMA, "a short key in an entry of related_to",
     changed(_B, related_to=[{"h": HASH_2, "relation_type": "similar"}])),
    ("146-nan", "ERR_FLOAT_INVALID", "NaN", changed(_B, x={"$float": "nan"})),
    ("147-infinity", "ERR_FLOAT_INVALID", "infinity in a float64 field",
     changed(_B, importance={"$float": "inf"})),
    ("148-int-high", "ERR_RANGE", "2^64", changed(_B, x=2**64)),
    ("149-int-low", "ERR_RANGE", "-2^63 - 1", changed(_B, x=-(2**63) - 1)),
    ("150-bom", "ERR_CORRUPT", "a string that begins with a BOM", changed(_B, subject="\ufeffa")),
    ("151-bom-key", "ERR_CORRUPT", "a key that begins with a BOM", changed(_B, **{"\ufeffx": 1})),
    ("152-keys-equal", "ERR_CORRUPT", "two keys that are one in NFC",
     changed(_B, context={"caf\u00e9": 1, "cafe\u0301": 2})),
    ("153-depth-33", "ERR_CORRUPT", "one level too deep", _nested(33)),
    ("154-created-before", "ERR_RANGE", "created_at before 1970", changed(_B, created_at=-1)),
    ("155-created-after", "ERR_RANGE", "created_at after 2106", changed(_B,
     created_at=4294967296000)),
    ("156-time-naive", _SCHEMA, "a time without offset", changed(_B,
     valid_from="2026-01-15T10:00:00")),
    ("157-time-date", _SCHEMA, "a date is no time", changed(_B, valid_from="2026-01-15")),
    ("158-time-day", _SCHEMA, "a day that does not exist",
     changed(_B, valid_from="2026-02-30T10:00:00Z")),
    ("159-time-leap", _SCHEMA, "a leap second that cannot be",
     changed(_B, valid_from="2026-01-15T10:00:60Z")),
    ("160-time-float", _SCHEMA, "a time as a float", changed(_B, valid_from=1768471200000.5)),
    ("161-old-field-names", _SCHEMA, "1.1 field names do not count under a 1.2 type name",
     {"type": "action", "tool_name": "lift", "arguments": {}, "result": 1, "success": True,
      "created_at": AT}),
    ("162-old-success", _SCHEMA, "success is a bool",
     {"type": "tool_call", "tool_name": "lift", "arguments": {}, "result": 1, "success": 1,
      "created_at": AT}),
    ("163-phi-basis", _SCHEMA, "healthcare: a phi: tag needs processing_basis",
     changed(_B, structural_tags=["profile:healthcare", "phi:mrn"])),
    ("164-open-licence", _SCHEMA, "healthcare: no open licence",
     changed(_B, structural_tags=["profile:healthcare"], license="CC-BY-4.0")),
    ("165-profile-kind", _SCHEMA, "robotics: robot_id is text",
     changed(_B, structural_tags=["profile:robotics"], **{"rob:robot_id": 2})),
    ("166-profile-range", "ERR_RANGE", "robotics: a battery over 100",
     changed(_B, structural_tags=["profile:robotics"], **{"rob:battery_pct": 101})),
    ("167-profile-enum", _SCHEMA, "finance: a transaction_type that does not exist",
     changed(_B, structural_tags=["profile:finance"], **{"fin:transaction_type": "gift"})),
)  # fmt: skip

_OPTIONS: tuple[tuple[str, str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("201-lightweight-size", "ERR_TOO_LARGE", "more than 512 bytes", changed(_B, object="x" * 500),
     {"profile": "lightweight"}),
    ("202-lightweight-field", _SCHEMA, "another field than the seven", changed(_B, importance=0.5),
     {"profile": "lightweight"}),
    ("203-standard-size", "ERR_TOO_LARGE", "more than 32 KiB", changed(_B,
     object="x" * (32 << 10)),
     {"profile": "standard"}),
    ("204-standard-depth", "ERR_CORRUPT", "one level too deep", _nested(17),
     {"profile": "standard"}),
    ("205-type-byte-0", "ERR_UNKNOWN_TYPE", "type byte 0", _B, {"type_byte": 0}),
    ("206-type-byte-differs", "ERR_CORRUPT", "the type byte of an event for a belief", _B,
     {"type_byte": 2}),
    ("207-type-byte-known", "ERR_CORRUPT", "a domain type byte for a known type", _B,
     {"type_byte": 0xF0}),
)  # fmt: skip

_JSON: tuple[tuple[str, str, str, str], ...] = (
    ("301-not-json", "ERR_FORMAT", "not JSON", "belief: a"),
    ("302-cut", "ERR_FORMAT", "a line cut short", '{"type": "belief", "subject": "a'),
    ("303-two-values", "ERR_FORMAT", "two values on a line", "{} {}"),
    ("304-nan", "ERR_FORMAT", "NaN is not JSON", '{"type": "state", "context": {"x": NaN}}'),
    ("305-comma", "ERR_FORMAT", "a comma at the end", '{"type": "belief",}'),
    ("306-array", "ERR_NOT_MAP", "an array", "[1, 2]"),
    ("307-text", "ERR_NOT_MAP", "text", '"belief"'),
    ("308-twice", "ERR_CORRUPT", "a key twice",
     '{"type": "state", "context": {"x": 1, "x": 1}, "created_at": 0}'),
    ("309-base64", "ERR_SCHEMA", "bytes that are not base64",
     '{"type": "state", "context": {"x": {"$bytes": "&"}}, "created_at": 0}'),
    ("310-overflow", "ERR_FLOAT_INVALID", "a number beyond float64",
     '{"type": "state", "context": {"x": 1e400}, "created_at": 0}'),
)  # fmt: skip


def vectors() -> list[Vector]:
    """First what is missing, one field at a time; then by rule, by option, by line of JSON."""
    out = []
    missing = [(kind, fields, name) for kind, fields, names in _MISSING for name in names]
    for n, (kind, fields, name) in enumerate(missing, 1):
        id = f"refusals/write/{n:03}-{kind}-{name.replace('_', '-')}"
        given = changed(fields, **{name: ...})
        out.append(refused_write(id, _SCHEMA, f"{kind} without {name}", given))
    out += [refused_write(f"refusals/write/{name}", *rest) for name, *rest in _ROWS]
    out += [refused_write(f"refusals/write/{name}", *rest) for name, *rest in _OPTIONS]
    out += [refused_write(f"refusals/write/{name}", *rest) for name, *rest in _JSON]
    return out
