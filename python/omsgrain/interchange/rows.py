# SPDX-License-Identifier: Apache-2.0
"""The rows of CSV, TSV, Parquet, JSON and JSON lines, with the line of each, in bounded memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, BinaryIO, Final, Literal

from omsgrain import _core
from omsgrain.errors import FormatError, OmsError, SchemaError
from omsgrain.formats import source_lines

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
_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}
_NAMED: Final = 20  # columns in an error


@dataclass(slots=True)
class RowChunk:
    """Some rows of an input.

    Attributes:
        rows: the columns of each.
        lines: the line of each; in Parquet, the number of the row, from 1.
        errors: of the lines that are no rows, each with its line.
        consumed: the bytes of the input that they took, about.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    errors: list[OmsError] = field(default_factory=list)
    consumed: int = 0


@dataclass(frozen=True, slots=True)
class RowLines:
    """The lines of the items of a batch that a mapping made."""

    numbers: list[int]

    def place_item(self, item: int, error: OmsError) -> None:
        """Say on which line the item of an error is."""
        error.line = self.numbers[item]


def format_of(name: str) -> RowFormat | None:
    """Return the format of a table by the name of its file; None for JSON and others."""
    return next((form for end, form in _SUFFIXES.items() if name.lower().endswith(end)), None)


def row_chunks(
    stream: BinaryIO,
    format: RowFormat | Literal["auto"],
    columns: Sequence[str] | None,
    *,
    name: str = "",
    most: int = ROWS,
) -> Iterator[RowChunk]:
    """Yield the rows of an input.

    Args:
        stream: the input; it must be seekable for Parquet.
        format: its format; "auto": JSON or JSON lines.
        columns: the columns that are needed; None: all.
        name: the name of the file, for "auto".
        most: rows of a chunk, about.

    Raises:
        SchemaError: a table has no such column, or two of one name.
        FormatError: the input is not of this format.
    """
    if format == "parquet":
        return _parquet(stream, columns, most)
    if format in _DELIMITERS:
        return _table(stream, _DELIMITERS[format], columns, most)
    return _objects(stream, format, name, most)


class _Lines:
    """The lines of a stream as text; bytes that are not UTF-8 become surrogates."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
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
            text = data.decode("utf-8", "surrogateescape")
            if first:
                text, first = text.removeprefix("\ufeff"), False
            yield from io.StringIO(text, newline="\n")


def _table(
    stream: BinaryIO, delimiter: str, columns: Sequence[str] | None, most: int
) -> Iterator[RowChunk]:
    lines = _Lines(stream)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next(reader, None)
    except csv.Error as error:
        raise FormatError(f"not a table: {error}", line=1) from None
    if header is None:
        raise FormatError("the table is empty", line=1, expected="a line with the columns' names")
    wanted = _wanted(header, columns)
    names = [name for _, name in wanted]
    cells = _cells([at for at, _ in wanted])
    width, chunk, told = len(header), RowChunk(), 0
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            # The reader starts again at the next line.
            message = f"not a row of the table: {error}"
            chunk.errors.append(
                FormatError(message, line=line, found=_span(line, reader.line_num))
            )
            continue
        if len(row) == width:
            chunk.rows.append(dict(zip(names, cells(row), strict=True)))
            chunk.lines.append(line)
        elif row:
            chunk.errors.append(
                FormatError(
                    "not a row of the table",
                    line=line,
                    expected=f"{width} cells",
                    found=str(len(row)),
                )
            )
        if len(chunk.rows) + len(chunk.errors) >= most:
            chunk.consumed, told = lines.consumed - told, lines.consumed
            yield chunk
            chunk = RowChunk()
    chunk.consumed = lines.consumed - told
    yield chunk


def _cells(places: Sequence[int]) -> Callable[[list[str]], Sequence[str]]:
    """Return a function for the cells of a row at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: [row[at] for at in places]


def _span(first: int, last: int) -> str | None:
    return f"lines {first} to {last}, to a quote without end" if last > first else None


def _wanted(header: Sequence[str], columns: Sequence[str] | None) -> list[tuple[int, str]]:
    """Return the places and names of the columns that are read."""
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"the table has two columns {twice!r}", line=1)
    if columns is None:
        return [(at, name) for at, name in enumerate(header) if name]
    for name in columns:
        if name not in header:
            shown = ", ".join(header[:_NAMED]) + ("…" if len(header) > _NAMED else "")
            raise SchemaError(f"the table has no column {name!r}", line=1, expected=shown)
    return [(at, name) for at, name in enumerate(header) if name in columns]


def _parquet(stream: BinaryIO, columns: Sequence[str] | None, most: int) -> Iterator[RowChunk]:
    from omsgrain.store.arrow import arrow

    pa = arrow()
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(stream)
        header = file.schema_arrow.names
        tops = None if columns is None else list(dict.fromkeys(c.split(".")[0] for c in columns))
        wanted = [name for _, name in _wanted(header, tops)]
        size, total, line = stream.seek(0, 2), file.metadata.num_rows or 1, 1
        for batch in file.iter_batches(batch_size=most, columns=wanted):
            rows = batch.to_pylist()
            lines = list(range(line, line + len(rows)))
            yield RowChunk(rows, lines, [], size * len(rows) // total)
            line += len(rows)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"the Parquet file is damaged: {type(error).__name__}") from None


def _objects(stream: BinaryIO, format: str, name: str, most: int) -> Iterator[RowChunk]:
    head = stream.read(source_lines.PEEK)
    kind = source_lines.detect(head, name) if format == "auto" else format
    if kind == "blob":
        raise FormatError("a blob has no rows", expected="JSON, CSV, TSV or Parquet")
    cut = source_lines.json_lines if kind == "jsonl" else source_lines.document_lines
    for lines in cut(stream, head):
        chunk = RowChunk()
        for number, text in zip(lines.numbers, lines.data.split(b"\n"), strict=False):
            if not text.strip(source_lines.BLANK):
                continue
            try:
                chunk.rows.append(_object(text))
                chunk.lines.append(number)
            except OmsError as error:
                error.line = number
                chunk.errors.append(error)
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
