# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0 documents: some as people write them, and for hypothesis all that is accepted."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.mif2_documents import (
    ANY,
    COUNTS,
    NUMBERS,
    OBJECT,
    RATES,
    STRINGS,
    TEXT,
    objects,
    or_null,
)
from support.mif2_documents import TIMES as ANY_TIMES

MINIMAL: dict[str, Any] = {
    "$schema": "https://shodh-memory.dev/schemas/mif-v1.json",
    "mif_version": "1.0",
    "generator": {"name": "some-memory", "version": "0.1.0"},
    "export": {
        "id": "exp_a1b2c3",
        "created_at": "2026-03-03T10:45:00.000Z",
        "user_id": "user-7",
    },
    "memories": [
        {
            "id": "mem_7c9e6679-7425-70de-944b-e07fc1f90ae7",
            "content": "The garden is watered in the evening.",
            "type": "Learning",
            "created_at": "2026-03-01T08:00:00.000Z",
        }
    ],
}

SEP: dict[str, Any] = {
    "$schema": "https://shodh-memory.dev/schemas/mif-v1.json",
    "mif_version": "1.0",
    "generator": {"name": "some-memory", "version": "0.1.61"},
    "export": {
        "id": "exp_b2c3d4e5f6a7",
        "created_at": "2026-02-03T10:45:00.000Z",
        "user_id": "user-42",
        "checksum": "sha256:abcdef1234567890...",
    },
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
            "embedding": {
                "model": "minilm-l6-v2",
                "dimensions": 384,
                "vector": [0.123, -0.456, 0.789, "..."],
            },
        },
        {
            "id": "mem_e5f6g7h8...",
            "content": "API key is [REDACTED:api_key]",
            "type": "Context",
            "created_at": "2026-02-02T15:00:00.000Z",
            "redactions": [{"type": "api_key", "original_length": 32, "position": [12, 44]}],
        },
        {
            "id": "mem_c3d4...",
            "content": "The code is [REDACTED:api_key]",
            "type": "Context",
            "created_at": "2026-02-02T15:00:01.000Z",
            "redactions": [{"type": "api_key", "original_length": 32, "position": [11, 43]}],
        },
    ],
    "todos": [
        {
            "id": "todo_b2c3d4e5...",
            "short_id": "GARD-12",
            "content": "Repair the watering can",
            "status": "in_progress",
            "priority": "high",
            "created_at": "2026-02-01T09:00:00.000Z",
            "due_date": "2026-02-05T17:00:00.000Z",
            "project": {"id": "proj_garden", "name": "Garden"},
            "contexts": ["@shed", "@tools"],
            "tags": ["water", "repair"],
        }
    ],
    "graph": {
        "format": "adjacency_list",
        "node_count": 1234,
        "edge_count": 5678,
        "edges": [
            {
                "source": "mem_b2c3d4e5...",
                "target": "mem_e5f6g7h8...",
                "weight": 0.72,
                "type": "semantic_association",
                "created_at": "2026-02-02T14:30:00.000Z",
            }
        ],
        "hebbian_config": {"learning_rate": 0.1, "decay_rate": 0.05, "ltp_threshold": 0.8},
    },
    "metadata": {
        "total_memories": 1234,
        "total_todos": 56,
        "date_range": {
            "earliest": "2025-07-15T00:00:00.000Z",
            "latest": "2026-02-03T10:45:00.000Z",
        },
        "memory_types": {"Learning": 342, "Decision": 128, "Observation": 567},
        "privacy": {"pii_detected": False, "secrets_detected": False, "redacted_fields": []},
    },
    "consent": {
        "exported_by": "user@example.com",
        "purpose": "backup",
        "retention_days": 30,
        "sharing_allowed": False,
        "gdpr_basis": "user_request",
        "timestamp": "2026-02-03T10:45:00.000Z",
    },
}
"""The samples of the SEP put together, oddities and all."""

