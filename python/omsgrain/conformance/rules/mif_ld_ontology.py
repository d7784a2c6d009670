# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD, level 3: ontologies, and entities by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import GONE, edited
from omsgrain.conformance.rule import Table, Tried
from omsgrain.conformance.rules.documents import Case, case, spelled
from omsgrain.conformance.rules.memories import LEAST, ONTOLOGY
from omsgrain.conformance.rules.mif_ld import judge, rule_of
from omsgrain.formats import ontology

_3: Final = Table("mif-ld", 3)
RULES: Final = _3.rules

_ontology = rule_of(_3, ONTOLOGY, kind="ontology")
# fmt: off
_S = "/namespaces/semantic"
_P = "/discovery/patterns/0"

# the ontology schema
_ontology("ontology.file.id", "Ontology schema", "An ontology has an id: a-z, then a-z, 0-9 and -",
          Case({"/ontology/id": GONE}, "MIF-MISSING /ontology"), case("/ontology/id", "Garden",
                                                                      "MIF-NAME"))
_ontology("ontology.file.version", "Ontology schema", "An ontology has a version of three numbers",
          Case({"/ontology/version": GONE}, "MIF-MISSING /ontology"),
          case("/ontology/version", "1", "MIF-VERSION"))
_ontology("ontology.file.schema-url", "Ontology schema", "schema_url is a URI",
          case("/ontology/schema_url", "x", "MIF-URI"), case("/ontology/schema_url", GONE))
_ontology("ontology.file.namespaces", "Ontology schema",
          "Namespaces: description, type_hint, replaces, children",
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
_ontology("ontology.file.type-fields", "Ontology schema",
          "traits are names, schema has required and properties",
          Case({"/entity_types/0/traits": [5]}, "MIF-VALUE /entity_types/0/traits/0"),
          case("/entity_types/0/schema/required", "name", "MIF-VALUE"),
          case("/entity_types/0/schema/properties/name", "string", "MIF-VALUE"),
          case("/entity_types/0/schema/properties/name/type", "text", "MIF-WORD"))
_ontology("ontology.file.traits", "Ontology schema", "A trait has fields, and may require members",
          case("/traits/dated/fields", [], "MIF-VALUE"), case("/traits/dated/requires", "x",
                                                              "MIF-VALUE"),
          case("/traits/dated/requires", ["citations"]))
_ontology("ontology.file.relationships", "Ontology schema",
          "A relationship has from, to and symmetric",
          case("/relationships/grows_beside/from", "plant", "MIF-VALUE"),
          case("/relationships/grows_beside/to", []),
          case("/relationships/grows_beside/symmetric", "yes", "MIF-VALUE"))
_ontology("ontology.file.discovery", "Ontology schema",
          "Discovery has patterns and a threshold from 0 to 1",
          case("/discovery/enabled", 1, "MIF-VALUE"),
          case("/discovery/confidence_threshold", 80, "MIF-RANGE"),
          case(f"{_P}/content_pattern", 5, "MIF-VALUE"), case(f"{_P}/file_pattern", "**/*.plant"))
# fmt: on
@_3(
    "ontology.file.suggest",
    "Ontology schema",
    "A pattern suggests an entity; else it is told",
    must=False,
)
def _suggests(_: Bench) -> Iterator[Tried]:
    given = edited(ONTOLOGY, {f"{_P}/suggest_entity": GONE})
    yield Tried(
        "without suggest_entity",
        [f"~MIF-MISSING {_P}"],
        judge(spelled(given), kind="ontology", mode="extra"),
    )


def _told(report: Any) -> list[str]:
    return [one.rule for one in report.problems]


def _library(bench: Bench, **edits: Any) -> Any:
    path = bench.directory() / "garden.json"
    path.write_bytes(spelled(edited(ONTOLOGY, edits)))
    return ontology.load([path], strict=False)


@_3(
    "ontology.entity",
    "Ontology schema",
    "An entity is judged by its type: base, fields, required ones",
)
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
        ("as it is", {}, True), ("a type that is not", {"/entity_types/1/subtype_of": ["boat"]},
                                 False),
        ("itself", {"/entity_types/1/subtype_of": ["rose"]}, False),
        ("a circle", {"/entity_types/0/subtype_of": ["rose"]}, False),
        ("less required than its parent", {"/entity_types/1/schema/required": []}, False),
    ):  # fmt: skip
        path = bench.directory() / "garden.json"
        path.write_bytes(spelled(edited(ONTOLOGY, edits)))
        report = ontology.load([path], strict=False).reports[0]
        yield Tried(what, good, not report.problems)
