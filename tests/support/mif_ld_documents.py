# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD, for hypothesis: all that the format allows; and the examples."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from support.mif_ld_examples import CITATION as CITATION
from support.mif_ld_examples import CONTEXT as CONTEXT
from support.mif_ld_examples import CORPUS as CORPUS
from support.mif_ld_examples import DOCUMENT as DOCUMENT
from support.mif_ld_examples import FULL as FULL
from support.mif_ld_examples import FULL_1X as FULL_1X
from support.mif_ld_examples import LOOSE_DECAY as LOOSE_DECAY
from support.mif_ld_examples import MINIMAL as MINIMAL
from support.mif_ld_examples import MINIMAL_1X as MINIMAL_1X
from support.mif_ld_examples import OF_0_1 as OF_0_1
from support.mif_ld_examples import OF_1_X as OF_1_X
from support.mif_ld_examples import ONTOLOGY as ONTOLOGY
from support.mif_ld_examples import PERSON as PERSON
from support.mif_ld_examples import REINFORCED as REINFORCED


def spelled(document: Any) -> bytes:
    return json.dumps(document).encode()


TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["", "e\u0301", "\u00e9", "\ufeffx", "\u0000", "a\U0001f600", "a\nb"]),
)
SAID = TEXT.filter(bool)
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
    st.sampled_from(["x", "note", "e\u0301", "\U0001f600", "prov:wasGeneratedBy", "=", "status"]),
    ANY,
    max_size=1,
)
TIMES = st.sampled_from(
    [
        "2026-04-01T09:30:00Z",
        "2026-04-01T09:30:00.000Z",
        "2026-04-01T09:30:00.123456+05:30",
        "2026-04-01T09:30:00+00:00",
        "2026-04-01T09:30:00-23:59",
        "2026-04-01t09:30:00z",
        "1843-12-10T00:00:00Z",
        "1969-12-31T23:59:59.5Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:60Z",
    ]
)
DATES = st.sampled_from(["2026-04-01", "2024-02-29", "0001-01-01", "1843-12-10"])
SPANS = st.sampled_from(["P90D", "P7D", "PT1H30M", "P1Y2M3W", "P0.5D", "P", "Pfoo"])
URIS = st.sampled_from(
    [
        "https://example.org/a?b=c#d",
        "urn:isbn:0451450523",
        "mailto:ada@example.org",
        "http://[::1]:80/%20",
        "file:///tmp/x",
        "a:",
    ]
)
URNS = st.one_of(
    st.uuids().map(lambda it: f"urn:mif:{it}"),
    st.sampled_from(["urn:mif:", "urn:mif:m1", "urn:mif:m2", "urn:mif:e\u0301", "urn:mif:a b"]),
)
RATES = st.one_of(st.floats(0, 1), st.sampled_from([0, 1, 1.0, -0.0, 0.85, 1e-07]))
COUNTS = st.one_of(st.integers(1, 2**60), st.sampled_from([1, 1.0, 2.0, 1e2]))
STRINGS = st.lists(TEXT, max_size=3)
TYPES = st.sampled_from(["semantic", "episodic", "procedural"])
KEBABS = st.sampled_from(["plant", "a", "soil-profile", "x1-"])
NAMESPACED = st.sampled_from(["acme:memo", "a:b", "Legal2:Precedent-1"])


