# SPDX-License-Identifier: Apache-2.0
"""From samples to results, and from results to JSON and a page in Markdown."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benches import reasons
from benches.measure import ALL_CORES, UNITS, Row
from benches.page import table
from benches.spawn import Samples


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table.

    Attributes:
        row: the row's name.
        work: what was done.
        set: on which grains.
        threads: size of the thread pool; 0: as many as there are cores.
        against: the peer.
        unit: of ours and peer.
        ours: median, per one of ``of``.
        peer: the same of the peer.
        figure: ratio peer / ours, what ours takes more, or what it takes; by ``kind``.
        kind: ``ratio``, ``more`` or ``most``.
        goal: what the figure should be; None: shown for comparison only.
        won: the goal is reached.
        items: how many of them a sample has.
        peer_items: the same of the peer.
        of: ``grains`` or ``queries``.
        samples: all samples, in seconds or bytes.
    """

    row: str
    work: str
    set: str
    threads: int
    against: str
    unit: str
    ours: float
    peer: float
    figure: float
    kind: str
    goal: float | None
    won: bool | None
    items: int
    peer_items: int
    of: str
    samples: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Missing:
    """A line of the table whose peer is not installed.

    Attributes:
        row: the row's name.
        work: what was to be done.
        set: on which grains.
        threads: as in ``Result``.
        against: the peer.
        absent: what is not installed.
    """

    row: str
    work: str
    set: str
    threads: int
    against: str
    absent: str


AREAS = (
    ("encode, decode, hash", ("E",)),
    ("write to a store", ("S1", "S2", "S3")),
    ("read by address or by fields", ("S4", "S5")),
    ("search and recall", ("S6", "M2")),
    ("size and growth of a store", ("S7", "S8")),
    (".mg files", ("S9",)),
    ("check, expiry, erasure", ("S10", "S11")),
    ("signatures and encryption", ("C",)),
    ("documents of other formats", ("F",)),
    ("tables for analysis", ("A",)),
    ("sync", ("M1",)),
    ("install and start", ("U",)),
)
"""The areas of the page's first table, with their rows by letter or by number."""

_NAME = re.compile(r"([A-Z]+)(\d*)(.*)")
_LETTERS = "ESCFMAU"


def order(row: str) -> tuple[int, int, str]:
    """Where a row is in the table: S2 is before S10."""
    found = _NAME.fullmatch(row)
    if found is None:
        raise ValueError(f"not a name of a row: {row!r}")
    letter, number, rest = found.groups()
    at = _LETTERS.find(letter)
    return (at if at >= 0 else len(_LETTERS), int(number or 0), rest)


def judge(row: Row, set: str, threads: int, samples: Samples) -> Result:
    """Compare the medians."""
    unit = UNITS[row.unit]
    ours = statistics.median(samples.ours) / (unit * samples.items)
    peer = statistics.median(samples.peer) / (unit * samples.peer_items)
    ratio = row.kind == "ratio"
    figure = peer / ours if ratio else ours - peer if row.kind == "more" else ours
    goal = row.goal_of(set, threads)
    won = None if goal is None else (figure >= goal if ratio else figure <= goal)
    return Result(
        row=row.id,
        work=row.work,
        set=set,
        threads=threads,
        against=row.peer,
        unit=row.unit,
        ours=ours,
        peer=peer,
        figure=figure,
        kind=row.kind,
        goal=goal,
        won=won,
        items=samples.items,
        peer_items=samples.peer_items,
        of=row.of,
        samples={"ours": samples.ours, "peer": samples.peer},
    )


def to_json(results: list[Result], about: dict[str, Any], missing: Sequence[Missing] = ()) -> str:
    """Everything, for later runs to compare with."""
    lines = {"results": [asdict(r) for r in results], "missing": [asdict(m) for m in missing]}
    return json.dumps({**about, **lines}, indent=1) + "\n"


def line(result: Result) -> list[str]:
    """The cells of a result."""
    r = result
    each = r.set if r.of == "grains" else r.of if r.set == "-" else f"{r.of}, {r.set}"
    return [
        r.row,
        r.work,
        r.set if r.items == 1 else f"{r.items:,} {each}",
        _threads(r.threads),
        _amount(r.ours, r.unit),
        r.against,
        _amount(r.peer, r.unit),
        _figure(r),
        _goal(r),
        {None: "", True: "won", False: "**lost**"}[r.won],
    ]


def line_of_missing(missing: Missing) -> list[str]:
    """The cells of a row that was not measured."""
    m = missing
    absent = f"not there: {m.absent} is not installed"
    return [m.row, m.work, m.set, _threads(m.threads), "", m.against, absent, "", "", ""]


def _threads(threads: int) -> str:
    return "all" if threads == ALL_CORES else str(threads)


def _amount(value: float, unit: str) -> str:
    """Three digits; long times in milliseconds."""
    if unit == "us" and value >= 1_000:
        value, unit = value / 1_000, "ms"
    return f"{value:.3g} {unit}" if abs(value) < 999.5 else f"{value:.0f} {unit}"


