# SPDX-License-Identifier: Apache-2.0
"""A bundle: in one JSON document or by lines, and its checksum. Spec: AIMEM §2, §2.8, §3.1.

The checksum is SHA-256 of the bundle's canonical text without the checksum. A bundle by lines is
never whole in memory. Its canonical text is one object with sorted keys, so the arrays come in
another order than the lines do. A writer gives the records of each kind when it is their turn; a
reader keeps the canonical text of each kind in a file of its own until it has all of them (`Sum`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from typing import IO, Any

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.formats.aimem.check import CHECKSUM, RULES, AimemChecker
from omsgrain.formats.aimem.fields import ARRAYS, ENVELOPE, FORMAT, LIMITS, AimemLimits, Kind
from omsgrain.formats.json_text import (
    MARK,
    canonical_text,
    kind_of,
    of_bytes,
    parse_canonical,
    refused,
    spell,
)
from omsgrain.formats.problems import MOST, DocumentError, Problem, Verdict
from omsgrain.formats.schema import Problems

MEMBER = "checksum"
_IN_MEMORY = 1 << 20  # bytes of records of one kind, before they wait on the disk
_CHUNK = 1 << 20


def checksum_of(text: bytes) -> str:
    return of_bytes(_core.canonical_json(text, MEMBER))


def _sum(pieces: Iterable[bytes]) -> str:
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return f"sha256:{digest.hexdigest()}"


class Sum:
    """The checksum of a bundle whose records come one by one. Close it: it has files."""

    def __init__(self) -> None:
        from omsgrain.crypto.seal import spool  # takes the room of signatures with it

        self._files = ExitStack()
        self._parts: dict[Kind, IO[bytes]] = {
            kind: self._files.enter_context(spool(_IN_MEMORY)) for kind in ARRAYS.values()
        }

    def __enter__(self) -> Sum:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add(self, kind: Kind, canonical: bytes) -> None:
        """Take the canonical text of the next record of a kind."""
        part = self._parts[kind]
        if part.tell():
            part.write(b",")
        part.write(canonical)

    def finish(self, envelope: dict[str, Any]) -> str:
        return _sum(self.pieces(envelope))

    def pieces(self, envelope: dict[str, Any]) -> Iterator[bytes]:
        return _pieces(envelope, self._gathered)

    def _gathered(self, kind: Kind) -> Iterator[bytes]:
        part = self._parts[kind]
        part.seek(0)
        while piece := part.read(_CHUNK):
            yield piece


def _pieces(envelope: dict[str, Any], array: Callable[[Kind], Iterable[bytes]]) -> Iterator[bytes]:
    members = {name for name in envelope if name != MEMBER} | set(ARRAYS)
    comma = b"{"
    for name in sorted(members, key=lambda text: text.encode("utf-16-be")):
        yield comma + canonical_text(name) + b":"
        comma = b","
        if name not in ARRAYS:
            yield canonical_text(envelope[name])
            continue
        yield b"["
        yield from array(ARRAYS[name])
        yield b"]"
    yield b"}"


@dataclass(slots=True)
class Bundle:
    envelope: dict[str, Any]  # its members but for the four arrays
    # the records of each kind, in their order
    records: dict[Kind, list[dict[str, Any]]] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()  # what was accepted although it looks wrong

    def to_dict(self) -> dict[str, Any]:
        return self.envelope | {name: self.records.get(kind, []) for name, kind in ARRAYS.items()}


def _nothing() -> None: ...


def whole(source: IO[bytes]) -> bytes:
    """All of a bundle in one document; of one that is too large a byte more than is taken."""
    source.seek(0)
    return source.read(LIMITS.document + 1)


def validate(
    data: bytes, limits: AimemLimits = LIMITS, *, alive: Callable[[], None] = _nothing
) -> Verdict:
    """Say all that is wrong with a bundle; never raises for what the bytes are."""
    found = Problems()
    try:
        document, canonical = parse_canonical(
            data,
            most=limits.document,
            depth=limits.depth,
            without=MEMBER,
            values=limits.values,
            alive=alive,
        )
    except DocumentError as error:
        return Verdict((), error.problems, (), error.total)
    if not isinstance(document, dict):
        no_bundle = problem("not_object", "", "an object", kind_of(document))
        return Verdict((), (no_bundle,), (), 1)
    checker = AimemChecker(limits)
    checker.envelope(document)
    arrays = {}
    for name, kind in ARRAYS.items():
        array = document.get(name, [])
        if isinstance(array, list):
            arrays[kind] = array
        else:
            checker.faults.add(problem("invalid_type", f"/{name}", "an array", kind_of(array)))
    found.extend(checker.faults)
    if is_other(document.get(MEMBER), of_bytes(canonical)):
        found.add(problem("checksum_mismatch", f"/{MEMBER}"))
    # Edges and links last, when all that they can name was seen.
    for name, kind in sorted(ARRAYS.items(), key=lambda item: item[1] not in ("chunk", "entity")):
        for i, record in enumerate(arrays.get(kind, ())):
            alive()
            if checker.is_full:
                break
            checker.record(kind, record, f"/{name}/{i}")
    found.extend(checker.problems)
    warnings = tuple(checker.warnings.found)
    return Verdict((), tuple(found.found), warnings, found.total, document)


def read_bundle(
    data: bytes, limits: AimemLimits = LIMITS, *, alive: Callable[[], None] = _nothing
) -> Bundle:
    verdict = validate(data, limits, alive=alive)
    if verdict.document is None or verdict.problems:
        raise DocumentError(list(verdict.problems), verdict.total)
    envelope = {name: value for name, value in verdict.document.items() if name not in ARRAYS}
    records = {
        kind: verdict.document[name] for name, kind in ARRAYS.items() if name in verdict.document
    }
    return Bundle(envelope, records, verdict.warnings)


def write_bundle(bundle: Bundle, arrays: Collection[str] = tuple(ARRAYS)) -> bytes:
    """Write a bundle, in UTF-8; with a new checksum and the format's current name."""
    return spell(as_document(bundle, arrays))


