# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD: good documents of both shapes, each rule broken once, what each mode says.

What is wrong stands here, said by who wrote the change and not by what the checker found. The
addresses of grains are this project's own, and are taken from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from omsgrain import formats
from omsgrain.conformance.vectors import addresses
from omsgrain.errors import OmsError
from source.edits import GONE, edited
from support import mif_ld_examples as examples

MIN, MIN_1X, CITATION = examples.MINIMAL, examples.MINIMAL_1X, examples.CITATION
FULL, FULL_1X = examples.FULL, examples.FULL_1X
OTHER: Final = MIN | {"@id": "urn:mif:hedge", "content": "The hedge is cut in June."}
R: Final = "/relationships/0"


def _relation(target: str, kind: str = "RelatesTo") -> dict[str, Any]:
    return {"@type": "Relationship", "relationshipType": kind, "target": {"@id": target}}


class Case(NamedTuple):
    """A document.

    Attributes:
        name: what it shows.
        section: of the schema reference.
        base: the document that is edited; a text as it stands.
        edits: by pointer.
        wrong: the rule that it breaks, and where; empty for a good one.
        told: rules of its warnings.
        mode: how it is judged.
        dropped: what is left out of it.
    """

    name: str
    section: str
    base: Any
    edits: Mapping[str, Any] = MappingProxyType({})
    wrong: str = ""
    told: tuple[str, ...] = ()
    mode: str = "schema"
    dropped: str = ""


MARKDOWN: Final = """\
---
id: garden
type: semantic
created: 2026-03-01T08:00:00Z
namespace: _semantic/garden
temporal:
  valid_from: 2026-03-01T00:00:00Z
---

The garden is watered in the evening.

## Relationships

- derived-from [[talk]]

## Entities

- @[[Ada|Person]]
"""
MARKDOWN_1X: Final = """\
---
id: garden
type: procedural
created: 2026-03-01T08:00:00Z
relationships:
  - type: part-of
    target: ../walk.md
---

Fill the can, and water the roses.
"""

GOOD: Final = (
    Case("the least of 0.1", "document", MIN),
    Case("the least of 1.x", "document", MIN_1X),
    Case("all fragments of the reference", "document", FULL),
    Case("all of 1.x", "document", FULL_1X),
    Case("reinforced, as in the repository", "temporal", examples.REINFORCED),
    Case("a citation alone", "citations", CITATION),
    Case("a reference to an entity alone", "entities", examples.PERSON),
    Case("an array of both shapes", "document", [MIN, MIN_1X]),
    Case("a corpus", "document", examples.CORPUS),
    Case("by lines", "document", "".join(f"{json.dumps(one)}\n" for one in (MIN, MIN_1X))),
    Case("markdown of 0.1", "document", MARKDOWN),
    Case("markdown of 1.x", "document", MARKDOWN_1X),
    Case("types in an array", "document", MIN, {"/@type": ["prov:Entity", "Memory"]}),
    Case("a context of its own", "document", MIN,
         {"/@context": [examples.CONTEXT, {"garden": "urn:x:garden"}]}),
    Case("both types of 1.x", "document", MIN_1X, {"/memoryType": "semantic"}),
    Case("true until nobody knows", "temporal", MIN,
         {"/temporal": {"validFrom": "1843-12-10T00:00:00Z", "validUntil": None}}),
    Case("true for a while, recorded later", "temporal", MIN_1X,
         {"/temporal": {"validFrom": "2026-01-01T00:00:00Z", "validUntil": "2026-02-01T00:00:00Z",
                        "recordedAt": "2026-03-01T00:00:00.250Z"}}),
    Case("modified and not recorded", "temporal", MIN, {"/modified": "2026-04-01T00:00:00Z"}),
    Case("times spelled otherwise", "temporal", MIN,
         {"/created": "2026-03-01t09:00:00.123456+01:00"}),
    Case("counters only", "temporal", MIN,
         {"/temporal": {"accessCount": 5, "decay": {"currentStrength": 0.5}}}),
    Case("one and 1.0", "relationships", MIN,
         {"/relationships": [_relation("urn:mif:a") | {"strength": 1},
                             _relation("urn:mif:a") | {"strength": 1.0}]}),
    Case("two that name each other", "relationships",
         [MIN | {"relationships": [_relation(OTHER["@id"])]},
          OTHER | {"relationships": [_relation(MIN["@id"])]}]),
    Case("nothing in arrays and objects", "extensions", MIN,
         {"/tags": [], "/entities": [], "/embedding": {}, "/extensions": {"x": None}}),
    Case("tags twice", "document", MIN, {"/tags": ["a", "b", "a"]}),
    Case("letters that are not composed", "document", MIN,
         {"/content": "cafe\u0301", "/extensions": {"e\u0301": "e\u0301"}}),
)  # fmt: skip

