# SPDX-License-Identifier: Apache-2.0
"""A bundle that holds a bit of everything."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Final

from omsgrain.formats.aimem import checksum

PRODUCER: Final = "probe"
TENANT: Final = "11111111-1111-4111-8111-111111111111"

Document = dict[str, Any]


def chunk(local: str, content: str, **more: Any) -> Document:
    """A chunk with what must be there, and its hash."""
    return {
        "id": f"urn:aimem:{PRODUCER}:{local}",
        "content": content,
        "content_hash": f"sha256:{sha256(content.encode()).hexdigest()}",
        "memory_type": "fact",
        "created_at": "2026-04-01T09:30:00Z",
        **more,
    }


def bundle() -> Document:
    """A good bundle, without its checksum."""
    urn = f"urn:aimem:{PRODUCER}:"
    time = "2026-04-15T08:00:00Z"
    return {
        "format": "aimem-bundle",
        "version": "1",
        "producer": PRODUCER,
        "tenant_id": TENANT,
        "exported_at": "2026-06-12T10:00:00Z",
        "scope": "FULL",
        "embedding_dim": 2,
        "embedding_model": "probe-2",
        "chunks": [
            chunk("c1", "The lamp in the hall is on."),
            chunk(
                "c2",
                "Ada likes tea.",
                memory_type="preference",
                zone="important",
                is_pinned=True,
                tags=["tea", "t\u00e9"],
                embedding="AACAPwAAAEA=",
            ),
            chunk("c3", "Find the key.", memory_type="goal", zone=None, tags=[], embedding=None),
        ],
        "edges": [
            {
                "source_id": urn + "c1",
                "target_id": urn + "c2",
                "edge_type": "hebbian",
                "weight": 0.42,
                "created_at": time,
            }
        ],
        "entities": [{"id": urn + "e1", "name": "Ada", "kind": "person", "created_at": time}],
        "chunk_entities": [{"chunk_id": urn + "c2", "entity_id": urn + "e1"}],
    }


def renamed(document: Document, producer: str) -> Document:
    """The same of another producer, so that a server has seen none of it."""
    text = json.dumps(document).replace(f"urn:aimem:{PRODUCER}:", f"urn:aimem:{producer}:")
    whole: Document = json.loads(text)
    return {**whole, "producer": producer} if whole.get("producer") == PRODUCER else whole


def sealed(document: Document) -> Document:
    """The same with its checksum."""
    return document | {"checksum": checksum.of_document(spelled(document))}


def spelled(document: Any) -> bytes:
    """As JSON."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")
