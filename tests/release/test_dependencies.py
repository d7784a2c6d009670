# SPDX-License-Identifier: Apache-2.0
"""No dependency without a reason, and none that is not locked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import support.frameworks
from support.markdown_page import table
from support.paths import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = ROOT / "docs" / "dependencies.md"


def toml(path: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / path).read_text("utf-8"))
    return found


PROJECT = toml("pyproject.toml")
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
#: What no user of omsgrain installs.
WORKERS = {"bench", "docs", "test"}
#: What a program that uses the framework has; the tests have environments for them.
FRAMEWORKS = {extra for extra, _ in support.frameworks.FRAMEWORKS.values()}
USED = EXTRAS.keys() - WORKERS - FRAMEWORKS - {"all"}
TOOLS: dict[str, list[str]] = PROJECT["dependency-groups"]


def names(requirements: list[str]) -> set[str]:
    return {str(canonicalize_name(Requirement(one).name)) for one in requirements}


def test_each_crate_has_its_reason() -> None:
    rows = table(PAGE, "crate", "of", "licence", "why", "touches")
    core, binding = toml("rust/core/Cargo.toml"), toml("rust/py/Cargo.toml")
    expected = {("core", name) for name in core["dependencies"]}
    expected |= {("binding", name) for name in binding["dependencies"] if "omsgrain" not in name}
    expected |= {
        ("build", name) for name in core["build-dependencies"] if name not in core["dependencies"]
    }
    assert sorted((row[1], row[0]) for row in rows) == sorted(expected)
    assert all(row[2] and row[3] for row in rows)


def test_licences_of_crates() -> None:
    told = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    packages = json.loads(told.stdout)["packages"]
    licences = {one["name"]: one["license"].replace("/", " OR ") for one in packages}
    for name, _, licence, *_ in table(PAGE, "crate", "of", "licence", "why", "touches"):
        assert licence == licences[name], name


def test_how_many_crates_there_are() -> None:
    locked = toml("Cargo.lock")["package"]
    own = [one for one in locked if "source" not in one]
    found = re.search(r"has (\d+) crates besides the two of omsgrain", PAGE.read_text("utf-8"))
    assert found is not None
    assert (int(found[1]), len(own)) == (len(locked) - len(own), 2)
    # From elsewhere than crates.io nothing is taken.
    assert {one["source"] for one in locked if "source" in one} == {
        "registry+https://github.com/rust-lang/crates.io-index"
    }


def test_each_package_has_its_reason() -> None:
    rows = table(PAGE, "package", "licence", "why", "touches")
    assert {row[0].lower() for row in rows} == names(PROJECT["project"]["dependencies"])
    rows += (used := table(PAGE, "package", "extra", "licence", "why", "touches"))
    assert {(row[1], row[0].lower()) for row in used} == {
        (extra, name) for extra in USED for name in names(EXTRAS[extra])
    }
    frameworks = table(PAGE, "framework", "extra", "licence", "why")
    assert {(row[1], row[0]) for row in frameworks} == {
        (extra, name) for extra in FRAMEWORKS for name in names(EXTRAS[extra])
    }
    workers = table(PAGE, "package", "extra", "licence", "why")
    of_users = {name for extra in USED for name in names(EXTRAS[extra])}
    of_workers = {(extra, name) for extra in WORKERS for name in names(EXTRAS[extra]) - of_users}
    of_workers |= {(group, name) for group, tools in TOOLS.items() for name in names(tools)}
    assert {(row[1], row[0].lower()) for row in workers} == of_workers
    assert all(all(row[:-1]) for row in rows) and all(all(row) for row in workers)


def test_all_extras_are_in_all() -> None:
    (everything,) = EXTRAS["all"]
    assert Requirement(everything).extras == USED
    others = EXTRAS.keys() - FRAMEWORKS - {"bench", "docs"}
    installed = {name for extra in others for name in names(EXTRAS[extra])}
    assert installed - {"omsgrain"} == names(EXTRAS["test"]), "tests need what users have"


def locked(path: str) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    text = (ROOT / path).read_text("utf-8")
    for line in re.findall(r"^[A-Za-z][^\\\n]+", text, re.MULTILINE):
        one = Requirement(line.strip())
        found.setdefault(str(canonicalize_name(one.name)), []).append(one)
    return found


@pytest.mark.parametrize("name", ["all", "test", *TOOLS])
def test_locks_keep_to_what_is_asked(name: str) -> None:
    """After a change to pyproject.toml: ``make lock``."""
    lock = locked(f"requirements/{name}.txt")
    base = [] if name in TOOLS else PROJECT["project"]["dependencies"]
    chosen = TOOLS[name] if name in TOOLS else EXTRAS[name]
    if name == "all":
        extras = Requirement(chosen[0]).extras
        chosen = [one for extra in sorted(extras) for one in EXTRAS[extra]]
    for asked in map(Requirement, [*base, *chosen]):
        pins = lock[str(canonicalize_name(asked.name))]
        for pin in pins:
            (version,) = (one.version for one in pin.specifier)
            assert asked.specifier.contains(version, prereleases=True), (str(asked), version)
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    assert text.count("--hash=sha256:") >= sum(map(len, lock.values()))
