# SPDX-License-Identifier: Apache-2.0
"""The grains whose addresses are known, 1 and 6 of them pinned by the OMS text itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DID = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"


@dataclass(frozen=True, slots=True)
class Vector:
    """One grain and what every encoder must make of it."""

    name: str
    fields: dict[str, Any]
    address: str
    size: int | None = None
    header: str | None = None


_DARK_MODE = {
    "subject": "user",
    "relation": "prefers",
    "object": "dark mode",
    "confidence": 0.9,
    "source_type": "user_explicit",
    "created_at": 1768471200000,
    "namespace": "shared",
    "author_did": DID,
}

VECTORS = (
    Vector(
        "1 belief by its 1.1 name (pinned)",
        {"type": "fact", **_DARK_MODE},
        "3288d0d41cf49a1d428e404f0b6a6fe60388be9536937557f6139b813d53a520",
        size=159,
        header="010001a4d26968baa0",
    ),
    Vector(
        "1 belief",
        {"type": "belief", **_DARK_MODE},
        "f06c02f500fe38fd2c77458315b651d4b84542df635b8722c502944286d40cc5",
    ),
    Vector(
        "2 event",
        {
            "type": "event",
            "content": "User asked about dark mode settings",
            "created_at": 1768471200000,
            "namespace": "shared",
            "author_did": DID,
            "importance": 0.5,
        },
        "b4db6c77ac947b55c9ef1a28ab94bfc2c5005a17242dd3919c61fdc2138534c3",
        size=160,
    ),
    Vector(
        "3 bi-temporal belief",
        {
            "type": "fact",
            "subject": "Alice",
            "relation": "works_at",
            "object": "Acme Corp",
            "confidence": 0.95,
            "source_type": "user_explicit",
            "created_at": 1737000000000,
            "system_valid_from": 1737000000000,
            "valid_from": 1735689600000,
            "valid_to": 1767225600000,
            "author_did": DID,
        },
        "85a3f9732ed230ec1547abe936a4783392758028dc7a83dc4aca6ec7cced5f39",
    ),
    Vector(
        "4 related grains",
        {
            "type": "fact",
            "subject": "Bob",
            "relation": "manages",
            "object": "Project Alpha",
            "confidence": 0.9,
            "source_type": "llm_generated",
            "created_at": 1737000000000,
            "author_did": DID,
            "related_to": [
                {
                    "hash": "4c4149355d3f3e1114e6a72bc5c2813a3ecd4deab2ba8771eaca8556b2c032f2",
                    "relation_type": "similar",
                    "weight": 0.85,
                },
                {
                    "hash": "6f7fb8935e150f61a607ece0582c87c42b9975d356def0e41164b85852836145",
                    "relation_type": "elaborates",
                    "weight": 0.7,
                },
            ],
        },
        "82a280201f759a5f1489dc63524f072065ab2683169fed701804f69f2526ebd0",
    ),
    Vector(
        "5 observation",
        {
            "type": "observation",
            "observer_id": "temp-sensor-01",
            "observer_type": "temperature",
            "subject": "server-room",
            "object": "22.5C",
            "confidence": 0.99,
            "created_at": 1737000000000,
            "namespace": "monitoring",
            "importance": 0.3,
            "author_did": DID,
        },
        "4b2a522d6e0b3234a21056dfdad9b8fa11901f4b3c767078046c19f501d32618",
    ),
    Vector(
        "6 locked constraint (pinned)",
        {
            "type": "fact",
            "subject": "agent-007",
            "relation": "constraint",
            "object": "never delete user files without confirmation",
            "confidence": 1.0,
            "source_type": "user_explicit",
            "created_at": 1768471200000,
            "namespace": "safety",
            "invalidation_policy": {"mode": "locked", "authorized": [DID]},
        },
        "df928038769506fb66671aced0eb97d45871e169e505ed55a382c744e620550e",
        size=226,
    ),
)
