# SPDX-License-Identifier: Apache-2.0
"""The rows of CSV, TSV, Parquet, JSON and JSON lines, with the line of each, in bounded memory."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, BinaryIO, Final, Literal

from omsgrain import _core
from omsgrain.errors import FormatError, OmsError, SchemaError, UnsupportedError
from omsgrain.formats import compressed, source_lines
from omsgrain.formats.json_text import MARK

RowFormat = Literal["json", "jsonl", "csv", "tsv", "parquet"]

ROWS: Final = 10_000  # of a chunk
LONGEST_LINE: Final = 1 << 20  # bytes; of a longer line the rest is skipped
_READ: Final = 1 << 20
_SUFFIXES: Final[dict[str, RowFormat]] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
}
_DELIMITERS: Final = (",", ";", "\t", "|")
_QUOTED: Final = re.compile('"[^"]*"')
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_UTF_8: Final = "UTF-8; convert the file, for example with iconv"
_HEADER: Final = "a line with the columns' names"
_NAMED: Final = 20  # columns in an error


@dataclass(slots=True)
class RowChunk:
    """Some rows of an input."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # the columns of each
    # the line of each; in Parquet, the number of the row, from 1
    lines: list[int] = field(default_factory=list)
    errors: list[OmsError] = field(default_factory=list)  # of the lines that are no rows
    consumed: int = 0  # the bytes of the input that they took, about
    # of elements of a JSON array, where each begins in the input
    offsets: list[int] = field(default_factory=list)

    def place(self, row: int, error: OmsError) -> None:
        """Say in an error where its row is."""
        error.line = self.lines[row]
        if self.offsets:
            error.offset = self.offsets[row]


@dataclass(frozen=True, slots=True)
class MappedRows:
    """The rows of a chunk that the items of a batch were made of."""

    chunk: RowChunk
    numbers: list[int] = field(default_factory=list)

    def place_item(self, item: int, error: OmsError) -> None:
        """Say in an error where the row of its item is."""
        self.chunk.place(self.numbers[item], error)


def format_of(name: str) -> RowFormat | None:
    """Return the format of a table by the name of its file; None for JSON and others."""
    bare = name.lower().removesuffix(compressed.SUFFIX)
    return next((form for end, form in _SUFFIXES.items() if bare.endswith(end)), None)


def row_chunks(
    stream: BinaryIO,
    format: RowFormat | Literal["auto"],
    columns: Sequence[str] | None,
    *,
    name: str = "",
    most: int = ROWS,
) -> Iterator[RowChunk]:
    """Yield the rows of an input with some columns, or all, about ``most`` in a chunk.

    Parquet must be seekable. The format "auto" is JSON or JSON lines, also by the file's name.
    """
    stream, name = compressed.opened(stream, name)
    if format == "parquet":
        return _parquet(stream, columns, most)
    if format in ("csv", "tsv"):
        return _table(stream, format, columns, most)
    return _objects(stream, format, name, most)


