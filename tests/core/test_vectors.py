# SPDX-License-Identifier: Apache-2.0
"""The vectors: all agree, none has been changed, and the runner notices when one does not."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from omsgrain import errors, registry
from omsgrain.conformance.vectors import run_vector, run_vectors
from support.paths import ROOT

VECTORS = ROOT / "test_vectors"
OF_THE_FORMAT = {
    code
    for code, error in errors.BY_CODE.items()
    if issubclass(error, errors.BlobError | errors.SchemaError | errors.AddressError)
}


def load(name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return vector


def test_all_agree() -> None:
    outcomes = list(run_vectors(VECTORS))
    assert [outcome for outcome in outcomes if not outcome.agrees] == []
    ids = {outcome.id for outcome in outcomes}
    assert len(ids) == len(outcomes)
    expected = {outcome.expected for outcome in outcomes}
    assert OF_THE_FORMAT | {"ERR_DID", "ERR_KEY", "ERR_FORMAT"} <= expected
    for kind in registry.TYPES:
        for encoding in ("msgpack", "cbor"):
            assert any(f"-{kind.name}-{encoding}" in id for id in ids)


def test_they_are_what_the_oracle_gives() -> None:
    """Frozen, complete, and nothing beside what the sources give."""
    command = [sys.executable, str(VECTORS / "make.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", [
    ("address",), ("stages", "payload_hex"), ("stages", "header_hex"), ("stages", "blob_hex"),
    ("stages", "compacted", "s"), ("decoded", "subject"), ("input", "subject"), ("id",),
])  # fmt: skip
def test_a_changed_vector_disagrees(path: tuple[str, ...]) -> None:
    vector = load("oms/007-belief")
    assert run_vector(vector, vector["id"]).agrees
    changed = copy.deepcopy(vector)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    text = inner[path[-1]]
    inner[path[-1]] = ("0" if text[0] != "0" else "1") + text[1:]
    assert not run_vector(changed, vector["id"]).agrees


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("oms/007-belief", {"surprise": 1}), ("oms/007-belief", {"options": {"surprise": 1}}),
        ("oms/007-belief", {"expect_error": "ERR_SCHEMA"}), ("oms/007-belief", {"decoded": {}}),
        ("oms/007-belief", {"blob_hex": "00"}), ("oms/007-belief", {"stages": {}}),
        ("flags/030-compressed-raw", {"address": "0" * 64}),
        ("flags/030-compressed-raw", {"blob_hex": "xyz"}),
        ("refusals/read/004-version-0", {"expect_error": "ERR_CORRUPT"}),
        ("refusals/write/104-subject-empty", {"expect_error": "ERR_CORRUPT"}),
        ("refusals/write/301-not-json", {"input_json": "{}"}),
    ],
)  # fmt: skip
def test_a_wrong_vector_disagrees(name: str, changes: dict[str, Any]) -> None:
    assert not run_vector(load(name) | changes, name).agrees


def test_one_is_not_one_point_nought() -> None:
    vector = load("types/001-belief-msgpack")
    vector["decoded"]["success_count"] = float(vector["decoded"]["success_count"])
    assert not run_vector(vector, vector["id"]).agrees


@pytest.mark.parametrize("folder", ["oms", "refusals/read", "aimem", "mif-ld/told", "containers"])
def test_a_folder_of_them_is_run_alone(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(VECTORS / folder)
    outcomes = list(run_vectors(Path()))
    assert outcomes
    assert all(one.agrees and not one.id.startswith(folder) for one in outcomes)


def test_a_vector_under_another_name_disagrees(tmp_path: Path) -> None:
    (tmp_path / "oms").mkdir()
    for name in ("007-belief", "other"):
        text = (VECTORS / "oms" / "007-belief.json").read_text("utf-8")
        (tmp_path / "oms" / f"{name}.json").write_text(text, "utf-8")
    assert [(one.id, one.agrees) for one in run_vectors(tmp_path / "oms")] == [
        ("007-belief", True), ("other", False)
    ]  # fmt: skip


def test_a_directory_without_vectors(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError):
        list(run_vectors(tmp_path))
    (tmp_path / "x.json").write_text("{")
    (outcome,) = run_vectors(tmp_path)
    assert not outcome.agrees


FOREIGN = [
    b"[]",
    b"null",
    b'"bundle"',
    b"[" * 10_000,
    b"1" * 5_000,
    b'{"blob_hex": 1' + b"0" * 5_000 + b"}",
    b'{"input_json": 5, "expect_error": "ERR_SCHEMA", "id": "x"}',
    b'{"input_json": "{}", "expect_error": "ERR_SCHEMA", "id": "x", "options": {"fast": true}}',
    b'{"input": {"$bytes": {}}, "decoded": {}, "id": "x", "stages": {}, "address": ""}',
    b'{"bundle": "x", "problems": [null]}',
    b'{"bundle": "x", "problems": 5}',
    b'{"document": "x", "fault": 5}',
    b'{"document": "x", "warnings": [5]}',
    b'{"%s": 1}' % (b"x" * 20_000),
    b'{"expect_error": "%s"}' % (b"x" * 20_000),
]


@pytest.mark.parametrize("data", FOREIGN, ids=[one[:24].decode() for one in FOREIGN])
def test_a_file_that_is_no_vector_disagrees_in_short(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(data)
    (tmp_path / "folder.json").mkdir()
    (outcome,) = run_vectors(tmp_path)
    assert not outcome.agrees
    assert len(outcome.expected) + len(outcome.problem or "") <= 1_200


@pytest.mark.parametrize(
    "folder",
    [
        "oms",
        "aimem/good",
        "aimem/good-lines",
        "mif2/good",
        "mif1/bad",
        "containers",
        "streams",
        "signatures",
        "sealed",
        "disclosures",
    ],
)
def test_any_vector_has_an_outcome(folder: str) -> None:
    found = sorted((VECTORS / folder).glob("*.json"))[0]
    vector = json.loads(found.read_bytes())
    for key in vector:
        odds: tuple[Any, ...] = (None, 5, [], {}, [None], {"x": []}, "\ud800")
        for odd in odds:
            outcome = run_vector(vector | {key: odd}, str(vector["id"]))
            assert len(outcome.expected) + len(outcome.problem or "") <= 1_200


AROUND = [
    path
    for folder in ("containers", "streams", "signatures", "sealed", "disclosures")
    for path in sorted((VECTORS / folder).glob("*.json"))
]


def test_there_are_vectors_of_every_kind_of_bytes_around_grains() -> None:
    found = [json.loads(path.read_text("utf-8")) for path in AROUND]
    kinds = {"container", "stream", "envelope", "detached", "sealed", "disclosure"}
    assert {one["kind"] for one in found} == kinds
    assert {one["codec"] for one in found if "codec" in one} == {0, 1, 2}
    assert any(one.get("manifest") for one in found)
    assert any("wrong" in one for one in found)


@pytest.mark.parametrize("path", AROUND, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_changed_vector_of_bytes_disagrees(path: Path) -> None:
    vector = json.loads(path.read_text("utf-8"))
    assert run_vector(vector, vector["id"]).agrees
    for key, value in vector.items():
        if key in ("kind", "id", "description", "made_by", "checked_by"):
            continue
        if isinstance(value, str):
            changed: Any = value[:-2] + f"{int(value[-2:], 16) ^ 1:02x}" if _is_hex(value) else "x"
        elif isinstance(value, list | dict):
            changed = [*value, "x"] if isinstance(value, list) else value | {"x": "x"}
        else:
            changed = 7
        if key in ("hide", "original_hex") or (
            key in ("file_hex", "view_hex") and "wrong" in vector
        ):
            continue  # other bytes may be broken in the same place
        assert not run_vector(vector | {key: changed}, vector["id"]).agrees, key


def _is_hex(text: str) -> bool:
    return len(text) > 1 and all(digit in "0123456789abcdef" for digit in text)
