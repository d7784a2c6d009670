# SPDX-License-Identifier: Apache-2.0
"""Input of a store: blobs, envelopes in a row, JSON of one or several grains.

As messages of a broker, and as a file; and as a file that is read in very small pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Final
from unittest.mock import patch

from fuzz import seeds
from fuzz.target import Run, Target
from omsgrain import crypto
from omsgrain.formats import source_lines
from omsgrain.interchange.ingest import IngestFormat, ingest
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import GrainStore
from omsgrain.store.take_messages import MessageRefusal, MessageReport, take
from support.signers import ALICE, GRAIN, IAT

_CUT: Final = b"\n%%\n"
"""Between the messages of an input."""


@contextmanager
def _messages(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        messages = data.split(_CUT)[:20]
        with GrainStore(MemoryStorage()) as together, GrainStore(MemoryStorage()) as apart:
            whole = take(together, messages)
            each = [take(apart, [message]) for message in messages]
            stored = {change.address for change in together.changes()}
            assert stored == {change.address for change in apart.changes()}
        assert whole.stored == sum(one.stored for one in each) == len(stored)
        assert whole.duplicates == sum(one.duplicates for one in each)
        alone = {i: one.refused[0] for i, one in enumerate(each) if one.refused}
        assert {i: _told(one) for i, one in whole.refused.items()} == {
            i: _told(one) for i, one in alone.items()
        }
        for message, one in zip(messages, each, strict=True):
            _all_of_a_list(message, one)
        for refusal in alone.values():
            raise refusal.error

    yield run


@contextmanager
def _ingest(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        kind = source_lines.detect(data[: source_lines.PEEK])
        found = _put_in(data, kind)
        with patch.multiple(source_lines, CHUNK=200, PEEK=40):
            assert _put_in(data, kind) == found, "pieces of another size give something else"
        with GrainStore(MemoryStorage()) as store:
            list(ingest(store, BytesIO(data), format=kind))
            assert not found[1], "refused where errors are collected, and taken otherwise"

    yield run


def _put_in(data: bytes, kind: IngestFormat) -> tuple[set[str], list[tuple[object, ...]]]:
    """The content of the store, and the refusals."""
    with GrainStore(MemoryStorage()) as store:
        steps = list(ingest(store, BytesIO(data), format=kind, errors="collect"))
        stored = {change.address for change in store.changes()}
    assert sum(step.stored for step in steps) == len(stored)
    assert sum(step.consumed for step in steps) == len(data)
    refused = [error for step in steps for error in step.rejected]
    return stored, [(one.code, one.field, one.line, one.offset) for one in refused]


def _told(refusal: MessageRefusal) -> tuple[object, ...]:
    return refusal.error.code, refusal.error.field, refusal.error.line, refusal.count


def _all_of_a_list(message: bytes, taken: MessageReport) -> None:
    """See that each element of a list was taken, or refused."""
    try:
        values = json.loads(message)
    except (ValueError, RecursionError):
        return
    if isinstance(values, list) and values:
        refused = sum(one.count for one in taken.refused.values())
        assert taken.stored + taken.duplicates + refused == len(values)


def _each_form() -> list[bytes]:
    rows, blobs = seeds.inputs()[:12], seeds.blobs()[:4]
    signed = crypto.sign(GRAIN, ALICE, iat=IAT)
    listed, lines = b"[\n" + b",\n".join(rows) + b"]\n", b"\n".join(rows)
    mixed = (rows[0], blobs[0], signed, listed, lines, b"", b" ", b"\xef\xbb\xbf" + rows[1])
    return [
        *rows[:4], *blobs, signed, signed + signed, listed, lines, lines.replace(b"\n", b"\r\n"),
        json.dumps(json.loads(rows[0]), indent=1).encode(), _CUT.join(mixed),
    ]  # fmt: skip


TARGETS = {
    "messages": Target(_messages, _each_form, "json"),
    "ingest": Target(_ingest, _each_form, "json"),
}
