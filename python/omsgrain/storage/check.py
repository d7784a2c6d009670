# SPDX-License-Identifier: Apache-2.0
"""Check every byte of a store. Run as ``python -m omsgrain.storage.check DIRECTORY``.

It runs in a child process, because LMDB trusts its pages: a damaged page can crash the process or
make it loop forever. That is a finding too.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Protocol, get_args

import msgpack

from omsgrain import _core
from omsgrain.errors import IntegrityError, OmsError
from omsgrain.grain import bare
from omsgrain.header import ENCRYPTED_BIT, SIGNED_BIT
from omsgrain.storage import mentions, records
from omsgrain.storage.audit.verify import verify
from omsgrain.storage.base import PAGE_BYTES, CheckProblem, CheckReport, Reader, Which
from omsgrain.storage.blind_index import NUMBER, PLACE, TOKEN
from omsgrain.storage.lmdb.data_file import DATA_FILE
from omsgrain.storage.lmdb.memtable import RUN, Memtable
from omsgrain.storage.lmdb.pages import PageReport, walked
from omsgrain.storage.lmdb.reader import LmdbReader
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.signatures import SEALED as signatures_SEALED
from omsgrain.storage.signatures import examine_many, read_row
from omsgrain.storage.tables import (
    BLIND,
    BLOBS,
    COUNTER,
    COUNTERS,
    EVENT,
    EVENTS,
    HOLDS,
    KEPT,
    KEYED,
    MARK,
    META,
    MODELS,
    NAMED,
    PAST_TERMS,
    PLAIN,
    REMOVALS,
    REVIEWS,
    SEALED,
    SEQUENCE,
    SIGNATURES,
    STATES,
    SUPERSEDES,
    TERMS,
    TOGGLES,
    VECTORS,
    VEILED,
    Kind,
    Table,
)


class CheckReader(Reader, Protocol):
    def has_blob(self, seq: int) -> bool:
        """Return whether a sequence number has a grain, without reading it."""
        ...

    def entries(self, table: Table) -> int: ...


Hashed = tuple[int, bytes, bytes | None]
"""A number, a blob, and its address; None as the address of a damaged blob."""

_FLAGS = MARK + 1  # the offset of a blob's flags in a row of blobs-0
_MODEL = 4


def sealed_problems(reader: CheckReader) -> Iterator[CheckProblem]:
    """Check the tables of life BLIND."""
    numbers: dict[bytes, bytes] = {}  # the keys, by the last four bytes of their grains' numbers
    keyed = 0
    for key, number in reader.rows(SEALED):
        row = reader.row(BLOBS, key) if len(key) == SEQUENCE.size else None
        if row is None or len(number) != NUMBER or not row[_FLAGS] & ENCRYPTED_BIT:
            yield _problem(SEALED, key, "a row is damaged, or its grain is not encrypted")
            continue
        numbers[key[-4:]] = number
        if reader.row(KEYED, number + key) is None:
            yield _problem(SEALED, key, "the row from its key is missing")
        else:
            keyed += 1
    if reader.entries(KEYED) != keyed:
        yield _problem(KEYED, b"", "there are more rows than encrypted grains")
    for key, _ in reader.rows(KEPT):
        if reader.row(KEYED, key) is None:
            yield _problem(KEPT, key[NUMBER:], "a row names no grain of its key")
    for key, value in reader.rows(PLAIN):
        if len(key) != NUMBER + TOKEN or numbers.get(value[-4:]) != key[:NUMBER]:
            yield _problem(PLAIN, value, "a row names no grain of its key")
    for key, _ in reader.rows(BLIND):
        if len(key) != NUMBER + TOKEN + PLACE or numbers.get(key[-4:]) != key[:NUMBER]:
            yield _problem(BLIND, bytes(4) + key[-4:], "a row names no grain of its key")
    for key, _ in reader.rows(VEILED):
        if len(key) != _MODEL + SEQUENCE.size or key[-4:] not in numbers:
            yield _problem(VEILED, key[_MODEL:], "a vector without an encrypted grain")


def _problem(table: Table, key: bytes, message: str) -> CheckProblem:
    return _state_problem(table, _number(key), message)


_KEY = SEQUENCE.size + 16


def signature_problems(reader: CheckReader) -> Iterator[CheckProblem]:
    """Check the signatures, and find signed grains without a signature.

    A signature by a DID that needs a resolver is only parsed: a check calls no resolver.
    """
    numbers: list[int] = []
    envelopes: list[bytes] = []
    size = 0
    for key, row in reader.rows(SIGNATURES):
        if len(key) != _KEY:
            yield _signature_problem(None, "a row is damaged")
            continue
        (seq,) = SEQUENCE.unpack_from(key)
        blob = reader.blob_at(seq)
        if blob is None:
            yield _signature_problem(seq, "its grain is missing")
            continue
        if row[:1] == signatures_SEALED and blob[1] & ENCRYPTED_BIT:
            continue  # it can be checked only with the key
        try:
            envelope = read_row(blob, key, row).envelope
        except IntegrityError:
            yield _signature_problem(seq, "a row is damaged, or belongs to another grain")
            continue
        numbers.append(seq)
        envelopes.append(envelope)
        size += len(envelope)
        if size >= PAGE_BYTES:
            yield from _refused(numbers, envelopes)
            numbers, envelopes, size = [], [], 0
    yield from _refused(numbers, envelopes)


def _refused(numbers: list[int], envelopes: list[bytes]) -> Iterator[CheckProblem]:
    for seq, found in zip(numbers, examine_many(envelopes), strict=True):
        if isinstance(found, OmsError):
            yield _signature_problem(seq, f"a signature is invalid ({found.code})")


def _unsigned(reader: CheckReader, page: list[Hashed]) -> Iterator[CheckProblem]:
    mask = SIGNED_BIT | ENCRYPTED_BIT  # a destroyed key takes the signatures over its grains
    for seq in [seq for seq, blob, _ in page if len(blob) > 1 and blob[1] & mask == SIGNED_BIT]:
        if next(reader.rows(SIGNATURES, prefix=SEQUENCE.pack(seq)), None) is None:
            yield _signature_problem(seq, "the grain has the signed bit but no signature")


def _signature_problem(seq: int | None, message: str) -> CheckProblem:
    return CheckProblem("signature", seq, message)


_KINDS = get_args(Kind)
_VECTOR_KEY = struct.Struct(">IQ")
_FLOAT = 4
_GONE = "its grain is missing"
_DAMAGED = "a row is damaged"


def state_problems(reader: CheckReader) -> Iterator[CheckProblem]:
    """Check every table of life STATE except the audit trail."""
    yield from _supersessions(reader)
    yield from _about_grains(
        reader, COUNTERS, lambda rest, row: not rest and len(row) == COUNTER.size
    )
    yield from _about_grains(
        reader, HOLDS, lambda rest, row: not rest and isinstance(_unpack(row), list)
    )
    yield from _about_grains(
        reader, TOGGLES, lambda rest, row: rest != b"" and records.is_sound(row)
    )
    yield from _events(reader)
    yield from _removals(reader)
    yield from _reviews(reader)
    yield from _vectors(reader)
    yield from _mentions(reader)


def _supersessions(reader: CheckReader) -> Iterator[CheckProblem]:
    """Check the states, and the table from a new grain to those that it superseded."""
    absent: dict[bytes, int] = {}  # missing successor -> the first grain that it superseded
    removed = records.removed_digests(reader)
    pairs = 0
    for key, row in reader.rows(STATES):
        seq = _number(key)
        if seq is None:
            yield _state_problem(STATES, None, _DAMAGED)
            continue
        if not reader.has_blob(seq):
            yield _state_problem(STATES, seq, _GONE)
        try:
            digests = [bytes.fromhex(address) for address in records.unpack(row).successors]
        except IntegrityError:
            yield _state_problem(STATES, seq, _DAMAGED)
            continue
        for digest, new in zip(digests, reader.find(digests), strict=True):
            if new is None:
                absent.setdefault(digest, seq)
            elif reader.row(SUPERSEDES, SEQUENCE.pack(new) + key) is not None:
                pairs += 1
            elif digest not in removed:  # otherwise it was put again, and superseded nothing
                yield _state_problem(
                    SUPERSEDES, seq, "the row from the grain that superseded it is missing"
                )
    if reader.entries(SUPERSEDES) != pairs:
        yield _state_problem(SUPERSEDES, None, "the number of rows differs from the states")
    for digest, seq in absent.items():
        if digest not in removed:
            yield _state_problem(STATES, seq, "a grain that superseded it is missing")


def _about_grains(
    reader: CheckReader, table: Table, is_sound: Callable[[bytes, bytes], bool]
) -> Iterator[CheckProblem]:
    """Check rows under a grain's number, each by the rest of its key and its value."""
    for key, row in reader.rows(table):
        seq = _number(key[: SEQUENCE.size])
        if seq is None or not is_sound(key[SEQUENCE.size :], row):
            yield _state_problem(table, seq, _DAMAGED)
        elif not reader.has_blob(seq):
            yield _state_problem(table, seq, _GONE)


