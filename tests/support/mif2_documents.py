# SPDX-License-Identifier: Apache-2.0
"""MIF 2.0 documents: some as people write them, and for hypothesis all that the format allows."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

MINIMAL: dict[str, Any] = {
    "mif_version": "2.0",
    "memories": [
        {
            "id": "7c9e6679-7425-70de-944b-e07fc1f90ae7",
            "content": "The garden is watered in the evening.",
            "created_at": "2026-03-01T08:00:00Z",
        }
    ],
}

PLACEHOLDERS: dict[str, Any] = {
    "mif_version": "2.0",
    "generator": {"name": "some-memory", "version": "1.0.0"},
    "export_meta": {
        "id": "5d0e8400-e29b-41d4-a716-446655440000",
        "created_at": "2026-03-03T10:00:00Z",
        "user_id": "user-1",
        "checksum": "sha256:abc123...",
        "privacy": {"pii_detected": False, "redacted_fields": []},
    },
    "memories": [],
    "knowledge_graph": None,
    "vendor_extensions": {},
}

FULL: dict[str, Any] = {
    "mif_version": "2.0",
    "generator": {"name": "some-memory", "version": "0.3.1"},
    "export_meta": {
        "id": "9b2f0c11-0e0d-4d55-8a3c-5d0f1c2b3a49",
        "created_at": "2026-03-02T12:30:00.250+02:00",
        "user_id": "user-42",
        "checksum": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "privacy": {"pii_detected": True, "secrets_detected": False, "redacted_fields": ["email"]},
    },
    "memories": [
        {
            "id": "a1b2c3d4-e5f6-1890-1bcd-ef1234567890",
            "content": "Ada keeps the notes of the garden in a store that needs no server.",
            "created_at": "2026-02-20T09:15:00Z",
            "memory_type": "observation",
            "updated_at": "2026-02-21T09:15:00Z",
            "tags": ["garden", "storage"],
            "entities": [{"name": "LMDB", "entity_type": "technology", "confidence": 0.95}],
            "metadata": {"score": 0.87, "count": 3, "content_type": "text/plain"},
            "embeddings": {
                "model": "minilm-l6-v2",
                "dimensions": 384,
                "vector": [0.1, -0.25, 0.33],
                "normalized": True,
            },
            "source": {
                "source_type": "user",
                "session_id": "session-7",
                "agent_name": "assistant",
            },
            "parent_id": None,
            "related_memory_ids": ["b2c3d4e5-f6a7-2901-2cde-f12345678901"],
            "agent_id": "agent-1",
            "external_id": "ext-9",
            "version": 1,
        },
        {
            "id": "b2c3d4e5-f6a7-2901-2cde-f12345678901",
            "content": "The roses stay where they are.",
            "created_at": "2026-02-22T17:00:00Z",
            "memory_type": "decision",
            "tags": [],
            "parent_id": "a1b2c3d4-e5f6-1890-1bcd-ef1234567890",
            "related_memory_ids": ["a1b2c3d4-e5f6-1890-1bcd-ef1234567890"],
            "version": 2,
        },
    ],
    "knowledge_graph": {
        "entities": [
            {
                "id": "ent-001",
                "name": "LMDB",
                "types": ["technology"],
                "attributes": {"category": "store", "year": 2011},
                "summary": "A store of keys and values.",
                "created_at": "2026-02-20T09:15:00Z",
                "last_seen_at": "2026-02-22T17:00:00Z",
            },
            {"id": "ent-002", "name": "the garden"},
        ],
        "relationships": [
            {
                "id": "rel-001",
                "source_entity_id": "ent-002",
                "target_entity_id": "ent-001",
                "relation_type": "uses",
                "context": "notes",
                "confidence": 0.9,
                "created_at": "2026-02-20T09:15:00Z",
                "invalidated_at": None,
            }
        ],
    },
    "vendor_extensions": {
        "shodh-memory": {
            "memory_metadata": {"a1b2c3d4-e5f6-1890-1bcd-ef1234567890": {"importance": 0.85}}
        },
        "another": {"organization": "org-1"},
    },
}

DIALECT: dict[str, Any] = {
    "mif_version": "2.0",
    "generator": {"name": "shodh-memory", "version": "0.1.9"},
    "export_meta": {
        "id": "1d0e8400-e29b-41d4-a716-446655440001",
        "created_at": "2026-03-04T10:00:00.123456789Z",
        "user_id": "user-1",
        "checksum": "sha256:4a93ceb01d16106acc8cb437585cfbba045a997dd788b19e8f4995e237a421d2",
        "privacy": {"pii_detected": False, "secrets_detected": False, "redacted_fields": []},
    },
    "memories": [
        {
            "id": f"00000000-0000-4000-8000-00000000000{i}",
            "content": content,
            "memory_type": kind,
            "created_at": "2026-03-01T08:00:00Z",
            "tags": [],
            "entities": [],
            "metadata": {"tool": "editor"},
            "source": {"source_type": "ai_generated", "agent": "did:key:z6MkAgent"},
            "related_todo_ids": ["00000000-0000-4000-8000-0000000000a0"],
            "version": 1,
        }
        for i, (kind, content) in enumerate(
            [
                ("conversation", "Shall we water the garden?"),
                ("code_edit", "Renamed a function."),
                ("intention", "Plant a tree."),
            ]
        )
    ],
    "todos": [
        {
            "id": "00000000-0000-4000-8000-0000000000a0",
            "content": "Buy a watering can.",
            "status": "in_progress",
            "priority": "high",
            "created_at": "2026-03-01T08:00:00Z",
            "updated_at": "2026-03-01T09:00:00Z",
            "due_date": "2026-03-05T08:00:00Z",
            "project_id": "00000000-0000-4000-8000-0000000000b0",
            "tags": ["garden"],
            "contexts": ["@town"],
            "comments": [
                {"id": "c", "content": "A green one.", "created_at": "2026-03-01T08:30:00Z"}
            ],
            "blocked_by": ["00000000-0000-4000-8000-0000000000a1"],
        },
        {
            "id": "00000000-0000-4000-8000-0000000000a1",
            "content": "Save some money.",
            "status": "cancelled",
            "priority": "",
            "created_at": "2026-03-01T08:00:00Z",
            "updated_at": "2026-03-01T08:00:00Z",
        },
    ],
    "projects": [
        {
            "id": "00000000-0000-4000-8000-0000000000b0",
            "name": "Garden",
            "prefix": "GAR",
            "status": "onhold",
            "created_at": "2026-03-01T08:00:00Z",
        }
    ],
    "reminders": [],
    "knowledge_graph": {"entities": [], "relationships": [], "episodes": []},
}


def spelled(document: Any) -> bytes:
    return json.dumps(document).encode()


TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(
        ["", "e\u0301", "\u00e9", "\ufeffx", "\u212a", "\u0000", "a\U0001f600", "a\nb"]
    ),
)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 0.0, -0.0, 1, 1.0, 1e2, 1e-05, 1e21, 2**53 + 1, 0.1, 2**64]),
)
ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=5,
)
OBJECT = st.dictionaries(TEXT, ANY, max_size=3)
UNKNOWN = st.dictionaries(
    st.sampled_from(["x", "note", "e\u0301", "\U0001f600", "=", "value", "related_todo_ids"]),
    ANY,
    max_size=1,
)
IDS = st.one_of(
    st.uuids().map(str),
    st.sampled_from(
        [
            "00000000-0000-0000-0000-000000000000",
            "A1B2C3D4-E5F6-1890-1BCD-EF1234567890",
            "01890a5d-ac96-774b-bcce-b302099a8057",
            "ent-001",
            "",
            "e\u0301",
            "\ufeffid",
            "a/b~c",
        ]
    ),
)
TIMES = st.sampled_from(
    [
        "2026-04-01T09:30:00Z",
        "2026-04-01T09:30:00.000Z",
        "2026-04-01T09:30:00.123456789+05:30",
        "2026-04-01T09:30:00-23:59",
        "2026-04-01t09:30:00z",
        "2026-04-01",
        "2026-04-01 09:30",
        "1969-12-31T23:59:59.5Z",
        "1970-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:60Z",
        "last week",
        "",
    ]
)
STRINGS = st.lists(TEXT, max_size=2)
NAMES = st.one_of(IDS, TEXT)
RATES = st.one_of(st.floats(0, 1), st.sampled_from([0, 1, -0.0, 0.85, 1e-07]))
COUNTS = st.one_of(st.integers(1, 2**60), st.sampled_from([1, 1.0, 2.0, 1e2]))


def objects(
    required: dict[str, st.SearchStrategy[Any]],
    optional: dict[str, st.SearchStrategy[Any]] | None = None,
) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these fields, unknown ones, and keys in any order."""
    known = st.fixed_dictionaries(required, optional=optional or {})
    both = st.tuples(UNKNOWN, known).map(lambda pair: pair[0] | pair[1])
    return both.flatmap(
        lambda whole: st.sampled_from([list(whole), list(whole)[::-1], sorted(whole)]).map(
            lambda keys: {key: whole[key] for key in keys}
        )
    )


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


