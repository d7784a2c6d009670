# SPDX-License-Identifier: Apache-2.0
"""Grains that presets have rules about, and what is done with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omsgrain.errors import OmsError
from omsgrain.grain import Grain, make
from omsgrain.privacy import BUILT_IN, Preset, load

CREATED = 1768471200000  # 2026-01-15
YEAR = 366 * 86_400_000
DID = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
CONSENT = "ab" * 32
HASH = "sha256:" + "0" * 64

BELIEF = {
    "type": "belief",
    "subject": "anna",
    "relation": "likes",
    "object": "tea",
    "confidence": 0.9,
    "created_at": CREATED,
}
CONSENT_GRAIN = {
    "type": "consent",
    "subject_did": DID,
    "grantee_did": DID,
    "scope": ["store"],
    "is_withdrawal": False,
    "created_at": CREATED,
}
PERSON = BELIEF | {
    "structural_tags": ["pii:email"],
    "user_id": "anna",
    "processing_basis": "contract",
}
HEALTH = BELIEF | {
    "structural_tags": ["phi:mrn"],
    "user_id": "anna",
    "author_did": DID,
    "processing_basis": CONSENT,
}
BOOKS = BELIEF | {
    "structural_tags": ["reg:sox"],
    "author_did": DID,
    "source_type": "system",
}
EVIDENCE = {
    "type": "observation",
    "observer_id": "auditor",
    "observer_type": "human",
    "created_at": CREATED,
    "structural_tags": ["reg:sox"],
    "author_did": DID,
    "source_type": "system",
    "fin:sox_control_id": "C-17",
}
INFERRED = PERSON | {"source_type": "llm_generated"}

ALL = load(BUILT_IN)


def grain(fields: dict[str, Any], **changes: Any) -> Grain:
    """A grain of the fields with changes; None removes a field, ``__`` means a colon."""
    named = {name.replace("__", ":"): value for name, value in changes.items()}
    return make({k: v for k, v in (fields | named).items() if v is not None})


@dataclass(frozen=True)
class Act:
    """A check: what is to be done with which grain."""

    operation: str
    grain: Grain
    options: dict[str, Any] = field(default_factory=dict)

    def refusals(self, preset: Preset) -> list[OmsError]:
        return list(getattr(preset, f"{self.operation}_refusals")(self.grain, **self.options))

    def check(self, preset: Preset) -> tuple[str, ...]:
        found: tuple[str, ...] = getattr(preset, f"check_{self.operation}")(
            self.grain, **self.options
        )
        return found


def put(fields: dict[str, Any], encrypted: bool = False, **changes: Any) -> Act:
    return Act("put", grain(fields, **changes), {"encrypted": encrypted})


def delete(fields: dict[str, Any], years: int, **changes: Any) -> Act:
    return Act("delete", grain(fields, **changes), {"now": CREATED + years * YEAR})


def export(
    fields: dict[str, Any], purpose: str = "transfer", encrypted: bool = False, **changes: Any
) -> Act:
    options = {"purpose": purpose, "encrypted": encrypted}
    return Act("export", grain(fields, **changes), options)
