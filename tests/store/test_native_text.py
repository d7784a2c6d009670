# SPDX-License-Identifier: Apache-2.0
"""Native grains in a document: the subject, the verb, and all of the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import pytest

import omsgrain as og
from omsgrain import formats
from omsgrain.formats.document import Loss
from omsgrain.grain import Grain
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.export import AimemExportReport
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from support.mif_imports import opened

USER = "ada"
FORMATS = ("mif2", "mif1", "aimem", "mif-ld")
Say: TypeAlias = Callable[[Sequence[Grain], str, bool], tuple[list[str], list[Loss]]]


def contents(format: str, data: bytes) -> list[str]:
    document = json.loads(data)
    if format == "aimem":
        return [one["content"] for one in document["chunks"]]
    if format == "mif-ld":
        return [one["payload"]["content"] for one in document["records"]]
    return [one["content"] for one in document["memories"]]


def converted(grains: Iterable[Grain], format: str, strict: bool) -> tuple[list[str], list[Loss]]:
    options: dict[str, Any] = {"layout": "corpus"} if format == "mif-ld" else {}
    made = formats.dump(grains, format=format, user_id=USER, strict=strict, **options)
    return contents(format, made.data), made.losses


def exported(grains: Iterable[Grain], format: str, strict: bool) -> tuple[list[str], list[Loss]]:
    with opened() as store:
        store.put_many(list(grains))
        if format == "aimem":
            report = AimemExportReport()
            found = export_bundle(store, USER, tenant_id="urn:x:ada", strict=strict, report=report)
            chunks = [one for bundle in found for one in bundle.records["chunk"]]
            return [one["content"] for one in chunks], report.losses
        dump, _ = export_document(store, USER, format=format, strict=strict)
        return contents(format, dump.data), dump.losses


ways = pytest.mark.parametrize("say", [converted, exported])
each = pytest.mark.parametrize("format", FORMATS)
strictly = pytest.mark.parametrize("strict", [False, True])


def believes(subject: str, relation: str, object: Any, user_id: str | None = USER) -> Grain:
    return og.Belief(subject=subject, relation=relation, object=object, created_at=1_000,
                     user_id=user_id)  # fmt: skip


def blocks(*given: dict[str, Any]) -> Grain:
    return og.Event(content_blocks=list(given), created_at=1_000, user_id=USER)


def text(of: str) -> dict[str, Any]:
    return {"type": "text", "text": of}


@ways
@each
@strictly
@pytest.mark.parametrize(
    ("relation", "verb"),
    [("mg:knows", "knows"), ("mg:prefers", "prefers"), ("mg:avoids", "avoids"),
     ("aimem:decided", "decided"), ("mif:decided", "decided"), ("aimem:identity", "is"),
     ("mg:agrees_with", "agrees with"), ("lives in", "lives in")],
)  # fmt: skip
def test_a_belief_about_somebody_else_says_who_and_what(
    say: Say, format: str, strict: bool, relation: str, verb: str
) -> None:
    grains = [believes(who, relation, "tea") for who in ("bob", "carol")]
    said, losses = say(grains, format, strict)
    assert sorted(said) == [f"bob {verb} tea", f"carol {verb} tea"]
    assert not {"subject", "relation", "object"} & {one.field for one in losses}


@ways
@each
@strictly
def test_a_belief_about_the_user_says_what_the_type_of_memory_does_not(
    say: Say, format: str, strict: bool
) -> None:
    said, _ = say([believes(USER, "mg:avoids", "peanuts")], format, strict)
    # Only AIMEM has a type for what somebody avoids.
    assert said == ["peanuts" if format == "aimem" else "ada avoids peanuts"]
    said, _ = say([believes(USER, "mg:prefers", "tea")], format, strict)
    assert said == ["tea" if format in ("aimem", "mif-ld") else "ada prefers tea"]
    said, losses = say([believes(f"user:{USER}", "mg:knows", "a shortcut")], format, strict)
    assert said == ["a shortcut"]
    assert not {"subject", "relation", "object"} & {one.field for one in losses}
    said, _ = say([believes(USER, "mg:perceives", "rain")], format, strict)
    assert said == ["ada perceives rain"]


@each
def test_in_a_document_of_several_users_each_belief_says_who(format: str) -> None:
    grains = [believes(who, "mg:knows", "tea", who) for who in ("bob", "carol")]
    said, _ = converted(grains, format, True)
    assert sorted(said) == ["bob knows tea", "carol knows tea"]


@each
def test_two_beliefs_are_two_memories_at_the_receiver(format: str) -> None:
    grains = [believes(who, "mg:prefers", "tea") for who in ("bob", "carol")]
    data = formats.dump(grains, format=format, user_id=USER, strict=True).data
    loaded = formats.load(data, format=format)
    assert {*contents(format, formats.dump(loaded, format=format).data)} == {
        "bob prefers tea",
        "carol prefers tea",
    }
    if format == "aimem":
        return
    with opened() as store:
        report = import_document(store, data, user_id=USER)
        assert [one.fate for one in report.records] == ["imported"] * 2
        again = import_document(store, data, user_id=USER)
        assert {one.fate for one in again.records} <= {"unchanged", "duplicate"}


@each
def test_grains_that_travel_along_come_back(format: str) -> None:
    grains = [believes("bob", "mg:prefers", "tea"), believes(USER, "mg:avoids", "peanuts"),
              believes("carol", "mg:prefers", "tea", "carol"),
              blocks(text("one"), text("two"))]  # fmt: skip
    data = formats.dump(grains, format=format, user_id=USER).data
    assert {*formats.load(data).grains} >= {*grains}


@each
def test_markdown_says_it_too(format: str) -> None:
    grains = [believes("bob", "mg:prefers", "tea"), blocks(text("one"), text("two"))]
    data = b"".join(
        formats.dump([one], format="mif-ld", layout="markdown").data for one in grains
    ).decode()
    assert "\nbob prefers tea\n" in data
    assert "\none\n\ntwo\n" in data


# -- content blocks -------------------------------------------------------------------------------


@ways
@each
@strictly
def test_text_blocks_are_the_text(say: Say, format: str, strict: bool) -> None:
    said, losses = say([blocks(text("It rained."), text("Then it stopped."))], format, strict)
    assert said == ["It rained.\n\nThen it stopped."]
    assert "content_blocks" not in {one.field for one in losses}


@ways
@each
def test_other_blocks_are_lost_by_name(say: Say, format: str) -> None:
    grain = blocks(text("Look."), {"type": "image", "source": "cas://sha256:00"}, text("Nice."))
    said, losses = say([grain], format, True)
    assert said == ["Look.\n\nNice."]
    assert "content_blocks" in {one.field for one in losses}


@ways
@each
@strictly
def test_an_event_without_text_is_reported(say: Say, format: str, strict: bool) -> None:
    said, losses = say([blocks({"type": "image", "source": "x"}),
                        og.Event(content="rain", created_at=1_000, user_id=USER)],
                       format, strict)  # fmt: skip
    assert "rain" in said
    assert "content" in {one.field for one in losses}


@ways
@each
def test_content_beside_blocks_is_the_text(say: Say, format: str) -> None:
    grain = og.Event(content="plain", content_blocks=[text("marked up")], created_at=1_000,
                     user_id=USER)  # fmt: skip
    said, _ = say([grain], format, True)
    assert said == ["plain"]


@ways
@each
def test_an_event_that_is_a_sentence_leaves_as_one(say: Say, format: str) -> None:
    grain = og.Event(subject="bob", relation="mg:said", object="hello", created_at=1_000,
                     user_id=USER)  # fmt: skip
    assert say([grain], format, True)[0] == ["bob said hello"]
