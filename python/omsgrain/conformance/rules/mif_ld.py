# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD: what a memory must be (level 1), and what it says of others (level 2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from omsgrain import formats
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import GONE, edited
from omsgrain.conformance.rule import Table, Tried
from omsgrain.conformance.rules.documents import Case, case, judged, spelled
from omsgrain.conformance.rules.memories import LATER, LEAST, LEAST_LATER, MEMORY
from omsgrain.formats.mif_ld import validate

_1: Final = Table("mif-ld", 1)
_2: Final = Table("mif-ld", 2)

_R = "/relationships/0"
_E = "/entities/0"


def judge(data: bytes, **options: Any) -> list[str]:
    """What is wrong with a document, and after a ``~`` what is told of it."""
    found = validate.judge(json.loads(data), **options)
    said = [f"{one.rule} {one.pointer}".strip() for one in found.findings]
    return said + [f"~{one.rule} {one.pointer}".strip() for one in found.warnings]


def rule_of(table: Table, base: Any, **options: Any) -> Callable[..., None]:
    """What adds rules about changes of one document, judged with these options."""

    def add(id: str, section: str, text: str, *cases: Case, must: bool = True) -> None:
        table.add(id, section, text, judged(partial(judge, **options), base, *cases), must=must)

    return add


_least = rule_of(_1, LEAST)
_later = rule_of(_1, LEAST_LATER)
_told = rule_of(_1, LEAST, mode="extra")
_memory = rule_of(_2, MEMORY)
_of_later = rule_of(_2, LATER)

# fmt: off
# required fields
for _name in ("@context", "@type", "@id", "memoryType", "content", "created"):
    _least(f"required.{_name.strip('@').lower()}", "Required fields", f"{_name} is required",
           Case({f"/{_name}": GONE}, "MIF-MISSING"))
_least("context", "Required fields",
       "@context is a URI, an array of texts and objects, or an object",
       case("/@context", {"x": "urn:x"}), case("/@context", ["https://a.example", {}]),
       case("/@context", "not a uri", "MIF-CONTEXT"), case("/@context", 5, "MIF-CONTEXT"),
       case("/@context", None, "MIF-CONTEXT"), Case({"/@context": ["a", 5]},
                                                    "MIF-VALUE /@context/1"))
_least("type", "Required fields", "@type is \"Memory\", or an array with it",
       case("/@type", ["prov:Entity", "Memory"]), case("/@type", "Thing", "MIF-CLASS"),
       case("/@type", "memory", "MIF-CLASS"), case("/@type", ["Thing"], "MIF-CLASS"),
       case("/@type", [], "MIF-CLASS"), case("/@type", {}, "MIF-CLASS"))
_least("id", "Required fields", "@id begins with urn:mif:",
       case("/@id", "urn:mif:a/b"), case("/@id", "demo", "MIF-ID"),
       case("/@id", "URN:MIF:demo", "MIF-ID"), case("/@id", " urn:mif:demo", "MIF-ID"),
       case("/@id", "x\nurn:mif:demo", "MIF-ID"), case("/@id", 5, "MIF-VALUE"))
_least("memory-type", "Base types", "memoryType is semantic, episodic or procedural",
       *(case("/memoryType", word) for word in ("semantic", "episodic", "procedural")),
       case("/memoryType", "fact", "MIF-TYPE"), case("/memoryType", "Semantic", "MIF-TYPE"),
       case("/memoryType", None, "MIF-VALUE"))
_least("content", "Required fields", "content is a string of one character at the least",
       case("/content", "x"), case("/content", "", "MIF-EMPTY"), case("/content", ["x"],
                                                                      "MIF-VALUE"))
_NO_TIMES = ("yesterday", "2026-01-26", "2026-01-26 00:00:00Z", "2026-01-26T00:00:00",
             "2026-01-26T00:00Z", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
             "2026-01-26T24:00:00Z", "2026-01-26T00:00:00+0100", "2026-01-26T00:00:00.Z",
             "2026-01-26T00:00:60Z", "2026-01-26T00:00:00Z\n")
_least("created", "Required fields", "created is a date-time of RFC 3339, with an offset",
       case("/created", "1998-12-31T15:59:60.5-08:00"), case("/created", "2024-02-29t00:00:00.1z"),
       *(case("/created", text, "MIF-DATE") for text in _NO_TIMES),
       case("/created", None, "MIF-VALUE"), case("/created", 1769385600, "MIF-VALUE"))
_least("kind", "Required fields",
       "What is no memory, citation, ontology or corpus is told to be none",
       Case({"": []}, "MIF-KIND"), Case({"": {}}, "MIF-KIND"), Case({"": "text"}, "MIF-KIND"),
       Case({"": {"hello": 1}}, "MIF-KIND"))
_least("unknown", "Extensions", "A memory may have members that nobody knows",
       case("/anything", {"at": ["all", None]}))
_told("content.blank", "Required fields", "A content of blanks alone is told",
      case("/content", " ", "~MIF-EMPTY"), must=False)
_told("id.bare", "Required fields", "urn:mif: alone is told", case("/@id", "urn:mif:", "~MIF-ID"),
      must=False)

