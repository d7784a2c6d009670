# SPDX-License-Identifier: Apache-2.0
"""Put grains into a store from JSON, JSON lines, a blob or envelopes, a few MiB at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

import omsgrain as og
from omsgrain.container.layout import MAGIC
from omsgrain.errors import OmsError, SchemaError, UnsupportedError
from omsgrain.formats import source_lines
from omsgrain.formats.source_lines import Format, SourceLines
from omsgrain.header import ENVELOPE_BYTE

if TYPE_CHECKING:
    from omsgrain.batch import GrainBatch, ItemError
    from omsgrain.grain import EncodeOptions
    from omsgrain.store import GrainStore

BLOB_LIMIT: Final = 4 << 20
"""Bytes that are read: four times the largest grain, so that the core can tell its size."""
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_HEAD = 4 << 10


@dataclass(frozen=True, slots=True)
class IngestStep:
    """The outcome of one chunk of the input, which is durable when the step is yielded."""

    consumed: int  # bytes of the input
    stored: int = 0  # new grains
    duplicates: int = 0  # grains that were stored before
    # one error for each refused grain, with its line in JSON lines
    rejected: list[OmsError] = field(default_factory=list)
    # line and text of probable mistakes
    warnings: list[tuple[int, str]] = field(default_factory=list)


def ingest(
    store: GrainStore,
    stream: BinaryIO,
    *,
    name: str = "",
    format: Format = "auto",
    errors: Literal["raise", "collect"] = "raise",
    options: EncodeOptions | None = None,
    allow_erased: bool = False,
) -> Iterator[IngestStep]:
    """Store the grains of a stream; each step stores one chunk."""
    head = stream.read(source_lines.PEEK)
    kind = source_lines.detect(head, name) if format == "auto" else format
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
        yield _lines(store, lines, errors, options or {}, allow_erased)


def _lines(
    store: GrainStore,
    lines: SourceLines,
    errors: Literal["raise", "collect"],
    options: EncodeOptions,
    allow_erased: bool,
) -> IngestStep:
    batch = og.encode_jsonl(lines.data, errors="collect", **options)
    rejected = {item.index: item.error for item in batch.errors}
    for error in rejected.values():
        lines.place(error)
    if errors == "raise" and rejected:
        raise rejected[min(rejected)]
    if errors == "raise" and lines.error is not None:
        raise lines.error
    try:
        report = store.put_many(
            batch, errors=errors, batch_size=max(1, len(batch)), allow_erased=allow_erased
        )
    except SchemaError:
        from omsgrain.store.write import prepare

        (prepared,) = prepare(batch, len(batch))
        raise _place(lines, batch, prepared.errors[0]) from None
    for item in report.errors:
        rejected[batch.indices[item.index]] = _place(lines, batch, item)
    refused = [rejected[index] for index in sorted(rejected)]
    if lines.error is not None:
        refused.append(lines.error)
    warnings = [(lines.numbers[w.line - 1], w.message) for w in batch.warnings if w.line]
    return IngestStep(lines.consumed, report.stored, report.duplicates, refused, warnings)


def _place(lines: SourceLines, batch: GrainBatch, item: ItemError) -> OmsError:
    """Add the line to the error of a grain that was encoded, then refused; this is rare."""
    rows = lines.data.split(b"\n")
    given = [row for row, text in enumerate(rows, 1) if text.strip(source_lines.BLANK)]
    item.error.line = given[batch.indices[item.index]]
    lines.place(item.error)
    return item.error


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
    head = data[:_HEAD]
    if head and not _CONTROL.search(head):  # a blob begins with a version, which is a small number
        from omsgrain.formats.table import FORMATS

        is_json = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
        raise UnsupportedError(
            "JSON of no known format" if is_json else "a file of no known format",
            expected=f"a grain, or a document: {', '.join(FORMATS)}",
        )
    return data
