# SPDX-License-Identifier: Apache-2.0
"""Traits put together, subtypes followed, ontologies that extend ontologies."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.formats.ontology.model import choose_namespace, choose_type, ordered, reached
from support.ontology_files import kind, library, of, only, ontology, told


def fields_of(known: Any, name: str) -> dict[str, tuple[Any, str | None]]:
    """Schema and trait of each field of a type."""
    whole = known.traits.of_type(known.scope.types[name])
    return {key: (field.schema, field.trait) for key, field in whole.fields.items()}


def test_traits_over_three_levels_and_a_diamond() -> None:
    known = library("levels.yaml").known[0]
    assert fields_of(known, "mineral") == {
        "code": ({"type": "string", "pattern": "^W"}, "weighed"),
        "note": ({"type": "array", "items": {"type": "string"}}, None),
        "since": ({"type": "string", "format": "date"}, "dated"),
        "grams": ({"type": "number", "minimum": 0}, "weighed"),
        "shelf": ({"type": "integer"}, "catalogued"),
    }
    whole = known.traits.of_type(known.scope.types["mineral"])
    assert whole.requires == {"temporal.recordedAt": "identified"}


def field(kind: str) -> dict[str, Any]:
    return {"fields": {"f": {"type": kind}}}


CONFLICTS: dict[str, tuple[dict[str, Any], list[str], dict[str, Any], bool]] = {
    "unequal": ({"a": field("string"), "b": field("array")}, ["a", "b"], {}, True),
    "equal": ({"a": field("string"), "b": field("string")}, ["a", "b"], {}, False),
    "overridden": (
        {"a": field("string"), "b": field("array")}, ["a", "b"], {"f": {"type": "null"}}, False,
    ),
    "parent beside child": (
        {"a": field("string"), "b": {"extends": ["a"], **field("array")}}, ["a", "b"], {}, False,
    ),
    "overridden by a child": (
        {"a": field("string"), "b": field("array"), "c": {"extends": ["a", "b"], **field("null")}},
        ["c"], {}, False,
    ),
    "one arm overrides": (
        {"top": field("string"), "a": {"extends": ["top"], **field("array")},
         "b": {"extends": ["top"]}},
        ["a", "b"], {}, False,
    ),
    "both arms override": (
        {"top": field("string"), "a": {"extends": ["top"], **field("array")},
         "b": {"extends": ["top"], **field("null")}},
        ["a", "b"], {}, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFLICTS)
def test_a_field_of_two_traits(name: str) -> None:
    traits, used, own, conflict = CONFLICTS[name]
    report = of(
        ontology(traits=traits,
                 entity_types=[kind("thing", traits=used, schema={"properties": own})])
    ).reports[0]  # fmt: skip
    assert told(report.problems) == [("ONT-CONFLICT", "/entity_types/0/traits")] * conflict


def test_a_trait_conflict_is_reported_once_at_the_trait() -> None:
    traits = {"a": field("string"), "b": field("array"), "both": {"extends": ["a", "b"]}}
    types = [kind("one", traits=["both"]), kind("two", traits=["both"])]
    report = of(ontology(traits=traits, entity_types=types)).reports[0]
    assert told(report.problems) == [("ONT-CONFLICT", "/traits/both/extends")]


def test_its_own_definition_counts_for_what_it_inherits() -> None:
    known = library("garden.json", "base.yaml").known[0]
    assert fields_of(known, "valve")["stars"] == (
        {"type": "integer", "minimum": 1, "maximum": 10}, "rated",
    )  # fmt: skip
    assert known.scope.traits["rated"].ontology == "garden"
    assert known.scope.types["control"].ontology == "base"


def test_a_diamond_of_ontologies_keeps_what_an_arm_overrides() -> None:
    top = ontology("top", traits={"t": field("string"), "u": field("string")})
    left = ontology("left", "top", traits={"t": field("array")})
    right = ontology("right", "top", traits={"u": field("null")})
    known = only(ontology("both", "left", "right"), right, left, top)
    assert [one.id for one in known.scope.order] == ["top", "left", "right", "both"]
    origins = {name: one.ontology for name, one in known.scope.traits.items()}
    assert origins == {"t": "left", "u": "right"}


# -- against plain oracles ------------------------------------------------------------------------

NAMES = "abcdef"
above = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from(NAMES), max_size=3, unique=True) for name in NAMES}
)


@given(above)
def test_subtypes_reach_what_a_plain_closure_says(graph: dict[str, list[str]]) -> None:
    types = [kind(name, **({"subtype_of": up} if up else {})) for name, up in graph.items()]
    known = only(ontology(entity_types=types))
    pairs = {(name, up) for name in NAMES for up in graph[name]} | {(n, n) for n in NAMES}
    while True:
        more = {(a, d) for (a, b), (c, d) in product(pairs, pairs) if b == c}
        if more <= pairs:
            break
        pairs |= more
    for one, other in product(NAMES, NAMES):
        assert (other in reached(one, known.scope.parents)) == ((one, other) in pairs)
    is_cyclic = any((a, b) in pairs and (b, a) in pairs for a in NAMES for b in NAMES if a != b)
    rules = [one.rule for one in of(ontology(entity_types=types)).reports[0].problems]
    assert ("ONT-SUBTYPE-CYCLE" in rules) == is_cyclic
    assert rules.count("ONT-SUBTYPE-SELF") == sum(name in up for name, up in graph.items())


@given(above)
def test_an_order_has_each_name_once_and_after_what_it_extends(
    graph: dict[str, list[str]],
) -> None:
    order, cycles = ordered(NAMES, graph.__getitem__)
    assert sorted(order) == list(NAMES)
    if not cycles:
        assert all(order.index(up) < order.index(name) for name in NAMES for up in graph[name])
    for cycle in cycles:
        assert all(b in graph[a] for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


acyclic = st.fixed_dictionaries(
    {
        name: st.tuples(
            st.lists(st.sampled_from(NAMES[:at] or "-"), max_size=3, unique=True),
            st.dictionaries(st.sampled_from("fg"), st.sampled_from(["string", "array"])),
        )
        for at, name in enumerate(NAMES)
    }
)


@given(acyclic, st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
def test_fields_are_those_of_the_lowest_definitions(graph: Any, used: list[str]) -> None:
    """The oracle: of all definitions above, those count that no other one is below of."""
    graph = {name: ([up for up in ups if up != "-"], own) for name, (ups, own) in graph.items()}
    traits = {
        name: {"extends": ups, "fields": {f: {"type": t} for f, t in own.items()}}
        for name, (ups, own) in graph.items()
    }
    found = of(ontology(traits=traits, entity_types=[kind("thing", traits=used)]))
    whole = found.known[0].traits.of_type(found.known[0].ontology.types["thing"])

    def visible(names: list[str], wanted: str) -> set[str]:
        """Where a field is seen to be defined by who goes up until someone defines it."""
        seen = set()
        for name in names:
            ups, own = graph[name]
            seen |= {name} if wanted in own else visible(ups, wanted)
        return {
            one for one in seen
            if not any(one in over(other) for other in seen if other != one)
        }  # fmt: skip

    def over(name: str) -> set[str]:
        return {up for first in graph[name][0] for up in {first} | over(first)}

    for wanted in "fg":
        origins = visible(used, wanted)
        kinds = {graph[name][1][wanted] for name in origins}
        assert (wanted in whole.conflicts) == (len(kinds) > 1)
        if len(kinds) == 1:
            assert whole.fields[wanted].schema == {"type": kinds.pop()}
            assert whole.fields[wanted].trait in origins
        elif not kinds:
            assert wanted not in whole.fields


def test_reachable_names_come_nearest_first() -> None:
    assert reached("a", {"a": ["b", "c"], "b": ["d"], "c": ["a"], "d": []}.__getitem__) == [
        "a", "b", "c", "d",
    ]  # fmt: skip


# -- namespaces -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ("procedural", "runbooks"),
        ("_procedural/repairs", "_runbooks/repairs"),
        ("_procedural/other/deep", "_runbooks/other/deep"),
        ("runbooks/repairs", "runbooks/repairs"),
        ("_semantic/decisions", "_semantic/decisions"),
        ("proceduralish", "proceduralish"),
        ("elsewhere", "elsewhere"),
    ],
)
def test_a_namespace_that_is_replaced_is_not_chosen(asked: str, chosen: str) -> None:
    scope = library("workshop.yaml").known[0].scope
    assert choose_namespace(scope, asked) == chosen
    assert choose_namespace(scope, chosen) == chosen


def test_the_type_of_a_memory_is_that_of_its_entity_or_the_nearest_hint() -> None:
    scope = library("workshop.yaml").known[0].scope
    assert choose_type(scope, entity="repair", namespace="_semantic/entities") == "procedural"
    assert choose_type(scope, namespace="_semantic/decisions") == "semantic"
    assert choose_type(scope, namespace="_procedural/repairs") == "procedural"
    assert choose_type(scope, namespace="episodic/visits") == "episodic"
    assert choose_type(scope, entity="nothing", namespace="elsewhere") is None
    assert choose_type(scope) is None


def test_a_replacement_inside_what_it_replaces_is_not_moved_twice() -> None:
    spaces = {"semantic": {"children": {"plans": {"replaces": "semantic"}}}}
    scope = only(ontology(namespaces=spaces)).scope
    assert choose_namespace(scope, "_semantic/x") == "_semantic/plans/x"
    assert choose_namespace(scope, "_semantic/plans/x") == "_semantic/plans/x"


@pytest.mark.parametrize(
    ("traits", "used", "expected"),
    [
        # Two say the same; one of them is overridden, the other is not.
        ({"c": ([], "array"), "d": ([], "array"), "x": (["c", "d"], None), "e": (["c"], "string")},
         ["x", "e"], None),
        # Two say the same; one of them overrides a third.
        ({"c": ([], "array"), "b": ([], "string"), "o": (["c"], "string"),
          "x": (["b", "o"], None)}, ["x", "c"], "string"),
    ],
)  # fmt: skip
def test_definitions_that_are_equal_count_each(
    traits: dict[str, Any], used: list[str], expected: str | None
) -> None:
    raw = {name: {"extends": ups, "fields": {} if kind_ is None else {"f": {"type": kind_}}}
           for name, (ups, kind_) in traits.items()}  # fmt: skip
    found = of(ontology(traits=raw, entity_types=[kind("thing", traits=used)]))
    whole = found.known[0].traits.of_type(found.known[0].ontology.types["thing"])
    assert ("f" in whole.conflicts) is (expected is None)
    if expected is not None:
        assert whole.fields["f"].schema == {"type": expected}
