# SPDX-License-Identifier: Apache-2.0
"""Grains of a few users, to be sealed."""

from __future__ import annotations

import json
from random import Random
from typing import Any

USERS = ("lisbeth", "ōtomo", "x" * 60)


def belief(**fields: Any) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": "kettle",
        "relation": "is",
        "object": "warm",
        "confidence": 0.5,
        "created_at": 1_000,
        **fields,
    }


def some(count: int) -> list[dict[str, Any]]:
    """Grains of a few values each, some without a user."""
    random = Random(7)
    found = []
    for n in range(count):
        fields = belief(
            subject=random.choice(["kettle", "stove", "λ" * 50]),
            relation=random.choice(["is", "was"]),
            object=random.choice(["warm", "cold", {"degrees": 7}]),
            created_at=random.randrange(1, 30) * 1_000,
            structural_tags=random.sample(["a", "b", "c"], 2),
            note=f"number {n} of many",
        )
        if n % 3:
            name = f"urn:example:{'λ' * 30 if n % 2 else n % 7}"
            fields["x_src"] = json.dumps({"f": "example", "k": "note", "id": name}).encode("ascii")
        if random.random() < 0.8:
            fields["user_id"] = random.choice(USERS)
        if random.random() < 0.5:
            fields["session_id"] = random.choice(["s1", "s2"])
        if random.random() < 0.5:
            fields["namespace"] = random.choice(["home", "home:kitchen"])
        found.append(fields)
    return found
