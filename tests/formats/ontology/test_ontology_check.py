# SPDX-License-Identifier: Apache-2.0
"""Entities of memories, judged by their ontologies."""

from __future__ import annotations

from typing import Any

import pytest

from omsgrain.formats.ontology.check import judge_entity
from support.ontology_files import Told, kind, library, memory, of, ontology, told

SHOP = library("workshop.yaml")
GOOD: dict[str, Any] = {
    "name": "Mill 3", "entity_type": "machine", "entity_id": "mill-3",
    "serial": "AB-1234", "built": "2019-04-01", "watts": 750, "version": "2",
    "manual": "https://example.org/mill",
}  # fmt: skip
CITED: dict[str, Any] = {"citations": []}


def judged(entity: dict[str, Any] | None, **members: Any) -> tuple[Told, Told]:
    found = judge_entity(memory("workshop", entity, **{**CITED, **members}), SHOP)
    return told(found.problems), told(found.warnings)


def test_a_good_entity_of_either_shape() -> None:
    assert judged(GOOD, namespace="_semantic/entities") == ([], [])
    later = memory("workshop", GOOD, **CITED, conceptType="semantic")
    del later["memoryType"]
    assert judge_entity(later, SHOP).ok


FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any], Told]] = {
    "type": ({"entity_type": "boat"}, {}, [("ENT-TYPE", "/entity/entity_type")]),
    "base": ({}, {"memoryType": "episodic"}, [("ENT-BASE", "/memoryType")]),
    "base of 1.x": ({}, {"conceptType": "procedural"}, [("ENT-BASE", "/conceptType")]),
    "kind": ({"watts": "750"}, {}, [("ENT-FIELD", "/entity/watts")]),
    "range": ({"watts": 0}, {}, [("ENT-FIELD", "/entity/watts")]),
    "pattern": ({"serial": "AB-1234\n"}, {}, [("ENT-FIELD", "/entity/serial")]),
    "date": ({"built": "2019-02-30"}, {}, [("ENT-FIELD", "/entity/built")]),
    "uri": ({"manual": "shelf 4"}, {}, [("ENT-FIELD", "/entity/manual")]),
    "of a trait": ({"version": 2}, {}, [("ENT-FIELD", "/entity/version")]),
    "declared name": ({"name": ""}, {}, [("ENT-FIELD", "/entity/name")]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_reported_once_with_its_place(name: str) -> None:
    entity, members, expected = FAULTS[name]
    assert judged({**GOOD, **entity}, **members) == (expected, [])


def test_faults_name_the_trait_or_the_type_and_the_field() -> None:
    found = judge_entity(memory("workshop", {**GOOD, "version": 2, "watts": 0}), SHOP)
    said = {one.pointer: one for one in found.problems}
    assert "'version' of the trait 'versioned'" in said["/entity/version"].message
    assert said["/entity/version"].expected == 'type "string"'
    assert said["/entity/version"].found == "a number"
    assert "'watts' of the type 'machine'" in said["/entity/watts"].message
    assert "'citations', which the trait 'documented' requires" in said[""].message
    assert [one.rule for one in found.problems if one.pointer == ""] == ["ENT-REQUIRES"]


def test_values_of_the_memory_are_in_no_message() -> None:
    secret = "confidential"
    entity = {**GOOD, "serial": secret, "watts": secret, "other": secret}
    found = judge_entity(memory("workshop", entity), SHOP)
    assert found.problems and found.warnings
    assert secret not in repr(found)


@pytest.mark.parametrize("member", ["ontology", "entity"])
def test_names_that_are_none_are_in_no_message(member: str) -> None:
    text = "Ada Lovelace, 12 Example Street"
    whole = memory("workshop", GOOD, **CITED)
    name = "id" if member == "ontology" else "entity_type"
    found = judge_entity(whole | {member: whole[member] | {name: text}}, SHOP)
    assert found.problems or found.warnings
    assert not any("Ada" in str(one.to_dict()) for one in (*found.problems, *found.warnings))


def test_fields_that_are_required_are_those_of_the_type_only() -> None:
    errors, _ = judged({"entity_type": "machine"})
    assert errors == [("ENT-MISSING", "/entity"), ("ENT-MISSING", "/entity")]
    assert judged({"entity_type": "concept"}) == ([], [])


def test_an_undefined_field_is_a_warning() -> None:
    assert judged({**GOOD, "a/b": 1}) == ([], [("ENT-UNKNOWN", "/entity/a~1b")])
    assert judged({"entity_type": "concept", "name": "x", "entity_id": "x"}) == ([], [])
    # A subtype may have what its parent defines.
    assert judged({**GOOD, "entity_type": "lathe", "swing": 3.5}) == ([], [])


def test_nested_faults_are_reported_in_their_place() -> None:
    shelf = kind("shelf", schema={"properties": {"rows": {
        "type": "array", "items": {"type": "object", "properties": {"at": {"type": "integer"}}},
    }}})  # fmt: skip
    library = of(ontology(entity_types=[shelf]))
    entity = {"entity_type": "shelf", "rows": [{"at": 1}, {"at": "two"}]}
    assert told(judge_entity(memory(entity=entity), library).problems) == [
        ("ENT-FIELD", "/entity/rows/1/at")
    ]


def test_a_trait_requires_members_inside_others_too() -> None:
    levels = library("levels.yaml")
    entity = {"entity_type": "mineral", "code": "W1", "grams": 3, "note": []}
    assert told(judge_entity(memory("levels", entity), levels).problems) == [("ENT-REQUIRES", "")]
    recorded = {"recordedAt": "2026-01-26T10:00:00Z"}
    assert judge_entity(memory("levels", entity, temporal=recorded), levels).ok


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"id": "workshop", "version": "2.1.0"}, []),
        ({"id": "workshop", "version": "2.1"}, [("ENT-ONTOLOGY", "/ontology/version")]),
        ({"id": "Workshop"}, [("ENT-ONTOLOGY", "/ontology/id")]),
        ({"id": "base"}, [("ENT-ONTOLOGY", "/ontology/id")]),
    ],
)
def test_the_ontology_is_the_one_that_is_named(reference: Any, expected: Told) -> None:
    assert judged(GOOD, ontology=reference)[0] == expected


