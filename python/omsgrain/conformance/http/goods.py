# SPDX-License-Identifier: Apache-2.0
"""What a bundle may be: freedoms that the draft leaves, and what we recommend to take besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from omsgrain.conformance.edits import GONE
from omsgrain.conformance.http.faults import Basis


class Good(NamedTuple):
    """One change after which a bundle is as good as before.

    Attributes:
        name: in short.
        section: of the draft.
        edits: what is changed; the checksum is made anew.
        warning: the rule that a reader warns of.
        basis: who says so.
    """

    name: str
    section: str
    edits: Mapping[str, Any]
    warning: str | None = None
    basis: Basis = "draft"


_U = "urn:aimem:probe:"
_OURS: Basis = "recommendation"

GOODS: Final[tuple[Good, ...]] = (
    Good("nothing changed", "2", {}),
    Good("no records", "2.1", {n: [] for n in ("/chunks", "/edges", "/entities",
        "/chunk_entities")}),
    *(
        Good(f"tenant_id: {name}", "2.1", {"/tenant_id": value})
        for name, value in (
            ("a DID", "did:web:example.org:robot-7"),
            ("a URI", "https://example.org/tenants/7"),
            ("a UUID in upper case", "AAAAAAAA-BBBB-4CCC-8DDD-EEEEEEEEEEEE"),
        )
    ),
    Good("scope SINCE", "2.1", {"/scope": "SINCE", "/since": "2026-01-01T00:00:00Z"}),
    *(
        Good(f"created_at: {name}", "2.2", {"/chunks/2/created_at": value})
        for name, value in (
            ("a fraction", "2026-01-15T10:00:00.123456Z"),
            ("a zero offset", "2026-01-15T10:00:00+00:00"),
            ("before 1970", "1969-07-20T20:17:40Z"),
            ("a leap second", "2016-12-31T23:59:60Z"),
        )
    ),
    Good("no content_hash", "2.2", {"/chunks/2/content_hash": GONE}),
    Good("no optional field", "2.2", {f"/chunks/2/{n}": GONE for n in ("zone", "tags",
        "embedding")}),
    Good(
        "65,536 code points beyond the first plane", "2.2",
        {"/chunks/2/content": "\U0001f600" * 65_536, "/chunks/2/content_hash": GONE},
    ),
    Good(
        "text that is not composed", "2.2",
        {"/chunks/2/content": "Cafe\u0301", "/chunks/2/content_hash":
         "sha256:c42cc7a1ca08364b6fd859fa50d2454730a8236290a423373cc630da77c6d711"},
    ),
    Good("a tag of 64 code points", "2.2", {"/chunks/2/tags": ["\U0001f600" * 64]}),
    Good(
        "a local part of 256 characters", "2.3",
        {"/chunks/2/id": _U + "~!#$%&'()*+,-./;<=>?@[]^_`{|}\"\\" + "a" * 224},
    ),
    Good("own types", "2.4", {"/edges/0/edge_type": "x-near", "/entities/0/kind": "x-robot"}),
    *(Good(f"weight {w}", "2.4", {"/edges/0/weight": w}) for w in (0, 1, 0.0, 1e-07, 1e-300)),
    Good("an edge to itself", "2.4", {"/edges/0/target_id": _U + "c1"}),
    Good("no embedding", "2.7", {"/chunks/1/embedding": None, "/embedding_dim": GONE,
                                 "/embedding_model": GONE}),
    # what the draft leaves open
    Good("arrays that are absent", "2.4", {"/chunk_entities": GONE, "/entities": GONE,
        "/edges": GONE}),
    Good("null for absent", "2.2", {f"/chunks/2/{n}": None for n in
         ("content_hash", "zone", "tags", "is_pinned", "embedding")}, None, _OURS),
    Good("null in the envelope", "2.1", {"/since": None}, None, _OURS),
    Good("unknown fields", "7", {"/x_note": {"a": [1, None]}, "/chunks/0/x_note": 1.5,
                                 "/edges/0/note": "\u00e9"}, None, _OURS),
    Good("the older format name", "2.1", {"/format": "memoryai-bundle"}, "legacy_format", _OURS),
    Good("a chunk of another producer", "2.3", {"/chunks/2/id": "urn:aimem:other-7:{nonce}"},
         "foreign_producer", _OURS),
    Good("DNA_ONLY with a fact", "2.1", {"/scope": "DNA_ONLY", "/chunks/2/is_pinned": True},
         "scope_mismatch", _OURS),
    Good("SINCE with an older chunk", "2.1", {"/scope": "SINCE", "/since": "2026-04-01T09:30:01Z",
         "/chunks/1/created_at": "2026-05-01T00:00:00Z",
             "/chunks/2/created_at": "2026-05-01T00:00:00Z"},
         "scope_mismatch", _OURS),
    Good("a chunk and an entity of one name", "2.3", {"/entities/0/id": _U + "c1",
         "/chunk_entities/0/entity_id": _U + "c1"}, "shared_id", _OURS),
    Good("the length of embeddings as 2.0", "2.7", {"/embedding_dim": 2.0}, None, _OURS),
)  # fmt: skip
"""Each is to be taken."""
