# SPDX-License-Identifier: Apache-2.0
"""Every rule of the formats is kept by this build, and docs/conformance.md says what was tried."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from omsgrain.conformance import report
from omsgrain.conformance.aimem import FAULTS, GOODS, TEXTS
from omsgrain.conformance.bench import Bench, MissingError
from omsgrain.conformance.rule import (
    FILES,
    KINDS,
    RULES,
    SPECS,
    Check,
    Rule,
    Spec,
    Tried,
    choose,
    run,
    table,
)
from omsgrain.conformance.steps import OPERATIONS
from omsgrain.errors import NotFoundError, RangeError, SchemaError, packages_of
from support.paths import ROOT
from support.shell import USAGE, Shell

PAGE = ROOT / "docs" / "conformance.md"
LEVELS = sorted({(rule.spec, rule.level) for rule in RULES})


@pytest.mark.parametrize(("spec", "level"), LEVELS)
def test_every_rule_is_kept_and_the_page_says_so(spec: Spec, level: int) -> None:
    verdicts = list(run([r for r in RULES if (r.spec, r.level) == (spec, level)]))
    assert [(one.rule.id, one.expected, one.found) for one in verdicts if not one.passed] == []
    page, made = PAGE.read_text(encoding="utf-8"), report.markdown(verdicts)
    intro, table = made[: made.index("\n| spec")], made[made.index("\n## ") :]
    row = next(line for line in made.splitlines() if line.startswith(f"| {SPECS[spec]} "))
    for part in (intro, row, table):  # of a page that is old: make docs
        assert part in page


def test_the_page_has_no_other_rules() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [rule.id for rule in RULES]


def test_rules_are_distinct_and_described() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids)) > 1_000
    assert all(rule.id.startswith(f"{rule.spec}.") and rule.section for rule in RULES)
    assert all(10 < len(rule.text) < 250 and rule.text[-1] != "." for rule in RULES)
    required = sum(rule.must for rule in RULES)
    assert required > 0.9 * len(RULES)
    assert {rule.level for rule in RULES if rule.spec in ("mif2", "mif1")} == {0}
    assert {rule.level for rule in RULES if rule.spec not in ("mif2", "mif1")} == {1, 2, 3}


def test_every_case_of_bundles_is_tried() -> None:
    for group, cases in (("refused", FAULTS), ("texts", TEXTS), ("accepted", GOODS)):
        tried = {name for entry in table("aimem")["rules"] for name in entry.get(group, ())}
        assert tried == {case["name"] for case in cases}


def test_the_package_carries_the_vectors_that_are_made() -> None:
    made = subprocess.run(
        [sys.executable, "-c", "import make, sys; sys.stdout.write(make.packed())"],
        cwd=ROOT / "test_vectors", capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    carried = ROOT / "python/omsgrain/conformance/rules/vectors.json.gz"
    assert made.stdout == gzip.decompress(carried.read_bytes()).decode()


def test_the_package_carries_the_rules_that_people_edit() -> None:
    """If this fails, run ``make docs``."""
    done = subprocess.run(
        [sys.executable, "conformance/pack.py", "--check"], cwd=ROOT, check=False
    )
    assert done.returncode == 0


FIRST = ["id", "level", "section", "required", "text"]


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_rules_has_no_odd_members(file: str) -> None:
    """A member that no function reads would be passed over in silence."""
    for entry in table(file).get("rules", ()):
        head = [name for name in entry if name in FIRST]
        assert list(entry)[: len(head)] == head == sorted(head, key=FIRST.index)
        assert ("kind" in entry) != ("run" in entry)
        assert entry.get("required", False) is False
        if "kind" not in entry:
            continue
        kind = entry["kind"]
        assert kind in KINDS
        assert set(entry) <= {*FIRST, "kind", *MEMBERS[kind]}, entry["id"]
        for case in entry.get("cases", ()):
            if isinstance(case, dict):
                assert set(case) <= CASES[kind], (entry["id"], case)
        for step in entry.get("steps", ()):
            assert len(step.keys() & OPERATIONS.keys()) == 1, (entry["id"], step)
            judges = step.keys() & {"is", "refused", "taken", "count", "contains", "at_most"}
            assert len(judges) == ("try" in step), (entry["id"], step)


CHANGE = {"set", "remove"}
MEMBERS = {
    "vectors": {"vectors"},
    "encode": {"grain", "cases"},
    "key": {"grain", "name", "short", "list", "needed"},
    "warnings": {"grain", "cases"},
    "policy": {"acts", "cases"},
    "document": {"document", "cases"},
    "node": {"document", "options", "cases"},
    "text": {"cases"},
    "round": {"document", "cases"},
    "kept": {"document", "cases"},
    "bundle": {"accepted", "refused", "texts", "cases"},
    "http": {"cases"},
    "steps": {"steps"},
}
CASES = {
    "encode": {"try", "fields", "refused"},
    "warnings": {"try", "fields", "warnings"},
    "policy": {"policy", "reason", "after_ms", "allowed"},
    "document": {*CHANGE, "finds"},
    "node": {*CHANGE, "finds"},
    "text": {"try", "text", "finds"},
    "round": {*CHANGE, "try", "document"},
    "kept": {*CHANGE, "document"},
    "bundle": {*CHANGE, "try", "refused"},
}

# the runner


def rules(check: Check) -> list[Rule]:
    return [Rule("oms.x", "1", "asks for something", check, True, "oms", 1)]


def test_outcomes_of_a_rule() -> None:
    def good(_: Bench) -> Iterator[Tried]:
        yield Tried("one", 1, 1)

    def bad(_: Bench) -> Iterator[Tried]:
        yield Tried("one", 1, 1)
        yield Tried("two", "x" * 200, "y")

    def kind(_: Bench) -> Iterator[Tried]:
        yield Tried("one", 1, 1.0)

    def breaks(_: Bench) -> Iterator[Tried]:
        yield Tried("one", 1, 1)
        raise RangeError("no")

    def missing(_: Bench) -> Iterator[Tried]:
        raise MissingError("omsgrain[x] is not installed")

    found = {
        check.__name__: next(run(rules(check))) for check in (good, bad, kind, breaks, missing)
    }
    assert {name: one.passed for name, one in found.items()} == {
        "good": True, "bad": False, "kind": False, "breaks": False, "missing": None,
    }  # fmt: skip
    assert found["bad"].tried == ("one", "two") and found["bad"].found == "y"
    assert found["bad"].expected is not None and len(found["bad"].expected) < 100
    assert "ERR_RANGE" in (found["breaks"].found or "")
    nothing = next(run(rules(lambda _: [])))
    assert (nothing.passed, nothing.found) == (False, "none")


def test_what_is_asked_for() -> None:
    assert len(choose(RULES)) == len(RULES)
    assert {rule.spec for rule in choose(RULES, spec="mif1")} == {"mif1"}
    assert {rule.level for rule in choose(RULES, spec="oms", level=2)} == {1, 2}
    assert [rule.id for rule in choose(RULES, ids=["oms.header.size"])] == ["oms.header.size"]
    assert len(choose(RULES, ids=["oms.header", "mif2.memory.id"])) > 10
    with pytest.raises(NotFoundError):
        choose(RULES, ids=["oms.head"])
    with pytest.raises(NotFoundError):
        choose(RULES, spec="mif1", ids=["oms.header.size"])
    with pytest.raises(SchemaError):
        choose(RULES, spec="omz")  # type: ignore[arg-type]


# the command


def test_the_command(shell: Shell, tmp_path: Path) -> None:
    call = ("conformance", "--rule", "oms.header", "--rule", "mif2.memory.id")
    assert shell(*call) == 0
    assert b"oms.header.version" in shell.out and b"0 failed, 0 left out" in shell.out
    assert shell(*call, "--format", "json", "--output", tmp_path / "r.json") == 0
    told = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert told == shell.json(*call)
    assert told["failed"] == 0 and told["rules"] == told["passed"] == len(told["results"])
    one = next(one for one in told["results"] if one["id"] == "oms.header.version")
    assert one["tried"] == ["version 0", "version 2"] and one["result"] == "passed"
    assert shell(*call, "--format", "markdown") == 0
    assert shell.out.startswith(b"<!-- Made by") and b"| `mif2.memory.id` | 2 |" in shell.out


def test_a_rule_that_fails(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omsgrain.formats.aimem.fields.is_tenant", lambda _: True)
    assert shell("conformance", "--rule", "aimem.envelope") == 1
    assert b"FAILED" in shell.out and b"1 failed" in shell.out
    monkeypatch.undo()
    assert shell("conformance", "--rule", "aimem.envelope") == 0


def test_vectors(shell: Shell, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "test_vectors" / "oms", tmp_path / "some" / "oms")
    call = ("conformance", "--vectors", tmp_path / "some")
    assert shell.json(*call) == {"vectors": 7, "agree": 7, "disagree": []}
    assert shell(*call) == 0 and b"7 agree, 0 disagree" in shell.out


@pytest.mark.parametrize("options", [
    ("--aimem-url", "http://x"), ("--erase",), ("--draft-only",), ("--admin-token", "t"),
    ("--vectors", ".", "--spec", "oms"), ("--vectors", ".", "--aimem-url", "http://x"),
    ("--aimem-url", "http://x", "--token", "t", "--rule", "oms"), ("--spec", "omz"),
    ("--json", "--format", "markdown"), ("--rule", "oms.header.size", "--output", "x"),
    ("--level", "4"), ("--token", "t"), ("--timeout", "5"), ("--vectors", ".", "--timeout", "5"),
])  # fmt: skip
def test_options_that_do_not_go_together(shell: Shell, options: tuple[str, ...]) -> None:
    assert shell("conformance", *options) == USAGE


def test_no_such_rule(shell: Shell) -> None:
    assert shell("conformance", "--rule", "oms.nothing") == NotFoundError.exit_code


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent: dict[str, tuple[str, Callable[[Bench], object]]] = {
        "server": ("omsgrain.server.app", lambda bench: bench.probe),
    }
    for extra, (module, need) in absent.items():
        monkeypatch.setitem(sys.modules, module, None)
        with closing(Bench(tmp_path)) as bench, pytest.raises(MissingError) as missing:
            need(bench)
        assert packages_of(extra) in str(missing.value)
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    (rule,) = (rule for rule in RULES if rule.id == "mif2.export.schema")
    with closing(Bench(tmp_path)) as bench, pytest.raises(MissingError) as missing:
        list(rule.check(bench))
    assert packages_of("formats") in str(missing.value)