EMBEDDINGS = objects(
    {
        "model": TEXT,
        "dimensions": COUNTS,
        "vector": st.one_of(
            st.lists(NUMBERS, max_size=3),
            st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=3),
            st.just([0.1, -0.0, 1e-30]),
        ),
    },
    {"normalized": st.booleans()},
)
SOURCES = objects(
    {},
    {
        "source_type": st.one_of(TEXT, st.sampled_from(["user", "ai_generated", "file"])),
        "session_id": TEXT,
        "agent_name": TEXT,
        "agent": st.one_of(ANY, st.just("did:web:example.org")),
    },
)
TYPES = st.one_of(
    st.sampled_from(
        "observation decision learning error context conversation discovery pattern task code_edit"
        " file_access search command intention dream".split()
    ),
    TEXT,
)
MEMORIES = objects(
    {
        "id": st.one_of(IDS, st.sampled_from(["m1", "m2", "m3"])),
        "content": st.one_of(TEXT, st.sampled_from(["one", "two", "three"])),
        "created_at": TIMES,
    },
    {
        "memory_type": TYPES,
        "updated_at": TIMES,
        "tags": st.one_of(STRINGS, st.sampled_from([["phi:ssn"], ["profile:healthcare"]])),
        "entities": st.lists(
            objects({"name": TEXT}, {"entity_type": TEXT, "confidence": RATES}), max_size=2
        ),
        "metadata": st.one_of(OBJECT, st.sampled_from([{"score": 0.5}, {"role": "user"}])),
        "embeddings": EMBEDDINGS,
        "source": SOURCES,
        "parent_id": or_null(st.sampled_from(["m1", "m2", "m3", "m4"])),
        "related_memory_ids": st.lists(st.sampled_from(["m1", "m2", "m3", "m4"]), max_size=3),
        "agent_id": or_null(TEXT),
        "external_id": or_null(TEXT),
        "version": COUNTS,
    },
)
ENTITIES = objects(
    {"id": NAMES, "name": TEXT},
    {
        "types": STRINGS,
        "attributes": OBJECT,
        "summary": TEXT,
        "created_at": TIMES,
        "last_seen_at": TIMES,
        "fine_type": ANY,
    },
)
RELATIONSHIPS = objects(
    {
        "id": NAMES,
        "source_entity_id": NAMES,
        "target_entity_id": NAMES,
        "relation_type": TEXT,
    },
    {
        "context": TEXT,
        "confidence": RATES,
        "created_at": TIMES,
        "invalidated_at": or_null(TIMES),
        "valid_at": st.one_of(TIMES, ANY),
    },
)
TODOS = objects(
    {"id": IDS, "content": TEXT},
    {
        "status": or_null(st.one_of(TEXT, st.sampled_from(["done", "blocked", "cancelled"]))),
        "priority": or_null(st.one_of(TEXT, st.sampled_from(["urgent", "none", "!!"]))),
        "created_at": or_null(TIMES),
        "due_date": or_null(TIMES),
        "tags": or_null(STRINGS),
        "recurrence": or_null(TEXT),
        "comments": st.lists(objects({"id": IDS, "content": TEXT}), max_size=1),
    },
)
PROJECTS = objects(
    {"id": IDS, "name": TEXT}, {"status": or_null(st.sampled_from(["onhold", "on_hold", "x"]))}
)
TRIGGERS = st.one_of(
    objects({"type": st.just("time"), "at": or_null(TIMES)}),
    objects({"type": st.just("duration"), "seconds": NUMBERS, "from": TIMES}),
    objects({"type": st.just("context")}, {"keywords": STRINGS, "threshold": NUMBERS}),
)
REMINDERS = objects(
    {"id": IDS, "content": TEXT, "trigger": TRIGGERS},
    {
        "status": or_null(st.sampled_from(["pending", "dismissed", "expired"])),
        "priority": or_null(st.one_of(COUNTS, st.integers())),
        "tags": STRINGS,
    },
)
EPISODES = objects(
    {"id": IDS, "name": TEXT}, {"content": or_null(TEXT), "created_at": TIMES, "source": TEXT}
)


