# SPDX-License-Identifier: Apache-2.0
"""Judging MIF in JSON-LD: words, shapes, modes, hostile documents; JSON Schema as an oracle."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend
from referencing import Registry, Resource

from omsgrain.formats.mif_ld import schema
from omsgrain.formats.mif_ld.defects import CODES, LintFinding
from omsgrain.formats.mif_ld.records import kind_of, shape_of
from omsgrain.formats.mif_ld.validate import judge, mended
from omsgrain.formats.problems import MOST, DocumentError
from support import mif_ld_documents as documents
from support.edited_documents import places
from support.mif_ld_cases import BASES, GONE, edited
from support.mif_ld_documents import (
    FULL,
    FULL_1X,
    LOOSE_DECAY,
    MINIMAL,
    MINIMAL_1X,
    ONTOLOGY,
    REINFORCED,
)
from support.mif_ld_rules import CASES

FORMATS = FormatChecker(formats=[])
for form in schema.FORMATS:
    FORMATS.checks(form)(
        lambda value, good=schema.FORMATS[form]: not isinstance(value, str) or good(value)
    )
REGISTRY: Registry[Any] = Registry().with_resources(
    (schema.load(name)["$id"], Resource.from_contents(schema.load(name))) for name in schema.NAMES
)


def as_ecmascript(validator: Any, pattern: str, value: Any, schema: Any) -> Any:
    """Patterns as they are meant: Python's ``$`` takes a newline behind it, and ``\\d`` more."""
    end = pattern.removesuffix("$") + (r"\Z" if pattern.endswith("$") else "")
    if isinstance(value, str) and not re.search(end.replace(".*", r"[^\n\r]*"), value, re.ASCII):
        yield ValidationError("another pattern")


Oracle = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": as_ecmascript}
)
ORACLES = {
    name: Oracle(schema.load(name), registry=REGISTRY, format_checker=FORMATS)
    for name in schema.NAMES
}
FILES = {
    "citation": "citation.json",
    "entity": "entity-reference.json",
    "ontology": "ontology.json",
}


def only(document: Any, **options: Any) -> LintFinding:
    (found,) = judge(document, **options).findings
    return cast(LintFinding, found)


# -- what a person reads --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "says", "hint"),
    [
        ("/@id", "demo", '@id must match pattern "^urn:mif:"', "urn:mif: prefix"),
        ("/memoryType", "fact",
         "memoryType must be equal to one of semantic, episodic, procedural", "namespace"),
        ("/created", "2026-01-26", "created must match format date-time", "2026-01-26T00:00:00Z"),
        ("/namespace", "acme:chat", "namespace must match pattern", "Character 5 is not allowed"),
        ("/content", GONE, "must have required property 'content'", "Add content."),
        ("/content", "", "content must NOT have fewer than 1 characters", "Add a value"),
        ("/summary", "x" * 501, "summary must NOT have more than 500 characters", "Shorten"),
        ("/temporal", {"valid_from": "x"}, "temporal must NOT have additional properties",
         "Did you mean validFrom? Names with _ belong to the Markdown of 0.1."),
        ("/title", None, "title must be string", "Write string."),
    ],
)  # fmt: skip
def test_the_words_are_those_that_people_know(
    place: str, value: Any, says: str, hint: str
) -> None:
    found = only(edited(MINIMAL, place, value))
    assert says in found.message
    assert hint in found.hint


@pytest.mark.parametrize(
    ("base", "key", "value", "hint"),
    [
        (FULL, "relationshipType", "derived-from", "MIF 0.1 expects DerivedFrom"),
        (FULL, "relationshipType", "created-by", "MIF 0.1 expects Created"),
        (FULL_1X, "type", "ConflictsWith", "MIF 1.x expects conflicts-with"),
        (FULL_1X, "type", "Grows Beside", "prefix:Name"),
    ],
)
def test_a_spelling_of_the_other_shape_is_reported(
    base: dict[str, Any], key: str, value: str, hint: str
) -> None:
    assert hint in only(edited(base, f"/relationships/0/{key}", value)).hint


@pytest.mark.parametrize(
    ("key", "meant"),
    [("half_life", "halfLife"), ("HalfLife", "halfLife"), ("halflive", "halfLife"),
     ("curve", None), ("x" * 10_000, None)],
)  # fmt: skip
def test_a_key_that_cannot_be_there_may_be_another(key: str, meant: str | None) -> None:
    hint = only(MINIMAL | {"temporal": {"decay": {key: "P7D"}}}).hint
    assert hint.startswith(f"Did you mean {meant}?") or (meant is None and "Remove" in hint)