def _figure(r: Result) -> str:
    if r.kind == "ratio":
        return f"{r.figure:.2f}x"
    return f"{r.figure:+.1f} {r.unit}" if r.kind == "more" else _amount(r.figure, r.unit)


def _goal(r: Result) -> str:
    if r.goal is None:
        return ""
    if r.kind == "ratio":
        return f"{r.goal:.3g}x"
    return f"at most {r.goal:{'+g' if r.kind == 'more' else 'g'}} {r.unit}"


HEADS = ("#", "work", "a sample", "threads", "ours", "against", "peer", "figure", "goal", "")


def by_how_much(r: Result) -> str:
    """How far a lost row is from its goal, and who is faster."""
    assert r.goal is not None
    if r.kind == "more":
        return f"{r.figure:+.1f} {r.unit} of {r.goal:+g} {r.unit}"
    if r.kind == "most":
        return f"{_amount(r.figure, r.unit)} of {r.goal:g} {r.unit}"
    faster = "ours is smaller" if r.unit in ("B", "MB") else "ours is faster"
    other = "the peer's is smaller" if r.unit in ("B", "MB") else "the peer is faster"
    who = faster if r.figure >= 1 else other
    return (
        f"{r.figure:.2f}x of {r.goal:.3g}x: {who}, {r.goal / r.figure:.1f} times short of the goal"
    )


def lost(results: list[Result]) -> list[str]:
    """One item a lost row: by how much, and why."""
    items = []
    for r in results:
        if r.won is False:
            why = reasons.of(r.row, r.set) or "No reason is noted yet."
            items.append(f"- **{_name(r)}** ({by_how_much(r)}). {why}")
    return items


def _name(r: Result) -> str:
    return r.row if r.set == "-" else f"{r.row} {r.set}"


def areas(results: list[Result]) -> list[str]:
    """The table of the goals by area: how many were reached, and which were missed."""
    cells = []
    for title, _ in AREAS:
        judged = [r for r in results if r.won is not None and area(r.row) == title]
        if judged:
            won = sum(bool(r.won) for r in judged)
            missed = ", ".join(_name(r) for r in judged if not r.won)
            cells.append((title, f"{won} of {len(judged)}", missed or "none"))
    return table(("area", "goals reached", "missed"), cells).split("\n")


def area(row: str) -> str | None:
    """The area of a row, or None."""
    number = row.split("-")[0]
    names = {number, number.rstrip("0123456789")}
    return next((title for title, rows in AREAS if names.intersection(rows)), None)


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []


def to_markdown(
    results: list[Result], about: dict[str, Any], missing: Sequence[Missing] = ()
) -> str:
    """The page: the goals by area, all rows, why rows are lost, and what was measured on what."""
    judged = [r for r in results if r.won is not None]
    slower = sum(r.kind == "ratio" and r.figure < 1 for r in judged)
    won = sum(bool(r.won) for r in judged)
    lines = [(order(r.row), line(r)) for r in results]
    lines += [(order(m.row), line_of_missing(m)) for m in missing]
    rows = [cells for _, cells in sorted(lines, key=lambda one: one[0])]
    waiting = [f"- **{name}**: {work}" for name, work in reasons.not_built(r.row for r in results)]
    return "\n".join(
        [
            "# Measured against peers",
            "",
            f"`make bench` wrote this on {about['date']}. {won} of {len(judged)} goals "
            f"were reached. Rows with a goal in which the peer was faster: {slower}.",
            *_section("Goals by area", areas(results)),
            *_section("How it was measured", _conditions(about)),
            *_section("All rows", table(HEADS, rows).split("\n")),
            *_section("Lost, by how much, and why", lost(results)),
            *_section("Not measured yet", waiting),
            "",
        ]
    )


def _conditions(about: dict[str, Any]) -> list[str]:
    machine, versions, sizes = about["machine"], about["versions"], about["sizes"]
    return [
        f"- Machine: {machine['cpu']}, {machine['cores']} cores ({machine['cpu_flags']}), "
        f"{machine['system']}, {machine['architecture']}, stores on {machine['disk']}; "
        f"load at the start {machine['load']}.",
        "- Versions: " + ", ".join(f"{name} {v}" for name, v in versions.items()) + ".",
        "- Grains: " + "; ".join(f"{name}: {size}" for name, size in sizes.items()) + ".",
        f"- Samples: ours and the peer took turns, {about['rounds']} times each (passes over all "
        f"rows: {about['passes']}). The times are medians, per grain, or per query where the "
        "sample is queries. The results were checked before the clock ran.",
        "- Figures: a ratio is the peer's time over ours, in S7 its size; above 1 we are faster, "
        "or smaller. A figure with a sign is what ours takes more than the peer; one with a unit "
        "alone is what ours takes. A row without a goal is there for comparison.",
        "- Peers: those that pack get dicts with short keys. SQLite, RocksDB, LMDB and git get "
        "blobs and addresses that are computed already.",
    ]
