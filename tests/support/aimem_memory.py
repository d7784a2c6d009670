# SPDX-License-Identifier: Apache-2.0
"""The memory of invented tenants, put into stores as an import would."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from omsgrain import _core
from omsgrain.errors import RangeError
from omsgrain.formats.aimem.fields import ARRAYS, decode
from omsgrain.formats.aimem.records import TABLE, bare
from omsgrain.store import GrainStore
from support.aimem_strategies import hash_of

ADA = "11111111-1111-4111-8111-111111111111"
GRACE = "22222222-2222-4222-8222-222222222222"
NOW = 1_800_000_000_000


def name(local: str, producer: str = "robot-7") -> str:
    return f"urn:aimem:{producer}:{local}"


def chunk(local: str, content: str | None = None, **fields: Any) -> dict[str, Any]:
    content = f"what {local} says" if content is None else content
    return {
        "id": name(local),
        "content": content,
        "content_hash": hash_of(content),
        "memory_type": "fact",
        "created_at": "2026-04-01T09:30:00Z",
        **fields,
    }


def edge(source: str, target: str, **fields: Any) -> dict[str, Any]:
    ends = {"source_id": name(source), "target_id": name(target)}
    made = {"edge_type": "causal", "weight": 0.5, "created_at": "2026-04-02T00:00:00Z"}
    return ends | made | fields


def entity(local: str, **fields: Any) -> dict[str, Any]:
    made = {"name": f"the {local}", "kind": "concept", "created_at": "2026-04-01T00:00:00Z"}
    return {"id": name(local)} | made | fields


def link(one: str, other: str) -> dict[str, Any]:
    return {"chunk_id": name(one), "entity_id": name(other)}


def sample() -> dict[str, Any]:
    """Chunks of most sorts, what joins them, and an entity that nothing is joined to."""
    return {
        "chunks": [
            chunk("late", created_at="2026-05-01T00:00:00.25Z", zone="important"),
            chunk("tea", memory_type="preference", tags=["drink"]),
            chunk("pin", is_pinned=True, created_at="2026-04-03T00:00:00+00:00"),
            chunk("long", "x" * 70 + "\u00e9e\u0301", note={"deep": [1.0, None]}),
        ],
        "edges": [edge("tea", "late"), edge("tea", "pin", weight=1)],
        "entities": [entity("kettle"), entity("alone")],
        "chunk_entities": [link("tea", "kettle")],
    }


def fill(
    store: GrainStore, document: dict[str, Any], tenant: str = ADA, model: str = "small"
) -> dict[str, str]:
    """Put a document's records; the address of each by its id, or by what it joins."""
    found = {}
    for array, kind in ARRAYS.items():
        for record in document.get(array, []):
            built = TABLE.to_grain(kind, bare(kind, record), owner=tenant)
            report = store.put_many([*built.parts, built.grain])
            address = report.addresses[-1]
            assert address is not None
            found[record.get("id", json.dumps(record))] = address
            vector = decode(record.get("embedding") or "")
            with suppress(RangeError):  # one without a direction is kept nowhere
                if vector:
                    store.vectors.add(address, vector, model=model)
    return found


def canonical(records: Iterable[dict[str, Any]]) -> list[bytes]:
    return [_core.canonical_json(json.dumps(record).encode()) for record in records]
