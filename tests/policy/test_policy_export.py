# SPDX-License-Identifier: Apache-2.0
"""Exports that profiles permit, and claims that co-signers sign.  Spec: OMS §23.2."""

from __future__ import annotations

from typing import Any

import pytest

import omsgrain as og
import oracle
from omsgrain.policy import check_export, claim
from support.policy_world import grain, opaque


@pytest.mark.parametrize(
    ("profile", "fields", "rule"),
    [
        ("legal", {"legal:privilege": "attorney_client"}, "legal:privilege"),
        ("legal", {"legal:privilege": "work_product"}, "legal:privilege"),
        ("legal", {"_elided": {"legal:privilege": "sha256:" + "0" * 64}}, "legal:privilege"),
        ("legal", {"legal:privilege": "none"}, None),
        ("legal", {"user_id": "jo"}, None),
        ("finance", {}, None),
        ("finance", {"fin:account_id": "1"}, "finance:processing_basis"),
        ("finance", {"user_id": "jo"}, "finance:processing_basis"),
        ("finance", {"subject_did": "did:example:jo"}, "finance:processing_basis"),
        ("finance", {"_elided": {"user_id": "sha256:" + "0" * 64}}, "finance:processing_basis"),
        ("finance", {"structural_tags": ["pii:name"]}, "finance:processing_basis"),
        ("finance", {"fin:account_id": "1", "processing_basis": "contract"}, None),
        ("finance", {"fin:account_id": "1", "processing_basis": ""}, "finance:processing_basis"),
        ("consumer", {"user_id": "jo"}, "consumer:processing_basis"),
        ("consumer", {"user_id": "jo", "processing_basis": "consent"}, None),
        ("consumer", {"con:ccpa_opted_out": True}, None),
        ("healthcare", {"user_id": "jo"}, None),
    ],
)  # fmt: skip
def test_what_may_leave(profile: str, fields: dict[str, Any], rule: str | None) -> None:
    tags = [f"profile:{profile}", *fields.get("structural_tags", ())]
    whole = grain(**{**fields, "structural_tags": tags})
    assert check_export(whole, held=False) == rule
    assert check_export(whole, held=True) == (None if rule == "legal:privilege" else rule)
    # Without the tag the fields are ordinary ones.
    if not fields.get("structural_tags"):
        assert check_export(grain(**fields), held=False) is None


def test_data_of_opted_out_persons_is_not_sold() -> None:
    fields: dict[str, Any] = {
        "structural_tags": ["profile:consumer"],
        "processing_basis": "contract",
    }
    for opted_out, rule in ((True, "consumer:opted_out"), (False, None)):
        sold = grain(**{**fields, "con:ccpa_opted_out": opted_out, "user_id": "jo"})
        assert check_export(sold, held=False, sale=True) == rule


# The claim


@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
@pytest.mark.parametrize("type_name", ["belief", "fact"])
def test_a_claim_is_the_payload_without_the_signatures(encoding: str, type_name: str) -> None:
    fields: dict[str, Any] = {
        "type": type_name, "subject": "a", "relation": "b", "object": "c", "confidence": 1.0,
        "created_at": 1, "supersession_justification": "worn out", "structural_tags": ["pii:name"],
        "content_refs": [{"uri": "file:a", "modality": "image"}],
    }  # fmt: skip
    bare = oracle.encode(fields, encoding, keep_type_name=True)[9:]
    auths: list[dict[str, Any]] = [{}, {"supersession_auth": [b"one", b"two"]}]
    for auth in auths:
        for compress in (False, True):
            options: dict[str, Any] = {"encoding": encoding, "compress": compress}
            blob = og.encode(fields | auth, keep_type_name=True, sensitivity=3, **options)
            assert claim(og.decode(blob)) == bare


def test_a_claim_of_an_opaque_grain() -> None:
    new = opaque(supersession_auth=[b"one"], content="here")
    assert claim(new) == opaque(content="here").blob[9:]