class _Lines:
    """The lines of a stream as text, and which of them are not UTF-8.

    Of a line longer than the limit the rest is skipped.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._read = 0  # lines so far
        self._spoilt: deque[int] = deque()  # of the block that is read, in order
        self.consumed = 0

    def __iter__(self) -> Iterator[str]:
        stream, first = self._stream, True
        while data := stream.read(_READ):
            if not data.endswith(b"\n"):
                data += stream.readline(LONGEST_LINE)
            self.consumed += len(data)
            while not data.endswith(b"\n") and (more := stream.readline(LONGEST_LINE)):
                self.consumed += len(more)
                if more.endswith(b"\n"):
                    data += b"\n"
            if first and (data.startswith(_UTF_16) or b"\0" in data[: data.find(b"\n")]):
                raise FormatError("the text is UTF-16 or binary", line=1, expected=_UTF_8)
            text = self._text(data)
            if first:
                text, first = text.removeprefix("\ufeff"), False
            self._read += data.count(b"\n")
            yield from io.StringIO(text, newline="\n")

    def _text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            for number, line in enumerate(data.split(b"\n"), self._read + 1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    self._spoilt.append(number)
            return data.decode("utf-8", "replace")

    def are_spoilt(self, last: int) -> bool:
        """Whether one of the lines up to a number is not UTF-8; ask in order."""
        found = False
        while self._spoilt and self._spoilt[0] <= last:
            self._spoilt.popleft()
            found = True
        return found


def _table(
    stream: BinaryIO, format: RowFormat, columns: Sequence[str] | None, most: int
) -> Iterator[RowChunk]:
    lines = _Lines(stream)
    walk, skipped, first = iter(lines), 0, ""
    for first in walk:
        if first.strip():
            break
        skipped += 1
    if not first.strip():
        raise FormatError("the table is empty", line=1, expected=_HEADER)
    if "\r" in first.rstrip("\r\n") and '"' not in first:
        raise FormatError("lines end in CR alone", line=1, expected="lines that end in LF or CRLF")
    reader = csv.reader(chain((first,), walk), strict=True, **_dialect(first, format))
    try:
        header = next(reader)
    except csv.Error as error:
        raise FormatError(f"not a table: {error}", line=skipped + 1) from None
    if lines.are_spoilt(skipped + reader.line_num):
        raise FormatError("the header is not UTF-8", line=skipped + 1, expected=_UTF_8)
    wanted = _wanted(_names(header), columns)
    names = [name for _, name in wanted]
    cells = _cells([at for at, _ in wanted])
    width, chunk, told = len(header), RowChunk(), 0
    while True:
        line = skipped + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            # The reader starts again at the next line.
            chunk.errors.append(_no_row(error, line, skipped + reader.line_num))
            continue
        if lines.are_spoilt(skipped + reader.line_num):
            chunk.errors.append(FormatError("the row is not UTF-8", line=line, expected=_UTF_8))
        elif len(row) == width:
            chunk.rows.append(dict(zip(names, cells(row), strict=True)))
            chunk.lines.append(line)
        elif row:
            chunk.errors.append(
                FormatError(
                    "not a row of the table",
                    line=line,
                    expected=f"{width} cells, as in the header",
                    found=str(len(row)),
                )
            )
        if len(chunk.rows) + len(chunk.errors) >= most:
            chunk.consumed, told = lines.consumed - told, lines.consumed
            yield chunk
            chunk = RowChunk()
    chunk.consumed = lines.consumed - told
    yield chunk


def _dialect(first: str, format: RowFormat) -> dict[str, Any]:
    """Return how a table is spelled, by its header: semicolons for commas, spaces after them."""
    bare = _QUOTED.sub("", first)
    delimiter = "\t" if format == "tsv" else max(_DELIMITERS, key=bare.count)
    _, *others = bare.split(delimiter)
    spaced = bool(others) and all(name.startswith(" ") for name in others)
    return {"delimiter": delimiter, "skipinitialspace": spaced}


def _cells(places: Sequence[int]) -> Callable[[list[str]], Sequence[str]]:
    """Return a function for the cells of a row at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: [row[at] for at in places]


def _no_row(error: csv.Error, first: int, last: int) -> FormatError:
    """Return the error for lines that csv refused."""
    found = f"lines {first} to {last}, to a quote without end" if last > first else None
    if "field limit" in str(error):
        expected = f"cells of at most {csv.field_size_limit():,} characters"
        return FormatError("a cell is too long", line=first, expected=expected, found=found)
    return FormatError(f"not a row of the table: {error}", line=first, found=found)


def _names(header: Sequence[str]) -> list[str]:
    """Return a name for each column: one without has its number, the second ``a`` is ``a#2``."""
    names: list[str] = []
    seen: dict[str, int] = {}
    for at, name in enumerate(header, 1):
        name = name or f"#{at}"
        made = name
        while made in seen:
            seen[name] += 1
            made = f"{name}#{seen[name]}"
        seen[made] = 1
        names.append(made)
    return names


def _wanted(header: Sequence[str], columns: Sequence[str] | None) -> list[tuple[int, str]]:
    """Return the places and names of the columns that are read."""
    if columns is None:
        return list(enumerate(header))
    places = {name: at for at, name in enumerate(header)}
    for name in columns:
        if name not in places:
            shown = ", ".join(header[:_NAMED]) + ("…" if len(header) > _NAMED else "")
            raise SchemaError(f"the table has no column {name!r}", line=1, expected=shown)
    return sorted((places[name], name) for name in dict.fromkeys(columns))


