# SPDX-License-Identifier: Apache-2.0
"""Required and forbidden fields of each type.  Spec: OMS §8."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
import oracle
from oracle_tables import TYPE_BYTE
from support.crafted_blobs import BELIEF, blob, pairs, payload
from support.known_grains import DID
from support.minimal_grains import MINIMAL, A, minimal
from support.refusals import EMPTY, NO_TYPE, SCHEMA, refused, rejected

SHAPES = list(MINIMAL)
_IN_SHAPE = [
    (shape, name) for shape, fields in MINIMAL.items() for name in fields if name != "action_phase"
]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_least_grain_of_each_shape(shape: str) -> None:
    fields = minimal(shape)
    for encoding in ("msgpack", "cbor"):
        assert og.encode(fields, encoding=encoding) == oracle.encode(fields, encoding)


@pytest.mark.parametrize(("shape", "name"), _IN_SHAPE)
def test_nothing_of_it_can_be_left_out(shape: str, name: str) -> None:
    # Without its mode, a code execution is an ordinary action, which lacks other things.
    vague = shape.startswith("event") or name in ("execution_mode", "stdout", "type")
    field = None if vague else f"/{name}"
    code = NO_TYPE if name == "type" else SCHEMA
    without = minimal(shape)
    del without[name]
    for fields in (without, minimal(shape, **{name: None})):
        rejected(fields, code, field=field)
    small = oracle.compact(without | {"type": minimal(shape)["type"]})
    if code == SCHEMA:  # the reader asks for the same
        byte = TYPE_BYTE[small["t"]]
        refused(blob("cbor", payload("cbor", pairs("cbor", small)), type_byte=byte), SCHEMA)


@pytest.mark.parametrize("shape", SHAPES)
def test_created_at_is_needed(shape: str) -> None:
    rejected(minimal(shape, created_at=None), SCHEMA, field="/created_at")


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ("belief", "subject"), ("belief", "relation"), ("workflow", "trigger"),
        ("action", "tool_name"), ("action definition", "tool_name"),
        ("action definition", "tool_description"), ("action call", "tool_name"),
        ("action result", "tool_call_id"), ("action code", "code"),
        ("observation", "observer_id"), ("observation", "observer_type"), ("goal", "description"),
    ],
)  # fmt: skip
def test_required_text_is_not_empty(shape: str, name: str) -> None:
    rejected(minimal(shape, **{name: ""}), EMPTY, field=f"/{name}")


def test_steps_are_not_empty() -> None:
    rejected(minimal("workflow", steps=[]), EMPTY, field="/steps")


def test_an_object_may_be_empty() -> None:
    empties: tuple[Any, ...] = ("", {})
    for value in empties:
        og.encode(minimal("belief", object=value))


def test_an_event_says_something() -> None:
    rejected(minimal("event", content=""), EMPTY, SCHEMA)
    rejected(minimal("event blocks", content_blocks=[]), EMPTY, SCHEMA)
    for name in ("subject", "relation", "object"):
        rejected(minimal("event triple", **{name: None}), EMPTY, SCHEMA)
    og.encode(minimal("event blocks", content=""))
    og.encode(minimal("event triple", content=""))
    og.encode(minimal("event", content_blocks=[]))
    rejected(minimal("event", content_blocks=[{"text": "x"}]), SCHEMA)
    rejected(minimal("event", content_blocks=["x"]), SCHEMA, field="/content_blocks/0")


_OUTCOME = ("content", "is_error", "stdout", "stderr", "exit_code", "duration_ms")
_OUTCOME_VALUES: dict[str, Any] = dict(zip(_OUTCOME, ("c", False, "", "", 0, 0), strict=True))


@pytest.mark.parametrize("name", _OUTCOME)
def test_definition_and_call_carry_no_outcome(name: str) -> None:
    extra = {name: _OUTCOME_VALUES[name]}
    for shape in ("action definition", "action call"):
        rejected(minimal(shape, **extra), SCHEMA, field=f"/{name}")
    for shape in ("action", "action result", "action code"):
        og.encode(minimal(shape, **extra))


def test_definition_carries_no_input() -> None:
    rejected(minimal("action definition", input={}), SCHEMA, field="/input")


def test_code_execution() -> None:
    og.encode(minimal("action code", stdout=None, content=[1]))
    og.encode(minimal("action code", tool_name="python", input={}))
    rejected(minimal("action code", stdout=None), SCHEMA)
    og.encode(minimal("action call", execution_mode="code_exec"))
    for mode in ("function_call", "computer_use"):
        rejected(minimal("action code", execution_mode=mode), SCHEMA)


def test_closed_enums() -> None:
    for shape, name in (
        ("action", "action_phase"), ("action", "tool_type"), ("action", "execution_mode"),
        ("observation", "observation_mode"), ("observation", "observation_scope"),
        ("goal", "goal_state"), ("belief", "temporal_type"), ("belief", "identity_state"),
        ("belief", "recall_priority"), ("belief", "invalidation_type"),
    ):  # fmt: skip
        rejected(minimal(shape, **{name: "unheard_of"}), SCHEMA, field=f"/{name}")
    for level in (-1, 4):
        rejected(
            minimal("belief", consolidation_level=level), SCHEMA, field="/consolidation_level"
        )


def test_observers() -> None:
    og.encode(minimal("observation", observer_type="human"))
    og.encode(minimal("observation", observer_type="llm", observer_model="m"))
    rejected(minimal("observation", observer_type="human", observer_model="m"), SCHEMA)
    odd = {"observation_mode": "on_change", "observation_scope": "world"}
    og.encode(minimal("observation", observer_type="trigger:cron", **odd))
    for name, value in odd.items():
        rejected(minimal("observation", **{name: value}), SCHEMA, field=f"/{name}")
    readings: tuple[Any, ...] = (None, 22.5, [1, None], {"x": b""}, True, "text")
    for reading in readings:
        og.encode(minimal("observation", object=reading))


def test_consent() -> None:
    rejected(minimal("consent withdrawn", prior_consent=None), SCHEMA, field="/prior_consent")
    og.encode(minimal("consent", prior_consent=A))
    rejected(minimal("consent", subject_did="somebody"), "ERR_DID", field="/subject_did")
    rejected(minimal("consent", witness_dids=[DID, "x"]), "ERR_DID", field="/witness_dids/1")


def test_an_elided_field_counts_as_present() -> None:
    elided = {"subject": f"sha256:{A}"}
    fields = minimal("belief", subject=None, _elided=elided)
    assert og.encode(fields) == oracle.encode(fields)
    elsewhere = {"session_id": f"sha256:{A}"}
    rejected(minimal("belief", subject=None, _elided=elsewhere), SCHEMA, field="/subject")


def test_fields_by_which_a_rule_is_chosen_may_be_elided() -> None:
    """The rule that applies is unknown then, so none is required."""
    for shape, name in (
        ("action definition", "action_phase"), ("action call", "action_phase"),
        ("action result", "action_phase"), ("action code", "execution_mode"),
    ):  # fmt: skip
        fields = minimal(shape, **{name: None}, _elided={name: f"sha256:{A}"})
        assert og.decode(og.encode(fields))["_elided"] == fields["_elided"]
        for encoding in ("msgpack", "cbor"):
            assert og.encode(fields, encoding=encoding) == oracle.encode(fields, encoding)
    health: dict[str, Any] = {"structural_tags": ["profile:healthcare", "phi:mrn"]}
    rejected(minimal("belief", **health), SCHEMA, field="/processing_basis")
    hidden = {"processing_basis": f"sha256:{A}"}
    og.decode(og.encode(minimal("belief", **health, _elided=hidden)))
    open_license = minimal("belief", **health, license="CC0-1.0", _elided=hidden)
    rejected(open_license, SCHEMA, field="/license")


@pytest.mark.parametrize("name", ["subject", "user_id", "x_own", "caf\u00e9", "cafe\u0301"])
def test_no_field_is_both_shown_and_elided(name: str) -> None:
    fields = minimal("belief", **{name: "x"})
    composed = unicodedata.normalize("NFC", name)
    for form in (name, composed):
        elided = {form: f"sha256:{A}"}
        shown = f"/_elided/{name if name.isascii() else '…'}"
        rejected(fields | {"_elided": elided}, SCHEMA, field=shown)
        og.decode(og.encode(fields | {name: None, "_elided": elided}))
    both = {unicodedata.normalize("NFC", key): value for key, value in fields.items()}
    small = oracle.compact(both | {"_elided": {composed: f"sha256:{A}"}})
    for encoding in ("msgpack", "cbor"):
        data = payload(encoding, pairs(encoding, small))
        refused(blob(encoding, data, type_byte=TYPE_BYTE[small["t"]]), SCHEMA)


def test_the_type() -> None:
    for name in ("banana", "Belief", "belief ", "facts"):
        rejected(minimal("belief", type=name), "ERR_UNKNOWN_TYPE", field="/type")
    rejected({}, NO_TYPE)
    rejected(minimal("belief", type=5), SCHEMA, NO_TYPE, "ERR_UNKNOWN_TYPE")
    rejected(minimal("belief"), "ERR_UNKNOWN_TYPE", type_byte=0)
    for byte in (2, 10):  # the byte of another type
        rejected(minimal("belief"), "ERR_CORRUPT", SCHEMA, "ERR_UNKNOWN_TYPE", type_byte=byte)
    for byte in (0x0B, 0xEF, 0xF0, 0xFF):
        rejected(minimal("belief"), "ERR_CORRUPT", SCHEMA, "ERR_UNKNOWN_TYPE", type_byte=byte)
    assert og.decode(og.encode(minimal("belief"), type_byte=1)).type == "belief"


@pytest.mark.parametrize("shape", SHAPES)
def test_known_fields_are_checked_in_every_type(shape: str) -> None:
    for name, value in (
        ("steps", "not an array"), ("deadline", 1.5), ("premises", [5]), ("strict", 1),
        ("grantee_did", 7), ("token_usage", []), ("priority", "high"), ("model_id", b""),
    ):  # fmt: skip
        rejected(minimal(shape, **{name: value}), SCHEMA)


def test_content_is_text_outside_an_action() -> None:
    values: tuple[Any, ...] = (5, [], {"x": [1]}, b"\x00", True)
    for value in values:
        og.encode(minimal("action", content=value))
        rejected(minimal("reasoning", content=value), SCHEMA, field="/content")
    og.encode(minimal("reasoning", content="x"))


_LIGHT = {"namespace": "n", **{k: v for k, v in minimal("belief").items()}}


def test_lightweight_profile() -> None:
    assert og.encode(_LIGHT, profile="lightweight") == oracle.encode(_LIGHT)
    for name, value in (
        ("context", {}), ("derived_from", []), ("provenance_chain", []), ("content_refs", []),
        ("embedding_refs", []), ("user_id", "u"), ("x_mine", 1), ("importance", 0.5),
    ):  # fmt: skip
        rejected(_LIGHT | {name: value}, SCHEMA, field=f"/{name}", profile="lightweight")
    room = 512 - len(og.encode(_LIGHT | {"object": "o" * 300})) + 300
    assert len(og.encode(_LIGHT | {"object": "o" * room}, profile="lightweight")) == 512
    rejected(_LIGHT | {"object": "o" * (room + 1)}, "ERR_TOO_LARGE", profile="lightweight")
    og.encode(_LIGHT | {"object": nested(7)}, profile="lightweight")
    rejected(_LIGHT | {"object": nested(8)}, "ERR_CORRUPT", profile="lightweight")


@pytest.mark.parametrize("shape", [one for one in SHAPES if one != "action result"])
def test_a_lightweight_grain_carries_what_its_type_requires(shape: str) -> None:
    fields = minimal(shape)
    assert og.encode(fields, profile="lightweight") == oracle.encode(fields)
    batch = og.encode_many([fields] * 3, profile="lightweight")
    assert batch.blobs == [oracle.encode(fields)] * 3
    name = "observation_scope" if shape == "observation" else "importance"
    value = "point" if shape == "observation" else 0.5
    rejected(fields | {name: value}, SCHEMA, field=f"/{name}", profile="lightweight")


def test_a_lightweight_grain_is_derived_from_nothing() -> None:
    rejected(minimal("action result"), SCHEMA, field="/derived_from", profile="lightweight")


DOI = {"citation_type": "doi", "identifier": "10.1000/182", "citation_role": "supports"}


@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
@pytest.mark.parametrize("name", ["content_refs", "derived_from"])
def test_external_citations(name: str, encoding: Any) -> None:
    entry: Any = {"uri": "cas://x", "modality": "image"} if name == "content_refs" else A
    fields = minimal("belief", **{name: [entry, DOI]})
    blob = og.encode(fields, encoding=encoding)
    assert blob == oracle.encode(fields, encoding)
    assert og.decode(blob).fields[name] == [entry, DOI]
    assert og.encode_many([fields] * 3, encoding=encoding).blobs == [blob] * 3
    assert blob[1] & 8 == (8 if name == "content_refs" else 0)
    for wrong, code in (
        ({"citation_type": "doi"}, SCHEMA),
        ({"citation_type": "doi", "identifier": None}, SCHEMA),
        ({"citation_type": "doi", "identifier": ""}, "ERR_EMPTY"),
        ({"citation_type": 5, "identifier": "x"}, SCHEMA),
        ({"identifier": "x"}, SCHEMA),
        ({}, SCHEMA),
        (5, SCHEMA),
    ):
        bad = minimal("belief", **{name: [entry, wrong]})
        rejected(bad, code)
        refused(oracle.encode(bad, encoding), code, "ERR_CORRUPT", "ERR_SCHEMA")


def test_references_that_also_cite_are_accepted() -> None:
    entry = {"uri": "cas://x", "modality": "image", "citation_type": 5}
    fields = minimal("belief", content_refs=[entry])
    with pytest.warns(og.errors.OmsWarning):
        assert og.encode(fields) == oracle.encode(fields)


def test_a_citation_in_a_store(tmp_path: Path) -> None:
    with og.open(tmp_path / "store.omsg") as store:
        source = store.put(minimal("belief"))
        child = store.put(minimal("reasoning", derived_from=[source, DOI]))
        assert {link.source for link in store.graph.provenance(child).links} == {source}
        assert {link.derived for link in store.graph.descendants(source).links} == {child}


def nested(depth: int) -> dict[str, Any]:
    return {} if depth == 1 else {"x": nested(depth - 1)}


def test_standard_profile() -> None:
    fields = minimal("reasoning")
    room = (32 << 10) - len(og.encode(fields | {"x_b": bytes(20_000)})) + 20_000
    assert len(og.encode(fields | {"x_b": bytes(room)}, profile="standard")) == 32 << 10
    rejected(fields | {"x_b": bytes(room + 1)}, "ERR_TOO_LARGE", profile="standard")
    og.encode(fields | {"x_b": bytes(room + 1)})
    og.encode(fields | {"x_deep": nested(15)}, profile="standard")
    rejected(fields | {"x_deep": nested(16)}, "ERR_CORRUPT", profile="standard")


def test_healthcare() -> None:
    tags = ["profile:healthcare", "phi:mrn"]
    basis = {"processing_basis": "treatment", "structural_tags": tags}
    og.encode(minimal("belief", **basis))
    og.encode(minimal("belief", structural_tags=tags[:1]))
    og.encode(minimal("belief", structural_tags=tags[1:], license="CC0-1.0"))
    rejected(minimal("belief", structural_tags=tags), SCHEMA, field="/processing_basis")
    for licence in ("CC0-1.0", "CC-BY-4.0", "MIT", "Apache-2.0"):
        rejected(minimal("belief", **basis, license=licence), SCHEMA, field="/license")
    og.encode(minimal("belief", **basis, license="LicenseRef-clinic"))


@pytest.mark.parametrize(
    ("profile", "name", "right", "wrong", "code"),
    [
        ("healthcare", "hc:icd10", ["E11"], "E11", SCHEMA),
        ("healthcare", "hc:practitioner_did", DID, "nobody", "ERR_DID"),
        ("healthcare", "hc:consent_ref", A, "A" * 64, "ERR_HASH_FORMAT"),
        ("healthcare", "hc:deidentification", "safe_harbor", "none", SCHEMA),
        ("legal", "legal:effective_date", "2026-01-01T00:00:00Z", "2026-01-01", SCHEMA),
        ("legal", "legal:privilege", "work_product", "private", SCHEMA),
        ("legal", "legal:hold_ref", A, "a" * 63, "ERR_HASH_LENGTH"),
        ("finance", "fin:amount", 5, "5", SCHEMA),
        ("finance", "fin:risk_score", 0.5, 1.5, "ERR_RANGE"),
        ("finance", "fin:retention_years", 7, 7.5, SCHEMA),
        ("robotics", "rob:battery_pct", 100, 101, "ERR_RANGE"),
        ("robotics", "rob:pose", {"x": 1}, [1], SCHEMA),
        ("robotics", "rob:safety_state", "normal", "broken", SCHEMA),
        ("science", "sci:preregistered", True, 1, SCHEMA),
        ("science", "sci:p_value", 0.05, -0.05, "ERR_RANGE"),
        ("consumer", "con:sentiment", -1, -1.5, "ERR_RANGE"),
    ],
)
def test_profile_fields(profile: str, name: str, right: Any, wrong: Any, code: str) -> None:
    tagged = minimal("reasoning", structural_tags=[f"profile:{profile}"])
    fields = tagged | {name: right}
    assert og.encode(fields) == oracle.encode(fields)
    rejected(tagged | {name: wrong}, code, field=f"/{name}")
    untagged = minimal("reasoning", **{name: wrong})
    assert og.encode(untagged) == oracle.encode(untagged)


def test_the_reader_of_a_disclosed_grain() -> None:
    small = {k: v for k, v in BELIEF.items() if k != "s"} | {"_e": {"subject": f"sha256:{A}"}}
    assert "subject" not in og.decode(blob("cbor", payload("cbor", pairs("cbor", small))))
