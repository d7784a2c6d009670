# SPDX-License-Identifier: Apache-2.0
"""Directories of the Open Knowledge Format, read and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import formats
from omsgrain.formats.foreign.okf import OKF
from omsgrain.formats.table import sniff_directory
from omsgrain.interchange.convert import convert
from support.foreign_files import DATA, USER, fates, imported, texts
from support.mif_imports import opened

ROOT = DATA / "okf"
NOTE = "---\ntype: Note\n---\n\nWater at seven.\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def memories(root: Path) -> dict[str, dict[str, Any]]:
    found = formats.load(root, format="okf", user_id=USER)
    listed = json.loads(formats.dump(found, format="mif2").data)["memories"]
    return {one["external_id"]: one for one in listed}


def test_a_concept_is_a_memory() -> None:
    found = memories(ROOT)
    beds, pumps = found["tables/beds"], found["tables/pumps"]
    assert beds["content"].startswith("Beds\n\nOne row for each bed.\n\n# Schema")
    assert (beds["tags"], beds["created_at"]) == (["beds", "garden"], "2026-06-20T22:53:05Z")
    assert beds["metadata"]["okf"]["front"]["status"] == "stable"
    assert beds["related_memory_ids"] == [pumps["id"]]
    assert pumps["related_memory_ids"] == [beds["id"]]


@pytest.mark.parametrize(
    ("files", "format"),
    [
        ({"a.md": NOTE}, "okf"),
        ({"index.md": '---\nokf_version: "0.2"\n---\n'}, "okf"),
        ({"a.md": NOTE.replace("type", '"type"')}, "okf"),
        ({"a.md": "---\nid: a\ntype: semantic\n---\nx\n"}, "mif-ld"),
        ({"a.md": "no front matter"}, "mif-ld"),
    ],
)
def test_detection(tmp_path: Path, files: dict[str, str], format: str) -> None:
    assert sniff_directory(tree(tmp_path / "x", files)) == format


def test_bad_concepts_are_skipped(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "x",
        {
            "a.md": NOTE,
            "b.md": "no front matter",
            "c.md": "---\ntitle: no type\n---\nx\n",
            "d.md": "---\ntype: [\n---\nx\n",
            "e.md": "---\ntype: Empty\n---\n",
            "log.md": "# Log\n",
            "x.py": "print()",
        },
    )
    found = OKF.load_directory(root)
    assert [(one.rule, one.pointer) for one in found.problems] == [
        ("missing_field", "/b.md"),
        ("missing_field", "/c.md/type"),
        ("not_front_matter", "/d.md"),
        ("no_text", "/e.md"),
    ]
    assert [one.pointer for one in found.dropped] == ["/log.md", ""]


def test_links_out_of_the_directory_lead_nowhere(tmp_path: Path) -> None:
    body = "[a](../../a.md) [b](https://x.org/b.md) [c](/sub/../c.md#x) [i](index.md) [me](n.md)"
    root = tree(tmp_path / "x", {"n.md": NOTE + body, "c.md": NOTE.replace("seven", "noon")})
    found = memories(root)
    assert found["n"]["related_memory_ids"] == [found["c"]["id"]]


def test_a_directory_that_was_read_is_written_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = convert(ROOT, out, format="okf")
    assert (report.source, report.target) == ("okf", "okf")
    assert sniff_directory(out) == "okf"
    assert memories(out) == memories(ROOT)
    with opened() as store:
        imported(store, ROOT)
        assert set(fates(imported(store, out))) == {"unchanged"}


def test_other_memories_become_concepts_and_come_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = convert(DATA / "memory.jsonl", out, format="okf")
    kinds = {one.field for one in report.losses}
    assert {"entity", "relationship"} <= kinds
    with opened() as store:
        imported(store, out)
        assert "Ada: Speaks fluent Spanish" in texts(store)
    before = json.loads(formats.dump(formats.load(DATA / "memory.jsonl"), format="mif2").data)
    ids = {one["id"] for one in before["memories"]}
    assert {one["id"] for one in memories(out).values()} == ids


def test_grains_of_a_store_become_concepts(tmp_path: Path) -> None:
    grains = [og.Belief(subject="ada", relation="mg:prefers", object="tea", user_id="ada",
                        created_at=1_000)]  # fmt: skip
    path = tmp_path / "x.mg"
    og.container.write(path, grains)
    convert(path, tmp_path / "out", format="okf", user_id="ada")
    (memory,) = memories(tmp_path / "out").values()
    assert memory["content"] == "ada prefers tea"


def test_no_file_is_replaced_unasked(tmp_path: Path) -> None:
    out = tree(tmp_path / "out", {"index.md": "mine"})
    with pytest.raises(FileExistsError):
        convert(ROOT, out, format="okf")
    assert [path.name for path in out.rglob("*") if path.is_file()] == ["index.md"]
    convert(ROOT, out, format="okf", replace=True)
    assert (out / "index.md").read_text("utf-8") != "mine"


def test_an_id_is_no_path(tmp_path: Path) -> None:
    memory = {"id": "../../x", "content": "x", "created_at": "2026-01-01T00:00:00Z"}
    source = tmp_path / "x.mif.json"
    source.write_text(json.dumps({"mif_version": "2.0", "memories": [memory, memory]}), "utf-8")
    convert(source, tmp_path / "in" / "out", format="okf")
    found = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")}
    assert found == {"in/out", "in/out/memories"}


@pytest.mark.parametrize("name", ["../a.md", "/a.md", "a/../../b.md", "index.md", "a.txt", "x"])
def test_a_forged_path_stays_inside(tmp_path: Path, name: str) -> None:
    front = {"type": "Note"}
    memory = {"id": "8d265a99-8939-45f9-823d-0893f4a47184", "content": "x",
              "created_at": "2026-01-01T00:00:00Z",
              "metadata": {"okf": {"path": name, "front": front}}}  # fmt: skip
    source = tmp_path / "x.mif.json"
    source.write_text(json.dumps({"mif_version": "2.0", "memories": [memory]}), "utf-8")
    convert(source, tmp_path / "in" / "out", format="okf")
    found = [path.relative_to(tmp_path / "in" / "out").as_posix()
             for path in tmp_path.rglob("*.md")]  # fmt: skip
    assert sorted(found) == ["index.md", f"memories/{memory['id']}.md"]