def test_a_finding_shows_its_value_to_the_owner_only() -> None:
    found = only(edited(MINIMAL, "/namespace", "secret words " * 20))
    assert found.value is not None
    assert "secret" in found.value
    assert len(found.value) <= 60
    told = f"{found} {found!r} {found.to_dict()} {found.message} {found.hint}"
    assert "secret" not in told
    assert found.to_dict()["severity"] == "error"
    with pytest.raises(DocumentError) as refused:
        judge(MINIMAL | {"namespace": "secret words"}).raise_any()
    assert "secret" not in f"{refused.value} {refused.value.to_dict()}"


# -- shapes, kinds and modes ----------------------------------------------------------------------


@pytest.mark.parametrize("document", documents.OF_0_1)
def test_shape_0_1_is_detected_and_is_not_1_x(document: Any) -> None:
    assert (kind_of(document), shape_of(document)) == ("memory", "0.1")
    found = judge(document, shape="1.x")
    assert [(one.rule, one.pointer) for one in found.findings] == [("MIF-SHAPE", "")]


@pytest.mark.parametrize("document", documents.OF_1_X)
def test_shape_1_x_is_detected_and_is_not_0_1(document: Any) -> None:
    assert (kind_of(document), shape_of(document)) == ("memory", "1.x")
    assert not judge(document, shape="0.1").ok


def test_a_memory_of_the_other_shape_is_judged_by_its_own() -> None:
    found = judge(MINIMAL | {"created": "x"}, shape="1.x")
    assert [one.rule for one in found.findings] == ["MIF-SHAPE", "MIF-DATE"]


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (documents.CITATION, "citation"), (documents.PERSON, "entity-reference"),
        (ONTOLOGY, "ontology"), (documents.CORPUS, "corpus"), ({"content": "x"}, "memory"),
        ({"ontology": {"id": "x"}, "@id": "urn:mif:x"}, "memory"), ({"traits": {}}, "ontology"),
        ({"citationType": "book"}, "citation"), ({"entity": {"@id": "x"}}, "entity-reference"),
        ({}, None), ([], None), (None, None), ({"@type": [5, {}]}, None),
    ],
)  # fmt: skip
def test_kinds_are_detected_by_content(document: Any, kind: str | None) -> None:
    assert kind_of(document) == kind


def test_published_and_repository_differ_in_decay_only() -> None:
    assert judge(REINFORCED).ok
    assert not judge(REINFORCED, strict_published=True).ok
    assert judge(LOOSE_DECAY, strict_published=True).ok
    assert not judge(LOOSE_DECAY).ok
    assert judge(FULL, strict_published=True).ok


def test_mode_lenient_repairs_documents() -> None:
    good, word = documents.CITATION, "on a day in June"
    bad = [
        good, {**good, "url": "x"}, {**good, "citationType": "memo", "citationRole": 5},
        {**good, "relevance": 7, "date": word}, {**good, "type": "book", "citationType": GONE},
    ]  # fmt: skip
    del bad[-1]["citationType"]
    memory = MINIMAL | {"citations": bad}
    found = judge(memory, mode="lenient")
    assert found.ok
    assert {one.pointer.split("/")[2] for one in found.dropped} == {"1", "4"}
    assert {one.to_dict()["severity"] for one in found.dropped} == {"error"}
    assert mended(memory)["citations"] == [
        good, {**good, "citationType": "other", "citationRole": "background"},
        {**good, "relevance": 1, "date": word},
    ]  # fmt: skip
    assert mended(FULL) is FULL


def test_an_order_in_time_between_memories() -> None:
    def made(name: str, day: int, *sources: str) -> dict[str, Any]:
        return MINIMAL | {
            "@id": f"urn:mif:{name}",
            "created": f"2026-03-{day:02}T00:00:00Z",
            "relationships": [
                {"@type": "Relationship", "relationshipType": "DerivedFrom",
                 "target": {"@id": f"urn:mif:{source}"}}
                for source in sources
            ],
        }  # fmt: skip

    corpus = {
        "@type": "MemoryCorpus",
        "records": [
            {"kind": "memory", "payload": one}
            for one in (made("a", 2, "b", "c", "a", "elsewhere"), made("b", 2), made("c", 9))
        ],
    }
    assert judge(corpus).ok
    found = judge(corpus, mode="extra")
    assert [(one.rule, one.pointer) for one in found.warnings] == [
        ("MIF-ORDER", "/records/0/payload/relationships/1")
    ]
    alone = [one["payload"] for one in cast(Any, corpus["records"])]
    found = judge(alone, kind="memory", mode="extra")
    assert [one.pointer for one in found.warnings] == ["/0/relationships/1"]


