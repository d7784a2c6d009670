# SPDX-License-Identifier: Apache-2.0
"""``omsgrain validate``: files of every sort, what is said of them, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.conversion_pairs import BUNDLE
from support.mif_ld_examples import (
    CITATION,
    CORPUS,
    FULL,
    LOOSE_DECAY,
    MINIMAL,
    MINIMAL_1X,
    ONTOLOGY,
)
from support.shell import USAGE, Shell

BAD = MINIMAL | {"@id": "demo", "created": "2026-01-26", "memoryType": "fact"}
ONTOLOGY_YAML = """\
# of the garden
ontology: {id: garden-notes, version: 1.0.0}
entity_types:
  - {name: plant, base: semantic}
"""
MARKDOWN = """\
---
id: garden
type: semantic
created: 2026-03-01T08:00:00Z
---

The garden is watered in the evening.
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def file(name: str, content: Any) -> str:
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def lines(*documents: Any) -> str:
    return "".join(json.dumps(one) + "\n" for one in documents)


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (MINIMAL, 1), (FULL, 1), (MINIMAL_1X, 1), (CITATION, 1), (ONTOLOGY, 1), (CORPUS, 3),
        ([MINIMAL, MINIMAL_1X], 2), (lines(MINIMAL, MINIMAL_1X, CITATION), 3),
        (ONTOLOGY_YAML, 1), (MARKDOWN, 1),
    ],
)  # fmt: skip
def test_good_files_of_every_sort(shell: Shell, content: Any, count: int) -> None:
    said = shell.json("validate", file("x", content))
    (one,) = said["files"]
    assert (one["format"], one["documents"], one["total"]) == ("mif-ld", count, 0)


def test_an_error_says_where_and_what_and_how(shell: Shell) -> None:
    assert shell("validate", file("bad.json", BAD)) == 70
    said = shell.err.decode().splitlines()
    assert said[0] == (
        "bad.json:/@id: @id must match pattern \"^urn:mif:\" (got 'demo'). "
        "Use the urn:mif: prefix. [MIF-ID]"
    )
    assert [one.partition("[")[2] for one in said] == ["MIF-ID]", "MIF-DATE]", "MIF-TYPE]"]
    assert shell.out.decode().splitlines() == ["0 good, 1 bad"]


def test_errors_as_json(shell: Shell) -> None:
    assert shell("validate", file("bad.json", BAD), file("good.json", MINIMAL), "--json") == 70
    bad, good = json.loads(shell.out)["files"]
    assert bad["errors"][0] == {
        "code": "MIF-ID", "severity": "error", "pointer": "/@id", "found": "a string",
        "message": '@id must match pattern "^urn:mif:"', "hint": "Use the urn:mif: prefix.",
        "got": "'demo'",
    }  # fmt: skip
    assert (bad["total"], good["errors"], shell.err) == (3, [], b"")


@pytest.mark.parametrize(
    ("content", "code", "exit_code"),
    [
        ("hello\n", "MIF-KIND", 71), ("", "MIF-KIND", 71), (b"\xff\xfe\x00", "MIF-KIND", 71),
        ({}, "MIF-KIND", 70), ([], "MIF-KIND", 70), ({"hello": 1}, "MIF-KIND", 70),
        ('{"@id": "urn:mif:x", "@id": "urn:mif:y"}', "not_json", 70),
        ('{"@id": "urn:mif:x", "content": NaN}', "not_json", 70),
        ('{"@id": "urn:mif:x", "content"', "not_json", 70),
        ("\ufeff" * 2 + json.dumps(MINIMAL), "MIF-KIND", 71),
        ('{"@id": "urn:mif:x", "tags": ' + "[" * 10_000 + "]" * 10_000 + "}", "too_deep", 70),
        ("ontology: [\n", "not_yaml", 70),
    ],
)  # fmt: skip
def test_a_file_that_is_no_document_is_an_error(
    shell: Shell, content: Any, code: str, exit_code: int
) -> None:
    assert shell("validate", file("x", content), "--json") == exit_code
    (one,) = json.loads(shell.out)["files"]
    assert [error["code"] for error in one["errors"]] == [code]


