# SPDX-License-Identifier: Apache-2.0
"""Store the grains of many messages in one commit.

A message is a blob, a sequence of envelopes, one JSON grain, a JSON list of grains, or JSON lines.
A rejected part of one message does not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from omsgrain.batch import encode_jsonl
from omsgrain.counts import counted
from omsgrain.errors import EmptyError, ErasedError, OmsError, TooLargeError
from omsgrain.formats import source_lines
from omsgrain.header import ENVELOPE_BYTE

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

MESSAGE = 16 << 20
"""Maximum bytes of a message; a grain of 1 MiB takes up to 6 MiB in JSON."""
_BLOB = b"\x01"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class MessageRefusal:
    """Why a message, or a part of it, was rejected."""

    error: OmsError  # the first rejection; ``line`` is the line in a message of several grains
    count: int = 1  # how many grains of the message were rejected
    erased: bool = False  # one of them was erased before, so the message must not be kept anywhere


@dataclass(frozen=True, slots=True)
class MessageReport:
    """The result of storing messages."""

    stored: int = 0  # new grains
    duplicates: int = 0  # grains that were in the store already
    warnings: int = 0  # grains that are allowed but look like a mistake
    # the rejections, by the position of the message
    refused: dict[int, MessageRefusal] = field(default_factory=dict)

    __repr__ = counted


class _GrainPlace(NamedTuple):
    """The position of a grain: its message, and its line if that has several."""

    message: int
    line: int | None


class _Refused(dict[int, MessageRefusal]):
    def add(self, place: _GrainPlace, error: OmsError) -> None:
        if error.line is not None or place.line is not None:
            error.line = place.line
        before = self.get(place.message) or MessageRefusal(error, 0)
        erased = before.erased or isinstance(error, ErasedError)
        self[place.message] = MessageRefusal(before.error, before.count + 1, erased)


def take(
    store: GrainStore,
    messages: Sequence[bytes],
    *,
    most: int = MESSAGE,
    allow_erased: bool = False,
) -> MessageReport:
    """Store the grains of messages. They are durable when the call returns.

    If the store cannot be written, the call raises and can be repeated.
    """
    refused = _Refused()
    places: list[_GrainPlace] = []
    blobs: list[bytes] = []
    lines: list[bytes] = []  # JSON, which is encoded in one call
    slots: list[int] = []  # for each line, the index of its blob in `blobs`
    for i, data in enumerate(messages):
        place = _GrainPlace(i, None)
        try:
            for line, grain in _grains(data, most):
                place = _GrainPlace(i, line)
                if data[:1] not in (_BLOB, ENVELOPE_BYTE):
                    slots.append(len(blobs))
                    lines.append(grain)
                blobs.append(grain)
                places.append(place)
        except OmsError as error:
            refused.add(_GrainPlace(i, error.line), error)
    warnings = _encode(lines, slots, places, blobs, refused)
    good = [n for n, blob in enumerate(blobs) if blob]
    if not good:
        return MessageReport(warnings=warnings, refused=dict(refused))
    report = store.put_many(
        [blobs[n] for n in good], errors="collect", batch_size=len(good), allow_erased=allow_erased
    )
    for item in report.errors:
        refused.add(places[good[item.index]], item.error)
    return MessageReport(report.stored, report.duplicates, warnings, dict(refused))


def _encode(
    lines: list[bytes],
    slots: list[int],
    places: list[_GrainPlace],
    blobs: list[bytes],
    refused: _Refused,
) -> int:
    """Encode each line into its slot, or empty it if the line is rejected; count the warnings."""
    if not lines:
        return 0
    # Start with a blank line, so that a byte order mark inside a message is refused.
    batch = encode_jsonl(b"\n".join((b"", *lines)), errors="collect")
    for slot in slots:
        blobs[slot] = b""
    for index, blob in zip(batch.indices, batch.blobs, strict=True):
        blobs[slots[index]] = blob
    for item in batch.errors:
        item.error.offset = None  # the offset counts from the first of all lines
        refused.add(places[slots[item.index]], item.error)
    return len(batch.warnings)


def _grains(data: bytes, most: int) -> Iterator[tuple[int | None, bytes]]:
    """Return the grains of a message with their lines: blobs, envelopes or lines of JSON."""
    if len(data) > most:
        expected, found = f"at most {most} bytes", f"{len(data)} bytes"
        raise TooLargeError("the message is too large", expected=expected, found=found)
    if data[:1] == _BLOB:
        yield None, data
        return
    if data[:1] == ENVELOPE_BYTE:
        from omsgrain.crypto.cose import envelopes

        for envelope in envelopes(data):
            yield None, envelope
        return
    data = data.removeprefix(_BOM)
    text = data.strip(source_lines.BLANK)
    if not text:
        raise EmptyError("the message is empty")
    if text[:1] == b"{" and b"\n" not in text:
        yield None, text
        return
    head = data[: source_lines.PEEK]
    kind = source_lines.detect(head)
    cut = source_lines.json_lines if kind == "jsonl" else source_lines.document_lines
    count = 0
    for lines in cut(BytesIO(data[source_lines.PEEK :]), head):
        rows = lines.data.split(b"\n")
        for line, row in zip(lines.numbers, rows, strict=False):
            if row.strip(source_lines.BLANK):
                count += 1
                yield line, row
        if lines.error is not None:
            raise lines.error
    if not count:
        raise EmptyError("the message contains no grain")