# -- hostile documents ----------------------------------------------------------------------------


def test_of_many_defects_a_thousand_are_kept_and_all_counted() -> None:
    found = judge(MINIMAL | {"tags": [0] * 5_000, "aliases": [0] * 5_000})
    assert (len(found.findings), found.total) == (MOST, 10_000)
    found = judge([MINIMAL | {"created": ""}] * 3_000)
    assert (len(found.findings), found.total) == (MOST, 3_000)
    found = judge(MINIMAL | {"relationships": [{"type": "uses", "target": "x"}] * 20_000})
    assert [one.rule for one in found.findings] == ["MIF-SHAPE"]
    assert judge(MINIMAL | {"title": 10**10_000}).total == 1


def test_a_tree_too_deep_for_python_is_reported() -> None:
    inner: dict[str, Any] = {}
    for _ in range(50_000):
        inner = {"children": {"x": inner}}
    found = judge({"namespaces": {"x": inner}})
    assert [one.rule for one in found.findings] == ["too_deep"]
    while inner:  # or its end would be as deep
        inner = inner["children"]["x"]


def test_a_text_that_looks_like_its_pattern_for_long_takes_no_time() -> None:
    long = "a/" * 200_000
    found = judge(MINIMAL | {"namespace": long, "@context": f"http://[{':' * 200_000}"})
    assert [one.rule for one in found.findings] == ["MIF-CONTEXT", "MIF-NS"]
    assert judge(MINIMAL | {"temporal": {"ttl": "P" + "1" * 200_000}}, mode="extra").warnings


# -- an oracle ------------------------------------------------------------------------------------


def oracle(document: Any, base: str = "") -> Any:
    if base in FILES:
        return ORACLES[FILES[base]]
    if base == "published":
        return ORACLES["memory-0.1-published.json"]
    return ORACLES[f"memory-{shape_of(document)}.json"]


@pytest.mark.parametrize("name", schema.NAMES)
def test_the_schemas_are_schemas_and_refer_to_nothing_outside(name: str) -> None:
    Draft202012Validator.check_schema(schema.load(name))
    text = schema.text(name)
    for target in (part.split('"')[0] for part in text.split('"$ref": "')[1:]):
        assert target.partition("#")[0] in ("", *schema.NAMES)
    codes = {part.split('"')[0] for part in text.split('"x-code": "')[1:]}
    assert codes <= CODES.keys()
    for node in nodes(schema.load(name)):
        assert node.keys() <= {*OF_VALUES, *OF_PARTS, *SAY_NOTHING}
        tests = [keyword for keyword in node if keyword in OF_VALUES]
        assert tests == sorted(tests, key=OF_VALUES.index)  # the first that fails is reported


SAY_NOTHING = ("$schema", "$id", "$defs", "title", "description", "x-code")
OF_VALUES = ("type", "const", "enum", "pattern", "format", "minLength", "maxLength", "minimum",
             "maximum")  # fmt: skip
OF_PARTS = ("$ref", "anyOf", "items", "required", "properties", "additionalProperties", "contains",
            "minItems", "uniqueItems")  # fmt: skip


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        inner = [*node.get("properties", {}).values(), *node.get("$defs", {}).values()]
        for one in (*inner, *node.get("anyOf", ()), node.get("items"),
                    node.get("additionalProperties")):  # fmt: skip
            yield from nodes(one)


def test_the_context_gives_every_word_a_meaning_and_refers_to_nothing() -> None:
    context = json.loads(schema.text("context.jsonld"))["@context"]
    assert context["@vocab"] == context["mif"]
    texts = "".join(schema.text(name) for name in schema.NAMES if name != "ontology.json")
    terms = {term for term in context if not term.startswith("@")} - {"mif", "prov", "xsd"}
    assert {term for term in terms if f'"{term}":' not in texts} == set()
    assert not any(isinstance(value, dict) and "@context" in value for value in context.values())


def has_schema(case: Any) -> bool:
    """Corpora and arrays have no schema of their own, nor has what is of no kind."""
    document = edited(BASES[case.base], case.place, case.value)
    several = case.base in ("corpus", "array")
    return not several and isinstance(document, dict) and "KIND" not in case.errors