def as_document(bundle: Bundle, arrays: Collection[str]) -> dict[str, Any]:
    """The document that `write_bundle` writes."""
    whole = bundle.to_dict() | {"format": FORMAT}
    left_out = {MEMBER, *ARRAYS} - set(arrays)
    document = {name: value for name, value in whole.items() if name not in left_out}
    document = document | {MEMBER: checksum_of(spell(document))}
    first = [field.name for field in ENVELOPE if field.name in document]
    order = [*first, *(name for name in document if name not in first)]
    return {name: document[name] for name in order}


def problem(
    rule: str,
    pointer: str,
    expected: str | None = None,
    found: str | None = None,
    line: int | None = None,
) -> Problem:
    return Problem(rule, pointer, RULES[rule].says, expected, found, line)


def is_other(given: Any, total: str) -> bool:
    """Whether a checksum is another one. The envelope's check refuses what is no checksum."""
    return isinstance(given, str) and given.startswith(CHECKSUM) and given != total


TAG = "_kind"
"""The member of a line that says which kind of record it is; no part of the record."""
_BLANK = 100_000
"""Blank lines that are passed over."""
_KINDS: dict[str, Kind] = {kind: kind for kind in ARRAYS.values()}
_NAMES = {kind: name for name, kind in ARRAYS.items()}

