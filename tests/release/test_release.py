# SPDX-License-Identifier: Apache-2.0
"""A release: notes, audit, and contents of the files."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import omsgrain as og
from release import audit, contents, notes, trial
from support.markdown_page import table
from support.paths import ROOT

CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-11-21

### Added

- More.

## [0.1.0] - 2026-01-15

- First.
"""


def test_the_version_is_in_one_place() -> None:
    version = notes.version_of((ROOT / "Cargo.toml").read_text("utf-8"))
    assert og.__version__ == version
    for manifest in (ROOT / "rust/core/Cargo.toml", ROOT / "rust/py/Cargo.toml"):
        assert "version.workspace = true" in manifest.read_text("utf-8")
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_a_section_of_the_changelog() -> None:
    assert notes.section(CHANGELOG, "0.2.0") == "### Added\n\n- More.\n"
    assert notes.section(CHANGELOG, "0.1.0") == "- First.\n"
    for version in ("0.1", "0.3.0", "Unreleased"):  # the last one is empty
        with pytest.raises(notes.NoNotes):
            notes.section(CHANGELOG, version)


def test_a_tag_is_that_of_the_version(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, "utf-8")
    manifest = tmp_path / "Cargo.toml"
    manifest.write_text('[workspace.package]\nversion = "0.2.0"\n', "utf-8")
    assert notes.notes(tmp_path, "v0.2.0") == notes.notes(tmp_path, None)
    for tag in ("v0.1.0", "0.2.0"):
        with pytest.raises(notes.NoNotes):
            notes.notes(tmp_path, tag)


