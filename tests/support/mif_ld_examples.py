# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD: documents as people write them.

All of them are valid in mode schema, in the shape that their name says.
"""

from __future__ import annotations

from typing import Any

CONTEXT = "https://mif-spec.dev/schema/context.jsonld"

MINIMAL: dict[str, Any] = {
    "@context": CONTEXT,
    "@type": "Memory",
    "@id": "urn:mif:garden",
    "memoryType": "semantic",
    "content": "The garden is watered in the evening.",
    "created": "2026-03-01T08:00:00Z",
}
"""Shape 0.1, nothing but what must be there."""

PERSON: dict[str, Any] = {
    "@type": "EntityReference",
    "entity": {"@id": "urn:mif:entity:person:ada"},
    "entityType": "Person",
    "name": "Ada",
    "role": "author",
}

CITATION: dict[str, Any] = {
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

# Every fragment that the format's reference prints, in one document.
FULL: dict[str, Any] = MINIMAL | {
    "title": "Watering",
    "modified": "2026-03-02T09:30:00.250+02:00",
    "namespace": "_semantic/decisions/garden",
    "tags": ["garden", "water", "garden"],
    "aliases": ["roses"],
    "ontology": {
        "@type": "OntologyReference",
        "id": "garden-notes",
        "version": "1.0.0",
        "uri": "https://example.org/garden-notes.yaml",
    },
    "entity": {"name": "The garden", "entity_type": "place", "entity_id": "g-1", "area": 40},
    "entities": [
        PERSON,
        {
            "@type": "EntityReference",
            "entity": {"@id": "urn:mif:entity:technology:lmdb"},
            "entityType": "Technology",
        },
        {"@type": "EntityReference", "entity": {"@id": "urn:mif:entity:x"}, "entityType": "plant"},
    ],
    "relationships": [
        {
            "@type": "Relationship",
            "relationshipType": "DerivedFrom",
            "target": {"@id": "urn:mif:memory:talk"},
            "strength": 0.9,
            "metadata": {"reason": "said so", "nothing": None},
        },
        {
            "@type": "Relationship",
            "relationshipType": "garden:GrowsBeside",
            "target": {"@id": "urn:mif:memory:hedge", "name": "the hedge"},
            "strength": 1,
        },
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
    "provenance": {
        "@type": "prov:Entity",
        "sourceType": "user_explicit",
        "confidence": 0.95,
        "trustLevel": "user_stated",
        "prov:wasGeneratedBy": {"@id": "urn:mif:activity:talk"},
    },
    "embedding": {
        "@type": "EmbeddingReference",
        "model": "small-3",
        "modelVersion": "2026-01",
        "dimensions": 1536,
        "sourceText": "The garden is watered in the evening.",
        "vectorUri": "urn:mif:vector:garden",
        "normalized": True,
    },
    "citations": [CITATION, CITATION | {"author": "Ada and others"}, CITATION | {"author": []}],
    "summary": "Water in the evening.",
    "compressedAt": "2026-03-03T00:00:00Z",
    "blocks": {"b1": "The roses first."},
    "extensions": {"some-memory": {"domain": "user", "hash": "sha256:0a"}, "flat:key": None},
    "x-unknown": [1, 1.0, None, {}],
}
"""Shape 0.1; valid as published and as in the repository."""

REINFORCED: dict[str, Any] = MINIMAL | {
    "memoryType": "episodic",
    "temporal": {
        "ttl": "P30D",
        "decay": {"model": "step", "strength": 0.5, "lastReinforced": "2026-03-04T00:00:00Z"},
        "reinforcementHistory": [
            {"timestamp": "2026-03-04T00:00:00Z", "event": "recalled", "strengthDelta": 0.1,
             "context": "a question"}
        ],
    },
}  # fmt: skip
"""Shape 0.1, only as in the repository."""

LOOSE_DECAY: dict[str, Any] = MINIMAL | {
    "temporal": {"decay": {"model": "linear", "strength": "some", "curve": [1]}}
}
"""Shape 0.1, only as published."""

MINIMAL_1X: dict[str, Any] = {
    "@context": CONTEXT,
    "@type": "Concept",
    "@id": "urn:mif:5d0e8400-e29b-41d4-a716-446655440000",
    "conceptType": "procedural",
    "content": "1. Fill the can.\n2. Water the roses.",
    "created": "2026-03-01T08:00:00Z",
}

DOCUMENT: dict[str, Any] = {
    "@type": "DocumentReference",
    "url": "https://example.org/plan.pdf",
    "id": "plan",
    "documentType": "pdf",
    "title": "Plan of the garden",
    "contentType": "application/pdf",
    "version": "2",
    "byteLength": 1024,
    "hash": {"algorithm": "sha256", "value": "0a0b"},
    "retrievedAt": "2026-03-01T08:00:00Z",
}

FULL_1X: dict[str, Any] = MINIMAL_1X | {
    "@type": ["Concept", "prov:Entity"],
    "memoryType": "semantic",
    "title": "Watering",
    "modified": "2026-03-02T09:30:00Z",
    "timestamp": "2026-03-02T09:30:00Z",
    "description": "How it is done.",
    "summary": "How it is done.",
    "namespace": "_procedural/runbooks",
    "tags": [],
    "properties": {"cans": 2, "warm": True, "where": "garden", "none": None},
    "entity": {"name": "Watering"},
    "entities": [PERSON],
    "relationships": [
        {"type": "derived-from", "target": "urn:mif:memory:talk", "strength": 0.9},
        {"type": "garden:grows-beside", "target": "../hedge.md", "metadata": {}},
        {"type": "any-word", "target": ""},
    ],
    "temporal": REINFORCED["temporal"] | {"validFrom": None, "ttl": "PT1H30M"},
    "provenance": {
        "sourceType": "agent_inferred",
        "confidence": 0.5,
        "sourceRef": "conversation:7",
        "agent": "some-agent",
        "agentVersion": "2",
        "wasGeneratedBy": {"@id": "urn:mif:activity:talk"},
        "wasAttributedTo": {"id": "agent"},
        "wasDerivedFrom": ["urn:mif:memory:talk", {"@id": "urn:mif:memory:walk", "x": 1}],
    },
    "embedding": {"model": "small-3", "dimensions": 384},
    "citations": [CITATION],
    "documents": [DOCUMENT, {"@type": "DocumentReference", "id": "x", "documentType": "acme:x"}],
    "ontology": {"id": "garden-notes"},
    "extensions": {},
}

ONTOLOGY: dict[str, Any] = {
    "ontology": {
        "id": "garden-notes",
        "version": "1.0.0",
        "description": "What is known of gardens",
        "schema_url": "https://example.org/garden",
        "extends": ["mif-base"],
    },
    "namespaces": {
        "semantic": {
            "description": "Facts",
            "type_hint": "semantic",
            "replaces": "facts",
            "children": {"decisions": {}, "plants": {"children": {"roses": {}}}},
        }
    },
    "entity_types": [
        {
            "name": "plant",
            "base": "semantic",
            "description": "What grows",
            "traits": ["dated", "placed"],
            "schema": {
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "height": {"type": "number", "minimum": 0},
                    "colors": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        {"name": "rose", "base": "semantic", "subtype_of": ["plant"]},
    ],
    "traits": {
        "dated": {"description": "Has a day", "fields": {"day": {"type": "string",
                                                              "format": "date"}}},
        "placed": {"extends": ["dated"], "requires": ["namespace"], "fields": {}},
    },
    "relationships": {
        "grows_beside": {"description": "Side by side", "from": ["plant"], "to": [],
                         "symmetric": True}
    },
    "discovery": {
        "enabled": True,
        "confidence_threshold": 0.8,
        "patterns": [
            {"content_pattern": "\\b(rose|tulip)\\b", "suggest_entity": "plant",
             "suggest_namespace": "_semantic/plants"},
            {"file_pattern": "**/*.plant"},
            {},
        ],
        "content_patterns": [{"pattern": "garden", "namespaces": ["semantic"], "context": "x"}],
        "file_patterns": [{"pattern": "\\.plant$", "suggest_entity": "plant"}],
    },
}  # fmt: skip

CORPUS: dict[str, Any] = {
    "@context": CONTEXT,
    "@type": "MemoryCorpus",
    "records": [
        {"kind": "memory", "payload": MINIMAL},
        {"kind": "memory", "payload": FULL_1X},
        {"kind": "document", "payload": {"schema_name": "something else"}},
    ],
    "editChain": [],
    "extensions": {},
}

OF_0_1 = (MINIMAL, FULL, REINFORCED)
OF_1_X = (MINIMAL_1X, FULL_1X)
