# SPDX-License-Identifier: Apache-2.0
"""Every rule of an AIMEM bundle: its id, its words, and the HTTP status of who breaks it.

The ids are those of the format's reference implementation where it has one.
Spec: AIMEM §2, §3.2
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["CONFLICT", "RULES", "UNPROCESSABLE", "WARNINGS", "Rule"]

CONFLICT: Final = 409
UNPROCESSABLE: Final = 422


class Rule(NamedTuple):
    """One rule: where the draft has it, what its breach is called, and its status."""

    section: str
    says: str
    status: int = UNPROCESSABLE


RULES: Final[dict[str, Rule]] = {
    # the document
    "not_json": Rule("2", "not a JSON document"),
    "not_object": Rule("2", "a bundle is an object"),
    "too_deep": Rule("2", "nested too deep"),
    "too_large": Rule("2", "larger than is taken", 413),
    "invalid_type": Rule("2", "a value of the wrong type"),
    "missing_field": Rule("2", "a required field is missing"),
    "unknown_kind": Rule("3.1", "not a kind of record"),
    "too_long": Rule("2", "a text longer than is taken"),
    # the envelope
    "bad_format": Rule("2.1", "not the format of a bundle"),
    "unsupported_version": Rule("7", "not a version that is known"),
    "invalid_producer": Rule("2.3", "not a producer namespace"),
    "invalid_tenant": Rule("2.1", "not the id of a tenant"),
    "invalid_timestamp": Rule("2.1", "not a time in UTC"),
    "invalid_scope": Rule("2.1", "not a scope"),
    "since_missing": Rule("2.1", "a bundle of scope SINCE says since when"),
    "missing_checksum": Rule("2.8", "not a checksum"),
    "checksum_mismatch": Rule("2.8", "the content is not what the checksum was made of", CONFLICT),
    # chunks
    "invalid_urn": Rule("2.3", "not an AIMEM identifier"),
    "duplicate_chunk_id": Rule("2.3", "a chunk stands twice"),
    "empty_content": Rule("2.2", "a chunk without content"),
    "content_too_long": Rule("2.2", "content longer than is taken"),
    "bad_hash_format": Rule("2.2", "not a content hash"),
    "hash_mismatch": Rule("2.2", "the content is not what its hash was made of"),
    "invalid_memory_type": Rule("2.2", "not a type of memory"),
    "invalid_zone": Rule("2.2", "not a zone"),
    "invalid_tag": Rule("2.2", "not a tag"),
    "embedding_envelope_missing": Rule("2.7", "embeddings whose model or length is not named"),
    "invalid_embedding_dim": Rule("2.7", "not a length of embeddings"),
    "embedding_invalid": Rule("2.7", "not an array of finite float32 in base64"),
    "embedding_dim_mismatch": Rule("2.7", "an embedding of another length"),
    # edges
    "edge_source_unknown": Rule("2.4", "the source is no chunk of this bundle"),
    "edge_target_unknown": Rule("2.4", "the target is no chunk of this bundle"),
    "invalid_edge_type": Rule("2.4", "not a type of edge"),
    "edge_weight_out_of_range": Rule("2.4", "a weight out of range"),
    # entities and their links
    "duplicate_entity_id": Rule("2.5", "an entity stands twice"),
    "empty_entity_name": Rule("2.5", "an entity without a name"),
    "invalid_entity_kind": Rule("2.5", "not a kind of entity"),
    "ce_chunk_unknown": Rule("2.5", "the chunk is not in this bundle"),
    "ce_entity_unknown": Rule("2.5", "the entity is not in this bundle"),
    # signatures
    "signature_invalid": Rule("5.3", "the signature is not one of this bundle"),
    "signature_untrusted": Rule("5.3", "no key that is trusted has signed this bundle"),
    "signature_missing": Rule("5.3", "a signature is asked for, and there is none"),
}
"""Breaking one of them refuses the bundle."""

WARNINGS: Final[dict[str, Rule]] = {
    "legacy_format": Rule("2.1", "the older name of the format", 200),
    "foreign_producer": Rule("2.3", "an identifier of another producer", 200),
    "shared_id": Rule("2.3", "a chunk and an entity of one name", 200),
    "scope_mismatch": Rule("2.1", "a chunk that the scope leaves out", 200),
    "unsupported_model": Rule("2.7", "embeddings of a model that is not kept were dropped", 200),
    "zero_embedding": Rule(
        "2.7", "embeddings of zeros alone point nowhere, and were dropped", 200
    ),
    "document_not_kept": Rule("2", "not all records are stored as they came", 200),
}
"""Taken, and told."""
