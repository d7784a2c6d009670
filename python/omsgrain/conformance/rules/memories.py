# SPDX-License-Identifier: Apache-2.0
"""Documents of MIF in JSON-LD to be changed: memories of both shapes, and an ontology."""

from __future__ import annotations

from typing import Any, Final

_CONTEXT: Final = "https://mif-spec.dev/schema/context.jsonld"

LEAST: Final[dict[str, Any]] = {
    "@context": _CONTEXT,
    "@type": "Memory",
    "@id": "urn:mif:garden",
    "memoryType": "semantic",
    "content": "The garden is watered in the evening.",
    "created": "2026-03-01T08:00:00Z",
}
"""Shape 0.1: what must be there."""

PERSON: Final[dict[str, Any]] = {
    "@type": "EntityReference",
    "entity": {"@id": "urn:mif:entity:person:ada"},
    "entityType": "Person",
    "name": "Ada",
    "role": "author",
}

CITATION: Final[dict[str, Any]] = {
    "@type": "Citation",
    "citationType": "article",
    "citationRole": "supports",
    "title": "When to water roses",
    "url": "https://example.org/roses",
    "author": PERSON,
    "date": "2025-06-15",
    "accessed": "2026-02-20",
    "relevance": 0.95,
    "note": "Found in the library.",
}

MEMORY: Final[dict[str, Any]] = LEAST | {
    "title": "Watering",
    "modified": "2026-03-02T09:30:00Z",
    "namespace": "_semantic/decisions/garden",
    "tags": ["garden", "water"],
    "aliases": ["roses"],
    "ontology": {"@type": "OntologyReference", "id": "garden-notes", "version": "1.0.0",
                 "uri": "https://example.org/garden-notes.yaml"},
    "entities": [PERSON],
    "relationships": [
        {"@type": "Relationship", "relationshipType": "DerivedFrom",
         "target": {"@id": "urn:mif:memory:talk"}, "strength": 0.9,
         "metadata": {"reason": "said so"}},
    ],
    "temporal": {
        "@type": "TemporalMetadata",
        "validFrom": "2026-03-01T00:00:00Z",
        "validUntil": None,
        "recordedAt": "2026-03-01T10:00:00Z",
        "ttl": "P90D",
        "decay": {"model": "exponential", "halfLife": "P7D", "currentStrength": 0.85},
        "accessCount": 5,
        "lastAccessed": "2026-03-01T14:00:00Z",
    },
    "provenance": {"@type": "prov:Entity", "sourceType": "user_explicit", "confidence": 0.95,
                   "trustLevel": "user_stated"},
    "embedding": {"@type": "EmbeddingReference", "model": "small-3", "modelVersion": "2026-01",
                  "dimensions": 1536, "sourceText": "The garden.",
                  "vectorUri": "urn:mif:vector:garden", "normalized": True},
    "citations": [CITATION],
    "summary": "Water in the evening.",
    "compressedAt": "2026-03-03T00:00:00Z",
    "extensions": {"subcog": {"domain": "user", "nothing": None}},
}  # fmt: skip
"""Shape 0.1: each part that the reference prints."""

LEAST_LATER: Final[dict[str, Any]] = {
    "@context": _CONTEXT,
    "@type": "Concept",
    "@id": "urn:mif:5d0e8400-e29b-41d4-a716-446655440000",
    "conceptType": "procedural",
    "content": "1. Fill the can.\n2. Water the roses.",
    "created": "2026-03-01T08:00:00Z",
}
"""Shape 1.x: what must be there."""

LATER: Final[dict[str, Any]] = LEAST_LATER | {
    "properties": {"cans": 2, "warm": True, "where": "garden", "none": None},
    "relationships": [{"type": "derived-from", "target": "urn:mif:memory:talk", "strength": 0.9}],
    "provenance": {"sourceType": "agent_inferred", "confidence": 0.55, "agent": "some-agent",
                   "wasGeneratedBy": {"@id": "urn:mif:activity:talk"},
                   "wasDerivedFrom": ["urn:mif:memory:talk"]},
    "documents": [
        {"@type": "DocumentReference", "url": "https://example.org/plan.pdf",
         "documentType": "pdf", "byteLength": 1024,
         "hash": {"algorithm": "sha256", "value": "0a0b"}, "title": "Plan",
         "retrievedAt": "2026-03-01T08:00:00Z"},
    ],
    "temporal": {
        "decay": {"model": "step", "strength": 0.5, "lastReinforced": "2026-03-04T00:00:00Z"},
        "ttl": "P30D",
        "reinforcementHistory": [{"timestamp": "2026-03-04T00:00:00Z", "event": "recalled"}],
    },
}  # fmt: skip

ONTOLOGY: Final[dict[str, Any]] = {
    "ontology": {"id": "garden-notes", "version": "1.0.0", "description": "Of gardens",
                 "schema_url": "https://example.org/garden"},
    "namespaces": {
        "semantic": {"description": "Facts", "type_hint": "semantic", "replaces": "facts",
                     "children": {"decisions": {}, "plants": {"children": {"roses": {}}}}},
    },
    "entity_types": [
        {"name": "plant", "base": "semantic", "traits": ["dated"],
         "schema": {"required": ["name"], "properties": {
             "name": {"type": "string"}, "height": {"type": "number", "minimum": 0}}}},
        {"name": "rose", "base": "semantic", "subtype_of": ["plant"],
         "schema": {"required": ["name"], "properties": {"name": {"type": "string"}}}},
    ],
    "traits": {"dated": {"description": "Has a day",
                         "fields": {"day": {"type": "string", "format": "date"}}}},
    "relationships": {"grows_beside": {"from": ["plant"], "to": ["plant"], "symmetric": True}},
    "discovery": {
        "enabled": True,
        "confidence_threshold": 0.8,
        "patterns": [{"content_pattern": "\\b(rose|tulip)\\b", "suggest_entity": "plant",
                      "suggest_namespace": "_semantic/plants"}],
    },
}  # fmt: skip
"""As the reference prints one."""
