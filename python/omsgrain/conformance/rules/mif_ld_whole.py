# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD, level 3: ontologies, the words of errors, and memories in files and stores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from omsgrain import formats
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.edits import GONE, edited
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.documents import Case, case, spelled
from omsgrain.conformance.rules.memories import LATER, LEAST, LEAST_LATER, MEMORY, ONTOLOGY
from omsgrain.conformance.rules.mif_ld import judge, rule_of
from omsgrain.formats import ontology
from omsgrain.formats.mif_ld import validate
from omsgrain.gateways import mif

__all__ = ["RULES"]

_1: Final = Table("mif-ld", 1)
_3: Final = Table("mif-ld", 3)

_ontology = rule_of(_3, ONTOLOGY, kind="ontology")
_S = "/namespaces/semantic"
_P = "/discovery/patterns/0"

# the ontology schema
_ontology("ontology.file.id", "Ontology schema", "An ontology has an id: a-z, then a-z, 0-9 and -",
          Case({"/ontology/id": GONE}, "MIF-MISSING /ontology"), case("/ontology/id", "Garden", "MIF-NAME"))
_ontology("ontology.file.version", "Ontology schema", "An ontology has a version of three numbers",
          Case({"/ontology/version": GONE}, "MIF-MISSING /ontology"),
          case("/ontology/version", "1", "MIF-VERSION"))
_ontology("ontology.file.schema-url", "Ontology schema", "schema_url is a URI",
          case("/ontology/schema_url", "x", "MIF-URI"), case("/ontology/schema_url", GONE))
_ontology("ontology.file.namespaces", "Ontology schema", "Namespaces: description, type_hint, replaces, children",
          case("/namespaces", [], "MIF-VALUE"), case(f"{_S}/type_hint", "facts", "MIF-TYPE"),
          *(case(f"{_S}/type_hint", word) for word in ("semantic", "episodic", "procedural")),
          case(f"{_S}/replaces", [], "MIF-VALUE"), case(f"{_S}/description", 5, "MIF-VALUE"),
          case(f"{_S}/children/plants/children/roses", 5, "MIF-VALUE"))
_ontology("ontology.file.types", "Ontology schema", "A type has a name and a base of the three",
          case("/entity_types", {}, "MIF-VALUE"),
          Case({"/entity_types/0/name": GONE}, "MIF-MISSING /entity_types/0"),
          case("/entity_types/0/name", "Plant", "MIF-NAME"),
          Case({"/entity_types/0/base": GONE}, "MIF-MISSING /entity_types/0"),
          case("/entity_types/0/base", "fact", "MIF-TYPE"))
_ontology("ontology.file.type-fields", "Ontology schema", "traits are names, schema has required and properties",
          Case({"/entity_types/0/traits": [5]}, "MIF-VALUE /entity_types/0/traits/0"),
          case("/entity_types/0/schema/required", "name", "MIF-VALUE"),
          case("/entity_types/0/schema/properties/name", "string", "MIF-VALUE"),
          case("/entity_types/0/schema/properties/name/type", "text", "MIF-WORD"))
_ontology("ontology.file.traits", "Ontology schema", "A trait has fields, and may require members",
          case("/traits/dated/fields", [], "MIF-VALUE"), case("/traits/dated/requires", "x", "MIF-VALUE"),
          case("/traits/dated/requires", ["citations"]))
_ontology("ontology.file.relationships", "Ontology schema", "A relationship has from, to and symmetric",
          case("/relationships/grows_beside/from", "plant", "MIF-VALUE"),
          case("/relationships/grows_beside/to", []),
          case("/relationships/grows_beside/symmetric", "yes", "MIF-VALUE"))
_ontology("ontology.file.discovery", "Ontology schema", "Discovery has patterns and a threshold from 0 to 1",
          case("/discovery/enabled", 1, "MIF-VALUE"),
          case("/discovery/confidence_threshold", 80, "MIF-RANGE"),
          case(f"{_P}/content_pattern", 5, "MIF-VALUE"), case(f"{_P}/file_pattern", "**/*.plant"))
@_3("ontology.file.suggest", "Ontology schema", "A pattern suggests an entity; else it is told", must=False)
def _suggests(_: Bench) -> Iterator[Tried]:
    given = edited(ONTOLOGY, {f"{_P}/suggest_entity": GONE})
    yield Tried("without suggest_entity", [f"~MIF-MISSING {_P}"],
                judge(spelled(given), kind="ontology", mode="extra"))