def test_a_memory_without_an_ontology_is_not_judged_unless_one_is_given() -> None:
    bare = memory("workshop", {"entity_type": "boat"})
    del bare["ontology"]
    found = judge_entity(bare, SHOP)
    assert found.ok and told(found.warnings) == [("ENT-NONE", "/entity")]
    given = judge_entity(bare, SHOP, ontology="workshop")
    assert told(given.problems) == [("ENT-TYPE", "/entity/entity_type")]
    del bare["entity"]
    assert judge_entity(bare, SHOP).warnings == []


@pytest.mark.parametrize("value", [None, "x", [], {}, {"entity_type": 1}, {"entity_type": None}])
def test_an_entity_that_is_none_is_no_crash(value: Any) -> None:
    assert judge_entity({**memory("workshop"), "entity": value}, SHOP).ok


@pytest.mark.parametrize("member", ["ontology", "relationships", "namespace", "memoryType"])
@pytest.mark.parametrize("value", [None, 1, "x", [], [1], [{}], {}, {"id": 1}])
def test_members_of_other_kinds_are_no_crash(member: str, value: Any) -> None:
    judge_entity(memory("workshop", GOOD, **{member: value}), SHOP)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("_semantic/decisions", []),
        ("semantic/decisions", []),
        ("_runbooks/repairs", []),
        ("_semantic/unknown", [("ENT-NAMESPACE", "/namespace")]),
        ("elsewhere", [("ENT-NAMESPACE", "/namespace")]),
        ("_procedural/repairs", [("ENT-REPLACED", "/namespace")]),
    ],
)
def test_a_namespace_is_only_warned_of(path: str, expected: Told) -> None:
    assert judged(GOOD, namespace=path) == ([], expected)