def test_no_file_is_an_error(shell: Shell) -> None:
    assert shell("validate") == USAGE
    assert shell("validate", "there-is-none.json") == USAGE


def test_lines_and_places_in_arrays(shell: Shell) -> None:
    wrong = MINIMAL | {"content": ""}
    assert shell("validate", file("x", lines(MINIMAL, wrong) + "{\n"), "--json") == 70
    errors = json.loads(shell.out)["files"][0]["errors"]
    told = [(one["line"], one["code"], one["pointer"]) for one in errors]
    assert told == [(2, "MIF-EMPTY", "/content"), (3, "not_json", "")]
    assert shell("validate", file("y", [MINIMAL, wrong]), "--json") == 70
    assert json.loads(shell.out)["files"][0]["errors"][0]["pointer"] == "/1/content"


def test_modes(shell: Shell) -> None:
    local = MINIMAL | {"namespace": "_local/x", "citations": [CITATION | {"relevance": 2}]}
    name = file("x", local)
    assert shell("validate", name) == 70
    assert shell("validate", name, "--mode", "lenient") == 0
    assert b"warning: x:/citations/0/relevance" in shell.err
    assert shell("validate", name, "--mode", "extra", "--json") == 70
    (warning,) = json.loads(shell.out)["files"][0]["warnings"]
    assert (warning["code"], warning["severity"]) == ("MIF-LOCAL", "warning")
    lost = file("y", MINIMAL | {"citations": [CITATION | {"url": "x"}]})
    assert shell("validate", lost, "--mode", "lenient") == 70
    assert b"The citation is left out" in shell.err


def test_kind_and_shape_can_be_said(shell: Shell) -> None:
    assert shell("validate", file("x", {}), "--kind", "ontology") == 0
    assert shell("validate", file("x", MINIMAL), "--shape", "1.x") == 70
    assert b"is of shape 0.1, not 1.x" in shell.err
    assert shell("validate", file("x", LOOSE_DECAY)) == 70
    assert shell("validate", file("x", LOOSE_DECAY), "--published") == 0


def test_other_formats_are_judged_by_their_own_rules(shell: Shell) -> None:
    assert shell.json("validate", BUNDLE)["files"][0]["format"] == "aimem"
    assert shell("convert", BUNDLE, "x.mg") == 0
    assert shell.json("validate", "x.mg")["files"][0]["format"] == "mg"
    whole = json.loads(BUNDLE.read_bytes())
    whole["chunks"][0]["zone"] = "nowhere"
    assert shell("validate", file("bad.json", whole), "--json") == 70
    (one,) = json.loads(shell.out)["files"]
    assert one["format"] == "aimem"
    assert "invalid_zone" in {error["code"] for error in one["errors"]}


def test_active_characters_do_not_reach_the_terminal(shell: Shell) -> None:
    assert shell("validate", file("x", MINIMAL | {"created": "\x1b[31mred\x1b[0m"})) == 70
    assert b"\x1b" not in shell.err


def test_a_finding_is_one_line_for_any_name(shell: Shell) -> None:
    name = file("a\nb.jsonld: mif-ld, good", MINIMAL | {"tags": [5], "entity": {"name": {}}})
    assert shell("validate", name) != 0
    assert len(shell.err.splitlines()) == 2
    good = file("x\ny.jsonld", MINIMAL)
    assert shell("validate", good) == 0
    assert shell.out.splitlines() == [b"x\\ny.jsonld: mif-ld, good", b"1 good, 0 bad"]


def test_names_of_files_can_be_any_bytes(shell: Shell) -> None:
    Path("d").mkdir()
    Path("d", "a\udcff.memory.json").write_text(json.dumps(MINIMAL))
    Path("d", "b\udcff.md").write_text("---\nid: x\nid: y\n---\n")
    assert shell("validate", "d", "--json") != 0
    names = [one["name"] for one in json.loads(shell.out)["files"]]
    assert names == ["d/a\udcff.memory.json", "d/b\udcff.md"]