def _told(report: Any) -> list[str]:
    return [one.rule for one in report.problems]


def _library(bench: Bench, **edits: Any) -> Any:
    path = bench.directory() / "garden.json"
    path.write_bytes(spelled(edited(ONTOLOGY, edits)))
    return ontology.load([path], strict=False)


@_3("ontology.entity", "Ontology schema", "An entity is judged by its type: base, fields, required ones")
def _entity(bench: Bench) -> Iterator[Tried]:
    library = _library(bench)
    rose = {"name": "Rosa", "entity_type": "plant"}
    for what, edits, expected in (
        ("a plant", {}, []), ("another type", {"/entity/entity_type": "boat"}, ["ENT-TYPE"]),
        ("of another base", {"/memoryType": "episodic"}, ["ENT-BASE"]),
        ("a height as text", {"/entity/height": "2 m"}, ["ENT-FIELD"]),
        ("a height below 0", {"/entity/height": -1}, ["ENT-FIELD"]),
        ("a field of a trait", {"/entity/day": "2026-02-30"}, ["ENT-FIELD"]),
        ("without its name", {"/entity/name": GONE}, ["ENT-MISSING"]),
    ):  # fmt: skip
        whole = edited(LEAST | {"ontology": {"id": "garden-notes"}, "entity": rose}, edits)
        yield Tried(what, expected, _told(ontology.judge_entity(whole, library)))


@_3("ontology.subtypes", "Ontology schema", "subtype_of names a type that is there, and no circle")
def _subtypes(bench: Bench) -> Iterator[Tried]:
    for what, edits, good in (
        ("as it is", {}, True), ("a type that is not", {"/entity_types/1/subtype_of": ["boat"]}, False),
        ("itself", {"/entity_types/1/subtype_of": ["rose"]}, False),
        ("a circle", {"/entity_types/0/subtype_of": ["rose"]}, False),
        ("less required than its parent", {"/entity_types/1/schema/required": []}, False),
    ):  # fmt: skip
        path = bench.directory() / "garden.json"
        path.write_bytes(spelled(edited(ONTOLOGY, edits)))
        report = ontology.load([path], strict=False).reports[0]
        yield Tried(what, good, not report.problems)


# the words of errors


@_3("errors", "Errors", "The four errors of the reference are said in its words")
def _errors(_: Bench) -> Iterator[Tried]:
    for pointer, value, phrase in (
        ("/@id", "demo", "must match pattern"), ("/memoryType", "fact", "must be equal to one of"),
        ("/created", "yesterday", "must match format"), ("/namespace", "a.b", "must match pattern"),
    ):  # fmt: skip
        (found,) = validate.judge(edited(LEAST, {pointer: value})).findings
        yield Tried(f"{pointer}: {value}", True, phrase in found.message)
        yield Tried("how it is mended", True, bool(found.hint))


# files


@_1("round", "Required fields", "A memory becomes a grain and comes back equal, with the order of its keys")
def _round(_: Bench) -> Iterator[Tried]:
    for what, whole in (
        ("the least", LEAST), ("every part that is printed", MEMORY), ("1.x, the least", LEAST_LATER),
        ("1.x with documents", LATER),
        ("null beside absent", edited(MEMORY, {"/temporal/validUntil": None, "/temporal/validFrom": GONE})),
        ("times as spelled", edited(LEAST, {"/created": "2026-03-01t08:00:00.123456+00:00"})),
        ("1 and 1.0", edited(MEMORY, {"/relationships/0/strength": 1})),
        ("text that is not composed", edited(LEAST, {"/content": "Cafe\u0301", "/e\u0301": "x"})),
        ("before 1970", edited(LEAST, {"/created": "1843-12-10T00:00:00Z"})),
        ("nulls in extensions", edited(LEAST, {"/extensions": {"a": None, "b": [None, {}]}})),
    ):  # fmt: skip
        again = formats.dump(formats.load(spelled(whole), format="mif-ld"), format="mif-ld").data
        yield Tried(what, json.dumps(whole), json.dumps(json.loads(again)))


