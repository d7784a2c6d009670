# SPDX-License-Identifier: Apache-2.0
"""Cut an input into whole lines of JSON, a few MiB at a time, and remember where each stood.

A JSON document is cut into its elements, one a line, without parsing them: the core's JSON
reader stays the only judge of what an element says.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal, NamedTuple

from omsgrain.errors import FormatError, OmsError, TooLargeError
from omsgrain.header import ENVELOPE_BYTE

CHUNK = 8 << 20  # whole lines of about this size are encoded at once
LONGEST_LINE = 16 << 20  # a grain of 1 MiB written in \u escapes takes 6 MiB of JSON
MOST_LINES = 1 << 17  # are encoded at once: each bad one becomes an error
PEEK = 64 << 10
BLANK = b" \t\r\n\f"  # a line of these alone is no item

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_STRING = rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
# All up to the next bracket (or comma) outside strings; a quote stops it if its string has no end.
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*(?:%s[^"\[\]{}]*)*' % _STRING)
_TO_COMMA = re.compile(rb'[^"\[\]{},]*(?:%s[^"\[\]{},]*)*' % _STRING)
_OPEN_STRING = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*(\\?)\Z')
_SPACES = re.compile(rb"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class SourceLines:
    data: bytes  # the lines, one JSON value each
    numbers: Sequence[int]  # the line of the source on which each begins
    # what makes an offset in the data one in the source: for each line, or one for all
    shifts: Sequence[int]
    consumed: int  # bytes of the source that they took
    error: OmsError | None = None  # what follows them in the source could not be taken as lines
    starts: Sequence[int] = ()  # of elements of a document: the offset of each in the source
    first: int | None = None  # of elements of an array: the index of the first

    def place(self, error: OmsError) -> None:
        """Say where in the source the error is, instead of where in these lines."""
        if error.line is None:
            return
        row = error.line - 1
        error.line = self.numbers[row]
        if error.offset is not None:
            error.offset += self.shifts[row if len(self.shifts) > 1 else 0]
        if self.first is not None:
            error.field = f"/{self.first + row}{error.field or ''}"
            error.offset = self.starts[row] if error.offset is None else error.offset

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
        end = base + consumed
        while data.count(b"\n") > MOST_LINES:
            rest = data.split(b"\n", MOST_LINES)[-1]
            part = data[: len(data) - len(rest)]
            yield _whole_lines(part, line, base, len(part))
            line, base, data = line + MOST_LINES, base + len(part), rest
        lines = _whole_lines(data, line, base, end - base, error)
        line, base, data = lines.numbers[-1] + 1 if data else line, end, b""
        if error is not None:
            error.line = line
            line += 1
        yield lines


def _whole_lines(
    data: bytes, line: int, base: int, consumed: int, error: OmsError | None = None
) -> SourceLines:
    count = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    ahead = _ahead(data) if line > 1 else b""
    numbers = range(line - len(ahead), line + count)
    return SourceLines(ahead + data, numbers, (base - len(ahead),), consumed, error)


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
    """The elements of a JSON array, or the one object, as lines; memory stays bounded here too."""
    document = _Document(stream, head)
    cut, index, consumed = _CutElements(0), 0, 0
    for element in document.elements():
        error = None if element.text is not None else element.too_long(document.is_array, index)
        if element.text is not None:
            cut.add(element, element.text)
        index += 1
        if cut.is_full or error is not None:
            yield cut.lines(document.is_array, element.end - consumed, error)
            cut, consumed = _CutElements(index), element.end
    yield cut.lines(document.is_array, document.rest() - consumed, document.error)


class _Element(NamedTuple):
    line: int
    start: int
    end: int
    text: bytes | None  # None: it is too long

    def too_long(self, in_array: bool, index: int) -> OmsError:
        return TooLargeError(
            "the element is too long",
            field=f"/{index}" if in_array else None,
            offset=self.start,
            line=self.line,
            expected=f"at most {LONGEST_LINE} bytes",
        )


class _CutElements:
    """Elements as lines, and their places; ``first`` is the index of the first."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._parts: list[bytes] = []
        self._numbers, self._starts, self._shifts = array("Q"), array("Q"), array("q")
        self._size = 0

    @property
    def is_full(self) -> bool:
        return self._size >= CHUNK or len(self._parts) >= MOST_LINES

    def add(self, element: _Element, text: bytes) -> None:
        before = 0
        if text.startswith(_BOM):  # at the beginning of a chunk it would be passed over
            text, before = b" " + text, 1
        self._parts.append(text.replace(b"\n", b" "))
        self._numbers.append(element.line)
        self._starts.append(element.start)
        self._shifts.append(element.start - before - self._size)
        self._size += len(text) + 1

    def lines(self, in_array: bool, consumed: int, error: OmsError | None) -> SourceLines:
        data = b"\n".join(self._parts)
        first = self._first if in_array else None
        return SourceLines(data, self._numbers, self._shifts, consumed, error, self._starts, first)


