# SPDX-License-Identifier: Apache-2.0
"""Bundles from the draft's grammar, for hypothesis: every freedom that it leaves is taken."""

from __future__ import annotations

import base64
import struct
from hashlib import sha256
from typing import Any

from hypothesis import strategies as st

TENANT = "11111111-1111-4111-8111-111111111111"
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(
        ["e\u0301", "\u00e9", "\ufeffx", "\u212a", "\u0000", "a\U0001f600", "line\nend"]
    ),
)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 0.0, -0.0, 1.0, 1e-05, 1e21, 2**53 + 1]),
)
ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=5,
)
UNKNOWN = st.dictionaries(st.sampled_from(["x", "note", "e\u0301", "\U0001f600"]), ANY, max_size=2)
LOCAL = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=":"),
    min_size=1,
    max_size=6,
)
TIMES = st.sampled_from(
    [
        "2026-04-01T09:30:00Z",
        "2026-04-01T09:30:00.000Z",
        "2026-04-01T09:30:00.123456789Z",
        "2026-04-01T09:30:00+00:00",
        "2026-04-01t09:30Z",
        "1969-12-31T23:59:59.5Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:60Z",
    ]
)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[bool, Any]]:
    """Absent, null, or a value."""
    return st.one_of(
        st.just((False, None)), st.just((True, None)), values.map(lambda value: (True, value))
    )


def hash_of(text: str) -> str:
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def embedding(floats: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(floats)}f", *floats)).decode()


@st.composite
def chunks(draw: st.DrawFn, name: str, dimension: int) -> dict[str, Any]:
    content = draw(TEXT.filter(bool))
    kinds = [
        "fact",
        "preference",
        "decision",
        "identity",
        "pitfall",
        "procedure",
        "episodic",
        "goal",
    ]
    record = {
        "id": name,
        "content": content,
        "memory_type": draw(st.sampled_from(kinds)),
        "created_at": draw(TIMES),
    }
    floats = st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False),
        min_size=dimension,
        max_size=dimension,
    )
    tags = st.one_of(
        st.lists(TEXT.filter(bool), max_size=3),
        st.sampled_from([["phi:ssn"], ["profile:healthcare", "phi:dob"], ["pii:email"]]),
    )
    more = {
        "content_hash": st.just(hash_of(content)),
        "zone": st.sampled_from(["critical", "important", "standard"]),
        "is_pinned": st.booleans(),
        "tags": tags,
        "embedding": floats.map(embedding),
    }
    for key, values in more.items():
        there, value = draw(optional(values))
        if there:
            record[key] = value
    return draw(st.just(record | draw(UNKNOWN)))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A valid bundle, without its checksum."""
    producer = draw(st.sampled_from(["a", "memory-1", "0" * 63]))
    dimension = draw(st.integers(1, 3))
    names = [
        f"urn:aimem:{producer}:{local}" for local in draw(st.lists(LOCAL, max_size=4, unique=True))
    ]
    bundle: dict[str, Any] = {
        "format": "aimem-bundle",
        "version": "1",
        "producer": producer,
        "tenant_id": draw(
            st.sampled_from([TENANT, "did:web:example.org:ada", "https://example.org/%C3%A9"])
        ),
        "exported_at": draw(TIMES),
        "scope": draw(st.sampled_from(["FULL", "DNA_ONLY", "SINCE"])),
        "embedding_dim": dimension,
        "embedding_model": "small",
        "chunks": [draw(chunks(name, dimension)) for name in names],
    } | draw(UNKNOWN)
    if bundle["scope"] == "SINCE":
        bundle["since"] = draw(TIMES)
    kinds = st.one_of(
        st.sampled_from(["person", "organization", "concept"]), LOCAL.map(lambda x: "x-" + x)
    )
    entities = [
        {
            "id": f"urn:aimem:{producer}:{local}",
            "name": draw(TEXT.filter(bool)),
            "kind": draw(kinds),
            "created_at": draw(TIMES),
        }
        | draw(UNKNOWN)
        for local in draw(st.lists(LOCAL, max_size=2, unique=True))
    ]
    weights = st.one_of(st.floats(0, 1), st.sampled_from([0, 1, 0.85, 1e-07]))
    types = st.one_of(st.sampled_from(["hebbian", "causal"]), LOCAL.map(lambda x: "x-" + x))
    edges = links = []
    if names:
        name = st.sampled_from(names)
        edges = [
            {
                "source_id": draw(name),
                "target_id": draw(name),
                "edge_type": draw(types),
                "weight": draw(weights),
                "created_at": draw(TIMES),
            }
            | draw(UNKNOWN)
            for _ in range(draw(st.integers(0, 3)))
        ]
        links = [
            {"chunk_id": draw(name), "entity_id": entity["id"]} | draw(UNKNOWN)
            for entity in entities
        ]
    arrays = (("edges", edges), ("entities", entities), ("chunk_entities", links))
    return bundle | {key: array for key, array in arrays if array or draw(st.booleans())}