# shape 1.x
for _name in ("@type", "conceptType", "content"):
    _later(f"later.required.{_name.strip('@').lower()}", "Required fields",
           f"1.x: {_name} is required",
           Case({f"/{_name}": GONE}, "MIF-MISSING"))
_later("later.type", "Required fields",
       "1.x: @type is \"Concept\" or \"Memory\", or an array with Concept",
       case("/@type", "Memory"), case("/@type", ["Concept", "Memory"]),
       case("/@type", "Thing", "MIF-CLASS"), case("/@type", [], "MIF-CLASS"),
       case("/@type", ["Memory"], "MIF-SHAPE"))
_later("later.concept-type", "Base types",
       "1.x: conceptType is one of the three; memoryType may stand beside",
       case("/conceptType", "fact", "MIF-TYPE"), case("/memoryType", "fact", "MIF-TYPE"),
       case("/memoryType", "procedural"))

# metadata
_least("metadata.title", "Basic metadata", "title is a string", case("/title", "x"),
       case("/title", 5, "MIF-VALUE"))
_memory("metadata.modified", "Basic metadata", "modified is a date-time",
        case("/modified", GONE), case("/modified", "soon", "MIF-DATE"))
_memory("namespace", "Basic metadata",
        "namespace: letters, digits, _ and -, between single slashes",
        case("/namespace", "a"), case("/namespace", "_semantic/a-b/c_d/0"), case("/namespace",
                                                                                 GONE),
        *(case("/namespace", text, "MIF-NS") for text in
          ("acme:chat", "a.b", "a/", "/a", "a//b", "", "a/b\n", "caf\u00e9", "_shared/a+b")),
        case("/namespace", None, "MIF-VALUE"))
_memory("metadata.tags", "Basic metadata", "tags is an array of strings",
        case("/tags", ["a", "a", ""]), case("/tags", "garden", "MIF-VALUE"),
        Case({"/tags": ["a", 5]}, "MIF-VALUE /tags/1"))
_memory("metadata.aliases", "Basic metadata", "aliases is an array of strings",
        case("/aliases", []), Case({"/aliases": [[]]}, "MIF-VALUE /aliases/0"))

# ontology references
_memory("ontology.id", "Ontology reference",
        "An ontology reference has an id: a-z, then a-z, 0-9, -",
        Case({"/ontology/id": GONE}, "MIF-MISSING /ontology"), case("/ontology/id", "a"),
        case("/ontology/id", "Garden", "MIF-NAME"), case("/ontology/id", "garden_notes",
                                                         "MIF-NAME"))
_memory("ontology.version", "Ontology reference", "version begins with three numbers",
        case("/ontology/version", GONE), case("/ontology/version", "1.0.0-rc.1"),
        case("/ontology/version", "1.0", "MIF-VERSION"),
        case("/ontology/version", "\u0661.0.0", "MIF-VERSION"))
_memory("ontology.uri", "Ontology reference", "uri is a URI", case("/ontology/uri", "garden.yaml",
                                                                   "MIF-URI"))
_memory("ontology.closed", "Ontology reference", "It has no other members",
        Case({"/ontology/name": "x"}, "MIF-KEY /ontology"), case("/ontology", "x", "MIF-VALUE"))

# entities
_memory("entity.type", "Entities", "@type is \"EntityReference\", and required",
        Case({f"{_E}/@type": GONE}, f"MIF-MISSING {_E}"), case(f"{_E}/@type", "Entity",
                                                               "MIF-CLASS"))
_memory("entity.entity", "Entities",
        "entity is required: an object with an @id of urn:mif:entity:",
        Case({f"{_E}/entity": GONE}, f"MIF-MISSING {_E}"),
        Case({f"{_E}/entity/@id": GONE}, f"MIF-MISSING {_E}/entity"),
        case(f"{_E}/entity/@id", "urn:mif:ada", "MIF-ID"), case(f"{_E}/entity/@id",
                                                                "urn:mif:entity:"),
        Case({f"{_E}/entity/name": "x"}, f"MIF-KEY {_E}/entity"))
_memory("entity.entity-type", "Entities",
        "entityType: Person, Organization, Technology, Concept, File; "
        "or a name of an ontology",
        *(case(f"{_E}/entityType", word) for word in
          ("Person", "Organization", "Technology", "Concept", "File", "plant", "soil-profile")),
        case(f"{_E}/entityType", "Project", "MIF-ENTITY"), case(f"{_E}/entityType", GONE))
_memory("entity.texts", "Entities", "name and role are strings",
        case(f"{_E}/name", None, "MIF-VALUE"), case(f"{_E}/role", 5, "MIF-VALUE"),
        case(f"{_E}/name", GONE), case(f"{_E}/role", GONE))
_memory("entity.closed", "Entities", "A reference has no other members",
        Case({f"{_E}/since": "x"}, f"MIF-KEY {_E}"), case("/entities", {}, "MIF-VALUE"))

