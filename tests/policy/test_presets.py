# SPDX-License-Identifier: Apache-2.0
"""Presets together, over time, and with elided fields."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from omsgrain.errors import InvalidationDeniedError, SchemaError
from omsgrain.grain import Grain, checked_grain, make
from omsgrain.policy.rules import Keep
from omsgrain.privacy import BUILT_IN, PURPOSES, Preset, explain, load
from support.regulated_grains import (
    ALL,
    BELIEF,
    BOOKS,
    CONSENT,
    CREATED,
    HASH,
    HEALTH,
    INFERRED,
    PERSON,
    YEAR,
    delete,
    export,
    grain,
    put,
)


def kept_until(preset: Preset, one: Grain) -> int | None:
    """Until when a grain must be kept, ms since 1970."""
    rules = [rule for rule in preset.rules if isinstance(rule, Keep) and rule.applies(one)]
    times = [time for rule in rules if (time := rule.until(one)) is not None]
    return max(times, default=None)


def test_valid_grains_pass_and_list_reviews() -> None:
    assert put(INFERRED, encrypted=True).check(load("gdpr")) == ("gdpr.inferred",)
    assert put(PERSON, encrypted=True).check(load("gdpr")) == ()
    assert delete(BOOKS, 7).check(load("sox")) == ("sox.destruction",)
    assert export(HEALTH, encrypted=True).check(load("hipaa")) == ("hipaa.accounting",)
    assert export(HEALTH, "move").check(load("hipaa")) == ()


@pytest.mark.parametrize("name", BUILT_IN)
def test_grains_about_no_person_are_free(name: str) -> None:
    preset = load(name)
    assert preset.names == (name,)
    assert put(BELIEF).check(preset) == ()
    assert delete(BELIEF, 0).check(preset) == ()
    for purpose in PURPOSES:
        assert export(BELIEF, purpose).check(preset) == ()


def test_refusals_show_nothing_of_the_grain() -> None:
    secret = HEALTH | {"user_id": "x-secret-x", "author_did": None, "subject": "x-secret-x"}
    bad = grain(secret, processing_basis="x-secret-x", identity_state="anonymous")
    found = [*ALL.put_refusals(bad), *ALL.export_refusals(bad, purpose="sale")]
    assert len(found) > 6
    assert "secret" not in "".join(str(error.to_dict()) for error in found)


def test_an_encrypted_grain_is_what_its_header_says() -> None:
    blob = bytearray(make(PERSON).blob)
    blob[1] |= 2
    sealed = checked_grain(bytes(blob), (1, blob[1], 1, 0, 0), "belief", [], dict(PERSON))
    assert load("gdpr").check_put(sealed) == ()


# Retention that a grain asks for itself


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ({"minimum_retention_years": 3}, 3),
        ({"minimum_retention_years": 3, "regulation": "anything"}, 3),
        ({"minimum_retention_years": 0}, None),
        ({"minimum_retention_years": -4}, None),
        ({"minimum_retention_years": 1_000_000}, 100),
        ({"minimum_retention_years": 2**63}, 100),
        ({"regulation": "anything"}, None),
        ({}, None),
    ],
)
def test_minimum_retention(policy: dict[str, Any], kept: int | None) -> None:
    one = grain(BELIEF, retention_policy=policy)
    until = kept_until(load([]), one)
    if kept is None:
        assert until is None
        return
    at = datetime(2026 + kept, 1, 15, 10, tzinfo=timezone.utc)
    assert until == int(at.timestamp() * 1_000)
    with pytest.raises(InvalidationDeniedError) as denied:
        load([]).check_delete(one, until - 1)
    assert denied.value.rule == "oms.retention-policy"
    assert load([]).check_delete(one, until) == ()


def test_the_approval_that_a_grain_asks_for() -> None:
    policy = {"minimum_retention_years": 1, "deletion_requires": "two_officers"}
    one = grain(BELIEF, retention_policy=policy)
    for now, approvals in ((CREATED, {"two_officers"}), (CREATED + YEAR, {"one_officer"})):
        with pytest.raises(InvalidationDeniedError):
            load([]).check_delete(one, now, approvals=approvals)
    assert load([]).check_delete(one, CREATED + YEAR, approvals={"two_officers"}) == ()


@pytest.mark.parametrize("value", [3, "3", [3], {"minimum_retention_years": "3"}, 2.5, True])
def test_an_invalid_retention_keeps_nothing(value: Any) -> None:
    """Only opaque grains can hold such a thing."""
    opaque = make({"created_at": CREATED, "retention_policy": value}, type_byte=0xF0)
    assert kept_until(ALL, opaque) is None
    assert ALL.check_delete(opaque, 0) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"structural_tags": "phi:mrn"},
        {"structural_tags": [1, None, ["x"]]},
        {"namespace": 4, "_elided": 3},
        {"retention_policy": [1], "processing_basis": {"x": 1}},
        {"created_at": -(2**62), "retention_policy": {"minimum_retention_years": 1}},
    ],
)
def test_opaque_grains_break_nothing(fields: dict[str, Any]) -> None:
    fields = {"created_at": CREATED, "user_id": "anna"} | fields
    made = make({k: v for k, v in fields.items() if k != "created_at"} | {"created_at": CREATED},
                type_byte=0xF0)  # fmt: skip
    odd = checked_grain(made.blob, (1, 0xC0, 0xF0, 0, 0), None, [], fields)
    assert list(ALL.put_refusals(odd))
    list(ALL.delete_refusals(odd, CREATED))
    for purpose in PURPOSES:
        list(ALL.export_refusals(odd, purpose=purpose))  # type: ignore[arg-type]
    ALL.reviews("put", odd)
    ALL.due(odd, CREATED)


def test_years_are_counted_by_the_calendar() -> None:
    leap = int(datetime(2024, 2, 29, 12, tzinfo=timezone.utc).timestamp()) * 1_000
    policy = {"minimum_retention_years": 1}
    one = grain(BELIEF, created_at=leap + 7, retention_policy=policy)
    until = int(datetime(2025, 3, 1, 12, tzinfo=timezone.utc).timestamp()) * 1_000 + 7
    assert kept_until(load([]), one) == until


# What is elided


def test_an_elided_field_is_there_and_says_nothing() -> None:
    hidden: dict[str, Any] = {"_elided": {"author_did": HASH}, "author_did": None}
    rules = [error.rule for error in put(HEALTH, **hidden).refusals(load("hipaa"))]
    assert rules == ["hipaa.encryption"]
    hidden = {"_elided": {"processing_basis": HASH}, "processing_basis": None}
    rules = [error.rule for error in put(HEALTH, **hidden).refusals(load("hipaa"))]
    assert rules == ["hipaa.encryption", "hipaa.permitted-use"]


def test_an_elided_field_is_taken_for_the_worst() -> None:
    out: dict[str, Any] = {"_elided": {"con:ccpa_opted_out": HASH}}
    rules = [error.rule for error in export(PERSON, "sale", **out).refusals(load("ccpa"))]
    assert rules == ["ccpa.opted-out"]
    anonymous: dict[str, Any] = {"_elided": {"identity_state": HASH}, "processing_basis": None}
    rules = [error.rule for error in put(PERSON, True, **anonymous).refusals(load("gdpr"))]
    assert rules == ["gdpr.processing-basis", "gdpr.anonymous"]


# Combining


def test_of_several_presets_the_stricter_wins() -> None:
    both = load(["gdpr", "hipaa"])
    assert both.names == ("gdpr", "hipaa")
    assert len(both.titles) == 2
    for basis, accepted in (
        (CONSENT, True),
        ("public_health", True),
        ("treatment", False),
        ("vital_interests", False),
    ):
        refused = put(HEALTH, encrypted=True, processing_basis=basis).refusals(both)
        assert (not refused) == accepted
    rules = {rule.id for rule in load("gdpr").rules} | {rule.id for rule in load("hipaa").rules}
    assert {rule.id for rule in both.rules} == rules


def test_the_longest_retention_wins() -> None:
    tags = ["reg:sox", "reg:hipaa"]
    one = grain(BOOKS, structural_tags=tags, retention_policy={"minimum_retention_years": 3})
    years = [
        datetime.fromtimestamp((kept_until(preset, one) or 0) / 1_000, timezone.utc).year
        for preset in (load([]), load("hipaa"), load("sox"), load(["hipaa", "sox"]))
    ]
    assert years == [2029, 2032, 2033, 2033]


def test_no_such_purpose() -> None:
    with pytest.raises(SchemaError):
        load("gdpr").check_export(grain(BELIEF), purpose="fun")  # type: ignore[arg-type]


def test_every_rule_has_a_description() -> None:
    told = explain(ALL)
    assert [row.id for row in told] == [rule.id for rule in ALL.rules]
    for row in told:
        assert all((row.kind, row.about, row.asks, row.reason, row.source))
        assert row.reason.endswith(".")
    rows = {row.id: row for row in told}
    assert rows["oms.retention-policy"].about == "every grain"
    assert rows["sox.audit-records"].asks == "kept for 7 years"
    assert rows["ccpa.opted-out"].asks == "not exported for sale"
    assert rows["ccpa.opted-out"].about == "con:ccpa_opted_out is true"