PUBLISHED: dict[str, Any] = {
    "mif_version": "1.0",
    "export": {
        "id": "exp_0001",
        "created_at": "2026-02-10T08:00:00Z",
        "user_id": "user-9",
        "checksum": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    },
    "memories": [
        {
            "id": f"mem_{i}1b2c3d4-e5f6-7890-abcd-ef1234567890",
            "content": content,
            "type": kind,
            "importance": 1,
            "decay_rate": 0.05,
            "created_at": "2026-02-01T10:00:00Z",
            "relations": {"related_memories": [other], "related_todos": []},
        }
        for i, (kind, content, other) in enumerate(
            [
                ("CodeEdit", "Renamed a function.", "mem_11b2c3d4-e5f6-7890-abcd-ef1234567890"),
                ("Pattern", "Tests come first.", "mem_01b2c3d4-e5f6-7890-abcd-ef1234567890"),
            ]
        )
    ],
    "todos": [
        {
            "id": "todo_c3d4",
            "content": "Write the release notes",
            "status": "done",
            "created_at": "2026-02-01T10:00:00Z",
            "due_date": None,
            "completed_at": "2026-02-02T10:00:00+01:00",
            "project": {"id": "proj_1", "name": "Notes", "prefix": "NOTE"},
            "notes": None,
            "recurrence": None,
            "subtask_ids": ["todo_d4e5"],
            "comments": [{"id": "c1", "content": "Soon.", "created_at": "2026-02-01T11:00:00Z"}],
            "embedding": {
                "model": "minilm-l6-v2",
                "dimensions": 2,
                "vector": [0.5, 0.25],
                "normalized": True,
            },
        }
    ],
    "graph": {
        "nodes": [
            {"id": "mem_01b2c3d4-e5f6-7890-abcd-ef1234567890", "type": "memory"},
            {"id": "ent_rust", "type": "entity", "entity_type": "TECHNOLOGY"},
        ],
        "edges": [
            {"source": "ent_rust", "target": "todo_dddd", "weight": 1, "type": "todo_memory"},
            {
                "source": "mem_01b2c3d4-e5f6-7890-abcd-ef1234567890",
                "target": "ent_rust",
                "weight": 0.5,
                "type": "entity_mention",
                "strengthened_count": 3,
            },
        ],
        "hebbian_config": {"max_weight": 1.0},
    },
    "metadata": {
        "total_memories": 2,
        "top_entities": [{"text": "Rust", "count": 2}],
        "projects": [],
    },
}
"""What the published schema has besides."""

EXAMPLES = [MINIMAL, SEP, PUBLISHED]


