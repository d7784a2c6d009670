# SPDX-License-Identifier: Apache-2.0
"""``omsgrain ontology``: exit codes, what is printed, JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omsgrain.errors import FormatError, UnsupportedError
from support.ontology_files import DATA, memory
from support.shell import USAGE, Shell

BAD = FormatError.exit_code
SHOP, BASE, GARDEN = (DATA / name for name in ("workshop.yaml", "base.yaml", "garden.json"))


def test_check_says_which_file_has_what(shell: Shell) -> None:
    assert shell("ontology", "check", GARDEN, BASE) == 0
    assert shell.out.count(b": good") == 2 and not shell.err
    assert shell("ontology", "check", BASE, DATA / "broken-self.yaml") == BAD
    assert b"ONT-SUBTYPE-SELF" in shell.err and b"broken-self.yaml" in shell.err


def test_check_as_json(shell: Shell) -> None:
    assert shell("ontology", "check", DATA / "broken-base.yaml", BASE, "--json") == BAD
    told = json.loads(shell.out)
    assert not told["ok"] and [one["ontology"] for one in told["ontologies"]] == [
        "broken-base", "base",
    ]  # fmt: skip
    assert [one["rule"] for one in told["ontologies"][0]["problems"]] == ["MIF-TYPE"]
    assert shell.json("ontology", "check", BASE)["ok"]


def test_warnings_are_errors_if_asked(shell: Shell) -> None:
    for name in ("broken-regex.yaml", "empty.json"):
        assert shell("ontology", "check", DATA / name) == 0
        assert shell("ontology", "check", DATA / name, "--strict") == BAD


def test_a_file_that_cannot_be_read_does_not_hide_the_others(shell: Shell, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_bytes(b"a: [")
    assert shell("ontology", "check", broken, BASE, "--json") == BAD
    first, second = json.loads(shell.out)["ontologies"]
    assert [one["rule"] for one in first["problems"]] == ["not_yaml"] and not second["problems"]
    assert shell("ontology", "check", tmp_path / "none.yaml") == USAGE
    assert shell("ontology", "check") == USAGE


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


GOOD = memory("workshop", {"entity_type": "concept", "name": "x"})
WRONG = memory("workshop", {"entity_type": "boat"})


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (GOOD, []),
        (WRONG, ["/entity/entity_type"]),
        ([GOOD, WRONG], ["/1/entity/entity_type"]),
        ({"@type": "MemoryCorpus", "records": [WRONG]}, ["/records/0/entity/entity_type"]),
        ([], [""]),
        ("nothing", [""]),
    ],
)
def test_memories_are_judged(
    shell: Shell, tmp_path: Path, documents: Any, expected: list[str]
) -> None:
    file = write(tmp_path / "memories.json", documents)
    code = shell("ontology", "check", SHOP, "--memories", file, "--json")
    assert code == (BAD if expected else 0)
    (report,) = json.loads(shell.out)["memories"]
    assert [one["pointer"] for one in report["problems"]] == expected


def test_far_ends_are_known_from_the_same_file(shell: Shell, tmp_path: Path) -> None:
    near = memory("workshop", {"entity_type": "repair", "name": "x"}, memoryType="procedural")
    near["relationships"] = [{"type": "implements", "target": "urn:mif:memory:far"}]
    far = {**GOOD, "@id": "urn:mif:memory:far"}
    file = write(tmp_path / "memories.json", [near, far])
    assert shell("ontology", "check", SHOP, "--memories", file) == BAD
    assert b"ENT-END" in shell.err


def test_directories_are_checked_file_by_file(shell: Shell, tmp_path: Path) -> None:
    shops, notes, empty = tmp_path / "shops", tmp_path / "notes", tmp_path / "empty"
    for folder in (shops / "more", notes / "sub", empty):
        folder.mkdir(parents=True)
    (shops / "more" / "shop.ontology.yaml").write_bytes(SHOP.read_bytes())
    (shops / "more" / "shop.ontology.jsonld").write_text('{"@type": "mif:Ontology"}')
    (shops / "readme.yaml").write_text("a: 1")
    near = memory("workshop", {"entity_type": "repair", "name": "x"}, memoryType="procedural")
    near["relationships"] = [{"type": "implements", "target": "urn:mif:memory:far"}]
    write(notes / "near.json", near)
    write(notes / "sub" / "far.json", {**GOOD, "@id": "urn:mif:memory:far"})
    # What a memory names may stand in another file.
    assert shell("ontology", "check", shops, "--memories", notes, "--json") == BAD
    said = json.loads(shell.out)
    assert [Path(one["file"]).name for one in said["ontologies"]] == ["shop.ontology.yaml"]
    first, second = said["memories"]
    assert (Path(first["file"]).name, Path(second["file"]).name) == ("near.json", "far.json")
    assert "ENT-END" in {one["rule"] for one in first["problems"]}
    assert second["problems"] == []
    for command in ((empty,), (SHOP, "--memories", empty)):
        assert shell("ontology", "check", *command) == UnsupportedError.exit_code


def test_show_says_where_each_field_is_from(shell: Shell) -> None:
    shown = shell.json("ontology", "show", GARDEN, "--with", BASE)
    (valve,) = [one for one in shown["entity_types"] if one["name"] == "valve"]
    assert valve["fields"]["day"]["trait"] == "dated"
    assert valve["fields"]["day"]["ontology"] == "base" and valve["fields"]["a"]["trait"] is None
    assert shown["extends"] == ["base"] and not shown["missing"]
    assert shell("ontology", "show", GARDEN, "--with", BASE) == 0
    assert b"type valve" in shell.out and b"day by dated" in shell.out


def test_show_refuses_what_is_no_good(shell: Shell) -> None:
    code, error = shell.error("ontology", "show", DATA / "broken-self.yaml")
    assert (code, error["rule"]) == (BAD, "ONT-SUBTYPE-SELF")
    assert shell.error("ontology", "show", DATA / "empty.json")[0] == UnsupportedError.exit_code


def test_suggest_names_the_pattern(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text("the lathe", "utf-8")
    told = shell.json("ontology", "suggest", file, "--ontology", SHOP)
    assert told["enabled"] and [one["entity"] for one in told["suggestions"]] == ["machine"]
    assert told["suggestions"][0]["pointer"] == "/discovery/patterns/0"
    named = ("--name", "shop/repairs/one.md")
    assert shell("ontology", "suggest", file, "--ontology", SHOP, *named) == 0
    assert b"repair in _runbooks/repairs (procedural)" in shell.out
    file.write_text("nothing", "utf-8")
    assert shell("ontology", "suggest", file, "--ontology", SHOP) == 0
    assert not shell.out and b"no pattern" in shell.err


def test_suggest_says_that_discovery_is_not_enabled(shell: Shell, tmp_path: Path) -> None:
    quiet = write(tmp_path / "quiet.json", {
        "ontology": {"id": "quiet", "version": "1.0.0"}, "entity_types": [],
        "discovery": {"patterns": [{"content_pattern": "x", "suggest_entity": "a"}]},
    })  # fmt: skip
    file = write(tmp_path / "x.json", "x")
    assert shell("ontology", "suggest", file, "--ontology", quiet) == 0
    assert not shell.out and b"not enabled" in shell.err
    assert shell("ontology", "suggest", file, "--ontology", quiet, "--all") == 0
    assert shell.out