# relationships
_memory("relationship.type", "Relationships", "@type is \"Relationship\", and required",
        Case({f"{_R}/@type": GONE}, f"MIF-MISSING {_R}"), case(f"{_R}/@type", "Relation",
                                                               "MIF-CLASS"))
for _word in ("RelatesTo DerivedFrom Supersedes ConflictsWith PartOf Implements Uses Created "
              "MentionedIn").split():
    _memory(f"relationship.types.{_word.lower()}", "Relationship types", f"{_word} is taken",
            case(f"{_R}/relationshipType", _word))
_memory("relationship.types.others", "Relationship types",
        "Other names are refused, but with a prefix",
        case(f"{_R}/relationshipType", "Likes", "MIF-REL"),
        case(f"{_R}/relationshipType", "derived-from", "MIF-REL"),
        case(f"{_R}/relationshipType", "a_b:C", "MIF-REL"),
        case(f"{_R}/relationshipType", "farm:BreedsWith"),
        Case({f"{_R}/relationshipType": GONE}, f"MIF-MISSING {_R}"))
_memory("relationship.target", "Relationships",
        "target is required: an object with an @id of urn:mif:",
        Case({f"{_R}/target": GONE}, f"MIF-MISSING {_R}"), case(f"{_R}/target", "urn:mif:x",
                                                                "MIF-VALUE"),
        Case({f"{_R}/target/@id": GONE}, f"MIF-MISSING {_R}/target"),
        case(f"{_R}/target/@id", "x", "MIF-ID"), case(f"{_R}/target/note", "kept"))
_memory("relationship.strength", "Relationships", "strength is a number from 0 to 1",
        case(f"{_R}/strength", 0), case(f"{_R}/strength", 1), case(f"{_R}/strength", GONE),
        case(f"{_R}/strength", 1.01, "MIF-RANGE"), case(f"{_R}/strength", -0.1, "MIF-RANGE"),
        case(f"{_R}/strength", "0.9", "MIF-VALUE"), case(f"{_R}/strength", True, "MIF-VALUE"))
_memory("relationship.metadata", "Relationships",
        "metadata is an object; nothing else stands beside",
        case(f"{_R}/metadata", [], "MIF-VALUE"), case(f"{_R}/metadata", {"a": [None]}),
        Case({f"{_R}/reason": "x"}, f"MIF-KEY {_R}"))
_of_later("later.relationship.type", "Relationship types",
          "1.x: type is a kebab token, with a prefix or not",
          case(f"{_R}/type", "any-word"), case(f"{_R}/type", "garden:grows-beside"),
          case(f"{_R}/type", "Derived-From", "MIF-REL"), case(f"{_R}/type", "a:b:c", "MIF-REL"),
          case(f"{_R}/type", "", "MIF-REL"), Case({f"{_R}/type": GONE}, f"MIF-MISSING {_R}"))
_of_later("later.relationship.target", "Relationships", "1.x: target is a string",
          case(f"{_R}/target", "../hedge.md"), case(f"{_R}/target", 5, "MIF-VALUE"),
          Case({f"{_R}/target": GONE}, f"MIF-MISSING {_R}"))
_of_later("later.relationship.closed", "Relationships", "1.x: no @type, and nothing else",
          Case({f"{_R}/@type": "Relationship"}, f"MIF-KEY {_R}"))
_memory("shape.mixed", "Relationships", "A memory of one shape with parts of the other is told so",
        case(_R, {"type": "derived-from", "target": "urn:mif:x"}, "MIF-SHAPE"),
        case("/@type", "Concept", "MIF-SHAPE"))

_told("namespace.local", "Basic metadata", "A namespace _local is told never to leave",
      case("/namespace", "_local/x", "~MIF-LOCAL"), must=False)
# fmt: on


@_1("corpus", "Required fields", "Arrays, lines and corpora of memories are judged one by one")
def _corpus(_: Bench) -> Iterator[Tried]:
    whole = {
        "@type": "MemoryCorpus",
        "records": [{"kind": "memory", "payload": LEAST}, {"kind": "memory", "payload": LATER}],
    }
    yield Tried("a corpus of two shapes", [], judge(spelled(whole)))
    yield Tried("an array of two", [], judge(spelled([LEAST, LATER])))
    yield Tried(
        "the second of them bad", ["MIF-ID /1/@id"], judge(spelled([LEAST, LATER | {"@id": "x"}]))
    )
    found = formats.load(b"\n".join(map(spelled, (LEAST, LATER))), format="mif-ld")
    yield Tried("by lines", (), found.problems)


@_1(
    "formats",
    "Required fields",
    "Dates and URIs are asserted: no validator's default lets them pass",
)
def _asserted(_: Bench) -> Iterator[Tried]:
    yield Tried(
        'created: "yesterday"',
        ["MIF-DATE /created"],
        judge(spelled(LEAST | {"created": "yesterday"})),
    )
    yield Tried(
        'the uri of an ontology: "garden.yaml"',
        ["MIF-URI /ontology/uri"],
        judge(spelled(edited(MEMORY, {"/ontology/uri": "garden.yaml"}))),
    )


RULES: Final = [*_1.rules, *_2.rules]
