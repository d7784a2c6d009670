# SPDX-License-Identifier: Apache-2.0
"""Rows F: documents of other formats to grains."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import orjson

from benches import data
from benches.measure import Case, Plan, Row, check, timed
from omsgrain import formats
from omsgrain.formats.aimem import checksum

_KINDS = ("fact", "preference", "decision", "identity", "pitfall", "procedure", "episodic", "goal")
_ZONES = ("critical", "important", "standard")


def bundle(count: int) -> bytes:
    """An AIMEM bundle of so many chunks, about 370 bytes each."""
    chunks = []
    for i in range(count):
        content = f"robot-{i % 500} found shelf {i} with {i % 17} boxes, and counted them twice"
        chunks.append(
            {
                "id": f"urn:aimem:robot-7:chunk-{i}",
                "content": content,
                "content_hash": f"sha256:{sha256(content.encode()).hexdigest()}",
                "memory_type": _KINDS[i % 8],
                "zone": _ZONES[i % 3],
                "is_pinned": False,
                "created_at": f"2026-04-{i % 28 + 1:02}T{i % 24:02}:{i % 60:02}:{i % 59:02}Z",
                "tags": ["inventory", "shelf"],
                "embedding": None,
            }
        )
    document: dict[str, Any] = {
        "format": "aimem-bundle",
        "version": "1",
        "producer": "robot-7",
        "tenant_id": "11111111-1111-4111-8111-111111111111",
        "exported_at": "2026-06-12T10:00:00Z",
        "scope": "FULL",
        "chunks": chunks,
        "edges": [],
        "entities": [],
        "chunk_entities": [],
    }
    total = checksum.of_document(json.dumps(document).encode())
    return json.dumps(document | {"checksum": total}).encode()


def load(plan: Plan) -> Case:
    text = bundle(plan.count)
    loaded = formats.load(text)
    again = formats.dump(loaded, format="aimem")
    check(orjson.loads(again.data) == orjson.loads(text), "the bundle comes back")
    check(len(loaded.grains) > plan.count, "a grain a chunk")
    return Case(timed(lambda: formats.load(text)), timed(lambda: orjson.loads(text)), plan.count)


ROWS = (
    Row(
        "F1",
        "load an AIMEM bundle: checks, checksum, grains",
        "orjson.loads of it, alone",
        1 / 15,
        load,
        (next(iter(data.SETS)),),
        count=10_000,
    ),
)