Record = tuple[Kind, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ScannedBundle:
    envelope: dict[str, Any]  # its first line
    counts: dict[Kind, int]  # how many records there are of each kind
    warnings: tuple[Problem, ...]  # what is accepted with a warning; the first thousand


def scan(source: IO[bytes], limits: AimemLimits = LIMITS) -> ScannedBundle:
    """Check a bundle by lines from the source's position, with its checksum."""
    start = source.tell()
    checker, between, unread = AimemChecker(limits, many=True), Problems(), Problems()
    counts: dict[Kind, int] = dict.fromkeys(ARRAYS.values(), 0)
    cut = ended = False
    with Sum() as total:
        envelope = _first(source, limits, checker)
        for number, line in _lines(source, limits, unread):
            if unread.total >= MOST or checker.is_full:
                ended = True
                break
            here = Problems()
            read = _record(line, number, limits, here)
            if read is None:
                cut = not line.endswith(b"\n")
                unread.extend(Problems() if cut else here)
                continue
            kind, record, canonical = read
            total.add(kind, canonical)
            pointer = f"/{_NAMES[kind]}/{counts[kind]}"
            counts[kind] += 1
            checker.record(kind, record, pointer, number, ends=False)
        # Without all lines the checksum cannot be compared.
        told = not unread and not ended
        if cut or (told and is_other(envelope.get(MEMBER), total.finish(envelope))):
            between.add(problem("checksum_mismatch", f"/{MEMBER}", line=1))
    if (checker.unresolved or checker.doubtful) and not ended:
        _look_again(source, start, limits, checker)
    found = Problems()
    for part in (checker.faults, between, unread, checker.problems):
        found.extend(part)
    found.raise_any()
    return ScannedBundle(envelope, counts, tuple(checker.warnings.found))


def records(source: IO[bytes]) -> Iterator[Record]:
    source.readline()
    for line in source:
        if line.strip():
            record = json.loads(line)
            yield record.pop(TAG), record


def write_lines(
    envelope: dict[str, Any], parts: Callable[[Kind], Iterable[dict[str, Any]]]
) -> Iterator[bytes]:
    """Write a bundle by lines; with a new checksum and the format's current name.

    Chunks come first, then edges, entities and links. A member ``_kind`` of a record of its own
    cannot be said in a line, and is left out.
    """
    envelope = {name: value for name, value in envelope.items() if name != MEMBER}
    envelope["format"] = FORMAT

    def canonical(kind: Kind) -> Iterator[bytes]:
        comma = b""
        for record in parts(kind):
            yield comma + _core.canonical_json(spell(record), TAG)
            comma = b","

    total = _sum(_pieces(envelope, canonical))
    yield spell(envelope | {MEMBER: total}) + b"\n"
    for kind in ARRAYS.values():
        for record in parts(kind):
            yield spell({TAG: kind, **record} | {TAG: kind}) + b"\n"


def _first(source: IO[bytes], limits: AimemLimits, checker: AimemChecker) -> dict[str, Any]:
    line = source.readline(limits.line + 1)
    if len(line) > limits.line:
        raise DocumentError([problem("too_large", "", f"at most {limits.line} bytes", line=1)])
    line = line.removeprefix(MARK)
    try:
        _core.canonical_json(line, None, limits.depth)
    except OmsError as error:
        raise DocumentError([refused(error, 1)]) from None
    envelope = json.loads(line)
    if not isinstance(envelope, dict):
        raise DocumentError([problem("not_object", "", "an object", kind_of(envelope), line=1)])
    checker.envelope(envelope, 1)
    for name in ARRAYS:
        if name in envelope:
            expected = "records in lines of their own"
            checker.faults.add(problem("invalid_type", f"/{name}", expected, line=1))
    return {name: value for name, value in envelope.items() if name not in ARRAYS}


def _lines(source: IO[bytes], limits: AimemLimits, found: Problems) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers; one that is too long ends it."""
    number, blank = 1, 0
    while line := source.readline(limits.line + 1):
        number += 1
        if len(line) > limits.line:
            found.add(problem("too_large", "", f"at most {limits.line} bytes", line=number))
            return
        if line.strip():
            yield number, line
            continue
        blank += 1
        if blank > _BLANK:
            found.add(problem("too_large", "", f"at most {_BLANK} blank lines", line=number))
            return


def _record(
    line: bytes, number: int, limits: AimemLimits, found: Problems
) -> tuple[Kind, dict[str, Any], bytes] | None:
    try:
        canonical = _core.canonical_json(line, TAG, limits.depth)
    except OmsError as error:
        found.add(refused(error, number))
        return None
    record = json.loads(line)
    if not isinstance(record, dict):
        found.add(problem("not_object", "", "an object", kind_of(record), line=number))
        return None
    kind = record.pop(TAG, None)
    if not isinstance(kind, str) or kind not in _KINDS:
        found.add(problem("unknown_kind", f"/{TAG}", ", ".join(_KINDS), line=number))
        return None
    return _KINDS[kind], record, canonical


def _look_again(source: IO[bytes], start: int, limits: AimemLimits, checker: AimemChecker) -> None:
    """Look again at edges and links, now that all chunks and entities are known, and at names."""
    source.seek(start)
    source.readline()
    counts: dict[Kind, int] = dict.fromkeys(ARRAYS.values(), 0)
    for number, line in _lines(source, limits, Problems()):
        if checker.is_full:
            return
        read = _record(line, number, limits, Problems())
        if read is not None:
            kind, record, _ = read
            pointer = f"/{_NAMES[kind]}/{counts[kind]}"
            counts[kind] += 1
            checker.ends(kind, record, pointer, number)
            checker.twice(kind, record, pointer, number)
