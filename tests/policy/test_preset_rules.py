# SPDX-License-Identifier: Apache-2.0
"""Every rule of every preset: what it accepts, and what it refuses."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from omsgrain.errors import (
    InvalidationDeniedError,
    KeyMissingError,
    OmsError,
    SchemaError,
    UnsupportedError,
)
from omsgrain.grain import Grain
from omsgrain.privacy import Preset, load
from support.regulated_grains import (
    ALL,
    BELIEF,
    BOOKS,
    CONSENT,
    CONSENT_GRAIN,
    DID,
    EVIDENCE,
    HEALTH,
    INFERRED,
    PERSON,
    Act,
    delete,
    export,
    grain,
    put,
)

SAFE = BELIEF | {"hc:deidentification": "safe_harbor"}
KEPT = BELIEF | {"retention_policy": {"minimum_retention_years": 10}}
APPROVED = BELIEF | {"retention_policy": {"deletion_requires": "two_officers"}}
FINANCE = BELIEF | {"structural_tags": ["profile:finance"], "fin:retention_years": 5}
US_CONSENT = CONSENT_GRAIN | {"jurisdiction": "us_hipaa"}
CALIFORNIAN = CONSENT_GRAIN | {"jurisdiction": "us_ccpa"}
NAMES_SOX = BELIEF | {"retention_policy": {"regulation": "SOX §802"}}
PLAIN = put(BELIEF)

#: rule, accepted, refused, class of the error, field
CASES: list[tuple[str, Act, Act, type[OmsError], str | None]] = [
    ("oms.retention-policy", delete(KEPT, 10), delete(KEPT, 9), InvalidationDeniedError,
     "/retention_policy/minimum_retention_years"),
    ("oms.retention-policy", delete(BELIEF, 0), delete(APPROVED, 99), InvalidationDeniedError,
     "/retention_policy/deletion_requires"),
    ("oms.finance-retention", delete(FINANCE, 5), delete(FINANCE, 4), InvalidationDeniedError,
     "/fin:retention_years"),
    ("oms.finance-retention", delete(FINANCE, 4, structural_tags=None), delete(FINANCE, 0),
     InvalidationDeniedError, "/fin:retention_years"),
    ("gdpr.encryption", put(PERSON, encrypted=True), put(PERSON), KeyMissingError, None),
    ("gdpr.encryption", PLAIN, put(CONSENT_GRAIN, structural_tags=["sec:key"]), KeyMissingError,
     None),
    ("gdpr.processing-basis", put(PERSON), put(PERSON, processing_basis=None), SchemaError,
     "/processing_basis"),
    ("gdpr.processing-basis", put(PERSON, processing_basis=CONSENT),
     put(PERSON, processing_basis="explicit_consent"), SchemaError, "/processing_basis"),
    ("gdpr.processing-basis", put(CONSENT_GRAIN), put(BELIEF, subject_did=DID), SchemaError,
     "/processing_basis"),
    ("gdpr.processing-basis", put(PERSON, processing_basis=None, identity_state="anonymous"),
     put(PERSON, processing_basis="", identity_state="pseudonymous"), SchemaError,
     "/processing_basis"),
    ("gdpr.processing-basis", put(HEALTH, processing_basis="health_care"),
     put(PERSON, processing_basis="@address"), SchemaError, "/processing_basis"),
    ("gdpr.special-category", put(HEALTH), put(HEALTH, processing_basis="contract"), SchemaError,
     "/processing_basis"),
    ("gdpr.special-category", put(PERSON), put(HEALTH, processing_basis=None), SchemaError,
     "/processing_basis"),
    ("gdpr.data-subject", put(PERSON), put(PERSON, user_id=None), SchemaError, "/user_id"),
    ("gdpr.data-subject", put(PERSON, user_id=None, subject_did=DID), put(PERSON, user_id=""),
     SchemaError, "/user_id"),
    ("gdpr.anonymous", put(BELIEF, identity_state="anonymous"),
     put(BELIEF, identity_state="anonymous", user_id="anna"), SchemaError, "/user_id"),
    ("gdpr.anonymous", put(PERSON, identity_state="pseudonymous"),
     put(BELIEF, identity_state="anonymous", structural_tags=["pii:name"]), SchemaError,
     "/structural_tags"),
    ("gdpr.transfer-basis", export(PERSON), export(PERSON, processing_basis=None), SchemaError,
     "/processing_basis"),
    ("gdpr.transfer-basis", export(PERSON, "access", processing_basis=None),
     export(PERSON, "sale", processing_basis=None), SchemaError, "/processing_basis"),
    ("gdpr.transfer-encryption", export(HEALTH, encrypted=True), export(HEALTH), KeyMissingError,
     None),
    ("gdpr.transfer-encryption", export(HEALTH, "move"), export(HEALTH, "sale"), KeyMissingError,
     None),
    ("hipaa.encryption", put(HEALTH, encrypted=True), put(HEALTH), KeyMissingError, None),
    ("hipaa.permitted-use", put(HEALTH), put(HEALTH, processing_basis=None), SchemaError,
     "/processing_basis"),
    ("hipaa.permitted-use", put(HEALTH, processing_basis="treatment"),
     put(HEALTH, processing_basis="contract"), SchemaError, "/processing_basis"),
    ("hipaa.author", put(HEALTH), put(HEALTH, author_did=None), SchemaError, "/author_did"),
    ("hipaa.patient", put(HEALTH), put(HEALTH, user_id=None), SchemaError, "/hc:patient_id"),
    ("hipaa.patient", put(HEALTH, user_id=None, hc__patient_id="p-1"), put(HEALTH, user_id=""),
     SchemaError, "/hc:patient_id"),
    ("hipaa.safe-harbor", put(SAFE), put(SAFE, hc__patient_id="p-1"), SchemaError,
     "/hc:patient_id"),
    ("hipaa.safe-harbor", put(HEALTH, hc__deidentification="expert_determination"),
     put(SAFE, structural_tags=["phi:date"]), SchemaError, "/structural_tags"),
    ("hipaa.documentation", delete(US_CONSENT, 6), delete(US_CONSENT, 5), InvalidationDeniedError,
     None),
    ("hipaa.documentation", delete(CALIFORNIAN, 5), delete(US_CONSENT, 0),
     InvalidationDeniedError, None),
    ("hipaa.documentation", delete(HEALTH, 0),
     delete(BELIEF, 5, retention_policy={"regulation": "HIPAA"}), InvalidationDeniedError, None),
    ("hipaa.documentation", delete(BELIEF, 0, structural_tags=["reg:gdpr"]),
     delete(BELIEF, 5, structural_tags=["reg:hipaa"]), InvalidationDeniedError, None),
    ("hipaa.disclosure", export(HEALTH), export(HEALTH, processing_basis=None), SchemaError,
     "/processing_basis"),
    ("hipaa.sale", export(HEALTH, "sale"), export(HEALTH, "sale", processing_basis="research"),
     SchemaError, "/processing_basis"),
    ("hipaa.sale", export(HEALTH, processing_basis="research"),
     export(HEALTH, "sale", processing_basis=None), SchemaError, "/processing_basis"),
    ("hipaa.transmission", export(HEALTH, encrypted=True), export(HEALTH), KeyMissingError, None),
    ("ccpa.encryption", put(PERSON, encrypted=True), put(PERSON), KeyMissingError, None),
    ("ccpa.consumer", put(PERSON), put(PERSON, user_id=None), SchemaError, "/user_id"),
    ("ccpa.requests", delete(CALIFORNIAN, 2), delete(CALIFORNIAN, 1), InvalidationDeniedError,
     None),
    ("ccpa.requests", delete(US_CONSENT, 1),
     delete(BELIEF, 1, retention_policy={"regulation": "CCPA/CPRA"}), InvalidationDeniedError,
     None),
    ("ccpa.requests", delete(PERSON, 0), delete(BELIEF, 1, structural_tags=["reg:ccpa"]),
     InvalidationDeniedError, None),
    ("ccpa.opted-out", export(PERSON, "transfer", con__ccpa_opted_out=True),
     export(PERSON, "sale", con__ccpa_opted_out=True), UnsupportedError, None),
    ("ccpa.opted-out", export(PERSON, "sale", con__ccpa_opted_out=False),
     export(BELIEF, "sale", con__ccpa_opted_out=True), UnsupportedError, None),
    ("ccpa.transfer-basis", export(PERSON), export(PERSON, processing_basis=None), SchemaError,
     "/processing_basis"),
    ("sox.author", put(BOOKS), put(BOOKS, author_did=None), SchemaError, "/author_did"),
    ("sox.author", PLAIN, put(NAMES_SOX), SchemaError, "/author_did"),
    ("sox.author", put(BELIEF, retention_policy={"regulation": "soxology"}),
     put(BELIEF, fin__sox_control_id="C-17"), SchemaError, "/author_did"),
    ("sox.origin", put(BOOKS), put(BOOKS, source_type=None), SchemaError, "/source_type"),
    ("sox.origin", put(BOOKS, source_type=None, derived_from=[CONSENT]),
     put(BOOKS, source_type=None, derived_from=[]), SchemaError, "/source_type"),
    ("sox.control", put(EVIDENCE), put(EVIDENCE, fin__sox_control_id=None), SchemaError,
     "/fin:sox_control_id"),
    ("sox.control", put(BOOKS), put(EVIDENCE, fin__sox_control_id=""), SchemaError,
     "/fin:sox_control_id"),
    ("sox.audit-records", delete(BOOKS, 7), delete(BOOKS, 6), InvalidationDeniedError, None),
    ("sox.audit-records", delete(BELIEF, 0), delete(NAMES_SOX, 6), InvalidationDeniedError, None),
    ("sox.evidence", export(BOOKS), export(BOOKS, author_did=None), SchemaError, "/author_did"),
]  # fmt: skip

#: rule, operation, purpose, reviewed, not reviewed
REVIEWED: list[tuple[str, str, str, Grain, Grain]] = [
    ("gdpr.inferred", "put", "transfer", grain(INFERRED), grain(PERSON)),
    ("gdpr.inferred", "put", "transfer", grain(HEALTH, source_type="agent_inferred"),
     grain(INFERRED, structural_tags=None)),
    ("gdpr.consent-proof", "delete", "transfer", grain(CONSENT_GRAIN), grain(PERSON)),
    ("hipaa.accounting", "export", "transfer", grain(HEALTH), grain(PERSON)),
    ("hipaa.accounting", "export", "sale", grain(HEALTH), grain(BELIEF)),
    ("ccpa.sensitive-sale", "export", "sale", grain(HEALTH), grain(PERSON)),
    ("sox.destruction", "delete", "transfer", grain(BOOKS), grain(BELIEF)),
    ("sox.correction", "supersede", "transfer", grain(NAMES_SOX), grain(PERSON)),
]  # fmt: skip


def preset_of(rule: str) -> Preset:
    name = rule.split(".")[0]
    return load([] if name == "oms" else name)


def test_every_rule_of_every_preset_is_in_the_tables() -> None:
    tested = {case[0] for case in chain(CASES, REVIEWED)}
    assert tested == {rule.id for rule in ALL.rules}


@pytest.mark.parametrize(
    ("rule", "accepted", "refused", "error", "place"),
    CASES,
    ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)],
)
def test_rule(
    rule: str, accepted: Act, refused: Act, error: type[OmsError], place: str | None
) -> None:
    preset = preset_of(rule)
    assert rule not in [found.rule for found in accepted.refusals(preset)]
    (found,) = (found for found in refused.refusals(preset) if found.rule == rule)
    assert (type(found), found.field) == (error, place)
    assert found.expected
    with pytest.raises(OmsError) as raised:
        refused.check(preset)
    assert raised.value.rule in [error.rule for error in refused.refusals(preset)]


@pytest.mark.parametrize(
    ("rule", "operation", "purpose", "reviewed", "free"),
    REVIEWED,
    ids=[f"{case[0]}-{i}" for i, case in enumerate(REVIEWED)],
)
def test_review(rule: str, operation: str, purpose: Any, reviewed: Grain, free: Grain) -> None:
    preset = preset_of(rule)
    assert rule in preset.reviews(operation, reviewed, purpose=purpose)
    assert rule not in preset.reviews(operation, free, purpose=purpose)
    for other in {"put", "supersede", "delete", "export"} - {operation}:
        assert rule not in preset.reviews(other, reviewed, purpose=purpose)
    assert rule not in preset.reviews("export", reviewed, purpose="access")
