# SPDX-License-Identifier: Apache-2.0
"""The modes of judging, wherever memories are read: lines, directories, imports, conversions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omsgrain import formats
from omsgrain.formats.mif_ld.directory import load_directory
from omsgrain.formats.mif_ld.validate import judge
from support.conversion_pairs import BUNDLE
from support.mif_ld_documents import CITATION, FULL, MINIMAL, MINIMAL_1X, spelled
from support.shell import USAGE, Shell, exit_code

LATER = MINIMAL | {"@id": "urn:mif:later", "created": "2027-01-01T00:00:00Z"}
DERIVED = MINIMAL | {"relationships": [
    {"@type": "Relationship", "relationshipType": "DerivedFrom", "target": {"@id": LATER["@id"]}}
]}  # fmt: skip
DERIVED_1X = MINIMAL_1X | {"relationships": [{"type": "supersedes", "target": LATER["@id"]}]}
R = "/relationships/0"
LINES = b"\n".join(map(spelled, (DERIVED, LATER, DERIVED_1X)))
CORPUS = {"@type": "MemoryCorpus", "records": [
    DERIVED, {"kind": "memory", "payload": LATER}, {"kind": "memory", "payload": DERIVED_1X}
]}  # fmt: skip
#: A citation without a title, one with an unknown role, and a good one.
BAD_CITATIONS = MINIMAL | {"citations": [
    {key: value for key, value in CITATION.items() if key != "title"},
    CITATION | {"citationRole": "proves"}, CITATION,
]}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (spelled([DERIVED, LATER, DERIVED_1X]), [(f"/0{R}", None), (f"/2{R}", None)]),
        (LINES, [(R, 1), (R, 3)]),
        (spelled(CORPUS), [(f"/records/0{R}", None), (f"/records/2/payload{R}", None)]),
    ],
)
def test_the_order_of_memories_is_checked_everywhere(
    shell: Shell, tmp_path: Path, data: bytes, expected: Any
) -> None:
    found = formats.load(data, mode="extra").warnings
    assert [(one.pointer, one.line) for one in found] == expected
    assert {one.rule for one in found} == {"MIF-ORDER"}
    assert formats.load(data).warnings == ()
    file = tmp_path / "memories"
    file.write_bytes(data)
    (said,) = shell.json("validate", file, "--mode", "extra")["files"]
    assert [(one["pointer"], one.get("line")) for one in said["warnings"]] == expected
    (document,) = shell.json("verify", file)["documents"]
    assert len(document["warnings"]) == len(expected)


def test_the_order_of_files_in_a_directory_is_checked(tmp_path: Path) -> None:
    (tmp_path / "a.jsonld").write_bytes(LINES.split(b"\n")[0])
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "later.jsonld").write_bytes(spelled([MINIMAL_1X, LATER]))
    found = load_directory(tmp_path, mode="extra")
    assert [one.pointer for one in found.warnings] == [f"/a.jsonld{R}"]


def test_every_defect_of_times_is_reported_once() -> None:
    early, late = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
    wrong = MINIMAL | {
        "modified": early,
        "compressedAt": early,
        "temporal": {
            "validFrom": late,
            "validUntil": early,
            "recordedAt": late,
            "lastAccessed": early,
            "ttl": "Pfoo",
            "decay": {"model": "exponential", "lastReinforced": early, "strength": 1,
                      "currentStrength": 1},
            "reinforcementHistory": [{"timestamp": late, "event": "a"},
                                     {"timestamp": early, "event": "b"}],
        },
    }  # fmt: skip
    told = [(one.rule, one.pointer) for one in judge(wrong, mode="extra").warnings]
    assert sorted(told) == sorted(set(told))
    t = "/temporal"
    assert set(told) == {
        ("MIF-ORDER", "/modified"), ("MIF-ORDER", "/compressedAt"),
        ("MIF-ORDER", f"{t}/validUntil"), ("MIF-ORDER", f"{t}/lastAccessed"),
        ("MIF-ORDER", f"{t}/decay/lastReinforced"),
        ("MIF-ORDER", f"{t}/reinforcementHistory/1"), ("MIF-DURATION", f"{t}/ttl"),
        ("MIF-DECAY", f"{t}/decay"), ("MIF-STRENGTH", f"{t}/decay/strength"),
    }  # fmt: skip


def test_mode_lenient_reports_what_it_skips() -> None:
    found = formats.load(spelled([BAD_CITATIONS]), mode="lenient")
    assert [(one.rule, one.pointer) for one in found.dropped] == [
        ("MIF-MISSING", "/0/citations/0")
    ]
    assert [(one.rule, one.pointer) for one in found.warnings] == [
        ("MIF-CITATION", "/0/citations/1/citationRole")
    ]
    assert found.problems == ()
    (memory,) = json.loads(formats.dump(found, format="mif-ld").data)
    assert judge(memory).ok
    assert [one["citationRole"] for one in memory["citations"]] == ["background", "supports"]


def test_a_citation_alone_is_mended_too() -> None:
    alone = CITATION | {"citationType": "memo", "relevance": 7}
    found = formats.load(spelled([alone]), mode="lenient")
    assert len(found.warnings) == 2
    (citation,) = json.loads(formats.dump(found, format="mif-ld").data)
    assert citation == CITATION | {"citationType": "other", "relevance": 1}


@pytest.mark.parametrize("mode", ["schema", "lenient", "extra"])
def test_arrays_in_arrays_are_no_crash(mode: Any) -> None:
    whole = [[BAD_CITATIONS], [[MINIMAL]], [FULL]]
    found = formats.load(spelled(whole), mode=mode)
    again = json.loads(formats.dump(found, format="mif-ld").data)
    assert again[-1] == [FULL]


def test_modes_on_the_command_line(shell: Shell, tmp_path: Path) -> None:
    file, store = tmp_path / "notes.jsonld", tmp_path / "m.omsg"
    file.write_bytes(spelled([BAD_CITATIONS, DERIVED_1X, LATER]))
    code, told = shell.refused("import", store, file, "--user", "ada", "--dry-run")
    assert code == exit_code("ERR_FORMAT")
    assert (told["memories_imported"], len(told["errors"])) == (2, 1)
    told = shell.json("import", store, file, "--user", "ada", "--mode", "lenient")
    assert (told["memories_imported"], told["errors"]) == (3, [])
    assert [one["rule"] for one in told["warnings"]] == ["MIF-CITATION", "MIF-MISSING"]
    code, told = shell.refused(
        "import", store, file, "--user", "ada", "--mode", "extra", "--dry-run"
    )
    assert code == exit_code("ERR_FORMAT")
    assert [one["rule"] for one in told["warnings"]] == ["MIF-ORDER", "document_kept_in_part"]
    target = tmp_path / "out.memory.json"
    told = shell.json("convert", file, target, "--mode", "lenient", "--layout", "array")
    assert [(one["record"], one["field"]) for one in told["losses"]] == [
        ("/0/citations/0", "citation")
    ]
    assert [one["rule"] for one in told["warnings"]] == ["MIF-CITATION"]
    assert len(json.loads(target.read_bytes())) == 3


def test_a_mode_is_of_no_use_for_other_formats(shell: Shell, tmp_path: Path) -> None:
    garden = BUNDLE.with_name("garden.mif.json")
    for file in (garden, BUNDLE):
        assert shell("import", tmp_path / "m", file, "--user", "a", "--mode", "extra") == USAGE
    code, error = shell.error("convert", garden, tmp_path / "x.mif.yaml", "--mode", "extra")
    assert (code != 0, error["field"]) == (True, "--mode")