TIMES = ANY_TIMES.filter(lambda text: text[:1].isdigit())
IDS = st.one_of(
    st.uuids().map(lambda one: f"mem_{one}"),
    st.sampled_from(
        ["m1", "m2", "m3", "mem_a1b2...", "todo_...", "", "e\u0301", "\ufeffid", "a/b"]
    ),
)
TYPES = st.one_of(
    st.sampled_from(
        "Observation Decision Learning Error Discovery Pattern Context Task Conversation CodeEdit"
        " FileAccess Search Command Intention decision code_edit Dream".split()
    ),
    TEXT,
)
EMBEDDINGS = objects(
    {},
    {
        "model": or_null(TEXT),
        "dimensions": COUNTS,
        "vector": st.one_of(
            st.lists(NUMBERS, max_size=3),
            st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=3),
            st.just([0.123, -0.0, "..."]),
        ),
        "normalized": st.booleans(),
    },
)
REDACTIONS = st.lists(
    objects(
        {},
        {
            "type": TEXT,
            "original_length": st.integers(-1, 40),
            "position": st.sampled_from([[12, 44], [11, 43], [], [1, "x"], [44, 12]]),
        },
    ),
    max_size=2,
)
MEMORIES = objects(
    {
        "id": IDS,
        "content": st.one_of(TEXT, st.sampled_from(["one", "two", "three"])),
        "type": TYPES,
        "created_at": TIMES,
    },
    {
        "importance": or_null(RATES),
        "updated_at": or_null(ANY_TIMES),
        "accessed_at": ANY_TIMES,
        "access_count": st.one_of(st.integers(-1, 2**60), st.just(7.0)),
        "decay_rate": NUMBERS,
        "tags": or_null(st.one_of(STRINGS, st.sampled_from([["phi:ssn"], ["pii:email", "a,b"]]))),
        "source": or_null(
            objects(
                {},
                {
                    "type": or_null(st.one_of(TEXT, st.sampled_from(["conversation", "user"]))),
                    "session_id": or_null(TEXT),
                    "agent": or_null(st.one_of(TEXT, st.just("did:web:example.org"))),
                },
            )
        ),
        "entities": st.lists(
            objects({"text": TEXT}, {"type": TEXT, "confidence": NUMBERS}), max_size=2
        ),
        "embedding": or_null(EMBEDDINGS),
        "relations": objects({}, {"related_memories": STRINGS, "related_todos": or_null(STRINGS)}),
        "redactions": REDACTIONS,
    },
)
TODOS = objects(
    {
        "id": IDS,
        "content": TEXT,
        "status": st.one_of(TEXT, st.sampled_from(["done", "blocked", "cancelled", "inprogress"])),
        "created_at": TIMES,
    },
    {
        "short_id": TEXT,
        "priority": or_null(st.sampled_from(["urgent", "none", "!!!", "!", "", "soon"])),
        "due_date": or_null(ANY_TIMES),
        "project": or_null(objects({}, {"id": TEXT, "name": TEXT})),
        "contexts": STRINGS,
        "tags": STRINGS,
        "recurrence": or_null(st.one_of(TEXT, st.just("daily"))),
        "comments": st.lists(objects({}, {"content": TEXT, "created_at": ANY_TIMES}), max_size=1),
        "embedding": or_null(EMBEDDINGS),
    },
)
NODES = objects(
    {"id": IDS}, {"type": or_null(st.one_of(TEXT, st.just("entity"))), "entity_type": TEXT}
)
EDGES = objects(
    {"source": IDS, "target": IDS},
    {
        "weight": or_null(NUMBERS),
        "type": or_null(st.one_of(TEXT, st.just("causal"))),
        "created_at": or_null(ANY_TIMES),
        "strengthened_count": st.integers(),
    },
)
CONSENTS = objects(
    {},
    {
        "exported_by": or_null(st.one_of(TEXT, st.just("did:web:example.org"))),
        "purpose": TEXT,
        "retention_days": or_null(
            st.one_of(st.integers(0, 2**70), st.sampled_from([0, 30, 30.0]))
        ),
        "sharing_allowed": or_null(st.booleans()),
        "gdpr_basis": TEXT,
        "timestamp": ANY_TIMES,
    },
)
DOCUMENTS = objects(
    {"mif_version": st.sampled_from(["1.0", "1.0", "1.1", "1.12.3", "1", 1, 1.0, 1.5])},
    {
        "$schema": or_null(TEXT),
        "generator": or_null(objects({}, {"name": ANY, "version": TEXT})),
        "export": or_null(
            objects(
                {},
                {
                    "id": TEXT,
                    "created_at": or_null(ANY_TIMES),
                    "user_id": st.one_of(TEXT, st.sampled_from(["user-1", 7])),
                    "checksum": or_null(st.sampled_from(["sha256:abc...", "", "md5:1"])),
                },
            )
        ),
        "memories": or_null(st.lists(MEMORIES, max_size=4)),
        "todos": or_null(st.lists(TODOS, max_size=2)),
        "graph": or_null(
            objects(
                {},
                {
                    "format": ANY,
                    "node_count": ANY,
                    "edge_count": st.integers(),
                    "nodes": or_null(st.lists(NODES, max_size=2)),
                    "edges": or_null(st.lists(EDGES, max_size=2)),
                    "hebbian_config": st.one_of(ANY, objects({}, {"learning_rate": NUMBERS})),
                },
            )
        ),
        "metadata": st.one_of(ANY, OBJECT),
        "consent": or_null(CONSENTS),
        "type": ANY,
        "x_members": ANY,
    },
)
"""Whatever the SEP, the published schema or the reference implementation accept."""
