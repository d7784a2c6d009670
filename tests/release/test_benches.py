# SPDX-License-Identifier: Apache-2.0
"""What ``make bench`` makes of its samples; nothing is measured here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from benches import __main__ as bench
from benches import agree, child, growth, page, peer, reasons, report, scale, spawn
from benches.measure import Case, Plan, Row
from benches.rows import ROWS
from benches.scale import grow, points
from benches.spawn import Samples


def row(name: str = "X1", goal: float | Mapping[str, float] | None = 2.0, **more: Any) -> Row:
    def build(plan: Plan) -> Case:
        raise NotImplementedError

    return Row(name, "work", "peer", goal, build, **more)


def result(ours: float, peer: float, **more: Any) -> report.Result:
    return report.judge(row(**more), "standard", 0, Samples([ours], [peer], 1, 1))


ABOUT: dict[str, Any] = {
    "date": "2026-01-15",
    "machine": dict.fromkeys(
        ("cpu", "cores", "cpu_flags", "system", "architecture", "disk", "load"), "some"
    ),
    "versions": {"python": "3.11"},
    "sizes": {"standard": "20000 a batch"},
    "rounds": 6,
    "passes": 2,
}


def run_of(*results: report.Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.to_json(list(results), {}))
    return found


def test_a_lost_row_says_by_how_much_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "REASONS", {"X2": "It waits.", "X3 standard": "It copies."})
    rows = [
        result(1.0, 4.0),  # won
        result(2.0, 1.0, name="X2"),
        result(1.0, 1.5, name="X3"),
        result(3e6, 1e6, name="X4", kind="more", goal=1, unit="MB"),
        result(2.0, 1.0, name="X5", goal=None),  # not judged
    ]
    assert report.lost(rows) == [
        "- **X2 standard** (0.50x of 2x: the peer is faster, 4.0 times short of the goal). "
        "It waits.",
        "- **X3 standard** (1.50x of 2x: ours is faster, 1.3 times short of the goal). It copies.",
        "- **X4 standard** (+2.0 MB of +1 MB). No reason is noted yet.",
    ]


def test_a_row_of_queries_says_so() -> None:
    samples = Samples([20e-6], [20e-6], 20, 20)
    grains = report.line(report.judge(row(), "standard", 0, samples))
    queries = report.line(report.judge(row(of="queries"), "standard", 0, samples))
    assert (grains[2], queries[2]) == ("20 standard", "20 queries, standard")


def test_a_goal_can_depend_on_the_set() -> None:
    one = row(goal={"standard": 2.0, "events": 1.2}, threads=(0, 1))
    assert (one.goal_of("standard", 0), one.goal_of("events", 0)) == (2.0, 1.2)
    assert one.goal_of("sensors", 0) is None
    assert one.goal_of("standard", 1) is None, "the goal is for the first number of threads"
    assert row(goal=3.0).goal_of("events", 0) == 3.0


def test_a_limit_is_judged_by_our_own_time() -> None:
    limit = {"kind": "most", "goal": 2, "unit": "ms", "of": "queries"}
    won, lost = result(1.5e-3, 9e-3, **limit), result(2.5e-3, 1e-3, name="X2", **limit)
    assert (won.won, lost.won) == (True, False)
    assert report.line(won)[4:] == ["1.5 ms", "peer", "9 ms", "1.5 ms", "at most 2 ms", "won"]
    assert report.by_how_much(lost) == "2.5 ms of 2 ms"
    assert [one.goals for one in agree.compare([run_of(won)])] == [frozenset({True})]


def test_amounts_are_short() -> None:
    cells = [report.line(result(t * 1e-6, 1.0))[4] for t in (0.8812, 20.24, 999.4, 1_474, 2e6)]
    assert cells == ["0.881 us", "20.2 us", "999 us", "1.47 ms", "2000 ms"]


def test_rows_are_in_the_order_of_their_numbers() -> None:
    names = ["U1-wheel", "S10", "M2", "S2-threads", "S2", "F1", "E7", "C1"]
    assert sorted(names, key=report.order) == [
        "E7", "S2", "S2-threads", "S10", "C1", "F1", "M2", "U1-wheel",
    ]  # fmt: skip
    assert list(ROWS) == sorted(ROWS, key=report.order)


def test_each_row_is_of_one_area() -> None:
    areas = [title for name in ROWS for title in map(report.area, [name])]
    assert None not in areas
    assert {title for title, _ in report.AREAS} >= set(areas)


def test_the_page_begins_with_the_goals_by_area() -> None:
    results = [
        result(1.0, 4.0, name="E1"),
        result(1.0, 1.5, name="E2"),
        result(1.0, 9.0, name="S9"),
    ]
    text = report.to_markdown(results, ABOUT)
    assert "2 of 3 goals were reached" in text
    assert text.index("| encode, decode, hash | 1 of 2 | E2 standard |") < text.index(
        "## All rows"
    )
    assert "| .mg files | 1 of 1 | none |" in text


def test_a_row_without_its_peer_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(plan: Plan) -> Case:
        peer.module("no_such_peer")
        raise NotImplementedError

    there, gone = row("E1"), Row("E2", "encode", "no such peer", 2.0, build)
    monkeypatch.setattr(child, "ROWS", {"E2": gone})
    child.main("E2", "standard", "16", "1", str(tmp_path))
    assert json.loads(capsys.readouterr().out) == {"absent": "no_such_peer"}

    def run(name: str, *args: Any) -> Samples:
        if name == "E2":
            raise peer.Absent("no_such_peer")
        return Samples([1.0], [4.0], 1, 1)

    monkeypatch.setattr(spawn, "run", run)
    monkeypatch.setattr(bench, "ROWS", {"E1": there, "E2": gone})
    monkeypatch.setattr("sys.argv", ["benches", "--scale", "0.01", "--out", str(tmp_path)])
    assert bench.main() == 0, "it is no failure"
    assert "not there: no_such_peer is not installed" in (tmp_path / "RESULTS.md").read_text()
    kept = json.loads((tmp_path / "latest.json").read_text())
    assert [one["row"] for one in kept["results"]] == ["E1"]
    assert [one["absent"] for one in kept["missing"]] == ["no_such_peer"]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(peer.Absent, match="git"):
        peer.program("git")


def test_rows_that_nothing_measures_are_named() -> None:
    assert [name for name, _ in reasons.not_built(["E1"])] == ["S8"]
    assert [name for name, _ in reasons.not_built(["S8", "F1"])] == []


def test_runs_that_agree_and_one_that_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for n, seconds in enumerate((3.0, 2.5, 0.9)):
        files.append(tmp_path / f"{n}.json")
        files[n].write_text(json.dumps(run_of(result(1.0, seconds), result(1.0, 5.0, name="X2"))))
    assert agree.main(files[:2]) == 0
    assert "0 differ" in capsys.readouterr().out
    assert agree.main(files) == 1
    said = capsys.readouterr().out
    assert "who wins and the goal" in said
    assert "2 rows of 3 runs; 1 differ: X1" in said


def test_agreement() -> None:
    one, two = agree.compare([run_of(result(1.0, 1.7), result(1.0, 4.0, name="X2")),
                              run_of(result(1.0, 2.3), result(1.0, 5.0, name="X2"))])  # fmt: skip
    assert (set(one.winners), set(one.goals)) == ({"ours"}, {True, False})
    assert one.differs == "the goal"
    assert (two.differs, two.figures, two.spread) == ("", (4.0, 5.0), 0.25)


def test_figures_near_a_line_do_not_contradict_each_other() -> None:
    near_one, near_goal = agree.compare(
        [run_of(result(1.0, 0.95), result(1.0, 1.9, name="X2")),
         run_of(result(1.0, 1.2), result(1.0, 2.5, name="X2"))]
    )  # fmt: skip
    assert (near_one.differs, set(near_one.winners)) == ("", {"ours"})
    assert (near_goal.differs, set(near_goal.goals)) == ("", {True})


def test_samples_of_several_passes_are_one_sample() -> None:
    joined = Samples([1.0], [2.0], 10, 5).joined(Samples([3.0], [4.0], 10, 5))
    assert joined == Samples([1.0, 3.0], [2.0, 4.0], 10, 5)


def test_a_row_that_a_run_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    files[0].write_text(json.dumps(run_of(result(1.0, 3.0), result(1.0, 3.0, name="X2"))))
    files[1].write_text(json.dumps(run_of(result(1.0, 3.0))))
    assert agree.main(files) == 1
    assert "not in every run: X2" in capsys.readouterr().out


def test_sizes_at_which_a_store_is_looked_at() -> None:
    assert points(300_000, 100_000) == [100_000, 200_000, 300_000]
    assert points(10_000_000, 100_000)[:6] == [
        100_000, 200_000, 500_000, 1_000_000, 2_000_000, 3_000_000,
    ]  # fmt: skip
    assert points(10_000_000, 100_000)[-1] == 10_000_000
    assert points(50, 100) == [50]


def test_a_store_grows_stops_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = {name: {"open": 0.1, "query": 0.1} for name in ("cold", "warm")}
    monkeypatch.setattr(scale, "opened_in_child", lambda path: opened)
    monkeypatch.setattr(scale, "_upkeep", lambda *args: {"check": 1.0, "backup": 1.0})
    monkeypatch.setattr(scale, "ASKED", 20)
    out = tmp_path / "growth.json"
    grow(tmp_path, 5_000, 5_000, out)
    first = growth.load(out)
    assert [step["grains"] for step in first["steps"]] == [5_000]
    grow(tmp_path, 6_000, 5_000, out)
    found = growth.load(out)
    assert found["steps"][0] == first["steps"][0]
    assert [point["grains"] for point in found["points"]] == [5_000, 6_000]
    assert {"fresh", "flushed", "get", "cold", "warm", "check", "backup"} <= set(
        found["points"][1]
    )
    assert growth.peak(found) > growth.seconds_at_end(found) > 0
    for table in (growth.growth_table(found), growth.end_table(found)):
        assert len({line.count("|") for line in table.splitlines()}) == 1
    out.unlink()
    with pytest.raises(AssertionError, match="not the one of the figures"):
        grow(tmp_path, 7_000, 5_000, out)


@pytest.mark.parametrize(("size", "judged"), [(10_000_000, True), (300_000, False)])
def test_rows_of_growth_are_judged_at_ten_million(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, judged: bool
) -> None:
    monkeypatch.setattr(growth, "FILE", tmp_path / "growth.json")
    assert growth.rows() == ()
    steps = [
        {"grains": n, "count": 100_000, "seconds": s, "anonymous": 3e8}
        for n, s in ((100_000, 10.0), (size, 20.0))
    ]
    looks = [{"grains": n, "flushed": {"p95": p}} for n, p in ((100_000, 1e-3), (size, 1.25e-3))]
    found = {"date": "2026-01-15", "memory": "64MB", "steps": steps, "points": looks}
    growth.FILE.write_text(json.dumps(found))
    results = []
    for one in growth.rows():
        case = one.build(Plan("-", 1, 1, tmp_path))
        samples = Samples([case.ours()], [case.peer()], 1, 1)
        results.append(report.judge(one, "-", 0, samples))
    assert [r.row for r in results] == ["S8", "S8-query", "S8-memory"]
    expected = (0.5, 0.8, 300.0) if judged else (0.666666667, 0.8, 300.0)
    assert tuple(round(r.figure, 9) for r in results) == expected
    assert [r.won for r in results] == ([False, True, True] if judged else [None] * 3)
    assert "memory=64MB" in results[0].work


def test_tables_go_between_their_marks(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("a\n<!-- x -->\nold\n<!-- /x -->\nb\n")
    page.fill(file, {"x": page.table(("h", "i"), [("1\\g", "2")])})
    assert file.read_text() == (
        "a\n<!-- x -->\n| h | i |\n| --- | --- |\n| 1\\g | 2 |\n<!-- /x -->\nb\n"
    )
    with pytest.raises(ValueError, match="'y'"):
        page.fill(file, {"y": ""})


def test_the_pages_have_the_marks() -> None:
    for file, names in (
        (growth.PAGE, ("growth", "growth-about", "growth-end")),
        (growth.PAGE.with_name("small.md"),
         ("small-about", "small-start", "small-store", "small-budget", "small-core")),
        (growth.PAGE.with_name("bridge.md"), ("bridge", "bridge-about")),
    ):  # fmt: skip
        text = file.read_text("utf-8")
        assert all(
            text.count(f"<!-- {n} -->\n") == text.count(f"<!-- /{n} -->") == 1 for n in names
        )
