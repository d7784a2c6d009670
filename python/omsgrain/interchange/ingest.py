# SPDX-License-Identifier: Apache-2.0
"""Put grains into a store from JSON, JSON lines, a blob or envelopes, a few MiB at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Protocol, TypeAlias

import omsgrain as og
from omsgrain.container.layout import MAGIC
from omsgrain.errors import OmsError, SchemaError, UnsupportedError
from omsgrain.formats import compressed, source_lines
from omsgrain.formats.source_lines import SourceLines
from omsgrain.header import ENVELOPE_BYTE
from omsgrain.interchange.rows import MappedRows, RowFormat, format_of, row_chunks

if TYPE_CHECKING:
    from omsgrain.batch import GrainBatch
    from omsgrain.grain import EncodeOptions
    from omsgrain.interchange.field_map import Mapping
    from omsgrain.store import GrainStore

IngestFormat: TypeAlias = Literal["auto", "blob"] | RowFormat
BLOB_LIMIT: Final = 4 << 20
"""Bytes that are read: four times the largest grain, so that the core can tell its size."""
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_HEAD = 4 << 10


@dataclass(frozen=True, slots=True)
class IngestOptions:
    errors: Literal["raise", "collect"]  # stop at a bad grain, or store the others
    encoding: EncodeOptions
    allow_erased: bool  # store also grains that were erased


@dataclass(frozen=True, slots=True)
class IngestStep:
    """The outcome of one chunk of the input, which is durable when the step is yielded."""

    consumed: int  # bytes of the input
    stored: int = 0  # new grains
    duplicates: int = 0  # grains that were stored before
    # one error for each refused grain, with its line in JSON lines
    rejected: list[OmsError] = field(default_factory=list)
    # line, 0 for a message of a recording, and text of probable mistakes
    warnings: list[tuple[int, str]] = field(default_factory=list)


def ingest(
    store: GrainStore,
    stream: BinaryIO,
    *,
    name: str = "",
    format: IngestFormat = "auto",
    errors: Literal["raise", "collect"] = "raise",
    options: EncodeOptions | None = None,
    allow_erased: bool = False,
    mapping: Mapping | None = None,
) -> Iterator[IngestStep]:
    """Store the grains of a stream; each step stores one chunk. Tables need a mapping."""
    form = (format_of(name) or format) if format == "auto" else format
    how = IngestOptions(errors, options or {}, allow_erased)
    if mapping is not None or form in ("csv", "tsv", "parquet"):
        yield from _rows(store, stream, name, form, mapping, how)
        return
    stream, name = compressed.opened(stream, name)
    head = stream.read(source_lines.PEEK)
    kind = source_lines.detect(head, name) if form == "auto" else form
    if kind == "blob":
        from omsgrain.crypto.cose import envelopes

        is_signed = head[:1] == ENVELOPE_BYTE
        data = head + stream.read(-1 if is_signed else BLOB_LIMIT)  # there may be many envelopes
        if options:
            text = "bytes are stored as they are; options of encoding do not apply"
            raise UnsupportedError(text)
        items = list(envelopes(data)) if is_signed else [data]
        report = store.put_many(items, errors=errors, allow_erased=allow_erased)
        rejected = [item.error for item in report.errors]
        yield IngestStep(len(data), report.stored, report.duplicates, rejected)
        return
    cut = source_lines.json_lines if kind == "jsonl" else source_lines.document_lines
    for lines in cut(stream, head):
        yield _lines(store, lines, how)


def _lines(store: GrainStore, lines: SourceLines, how: IngestOptions) -> IngestStep:
    batch = og.encode_jsonl(lines.data, errors="collect", **how.encoding)
    rejected = [item.error for item in batch.errors]
    for error in rejected:
        lines.place(error)
    if lines.error is not None:
        rejected.append(lines.error)

    warnings = [(lines.numbers[w.line - 1], w.message) for w in batch.warnings if w.line]
    step = IngestStep(lines.consumed, rejected=rejected, warnings=warnings)
    return store_batch(store, batch, step, lines, how)


def _rows(
    store: GrainStore,
    stream: BinaryIO,
    name: str,
    format: IngestFormat,
    mapping: Mapping | None,
    how: IngestOptions,
) -> Iterator[IngestStep]:
    """Store the grains that a mapping makes of rows."""
    if mapping is None:
        raise SchemaError("rows of a table need a mapping", expected="mapping")
    if format == "blob":
        raise UnsupportedError("a mapping is for rows, not for blobs")
    columns = None if mapping.rest is not None else mapping.columns
    for chunk in row_chunks(stream, format, columns, name=name):
        fields: list[dict[str, Any]] = []
        mapped = MappedRows(chunk)
        rejected = chunk.errors
        for row, made in enumerate(mapping.apply_many(chunk.rows)):
            if isinstance(made, OmsError):
                chunk.place(row, made)
                rejected.append(made)
            else:
                fields.append(made)
                mapped.numbers.append(row)
        batch = og.encode_many(fields, errors="collect", **how.encoding)
        for item in batch.errors:
            mapped.place_item(item.index, item.error)
            rejected.append(item.error)
        warnings = [(chunk.lines[mapped.numbers[w.index]], w.message) for w in batch.warnings]
        step = IngestStep(chunk.consumed, rejected=rejected, warnings=warnings)
        yield store_batch(store, batch, step, mapped, how)


class ItemPlaces(Protocol):
    """Where the items of a batch come from."""

    def place_item(self, item: int, error: OmsError) -> None:
        """Say in an error where its item is."""


def store_batch(
    store: GrainStore,
    batch: GrainBatch,
    step: IngestStep,
    lines: ItemPlaces,
    how: IngestOptions,
) -> IngestStep:
    """Store a batch, and complete its step; errors of grains get the lines of their items."""
    rejected = step.rejected
    if how.errors == "raise" and rejected:
        raise min(rejected, key=_line)
    try:
        report = store.put_many(
            batch,
            errors=how.errors,
            batch_size=max(1, len(batch)),
            allow_erased=how.allow_erased,
        )
    except SchemaError:
        from omsgrain.store.write import prepare

        (prepared,) = prepare(batch, len(batch))
        item = prepared.errors[0]
        lines.place_item(batch.indices[item.index], item.error)
        raise item.error from None
    for item in report.errors:
        lines.place_item(batch.indices[item.index], item.error)
        rejected.append(item.error)
    rejected.sort(key=_line)
    return replace(step, stored=report.stored, duplicates=report.duplicates)


def _line(error: OmsError) -> int:
    return error.line or 0


def read_blob(path: Path) -> bytes:
    """Return the content of a file; of one too large for a grain, its beginning."""
    with path.open("rb") as file:
        return file.read(BLOB_LIMIT)


def one_grain(data: bytes) -> bytes:
    """Refuse data that is no blob: text, or a container, whose name ends in .mg too."""
    if data.startswith(MAGIC):
        raise UnsupportedError(
            "a container of many grains",
            expected="one grain; import it, and name the grain by its address",
        )
    refuse_text(data[:_HEAD], "a grain")
    return data


def refuse_text(head: bytes, wanted: str) -> None:
    """Refuse a file of grains that begins as text: no grain and no container does."""
    if head and not _CONTROL.search(head):  # both have small numbers in front
        from omsgrain.formats.table import FORMATS

        is_json = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
        raise UnsupportedError(
            "JSON of no known format" if is_json else "a file of no known format",
            expected=f"{wanted}, or a document: {', '.join(FORMATS)}",
        )
