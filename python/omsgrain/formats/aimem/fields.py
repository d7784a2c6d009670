# SPDX-License-Identifier: Apache-2.0
"""The fields of an envelope and of its records: one table for checks, documents and tests.

Spec: AIMEM §2.1 to §2.7
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from omsgrain.formats.aimem.limits import NAME, TEXT

__all__ = [
    "ARRAYS",
    "DNA",
    "EDGE_TYPES",
    "ENTITY_KINDS",
    "ENVELOPE",
    "FORMAT",
    "LEGACY_FORMAT",
    "MEMORY_TYPES",
    "RECORDS",
    "SCOPES",
    "VERSION",
    "ZONES",
    "Field",
    "Kind",
    "Scope",
]

Kind: TypeAlias = Literal["chunk", "edge", "entity", "chunk_entity"]
Scope: TypeAlias = Literal["FULL", "DNA_ONLY", "SINCE"]

FORMAT: Final = "aimem-bundle"
LEGACY_FORMAT: Final = "memoryai-bundle"
"""Read, never written."""
VERSION: Final = "1"
SCOPES: Final[tuple[Scope, ...]] = ("FULL", "DNA_ONLY", "SINCE")
DNA: Final = ("preference", "decision", "identity", "pitfall", "procedure")
"""Memory that is never silently decayed, deleted or superseded. Spec: AIMEM §1.2, §5.1"""
MEMORY_TYPES: Final = ("fact", *DNA, "episodic", "goal")
ZONES: Final = ("critical", "important", "standard")
EDGE_TYPES: Final = ("hebbian", "semantic", "temporal", "causal")
ENTITY_KINDS: Final = ("person", "organization", "place", "technology", "concept")

ARRAYS: Final[dict[str, Kind]] = {
    "chunks": "chunk",
    "edges": "edge",
    "entities": "entity",
    "chunk_entities": "chunk_entity",
}
"""The arrays of a bundle, in the order in which they are read and written by lines."""


class Field(NamedTuple):
    """One field.

    Attributes:
        name: its key.
        kind: what it holds: ``str``, ``bool``, ``number``, ``int`` or ``array``.
        required: whether it must be there.
        nullable: whether null is as if it were not there.
        says: what it means, in a few words.
        breach: the rule that is broken when it is missing or of another type, if not the usual.
        most: code points of a string that names something; the draft sets no limit, a grain does.
    """

    name: str
    kind: str
    required: bool
    nullable: bool
    says: str
    breach: str | None = None
    most: int | None = None


_ID = "urn:aimem:<producer>:<local>"
_EDGE = "hebbian, semantic, temporal, causal or x-..."
_ENTITY = "person, organization, place, technology, concept or x-..."

ENVELOPE: Final = (
    Field("format", "str", True, False, f"`{FORMAT}`; `{LEGACY_FORMAT}` is read", "bad_format"),
    Field("version", "str", True, False, f"`{VERSION}`", "unsupported_version"),
    Field("producer", "str", True, False, "a producer namespace: 1 to 63 of a-z, 0-9, -"),
    Field("tenant_id", "str", True, False, "a UUID or a URI", None, NAME),
    Field("exported_at", "str", True, False, "a time in UTC"),
    Field("scope", "str", True, False, "FULL, DNA_ONLY or SINCE"),
    Field("since", "str", False, True, "a time in UTC; with the scope SINCE"),
    Field("embedding_dim", "int", False, True, "floats of an embedding"),
    Field("embedding_model", "str", False, True, "the model of the embeddings", None, NAME),
    Field("checksum", "str", True, False, "sha256 of the canonical bundle", "missing_checksum"),
)

RECORDS: Final[dict[Kind, tuple[Field, ...]]] = {
    "chunk": (
        Field("id", "str", True, False, _ID),
        Field("content", "str", True, False, "1 to 65,536 code points"),
        Field("content_hash", "str", False, True, "sha256 of the content", "bad_hash_format"),
        Field("memory_type", "str", True, False, "what kind of memory"),
        Field("zone", "str", False, True, "critical, important or standard"),
        Field("is_pinned", "bool", False, True, "kept as memory of the DNA class is"),
        Field("created_at", "str", True, False, "a time in UTC"),
        Field("tags", "array", False, True, "strings of 1 to 64 code points"),
        Field("embedding", "str", False, True, "float32, little-endian, in base64"),
    ),
    "edge": (
        Field("source_id", "str", True, False, _ID),
        Field("target_id", "str", True, False, _ID),
        Field("edge_type", "str", True, False, _EDGE, None, NAME),
        Field("weight", "number", True, False, "0 to 1"),
        Field("created_at", "str", True, False, "a time in UTC"),
    ),
    "entity": (
        Field("id", "str", True, False, _ID),
        Field("name", "str", True, False, "its name", None, TEXT),
        Field("kind", "str", True, False, _ENTITY, None, NAME),
        Field("created_at", "str", True, False, "a time in UTC"),
    ),
    "chunk_entity": (
        Field("chunk_id", "str", True, False, _ID),
        Field("entity_id", "str", True, False, _ID),
    ),
}
