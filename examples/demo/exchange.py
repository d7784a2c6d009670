# SPDX-License-Identifier: Apache-2.0
"""Query the store, export it to a file, and import the file into a second store."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from story import Story, refusal, since

import omsgrain as og
from omsgrain import Grain, GrainStore, container
from omsgrain.cli.query import plan_text, table

RUN = "mission-7"
LAST_DAYS = 1_451_376_000_000  # 2015-12-29T08:00Z, when a local day begins
PAGE = 5


@dataclass(frozen=True, slots=True)
class Question:
    """A question as text, as filters, and as a test for each grain."""

    words: str
    filters: dict[str, Any]
    holds: Callable[[Grain], bool]


QUESTIONS = (
    Question(
        "What was measured in Seattle in the last three days of 2015?",
        {"subject": "Seattle", "relation": "mg:perceives", "created_after": LAST_DAYS + 1},
        lambda grain: grain.get("subject") == "Seattle" and grain["created_at"] > LAST_DAYS,
    ),
    Question(
        "What does the robot believe of gauge g2?",
        {"type": "belief", "subject": "gauge g2"},
        lambda grain: grain.type == "belief" and grain["subject"] == "gauge g2",
    ),
    Question(
        "What happened on the mission?",
        {"run_id": RUN},
        lambda grain: grain.get("run_id") == RUN,
    ),
)


def tell_exchange(story: Story, directory: Path, beside: Path) -> None:
    """Query, export and import the store in a directory; new files go beside it."""
    file, other = beside / "memory.mg", beside / "other.omsg"
    with og.open(directory, readonly=True) as store:
        _ask(story, store)
        _export(story, store, file)
        _flip(story, file, beside / "flipped.mg", other)
        _import_file(story, store, file, other)
        _upkeep(story, store, beside / "backup.omsg")


def _addresses(store: GrainStore) -> list[str]:
    return [change.address for change in store.changes()]


def _answers(store: GrainStore, **more: Any) -> list[str]:
    """Return the addresses of all results, in their order."""
    pages = [store.query(**q.filters, limit=1_000, **more) for q in QUESTIONS]
    return [hit.address for page in pages for hit in page.results]


def _ask(story: Story, store: GrainStore) -> None:
    story.step("Ask")
    grains = list(store)
    right = []
    for question in QUESTIONS:
        page = store.query(**question.filters, limit=PAGE, count=True, explain=True)
        assert page.plan is not None  # count=True gives a total
        story.say(f"{question.words} {page.total} grains; {plan_text(page.plan)}")
        if not story.quiet:
            story.console.table(table(page))
        right.append(page.total == sum(map(question.holds, grains)))
    story.check("each answer equals a scan of all grains", all(right))

    seen: list[str] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = store.query(run_id=RUN, limit=PAGE, cursor=cursor)
        seen += [hit.address for hit in page.results]
        cursor, pages = page.next_cursor, pages + 1
    mission = [grain for grain in grains if grain.get("run_id") == RUN]
    mission.sort(key=lambda grain: (-grain["created_at"], grain.address))
    story.check(
        f"{pages} pages return each grain of the mission once, newest first",
        seen == [grain.address for grain in mission],
    )


def _export(story: Story, store: GrainStore, file: Path) -> None:
    story.step(f"Export to {file.name}, packed with zstd")
    start = time.perf_counter()
    written = store.export_mg(file, codec="zstd")
    blobs = store.stats().blob_bytes
    story.say(f"{written.grains} grains, {blobs} bytes of blobs: {written.bytes} {since(start)}.")
    story.check("the file holds all grains", written.grains == len(store))
    report = container.verify(file, errors="collect")
    story.check(
        f"every byte of the file is verified, and {report.verified} grains",
        report.ok and report.verified == len(store),
    )


def _flip(story: Story, file: Path, flipped: Path, other: Path) -> None:
    story.step("Flip one bit in the file")
    good = file.read_bytes()
    with container.read(file) as source:
        grains_at = source.header.grains_at
    middle = (grains_at + len(good)) // 2
    for part, at in (("index", grains_at - 4), ("frame", middle), ("footer", len(good) - 1)):
        flipped.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        problems = container.verify(flipped, errors="collect").problems
        story.say(f"Byte {at}: {problems[0] if problems else 'no problem found'}")
        found = bool(problems) and problems[0].part == part
        story.check(f"a bit in the {part}: `verify` finds it and names the {part}", found)
    with og.open(other) as store:
        refused = refusal(lambda: store.import_mg(flipped)) != "no error"
        story.check("the import refuses the file and stores nothing", refused and not len(store))


def _import_file(story: Story, store: GrainStore, file: Path, other: Path) -> None:
    story.step("Import into a second store")
    start = time.perf_counter()
    with og.open(other) as second:
        report = second.import_mg(file)
        story.say(f"{report.stored} grains verified and stored {since(start)}.")
        story.check("both stores hold the same addresses", _addresses(store) == _addresses(second))
        same = all(
            _answers(store, order=order) == _answers(second, order=order)
            for order in ("newest", "oldest")
        )
        story.check("both return the same results in the same order", same)
        again = second.import_mg(file)
        story.check(
            f"importing again stores nothing: {again.duplicates} duplicates",
            again.stored == 0 and again.duplicates == len(store),
        )


def _upkeep(story: Story, store: GrainStore, copy: Path) -> None:
    story.step("Check and back up")
    report = store.maintenance.check()
    story.say(f"{report.grains} grains and {report.rows} index rows checked.")
    story.check("the check finds no problems", report.ok and report.grains == len(store))
    store.maintenance.backup(copy)
    with og.open(copy) as second:
        same = _addresses(store) == _addresses(second) and _answers(store) == _answers(second)
        story.check("the backup has the same grains and returns the same results", same)
        made = second.maintenance.rebuild()
    with og.open(copy, readonly=True) as second:
        report = second.maintenance.check()
    story.check(
        f"its index is rebuilt and checked: {made.rows} rows of {made.grains} grains",
        report.ok and report.rows == made.rows > 0,
    )
