# SPDX-License-Identifier: Apache-2.0
"""The vectors of the OMS 1.2 document, and the first of them again by its 1.2 type name.

The document states the addresses of 1 and 6. It gives the inputs of 2 to 5, whose addresses two
independent encoders computed alike.
"""

from __future__ import annotations

from typing import Any

from source.forms import CORE, ORACLE, Vector, changed, encoded

DID = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"

_DARK_MODE: dict[str, Any] = {
    "type": "fact",
    "subject": "user",
    "relation": "prefers",
    "object": "dark mode",
    "confidence": 0.9,
    "source_type": "user_explicit",
    "created_at": 1768471200000,
    "namespace": "shared",
    "author_did": DID,
}
_EVENT = {
    "type": "event",
    "content": "User asked about dark mode settings",
    "created_at": 1768471200000,
    "namespace": "shared",
    "author_did": DID,
    "importance": 0.5,
}
_BITEMPORAL = {
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
}
_RELATED = {
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
}
_OBSERVATION = {
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
}
_LOCKED = {
    "type": "fact",
    "subject": "agent-007",
    "relation": "constraint",
    "object": "never delete user files without confirmation",
    "confidence": 1.0,
    "source_type": "user_explicit",
    "created_at": 1768471200000,
    "namespace": "safety",
    "invalidation_policy": {"mode": "locked", "authorized": [DID]},
}

_PINNED = "OMS 1.2, which states the address"
_COMPUTED = f"OMS 1.2 gives the input; {ORACLE}, the address"
_OURS = f"omsgrain; {ORACLE}, the address"

_ROWS = (
    ("001-fact", "OMS vector 1, under its 1.1 type name", _DARK_MODE, _PINNED,
     "3288d0d41cf49a1d428e404f0b6a6fe60388be9536937557f6139b813d53a520"),
    ("002-event", "OMS vector 2", _EVENT, _COMPUTED,
     "b4db6c77ac947b55c9ef1a28ab94bfc2c5005a17242dd3919c61fdc2138534c3"),
    ("003-bitemporal", "OMS vector 3, without a namespace", _BITEMPORAL, _COMPUTED,
     "85a3f9732ed230ec1547abe936a4783392758028dc7a83dc4aca6ec7cced5f39"),
    ("004-related-to", "OMS vector 4", _RELATED, _COMPUTED,
     "82a280201f759a5f1489dc63524f072065ab2683169fed701804f69f2526ebd0"),
    ("005-observation", "OMS vector 5", _OBSERVATION, _COMPUTED,
     "4b2a522d6e0b3234a21056dfdad9b8fa11901f4b3c767078046c19f501d32618"),
    ("006-locked", "OMS vector 6, under its 1.1 type name", _LOCKED, _PINNED,
     "df928038769506fb66671aced0eb97d45871e169e505ed55a382c744e620550e"),
    ("007-belief", "OMS vector 1 under its 1.2 type name: another address",
     changed(_DARK_MODE, type="belief"), _OURS,
     "f06c02f500fe38fd2c77458315b651d4b84542df635b8722c502944286d40cc5"),
)  # fmt: skip


def vectors() -> list[Vector]:
    """The six of the document and one of ours."""
    return [
        encoded(
            f"oms/{name}",
            description,
            fields,
            {"keep_type_name": True} if fields["type"] == "fact" else {},
            made_by=made_by,
            checked_by=f"{ORACLE}; {CORE}",
            pinned=address,
        )
        for name, description, fields, made_by, address in _ROWS
    ]