def objects(
    required: dict[str, Any], optional: dict[str, Any] | None = None, *, closed: bool = False
) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these fields, unknown ones if allowed, and keys in any order."""
    known = st.fixed_dictionaries(required, optional=optional or {})
    nothing: st.SearchStrategy[dict[str, Any]] = st.just({})
    both = st.tuples(nothing if closed else UNKNOWN, known).map(lambda pair: pair[0] | pair[1])
    return both.flatmap(
        lambda whole: st.sampled_from([list(whole), list(whole)[::-1], sorted(whole)]).map(
            lambda keys: {key: whole[key] for key in keys}
        )
    )


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


ENTITY_REFERENCES = objects(
    {
        "@type": st.just("EntityReference"),
        "entity": objects(
            {"@id": TEXT.map(lambda text: f"urn:mif:entity:{text}")}, closed=True
        ),
    },
    {
        "entityType": st.one_of(
            st.sampled_from(["Person", "Organization", "Technology", "Concept", "File"]), KEBABS
        ),
        "name": TEXT,
        "role": st.one_of(TEXT, st.just("subject")),
    },
    closed=True,
)  # fmt: skip
_CITATION: dict[str, Any] = {
    "@type": st.just("Citation"),
    "citationType": st.one_of(
        st.sampled_from(
            "article book paper website documentation repository video podcast specification"
            " dataset tool other".split()
        ),
        NAMESPACED,
    ),
    "citationRole": st.one_of(
        st.sampled_from(
            "supports refutes background methodology contradicts extends derived source example"
            " review".split()
        ),
        NAMESPACED,
    ),
    "title": SAID,
    "url": URIS,
}
_CITATION_MAY: dict[str, Any] = {
    "date": DATES,
    "accessed": DATES,
    "relevance": RATES,
    "note": TEXT,
}
CITATIONS = objects(
    _CITATION,
    _CITATION_MAY
    | {"author": st.one_of(TEXT, ENTITY_REFERENCES,
                           st.lists(ENTITY_REFERENCES, min_size=1, max_size=2))},
    closed=True,
)  # fmt: skip
"""As documents of their own; in a memory, an empty list of authors is good as well."""
INNER_CITATIONS = st.one_of(
    CITATIONS, objects(_CITATION, _CITATION_MAY | {"author": st.just([])}, closed=True)
)
ONTOLOGY_REFERENCES = objects(
    {"id": KEBABS},
    {
        "@type": st.just("OntologyReference"),
        "version": st.sampled_from(["1.0.0", "0.10.2-rc.1", "1.0.0junk"]),
        "uri": URIS,
    },
    closed=True,
)
ENTITY_DATA = objects({"name": TEXT}, {"entity_type": KEBABS, "entity_id": TEXT, "day": ANY})
RELATIONSHIPS_0_1 = objects(
    {
        "@type": st.just("Relationship"),
        "relationshipType": st.one_of(
            st.sampled_from(
                "RelatesTo DerivedFrom Supersedes ConflictsWith PartOf Implements Uses Created"
                " MentionedIn".split()
            ),
            NAMESPACED,
        ),
        "target": objects({"@id": URNS}),
    },
    {"strength": RATES, "metadata": OBJECT},
    closed=True,
)
RELATIONSHIPS_1_X = objects(
    {
        "type": st.sampled_from(["derived-from", "relates-to", "acme:x-1", "0", "uses"]),
        "target": st.one_of(URNS, TEXT),
    },
    {"strength": RATES, "metadata": OBJECT},
    closed=True,
)
REINFORCEMENTS = objects(
    {"timestamp": TIMES, "event": TEXT}, {"strengthDelta": NUMBERS, "context": TEXT}, closed=True
)
TEMPORALS = objects(
    {},
    {
        "@type": st.just("TemporalMetadata"),
        "validFrom": or_null(TIMES),
        "validUntil": or_null(TIMES),
        "recordedAt": TIMES,
        "ttl": SPANS,
        "decay": objects(
            {},
            {
                "model": st.sampled_from(["none", "linear", "exponential", "step"]),
                "halfLife": SPANS,
                "currentStrength": RATES,
                "strength": RATES,
                "lastReinforced": TIMES,
            },
            closed=True,
        ),
        "accessCount": st.one_of(COUNTS, st.just(0)),
        "lastAccessed": TIMES,
        "reinforcementHistory": st.lists(REINFORCEMENTS, max_size=2),
    },
    closed=True,
)
PROV_NODES = st.one_of(TEXT, objects({"@id": ANY}), objects({"id": ANY}))
_PROVENANCE: dict[str, Any] = {
    "@type": TEXT,
    "sourceType": st.sampled_from(
        "user_explicit user_implicit agent_inferred external_import system_generated".split()
    ),
    "confidence": RATES,
    "trustLevel": st.sampled_from(
        "verified user_stated high_confidence moderate_confidence low_confidence uncertain".split()
    ),
}
EMBEDDINGS = objects(
    {},
    {
        "@type": st.just("EmbeddingReference"),
        "model": TEXT,
        "modelVersion": TEXT,
        "dimensions": COUNTS,
        "sourceText": TEXT,
        "vectorUri": URIS,
        "normalized": st.booleans(),
    },
    closed=True,
)
DOCUMENT_REFERENCES = st.tuples(
    st.sampled_from([{"url": "https://example.org/a"}, {"id": "a"}, {"url": "a:b", "id": "x"}]),
    objects(
        {"@type": st.just("DocumentReference")},
        {
            "documentType": st.one_of(
                st.sampled_from(
                    "pdf html markdown text transcript dataset spreadsheet presentation image"
                    " audio video email other".split()
                ),
                NAMESPACED,
            ),
            "hash": objects({"algorithm": SAID, "value": SAID}, closed=True),
            "contentType": SAID,
            "version": SAID,
            "title": SAID,
            "byteLength": st.one_of(COUNTS, st.just(0)),
            "retrievedAt": TIMES,
        },
        closed=True,
    ),
).map(lambda pair: pair[1] | pair[0])
CONTEXTS = st.one_of(URIS, st.just(CONTEXT), OBJECT, st.lists(st.one_of(TEXT, OBJECT), max_size=2))
_MEMORY: dict[str, Any] = {
    "@context": CONTEXTS,
    "@id": URNS,
    "content": SAID,
    "created": TIMES,
}
_MEMORY_MAY: dict[str, Any] = {
    "title": TEXT,
    "modified": TIMES,
    "namespace": st.sampled_from(["_semantic/facts", "a", "a-b/c_d/0", "_local/x"]),
    "tags": st.one_of(STRINGS, st.just(["phi:x", "a", "a"])),
    "aliases": STRINGS,
    "ontology": ONTOLOGY_REFERENCES,
    "entity": ENTITY_DATA,
    "entities": st.lists(ENTITY_REFERENCES, max_size=2),
    "temporal": TEMPORALS,
    "embedding": EMBEDDINGS,
    "citations": st.lists(INNER_CITATIONS, max_size=2),
    "summary": TEXT,
    "compressedAt": TIMES,
    "extensions": OBJECT,
}
MEMORIES_0_1 = objects(
    _MEMORY
    | {
        "@type": st.sampled_from(["Memory", ["Memory"], ["prov:Entity", "Memory"]]),
        "memoryType": TYPES,
    },
    _MEMORY_MAY
    | {
        "relationships": st.lists(RELATIONSHIPS_0_1, max_size=2),
        "provenance": objects({}, _PROVENANCE),
        "blocks": st.dictionaries(TEXT, TEXT, max_size=2),
    },
)
"""Shape 0.1, as in the repository."""
MEMORIES_1_X = objects(
    _MEMORY
    | {
        "@type": st.sampled_from(["Concept", "Memory", ["Concept"], ["prov:Entity", "Concept"]]),
        "conceptType": TYPES,
    },
    _MEMORY_MAY
    | {
        "memoryType": TYPES,
        "timestamp": TIMES,
        "description": TEXT,
        "properties": st.dictionaries(
            TEXT, st.one_of(TEXT, NUMBERS, st.booleans(), st.none()), max_size=2
        ),
        "documents": st.lists(DOCUMENT_REFERENCES, max_size=2),
        "relationships": st.lists(RELATIONSHIPS_1_X, max_size=2),
        "provenance": objects(
            {},
            _PROVENANCE
            | {
                "sourceRef": TEXT,
                "agent": TEXT,
                "agentVersion": TEXT,
                "wasGeneratedBy": PROV_NODES,
                "wasAttributedTo": PROV_NODES,
                "wasDerivedFrom": st.one_of(PROV_NODES, st.lists(PROV_NODES, max_size=2)),
            },
        ),
    },
)
MEMORIES = st.one_of(MEMORIES_0_1, MEMORIES_1_X)
