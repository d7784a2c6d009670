# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0 as JSON lines: a header, one record a line, a footer; written with little memory.

    {"type": "header", "mif_version": "1.0", "export": {...}, ...}
    {"type": "memory", "data": {...}}
    {"type": "footer", "checksum": "sha256:...", "counts": {"memories": 1, ...}}

The header is the document without its records. It contains a record array only if the array is
empty, or if the members are not in the SEP's order: otherwise its place would be lost. The header
has its own ``type``, so a document's member ``type`` moves to ``x_members``.

The SEP names this layout but does not specify it; a draft by its author shows the lines. Neither
says what the checksum covers. Our footer says it with ``checksum_of``: ``lines`` means all bytes
before the footer, with LF at the end of each line. A document without a footer is truncated.
Spec: MIF 1.0 §1
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any, Final

from omsgrain.formats import json_text
from omsgrain.formats.document import fill, lift
from omsgrain.formats.json_text import of_bytes, spell
from omsgrain.formats.mif import Parsed
from omsgrain.formats.mif1.check import ARRAYS, LIMITS, RULES, SHAPES, WARNINGS, Kind, Mif1Limits
from omsgrain.formats.problems import FIRSTS, DocumentError, Problem
from omsgrain.formats.schema import Problems

HEADER: Final = "header"
_FOOTER: Final = "footer"
_KINDS: Final[dict[str, Kind]] = {
    "memory": "memory",
    "todo": "todo",
    "graph_node": "node",
    "graph_edge": "edge",
}
_TYPES = {kind: name for name, kind in _KINDS.items()}
_COUNTS: Final[dict[Kind, tuple[str, ...]]] = {
    "memory": ("memories", "memory", "total_memories"),
    "todo": ("todos", "todo", "total_todos"),
    "node": ("graph_nodes", "nodes", "graph_node"),
    "edge": ("graph_edges", "edges", "graph_edge"),
}
"""Names of a footer's counts; the first is ours."""
_ASIDE: Final = "x_members"
_OWN: Final = frozenset(("type", _ASIDE))
_OF: Final = "checksum_of"
_LINES: Final = "lines"
_POINTERS: Final = {kind: pointer for pointer, kind in ARRAYS.items()}


class _RecordLines:
    """The lines of a document, read to its footer, and what is wrong with them."""

    def __init__(self, data: bytes, limits: Mif1Limits) -> None:
        self._data, self._limits = data, limits
        self._lines = iter(BytesIO(data))
        self._number = self._end = 0
        self._counts: Counter[str] = Counter()
        self.problems = Problems(FIRSTS)  # lines that are not records
        self.warnings = Problems()  # defects that are accepted with a warning

    def header(self) -> dict[str, Any]:
        try:
            line = self._next()
            first: Any = None if line is None else self._value(line)
        except DocumentError as error:
            raise DocumentError([replace(one, line=1) for one in error.problems]) from None
        if not is_header(first):
            expected = None if line is None else '"type": "header"'
            raise DocumentError([_problem("no_header", 1, expected)])
        aside = first.get(_ASIDE)
        header = {name: value for name, value in first.items() if name not in _OWN}
        return header | aside if isinstance(aside, dict) else header

    def records(self) -> Iterator[tuple[Kind, Any, int]]:
        """Yield the kind of each record, its unchecked value, and its line, counted from 1."""
        while (line := self._next()) is not None:
            try:
                value = self._value(line)
            except DocumentError as error:
                self._bad(replace(error.problems[0], line=self._number))
                continue
            what = value.get("type") if isinstance(value, dict) else None
            if what == _FOOTER:
                self._finish(value, self._data[: self._end - len(line)])
                return
            kind = _KINDS.get(what) if isinstance(what, str) else None
            if kind is None or "data" not in value:
                self._bad(_problem("unknown_line", self._number, ", ".join(_KINDS)))
                continue
            self._counts[kind] += 1
            if len(value) > 2:
                self._warn("line_member", "")
            yield kind, value["data"], self._number
        raise DocumentError([_problem("no_footer", self._number)])

    def _next(self) -> bytes | None:
        """The next line that is not blank; skips a line that is too long."""
        for line in self._lines:
            self._number += 1
            self._end += len(line)
            if len(line.removesuffix(b"\n")) > self._limits.line:
                most = f"at most {self._limits.line} bytes"
                problem = _problem("too_large", self._number, most)
                if self._number == 1:
                    raise DocumentError([problem])
                self._bad(problem)
            elif line.strip():
                return line
        return None

    def _value(self, line: bytes) -> Any:
        limits = self._limits
        return json_text.parse(line, most=limits.line, depth=limits.depth, values=limits.values)

    def _bad(self, problem: Problem) -> None:
        self.problems.begin()
        self.problems.add(problem)
        if self.problems.too_many:
            raise DocumentError([_problem("too_many_bad", self._number, f"at most {FIRSTS}")])

    def _finish(self, footer: dict[str, Any], before: bytes) -> None:
        """Check the counts and the checksum of the footer."""
        number, found, unread = self._number, Problems(), self.problems.total
        counts = footer.get("counts")
        counts = counts if isinstance(counts, dict) else {}
        for kind, names in _COUNTS.items():
            said = [counts[name] for name in names if name in counts]
            # An unreadable line can be of any kind.
            seen = self._counts[kind]
            if said and (type(said[0]) is not int or not 0 <= said[0] - seen <= unread):
                found.add(_problem("count_mismatch", number, str(seen), pointer="/counts"))
        given = footer.get("checksum")
        if given != of_bytes(before) and given != of_bytes(_as_written(before)):
            if footer.get(_OF) == _LINES:
                found.add(_problem("checksum_mismatch", number, pointer="/checksum"))
            elif given is not None:
                self._warn("unknown_checksum", "/checksum")
        while self._next() is not None:
            self._bad(_problem("unknown_line", self._number, "no lines after the footer"))
        found.raise_any()

    def _warn(self, rule: str, pointer: str) -> None:
        says = WARNINGS[rule]
        self.warnings.add(Problem(rule, pointer, says, line=self._number))


