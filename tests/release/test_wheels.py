# SPDX-License-Identifier: Apache-2.0
"""Wheels for other machines: how each is built and checked; CI builds those that docs list."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from release.audit import Ran, Run, verdict

from release import trial, wheels
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs" / "how-to" / "install.md"
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
TARGET = "aarch64-unknown-linux-gnu"
TAG = wheels.TARGETS[TARGET]
TREE = {"python/omsgrain/a.py"}
INFO = "omsgrain-1.dist-info"
FILES = (
    "omsgrain/a.py",
    "omsgrain/_core.abi3.so",
    f"{INFO}/licenses/LICENSE",
    f"{INFO}/sboms/omsgrain-py.cyclonedx.json",
    f"{INFO}/entry_points.txt",
)
MUSL = "aarch64-unknown-linux-musl"


def shown(tag: str, *libraries: str) -> Ran:
    return Ran(0, json.dumps({"sym_tag": tag, "external_libs": dict.fromkeys(libraries)}), "")


def audited(**changes: object) -> Ran:
    result: dict[str, object] = {"is_abi3": True, "is_abi3_baseline_compatible": True}
    result |= {"baseline": "3.10", "computed": "3.10"} | changes
    return Ran(0, json.dumps({"specs": {"x": {"wheel": [{"result": result}]}}}), "")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Programs of a Linux machine that has the library of one target; maturin writes a wheel."""
    monkeypatch.setattr("platform.system", lambda: "Linux")
    library = tmp_path / "sysroot" / "lib" / "rustlib" / TARGET / "lib"
    library.mkdir(parents=True)

    def with_ends(files: Sequence[str] = FILES, **ends: Ran) -> Run:
        def run(command: Sequence[str]) -> Ran:
            if command[0] == "rustc":
                return Ran(0, f"{library.parents[3]}\n", "")
            if command[0] == "maturin" and "maturin" not in ends:
                out = Path(command[command.index("--out") + 1])
                with zipfile.ZipFile(out / f"omsgrain-1-cp310-abi3-{TAG}.whl", "w") as wheel:
                    for name in files:
                        wheel.writestr(name, b"")
            usual = {"auditwheel": shown(TAG), "abi3audit": audited(), "maturin": Ran(0, "", "")}
            return (usual | ends)[command[0]]

        return run

    return with_ends


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ({}, "ok"),
        ({"auditwheel": shown("manylinux_2_5_aarch64")}, "ok"),
        ({"auditwheel": shown("manylinux_2_34_aarch64")}, "FOUND"),
        ({"auditwheel": shown("manylinux_2_17_x86_64")}, "FOUND"),
        ({"auditwheel": shown("linux_aarch64")}, "FOUND"),
        ({"auditwheel": shown(TAG, "libz.so.1")}, "FOUND"),
        ({"auditwheel": shown(TAG, "libc.so")}, "FOUND"),
        ({"auditwheel": Ran(1, "", "not a wheel")}, "FOUND"),
        ({"auditwheel": Ran(0, "{}", "")}, "FOUND"),
        ({"auditwheel": Ran(None, "", "not found")}, "FOUND"),
        ({"abi3audit": audited(is_abi3=False)}, "FOUND"),
        ({"abi3audit": audited(is_abi3_baseline_compatible=False)}, "FOUND"),
        ({"abi3audit": Ran(1, audited().out, "")}, "FOUND"),
        ({"abi3audit": Ran(0, '{"specs": {}}', "")}, "FOUND"),
        ({"abi3audit": Ran(None, "", "not found")}, "FOUND"),
        ({"maturin": Ran(1, "", "no linker")}, "FOUND"),
        ({"files": (*FILES, "tests/t.py")}, "FOUND"),
    ],
)
def test_a_wheel_is_judged(
    programs: Callable[..., Run], tmp_path: Path, ends: dict[str, Any], state: str
) -> None:
    (look,) = wheels.looks(programs(**ends), tmp_path, TREE, [TARGET])
    assert (look.state, bool(look.said)) == (state, True)


def test_a_wheel_for_musl_needs_nothing_but_its_libc(programs: Callable[..., Run]) -> None:
    tag = wheels.TARGETS[MUSL]
    for libraries, is_well in ((["libc.so"], True), (["libc.so", "libgcc_s.so.1"], False)):
        run = programs(auditwheel=shown(tag, *libraries))
        assert (not list(wheels.faults(run, Path("x.whl"), tag))) is is_well


