# SPDX-License-Identifier: Apache-2.0
"""Memories are written in the requested shape, and values that it lacks are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain import formats
from omsgrain.errors import SchemaError
from omsgrain.formats.mif_ld import markdown
from omsgrain.formats.mif_ld.records import Shape, shape_of
from omsgrain.formats.mif_ld.validate import judge
from support.conversion_pairs import BUNDLE, DOCUMENTS, EXAMPLES, FEWER, load, same_document
from support.mif_ld_documents import FULL, FULL_1X, MEMORIES, MINIMAL, MINIMAL_1X, spelled
from support.shell import Shell

LD = "mif-ld"
OTHERS = tuple(name for name in DOCUMENTS if name != LD)
GARDEN = BUNDLE.with_name("garden.mif.json")


def written(found: formats.Import, **options: Any) -> tuple[list[dict[str, Any]], bytes]:
    dumped = formats.dump(found, format=LD, shape="1.x", embeddings=True, **options)
    made = [one["payload"] for one in json.loads(dumped.data)["records"]]
    assert {shape_of(one) for one in made} <= {"1.x"}
    return made, dumped.data


def there_and_back(document: dict[str, Any], one: str) -> None:
    found = load(document, one)
    _, data = written(found)
    back = formats.load(data)
    assert (back.format, back.problems) == (LD, ())
    again = formats.dump(back, format=one, embeddings=True)
    assert (again.losses, same_document(json.loads(again.data), document, one)) == ([], True)
    assert written(back)[1] == data
    assert formats.load(written(found, strict=True)[1]).problems == ()


@pytest.mark.parametrize("one", OTHERS)
def test_examples_there_and_back(one: str) -> None:
    for document in EXAMPLES[one]:
        there_and_back(document, one)


@pytest.mark.parametrize("one", OTHERS)
@FEWER
@given(data=st.data())
def test_there_and_back(one: str, data: st.DataObject) -> None:
    there_and_back(data.draw(DOCUMENTS[one]), one)


def test_a_record_that_was_changed_on_its_way_is_what_it_says() -> None:
    _, data = written(formats.load(GARDEN.read_bytes()))
    corpus = json.loads(data)
    corpus["records"][0]["payload"]["content"] = "Changed."
    back = formats.load(spelled(corpus))
    again = json.loads(formats.dump(back, format="mif2", embeddings=True).data)
    before = json.loads(GARDEN.read_bytes())
    assert again["memories"][0]["content"] == "Changed."
    assert again["memories"][1:] == before["memories"][1:]
    assert json.loads(formats.dump(back, format=LD).data) == corpus


def test_words_of_relationships() -> None:
    ids = [f"7c9e6679-7425-40de-944b-e07fc1f90ae{n}" for n in range(3)]
    memories = [{"id": id, "content": id, "created_at": "2026-03-01T08:00:00Z"} for id in ids]
    memories[0] |= {"parent_id": ids[1], "related_memory_ids": [ids[2]]}  # type: ignore[dict-item]
    document = {"mif_version": "2.0", "memories": memories}
    made, _ = written(formats.load(spelled(document)), strict=True)
    assert made[0]["relationships"] == [
        {"type": "part-of", "target": f"urn:mif:{ids[1]}"},
        {"type": "relates-to", "target": f"urn:mif:{ids[2]}"},
    ]
    assert (made[0]["@type"], made[0]["conceptType"]) == ("Concept", "semantic")
    assert "memoryType" not in made[0]


def others(memory: dict[str, Any]) -> Shape:
    return "0.1" if shape_of(memory) == "1.x" else "1.x"


@FEWER
@given(MEMORIES)
def test_the_other_shape_returns_all_without_losses(memory: dict[str, Any]) -> None:
    found = formats.load(spelled([memory]))
    there = formats.dump(found, format=LD, shape=others(memory), local=True)
    (made,) = json.loads(there.data)
    assert judge(made, shape=others(memory)).ok
    back = formats.dump(formats.load(there.data), format=LD, shape=shape_of(memory), local=True)
    (again,) = json.loads(back.data)
    lost = {loss.field.split("/")[0] for loss in there.losses} | {"@type"}
    assert {key: value for key, value in again.items() if key not in lost} == {
        key: value for key, value in memory.items() if key not in lost
    }
    assert {loss.record for loss in there.losses} <= {memory["@id"]}


def test_values_that_the_other_shape_lacks() -> None:
    def lost(memory: dict[str, Any]) -> set[str]:
        dumped = formats.dump(formats.load(spelled(memory)), format=LD, shape=others(memory))
        return {loss.field for loss in dumped.losses}

    target = {"/relationships/1/target/name", "/relationships/1/relationshipType"}
    assert lost(MINIMAL) == lost(MINIMAL_1X) == set()
    assert {f"/{field}" for field in lost(FULL)} <= target | {"/relationships/1"}
    assert lost(FULL_1X) == {"memoryType", "relationships"}


def test_words_of_one_shape_in_the_other() -> None:
    names = ["DerivedFrom", "Created", "garden:GrowsBeside", "a:B"]
    listed = [{"@type": "Relationship", "relationshipType": name,
               "target": {"@id": "urn:mif:x"}, "strength": 1} for name in names]  # fmt: skip
    found = formats.load(spelled(MINIMAL | {"relationships": listed}))
    made = json.loads(formats.dump(found, format=LD, shape="1.x").data)
    assert made["relationships"] == [
        {"type": name, "target": "urn:mif:x", "strength": 1}
        for name in ("derived-from", "created-by", "garden:grows-beside", "a:b")
    ]
    word = MINIMAL_1X | {"relationships": [{"type": "lies-in", "target": "urn:mif:x"}]}
    there = formats.dump(formats.load(spelled(word)), format=LD, shape="0.1")
    (one,) = json.loads(there.data)["relationships"]
    assert (one["relationshipType"], there.losses) == ("omsgrain:lies-in", [])
    back = formats.dump(formats.load(there.data), format=LD, shape="1.x")
    assert json.loads(back.data) == word


def test_other_formats_have_no_shapes() -> None:
    with pytest.raises(SchemaError) as refused:
        formats.dump(formats.load(spelled(MINIMAL)), format="mif2", shape="1.x")
    assert refused.value.field == "/shape"


def test_a_directory_is_brought_into_a_shape(shell: Shell, tmp_path: Path) -> None:
    notes, again = tmp_path / "notes", tmp_path / "again"
    notes.mkdir()
    (notes / "a.jsonld").write_bytes(spelled([MINIMAL, MINIMAL_1X]))
    (notes / "b.memory.md").write_text(markdown.write(MINIMAL | {"@id": "urn:mif:b"})[0])
    assert shell.json("convert", notes, again, "--shape", "1.x")["losses"] == []
    assert sorted(path.name for path in again.iterdir()) == ["a.jsonld", "b.md"]
    assert shell("validate", again, "--shape", "1.x") == 0, shell.err
    back = tmp_path / "back"
    assert shell.json("convert", again, back, "--shape", "0.1")["losses"] == []
    assert (back / "b.memory.md").read_bytes() == (notes / "b.memory.md").read_bytes()


def test_on_the_command_line(shell: Shell, tmp_path: Path) -> None:
    target, store = tmp_path / "x.jsonld", tmp_path / "m.omsg"
    told = shell.json("convert", GARDEN, target, "--shape", "1.x")
    assert told["losses"] == []
    records = json.loads(target.read_bytes())["records"]
    assert all("conceptType" in one["payload"] for one in records)
    assert shell("validate", target, "--shape", "1.x", "--mode", "extra") == 0
    assert shell.error("convert", GARDEN, tmp_path / "x.mif.yaml", "--shape", "1.x")[0] != 0
    assert shell("import", store, GARDEN, "--user", "ada") == 0
    out = tmp_path / "out.jsonld"
    shell.json("export", store, out, "--user", "ada", "--shape", "1.x", "--strict")
    records = json.loads(out.read_bytes())["records"]
    assert all("conceptType" in one["payload"] for one in records)
    assert (
        shell("convert", GARDEN, tmp_path / "files", "--shape", "1.x", "--layout", "directory")
        == 0
    )
    options = ("--layout", "markdown", "--shape", "1.x")
    assert shell("convert", target, tmp_path / "vault", *options) == 0
    names = {path.name for path in (tmp_path / "vault").iterdir()}
    assert names and not any(name.endswith(".memory.md") for name in names)


@pytest.mark.parametrize(
    ("memory", "name", "told"),
    [
        (MINIMAL, "a.memory.md", False), (MINIMAL, "a.md", True),
        (MINIMAL_1X, "a.memory.md", True), (MINIMAL_1X, "a.md", False),
        (FULL, "a.md", False), (FULL_1X, "a.memory.md", False),
    ],
)  # fmt: skip
def test_a_name_of_another_shape_is_reported(
    shell: Shell, tmp_path: Path, memory: dict[str, Any], name: str, told: bool
) -> None:
    source, target = tmp_path / "x.jsonld", tmp_path / name
    source.write_bytes(spelled(memory))
    lost = shell.json("convert", source, target)["losses"]
    assert ("shape" in {one["field"] for one in lost}) is told


def test_markdown_in_a_directory_is_read_in_its_shape_again(shell: Shell, tmp_path: Path) -> None:
    source, vault, back = tmp_path / "x.jsonld", tmp_path / "vault", tmp_path / "back.jsonld"
    source.write_bytes(spelled([MINIMAL, MINIMAL_1X]))
    assert shell.json("convert", source, vault, "--layout", "markdown")["losses"] == []
    assert shell.json("convert", vault, back, "--layout", "array")["losses"] == []
    again = json.loads(back.read_bytes())
    later = MINIMAL_1X | {"timestamp": MINIMAL_1X["created"]}
    assert sorted(again, key=lambda one: str(one["@type"])) == [later, MINIMAL]
