# SPDX-License-Identifier: Apache-2.0
"""Cut an input into whole lines of JSON, a few MiB at a time, and remember where each stood.

A JSON document is cut into its elements, one a line, without parsing them: the core's JSON
reader stays the only judge of what an element says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal

from omsgrain.errors import FormatError, OmsError, TooLargeError
from omsgrain.header import ENVELOPE_BYTE

CHUNK = 8 << 20  # whole lines of about this size are encoded at once
LONGEST_LINE = 16 << 20  # a grain of 1 MiB written in \u escapes takes 6 MiB of JSON
PEEK = 64 << 10
BLANK = b" \t\r\n\f"  # a line of these alone is no item

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_STRING = rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
# All up to the next bracket (or comma) outside strings; a quote stops it if its string has no end.
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*(?:%s[^"\[\]{}]*)*' % _STRING)
_TO_COMMA = re.compile(rb'[^"\[\]{},]*(?:%s[^"\[\]{},]*)*' % _STRING)


@dataclass(frozen=True, slots=True)
class SourceLines:
    data: bytes  # the lines, one JSON value each
    numbers: Sequence[int]  # the line of the source on which each begins
    # what makes an offset in the data one in the source: for each line, or one for all
    shifts: Sequence[int]
    consumed: int  # bytes of the source that they took
    error: OmsError | None = None  # what follows them in the source could not be taken as lines

    def place(self, error: OmsError) -> None:
        """Say where in the source the error is, instead of where in these lines."""
        if error.line is None:
            return
        row = error.line - 1
        error.line = self.numbers[row]
        if error.offset is not None:
            error.offset += self.shifts[row if len(self.shifts) > 1 else 0]

    def place_item(self, item: int, error: OmsError) -> None:
        """Say where in the source the item of an error is. It reads all lines: this is rare."""
        rows = self.data.split(b"\n")
        given = [row for row, text in enumerate(rows, 1) if text.strip(BLANK)]
        error.line = given[item]
        self.place(error)


def detect(head: bytes, name: str = "") -> Literal["json", "jsonl", "blob"]:
    """The kind of an input, by its beginning and its name."""
    if head[:1] in (b"\x01", ENVELOPE_BYTE):
        return "blob"
    named_lines = name.lower().endswith((".jsonl", ".ndjson"))
    text = head.removeprefix(_BOM).lstrip(_SPACE)
    if named_lines or not text:
        return "jsonl"
    if text[:1] == b"[":
        return "json"
    if text[:1] != b"{":
        expected = "JSON or a grain; or the name or format of a table, such as x.csv"
        found = "a ZIP archive, as .xlsx files are" if head.startswith(b"PK\x03\x04") else None
        raise FormatError("the format is unknown", expected=expected, found=found)
    first, newline, _ = text.partition(b"\n")
    return "json" if newline and not first.rstrip(_SPACE).endswith(b"}") else "jsonl"


def json_lines(stream: BinaryIO, head: bytes) -> Iterator[SourceLines]:
    """JSONL in chunks of whole lines; memory stays bounded whatever the file holds."""
    data, line, base = head, 1, 0
    while data := data + stream.read(max(0, CHUNK - len(data))):
        tail = b"" if data.endswith(b"\n") else stream.readline(LONGEST_LINE)
        data += tail
        error: OmsError | None = None
        consumed = len(data)
        if len(tail) == LONGEST_LINE and not tail.endswith(b"\n"):
            consumed += _skip_line(stream)
            data = data[: data.rfind(b"\n") + 1]
            error = TooLargeError("the line is too long", expected=f"at most {LONGEST_LINE} bytes")
        count = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
        if error is not None:
            error.line = line + count
        ahead = _ahead(data) if line > 1 else b""
        numbers = range(line - len(ahead), line + count)
        yield SourceLines(ahead + data, numbers, (base - len(ahead),), consumed, error)
        line += count + (error is not None)
        base += consumed
        data = b""


def _ahead(data: bytes) -> bytes:
    """A blank line before a byte order mark that is not at the beginning of the source.

    At the beginning of a chunk it would be passed over, and in the midst of one refused.
    """
    return b"\n" if data.startswith(_BOM) else b""


def _skip_line(stream: BinaryIO) -> int:
    skipped = 0
    while piece := stream.readline(CHUNK):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def document_lines(stream: BinaryIO, head: bytes) -> Iterator[SourceLines]:
    """The elements of a JSON array, or the one object, as lines."""
    document = head + stream.read()
    parts: list[bytes] = []
    numbers: list[int] = []
    shifts: list[int] = []
    size = consumed = 0
    error: OmsError | None = None
    try:
        for line, start, text in _elements(document):
            if not parts and _ahead(text):
                parts, numbers, shifts, size = [b""], [line], [start], 1
            parts.append(text.replace(b"\n", b" "))
            numbers.append(line)
            shifts.append(start - size)
            size += len(text) + 1
            if size >= CHUNK:
                taken = start + len(text) - consumed
                yield SourceLines(b"\n".join(parts), numbers, shifts, taken)
                parts, numbers, shifts, size, consumed = [], [], [], 0, consumed + taken
    except FormatError as broken:
        error = broken
    yield SourceLines(b"\n".join(parts), numbers, shifts, len(document) - consumed, error)


def _elements(document: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Line, start and text of each element; only brackets, commas and quotes are looked at."""
    at = len(document) - len(document.removeprefix(_BOM).lstrip(_SPACE))
    opener = document[at : at + 1]
    if opener not in (b"[", b"{"):
        raise FormatError("neither a JSON object nor an array of them", line=1)
    is_array, closer = opener == b"[", b"]" if opener == b"[" else b"}"
    start, at = at + is_array, at + 1
    depth, line, counted, after_comma = 1, 1, 0, False
    while True:
        run = (_TO_COMMA if is_array and depth == 1 else _TO_BRACKET).match(document, at)
        at = at if run is None else run.end()
        token = document[at : at + 1]
        if token in (b"", b'"'):
            raise _broken(document, at, "the document or a string has no end")
        if token in (b"[", b"{"):
            depth += 1
        elif token != b",":
            depth -= 1
        if depth > 0 and token != b",":
            at += 1
            continue
        if depth == 0 and token != closer:
            raise _broken(document, at, "a bracket does not match")
        text = document[start : at if is_array else at + 1]
        body = text.strip(_SPACE)
        if body:
            first = start + len(text) - len(text.lstrip(_SPACE))
            line, counted = line + document.count(b"\n", counted, first), first
            yield line, first, body
        elif after_comma or token == b",":
            raise _broken(document, at, "an element is missing")
        at += 1
        if depth == 0:
            break
        start, after_comma = at, True
    if document[at:].strip(_SPACE):
        raise _broken(document, at, "text after the end of the document")


def _broken(document: bytes, at: int, message: str) -> FormatError:
    return FormatError(message, line=1 + document.count(b"\n", 0, at), offset=at)
