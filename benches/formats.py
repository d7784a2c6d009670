# SPDX-License-Identifier: Apache-2.0
"""Rows F: documents of other formats to grains."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from benches import peer
from benches.measure import Case, Plan, Row, check, timed
from omsgrain import formats
from omsgrain.formats.aimem.document import checksum_of

_KINDS = ("fact", "preference", "decision", "identity", "pitfall", "procedure", "episodic", "goal")
_ZONES = ("critical", "important", "standard")
_TYPES = ("observation", "decision", "learning", "error", "context", "conversation", "pattern")


def _time(i: int) -> str:
    return f"2026-04-{i % 28 + 1:02}T{i % 24:02}:{i % 60:02}:{i % 59:02}Z"


def _content(i: int) -> str:
    return f"robot-{i % 500} found shelf {i} with {i % 17} boxes, and counted them twice"


def _bundle(count: int) -> bytes:
    """An AIMEM bundle of so many chunks, about 370 bytes each."""
    chunks = []
    for i in range(count):
        content = _content(i)
        chunks.append(
            {
                "id": f"urn:aimem:robot-7:chunk-{i}",
                "content": content,
                "content_hash": f"sha256:{sha256(content.encode()).hexdigest()}",
                "memory_type": _KINDS[i % 8],
                "zone": _ZONES[i % 3],
                "is_pinned": False,
                "created_at": _time(i),
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
    total = checksum_of(json.dumps(document).encode())
    return json.dumps(document | {"checksum": total}).encode()


def _mif2(count: int) -> bytes:
    """A MIF 2.0 document of so many memories, about 450 bytes each."""
    space = uuid.UUID("11111111-1111-4111-8111-111111111111")
    memories = [
        {
            "id": str(uuid.uuid5(space, str(i))),
            "content": _content(i),
            "memory_type": _TYPES[i % len(_TYPES)],
            "created_at": _time(i),
            "updated_at": _time(i + 1),
            "tags": ["inventory", "shelf"],
            "entities": [{"name": f"shelf {i}", "entity_type": "location", "confidence": 0.9}],
            "metadata": {"row": i % 17, "counted": True},
            "source": {"source_type": "system", "agent_name": "robot-7"},
            "parent_id": None,
            "version": 1,
        }
        for i in range(count)
    ]
    document = {
        "mif_version": "2.0",
        "generator": {"name": "robot-7", "version": "1"},
        "export_meta": {"created_at": "2026-06-12T10:00:00Z", "user_id": "user-7"},
        "memories": memories,
    }
    return json.dumps(document).encode()


def _mif_ld(count: int) -> bytes:
    """A corpus of MIF in JSON-LD with so many memories, about 900 bytes each."""
    kinds = ("semantic", "episodic", "procedural")
    records = [
        {
            "kind": "memory",
            "payload": {
                "@context": "https://mif-spec.dev/schema/context.jsonld",
                "@type": "Memory",
                "@id": f"urn:mif:{uuid.UUID(int=i)}",
                "memoryType": kinds[i % len(kinds)],
                "content": _content(i),
                "created": _time(i),
                "title": f"Shelf {i}",
                "namespace": f"_{kinds[i % len(kinds)]}/shelves",
                "tags": ["patrol", f"aisle-{i % 12}"],
                "relationships": [
                    {
                        "@type": "Relationship",
                        "relationshipType": "RelatesTo",
                        "target": {"@id": f"urn:mif:{uuid.UUID(int=i // 2)}"},
                        "strength": 0.5,
                    }
                ],
                "temporal": {"validFrom": _time(i), "ttl": "P90D", "accessCount": i % 7},
                "provenance": {"sourceType": "agent_inferred", "confidence": 0.6},
            },
        }
        for i in range(count)
    ]
    corpus = {
        "@context": "https://mif-spec.dev/schema/context.jsonld",
        "@type": "MemoryCorpus",
        "records": records,
    }
    return json.dumps(corpus).encode()


_DOCUMENTS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "AIMEM": ("aimem", _bundle),
    "MIF 2.0": ("mif2", _mif2),
    "MIF-LD": ("mif-ld", _mif_ld),
}


def load(plan: Plan) -> Case:
    orjson = peer.module("orjson")
    format, make = _DOCUMENTS[plan.set]
    text = make(plan.count)
    loaded = formats.load(text)
    again = formats.dump(loaded, format=format)
    check(orjson.loads(again.data) == orjson.loads(text), "the document comes back")
    check(len(loaded.grains) > plan.count, "a grain a record")
    return Case(timed(lambda: formats.load(text)), timed(lambda: orjson.loads(text)), plan.count)


ROWS = (
    Row(
        "F1",
        "load a document of another format: checks, checksum, grains",
        "orjson.loads of it, alone",
        1 / 10,
        load,
        tuple(name for name, (format, _) in _DOCUMENTS.items() if format in formats.FORMATS),
        count=10_000,
    ),
)
