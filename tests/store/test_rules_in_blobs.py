# SPDX-License-Identifier: Apache-2.0
"""Blobs that may have a rule which keeps their grains: none is overlooked, however encoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.store.policy_context import may_keep

READING: dict[str, Any] = {
    "type": "event",
    "content": "the derived value of ip",
    "created_at": 1_768_471_200_000,
}
CONSENT: dict[str, Any] = {
    "type": "consent",
    "subject_did": "did:web:ada.example",
    "grantee_did": "did:web:shop.example",
    "scope": ["email"],
    "is_withdrawal": False,
    "created_at": 1_768_471_200_000,
    "namespace": "shop",
    "purpose": "support",
    "basis": "explicit_consent",
    "jurisdiction": "EU",
}
GOAL: dict[str, Any] = {
    "type": "goal",
    "description": "water the plants",
    "goal_state": "active",
    "created_at": 1_768_471_200_000,
}
RULES: dict[str, dict[str, Any]] = {
    "policy": READING | {"invalidation_policy": {"mode": "locked"}},
    "source": READING | {"derived_from": ["ab" * 32]},
    "retention": READING | {"retention_policy": {"minimum_retention_years": 5}},
    "years": READING | {"fin:retention_years": 7, "structural_tags": ["profile:finance"]},
    "privilege": READING
    | {"legal:privilege": "attorney_client", "structural_tags": ["profile:legal"]},
    "consent": CONSENT,
    "goal": GOAL,
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
@pytest.mark.parametrize("compress", [False, True])
def test_no_rule_is_overlooked(name: str, encoding: Any, compress: bool) -> None:
    plain = og.encode(READING, encoding=encoding)
    ruled = og.encode(RULES[name], encoding=encoding, compress=compress)
    assert may_keep([plain, ruled, plain]) == {1}


def test_hidden_fields_may_be_rules() -> None:
    grain = og.encode(RULES["privilege"])
    with pytest.warns(og.errors.OmsWarning, match="guessed"):
        view = og.disclose(grain, ["legal:privilege"])
    assert may_keep([view.blob]) == {0}


def test_encrypted_and_unknown_grains_may_have_rules(tmp_path: Path) -> None:
    unknown = bytearray(og.encode(READING))
    unknown[2] = 0x70
    with KeyRing.create(tmp_path / "x.keys", master=bytes(32)) as keys:
        with og.open(tmp_path / "m.omsg", keys=keys) as store:
            store.put(READING | {"user_id": "ada"})
        with og.open(tmp_path / "m.omsg", readonly=True) as store:
            (sealed,) = store
    assert sealed.sealed
    assert may_keep([bytes(unknown), sealed.blob]) == {0, 1}
