# SPDX-License-Identifier: Apache-2.0
"""An agent that remembers across restarts, and finds when a wrong belief came in.

    python examples/belief_change.py agent.omsg

No model is behind it: it follows a script, and the best memory is its answer. Each day opens the
memory again, as a new process would. On Wednesday somebody tells it a wrong gate. Later it asks
the memory of each day the same question, and finds the day on which the answer changed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import omsgrain as og

USER = "ada"
DAYS = {
    "Monday": ["The parcels for ada wait at gate 4.", "Ada prefers to be called in the morning."],
    "Tuesday": ["The lift of hall 2 is slow."],
    "Wednesday": ["The parcels for ada wait at gate 9."],
    "Thursday": ["Ada is on holiday from June on."],
}
QUESTION = "parcels gate"


@dataclass(frozen=True, slots=True)
class Finding:
    """The day on which an answer changed, and both answers."""

    day: str
    before: str
    after: str


def live_a_day(path: Path, told: list[str]) -> datetime:
    """Remember what is told; a text about the same parcels updates the memory. Return the time."""
    with og.Memory(path, user=USER) as memory:
        for text in told:
            known = memory.recall("+parcels gate", limit=1) if "parcels" in text else []
            if known:
                memory.update(known[0].address, text)
            else:
                memory.remember(text)
    time.sleep(0.002)  # times of grains are whole milliseconds
    return datetime.now(timezone.utc)


def find_change(path: Path, evenings: dict[str, datetime]) -> Finding | None:
    """Ask the memory of each evening the same question; return the first other answer."""
    with og.Memory(path, user=USER) as memory:
        before = ""
        for day, evening in evenings.items():
            found = memory.as_of(evening).recall(QUESTION, limit=1)
            answer = found[0].text if found else ""
            if before and answer != before:
                return Finding(day, before, answer)
            before = answer
    return None


def main(path: Path) -> Finding | None:
    """Live four days, then look back."""
    evenings = {day: live_a_day(path, told) for day, told in DAYS.items()}
    with og.Memory(path, user=USER) as memory:
        print("now:", memory.recall(QUESTION, limit=1)[0].text)
    found = find_change(path, evenings)
    if found is not None:
        print(f"changed on {found.day}: {found.before!r} became {found.after!r}")
        with og.Memory(path, user=USER) as memory:
            wrong = memory.recall(QUESTION, limit=1)[0]
            memory.update(wrong.address, found.before)
            print("corrected:", memory.recall(QUESTION, limit=1)[0].text)
            print("versions:", len(memory.history(wrong.address)))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