def _events(reader: CheckReader) -> Iterator[CheckProblem]:
    before, last = 0, reader.last_seq()
    for key, row in reader.rows(EVENTS):
        number = _number(key)
        if number is None or len(row) != EVENT.size or row[:1] not in _KINDS:
            yield _state_problem(EVENTS, None, _DAMAGED)
            continue
        _, seq, digest = EVENT.unpack(row)
        blob = reader.row(BLOBS, SEQUENCE.pack(seq))
        if not before < number <= last or seq >= number or reader.has_blob(number):
            yield _state_problem(EVENTS, seq, f"event {number} is out of order")
        elif blob is not None and blob[:MARK] != digest[:MARK]:
            yield _state_problem(
                EVENTS, seq, f"event {number} names another address than its grain"
            )
        before = number


def _removals(reader: CheckReader) -> Iterator[CheckProblem]:
    last = reader.last_seq()
    for key, row in reader.rows(REMOVALS):
        number = _number(key)
        try:
            ranges = records.ranges_of(row)
        except IntegrityError:
            ranges = []
        if number is None or not ranges:
            yield _state_problem(REMOVALS, None, _DAMAGED)
            continue
        if ranges[-1][1] >= number or number > last or reader.row(EVENTS, key) is not None:
            yield _state_problem(REMOVALS, None, f"event {number} is out of order")
            continue
        for first, end in ranges:
            there = reader.page(first - 1, 1)
            if there and there[0][0] <= end:
                yield _state_problem(
                    REMOVALS, there[0][0], f"event {number} removed a grain that is there"
                )


