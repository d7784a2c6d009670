# SPDX-License-Identifier: Apache-2.0
"""Does the audit trail hold? Every entry, every note, the end, and what the store has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from typing import Any, Literal

from omsgrain.counts import counted
from omsgrain.store.audit.arrivals import Arrivals
from omsgrain.store.audit.ends import Checkpoint
from omsgrain.store.audit.entry import (
    HASH,
    HEAD_RECORD,
    HEAD_VALUE,
    KEY_RECORD,
    NOTHING,
    NUMBER,
    STORING,
    TAG,
    link,
    note_hash,
    read_entry,
)
from omsgrain.store.base import Reader
from omsgrain.store.tables import AUDIT, META, NOTES

__all__ = ["AuditProblem", "AuditReport", "verify"]

_MOST = 1_000  # problems that are told one by one


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """Something that a verification found.

    Attributes:
        number: the entry that it is about, if it is about one.
        message: what is wrong.
        where: ``chain``: entries are not those that were written. ``note``: a note is not.
            ``store``: the chain may be as it was, and the store holds more or less than it says.
    """

    number: int | None
    message: str
    where: Literal["chain", "note", "store"] = "chain"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a verification found.

    Attributes:
        ok: nothing is wrong.
        entries: how many entries there are.
        problems: what is wrong, the first thousand.
        notes: how many notes are there and as they were written.
        notes_gone: how many were erased.
    """

    ok: bool
    entries: int
    problems: tuple[AuditProblem, ...]
    notes: int = 0
    notes_gone: int = 0

    __repr__ = counted


def verify(
    reader: Reader, checkpoint: Checkpoint | None = None, *, grains: bool = False
) -> AuditReport:
    """Verify the whole trail. It never raises on damaged rows: it reports them.

    Args:
        reader: the snapshot.
        checkpoint: an end that the trail once had, kept outside of the store. Without one, a tail
            that was cut off together with the record of the end cannot be seen.
        grains: also read every grain and look whether it is the one that was put.

    Returns:
        What was found. An entry is named by its number; where two entries do not fit together and
        each fits to itself, the later one is named.
    """
    found = _Verification(reader, checkpoint, grains)
    problems: list[AuditProblem] = []
    broken = False
    for problem in found.problems():
        broken = True
        if len(problems) < _MOST:
            problems.append(problem)
    return AuditReport(not broken, found.entries, tuple(problems), found.notes, found.gone)


@dataclass(slots=True)
class _Last:
    """What the next entry must follow: the one before it, and whether that one was in its place.

    ``hashes`` are what it says its hash is and, if that is not so, what it should be: where only
    the former was damaged, the entries behind it are sound. Behind an entry that is out of place
    or cannot be read, nobody can tell whether the next one is to blame.
    """

    number: int = 0
    hashes: tuple[bytes, ...] = (NOTHING,)
    in_place: bool = True
    body: dict[str, Any] | None = None


