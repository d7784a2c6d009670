# SPDX-License-Identifier: Apache-2.0
"""What a bundle must not be: each rule broken once in a bundle that is good otherwise.

Where the draft forbids something, the status is the draft's. Where it is silent, the case is a
``recommendation``: what we found sensible, and what a server of others need not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from omsgrain.conformance.edits import GONE

Basis = Literal["draft", "recommendation"]


class Fault(NamedTuple):
    """One change that makes a bundle bad.

    Attributes:
        name: in short.
        section: of the draft.
        rule: our id of the rule.
        pointer: where the defect is.
        edits: what is changed; the checksum is made anew unless it is among them.
        status: of the answer.
        basis: who says so.
    """

    name: str
    section: str
    rule: str
    pointer: str
    edits: Mapping[str, Any]
    status: int = 422
    basis: Basis = "draft"


class TextFault(NamedTuple):
    """One change of the text, which is no bundle then."""

    name: str
    section: str
    rule: str
    old: str
    new: str
    basis: Basis = "draft"


_U = "urn:aimem:probe:"
_LONG_TIME = "2026-01-15T10:00:00"
_UPPER = "sha256:" + "AB" * 32


def _each(
    section: str, rule: str, pointer: str, values: Mapping[str, Any], basis: Basis = "draft"
) -> list[Fault]:
    return [
        Fault(f"{pointer[1:]}: {name}", section, rule, pointer, {pointer: value}, 422, basis)
        for name, value in values.items()
    ]


def _missing(section: str, *pointers: str) -> list[Fault]:
    rules = {
        "/format": "bad_format",
        "/version": "unsupported_version",
        "/checksum": "missing_checksum",
    }
    return [
        Fault(f"{p[1:]}: missing", section, rules.get(p, "missing_field"), p, {p: GONE})
        for p in pointers
    ]


_TIMES = {
    "text": "yesterday",
    "no zone": _LONG_TIME,
    "another zone": f"{_LONG_TIME}+02:00",
    "a date": "2026-01-15",
    "no such day": "2026-02-30T10:00:00Z",
    "a line end behind": f"{_LONG_TIME}Z\n",
}
_NAMES = {
    "no URN": "chunk-1",
    "a colon in the local part": f"{_U}a:b",
    "no local part": _U,
    "a space": f"{_U}a b",
    "a line end behind": f"{_U}a\n",
    "not ASCII": f"{_U}\u00e9",
    "257 characters": _U + "a" * 257,
    "another namespace": "urn:other:probe:a",
    "an upper-case producer": "urn:aimem:Probe:a",
}

FAULTS: Final[tuple[Fault, ...]] = (
    # the envelope
    *_missing("2.1", "/format", "/version", "/producer", "/tenant_id", "/exported_at", "/scope"),
    *_missing("2.8", "/checksum"),
    *_each("2.1", "bad_format", "/format", {"another": "bundle", "a number": 1}),
    *_each(
        "7", "unsupported_version", "/version", {"2": "2", "1.1": "1.1", "a number": 1,
            "empty": ""}
    ),
    *_each(
        "2.1",
        "invalid_producer",
        "/producer",
        {"upper case": "Probe", "64 characters": "a" * 64, "empty": "", "line end": "probe\n"},
    ),
    *_each("2.1", "invalid_tenant", "/tenant_id", {"a word": "ada", "empty": "",
        "space": "a:b c"}),
    *_each("2.1", "invalid_type", "/tenant_id", {"a number": 7, "null": None}),
    *_each("2.1", "invalid_timestamp", "/exported_at", _TIMES),
    *_each("2.1", "invalid_scope", "/scope", {"another": "ALL", "lower case": "full"}),
    *_each("2.1", "invalid_type", "/scope", {"a list": ["FULL"]}),
    Fault("scope SINCE without since", "2.1", "since_missing", "/since", {"/scope": "SINCE"}),
    Fault(
        "scope SINCE, since null", "2.1", "since_missing", "/since",
        {"/scope": "SINCE", "/since": None},
    ),
    Fault(
        "since is no time", "2.1", "invalid_timestamp", "/since",
        {"/scope": "SINCE", "/since": "last week"},
    ),
    *_each("2.8", "missing_checksum", "/checksum", {"another hash": "md5:00", "null": None}),
    *(
        Fault(f"checksum: {name}", "2.8", "checksum_mismatch", "/checksum", {"/checksum": v}, 409)
        for name, v in (("of something else", "sha256:" + "0" * 64), ("cut short", "sha256:00"))
    ),
    *(
        Fault(f"{name}: {what}", "2.1", "invalid_type", f"/{name}", {f"/{name}": value})
        for name in ("chunk_entities", "edges")
        for what, value in (("null", None), ("an object", {}))
    ),
    # chunks
    *_missing("2.2", "/chunks/2/id", "/chunks/2/content", "/chunks/2/memory_type"),
    *_missing("2.2", "/chunks/2/created_at"),
    *_each("2.3", "invalid_urn", "/chunks/2/id", _NAMES),
    Fault("a chunk twice", "2.3", "duplicate_chunk_id", "/chunks/2/id",
        {"/chunks/2/id": _U + "c1"}),
    *_each("2.2", "invalid_type", "/chunks/2", {"a text": "c3", "null": None, "a list": []}),
    *_each("2.2", "invalid_type", "/chunks/2/content", {"a number": 1, "null": None,
        "list": ["a"]}),
    Fault(
        "chunks/2/content: empty", "2.2", "empty_content", "/chunks/2/content",
        {"/chunks/2/content": "", "/chunks/2/content_hash": GONE},
    ),
    Fault(
        "chunks/2/content: 65,537 code points", "2.2", "content_too_long", "/chunks/2/content",
        {"/chunks/2/content": "a" * 65_537, "/chunks/2/content_hash": GONE}, 422, "recommendation",
    ),
    *_each(
        "2.2", "bad_hash_format", "/chunks/2/content_hash",
        {"upper case": _UPPER, "no prefix": "ab" * 32, "short": "sha256:ab", "a number": 1},
    ),
    *_each("2.2", "hash_mismatch", "/chunks/2/content_hash", {"another": "sha256:" + "0" * 64}),
    *_each("2.2", "invalid_memory_type", "/chunks/2/memory_type", {"another": "rumour",
        "case": "Goal"}),
    *_each("2.2", "invalid_type", "/chunks/2/memory_type", {"null": None}),
    *_each("2.2", "invalid_zone", "/chunks/2/zone", {"another": "urgent", "empty": ""}),
    *_each("2.2", "invalid_type", "/chunks/2/is_pinned", {"a text": "yes", "a number": 1}),
    *_each("2.2", "invalid_timestamp", "/chunks/2/created_at", _TIMES),
    *_each("2.2", "invalid_type", "/chunks/2/created_at", {"a number": 1_768_471_200}),
    *_each("2.2", "invalid_type", "/chunks/2/tags", {"a text": "tea", "an object": {}}),
    *(
        Fault(f"tags: {name}", "2.2", "invalid_tag", "/chunks/2/tags/1", {"/chunks/2/tags": ["a",
            v]})
        for name, v in (("empty", ""), ("65 characters", "a" * 65), ("a number", 1), ("null",
            None))
    ),
    # embeddings
    Fault(
        "embedding without its length", "2.7", "embedding_envelope_missing", "/embedding_dim",
        {"/embedding_dim": GONE},
    ),
    Fault(
        "embedding without its model", "2.7", "embedding_envelope_missing", "/embedding_model",
        {"/embedding_model": None},
    ),
    *_each("2.7", "invalid_type", "/embedding_dim", {"a text": "2", "a fraction": 2.5,
        "a bool": True}),
    *_each("2.7", "invalid_embedding_dim", "/embedding_dim", {"zero": 0, "negative": -2}),
    *_each("2.7", "invalid_type", "/embedding_model", {"a number": 3}),
    *_each("2.7", "invalid_type", "/chunks/1/embedding", {"a list": [1.0, 2.0]}),
    *_each(
        "2.7", "embedding_invalid", "/chunks/1/embedding",
        {"junk": "AACAPw!AAAEA=", "a line end": "AACAPwAA\nAEA=", "no padding": "AACAPwAAAEA",
         "the alphabet of URLs": "__8_PwAAAEA="},
    ),
    *_each("2.7", "embedding_invalid", "/chunks/1/embedding", {"NaN": "AADAfwAAAEA="},
        "recommendation"),
    *_each("2.7", "embedding_dim_mismatch", "/chunks/1/embedding", {"one float": "AACAPw==",
        "empty": ""}),
    # edges
    *_missing("2.4", "/edges/0/source_id", "/edges/0/target_id", "/edges/0/edge_type"),
    *_missing("2.4", "/edges/0/weight", "/edges/0/created_at"),
    *_each("2.4", "edge_source_unknown", "/edges/0/source_id", {"unknown": _U + "c9",
        "entity": _U + "e1"}),
    *_each("2.4", "edge_target_unknown", "/edges/0/target_id", {"unknown": _U + "c9"}),
    *_each("2.4", "invalid_urn", "/edges/0/target_id", {"no URN": "c2"}),
    *_each("2.4", "invalid_edge_type", "/edges/0/edge_type", {"another": "friend", "bare": "x-"}),
    *_each("2.4", "edge_weight_out_of_range", "/edges/0/weight", {"above": 1.5, "below": -0.1}),
    *_each("2.4", "invalid_type", "/edges/0/weight", {"a text": "0.5", "a bool": True,
        "null": None}),
    *_each("2.4", "invalid_timestamp", "/edges/0/created_at", {"text": "now"}),
    *_each("2.4", "invalid_type", "/edges/0", {"a text": "c1-c2"}),
    # entities and links
    *_missing("2.5", "/entities/0/name", "/entities/0/kind", "/entities/0/created_at"),
    *_each("2.5", "empty_entity_name", "/entities/0/name", {"empty": ""}, "recommendation"),
    *_each("2.5", "invalid_entity_kind", "/entities/0/kind", {"another": "robot", "bare": "x-"}),
    *_each("2.5", "invalid_timestamp", "/entities/0/created_at", {"text": "now"}),
    Fault(
        "an entity twice", "2.5", "duplicate_entity_id", "/entities/1/id",
        {"/entities/-": {"id": _U + "e1", "name": "Grace", "kind": "person",
                         "created_at": "2026-04-15T08:00:00Z"}},
        422, "recommendation",
    ),
    *_missing("2.5", "/chunk_entities/0/chunk_id", "/chunk_entities/0/entity_id"),
    *_each("2.5", "ce_chunk_unknown", "/chunk_entities/0/chunk_id", {"unknown": _U + "c9"}),
    *_each("2.5", "ce_entity_unknown", "/chunk_entities/0/entity_id", {"unknown": _U + "e9"}),
)  # fmt: skip
"""Each breaks one rule at one place."""

_AT = '"scope":"FULL"'
TEXTS: Final[tuple[TextFault, ...]] = (
    TextFault("cut in the middle", "2", "not_json", '"chunks":[', ""),
    TextFault("NaN", "2", "not_json", "0.42", "NaN"),
    TextFault("Infinity", "2", "not_json", "0.42", "Infinity"),
    TextFault("a comma too many", "2", "not_json", _AT, _AT + ","),
    TextFault("a number beyond the doubles", "2.8", "not_json", "0.42", "1e400", "recommendation"),
    TextFault("a key twice", "2.8", "not_json", _AT, f"{_AT},{_AT}", "recommendation"),
    TextFault("a lone surrogate", "2.8", "not_json", "Ada likes", "\\ud800", "recommendation"),
    TextFault(
        "nested too deep", "2", "too_deep", _AT, f'{_AT},"x":{"[" * 300}{"]" * 300}',
        "recommendation",
    ),
)  # fmt: skip
"""Changes of the text."""
