# SPDX-License-Identifier: Apache-2.0
"""Documents of MIF to be changed, and what must be said of them then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import edited
from omsgrain.conformance.rule import Check, Tried

MIF2: Final[dict[str, Any]] = {
    "mif_version": "2.0",
    "generator": {"name": "some-memory", "version": "0.3.1"},
    "export_meta": {
        "id": "9b2f0c11-0e0d-4d55-8a3c-5d0f1c2b3a49",
        "created_at": "2026-03-02T12:30:00.250+02:00",
        "user_id": "user-42",
        "checksum": "sha256:" + "0a" * 32,
        "privacy": {"pii_detected": True, "redacted_fields": ["email"]},
    },
    "memories": [
        {
            "id": "a1b2c3d4-e5f6-4890-9bcd-ef1234567890",
            "content": "Ada keeps the notes of the garden in a store that needs no server.",
            "created_at": "2026-02-20T09:15:00Z",
            "memory_type": "observation",
            "updated_at": "2026-02-21T09:15:00Z",
            "tags": ["garden", "storage"],
            "entities": [{"name": "LMDB", "entity_type": "technology", "confidence": 0.95}],
            "metadata": {"score": 0.87, "count": 3},
            "embeddings": {"model": "minilm-l6-v2", "dimensions": 3, "vector": [0.1, -0.25, 0.33],
                           "normalized": True},
            "source": {"source_type": "user", "session_id": "s-7", "agent_name": "assistant"},
            "parent_id": None,
            "related_memory_ids": ["b2c3d4e5-f6a7-4901-acde-f12345678901"],
            "agent_id": "agent-1",
            "external_id": "ext-9",
            "version": 1,
        },
        {
            "id": "b2c3d4e5-f6a7-4901-acde-f12345678901",
            "content": "The roses stay where they are.",
            "created_at": "2026-02-22T17:00:00Z",
        },
    ],
    "knowledge_graph": {
        "entities": [
            {"id": "ent-001", "name": "LMDB", "types": ["technology"],
             "attributes": {"category": "database"}, "summary": "A store in one file"},
            {"id": "ent-002", "name": "garden"},
        ],
        "relationships": [
            {"id": "rel-001", "source_entity_id": "ent-001", "target_entity_id": "ent-002",
             "relation_type": "works_with", "confidence": 0.9},
        ],
    },
    "vendor_extensions": {"mem0": {"organization_id": "org-123", "nothing": None}},
}  # fmt: skip
"""All that MIF 2.0 draws."""

MIF1: Final[dict[str, Any]] = {
    "$schema": "https://shodh-memory.dev/schemas/mif-v1.json",
    "mif_version": "1.0",
    "generator": {"name": "some-memory", "version": "0.1.61"},
    "export": {"id": "exp_b2c3d4e5f6a7", "created_at": "2026-02-03T10:45:00.000Z",
               "user_id": "user-42"},
    "memories": [
        {
            "id": "mem_b2c3d4e5-f6a7-8901-bcde-f12345678901",
            "content": "Ada keeps the notes of the garden in LMDB.",
            "type": "Learning",
            "importance": 0.85,
            "created_at": "2026-02-02T14:30:00.000Z",
            "updated_at": "2026-02-02T14:30:00.000Z",
            "accessed_at": "2026-02-03T09:15:00.000Z",
            "access_count": 7,
            "tags": ["lmdb", "garden"],
            "source": {"type": "conversation", "session_id": "sess_1", "agent": "helper"},
            "entities": [{"text": "LMDB", "type": "TECHNOLOGY", "confidence": 0.95}],
            "embedding": {"model": "minilm-l6-v2", "dimensions": 3, "vector": [0.5, -0.25, 0.125],
                          "normalized": True},
        },
        {
            "id": "mem_c3d4e5f6",
            "content": "API key is [REDACTED:api_key]",
            "type": "Context",
            "created_at": "2026-02-02T15:00:00.000Z",
            "redactions": [{"type": "api_key", "original_length": 32, "position": [11, 43]}],
        },
    ],
    "todos": [
        {
            "id": "todo_b2c3d4e5",
            "short_id": "GARD-12",
            "content": "Repair the watering can",
            "status": "in_progress",
            "priority": "high",
            "created_at": "2026-01-01T09:00:00.000Z",
            "due_date": "2026-01-05T17:00:00.000Z",
            "project": {"id": "proj_1", "name": "Garden"},
            "contexts": ["@shed"],
            "tags": ["tools"],
        }
    ],
    "graph": {
        "format": "adjacency_list",
        "node_count": 2,
        "edge_count": 1,
        "edges": [
            {"source": "mem_b2c3d4e5-f6a7-8901-bcde-f12345678901", "target": "mem_c3d4e5f6",
             "weight": 0.72, "type": "semantic_association",
             "created_at": "2026-02-02T14:30:00.000Z"},
        ],
        "hebbian_config": {"learning_rate": 0.1, "decay_rate": 0.05, "ltp_threshold": 0.8},
    },
    "metadata": {
        "total_memories": 2,
        "total_todos": 1,
        "date_range": {"earliest": "2026-02-02T14:30:00.000Z",
                       "latest": "2026-02-02T15:00:00.000Z"},
        "memory_types": {"Learning": 1, "Context": 1},
        "privacy": {"pii_detected": False, "secrets_detected": True, "redacted_fields": []},
    },
    "consent": {"exported_by": "user@example.com", "purpose": "backup", "retention_days": 30,
                "sharing_allowed": False, "gdpr_basis": "user_request",
                "timestamp": "2026-01-03T10:45:00.000Z"},
}  # fmt: skip
"""All that the SEP draws, but for encryption."""


class Case(NamedTuple):
    """A change of a document, and what must be said of it.

    Attributes:
        edits: what is changed.
        expected: a rule and its pointer; of one that is taken and told, the rule after a ``~``;
            nothing: taken, and nothing told.
    """

    edits: Mapping[str, Any]
    expected: str = ""


def case(pointer: str, value: Any, rule: str = "") -> Case:
    """A change in one place, with what must be said of just that place."""
    return Case({pointer: value}, f"{rule} {pointer}" if rule else "")


def spelled(document: Any) -> bytes:
    """As JSON."""
    return json.dumps(document).encode()


def judged(judge: Callable[[bytes], list[str]], base: Any, *cases: Case) -> Check:
    """A check of changed documents."""

    def check(_: Bench) -> Iterator[Tried]:
        yield Tried("a good document", [], judge(spelled(base)))
        for one in cases:
            found = judge(spelled(edited(base, one.edits)))
            what = ", ".join(f"{p or 'the whole'}: {_shown(v)}" for p, v in one.edits.items())
            first = next((said for said in found if said == one.expected), None)
            yield Tried(what, one.expected, first or (found[0] if found else ""))

    return check


def _shown(value: Any) -> str:
    if value == "\x00gone":
        return "missing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"