class _Document:
    """A document that is cut into elements; only brackets, commas and quotes are looked at.

    It holds the element that it is at, and what was read behind it. Of an element that is too long
    it holds no more than it needs to find the end.
    """

    def __init__(self, stream: BinaryIO, head: bytes) -> None:
        self.is_array = False
        self.error: FormatError | None = None  # where the document is broken
        self._stream = stream
        self._data = head
        self._offset = 0  # of the data in the source
        self._start = 0  # of the element in the data
        self._line = 1  # of the source, at the element

    def elements(self) -> Iterator[_Element]:
        """Yield the elements before the end of the document, or before it is broken."""
        try:
            yield from self._elements()
        except FormatError as error:
            self.error = error

    def rest(self) -> int:
        """Read what follows; return the size of the source."""
        size = self._offset + len(self._data)
        while piece := self._stream.read(CHUNK):
            size += len(piece)
        return size

    def _elements(self) -> Iterator[_Element]:
        while len(self._data) < len(_BOM) and self._read():
            pass
        self._start = len(_BOM) if self._data.startswith(_BOM) else 0
        opener = self._next()
        if opener not in (b"[", b"{"):
            raise FormatError("neither a JSON object nor an array of them", line=1)
        self.is_array = opener == b"["
        if self.is_array:
            yield from self._in_array()
        else:
            line, start = self._line, self._offset + self._start
            at = self._end()
            if self._data[at - 1 : at] != b"}":
                raise self._broken(at - 1, "a bracket does not match")
            yield self._element(line, start, at)
            self._move(at)
        if self._next():
            raise self._broken(self._start, "text after the end of the document")

    def _in_array(self) -> Iterator[_Element]:
        is_first, token = True, b","
        self._start += 1
        while token == b",":
            self._next()
            line, start = self._line, self._offset + self._start
            at = self._end()
            token = self._data[at : at + 1]
            if token == b"}":
                raise self._broken(at, "a bracket does not match")
            if self._offset + at > start:
                yield self._element(line, start, at)
            elif token == b"," or not is_first:
                raise self._broken(at, "an element is missing")
            self._move(at + 1)
            is_first = False

    def _element(self, line: int, start: int, at: int) -> _Element:
        size = self._offset + at - start
        text = None if size > LONGEST_LINE else self._data[self._start : at].rstrip(_SPACE)
        return _Element(line, start, self._offset + at, text)

    def _next(self) -> bytes:
        """Go to the next byte that is no space, and return it; at the end of the source b""."""
        while True:
            found = _SPACES.match(self._data, self._start)
            self._move(self._start if found is None else found.end())
            if self._start < len(self._data) or not self._read():
                return self._data[self._start : self._start + 1]

    def _move(self, at: int) -> None:
        self._line += self._data.count(b"\n", self._start, at)
        self._start = at

    def _end(self) -> int:
        """Find the end of an element: the comma or the bracket behind it; behind an object."""
        at, depth = self._start, 0
        while True:
            run = (_TO_BRACKET if depth or not self.is_array else _TO_COMMA).match(self._data, at)
            at = at if run is None else run.end()
            token = self._data[at : at + 1]
            if token in (b"", b'"'):
                string = _OPEN_STRING.match(self._data, at) if token else None
                place = self._offset + at
                if (token and string is None) or not self._read(string):
                    raise self._broken(at, "the document or a string has no end")
                at = max(0, place - self._offset)
            elif token in (b"[", b"{"):
                depth += 1
                at += 1
            elif depth == 0:
                return at
            else:
                depth -= 1
                at += 1
                if depth == 0 and not self.is_array:
                    return at

    def _read(self, string: re.Match[bytes] | None = None) -> bool:
        """Read on; False at the end of the source. ``string`` is one without an end so far."""
        piece = self._stream.read(CHUNK)
        if not piece:
            return False
        held = self._data[self._start :]
        if len(held) > LONGEST_LINE:
            self._move(len(self._data))
            held = b"" if string is None else b'"' + string[1]
            self._start = len(self._data) - len(held)
        self._offset += self._start
        self._data, self._start = held + piece, 0
        return True

    def _broken(self, at: int, message: str) -> FormatError:
        line = self._line + self._data.count(b"\n", self._start, at)
        return FormatError(message, line=line, offset=self._offset + at)
