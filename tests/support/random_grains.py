# SPDX-License-Identifier: Apache-2.0
"""Valid grains of every type: fast and seeded (`random_grain`), or drawn by hypothesis.

What is made here raises no warning: unknown names begin with ``x_`` or a prefix of their own,
and open enums get a listed value or one far from all of them.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime
from random import Random
from typing import Any

from hypothesis import strategies as st

from oracle_tables import ALIASES, NAMES_1_1, OLD_NAMES, TYPES
from support.field_values import (
    Make,
    address,
    array,
    created_at,
    did,
    entry,
    flag,
    fraction,
    number,
    one_of,
    text,
    time,
    whole,
)
from support.random_values import maps, random_map, random_text, random_value, unique_keys, values

tag = one_of(
    "phi:email", "phi:mrn", "pii:name", "sec:internal", "legal:hold", "reg:gdpr", "favourite",
    "ünïcode", "cafe\u0301",
)  # fmt: skip
word = one_of("goal_inference", "Shelf Inc.", "cafe\u0301")
_relation_types = one_of("similar", "contradicts", "causal", "replaces", "temporal_next")

#: Known fields that any grain may carry, by the kind of their value.
_KINDS: tuple[tuple[Make, str], ...] = (
    (
        text,
        "user_id run_id session_id entity_id origin_namespace supersession_justification model_id"
        " invalidation_reason tool_call_id call_batch_id tool_version code interpreter_id error"
        " tool_description observer_id frame_id sync_group description state_reason expiry_policy"
        " recurrence expected_output conclusion thinking_content trigger tool_name",
    ),
    (time, "valid_from valid_to system_valid_from timestamp_ms delegation_expiry deadline"),
    (fraction, "confidence importance"),
    (number, "compression_ratio"),
    (fraction, "progress"),
    (did, "author_did origin_did observer_did subject_did invalidation_initiator return_to"),
    (did, "delegate_to delegate_from assigned_agent grantee_did"),
    (address, "parent_message_id parent_task_id output_grain prior_consent _disclosure_of"),
    (array(address), "derived_from context_grains parent_goals satisfaction_evidence depends_on"),
    (array(address), "dissent_grains"),
    (array(did), "witness_dids"),
    (array(text), "authorized_namespaces authorized_tools plan criteria rollback_on_failure"),
    (array(text), "premises participating_observers"),
    (random_map, "context token_usage input_schema output_schema statistical_context"),
    (random_map, "software_environment parameter_set"),
    (array(entry(source_hash=address, method=word, weight=fraction)), "provenance_chain"),
    (array(random_map), "history criteria_structured alternatives_considered"),
    (whole(0), "success_count failure_count delegation_depth evidence_required agreement_count"),
    (whole(), "random_seed priority"),
    (whole(0, 255), "category"),
    (array(whole(0, 255)), "authorized_types"),
    (flag, "requires_human_review consolidated strict thinking_redacted is_withdrawal"),
    (array(tag), "structural_tags"),
    (random_value, "agreed_content"),
    (array(one_of("active", "failed")), "allowed_transitions"),
    (array(lambda rng: rng.randbytes(7)), "supersession_auth"),
    (one_of("shared", "", "robots/naïve", "robots/nai\u0308ve"), "namespace"),
    (one_of("user_explicit", "axiomatic", "x:elsewhere"), "source_type"),
    (one_of("state", "observation"), "temporal_type"),
    (one_of(0, 1, 2, 3), "consolidation_level"),
    (one_of("user", "assistant", "tool", "x:onlooker"), "role"),
    (one_of("certain", "derived", "x:hearsay"), "epistemic_status"),
    (one_of("explicit_consent", "0" * 64), "processing_basis"),
    (one_of("anonymous", "authenticated"), "identity_state"),
    (one_of("hot", "cold"), "recall_priority"),
    (one_of("erratum", "retraction"), "invalidation_type"),
    (one_of("end_turn", "x:interrupted"), "stop_reason"),
    (one_of("client", "builtin"), "tool_type"),
    (one_of("timeout", "x:gripper_jam"), "error_type"),
    (one_of("deductive", "x:by_vote"), "inference_method"),
    (one_of("contract", "x:vital_interest"), "basis"),
    (one_of("eu", "x:elsewhere"), "jurisdiction"),
    (one_of("Apache-2.0", "LicenseRef-house"), "license"),
    (entry(mode=one_of("locked", "soft_locked"), authorized=array(did)), "invalidation_policy"),
    (entry(name=word), "owner"),
    (entry(tsp_response=lambda rng: rng.randbytes(9), tsa_uri=text), "trusted_timestamp"),
    (entry(minimum_retention_years=whole(0, 99), regulation=text), "retention_policy"),
    (array(entry(type=one_of("text", "image"), text=text)), "content_blocks"),
    (array(entry(uri=text, modality=text, size_bytes=whole(0))), "content_refs"),
    (array(entry(vector_id=text, model=text, dimensions=whole(1, 4096))), "embedding_refs"),
    (
        array(entry(hash=address, relation_type=_relation_types, weight=fraction)),
        "related_to",
    ),
)
OPTIONAL: dict[str, Make] = {name: make for make, names in _KINDS for name in names.split()}

_TRIPLE: dict[str, Make] = {"subject": text, "relation": one_of("prefers", "mg:knows", "lives in")}
_ANSWER: dict[str, Make] = {"content": lambda rng: [random_value(rng)], "is_error": flag}
_COUNTS: dict[str, Make] = {"agreement_count": whole(0), "dissent_count": whole(0)}
_MODES: dict[str, Make] = {
    "observation_mode": one_of("passive", "real_time"),
    "observation_scope": one_of("point", "session"),
}

#: What each shape of each type needs: its fields, and whole sets of them to choose from.
REQUIRED: dict[str, tuple[dict[str, Make], ...]] = {
    "belief": (
        {**_TRIPLE, "object": random_text, "confidence": fraction},
        {**_TRIPLE, "object": random_map, "confidence": fraction},
    ),
    "event": (
        {"content": text},
        {"content_blocks": array(entry(type=text), shortest=1)},
        {**_TRIPLE, "object": random_text},
    ),
    "state": ({"context": random_map},),
    "workflow": ({"steps": array(text, shortest=1), "trigger": text},),
    "action": (
        {"tool_name": text, "input": random_map, **_ANSWER, "duration_ms": whole(0)},
        {
            "action_phase": one_of("definition"),
            "tool_name": text,
            "tool_description": text,
            "input_schema": random_map,
        },
        {"action_phase": one_of("call"), "tool_name": text, "input": random_map},
        {
            "action_phase": one_of("result"),
            "tool_call_id": text,
            **_ANSWER,
            "derived_from": array(address, shortest=1),
            "exit_code": whole(),
        },
        {
            "execution_mode": one_of("code_exec"),
            "code": text,
            "is_error": flag,
            "stdout": random_text,
            "stderr": random_text,
        },
    ),
    "observation": (
        {
            "observer_id": text,
            "observer_type": one_of("lidar", "temperature", "human", "acme:nose"),
            "object": random_value,
            **_MODES,
        },
        {"observer_id": text, "observer_type": one_of("llm", "detector"), "observer_model": text},
        {
            "observer_id": text,
            "observer_type": one_of("trigger:cron"),
            "observation_mode": text,
        },
    ),
    "goal": ({"description": text, "goal_state": one_of("active", "satisfied", "suspended")},),
    "reasoning": ({}, {"premises": array(text), "conclusion": text}),
    "consensus": (
        {"participating_observers": array(text, shortest=1), "threshold": whole(1, 99), **_COUNTS},
    ),
    "consent": (
        {
            "subject_did": did,
            "grantee_did": did,
            "scope": array(one_of("store", "share", "x:demonstrate"), shortest=1),
            "is_withdrawal": one_of(True),
            "prior_consent": address,
        },
        {
            "subject_did": did,
            "grantee_did": did,
            "scope": array(one_of("retrieve", "train"), shortest=1),
            "is_withdrawal": one_of(False),
        },
    ),
}

_PROFILES: dict[str, dict[str, Make]] = {
    "healthcare": {"hc:icd10": array(text), "processing_basis": one_of("vital_interest")},
    "legal": {"legal:effective_date": time, "legal:privilege": one_of("none", "work_product")},
    "finance": {"fin:market_timestamp": time, "fin:amount": number, "fin:sox_control_id": text},
    "robotics": {"rob:battery_pct": whole(0, 100), "rob:safety_state": one_of("normal")},
    "science": {"sci:p_value": fraction, "sci:preregistered": flag},
    "consumer": {"con:sentiment": fraction, "con:ccpa_opted_out": flag},
}

PROFILE_FIELDS = {name for makes in _PROFILES.values() for name in makes}

#: 1.2 name -> the older names.
OLDER: dict[str, list[str]] = {new: [o for o, n in OLD_NAMES.items() if n == new] for new in TYPES}


def unknown_fields(rng: Random) -> dict[str, Any]:
    prefixes = ("x_", "x_имя", "acme:", "x_cafe\u0301")
    return {
        rng.choice(prefixes) + str(rng.randrange(999)): random_value(rng, rng.choice((0, 1, 3)))
        for _ in range(rng.choice((0, 0, 1, 2, 8)))
    }


def random_grain(rng: Random, type_name: str | None = None) -> dict[str, Any]:
    """A valid grain of a random type (or the one asked for), its fields in random order."""
    name = type_name or rng.choice(TYPES)
    required = rng.choice(REQUIRED[name])
    makes = {n: OPTIONAL[n] for n in rng.sample(_OPTIONAL_NAMES, rng.choice((0, 1, 2, 4, 8)))}
    fields = {n: make(rng) for n, make in (makes | required).items()}
    if rng.random() < 0.15:
        profile = rng.choice(tuple(_PROFILES))
        fields |= {n: make(rng) for n, make in _PROFILES[profile].items()} | {"license": None}
        fields["structural_tags"] = [*fields.get("structural_tags", ()), f"profile:{profile}"]
    if rng.random() < 0.05:
        fields = _elide(rng, fields)
    fields |= unknown_fields(rng) | {"created_at": created_at(rng), "type": name}
    if rng.random() < 0.15:
        fields |= dict.fromkeys(n for n in rng.sample(_OPTIONAL_NAMES, 3) if n not in fields)
    if OLDER[name] and rng.random() < 0.2:
        fields["type"] = rng.choice(OLDER[name])
    if fields["type"] in NAMES_1_1 and name in ALIASES and rng.random() < 0.6:
        fields = _with_old_field_names(rng, fields, ALIASES[name])
    return shuffled(rng, unique_keys(fields))


def _elide(rng: Random, fields: dict[str, Any]) -> dict[str, Any]:
    """One field replaced by its hash: a required field that is elided counts as present."""
    elidable = ("subject", "content", "context", "tool_name", "observer_id", "description")
    hidden = rng.choice([n for n in elidable if n in fields] or ["user_id"])
    kept = {n: v for n, v in fields.items() if n != hidden}
    return kept | {"_elided": {hidden: f"sha256:{address(rng)}"}}


def _with_old_field_names(
    rng: Random, fields: dict[str, Any], aliases: dict[str, tuple[str, bool]]
) -> dict[str, Any]:
    out = dict(fields)
    for alias, (name, negated) in rng.sample(list(aliases.items()), len(aliases)):
        if out.get(name) is not None and rng.random() < 0.5:
            value = out.pop(name)
            out[alias] = not value if negated else value
    return out


def shuffled(rng: Random, fields: dict[str, Any]) -> dict[str, Any]:
    return dict(rng.sample(list(fields.items()), len(fields)))


_OPTIONAL_NAMES = tuple(OPTIONAL)


def json_line(fields: dict[str, Any]) -> str:
    """The grain as one line of JSON: bytes as base64, times as RFC 3339 text."""

    def default(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat()
        return {"$bytes": base64.b64encode(value).decode()}

    return json.dumps(fields, ensure_ascii=len(fields) % 2 == 0, default=default)


def grains() -> st.SearchStrategy[dict[str, Any]]:
    """Valid grains drawn by hypothesis, with unknown fields of any content besides."""
    known = st.randoms(use_true_random=False).map(random_grain)
    unknown = maps(values()).map(lambda d: {f"x_{name}_y": v for name, v in d.items()})
    return st.builds(lambda a, b: unique_keys(a | b), known, unknown)