def test_an_old_wheel_does_not_pass_for_a_new_one(
    programs: Callable[..., Run], tmp_path: Path
) -> None:
    (look,) = wheels.looks(programs(), tmp_path, TREE, [TARGET])
    assert look.state == "ok"
    failing = programs(maturin=Ran(0, "", ""))
    (look,) = wheels.looks(failing, tmp_path, TREE, [TARGET])
    assert (look.state, list(tmp_path.glob("*.whl"))) == ("FOUND", [])


def test_what_cannot_be_built_here_is_named(programs: Callable[..., Run], tmp_path: Path) -> None:
    looks = list(wheels.looks(programs(), tmp_path, TREE, tuple(wheels.TARGETS)))
    states = dict(zip(wheels.TARGETS, (look.state for look in looks), strict=True))
    assert states.pop(TARGET) == "ok"
    assert set(states.values()) == {"NOT LOOKED AT"}
    assert verdict(looks) == 3


@pytest.mark.parametrize(
    ("host", "builds"),
    [
        ("Linux", {"Linux", "Darwin"}),
        ("Darwin", {"Darwin"}),
        ("Windows", {"Windows"}),
    ],
)
def test_what_a_system_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, builds: set[str]
) -> None:
    monkeypatch.setattr("platform.system", lambda: host)
    monkeypatch.setattr(wheels, "has_library", lambda run, target: True)

    def run(command: Sequence[str]) -> Ran:
        assert ("--zig" in command) is (host == "Linux")
        return Ran(1, "", "no linker")

    looks = wheels.looks(run, tmp_path, TREE, tuple(wheels.TARGETS))
    for target, look in zip(wheels.TARGETS, looks, strict=True):
        is_built = wheels.system_of(target) in builds
        assert look.state == ("FOUND" if is_built else "NOT LOOKED AT")


def test_a_target_has_its_tag() -> None:
    for target, tag in wheels.TARGETS.items():
        command = wheels.command_of(target, Path("dist"))
        is_linux = wheels.system_of(target) == "Linux"
        assert ("--compatibility" in command) is is_linux is ("linux_" in tag)
        if is_linux:
            assert tag.startswith(f"{command[-1]}_")
        assert ("musl" in target) is tag.startswith("musllinux_")
        assert target.partition("-")[0].replace("armv7", "armv7l") in tag.replace(
            "arm64", "aarch64"
        ).replace("amd64", "x86_64")
    assert not wheels.fits("manylinux_2_17_x86_64", "manylinux_2_17_aarch64")
    assert not wheels.fits("linux_x86_64", "manylinux_2_17_x86_64")


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(  # "on" is a key here, and no truth value
        WORKFLOW.read_text("utf-8"), yaml.BaseLoader
    )["jobs"]
    return found


def matrix(job: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = jobs()[job]["strategy"]["matrix"]["include"]
    return found


def test_ci_builds_every_target_once_and_releases_them() -> None:
    assert [row["target"] for row in matrix("wheels")] == list(wheels.TARGETS)
    runners = {"Linux": "ubuntu-", "Darwin": "macos-", "Windows": "windows-"}
    for row in matrix("wheels"):
        assert row["on"].startswith(runners[wheels.system_of(row["target"])])
    steps = jobs()["wheels"]["steps"]
    calls = [step["run"] for step in steps if "make wheels" in step.get("run", "")]
    assert len(calls) == 1 and calls[0].endswith("TARGETS=${{ matrix.target }}")
    assert {"wheels", "emulated", "trial", "sdist"} <= set(jobs()["release"]["needs"])


def test_ci_runs_what_it_can_of_other_machines() -> None:
    docker = {"x86_64": "linux/amd64", "aarch64": "linux/arm64", "armv7": "linux/arm/v7"}
    for row in matrix("emulated"):
        tag = wheels.TARGETS[row["target"]]
        assert row["platform"] == docker[row["target"].partition("-")[0]]
        assert ("musl" in tag) is row["image"].endswith("-alpine")
        assert ("before" in row) is any(part in tag for part in trial.COMPILED)


def test_the_page_lists_every_wheel() -> None:
    rows = table(PAGE, "wheel", "for", "packages without a wheel", "built", "run")
    assert [re.sub("`", "", row[0]) for row in rows] == list(wheels.TARGETS.values())
    for tag, _, without, built, ran in rows:
        assert built and ran
        assert bool(without) is any(part in tag for part in (*trial.COMPILED, "macosx_10_12"))