@pytest.mark.parametrize(
    "case", [*filter(has_schema, CASES)], ids=lambda case: f"{case.base} {case.place}"
)
def test_json_schema_accepts_and_refuses_the_same(case: Any) -> None:
    document = edited(BASES[case.base], case.place, case.value)
    assert oracle(document, case.base).is_valid(document) is (case.errors == "")


@pytest.mark.parametrize(
    ("document", "file"),
    [(FULL, "memory-0.1.json"), (FULL, "memory-0.1-published.json"), (FULL_1X, "memory-1.x.json"),
     (REINFORCED, "memory-0.1.json"), (LOOSE_DECAY, "memory-0.1-published.json"),
     (MINIMAL_1X, "memory-1.x.json"), (ONTOLOGY, "ontology.json")],
)  # fmt: skip
def test_good_documents_are_good_for_json_schema(document: Any, file: str) -> None:
    assert [error.message for error in ORACLES[file].iter_errors(document)] == []


STRANGE = st.one_of(
    documents.ANY,
    st.sampled_from(
        ["Memory", "urn:mif:x", "a:b", "P", "x", "Uses", "2026-03-01", 0.5, 2, {}, []]
    ),
)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[Any]) -> Any:
    """A document with another value in one place, one thing less, or one key more."""
    document = json.loads(json.dumps(draw(whole)))
    way = draw(st.sampled_from(places(document)[1:]))
    place = document
    for key in way[:-1]:
        place = place[key]
    act = draw(st.sampled_from(["gone", "other", "more"]))
    if act == "gone":
        del place[way[-1]]
    elif act == "more" and isinstance(place, dict):
        place[draw(documents.SAID)] = draw(STRANGE)
    else:
        place[way[-1]] = draw(STRANGE)
    return document


@settings(max_examples=40)
@given(documents.MEMORIES)
def test_every_memory_that_the_format_allows_is_good(memory: Any) -> None:
    found = judge(memory)
    assert found.findings == ()
    assert oracle(memory).is_valid(memory)


@settings(max_examples=40)
@given(
    st.one_of(
        damaged(st.one_of(documents.MEMORIES, st.sampled_from([FULL, FULL_1X, REINFORCED]))),
        st.builds(lambda one, other: one | other, documents.MEMORIES_0_1, documents.MEMORIES_1_X),
    )
)
def test_memories_are_refused_when_json_schema_refuses_them(memory: Any) -> None:
    assert judge(memory, kind="memory").ok is oracle(memory).is_valid(memory)


@given(damaged(st.sampled_from([REINFORCED, LOOSE_DECAY])))
def test_so_are_those_of_the_published_schema(memory: Any) -> None:
    if shape_of(memory) == "0.1":
        good = ORACLES["memory-0.1-published.json"].is_valid(memory)
        assert judge(memory, kind="memory", strict_published=True).ok is good


@given(damaged(st.one_of(documents.CITATIONS, st.just(ONTOLOGY), documents.ENTITY_REFERENCES)))
def test_the_other_kinds_are_refused_when_json_schema_refuses_them(document: Any) -> None:
    for kind, name in (("citation", "citation"), ("ontology", "ontology"),
                       ("entity-reference", "entity-reference")):  # fmt: skip
        good = ORACLES[f"{name}.json"].is_valid(document)
        assert judge(document, kind=cast(Any, kind)).ok is good


@given(st.data(), st.sampled_from([FULL, FULL_1X, ONTOLOGY, documents.CITATION]))
def test_no_finding_shows_a_value_of_the_document(data: st.DataObject, whole: Any) -> None:
    way = data.draw(st.sampled_from(places(whole)[1:]))
    secret = data.draw(st.sampled_from(["s3cret", ["s3cret"], {"x": "s3cret"}]))
    pointer = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in way)
    for mode in ("schema", "lenient", "extra"):
        found = judge(edited(whole, pointer, secret), mode=cast(Any, mode))
        for one in (*found.findings, *found.warnings, *found.dropped):
            assert "s3cret" not in f"{one} {one.to_dict()}"


@given(damaged(st.sampled_from([FULL, FULL_1X])))
def test_the_other_modes_refuse_no_more(memory: Any) -> None:
    strict = judge(memory)
    assert judge(memory, mode="extra").findings == strict.findings
    lenient = judge(memory, mode="lenient")
    assert set(lenient.findings) <= set(strict.findings)
    if lenient.ok and kind_of(memory) == "memory":
        late = judge(mended(memory))
        assert {one.rule for one in late.findings} <= {"MIF-DATE"}