def test_our_changelog_has_notes_for_what_comes_next() -> None:
    command = [sys.executable, "-m", "release.notes"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("### Format\n")
    refused = subprocess.run([*command, "v0.0.0"], cwd=ROOT, capture_output=True, check=False)
    assert refused.returncode == 1


def programs(**ends: audit.Ran) -> Callable[[Sequence[str]], audit.Ran]:
    """Programs by the words that name what they do; any other ends well and says nothing."""

    def run(command: Sequence[str]) -> audit.Ran:
        for words, end in ends.items():
            if set(words.split("_")) <= {Path(word).stem for word in command}:
                return end
        return audit.Ran(0, "", "")

    return run


def audited(*found: Mapping[str, object]) -> str:
    return json.dumps({"dependencies": list(found)})


CLEAN = {"name": "click", "version": "8", "vulns": []}
FLAWED = {"name": "x", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": []}]}
SKIPPED = {"name": "x", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("out", "code", "state"),
    [
        (audited(CLEAN), 0, "ok"),
        (audited(CLEAN, FLAWED), 1, "FOUND"),
        (audited(FLAWED, SKIPPED), 1, "FOUND"),
        (audited(CLEAN, SKIPPED), 0, "NOT LOOKED AT"),  # as where the list has other packages
        (audited(), 0, "NOT LOOKED AT"),
        (audited(CLEAN), 1, "NOT LOOKED AT"),
        ("", 1, "NOT LOOKED AT"),  # as without a network
        ("", None, "NOT LOOKED AT"),  # as where it is not installed
        ("[]", 0, "NOT LOOKED AT"),
    ],
)
def test_packages_are_never_well_unseen(out: str, code: int | None, state: str) -> None:
    looks = list(audit.packages(programs(audit=audit.Ran(code, out, "no route")), "audit"))
    assert {look.state for look in looks} == {state}
    assert len(looks) == len(audit.LOCKS) == 4


def test_crates_are_never_well_unseen() -> None:
    bad = audit.Ran(1, "", "why")
    for run, states in (
        (programs(), ["ok", "ok"]),
        (programs(deny=bad), ["NOT LOOKED AT"] * 2),  # not installed
        (programs(fetch=bad), ["ok", "NOT LOOKED AT"]),  # no network
        (programs(licenses=bad), ["FOUND", "ok"]),
        (programs(advisories=bad), ["ok", "FOUND"]),
    ):
        looks = list(audit.crates(run))
        assert [look.state for look in looks] == states


def test_every_lock_of_crates_is_looked_at() -> None:
    asked: list[str] = []

    def run(command: Sequence[str]) -> audit.Ran:
        asked.extend(word for word in command if word.endswith("Cargo.toml"))
        return audit.Ran(0, "", "")

    list(audit.crates(run))
    assert {Path(path).with_name("Cargo.lock") for path in asked} == {
        ROOT / "Cargo.lock",
        *ROOT.glob("rust/*/Cargo.lock"),
    }


def test_exit_codes_of_an_audit() -> None:
    ok, unseen, found = (audit.Look("x", state) for state in ("ok", "NOT LOOKED AT", "FOUND"))
    assert [audit.verdict(x) for x in ([ok], [ok, unseen], [unseen, found], [])] == [0, 3, 1, 3]


def test_known_flaws_have_a_reason() -> None:
    rows = table(ROOT / "docs" / "dependencies.md", "flaw", "in", "why not")
    assert [row[0] for row in rows] == list(audit.KNOWN)
    assert all(row[2] for row in rows)


TREE = {"python/omsgrain/a.py", "rust/core/src/lib.rs", "rust/fuzz/x.rs", "tests/t.py"}
INFO = "omsgrain-1.dist-info"
WHEEL = {
    "omsgrain/a.py",
    "omsgrain/_core.abi3.so",
    f"{INFO}/licenses/LICENSE",
    f"{INFO}/sboms/omsgrain-py.cyclonedx.json",
    f"{INFO}/entry_points.txt",
}
SDIST = contents.TOP | {"python/omsgrain/a.py", "rust/core/src/lib.rs"}


def test_what_is_in_a_wheel() -> None:
    assert list(contents.faults_of_wheel(WHEEL, TREE)) == []
    for name in WHEEL - {"omsgrain/_core.abi3.so"}:
        assert list(contents.faults_of_wheel(WHEEL - {name}, TREE)), name
    for junk in ("omsgrain/b.py", "tests/t.py", "omsgrain/x.so"):
        assert list(contents.faults_of_wheel(WHEEL | {junk}, TREE)), junk


def test_a_wheel_has_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "omsgrain-1-cp310-abi3-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name in sorted(WHEEL):
            wheel.writestr(name, b"0123456789")
    monkeypatch.setattr(contents, "CEILING", 10 * len(WHEEL))
    assert contents.look(path, TREE) == []
    monkeypatch.setattr(contents, "CEILING", 10 * len(WHEEL) - 1)
    assert len(contents.look(path, TREE)) == 1


def test_what_is_in_an_sdist() -> None:
    assert list(contents.faults_of_sdist(SDIST, TREE)) == []
    for name in SDIST:
        assert list(contents.faults_of_sdist(SDIST - {name}, TREE)), name
    for junk in (
        "tests/t.py",
        "rust/fuzz/x.rs",
        "python/omsgrain/_core.abi3.so",
        "demo.omsg/data.mdb",
    ):
        assert list(contents.faults_of_sdist(SDIST | {junk}, TREE)), junk


def test_a_wheel_is_tried_where_no_compiler_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cargo, at least, is on the PATH of the tests."""
    path = trial.without_compilers(tmp_path)
    assert [name for name in trial.COMPILERS if shutil.which(name)]
    assert not [name for name in trial.COMPILERS if shutil.which(name, path=path)]

    system = tmp_path / "System32"
    system.mkdir()
    compiler = system / ("cc.exe" if os.name == "nt" else "cc")
    compiler.write_text("")
    compiler.chmod(0o755)
    monkeypatch.setenv("SystemRoot", str(tmp_path))
    (tmp_path / "other").mkdir()
    with pytest.raises(SystemExit):
        trial.without_compilers(tmp_path / "other")


def test_what_an_installation_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "a.py").write_bytes(b"123")
    (tmp_path / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"12345")
    assert trial.taken(tmp_path) == (3, 8)

    monkeypatch.setattr(trial, "MEASURED", (platform.system(), platform.machine()))
    plain, compiled = trial.CEILINGS
    assert trial.too_large((plain, compiled)) == ""
    assert trial.too_large((plain + 1, compiled)) and trial.too_large((plain, compiled + 1))
    monkeypatch.setattr(trial, "MEASURED", ("Plan 9", "z80"))
    assert trial.too_large((plain + 1, compiled)) == ""


def test_ci_calls_targets_that_exist_and_pins_actions() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    plain = re.sub(r"install make.*|\$\{\{.*?\}\}", "", text)
    for call in re.findall(r"\bmake (.+?)(?: >.*)?$", plain, re.M):
        for word in call.split():
            is_target = not word.startswith("--") and "=" not in word
            assert not is_target or f"\n{word}:" in makefile, word
    for action in re.findall(r"uses: (.+)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action), action
    checkouts = re.findall(r"uses: actions/checkout@.*\n(.*\n.*)", text)
    assert all("persist-credentials: false" in after for after in checkouts)


def test_the_tasks_of_extras_import_what_is_there() -> None:
    texts = [
        verb.python[1]
        for verbs in trial.EXTRAS.values()
        for verb in verbs
        if verb.python[0] == "-c"
    ]
    assert texts
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("omsgrain"):
            found = importlib.import_module(str(node.module))
            assert all(hasattr(found, one.name) for one in node.names), ast.unparse(node)
        elif isinstance(node, ast.Import):
            names = [one.name for one in node.names if one.name.startswith("omsgrain")]
            assert all(importlib.util.find_spec(name) for name in names), ast.unparse(node)