_MARKDOWN: Final = """\
---
id: use-sqlite
type: semantic
created: 2026-01-26T10:00:00Z
namespace: _semantic/decisions
tags: [storage, no]
temporal:
  valid_from: 2026-01-26T00:00:00Z
provenance:
  source_type: user_explicit
---
# Storage

We use SQLite.

## Relationships

- supersedes [[use-files]]

## Entities

- @[[SQLite|Technology]]
"""


@_1("markdown", "Files", "Markdown with its frontmatter is read as the memory that it is")
def _markdown(_: Bench) -> Iterator[Tried]:
    found = formats.load(_MARKDOWN.encode(), format="mif-ld")
    again = formats.dump(found, format="mif-ld").data.decode()
    yield Tried("written again", _MARKDOWN, again)
    grain = next(g for g in found.grains if g.type == "belief")
    yield Tried("its namespace and tags", ("_semantic/decisions", ["storage", "no"]),
                (grain.get("namespace"), list(grain.get("structural_tags", []))))


@_1("grain.types", "Base types", "semantic becomes a belief, episodic an event, procedural a workflow")
def _grains(_: Bench) -> Iterator[Tried]:
    for word, expected in (("semantic", "belief"), ("episodic", "event"), ("procedural", "workflow")):
        found = formats.load(spelled(LEAST | {"memoryType": word}), format="mif-ld")
        yield Tried(word, expected, found.grains[0].type)


@_1("same-address", "Required fields", "The same document gives the same grains, whenever it is read")
def _same(_: Bench) -> Iterator[Tried]:
    one, other = (formats.load(spelled(MEMORY), format="mif-ld").grains[0].address for _ in range(2))
    yield Tried("read twice", one, other)
    more = edited(MEMORY, {"/temporal/accessCount": 6})
    grain = formats.load(spelled(more), format="mif-ld").grains[0]
    yield Tried("read once more often: the same grain", one, grain.address)


@_3("store", "Files", "Memories imported into a store are exported equal, but for strengths as they were")
def _store(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    mif.import_document(store, spelled([MEMORY, LATER]), user_id="ada", format="mif-ld")
    dump, _ = mif.export_document(store, "ada", format="mif-ld", now=NOW, include_embeddings=True)
    text = dump.data
    strengths = {"/temporal/decay/currentStrength": GONE}
    yield Tried("of shape 0.1", True, edited(MEMORY, strengths) in _documents(text))
    strengths = {"/temporal/decay/strength": GONE, "/temporal/decay/lastReinforced": GONE,
                 "/temporal/reinforcementHistory": GONE}
    yield Tried("of shape 1.x", True, edited(LATER, strengths) in _documents(text))


def _documents(text: bytes) -> list[Any]:
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(whole, list):
        return whole
    records = whole.get("records", whole.get("memories")) if isinstance(whole, dict) else None
    if records is None:
        return [whole]
    return [one.get("payload", one) for one in records]


@_3("local", "Basic metadata", "What stands in the namespace _local does not leave, unless it is asked for")
def _local(_: Bench) -> Iterator[Tried]:
    found = formats.load(spelled(LEAST | {"namespace": "_local/x"}), format="mif-ld")
    yield refuses("by default", "ERR_SCHEMA", lambda: formats.dump(found, format="mif-ld"))
    asked = formats.dump(found, format="mif-ld", local=True)
    yield Tried("asked for", True, b"The garden is watered" in asked.data)


@_3("offline", "Files", "Schemas are in the package: validating asks no network")
def _offline(_: Bench) -> Iterator[Tried]:
    schemas = Path(validate.__file__).with_name("schemas")
    yield Tried("schemas at hand", True, len(list(schemas.glob("*.json"))) >= 5)
    yield Tried("an entity reference by its own schema", [],
                judge(spelled(MEMORY["entities"][0]), kind="entity-reference"))


@_3("refused", "Errors", "A document that is no good memory is refused whole")
def _refused(_: Bench) -> Iterator[Tried]:
    yield refuses("an @id of another form", "MIF-ID",
                  lambda: formats.load(spelled(LEAST | {"@id": "x"}), format="mif-ld"))
    yield takes("a good one", lambda: formats.load(spelled(LEAST), format="mif-ld"))


RULES: Final = [*_1.rules, *_3.rules]