def _reviews(reader: CheckReader) -> Iterator[CheckProblem]:
    for key, row in reader.rows(REVIEWS):
        number, review = _number(key), _unpack(row)
        if number is None or not isinstance(review, dict):
            yield _state_problem(REVIEWS, None, _DAMAGED)
        elif review.get("operation") == "put":  # the number of the grain, which may be removed
            if not 0 < number <= reader.last_seq():
                yield _state_problem(REVIEWS, None, f"no grain has had the number {number}")
        elif reader.row(EVENTS, key) is None:
            yield _state_problem(REVIEWS, None, f"its event {number} is missing")


def _vectors(reader: CheckReader) -> Iterator[CheckProblem]:
    dimensions: dict[int, int] = {}
    for _, row in reader.rows(MODELS):
        try:
            record = _unpack(row)
            number, dimension = int(record["id"]), int(record["dimension"])
        except (TypeError, KeyError, ValueError):
            yield _state_problem(MODELS, None, _DAMAGED)
            continue
        if number in dimensions:
            yield _state_problem(MODELS, None, "two models have the same number")
        dimensions[number] = dimension
    for key, row in reader.rows(VECTORS):
        if len(key) != _VECTOR_KEY.size:
            yield _state_problem(VECTORS, None, _DAMAGED)
            continue
        model, seq = _VECTOR_KEY.unpack(key)
        if model not in dimensions:
            yield _state_problem(VECTORS, seq, "its model is missing")
        elif len(row) != _FLOAT * dimensions[model]:
            yield _state_problem(VECTORS, seq, "its length differs from its model")
        elif not reader.has_blob(seq):
            yield _state_problem(VECTORS, seq, _GONE)


def _mentions(reader: CheckReader) -> Iterator[CheckProblem]:
    last = reader.row(META, mentions.NAMED_RECORD) or b""
    for key, row in reader.rows(EVENTS):
        if key > last:
            return
        for digest in mentions.said(EVENTS, row):
            if key not in mentions.places(reader, [digest])[0]:
                yield _state_problem(NAMED, None, f"there is no row for event {_number(key)}")


def _number(key: bytes) -> int | None:
    return int(SEQUENCE.unpack(key)[0]) if len(key) == SEQUENCE.size else None


