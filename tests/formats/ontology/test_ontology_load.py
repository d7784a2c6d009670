# SPDX-License-Identifier: Apache-2.0
"""Loading ontologies: accepted, reported and refused values."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
import yaml

from omsgrain.errors import UnsupportedError
from omsgrain.formats.mif_ld.validate import judge
from omsgrain.formats.ontology import integrity, load
from omsgrain.formats.ontology.load import LARGEST
from omsgrain.formats.problems import DocumentError
from support.ontology_files import DATA, Told, kind, library, of, only, ontology, told

BROKEN: dict[str, Told] = {
    "broken-base.yaml": [("MIF-TYPE", "/entity_types/0/base")],
    "broken-trait-cycle.yaml": [("ONT-CYCLE", "/traits/one/extends")],
    "broken-dangling.yaml": [("ONT-SUBTYPE-UNKNOWN", "/entity_types/0/subtype_of/0")],
    "broken-self.yaml": [("ONT-SUBTYPE-SELF", "/entity_types/0/subtype_of/0")],
    "broken-subtype-cycle.yaml": [("ONT-SUBTYPE-CYCLE", "/entity_types/0/subtype_of")],
    "broken-incompatible.yaml": [("ONT-SUBTYPE-REQUIRED", "/entity_types/1/subtype_of/0")],
    "broken-conflict.yaml": [("ONT-CONFLICT", "/entity_types/0/traits")],
    "broken-regex.yaml": [],
    "empty.json": [],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_ontology_is_reported_once(name: str) -> None:
    assert told(library(name).reports[0].problems) == BROKEN[name]
    if BROKEN[name]:
        with pytest.raises(DocumentError) as caught:
            load([DATA / name])
        assert told(caught.value.problems) == BROKEN[name]


@pytest.mark.parametrize(
    "names", [["workshop.yaml"], ["levels.yaml"], ["garden.json", "base.yaml"]]
)
def test_a_good_ontology_has_no_findings(names: list[str]) -> None:
    for report in library(*names).reports:
        assert not report.problems and not report.warnings


def test_the_field_that_a_subtype_lacks_is_named() -> None:
    message = library("broken-incompatible.yaml").reports[0].problems[0].message
    assert "'b'" in message and "'parent'" in message


def test_both_traits_of_a_conflict_are_named() -> None:
    message = library("broken-conflict.yaml").reports[0].problems[0].message
    assert "/traits/owned/fields/owner" in message and "/traits/held/fields/owner" in message


def test_ontologies_that_extend_one_another_are_refused_both() -> None:
    found = library("broken-cycle-a.yaml", "broken-cycle-b.yaml").reports
    assert [told(one.problems) for one in found] == [[("ONT-CYCLE", "/ontology/extends")]] * 2
    alone = of(ontology("self", "self")).reports[0]
    assert told(alone.problems) == [("ONT-CYCLE", "/ontology/extends")]


def test_an_empty_ontology_is_a_warning() -> None:
    found = library("empty.json")
    assert found.reports[0].ok and told(found.reports[0].warnings) == [("ONT-EMPTY", "")]
    assert not found.known


def test_an_ontology_without_a_head_can_be_used_but_not_referred_to() -> None:
    found = of({"entity_types": [kind("tool")]})
    assert told(found.reports[0].warnings) == [("MIF-MISSING", "")]
    assert list(found.known[0].ontology.types) == ["tool"]
    assert found.get("") is found.known[0]


def test_a_subtype_needs_the_ontology_of_its_parent() -> None:
    assert library("garden.json", "base.yaml").reports[0].ok
    alone = library("garden.json").reports[0]
    assert told(alone.problems) == [("ONT-SUBTYPE-UNKNOWN", "/entity_types/0/subtype_of/0")]
    assert ("ONT-EXTENDS", "/ontology/extends/0") in told(alone.warnings)


def test_the_example_of_the_reference_is_good_and_says_what_it_does_not_define() -> None:
    found = of(
        ontology(
            "my-ontology",
            namespaces={"semantic": {"type_hint": "semantic", "children": {"decisions": {}}}},
            entity_types=[kind("part", traits=["versioned", "documented"])],
            traits={"versioned": {"fields": {"version": {"type": "string"}}}},
            relationships={"implements": {"from": ["part"], "to": ["idea"]}},
            discovery={
                "enabled": True,
                "confidence_threshold": 0.8,
                "patterns": [
                    {"content_pattern": "\\bmills?\\b", "suggest_entity": "machine",
                     "suggest_namespace": "_semantic/entities"},
                ],
            },
        )
    ).reports[0]  # fmt: skip
    assert not found.problems
    assert told(found.warnings) == [
        ("ONT-TRAIT", "/entity_types/0/traits/1"),
        ("ONT-TYPE", "/relationships/implements/to/0"),
        ("ONT-TYPE", "/discovery/patterns/0/suggest_entity"),
        ("ONT-NAMESPACE", "/discovery/patterns/0/suggest_namespace"),
    ]


@pytest.mark.parametrize("name", ["workshop.yaml", "levels.yaml", "base.yaml"])
def test_json_and_yaml_are_one_ontology(name: str) -> None:
    document = yaml.safe_load((DATA / name).read_bytes())
    assert load([DATA / name]).known[0].ontology.document == document
    assert load([json.dumps(document).encode()]).known[0].ontology.document == document


def test_unknown_values_are_kept() -> None:
    known = library("workshop.yaml").known[0].ontology
    assert known.types["machine"].raw["aliases"] == ["device"]
    assert known.document["ontology"]["steward"] == "bench 4"


def test_words_and_times_of_yaml_are_texts() -> None:
    text = b"ontology: {id: no, version: 1.0.0, since: 2026-01-26, on: yes}"
    assert load([text]).known[0].ontology.document["ontology"] == {
        "id": "no", "version": "1.0.0", "since": "2026-01-26", "on": "yes",
    }  # fmt: skip


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "id": ({"ontology": {"id": "My", "version": "1.0.0"}}, "/ontology/id"),
    "version": ({"ontology": {"id": "my", "version": "1.0"}}, "/ontology/version"),
    "number": ({"ontology": {"id": "my", "version": 1.0}}, "/ontology/version"),
    "no version": ({"ontology": {"id": "my"}}, "/ontology"),
    "name": (ontology(entity_types=[kind("Tool")]), "/entity_types/0/name"),
    "no base": (ontology(entity_types=[{"name": "tool"}]), "/entity_types/0"),
    "map": (ontology(entity_types={"tool": {"base": "semantic"}}), "/entity_types"),
    "hint": (ontology(namespaces={"a": {"type_hint": "facts"}}), "/namespaces/a/type_hint"),
    "child": (ontology(namespaces={"a": {"children": {"b": None}}}), "/namespaces/a/children/b"),
    "field": (
        ontology(traits={"t": {"fields": {"f": {"type": "date"}}}}),
        "/traits/t/fields/f/type",
    ),
    "subtype": (ontology(entity_types=[kind("a", subtype_of=[])]), "/entity_types/0/subtype_of"),
    "threshold": (
        ontology(discovery={"confidence_threshold": 2}),
        "/discovery/confidence_threshold",
    ),
    "regex": (ontology(discovery={"content_patterns": [{}]}), "/discovery/content_patterns/0"),
    "array": ([], ""),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", WRONG)
def test_schema_violations_are_refused(name: str) -> None:
    document, pointer = WRONG[name]
    found = load([json.dumps(document).encode()], strict=False).reports[0].problems
    assert [one.pointer for one in found] == [pointer] and found[0].rule.startswith("MIF-")


WARNED: dict[str, tuple[dict[str, Any], Told]] = {
    "trait": (ontology(traits={"a": {"extends": ["b"]}}), [("ONT-TRAIT", "/traits/a/extends/0")]),
    "twice": (ontology(entity_types=[kind("a"), kind("a")]),
              [("ONT-TYPE-TWICE", "/entity_types/1/name")]),
    "required": (ontology(entity_types=[kind("a", schema={"required": ["size", "name"]})]),
                 [("ONT-REQUIRED", "/entity_types/0/schema/required/0")]),
    "retyped": (
        ontology(entity_types=[
            kind("a", schema={"properties": {"f": {"type": "string"}}}),
            kind("b", subtype_of=["a"], schema={"properties": {"f": {"type": "array"}}}),
        ]),
        [("ONT-RETYPED", "/entity_types/1/schema/properties")],
    ),
    "names": (ontology(relationships={"part_of": {}, "part-of": {}}),
              [("ONT-NAME", "/relationships/part-of")]),
    "schema": (ontology(traits={"t": {"fields": {"f": {"pattern": "(?=x)"}}}}),
               [("ONT-SCHEMA", "/traits/t/fields/f")]),
    "far": (ontology(traits={"t": {"fields": {"a/b": {"$ref": "https://example.org/x"}}}}),
            [("ONT-SCHEMA", "/traits/t/fields/a~1b")]),
    "round": (ontology(traits={"t": {"fields": {"f": {"allOf": [{"$ref": "#"}]}}}}),
              [("ONT-SCHEMA", "/traits/t/fields/f")]),
    "nothing": (ontology(entity_types=[kind("a")],
                         discovery={"patterns": [{"suggest_entity": "a"}]}),
                [("ONT-PATTERN", "/discovery/patterns/0")]),
    "no suggestion": (ontology(discovery={"file_patterns": [{"pattern": "a"}]}),
                      [("ONT-PATTERN", "/discovery/file_patterns/0")]),
}  # fmt: skip


@pytest.mark.parametrize("name", WARNED)
def test_suspicious_values_are_warnings(name: str) -> None:
    document, expected = WARNED[name]
    report = of(document).reports[0]
    assert report.ok and told(report.warnings) == expected


def test_one_id_has_one_ontology_of_each_version() -> None:
    first = ontology("a", traits={"one": {}})
    again, other = ontology("a", traits={"one": {}}), ontology("a", traits={"two": {}})
    assert of(first, again).reports[1].ok
    assert told(of(first, other).reports[1].problems) == [("ONT-TWICE", "/ontology/id")]


def test_the_highest_version_counts_unless_one_is_asked_for() -> None:
    versions = ["1.9.0", "1.10.0", "1.10.0-rc1", "1.2.0"]
    library = of(*({"ontology": {"id": "a", "version": one}} for one in versions))
    assert all(report.ok for report in library.reports)
    highest, asked = library.get("a"), library.get("a", "1.2.0")
    assert highest is not None and highest.ontology.version == "1.10.0"
    assert asked is not None and asked.ontology.version == "1.2.0"
    assert library.get("a", "3.0.0") is None and library.get("A") is None


def test_conflicting_definitions_are_reported_where_they_meet() -> None:
    left = ontology("left", traits={"t": {"fields": {"f": {"type": "string"}}}})
    right = ontology("right", traits={"t": {"fields": {"f": {"type": "array"}}}})
    both = ontology("both", "left", "right")
    library = of(left, right, both, ontology("top", "both"))
    assert [told(one.warnings) for one in library.reports] == [
        [], [], [("ONT-REDEFINED", "/ontology/extends")], [],
    ]  # fmt: skip
    met = library.get("top")
    assert met is not None and met.scope.traits["t"].ontology == "right"
    own = {"traits": {"t": {"fields": {"f": {"type": "number"}}}}}
    assert not of(left, right, ontology("both", "left", "right", **own)).reports[2].warnings


@pytest.mark.parametrize(
    "data",
    [b"", b"a: [", b"\xff", b"{", b"a: 1\na: 2\n", b'{"a": 1, "a": 2}', b"- " * 100 + b"a",
     b"a: &a [*a]", b" " * (LARGEST + 1)],
)  # fmt: skip
def test_unreadable_documents_are_refused(data: bytes) -> None:
    with pytest.raises(DocumentError):
        load([data])


def test_hostile_sizes_are_bounded() -> None:
    many: dict[str, Any] = {f"f{n}": {} for n in range(2_000)}
    traits: dict[str, Any] = {"all": {"fields": many}}
    traits.update({f"t{n}": {"extends": ["all"], "fields": {f"own{n}": {}}} for n in range(600)})
    report = of(ontology(traits=traits)).reports[0]
    assert told(report.problems) == [("ONT-LARGE", "/traits")]
    chain = {f"t{n}": {"extends": [f"t{n + 1}"]} for n in range(5_000)}
    assert of(ontology(traits=chain)).reports[0].ok
    ring = {f"t{n}": {"extends": [f"t{(n + 1) % 3_000}"]} for n in range(3_000)}
    assert told(of(ontology(traits=ring)).reports[0].problems) == [
        ("ONT-CYCLE", "/traits/t0/extends")
    ]


def linked(document: dict[str, Any]) -> dict[str, Any]:
    """An ontology in the spelling that is published beside the one in YAML."""

    def names(kind: str, listed: list[str]) -> list[str]:
        return [f"mif:{kind}/{name}" for name in listed]

    def space(name: str, one: dict[str, Any], above: str = "") -> dict[str, Any]:
        made = {
            "@id": f"mif:namespace/{above}{name}",
            "@type": "mif:Namespace",
            "name": name,
            **one,
        }
        if "replaces" in one:
            made["replaces"] = f"mif:namespace/{one['replaces']}"
        if "children" in one:
            inner = one["children"].items()
            made["children"] = {key: space(key, child, f"{above}{name}/") for key, child in inner}
        return made

    head = document["ontology"]
    return {
        "@context": {"traits": {"@id": "mif:trait/context"}},
        "@id": f"mif:ontology/{head['id']}", "@type": "mif:Ontology",
        "identifier": head["id"], "version": head["version"],
        "namespaces": {key: space(key, one) for key, one in document["namespaces"].items()},
        "entity_types": [
            {"@id": f"mif:entityType/{one['name']}", "@type": "mif:EntityType", **one,
             **{key: names(kind, one[key]) for key, kind in
                (("traits", "trait"), ("subtype_of", "entityType")) if key in one}}
            for one in document["entity_types"]
        ],
        "traits": {
            key: {"@id": f"mif:trait/{key}", "@type": "mif:Trait", "name": key, **one}
            for key, one in document["traits"].items()
        },
        "relationships": {
            key: {"@id": f"mif:relationship/{key}", "@type": "mif:Relationship", **one,
                  "from": names("entityType", one["from"]), "to": names("entityType", one["to"])}
            for key, one in document["relationships"].items()
        },
        "discovery": {"enabled": True, "patterns": [
            {"@id": f"mif:pattern/{at}", "@type": "mif:DiscoveryPattern", **one,
             "suggest_entity": f"mif:entityType/{one['suggest_entity']}"}
            for at, one in enumerate(document["discovery"]["patterns"])
        ]},
    }  # fmt: skip


PUBLISHED = ontology(
    "shed",
    namespaces={"_semantic": {"children": {"tools": {"replaces": "things"}}}, "things": {}},
    entity_types=[
        kind("tool", traits=["located"],
             schema={"required": ["name"], "properties": {"from": {"enum": ["mif:trait/x"]}}}),
        kind("saw", subtype_of=["tool"], schema={"required": ["name"]}),
    ],
    traits={"located": {"fields": {"traits": {"type": "string"}}, "requires": ["citations"]}},
    relationships={"cuts": {"from": ["saw"], "to": ["tool"]}},
    discovery={"enabled": True, "patterns": [
        {"content_pattern": "saw", "suggest_entity": "saw",
         "suggest_namespace": "_semantic/tools"},
    ]},
)  # fmt: skip


def test_an_ontology_in_json_ld_is_the_one_in_yaml() -> None:
    plain, published = only(PUBLISHED), only(linked(PUBLISHED))
    assert of(linked(PUBLISHED)).reports == of(PUBLISHED).reports
    one, other = plain.ontology, published.ontology
    assert (one.id, one.version, one.extends) == (other.id, other.version, other.extends)
    saw = other.types["saw"]
    assert (saw.subtype_of, other.types["tool"].traits) == (("tool",), ("located",))
    assert other.types["tool"].properties == {"from": {"enum": ["mif:trait/x"]}}
    assert other.traits["located"].fields == one.traits["located"].fields
    assert [(x.path, x.replaces) for x in other.namespaces] == [
        (x.path, x.replaces) for x in one.namespaces
    ]
    cuts = other.relations["cuts"]
    assert (cuts.sources, cuts.targets) == (("saw",), ("tool",))
    assert [(x.entity, x.namespaces) for x in published.patterns] == [
        (x.entity, x.namespaces) for x in plain.patterns
    ]
    # As a shorter tool writes it: the document itself, with a type.
    short = {"@context": "https://example.org/c", "@type": "mif:Ontology", **PUBLISHED}
    assert only(short).ontology.types.keys() == one.types.keys()
    assert judge(linked(PUBLISHED)).ok


@pytest.mark.parametrize(
    "more",
    [{"@type": ["mif:Ontology", 7]}, {"@id": 7, "identifier": None}, {"traits": "mif:trait/x"},
     {"entity_types": [7, "mif:trait/x"]}, {"ontology": 7}, {"namespaces": {"a": None}}],
)  # fmt: skip
def test_an_odd_json_ld_ontology_is_reported(more: dict[str, Any]) -> None:
    of(linked(PUBLISHED) | more)


def test_a_source_that_is_none_is_refused() -> None:
    assert only({"ontology": {"id": "a", "version": "1.0.0"}}).ontology.id == "a"
    with pytest.raises(FileNotFoundError):
        load([DATA / "none.yaml"])


def test_inherited_names_are_bounded() -> None:
    long: dict[str, Any] = {"x" * 300: {"fields": {"f": {}}}}
    assert told(of(ontology(traits=long)).reports[0].problems) == [("ONT-LARGE", "")]
    inner: dict[str, Any] = {f"n{n}": {} for n in range(20_000)}
    for _ in range(20):
        inner = {"x" * 200: {"children": inner}}
    found = of(ontology(namespaces=inner))
    assert told(found.reports[0].problems) == [("ONT-LARGE", "/namespaces")]


def test_many_suggestions_and_many_namespaces_take_no_product_of_time() -> None:
    spaces = {f"n{n}": {"replaces": f"o{n}"} for n in range(8_000)}
    patterns = [
        {"content_pattern": "x", "suggest_entity": "a", "suggest_namespace": f"_p{n}/a"}
        for n in range(8_000)
    ]
    document = ontology(namespaces=spaces, discovery={"patterns": patterns})
    assert ("ONT-NAMESPACE", "/discovery/patterns/0/suggest_namespace") in told(
        of(document).reports[0].warnings
    )


def test_a_thousand_cycles_are_reported_briefly() -> None:
    names = [f"t{n}" for n in range(300)]
    traits = {name: {"extends": names} for name in names}
    found = of(ontology(traits=traits)).reports[0].problems
    assert 0 < len(found) <= 1_000
    assert all(len(one.message) < 300 for one in found)


@pytest.mark.parametrize("module", ["yaml", "re2", "jsonschema_rs"])
def test_an_extra_that_is_not_installed_is_named(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    integrity._validator.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedError) as caught:
        load([DATA / "workshop.yaml"])
    assert "'formats'" in (caught.value.expected or "")