BAD: Final = (
    Case("no content", "document", MIN, {"/content": GONE}, "MIF-MISSING "),
    Case("an id without its prefix", "document", MIN, {"/@id": "demo"}, "MIF-ID /@id"),
    Case("a finer type", "document", MIN, {"/memoryType": "fact"}, "MIF-TYPE /memoryType"),
    Case("a day instead of a time", "document", MIN, {"/created": "2026-01-26"},
         "MIF-DATE /created"),
    Case("a namespace with a colon", "document", MIN, {"/namespace": "acme:chat"},
         "MIF-NS /namespace"),
    Case("a type of 1.x in 0.1", "relationships", FULL,
         {f"{R}/relationshipType": "derived-from"}, f"MIF-REL {R}/relationshipType"),
    Case("a type of 0.1 in 1.x", "relationships", FULL_1X, {f"{R}/type": "DerivedFrom"},
         f"MIF-REL {R}/type"),
    Case("a relationship of the other shape", "relationships", MIN,
         {"/relationships": [{"type": "uses", "target": "a"}]}, "MIF-SHAPE /relationships/0"),
    Case("a key in snake case", "temporal", FULL,
         {"/temporal/valid_from": "2026-03-01T00:00:00Z"}, "MIF-KEY /temporal"),
    Case("a context that is none", "document", MIN, {"/@context": "not a uri"},
         "MIF-CONTEXT /@context"),
    Case("another class", "document", MIN, {"/@type": "Thing"}, "MIF-CLASS /@type"),
    Case("a number as a title", "document", MIN, {"/title": 5}, "MIF-VALUE /title"),
    Case("no content in it", "document", MIN, {"/content": ""}, "MIF-EMPTY /content"),
    Case("a summary that is too long", "compression", MIN, {"/summary": "x" * 501},
         "MIF-LONG /summary"),
    Case("a time to live without its P", "temporal", FULL, {"/temporal/ttl": "90D"},
         "MIF-DURATION /temporal/ttl"),
    Case("a model that nobody knows", "temporal", FULL, {"/temporal/decay/model": "slow"},
         "MIF-WORD /temporal/decay/model"),
    Case("accessed less than never", "temporal", FULL, {"/temporal/accessCount": -1},
         "MIF-RANGE /temporal/accessCount"),
    Case("a vector that stands nowhere", "embedding", FULL,
         {"/embedding/vectorUri": "vectors/1.bin"}, "MIF-URI /embedding/vectorUri"),
    Case("a vector in it", "embedding", FULL, {"/embedding/vector": [0.1]}, "MIF-KEY /embedding"),
    Case("an ontology in capitals", "ontology", FULL, {"/ontology/id": "Garden"},
         "MIF-NAME /ontology/id"),
    Case("a version of two numbers", "ontology", FULL, {"/ontology/version": "1.0"},
         "MIF-VERSION /ontology/version"),
    Case("a type of entity in capitals", "entities", FULL, {"/entities/0/entityType": "Project"},
         "MIF-ENTITY /entities/0/entityType"),
    Case("a role of a citation that nobody knows", "citations", FULL,
         {"/citations/0/citationRole": "proves"}, "MIF-CITATION /citations/0/citationRole"),
    Case("an author that is a number", "citations", FULL, {"/citations/0/author": 5},
         "MIF-AUTHOR /citations/0/author"),
    Case("made by what has no name", "provenance", FULL_1X, {"/provenance/wasGeneratedBy": {}},
         "MIF-PROV /provenance/wasGeneratedBy"),
    Case("one of three is bad", "document", [MIN, OTHER, MIN_1X], {"/1/created": "yesterday"},
         "MIF-DATE /1/created"),
    Case("one of two is nothing", "document", [MIN, {}], {}, "MIF-KIND /1"),
    Case("a subtype of one type twice", "ontology", [MIN, examples.ONTOLOGY],
         {"/1/entity_types/1/subtype_of": ["plant", "plant"]},
         "MIF-DUPLICATE /1/entity_types/1/subtype_of"),
    Case("a bad line", "document", f"{json.dumps(MIN)}\n{json.dumps(OTHER | {'@id': 'x'})}\n", {},
         "MIF-ID /@id 2"),
    Case("a key twice", "document", json.dumps(MIN)[:-1] + ',"content":"x"}', {},
         "not_json /content"),
    Case("cut short", "document", json.dumps(MIN)[:-1], {}, "not_json "),
)  # fmt: skip