class _Verification:
    """One pass over the entries, and over the grains beside them if they are asked for."""

    def __init__(self, reader: Reader, checkpoint: Checkpoint | None, grains: bool) -> None:
        self.reader = reader
        self.checkpoint = checkpoint or Checkpoint(0, NOTHING.hex(), 0)
        self.key = reader.row(META, KEY_RECORD)
        self.arrivals = Arrivals(reader, self.key) if grains and self.key else None
        self.entries = self.notes = self.gone = self.erased = 0
        self.last = _Last()

    def problems(self) -> Iterator[AuditProblem]:
        for place, row in self.reader.rows(AUDIT):
            if len(place) != NUMBER.size:
                yield AuditProblem(None, "a row whose key is no number")
                continue
            self.entries += 1
            yield from self._entry(NUMBER.unpack(place)[0], place, row)
        yield from self._end()
        yield from self._notes()
        yield from self._store()

    def _entry(self, number: int, place: bytes, row: bytes) -> Iterator[AuditProblem]:
        last = self.last
        follows = number == last.number + 1
        if not follows:
            yield _missing(last.number + 1, number - 1)
        stated = row[:HASH]
        hashes = [link(before, row[HASH:]) for before in last.hashes]
        linked = stated in hashes
        body = read_entry(row)
        in_place = body is not None and body["i"] == number
        if body is None:
            yield AuditProblem(number, "the entry cannot be read")
        elif not in_place:
            yield AuditProblem(number, f"entry {body['i']} stands in its place")
        elif follows and last.in_place and not linked:
            what = "the entry was changed, or does not follow from the one before it"
            yield AuditProblem(number, what)
        elif number == 1 and body.get("k") != sha256(self.key or b"").digest():
            yield AuditProblem(1, "the key of the tags is not the one that the trail began with")
        if body is not None and ("m" in body or "x" in body):
            yield from self._note(number, place, body)
        if number == self.checkpoint.number and stated.hex() != self.checkpoint.hash:
            yield AuditProblem(number, "the entry is not the one that the checkpoint names")
        if body is not None and in_place:
            yield from self._account(number, last.body if follows else None, body)
        known = (stated,) if linked or not follows else (stated, hashes[0])
        self.last = _Last(number, known, in_place, body if in_place else None)

    def _note(self, number: int, place: bytes, body: dict[str, Any]) -> Iterator[AuditProblem]:
        self.erased += body.get("x", 0)
        if "m" not in body:
            return
        row = self.reader.row(NOTES, place)
        if row is None:
            self.gone += 1
            return
        self.notes += 1
        if note_hash(row) != body["m"]:
            yield AuditProblem(number, "the note was changed", "note")

    def _account(
        self, number: int, before: dict[str, Any] | None, body: dict[str, Any]
    ) -> Iterator[AuditProblem]:
        """What came and went between two entries must be what the later one tells of."""
        count = body.get("n", len(body.get("g", b"")) // TAG)
        if number == 1 and body["o"] in STORING and body["c"] == count:
            before = {"s": 0, "c": 0}  # the trail is as old as the store
        if before is None:
            if self.arrivals is not None:
                self.arrivals.skip(body["s"])
            return
        grown = body["c"] - before["c"]
        least, most = _growth(body["o"], count)
        if not least <= grown <= most:
            what = f"the store changed by {grown:+} grains where the entry is about {count}"
            yield AuditProblem(number, what, "store")
        if body["s"] < before["s"]:
            yield AuditProblem(number, "the sequence numbers went back", "store")
        if self.arrivals is not None and not self.arrivals.are_named(body, count):
            yield AuditProblem(number, "other grains are in the store than it names", "store")

    def _end(self) -> Iterator[AuditProblem]:
        row, last = self.reader.row(META, HEAD_RECORD), self.last
        end = last.number
        if row is None:
            if self.entries or self.key is not None:
                yield AuditProblem(None, "the record of the end is gone")
        elif len(row) != HEAD_VALUE.size:
            yield AuditProblem(None, "the record of the end cannot be read")
        else:
            end, digest = HEAD_VALUE.unpack(row)
            if end == last.number and digest != last.hashes[0]:
                yield AuditProblem(
                    end, "the entry is not the one that the record of the end names"
                )
            elif end < last.number:
                yield AuditProblem(end + 1, "there are entries behind the record of the end")
        end = max(end, self.checkpoint.number)
        if end > last.number:
            yield _missing(last.number + 1, end)

    def _notes(self) -> Iterator[AuditProblem]:
        more = sum(1 for _ in self.reader.rows(NOTES)) - self.notes
        if more > 0:
            yield AuditProblem(None, f"{more} notes belong to no entry", "note")
        if self.gone > self.erased:
            what = f"{self.gone - self.erased} notes are gone that no entry erased"
            yield AuditProblem(None, what, "note")

    def _store(self) -> Iterator[AuditProblem]:
        body = self.last.body
        if body is None:
            return
        if (grown := self.reader.count() - body["c"]) != 0:
            what = f"the store changed by {grown:+} grains since the last entry"
            yield AuditProblem(None, what, "store")
        elif self.reader.last_seq() != body["s"]:
            yield AuditProblem(None, "the store was changed since the last entry", "store")


def _missing(first: int, last: int) -> AuditProblem:
    if first >= last:
        return AuditProblem(first, "the entry is missing")
    return AuditProblem(first, f"the entries {first} to {last} are missing")


def _growth(operation: str, count: int) -> tuple[float, float]:
    """By how many grains a store may grow with an operation on so many."""
    bounds: dict[str, tuple[float, float]] = {
        "put": (count, count),
        "import": (0, count),
        "supersede": (0, 1),
        "sign": (0, 1),
        "delete": (-count, -count),
        "erase": (-count, 0),
        "restore": (-inf, inf),
    }
    return bounds.get(operation, (0, 0))
