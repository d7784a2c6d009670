# SPDX-License-Identifier: Apache-2.0
"""The demo's second half: ask the store, carry it in a .mg file to another one, keep it well."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omsgrain.cli.query import plan_text, table
from omsgrain.cli.story import Story, since

if TYPE_CHECKING:
    from omsgrain import Grain, GrainStore

RUN = "mission-7"
LAST_DAYS = 1_451_376_000_000  # 2015-12-29T08:00Z, where a local day begins
PAGE = 5


@dataclass(frozen=True, slots=True)
class Question:
    """A question in words, as filters, and as a test that every grain is put to."""

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


def tell(story: Story, directory: Path, beside: Path) -> None:
    """Tell it, of the store in a directory; what is made on the way goes beside."""
    import omsgrain as og

    file, other = beside / "memory.mg", beside / "other.omsg"
    with og.open(directory, readonly=True) as store:
        _query(story, store)
        _export(story, store, file)
        _flip(story, file, beside / "flipped.mg", other)
        _import(story, store, file, other)
        _upkeep(story, store, directory, beside / "backup.omsg")


def _addresses(store: GrainStore) -> list[str]:
    """All of them, in order of arrival."""
    return [change.address for change in store.changes()]


def _answers(store: GrainStore, **more: Any) -> list[str]:
    """The addresses of all answers, in their order."""
    pages = [store.query(**q.filters, limit=1_000, **more) for q in QUESTIONS]
    return [hit.content_address for page in pages for hit in page.results]


def _query(story: Story, store: GrainStore) -> None:
    story.step("Ask")
    grains = list(store)
    right = []
    for question in QUESTIONS:
        page = store.query(**question.filters, limit=PAGE, count=True, explain=True)
        assert page.plan is not None  # it was asked for
        story.say(f"{question.words} {page.total} grains; {plan_text(page.plan)}")
        if not story.quiet:
            story.console.print(table(page))
        right.append(page.total == sum(map(question.holds, grains)))
    story.check("each answer is what a walk through all grains finds", all(right))

    seen: list[str] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = store.query(run_id=RUN, limit=PAGE, cursor=cursor)
        seen += [hit.content_address for hit in page.results]
        cursor, pages = page.next_cursor, pages + 1
    mission = [grain for grain in grains if grain.get("run_id") == RUN]
    mission.sort(key=lambda grain: (-grain["created_at"], grain.address))
    story.check(
        f"{pages} pages of the mission give each of its grains once, newest first",
        seen == [grain.address for grain in mission],
    )


def _export(story: Story, store: GrainStore, file: Path) -> None:
    from omsgrain import container

    story.step(f"Export to {file.name}, packed with zstd")
    start = time.perf_counter()
    written = store.export_mg(file, codec="zstd")
    blobs = store.stats().blob_bytes
    story.say(f"{written.grains} grains, {blobs} bytes of blobs: {written.bytes} {since(start)}.")
    story.check("the file holds all grains", written.grains == len(store))
    report = container.verify(file, errors="collect")
    story.check(
        f"all bytes of the file are as they must be, {report.verified} grains verified",
        report.ok and report.verified == len(store),
    )


def _flip(story: Story, file: Path, flipped: Path, other: Path) -> None:
    import omsgrain as og
    from omsgrain import container

    story.step("Flip one bit in the file")
    good = file.read_bytes()
    with container.read(file) as source:
        grains_at = source.header.grains_at
    middle = (grains_at + len(good)) // 2
    for part, at in (("index", grains_at - 4), ("frame", middle), ("footer", len(good) - 1)):
        flipped.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        problems = container.verify(flipped, errors="collect").problems
        story.say(f"Byte {at}: {problems[0] if problems else 'nothing is found'}")
        found = bool(problems) and problems[0].part == part
        story.check(f"a bit in the {part}: found, and the {part} is named", found)
    with og.open(other) as store:
        try:
            store.import_mg(flipped)
            refused = False
        except og.errors.OmsError:
            refused = True
        story.check("importing it is refused and stores nothing", refused and not len(store))


def _import(story: Story, store: GrainStore, file: Path, other: Path) -> None:
    import omsgrain as og

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
        story.check("both give the same answers in the same order", same)
        again = second.import_mg(file)
        story.check(
            f"importing again stores nothing: {again.duplicates} duplicates",
            again.stored == 0 and again.duplicates == len(store),
        )


def _upkeep(story: Story, store: GrainStore, directory: Path, copy: Path) -> None:
    import omsgrain as og
    from omsgrain import ops

    story.step("Check and back up")
    report = ops.check(directory)
    story.say(f"{report.grains} grains and {report.rows} index rows looked at.")
    story.check("nothing is wrong with the store", report.ok and report.grains == len(store))
    store.backup(copy)
    with og.open(copy) as second:
        same = _addresses(store) == _addresses(second) and _answers(store) == _answers(second)
        story.check("the backup holds the same grains and gives the same answers", same)
        made = second.rebuild()
    report = ops.check(copy)
    story.check(
        f"its index was made anew and checked: {made.rows} rows of {made.grains} grains",
        report.ok and report.rows == made.rows > 0,
    )