TOLD: Final = (
    Case("true until before it is", "temporal", FULL,
         {"/temporal/validUntil": "2026-02-01T00:00:00Z"}, "", ("MIF-ORDER",), "extra"),
    Case("derived from what came later", "relationships",
         [MIN | {"relationships": [_relation(OTHER["@id"], "DerivedFrom")]},
          OTHER | {"created": "2026-04-01T00:00:00Z"}], {}, "", ("MIF-ORDER",), "extra"),
    Case("surer than its source", "provenance", FULL, {"/provenance/confidence": 0.5}, "",
         ("MIF-CONFIDENCE",), "extra"),
    Case("a memory that stays", "document", MIN, {"/namespace": "_local/x"}, "", ("MIF-LOCAL",),
         "extra"),
    Case("types that disagree", "document", MIN_1X, {"/memoryType": "semantic"}, "",
         ("MIF-TYPES",), "extra"),
    Case("a half-life that is missing", "temporal", FULL, {"/temporal/decay/halfLife": GONE}, "",
         ("MIF-DECAY",), "extra"),
    Case("two names of one strength", "temporal", FULL, {"/temporal/decay/strength": 0.85}, "",
         ("MIF-STRENGTH",), "extra"),
    Case("no duration of ISO 8601", "temporal", FULL, {"/temporal/ttl": "Pfoo"}, "",
         ("MIF-DURATION",), "extra"),
    Case("a schema elsewhere", "document", MIN, {"/$schema": "https://example.org/mif"}, "",
         ("MIF-REF",), "extra"),
    Case("a citation that cannot be mended", "citations", MIN,
         {"/citations": [CITATION, CITATION | {"title": ""}]}, "", (), "lenient",
         "MIF-EMPTY /citations/1/title"),
    Case("a citation that is mended", "citations", MIN,
         {"/citations": [CITATION | {"relevance": 1.5, "citationType": "memo"}]}, "",
         ("MIF-CITATION", "MIF-RANGE"), "lenient"),
)  # fmt: skip


def vectors() -> Iterator[dict[str, Any]]:
    """All of them."""
    for kind, cases in (("good", GOOD), ("bad", BAD), ("told", TOLD)):
        for case in cases:
            yield _vector(kind, case)


def _vector(kind: str, case: Case) -> dict[str, Any]:
    is_text = isinstance(case.base, str)
    text = case.base if is_text else json.dumps(_plain(case), separators=(",", ":"))
    layout = _layout(text)
    told = _place(case.wrong)
    whole = bool(told) and (layout == "document" or ("line" not in told[0] and is_text))
    slug = re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-")
    options: Any = {"mode": case.mode}
    try:
        grains = addresses(formats.load(text.encode(), **options))
    except OmsError:
        grains = {}
    return {
        "id": f"mif-ld/{kind}/{slug}",
        "description": case.name,
        "made_by": "test_vectors/source/mif_ld.py",
        "checked_by": "omsgrain vectors",
        "format": "mif-ld",
        "layout": layout,
        "section": case.section,
        "mode": case.mode,
        "document": text,
        "fault": told[0] if whole else None,
        "problems": [] if whole else told,
        "warnings": list(case.told),
        "dropped": _place(case.dropped),
        "grains": grains,
    }


def _plain(case: Case) -> Any:
    """The document; what surroundings mode extra would tell of is taken out of it."""
    document = json.loads(json.dumps(case.base))
    if case.mode == "extra" and "citations" in document:
        del document["citations"][2], document["entities"][2], document["relationships"][1]
    return edited(document, case.edits)


def _layout(text: str) -> str:
    if text.startswith("---"):
        return "markdown"
    if text.startswith("["):
        return "array"
    if text.count("\n") > 1:
        return "lines"
    return "corpus" if '"MemoryCorpus"' in text else "document"


def _place(wrong: str) -> list[dict[str, Any]]:
    """``RULE pointer line`` as what is told."""
    if not wrong:
        return []
    rule, pointer, *line = wrong.split(" ")
    return [{"rule": rule, "pointer": pointer} | ({"line": int(line[0])} if line else {})]
