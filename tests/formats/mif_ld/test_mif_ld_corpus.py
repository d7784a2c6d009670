# SPDX-License-Identifier: Apache-2.0
"""Directories and corpora of memories: as one .mg file, and back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from omsgrain import formats
from omsgrain.errors import SchemaError
from omsgrain.formats.mif_ld import directory, markdown
from omsgrain.interchange.convert import convert
from omsgrain.interchange.validate import validate
from support.mif_ld_documents import CITATION, CORPUS, FULL, FULL_1X, MINIMAL, MINIMAL_1X, spelled
from support.paths import ROOT
from support.shell import Shell


def tree(root: Path) -> dict[str, Any]:
    """The contents of a directory's files; JSON as values."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            named = path.relative_to(root).as_posix()
            found[named] = data if named.endswith(".md") else None
            if named.endswith(".ndjson"):
                found[named] = [json.loads(line) for line in data.splitlines()]
            elif found[named] is None:
                found[named] = json.loads(data)
    return found


def many(count: int) -> list[dict[str, Any]]:
    kinds = ("semantic", "episodic", "procedural")
    return [
        MINIMAL | {
            "@id": f"urn:mif:m-{i}",
            "memoryType": kinds[i % 3],
            "content": f"Bed {i % 7} has {i} plants.",
            "created": f"2026-03-{i % 28 + 1:02}T08:00:00Z",
            "tags": [f"bed-{i % 7}"],
            "temporal": {"accessCount": i},
            "relationships": [FULL["relationships"][0] | {
                "target": {"@id": f"urn:mif:m-{(i + 1) % count}"}}],
        }
        for i in range(count)
    ]  # fmt: skip


def test_two_hundred_as_one_file_and_back(tmp_path: Path) -> None:
    source = tmp_path / "in"
    for i, one in enumerate(many(200)):
        file = source / f"bed-{i % 7}" / f"m-{i}.memory.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(spelled(one))
    done = convert(source, tmp_path / "all.mg")
    assert (done.source, done.target, done.losses) == ("mif-ld", "mg", [])
    back = convert(tmp_path / "all.mg", tmp_path / "out", format="mif-ld")
    assert back.losses == []
    assert tree(tmp_path / "out") == tree(source)