def _unpack(row: bytes) -> Any:
    try:
        return msgpack.unpackb(row)
    except (ValueError, TypeError):
        return None


def _state_problem(table: Table, seq: int | None, message: str) -> CheckProblem:
    return CheckProblem("state", seq, f"{table.name.decode()}: {message}")


_MOST = 1_000  # problems to report


class Pass(ABC):
    """One pass over the blobs of a snapshot and their index rows."""

    def __init__(self, reader: CheckReader) -> None:
        self.reader = reader  # the snapshot
        self.grains = 0  # seen so far
        self.rows = 0  # index rows that these must have
        self.blob_bytes = 0

    @abstractmethod
    def problems(self) -> Iterator[CheckProblem]:
        """Yield the problems found in the pass."""

    def of_blobs(self, page: list[Hashed]) -> Iterator[CheckProblem]:
        """Count the blobs of a page, and yield the damaged ones."""
        self.grains += len(page)
        self.blob_bytes += sum(len(blob) for _, blob, _ in page)
        bad = [seq for seq, _, digest in page if digest is None]
        yield from (CheckProblem("blob", seq, "the stored bytes are damaged") for seq in bad)
        # Only the address of an encrypted grain can be checked; signatures are checked elsewhere.
        good = [(seq, blob) for seq, blob, digest in page if digest is not None]
        plain = [(seq, bare(blob)) for seq, blob in good if not blob[1] & ENCRYPTED_BIT]
        for index, error in _core.check_many([blob for _, blob in plain])[1]:
            yield CheckProblem("blob", plain[index][0], str(error))
        yield from _unsigned(self.reader, page)

    def of_head(
        self, last: int, head: tuple[int, int, int], addresses: tuple[int, int], rows: int
    ) -> Iterator[CheckProblem]:
        for table in (EVENTS, REMOVALS):
            event = self.reader.last_row(table)
            if event is not None and len(event[0]) == SEQUENCE.size:
                last = max(last, *SEQUENCE.unpack(event[0]))
        if head[:2] != (self.grains, self.blob_bytes) or last > head[2]:
            yield CheckProblem("head", None, "the counts of the store differ from its blobs")
        if addresses[0] != addresses[1]:
            yield CheckProblem("address", None, "the numbers of addresses and of grains differ")
        if rows != self.rows:
            yield CheckProblem("term", None, "the number of index rows is not the expected one")


def examine(
    reader: CheckReader,
    blobs: Pass,
    first: tuple[CheckProblem, ...] = (),
    passing: tuple[type[OmsError], ...] = (),
) -> CheckReport:
    problems, grains, rows = [*first], 0, 0
    try:
        found = chain(
            blobs.problems(),
            state_problems(reader),
            sealed_problems(reader),
            signature_problems(reader),
            _audit_problems(reader),
        )
        for problem in found:
            if len(problems) < _MOST:
                problems.append(problem)
        grains, rows = blobs.grains, blobs.rows
    except passing:
        raise
    except OmsError as error:
        problems.append(CheckProblem("file", None, str(error)))
    return CheckReport(not problems, tuple(problems), grains, rows)


def _audit_problems(reader: CheckReader) -> Iterator[CheckProblem]:
    for problem in verify(reader).problems:
        where = "" if problem.number is None else f"entry {problem.number}: "
        yield CheckProblem("audit", None, where + problem.message)