def _parquet(stream: BinaryIO, columns: Sequence[str] | None, most: int) -> Iterator[RowChunk]:
    from omsgrain.store.arrow import arrow

    pa = arrow()
    import pyarrow.parquet as pq

    if not stream.seekable():
        expected, found = "a file that is not in gzip", "a pipe, or gzip"
        raise UnsupportedError("Parquet is read from its end", expected=expected, found=found)
    try:
        file = pq.ParquetFile(stream)
        header = file.schema_arrow.names
        twice = next((name for name, count in Counter(header).items() if count > 1), None)
        if twice is not None:
            raise SchemaError(f"the table has two columns {twice!r}", line=1)
        tops = None if columns is None else list(dict.fromkeys(c.split(".")[0] for c in columns))
        wanted = [name for _, name in _wanted(header, tops)]
        size, total, line = stream.seek(0, 2), file.metadata.num_rows or 1, 1
        for batch in file.iter_batches(batch_size=most, columns=wanted):
            rows = _plain(batch).to_pylist()
            lines = list(range(line, line + len(rows)))
            yield RowChunk(rows, lines, [], size * len(rows) // total)
            line += len(rows)
    except (pa.ArrowException, OSError):
        expected = "a complete Parquet file"
        raise FormatError("the Parquet file is damaged", expected=expected) from None


def _plain(batch: Any) -> Any:
    """Return a batch whose values Python has; nanoseconds are text, which keeps their digits."""
    import pyarrow as pa

    for plain in (_in_utc, _readable):
        schema = pa.schema([one.with_type(_within(one.type, plain)) for one in batch.schema])
        if not schema.equals(batch.schema):
            batch = batch.cast(schema)
    return batch


def _within(kind: Any, change: Callable[[Any], Any]) -> Any:
    """Change a type of Arrow, or the types inside it."""
    import pyarrow as pa

    def inner(one: Any) -> Any:
        return one.with_type(_within(one.type, change))

    if pa.types.is_dictionary(kind):
        return _within(kind.value_type, change)
    if pa.types.is_struct(kind):
        return pa.struct([inner(one) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(inner(kind.key_field), inner(kind.item_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inner(kind.value_field), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(inner(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(inner(kind.value_field))
    return change(kind)


def _in_utc(kind: Any) -> Any:
    """Change the zone of nanoseconds to UTC, whose text is RFC 3339."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind) and kind.unit == "ns" and kind.tz is not None:
        return pa.timestamp("ns", "UTC")
    return kind


def _readable(kind: Any) -> Any:
    """Change nanoseconds and times of day to text, and spans of time to counts of their unit."""
    import pyarrow as pa

    if pa.types.is_time(kind) or (pa.types.is_timestamp(kind) and kind.unit == "ns"):
        return pa.string()
    return pa.int64() if pa.types.is_duration(kind) else kind


def _objects(stream: BinaryIO, format: str, name: str, most: int) -> Iterator[RowChunk]:
    head = stream.read(source_lines.PEEK)
    kind = source_lines.detect(head, name) if format == "auto" else format
    if kind == "blob":
        raise FormatError("a blob has no rows", expected="JSON, CSV, TSV or Parquet")
    cut = source_lines.json_lines if kind == "jsonl" else source_lines.document_lines
    for lines in cut(stream, head):
        chunk, begin = RowChunk(), len(MARK) if lines.data.startswith(MARK) else 0
        for row, text in enumerate(lines.data[begin:].split(b"\n")):
            begin += len(text) + 1
            if not text.strip(source_lines.BLANK):
                continue
            try:
                chunk.rows.append(_object(text))
            except OmsError as error:
                error.line = row + 1
                if error.offset is not None:
                    error.offset += begin - len(text) - 1
                lines.place(error)
                chunk.errors.append(error)
                continue
            chunk.lines.append(lines.numbers[row])
            if lines.starts:
                chunk.offsets.append(lines.starts[row])
            if len(chunk.rows) + len(chunk.errors) >= most:
                yield chunk
                chunk = RowChunk()
        if lines.error is not None:
            chunk.errors.append(lines.error)
        chunk.consumed = lines.consumed
        yield chunk


def _object(text: bytes) -> dict[str, Any]:
    row, _ = _core.parse_json(text)
    if not isinstance(row, dict):
        raise SchemaError("not a row", expected="a JSON object", found=type(row).__name__)
    return row
