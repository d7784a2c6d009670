# SPDX-License-Identifier: Apache-2.0
"""Is every byte of a store what it must be? Run as ``python -m omsgrain.store.check DIRECTORY``.

It runs in a process of its own: LMDB trusts its pages, and a damaged one can end the process that
reads it. That is a finding too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.store.base import CheckReport, Problem
from omsgrain.store.layout import broken_pages
from omsgrain.store.lmdb import LmdbStore
from omsgrain.store.reading import LmdbReader
from omsgrain.store.recent import RUN, Recent
from omsgrain.store.tables import ADDRESSES, TERMS

__all__ = ["check_in_child"]

_MOST = 1_000  # problems that are told one by one


def check_in_child(path: Path) -> CheckReport:
    """Check the store at a path in a process of its own."""
    command = [sys.executable, "-m", "omsgrain.store.check", str(path)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode != 0:
        how = f"signal {-child.returncode}" if child.returncode < 0 else "an error"
        problem = Problem("file", None, f"the file could not be read to its end ({how})")
        return CheckReport(False, (problem,), 0, 0)
    found = json.loads(child.stdout)
    problems = tuple(Problem(**problem) for problem in found.pop("problems"))
    return CheckReport(problems=problems, **found)


def check(path: Path) -> CheckReport:
    """Check the store at a path in this process."""
    problems: list[Problem] = []
    grains = rows = 0
    try:
        store = LmdbStore(path, readonly=True)
    except OmsError as error:
        return CheckReport(False, (Problem("file", None, error.message),), 0, 0)
    try:
        with store.read() as reader:
            if broken := broken_pages(path, *reader.commit()):
                problems.append(Problem("file", None, broken))
            walk = _Walk(reader)
            for problem in walk.problems():
                if len(problems) < _MOST:
                    problems.append(problem)
            grains, rows = walk.grains, walk.rows
    except OmsError as error:
        problems.append(Problem("file", None, str(error)))
    finally:
        store.close()
    return CheckReport(not problems, tuple(problems), grains, rows)


class _Walk:
    """One pass over all blobs, and what the tables say of each."""

    def __init__(self, reader: LmdbReader) -> None:
        self.reader = reader
        self.grains = self.rows = self.addressed = 0
        self.blob_bytes = 0

    def problems(self) -> Iterator[Problem]:
        head = self.reader.head
        run, after = Recent(0), 0
        while page := self.reader.hashed_page(after):
            after = page[-1][0]
            yield from self._blobs(page)
            run.add_rows([(s, b, d) for s, b, d in page if d is not None and s <= head.watermark])
            if run.tail.rows() > 8 * RUN:
                yield from self._terms(run)
                run = Recent(0)
        yield from self._terms(run)
        yield from self._totals(after)

    def _blobs(self, page: list[tuple[int, bytes, bytes | None]]) -> Iterator[Problem]:
        good = [(seq, blob, digest) for seq, blob, digest in page if digest is not None]
        bad = [seq for seq, _, digest in page if digest is None]
        yield from (Problem("blob", seq, "the bytes are not those that were put") for seq in bad)
        for index, error in _core.check_many([blob for _, blob, _ in good])[1]:
            yield Problem("blob", good[index][0], str(error))
        for seq, blob, digest in good:
            if self.reader.blob_at(seq) != blob:
                yield Problem("blob", seq, "the number does not lead to the grain")
            if seq <= self.reader.head.watermark:
                self.addressed += 1
                if self.reader.row_of(digest) != seq:
                    yield Problem("address", seq, "the address does not lead to the grain")
        self.grains += len(page)
        self.blob_bytes += sum(len(blob) for _, blob, _ in page)

    def _terms(self, run: Recent) -> Iterator[Problem]:
        key: bytes | None = None
        while part := run.tail.rows_after(key, RUN):
            for key, places in part:
                self.rows += len(places)
                for place in places:
                    if not self.reader.has_term(key, place):
                        seq = int.from_bytes(place[12:], "big")
                        yield Problem("term", seq, "an index row is missing")

    def _totals(self, last: int) -> Iterator[Problem]:
        head = self.reader.head
        if (head.grains, head.blob_bytes, head.last_seq) != (self.grains, self.blob_bytes, last):
            yield Problem("head", None, "the counts of the store are not those of its blobs")
        if self.reader.entries(ADDRESSES) != self.addressed:
            yield Problem("address", None, "there are more or fewer addresses than grains")
        if self.reader.entries(TERMS) != self.rows:
            yield Problem("term", None, "there are more or fewer index rows than the grains have")


if __name__ == "__main__":
    print(json.dumps(asdict(check(Path(sys.argv[1])))))