class BlobCheck(Pass):
    reader: LmdbReader

    def __init__(self, reader: LmdbReader, pages: PageReport) -> None:
        super().__init__(reader)
        self._sums = pages.sums  # of what look-ups in the tables find
        self._addressed = 0

    def problems(self) -> Iterator[CheckProblem]:
        head, wanted, after = self.reader.head, _core.RowSums(self.reader.indexed_paths()), 0
        while page := self.reader.hashed_page(after):
            yield from self.of_blobs(page)
            good = [one for one in page if one[2] is not None and one[0] <= head.watermark]
            past = self.reader.past_between(after + 1, page[-1][0])
            numbers, blobs, digests = zip(*good, strict=True) if good else ((), (), ())
            ends = {int.from_bytes(end, "big") for end in past}
            wanted.add(list(numbers), list(blobs), list(digests), ends)
            after = page[-1][0]
        addresses, current, past_terms = wanted.sums()
        self._addressed, self.rows = addresses[0], current[0] + past_terms[0]
        if self._sums != (addresses, current, past_terms):
            yield from self._looked_up()
        entries = self.reader.entries
        yield from self.of_head(
            after,
            (head.grains, head.blob_bytes, head.last_seq),
            (self.reader.addresses(), self._addressed),
            entries(TERMS) + entries(PAST_TERMS),
        )

    def _looked_up(self) -> Iterator[CheckProblem]:
        """Look up every row of the index, to find those that are wrong."""
        watermark, self.rows = self.reader.head.watermark, 0
        paths = self.reader.indexed_paths()
        run, before, after = Memtable(0, paths=paths), 0, 0
        while page := self.reader.hashed_page(after):
            after = page[-1][0]
            good = [(seq, blob, digest) for seq, blob, digest in page if digest is not None]
            yield from self._addresses(good)
            run.add_rows([one for one in good if one[0] <= watermark])
            if run.tail.rows() > 8 * RUN:
                yield from self._terms(run, before + 1, after)
                run, before = Memtable(0, paths=paths), after
        yield from self._terms(run, before + 1, after)

    def _addresses(self, good: list[tuple[int, bytes, bytes]]) -> Iterator[CheckProblem]:
        row_at, watermark = self.reader.getter(BLOBS), self.reader.head.watermark
        for seq, blob, digest in good:
            key = SEQUENCE.pack(seq)
            row = row_at(key)
            if row is None or row[MARK:] != blob:
                yield CheckProblem("blob", seq, "the sequence number does not map to the grain")
            if seq <= watermark and not self.reader.has_address(digest, seq):
                yield CheckProblem("address", seq, "the address does not map to the grain")

    def _terms(self, run: Memtable, first: int, last: int) -> Iterator[CheckProblem]:
        """Look up every index row of the grains between two numbers."""
        past = self.reader.past_between(first, last)
        key: bytes | None = None
        with self.reader.cursor(TERMS) as current, self.reader.cursor(PAST_TERMS) as before:
            among = current.set_key_dup, before.set_key_dup
            while part := run.tail.rows_after(key, RUN):
                for key, places in part:
                    self.rows += len(places)
                    if past:
                        found = all([among[place[12:] in past](key, place) for place in places])
                    else:
                        found = all(map(among[0], repeat(key), places))
                    if not found:
                        yield from self._missing(key, places, past)

    def _missing(
        self, key: bytes, places: list[bytes], past: set[bytes]
    ) -> Iterator[CheckProblem]:
        for place in places:
            which: Which = "past" if place[12:] in past else "current"
            if not self.reader.has_term(key, place, which):
                seq = int.from_bytes(place[12:], "big")
                yield CheckProblem("term", seq, "an index row is missing, or in the wrong table")


_SLOWEST = 1 << 20  # minimum bytes per second of a check; ten times that is usual
_START = 60.0  # seconds for a process to start on a busy machine


def check_in_child(path: Path, patience: float | None = None) -> CheckReport:
    if patience is None:
        file = path / DATA_FILE
        patience = _START + (file.stat().st_size if file.exists() else 0) / _SLOWEST
    command = [sys.executable, "-m", "omsgrain.storage.check", str(path)]
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return _unread(f"it did not end within {patience:.0f} s")
    if child.returncode != 0:
        how = f"signal {-child.returncode}" if child.returncode < 0 else "an error"
        return _unread(how)
    found = json.loads(child.stdout)
    problems = tuple(CheckProblem(**problem) for problem in found.pop("problems"))
    return CheckReport(problems=problems, **found)


def _unread(how: str) -> CheckReport:
    problem = CheckProblem("file", None, f"the file could not be read completely ({how})")
    return CheckReport(False, (problem,), 0, 0)


def check(path: Path) -> CheckReport:
    try:
        store = LmdbStorage(path, readonly=True)
    except OmsError as error:
        return CheckReport(False, (CheckProblem("file", None, error.message),), 0, 0)
    try:
        with store.read() as reader:
            pages = walked(store.descriptor(), *reader.commit())
            first = (CheckProblem("file", None, pages.broken),) if pages.broken else ()
            return examine(reader, BlobCheck(reader, pages), first)
    except OmsError as error:
        return CheckReport(False, (CheckProblem("file", None, str(error)),), 0, 0)
    finally:
        store.close()


if __name__ == "__main__":
    print(json.dumps(asdict(check(Path(sys.argv[1])))))