def test_a_typed_memory_of_the_wrong_base_that_lacks_three_fields() -> None:
    types = [{"name": "milestone", "base": "episodic",
              "schema": {"required": ["title_id", "milestone_type", "target_date"]}}]  # fmt: skip
    found = judge_entity(
        memory(entity={"name": "x", "entity_type": "milestone"}, memoryType="procedural"),
        of(ontology(entity_types=types)),
    )
    assert [one.rule for one in found.problems] == ["ENT-BASE", *["ENT-MISSING"] * 3]
    assert [one.expected for one in found.problems] == [
        "episodic", "title_id", "milestone_type", "target_date",
    ]  # fmt: skip


# -- relationships --------------------------------------------------------------------------------

FAR = {
    f"urn:mif:memory:{name}": memory("workshop", {"entity_type": name})
    for name in ("machine", "lathe", "concept", "repair")
}


def ends(source: str, name: str, target: str, *, later: bool = False) -> Told:
    at = f"urn:mif:memory:{target}"
    relationship = (
        {"type": name, "target": at}
        if later
        else {"@type": "Relationship", "relationshipType": name, "target": {"@id": at}}
    )
    entity = {"entity_type": source, "name": "x", "serial": "AB-1234", "swing": 1}
    made = memory("workshop", entity, **CITED, relationships=[relationship])
    made["memoryType"] = "procedural" if source == "repair" else "semantic"
    return told(judge_entity(made, SHOP, others=FAR).problems)


END = [("ENT-END", "/relationships/0")]


@pytest.mark.parametrize(
    ("source", "name", "target", "expected"),
    [
        ("machine", "Implements", "concept", []),
        ("lathe", "Implements", "concept", []),  # a subtype of machine
        ("repair", "Implements", "concept", END),
        ("machine", "Implements", "machine", END),
        ("machine", "Implements", "unknown", []),  # not in the bundle
        ("machine", "shop:StandsBeside", "lathe", []),
        ("machine", "shop:StandsBeside", "repair", END),
        ("repair", "shop:StandsBeside", "machine", END),
        ("repair", "Mentions", "concept", []),  # no ends are any
        ("repair", "Supersedes", "concept", []),  # not the ontology's
    ],
)
def test_ends_of_relationships(source: str, name: str, target: str, expected: Told) -> None:
    assert ends(source, name, target) == expected
    kebab = {"Implements": "implements", "shop:StandsBeside": "shop:stands-beside"}
    assert ends(source, kebab.get(name, name.lower()), target, later=True) == expected


def test_symmetric_ends_can_be_swapped_together() -> None:
    library = of(
        ontology(
            entity_types=[kind("dog"), kind("cat")],
            relationships={"chases": {"from": ["dog"], "to": ["cat"], "symmetric": True}},
        )
    )
    others = {"urn:mif:" + name: memory(entity={"entity_type": name}) for name in ("dog", "cat")}
    for source, target, good in [
        ("dog", "cat", True), ("cat", "dog", True), ("dog", "dog", False), ("cat", "cat", False),
    ]:  # fmt: skip
        chased = [{"type": "chases", "target": "urn:mif:" + target}]
        made = memory(entity={"entity_type": source}, relationships=chased)
        assert judge_entity(made, library, others=others).ok == good


def test_a_hostile_pattern_of_a_field_takes_no_time() -> None:
    schema = {"properties": {"f": {"type": "string", "pattern": "^(a+)+$"}}}
    library = of(ontology(entity_types=[kind("thing", schema=schema)]))
    entity = {"entity_type": "thing", "f": "a" * 1_000_000 + "b"}
    assert told(judge_entity(memory(entity=entity), library).problems) == [
        ("ENT-FIELD", "/entity/f")
    ]


def test_a_value_too_deep_for_a_schema_is_reported() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    schema = {"properties": {"f": {"type": "array", "items": {}}}}
    library = of(ontology(entity_types=[kind("thing", schema=schema)]))
    found = judge_entity(memory(entity={"entity_type": "thing", "f": deep}), library)
    assert [one.rule for one in found.problems] == ["ENT-FIELD"]
