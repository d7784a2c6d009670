# SPDX-License-Identifier: Apache-2.0
"""Each rule of MIF in JSON-LD broken once: good documents, one edit, and what is to be found.

A row is a base, the place of the edit, the new value (``GONE`` takes it away), and the errors of
mode schema as ``CODE pointer``; then, by name, what else a mode finds. Where nothing is said,
mode extra finds the same errors and no warning, and mode lenient the same errors.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from mif_ld_documents import (
    CITATION,
    CORPUS,
    DOCUMENT,
    FULL,
    FULL_1X,
    MINIMAL,
    MINIMAL_1X,
    ONTOLOGY,
    PERSON,
    REINFORCED,
)

GONE = object()


class Case(NamedTuple):
    base: str
    place: str
    value: Any
    errors: str = ""
    warnings: str = ""
    """Of mode extra."""
    lenient: str | None = None
    """Errors of mode lenient, if others."""
    told: str = ""
    """Warnings of mode lenient."""
    dropped: str = ""
    """Citations that mode lenient leaves out."""


def without(document: dict[str, Any], *places: str) -> dict[str, Any]:
    for place in places:
        document = edited(document, place, GONE)
    return document


def edited(document: Any, place: str, value: Any) -> Any:
    """A copy with another value at the pointer."""
    if not place:
        return value
    whole = json.loads(json.dumps(document))  # what stands twice in it becomes two
    *way, last = (key.replace("~1", "/").replace("~0", "~") for key in place.split("/")[1:])
    inner = whole
    for step in way:
        inner = inner[int(step) if isinstance(inner, list) else step]
    key: Any = int(last) if isinstance(inner, list) else last
    if value is GONE:
        del inner[key]
    elif isinstance(inner, list) and key == len(inner):
        inner.append(value)
    else:
        inner[key] = value
    return whole


# What mode extra says of them as they are would stand in every row.
BASES: dict[str, Any] = {
    "min": MINIMAL,
    "full": without(FULL, "/citations/2", "/entities/2", "/relationships/1"),
    "reinforced": REINFORCED,
    "min 1.x": MINIMAL_1X,
    "full 1.x": without(FULL_1X, "/memoryType"),
    "citation": CITATION,
    "entity": PERSON,
    "ontology": without(ONTOLOGY, "/discovery/patterns/2", "/discovery/patterns/1"),
    "corpus": without(CORPUS, "/records/1/payload/memoryType"),
    "array": [MINIMAL, MINIMAL_1X],
}
BASES["published"] = BASES["full"]
OPTIONS: dict[str, dict[str, Any]] = {
    "published": {"strict_published": True},
    "citation": {"kind": "citation"},
    "entity": {"kind": "entity-reference"},
    "ontology": {"kind": "ontology"},
}

LONG = "x" * 501
REL = {"@type": "Relationship", "relationshipType": "Uses", "target": {"@id": "urn:mif:x"}}
R = "/relationships/0"
C = "/citations/0"
T = "/temporal"
D = "/documents/0"

CASES = [
    # what must be there
    *(Case("min", f"/{key}", GONE, "MIF-MISSING ")
      for key in ("@context", "@type", "@id", "memoryType", "content", "created")),
    *(Case("min 1.x", f"/{key}", GONE, "MIF-MISSING ")
      for key in ("@context", "@type", "@id", "conceptType", "content", "created")),
    Case("min", "/title", 5, "MIF-VALUE /title"),
    Case("min", "", [], "MIF-KIND "),
    Case("min", "", {}, "MIF-KIND "),
    Case("min", "", "text", "MIF-KIND "),
    Case("min", "", {"hello": 1}, "MIF-KIND "),
    # @context and @type
    Case("min", "/@context", "not a uri", "MIF-CONTEXT /@context"),
    Case("min", "/@context", 5, "MIF-CONTEXT /@context"),
    Case("min", "/@context", None, "MIF-CONTEXT /@context"),
    Case("min", "/@context", ["a", 5], "MIF-VALUE /@context/1"),
    Case("min", "/@context", ["not a uri", {}]),
    Case("min", "/@context", {"x": "urn:x"}),
    Case("min", "/@type", "Thing", "MIF-CLASS /@type"),
    Case("min", "/@type", "memory", "MIF-CLASS /@type"),
    Case("min", "/@type", ["Thing"], "MIF-CLASS /@type"),
    Case("min", "/@type", [], "MIF-CLASS /@type"),
    Case("min", "/@type", {}, "MIF-CLASS /@type"),
    Case("min", "/@type", ["x", "Memory", 5]),
    Case("min 1.x", "/@type", "Thing", "MIF-CLASS /@type"),
    Case("min 1.x", "/@type", "Memory"),
    Case("min 1.x", "/@type", ["Concept", "Memory"]),
    Case("min 1.x", "/@type", [], "MIF-CLASS /@type"),
    # @id
    Case("min", "/@id", "demo", "MIF-ID /@id"),
    Case("min", "/@id", "URN:MIF:demo", "MIF-ID /@id"),
    Case("min", "/@id", " urn:mif:demo", "MIF-ID /@id"),
    Case("min", "/@id", "x\nurn:mif:demo", "MIF-ID /@id"),
    Case("min", "/@id", 5, "MIF-VALUE /@id"),
    Case("min", "/@id", "urn:mif:", "", "MIF-ID /@id"),
    Case("min", "/@id", "urn:mif:a\n"),
    # types
    Case("min", "/memoryType", "fact", "MIF-TYPE /memoryType"),
    Case("min", "/memoryType", "Semantic", "MIF-TYPE /memoryType"),
    Case("min", "/memoryType", None, "MIF-VALUE /memoryType"),
    Case("min 1.x", "/conceptType", "fact", "MIF-TYPE /conceptType"),
    Case("min 1.x", "/memoryType", "fact", "MIF-TYPE /memoryType"),
    Case("min 1.x", "/memoryType", "semantic", "", "MIF-TYPES /memoryType"),
    Case("min 1.x", "/memoryType", "procedural"),
    # texts
    Case("min", "/content", "", "MIF-EMPTY /content"),
    Case("min", "/content", ["x"], "MIF-VALUE /content"),
    Case("min", "/content", " ", "", "MIF-EMPTY /content"),
    Case("min", "/summary", "x" * 500),
    Case("min", "/summary", LONG, "MIF-LONG /summary"),
    Case("min", "/summary", "\U0001f600" * 500),
    Case("min", "/summary", "\U0001f600" * 501, "MIF-LONG /summary"),
    # times
    Case("min", "/created", "yesterday", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26 00:00:00Z", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26T00:00:00", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26T00:00Z", "MIF-DATE /created"),
    Case("min", "/created", "2026-02-29T00:00:00Z", "MIF-DATE /created"),
    Case("min", "/created", "2026-13-01T00:00:00Z", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26T24:00:00Z", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26T00:00:00+0100", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26T00:00:00+24:00", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26T00:00:00.Z", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26T00:00:60Z", "MIF-DATE /created"),
    Case("min", "/created", "2026-01-26T00:00:00Z\n", "MIF-DATE /created"),
    Case("min", "/created", "\u0662026-01-26T00:00:00Z", "MIF-DATE /created"),
    Case("min", "/created", None, "MIF-VALUE /created"),
    Case("min", "/created", 1769385600, "MIF-VALUE /created"),
    Case("min", "/created", "1998-12-31T15:59:60.5-08:00"),
    Case("min", "/created", "2024-02-29t00:00:00.123456z"),
    Case("full", "/modified", "2026-02-28T00:00:00Z", "", "MIF-ORDER /modified"),
    Case("full", "/modified", "soon", "MIF-DATE /modified"),
    Case("full", "/compressedAt", "2026", "MIF-DATE /compressedAt"),
    Case("full 1.x", "/timestamp", "2026", "MIF-DATE /timestamp"),
    # namespace
    Case("min", "/namespace", "acme:chat", "MIF-NS /namespace"),
    Case("min", "/namespace", "a.b", "MIF-NS /namespace"),
    Case("min", "/namespace", "_shared/acme+corp", "MIF-NS /namespace"),
    Case("min", "/namespace", "a/", "MIF-NS /namespace"),
    Case("min", "/namespace", "/a", "MIF-NS /namespace"),
    Case("min", "/namespace", "a//b", "MIF-NS /namespace"),
    Case("min", "/namespace", "", "MIF-NS /namespace"),
    Case("min", "/namespace", "a/b\n", "MIF-NS /namespace"),
    Case("min", "/namespace", "caf\u00e9", "MIF-NS /namespace"),
    Case("min", "/namespace", None, "MIF-VALUE /namespace"),
    Case("min", "/namespace", "_local/x", "", "MIF-LOCAL /namespace"),
    Case("min", "/namespace", "_locals/x"),
    # lists of texts, objects
    Case("min", "/tags", "garden", "MIF-VALUE /tags"),
    Case("min", "/tags", ["a", 5], "MIF-VALUE /tags/1"),
    Case("min", "/tags", ["a", None, 5], "MIF-VALUE /tags/1, MIF-VALUE /tags/2"),
    Case("min", "/tags", ["a", "a", ""]),
    Case("min", "/aliases", [[]], "MIF-VALUE /aliases/0"),
    Case("min", "/extensions", [], "MIF-VALUE /extensions"),
    Case("min", "/extensions", {"x": None}),
    Case("min", "/blocks", {"b": 5}, "MIF-VALUE /blocks/b"),
    Case("min 1.x", "/blocks", {"b": 5}),
    Case("min", "/properties", {"b": []}),
    Case("full 1.x", "/properties/cans", [2], "MIF-VALUE /properties/cans"),
    Case("full 1.x", "/properties/a~1b", {}, "MIF-VALUE /properties/a~1b"),
    Case("full 1.x", "/description", 5, "MIF-VALUE /description"),
    Case("min", "/anything", {"at": ["all"]}),
    Case("min", "/$schema", "https://example.org/mif", "", "MIF-REF /$schema"),
    # ontology and entity
    Case("full", "/ontology/id", GONE, "MIF-MISSING /ontology"),
    Case("full", "/ontology/id", "Garden", "MIF-NAME /ontology/id"),
    Case("full", "/ontology/id", "garden_notes", "MIF-NAME /ontology/id"),
    Case("full", "/ontology/version", "1.0", "MIF-VERSION /ontology/version"),
    Case("full", "/ontology/version", "\u0661.0.0", "MIF-VERSION /ontology/version"),
    Case("full", "/ontology/version", "1.0.0\n", "MIF-VERSION /ontology/version"),
    Case("full", "/ontology/version", "1.0.0junk", "", "MIF-VERSION /ontology/version"),
    Case("full", "/ontology/version", "1.0.0-rc.1"),
    Case("full", "/ontology/uri", "garden.yaml", "MIF-URI /ontology/uri"),
    Case("full", "/ontology/@type", "Ontology", "MIF-CLASS /ontology/@type"),
    Case("full", "/ontology/@type", GONE),
    Case("full", "/ontology/name", "x", "MIF-KEY /ontology"),
    Case("full", "/ontology", "garden", "MIF-VALUE /ontology"),
    Case("full", "/entity/name", GONE, "MIF-MISSING /entity"),
    Case("full", "/entity/name", 5, "MIF-VALUE /entity/name"),
    Case("full", "/entity/entity_type", "Place", "MIF-ENTITY /entity/entity_type"),
    Case("full", "/entity/entity_id", 1, "MIF-VALUE /entity/entity_id"),
    Case("full", "/entity/more", {}),
    # entities
    Case("full", "/entities", {}, "MIF-VALUE /entities"),
    Case("full", "/entities/0", "Ada", "MIF-VALUE /entities/0"),
    Case("full", "/entities/0/@type", GONE, "MIF-MISSING /entities/0"),
    Case("full", "/entities/0/@type", "Entity", "MIF-CLASS /entities/0/@type"),
    Case("full", "/entities/0/entity", GONE, "MIF-MISSING /entities/0"),
    Case("full", "/entities/0/entity/@id", GONE, "MIF-MISSING /entities/0/entity"),
    Case("full", "/entities/0/entity/@id", "urn:mif:ada", "MIF-ID /entities/0/entity/@id"),
    Case("full", "/entities/0/entity/name", "Ada", "MIF-KEY /entities/0/entity"),
    Case("full", "/entities/0/entityType", "Project", "MIF-ENTITY /entities/0/entityType"),
    Case("full", "/entities/0/entityType", "project", "", "MIF-ENTITY /entities/0/entityType"),
    Case("full", "/entities/0/entityType", 5, "MIF-VALUE /entities/0/entityType"),
    Case("full", "/entities/0/name", None, "MIF-VALUE /entities/0/name"),
    Case("full", "/entities/0/role", 5, "MIF-VALUE /entities/0/role"),
    Case("full", "/entities/0/since", "x", "MIF-KEY /entities/0"),
    Case("full", "/entities/2", {**PERSON, "entity": {"@id": "urn:mif:entity:"}}),
    # relationships of 0.1
    Case("full", f"{R}/@type", GONE, f"MIF-MISSING {R}"),
    Case("full", f"{R}/@type", "Relation", f"MIF-CLASS {R}/@type"),
    Case("full", f"{R}/relationshipType", GONE, f"MIF-MISSING {R}"),
    Case("full", f"{R}/relationshipType", "derived-from", f"MIF-REL {R}/relationshipType"),
    Case("full", f"{R}/relationshipType", "Likes", f"MIF-REL {R}/relationshipType"),
    Case("full", f"{R}/relationshipType", "a_b:C", f"MIF-REL {R}/relationshipType"),
    Case("full", f"{R}/relationshipType", "a:C\n", f"MIF-REL {R}/relationshipType"),
    Case("full", f"{R}/relationshipType", "farm:BreedsWith", "", f"MIF-REL {R}/relationshipType"),
    Case("full", f"{R}/target", GONE, f"MIF-MISSING {R}"),
    Case("full", f"{R}/target", "urn:mif:x", f"MIF-VALUE {R}/target"),
    Case("full", f"{R}/target/@id", GONE, f"MIF-MISSING {R}/target"),
    Case("full", f"{R}/target/@id", "x", f"MIF-ID {R}/target/@id"),
    Case("full", f"{R}/target/note", "kept"),
    Case("full", f"{R}/strength", 1.01, f"MIF-RANGE {R}/strength"),
    Case("full", f"{R}/strength", -0.1, f"MIF-RANGE {R}/strength"),
    Case("full", f"{R}/strength", "0.9", f"MIF-VALUE {R}/strength"),
    Case("full", f"{R}/strength", True, f"MIF-VALUE {R}/strength"),
    Case("full", f"{R}/metadata", [], f"MIF-VALUE {R}/metadata"),
    Case("full", f"{R}/reason", "x", f"MIF-KEY {R}"),
    # One defect, not a key too many and a key too few.
    Case("full", R, {"@type": "Relationship", "type": "Uses", "target": {"@id": "urn:mif:x"}},
         f"MIF-KEY {R}"),
    # relationships of 1.x
    Case("full 1.x", f"{R}/type", GONE, f"MIF-MISSING {R}"),
    Case("full 1.x", f"{R}/type", "Derived-From", f"MIF-REL {R}/type"),
    Case("full 1.x", f"{R}/type", "a:b:c", f"MIF-REL {R}/type"),
    Case("full 1.x", f"{R}/type", "", f"MIF-REL {R}/type"),
    Case("full 1.x", f"{R}/target", GONE, f"MIF-MISSING {R}"),
    Case("full 1.x", f"{R}/target", 5, f"MIF-VALUE {R}/target"),
    Case("full 1.x", f"{R}/@type", "Relationship", f"MIF-KEY {R}"),
    Case("full 1.x", f"{R}/strength", 2, f"MIF-RANGE {R}/strength"),
    # shapes
    Case("full", R, {"type": "derived-from", "target": "urn:mif:x"}, f"MIF-SHAPE {R}"),
    Case("min", "/relationships", [{"type": "uses", "target": "a"}] * 3,
         "MIF-SHAPE /relationships/0"),
    Case("min", "/@type", "Concept", "MIF-SHAPE /@type"),
    Case("full 1.x", R, REL, f"MIF-SHAPE {R}"),
    Case("full 1.x", R, {"type": "uses", "target": {"@id": "urn:mif:x"}},
         f"MIF-VALUE {R}/target"),
    Case("full 1.x", R, {"target": {"@id": "urn:mif:x"}}, f"MIF-SHAPE {R}"),
    Case("min 1.x", "/@type", ["Memory"], "MIF-SHAPE /@type"),
    Case("full", "/conceptType", "semantic"),
    # temporal
    Case("full", T, [], f"MIF-VALUE {T}"),
    Case("full", f"{T}/valid_from", "2026-03-01T00:00:00Z", f"MIF-KEY {T}"),
    Case("full", f"{T}/@type", "Temporal", f"MIF-CLASS {T}/@type"),
    Case("full", f"{T}/validFrom", "2026-03-01", f"MIF-DATE {T}/validFrom"),
    Case("full", f"{T}/validFrom", 5, f"MIF-VALUE {T}/validFrom"),
    Case("full", f"{T}/validFrom", None),
    Case("full", f"{T}/validUntil", "2026-02-01T00:00:00Z", "", f"MIF-ORDER {T}/validUntil"),
    Case("full", f"{T}/validUntil", "2026-03-01T00:00:00+00:00"),
    Case("full", f"{T}/recordedAt", None, f"MIF-VALUE {T}/recordedAt"),
    Case("full", f"{T}/lastAccessed", "now", f"MIF-DATE {T}/lastAccessed"),
    Case("full", f"{T}/ttl", "90D", f"MIF-DURATION {T}/ttl"),
    Case("full", f"{T}/ttl", 90, f"MIF-VALUE {T}/ttl"),
    Case("full", f"{T}/ttl", "Pfoo", "", f"MIF-DURATION {T}/ttl"),
    Case("full", f"{T}/ttl", "P", "", f"MIF-DURATION {T}/ttl"),
    Case("full", f"{T}/ttl", "P1DT", "", f"MIF-DURATION {T}/ttl"),
    Case("full", f"{T}/ttl", "P0.5Y2D", "", f"MIF-DURATION {T}/ttl"),
    Case("full", f"{T}/ttl", "P2W"),
    Case("full", f"{T}/accessCount", -1, f"MIF-RANGE {T}/accessCount"),
    Case("full", f"{T}/accessCount", 1.5, f"MIF-VALUE {T}/accessCount"),
    Case("full", f"{T}/accessCount", True, f"MIF-VALUE {T}/accessCount"),
    Case("full", f"{T}/accessCount", 5.0),
    Case("full", f"{T}/decay", None, f"MIF-VALUE {T}/decay"),
    Case("full", f"{T}/decay/model", "slow", f"MIF-WORD {T}/decay/model"),
    Case("full", f"{T}/decay/halfLife", "7 days", f"MIF-DURATION {T}/decay/halfLife"),
    Case("full", f"{T}/decay/halfLife", "P7X", "", f"MIF-DURATION {T}/decay/halfLife"),
    Case("full", f"{T}/decay/halfLife", GONE, "", f"MIF-DECAY {T}/decay"),
    Case("full", f"{T}/decay/model", "none"),
    Case("full", f"{T}/lastAccessed", "2026-02-01T00:00:00Z", "", f"MIF-ORDER {T}/lastAccessed"),
    Case("full", f"{T}/decay/currentStrength", 2, f"MIF-RANGE {T}/decay/currentStrength"),
    Case("full", f"{T}/decay/strength", 0.85, "", f"MIF-STRENGTH {T}/decay/strength"),
    Case("full", f"{T}/decay/curve", 1, f"MIF-KEY {T}/decay"),
    Case("published", f"{T}/decay/curve", 1),
    Case("reinforced", f"{T}/decay/strength", "much", f"MIF-VALUE {T}/decay/strength"),
    Case("reinforced", f"{T}/decay/lastReinforced", "x", f"MIF-DATE {T}/decay/lastReinforced"),
    Case("published", f"{T}/decay/lastReinforced", 5),
    Case("published", f"{T}/reinforcementHistory", [], f"MIF-KEY {T}"),
    Case("reinforced", f"{T}/reinforcementHistory", {}, f"MIF-VALUE {T}/reinforcementHistory"),
    *(Case("reinforced", f"{T}/reinforcementHistory/0/{key}", GONE,
           f"MIF-MISSING {T}/reinforcementHistory/0") for key in ("timestamp", "event")),
    Case("reinforced", f"{T}/reinforcementHistory/0/strengthDelta", "1",
         f"MIF-VALUE {T}/reinforcementHistory/0/strengthDelta"),
    Case("reinforced", f"{T}/reinforcementHistory/0/strengthDelta", -7),
    Case("reinforced", f"{T}/reinforcementHistory/0/by", "x",
         f"MIF-KEY {T}/reinforcementHistory/0"),
    # provenance
    Case("full", "/provenance/sourceType", "user", "MIF-WORD /provenance/sourceType"),
    Case("full", "/provenance/trustLevel", "high", "MIF-WORD /provenance/trustLevel"),
    Case("full", "/provenance/confidence", 1.5, "MIF-RANGE /provenance/confidence"),
    Case("full", "/provenance/confidence", 0.5, "", "MIF-CONFIDENCE /provenance/confidence"),
    Case("full", "/provenance/confidence", 1),
    Case("full", "/provenance/@type", [], "MIF-VALUE /provenance/@type"),
    Case("full", "/provenance/agent", 5),
    Case("full 1.x", "/provenance/agent", 5, "MIF-VALUE /provenance/agent"),
    Case("full 1.x", "/provenance/wasGeneratedBy", 5, "MIF-PROV /provenance/wasGeneratedBy"),
    Case("full 1.x", "/provenance/wasGeneratedBy", {}, "MIF-PROV /provenance/wasGeneratedBy"),
    Case("full 1.x", "/provenance/wasGeneratedBy", [], "MIF-PROV /provenance/wasGeneratedBy"),
    Case("full 1.x", "/provenance/wasDerivedFrom", ["a", 5],
         "MIF-PROV /provenance/wasDerivedFrom/1"),
    Case("full 1.x", "/provenance/wasDerivedFrom", {"x": 1},
         "MIF-PROV /provenance/wasDerivedFrom"),
    # embedding
    Case("full", "/embedding/vector", [0.1], "MIF-KEY /embedding"),
    Case("full", "/embedding/quantization", "int8", "MIF-KEY /embedding"),
    Case("full", "/embedding/dimensions", 0, "MIF-RANGE /embedding/dimensions"),
    Case("full", "/embedding/dimensions", "1536", "MIF-VALUE /embedding/dimensions"),
    Case("full", "/embedding/vectorUri", "vectors/1.bin", "MIF-URI /embedding/vectorUri"),
    Case("full", "/embedding/normalized", "yes", "MIF-VALUE /embedding/normalized"),
    Case("full", "/embedding/model", None, "MIF-VALUE /embedding/model"),
    Case("full", "/embedding", {}),
    # citations in a memory
    *(Case("full", f"{C}/{key}", GONE, f"MIF-MISSING {C}", lenient="", dropped=f"MIF-MISSING {C}")
      for key in ("@type", "citationType", "citationRole", "title", "url")),
    Case("full", f"{C}/url", "example.org", f"MIF-URI {C}/url", lenient="",
         dropped=f"MIF-URI {C}/url"),
    Case("full", f"{C}/url", "https://exa mple.org", f"MIF-URI {C}/url", lenient="",
         dropped=f"MIF-URI {C}/url"),
    Case("full", f"{C}/url", "urn:isbn:0451450523"),
    Case("full", f"{C}/title", "", f"MIF-EMPTY {C}/title", lenient="",
         dropped=f"MIF-EMPTY {C}/title"),
    Case("full", C, None, f"MIF-VALUE {C}", lenient="", dropped=f"MIF-VALUE {C}"),
    Case("full", f"{C}/citationType", "memo", f"MIF-CITATION {C}/citationType", lenient="",
         told=f"MIF-CITATION {C}/citationType"),
    Case("full", f"{C}/citationType", "acme:memo"),
    Case("full", f"{C}/citationType", "my-co:memo", f"MIF-CITATION {C}/citationType", lenient="",
         told=f"MIF-CITATION {C}/citationType"),
    Case("full", f"{C}/citationRole", "proves", f"MIF-CITATION {C}/citationRole", lenient="",
         told=f"MIF-CITATION {C}/citationRole"),
    Case("full", f"{C}/relevance", 1.2, f"MIF-RANGE {C}/relevance", lenient="",
         told=f"MIF-RANGE {C}/relevance"),
    Case("full", f"{C}/relevance", None, f"MIF-VALUE {C}/relevance"),
    Case("full", f"{C}/date", "2025-06", f"MIF-DATE {C}/date", lenient="",
         told=f"MIF-DATE {C}/date"),
    Case("full", f"{C}/accessed", "2026-02-20T00:00:00Z", f"MIF-DATE {C}/accessed", lenient="",
         told=f"MIF-DATE {C}/accessed"),
    Case("full", f"{C}/date", "2025-02-30", f"MIF-DATE {C}/date", lenient="",
         told=f"MIF-DATE {C}/date"),
    Case("full", f"{C}/note", "x" * 1001, f"MIF-LONG {C}/note"),
    Case("full", f"{C}/pages", "1-2", f"MIF-KEY {C}"),
    Case("full", f"{C}/author", 5, f"MIF-AUTHOR {C}/author"),
    Case("full", f"{C}/author", ["Ada"], f"MIF-VALUE {C}/author/0"),
    Case("full", f"{C}/author", [], "", f"MIF-EMPTY {C}/author"),
    Case("full", f"{C}/author/name", 5, f"MIF-VALUE {C}/author/name"),
    Case("full", f"{C}/author/entityType", "Cat", f"MIF-ENTITY {C}/author/entityType"),
    Case("full", f"{C}/author", [PERSON, {**PERSON, "x": 1}], f"MIF-KEY {C}/author/1"),
    Case("full", "/citations", {}, "MIF-VALUE /citations"),
    # a citation alone
    Case("citation", "/author", [], "MIF-EMPTY /author"),
    Case("citation", "/author", [PERSON]),
    Case("citation", "/url", GONE, "MIF-MISSING "),
    Case("citation", "/citationRole", "proves", "MIF-CITATION /citationRole", lenient="",
         told="MIF-CITATION /citationRole"),
    Case("citation", "/note", "x" * 1000),
    Case("citation", "/isbn", "1", "MIF-KEY "),
    # a reference to an entity alone
    Case("entity", "/entity", "urn:mif:entity:x", "MIF-VALUE /entity"),
    Case("entity", "/entityType", "thing", "", "MIF-ENTITY /entityType"),
    Case("entity", "/entity/@id", "urn:mif:person:ada", "MIF-ID /entity/@id"),
    # documents of 1.x
    Case("full 1.x", f"{D}/@type", GONE, f"MIF-MISSING {D}"),
    Case("full 1.x", D, {"@type": "DocumentReference"}, f"MIF-MISSING {D}"),
    Case("full 1.x", f"{D}/url", "plan.pdf", f"MIF-URI {D}/url"),
    Case("full 1.x", f"{D}/url", "", f"MIF-URI {D}/url"),
    Case("full 1.x", f"{D}/id", "", f"MIF-EMPTY {D}/id"),
    Case("full 1.x", f"{D}/documentType", "scroll", f"MIF-WORD {D}/documentType"),
    Case("full 1.x", f"{D}/hash/value", GONE, f"MIF-MISSING {D}/hash"),
    Case("full 1.x", f"{D}/hash/algorithm", "", f"MIF-EMPTY {D}/hash/algorithm"),
    Case("full 1.x", f"{D}/hash/x", "", f"MIF-KEY {D}/hash"),
    Case("full 1.x", f"{D}/byteLength", -1, f"MIF-RANGE {D}/byteLength"),
    Case("full 1.x", f"{D}/retrievedAt", "2026-03-01", f"MIF-DATE {D}/retrievedAt"),
    Case("full 1.x", f"{D}/author", "Ada", f"MIF-KEY {D}"),
    Case("full 1.x", D, without(DOCUMENT, "/url")),
    Case("full", "/documents", "kept"),
    # ontologies
    Case("ontology", "", {}, "", "MIF-MISSING "),
    Case("ontology", "/ontology/id", GONE, "MIF-MISSING /ontology"),
    Case("ontology", "/ontology/version", GONE, "MIF-MISSING /ontology"),
    Case("ontology", "/ontology/id", "Garden", "MIF-NAME /ontology/id"),
    Case("ontology", "/ontology/version", "1", "MIF-VERSION /ontology/version"),
    Case("ontology", "/ontology/version", "1.0.0.0", "", "MIF-VERSION /ontology/version"),
    Case("ontology", "/ontology/schema_url", "x", "MIF-URI /ontology/schema_url"),
    Case("ontology", "/ontology/extends", "mif-base", "MIF-VALUE /ontology/extends"),
    Case("ontology", "/ontology/extends/0", "MIF", "MIF-NAME /ontology/extends/0"),
    Case("ontology", "/ontology/maintainer", "anyone"),
    Case("ontology", "/namespaces", [], "MIF-VALUE /namespaces"),
    Case("ontology", "/namespaces/semantic/type_hint", "facts",
         "MIF-TYPE /namespaces/semantic/type_hint"),
    Case("ontology", "/namespaces/semantic/replaces", [],
         "MIF-VALUE /namespaces/semantic/replaces"),
    Case("ontology", "/namespaces/semantic/children/plants/children/roses", 5,
         "MIF-VALUE /namespaces/semantic/children/plants/children/roses"),
    Case("ontology", "/entity_types", {}, "MIF-VALUE /entity_types"),
    Case("ontology", "/entity_types/0/name", GONE, "MIF-MISSING /entity_types/0"),
    Case("ontology", "/entity_types/0/name", "Plant", "MIF-NAME /entity_types/0/name"),
    Case("ontology", "/entity_types/0/base", GONE, "MIF-MISSING /entity_types/0"),
    Case("ontology", "/entity_types/0/base", "fact", "MIF-TYPE /entity_types/0/base"),
    Case("ontology", "/entity_types/0/traits", [5], "MIF-VALUE /entity_types/0/traits/0"),
    Case("ontology", "/entity_types/0/schema/required", "name",
         "MIF-VALUE /entity_types/0/schema/required"),
    Case("ontology", "/entity_types/0/schema/properties/name", "string",
         "MIF-VALUE /entity_types/0/schema/properties/name"),
    Case("ontology", "/entity_types/0/schema/properties/name/type", "text",
         "MIF-WORD /entity_types/0/schema/properties/name/type"),
    Case("ontology", "/entity_types/1/subtype_of", [], "MIF-EMPTY /entity_types/1/subtype_of"),
    Case("ontology", "/entity_types/1/subtype_of", ["plant", "plant"],
         "MIF-DUPLICATE /entity_types/1/subtype_of"),
    Case("ontology", "/traits/dated/fields", [], "MIF-VALUE /traits/dated/fields"),
    Case("ontology", "/traits/placed/requires", "namespace", "MIF-VALUE /traits/placed/requires"),
    Case("ontology", "/relationships/grows_beside/from", "plant",
         "MIF-VALUE /relationships/grows_beside/from"),
    Case("ontology", "/relationships/grows_beside/symmetric", "yes",
         "MIF-VALUE /relationships/grows_beside/symmetric"),
    Case("ontology", "/discovery/enabled", 1, "MIF-VALUE /discovery/enabled"),
    Case("ontology", "/discovery/confidence_threshold", 80,
         "MIF-RANGE /discovery/confidence_threshold"),
    Case("ontology", "/discovery/patterns/0/suggest_entity", GONE, "",
         "MIF-MISSING /discovery/patterns/0"),
    Case("ontology", "/discovery/patterns/0/content_pattern", 5,
         "MIF-VALUE /discovery/patterns/0/content_pattern"),
    Case("ontology", "/discovery/content_patterns/0/pattern", GONE,
         "MIF-MISSING /discovery/content_patterns/0"),
    Case("ontology", "/discovery/file_patterns/0/pattern", GONE,
         "MIF-MISSING /discovery/file_patterns/0"),
    Case("ontology", "/discovery/file_patterns/0/namespaces", "semantic",
         "MIF-VALUE /discovery/file_patterns/0/namespaces"),
    # several in one
    Case("corpus", "/records", GONE, "MIF-MISSING "),
    Case("corpus", "/records", {}, "MIF-VALUE /records"),
    Case("corpus", "/records", []),
    Case("corpus", "/records/0/payload", GONE, "MIF-VALUE /records/0/payload"),
    Case("corpus", "/records/0", MINIMAL),
    Case("corpus", "/records/0", {"payload": MINIMAL}),
    Case("corpus", "/records/0/kind", GONE),
    Case("corpus", "/records/0", 5, "MIF-VALUE /records/0"),
    Case("corpus", "/records/0/payload/created", "x", "MIF-DATE /records/0/payload/created"),
    Case("corpus", "/records/1/payload/documents/0/hash", 5,
         "MIF-VALUE /records/1/payload/documents/0/hash"),
    Case("corpus", "/records/2/payload", {"created": "x"}),
    Case("array", "/0/created", "x", "MIF-DATE /0/created"),
    Case("array", "/1/@id", "x", "MIF-ID /1/@id"),
    Case("array", "/2", {}, "MIF-KIND /2"),
]  # fmt: skip