def test_files_of_all_kinds(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.jsonld").write_bytes(spelled(CORPUS))
    (source / "b.mif.ndjson").write_bytes(spelled(MINIMAL) + b"\n" + spelled(FULL) + b"\n")
    (source / "c.memory.md").write_text(markdown.write(FULL)[0], encoding="utf-8")
    (source / "d.md").write_text(markdown.write(MINIMAL_1X)[0], encoding="utf-8")
    (source / "e.md").write_bytes(b"---\nid: e\ntype: semantic\ncreated: 2026-01-01T00:00:00Z\n"
                                  b"---\n# A title\r\n\r\ntext\n\n\n")  # fmt: skip
    (source / "f.mif.jsonld").write_bytes(spelled([FULL_1X, FULL_1X]))
    (source / "other.json").write_bytes(b"{}")
    (source / "index.md").write_bytes(b"# Index\n")
    convert(source, tmp_path / "all.mg")
    convert(tmp_path / "all.mg", out, format="mif-ld", layout="directory")
    wanted = tree(source)
    del wanted["other.json"], wanted["index.md"]
    assert tree(out) == wanted
    shapes = [one.get("context", {}).get("mif:shape") for one in
              formats.load((source / "f.mif.jsonld").read_bytes()).grains[:1]]  # fmt: skip
    assert shapes == ["1.x"]


def test_bad_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.memory.json").write_bytes(spelled(MINIMAL))
    (tmp_path / "b.memory.json").write_bytes(b"{")
    (tmp_path / "c~.memory.json").write_bytes(spelled(MINIMAL | {"created": "yesterday"}))
    loaded = directory.load_directory(tmp_path)
    assert [one.pointer for one in loaded.problems] == [
        "/b.memory.json", "/c~0.memory.json/created"
    ]  # fmt: skip
    written: dict[str, bytes] = {}
    directory.write_files(loaded, lambda name, data: written.update({str(name): data}))
    assert {name: json.loads(data) for name, data in written.items()} == {"a.memory.json": MINIMAL}


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for one in (outside, inside):
        one.mkdir()
        (one / "a.memory.json").write_bytes(spelled(MINIMAL))
    os.symlink(outside / "a.memory.json", inside / "b.memory.json")
    os.symlink(outside, inside / "more")
    loaded = directory.load_directory(inside)
    assert sum(grain.type == "belief" for grain in loaded.grains) == 1
    with pytest.raises(FileNotFoundError):
        directory.load_directory(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["../a.memory.json", "/a.memory.json", "a/../../b.md"])
def test_a_path_stays_inside(name: str, tmp_path: Path) -> None:
    from omsgrain.formats.document import Manifest
    from omsgrain.formats.mif_ld.document import Sheet
    from omsgrain.formats.mif_ld.format import imported

    whole = Manifest("mif-ld", "x", {}, {}, layout="directory")
    entry = {"path": name, "layout": "document", "count": 1}
    loaded = imported([Sheet(entry, [MINIMAL])], whole, user_id=None)
    with pytest.raises(SchemaError):
        directory.write_files(loaded, lambda _, __: None)


def test_local_memories_stay(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    private = MINIMAL | {"@id": "urn:mif:private", "namespace": "_local"}
    (source / "a.memory.json").write_bytes(spelled(private))
    (source / "b.jsonld").write_bytes(spelled([private, MINIMAL]))
    done = convert(source, tmp_path / "out")
    assert [loss.record for loss in done.losses] == ["urn:mif:private"] * 2
    assert tree(tmp_path / "out") == {"b.jsonld": [MINIMAL]}
    convert(source, tmp_path / "all", local=True)
    assert tree(tmp_path / "all") == tree(source)


def test_as_markdown(tmp_path: Path) -> None:
    (tmp_path / "in.jsonld").write_bytes(spelled([MINIMAL, FULL_1X | {"@type": "Concept"}]))
    done = convert(tmp_path / "in.jsonld", tmp_path / "out", format="mif-ld", layout="markdown")
    assert done.losses == []
    assert len(tree(tmp_path / "out")) == 2
    back = directory.load_directory(tmp_path / "out")
    assert back.problems == ()
    one = convert(tmp_path / "out", tmp_path / "one.mif.json")
    assert (one.source, one.target) == ("mif-ld", "mif2")


def test_from_another_format(tmp_path: Path) -> None:
    example = ROOT / "examples/garden.mif.json"
    there = convert(example, tmp_path / "garden.jsonld")
    assert (there.target, there.losses) == ("mif-ld", [])
    again = convert(tmp_path / "garden.jsonld", tmp_path / "again.mif.json")
    assert again.losses == []
    assert json.loads((tmp_path / "again.mif.json").read_bytes()) == json.loads(
        example.read_bytes()
    )
    # What is no memory has no place in files of memories alone, and neither has what needs it.
    told = convert(example, tmp_path / "out", format="mif-ld", strict=True).losses
    for name in ("files", "x.mif.ndjson"):
        assert convert(example, tmp_path / name, format="mif-ld").losses == told
    convert(tmp_path / "files", tmp_path / "back.mif.json")
    back = json.loads((tmp_path / "back.mif.json").read_bytes())
    assert (len(back["memories"]), len(back["todos"])) == (2, 1)
    assert len(tree(tmp_path / "out")) == 3  # two memories, and a todo as one


OWN = MINIMAL | {"@id": "urn:mif:own"}
BAD = MINIMAL | {"content": 5}


@pytest.mark.parametrize(
    "corpus",
    [
        {"records": [{"payload": MINIMAL}]}, {"records": [{"kind": None, "payload": MINIMAL}]},
        {"records": [{"payload": {"a": 1}}]}, {"records": [{"kind": "memory"}]},
        {"records": [{"kind": "memory", "payload": BAD | {"kind": "note"}}]},
        {"records": [{"kind": "memory", "payload": CORPUS}]},
        {"records": [{"kind": 5, "payload": BAD}, {"kind": "document"}]},
        {"records": [MINIMAL, OWN | {"kind": "memory"}, BAD | {"@id": "urn:mif:bad"}]},
        {"records": [MINIMAL | {"kind": "note", "payload": {}}, 3, CITATION]},
        {"memories": [MINIMAL, 3]}, {"records": [MINIMAL], "memories": [OWN]},
        {"records": 3, "memories": [MINIMAL]},
    ],
)  # fmt: skip
def test_a_corpus_is_imported_as_it_is_validated(tmp_path: Path, corpus: dict[str, Any]) -> None:
    file = tmp_path / "x.jsonld"
    file.write_bytes(spelled({"@type": "MemoryCorpus", **corpus}))
    (judged,) = validate([file])
    found = formats.load(file)
    assert [(one.rule, one.pointer) for one in found.problems] == [
        (one.rule, one.pointer) for one in judged.errors
    ]
    if not found.problems:
        assert json.loads(formats.dump(found, format="mif-ld").data) == json.loads(
            file.read_bytes()
        )


def test_a_payload_without_a_kind_is_a_memory(shell: Shell, tmp_path: Path) -> None:
    file, store = tmp_path / "x.jsonld", tmp_path / "store"
    file.write_bytes(spelled({"@type": "MemoryCorpus", "records": [{"payload": MINIMAL}]}))
    assert shell("validate", file) == 0
    told = shell.json("import", store, file, "--user", "ada")
    assert (told["memories_imported"], told["errors"]) == (1, [])