def _as_written(lines: bytes) -> bytes:
    """Lines without what editors and version control add: CR, and a byte order mark."""
    return lines.removeprefix(json_text.MARK).replace(b"\r\n", b"\n")


def read(data: bytes, limits: Mif1Limits = LIMITS) -> Parsed:
    lines = _RecordLines(data, limits)
    header = lines.header()
    within = lift(header, ARRAYS)[1]
    arrays: dict[str, list[Any]] = {}
    numbers: dict[str, list[int]] = {}
    for kind, record, number in lines.records():
        pointer = _POINTERS[kind]
        if pointer not in arrays:
            arrays[pointer], numbers[pointer] = [], [1] * len(within.get(pointer, ()))
        arrays[pointer].append(record)
        numbers[pointer].append(number)
    return Parsed(
        assembled(header, arrays),
        "jsonl",
        numbers,
        tuple(lines.problems.found),
        tuple(lines.warnings.found),
        lines.problems.total,
    )


def is_header(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == HEADER and "mif_version" in value


def write(header: Mapping[str, Any], records: Iterable[tuple[Kind, Any]]) -> Iterator[bytes]:
    digest, counts = hashlib.sha256(), Counter[str]()
    aside = {name: value for name, value in header.items() if name in _OWN}
    first: dict[str, Any] = {"type": HEADER}
    first |= {name: value for name, value in header.items() if name not in _OWN}
    if aside:
        first[_ASIDE] = aside
    line = _spelled(first)
    digest.update(line)
    yield line
    for kind, record in records:
        line = _spelled({"type": _TYPES[kind], "data": record})
        counts[kind] += 1
        digest.update(line)
        yield line
    yield _spelled(
        {
            "type": _FOOTER,
            "checksum": f"sha256:{digest.hexdigest()}",
            _OF: _LINES,
            "counts": {names[0]: counts[kind] for kind, names in _COUNTS.items()},
        }
    )


def own_last(document: dict[str, Any]) -> dict[str, Any]:
    """A document in the order of its lines: members of ``x_members`` come last."""
    aside = {name: one for name, one in document.items() if name in _OWN}
    return {name: one for name, one in document.items() if name not in _OWN} | aside


def header_of(document: dict[str, Any]) -> dict[str, Any]:
    """A document's header. It keeps an empty array if the array's place would be lost."""
    envelope, arrays = lift(document, ARRAYS)
    full = {pointer: array for pointer, array in arrays.items() if array}
    lean = {name: value for name, value in envelope.items() if f"/{name}" not in full}
    if isinstance(graph := envelope.get("graph"), dict):
        rest = {name: value for name, value in graph.items() if f"/graph/{name}" not in full}
        lean["graph"] = rest
        if not rest and graph:
            del lean["graph"]
    again = assembled(lean, {pointer: [] for pointer in full})
    return lean if _orders(again) == _orders(document) else envelope


def assembled(header: dict[str, Any], arrays: Mapping[str, list[Any]]) -> dict[str, Any]:
    envelope, there = lift(header, ARRAYS)
    whole = {pointer: [*there.get(pointer, ()), *array] for pointer, array in arrays.items()}
    for pointer in whole:
        if pointer in there:
            continue
        *way, name = pointer[1:].split("/")
        if not way:
            envelope = _placed(envelope, name, [], "document")
        else:
            graph = envelope.get(way[0])
            if graph is not None and not isinstance(graph, dict):
                says, found = RULES["invalid_type"], json_text.kind_of(graph)
                problem = Problem("invalid_type", f"/{way[0]}", says, "an object", found, 1)
                raise DocumentError([problem])
            graph = _placed(graph or {}, name, [], way[0])
            envelope = _placed(envelope, way[0], graph, "document")
    return fill(envelope, there | whole)


def _placed(holder: dict[str, Any], name: str, value: Any, shape: str) -> dict[str, Any]:
    """Add a member to an object, at its place in the SEP's order."""
    if holder.get(name) is not None:
        return {**holder, name: value}
    order = [field.name for field in SHAPES[shape]]
    later = frozenset(order[order.index(name) + 1 :])
    placed: dict[str, Any] = {}
    for key, item in holder.items():
        if key in later and name not in placed:
            placed[name] = value
        placed[key] = item
    return placed | {name: value}


def _orders(document: dict[str, Any]) -> tuple[list[str], list[str]]:
    graph = document.get("graph")
    return list(document), list(graph) if isinstance(graph, dict) else []


def _spelled(value: dict[str, Any]) -> bytes:
    return spell(value) + b"\n"


def _problem(rule: str, line: int, expected: str | None = None, pointer: str = "") -> Problem:
    return Problem(rule, pointer, RULES[rule], expected, line=line)
