# SPDX-License-Identifier: Apache-2.0
"""A pipeline: lines pass through a queue into a store; rejected lines go to a file.

    python examples/pipeline.py memory.omsg readings.jsonl refused.jsonl

One thread reads lines and puts them into a queue that holds `WAITING` of them. When the queue is
full, the reader waits. This back-pressure bounds the memory, however long the input is. The other
thread takes up to `BATCH` waiting lines and stores them in one transaction. A line is done
(`task_done`) once it is on the disk, or in the file of rejected lines with the reason. A reader
of a broker would acknowledge messages there, and not before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import omsgrain as og

WAITING = 1_000  # lines in the queue, at most
BATCH = 200  # lines of a commit, at most


@dataclass
class Counts:
    """What became of the lines."""

    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    commits: int = 0
    most_waiting: int = 0


def read(lines: Iterator[bytes], queue: Queue[bytes | None]) -> None:
    """Put each line into the queue, waiting while it is full; then None, the end."""
    for line in lines:
        queue.put(line)
    queue.put(None)


def batches(queue: Queue[bytes | None]) -> Iterator[list[bytes]]:
    """What has come, as lists; waits for a first line, and not for more of them."""
    while (line := queue.get()) is not None:
        batch = [line]
        while len(batch) < BATCH:
            try:
                line = queue.get_nowait()
            except Empty:
                break
            if line is None:
                queue.put(None)  # for the next round
                break
            batch.append(line)
        yield batch


def write(store: og.GrainStore, queue: Queue[bytes | None], refused: Path) -> Counts:
    """Store all that comes; the counts."""
    counts = Counts()
    with refused.open("x", encoding="utf-8") as aside:
        for batch in batches(queue):
            counts.most_waiting = max(counts.most_waiting, queue.qsize() + len(batch))
            encoded = og.encode_jsonl(b"".join(batch), errors="collect")
            report = store.put_many(encoded)
            for problem in encoded.errors:
                error = problem.error.to_dict()
                line = batch[error["line"] - 1].decode("utf-8", "replace").rstrip("\n")
                aside.write(json.dumps({"error": error["code"], "line": line}) + "\n")
            counts.stored += report.stored
            counts.duplicates += report.duplicates
            counts.refused += len(encoded.errors)
            counts.commits += 1
            for _ in batch:
                queue.task_done()
    return counts


def main(arguments: list[str]) -> int:
    """Run it; the exit code is 1 if a line was refused."""
    target, source, refused = map(Path, arguments)
    queue: Queue[bytes | None] = Queue(WAITING)
    with source.open("rb") as lines, og.open(target, actor="pipeline") as store:
        reader = Thread(target=read, args=(lines, queue), daemon=True)
        reader.start()
        counts = write(store, queue, refused)
        reader.join()
    print(
        f"{counts.stored} stored, {counts.duplicates} there already, {counts.refused} refused, "
        f"in {counts.commits} commits; never more than {counts.most_waiting} lines waiting"
    )
    return int(counts.refused > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