def _of_dialect(records: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The format knows none of these, so they can have any value."""
    return st.one_of(st.lists(st.one_of(records, records, ANY), max_size=3), ANY)


GRAPHS = objects(
    {},
    {
        "entities": st.lists(ENTITIES, max_size=2),
        "relationships": st.lists(RELATIONSHIPS, max_size=2),
        "episodes": _of_dialect(EPISODES),
    },
)
META = objects(
    {},
    {
        "id": IDS,
        "created_at": TIMES,
        "user_id": st.one_of(TEXT, st.just("user-1")),
        "checksum": st.sampled_from(["sha256:ABCdef", "sha256:abc123...", "", "md5:1"]),
        "privacy": objects({}, {"pii_detected": st.booleans(), "redacted_fields": STRINGS}),
    },
)
DOCUMENTS = objects(
    {
        "mif_version": st.sampled_from(["2.0", "2.1", "2.", "2.0.0-rc"]),
        "memories": st.lists(MEMORIES, max_size=4),
    },
    {
        "generator": objects({"name": TEXT, "version": TEXT}),
        "export_meta": META,
        "knowledge_graph": or_null(GRAPHS),
        "vendor_extensions": st.one_of(
            OBJECT, st.dictionaries(st.sampled_from(["shodh-memory", "mem0", "omsgrain"]), ANY)
        ),
        "todos": _of_dialect(TODOS),
        "projects": _of_dialect(PROJECTS),
        "reminders": _of_dialect(REMINDERS),
    },
)
"""Whatever the published rules of the format accept."""
