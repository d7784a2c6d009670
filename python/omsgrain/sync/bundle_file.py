# SPDX-License-Identifier: Apache-2.0
"""The file of a sync between machines without a network: a .mg container with records in it.

    head | batch, its grains | batch, its grains | ... | tail

Each record stands in opaque grains of the domain type 0xFB, whose map has

    type     "omsgrain:sync"
    record   "head", "batch" or "tail"
    value    MessagePack (``wire.py``): a ``Head``, a ``Batch`` without its grains, or a ``Tail``
    part, of number of this part of the value, from 0, and how many there are
    grains   of a batch: how many follow its last part

The container's footer covers every byte: a torn or a changed file is known before it is used. Who
made it, it does not prove. Spec: OMS §11
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from omsgrain import _core, container
from omsgrain.container.write import Written
from omsgrain.errors import CorruptError, SchemaError, TooLargeError, UnsupportedError
from omsgrain.grain import encode
from omsgrain.intake import SYNC_BYTE, SYNC_TYPE, is_sync_record
from omsgrain.sync import bounds, wire
from omsgrain.sync.peer import Batch, Position

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.trust import Trust

__all__ = ["VERSION", "BundleFile", "Head", "Tail", "write_file"]

T = TypeVar("T", "Head", "Tail", "Batch")

VERSION: Final = 1
"""Of the file."""
_PART: Final = 512 << 10  # bytes of a value in one record: a grain has at most 1 MiB
_PARTS: Final = 64
_MOST_KEYS = 1_000
_BATCH: Final = (
    256 << 20
)  # bytes of its grains: SIZE, and a grain of 1 MiB for each of its signers

_Kind = Literal["head", "batch", "tail"]


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says of itself first.

    Attributes:
        version: of the file.
        store: id of the store that it comes from; nothing of one that has none.
        to: id of the store that it is for: what came from there is left out. Nothing: for any.
        namespaces: it has only grains of these; None: of all.
        since: the position in the feed of the store from which on it has everything.
        anew: it begins from the start, since the feed is not the one that was taken before.
        taken: how far the store has taken the feed of the one that this is for.
        tombstones: digest of its tombstones; nothing without any.
        followed: digest of those of the one that this is for, when all were taken.
        keys: of tombstones, if they were to go along.
        written: when, ms since 1970.
    """

    version: int
    store: bytes
    to: bytes
    namespaces: tuple[str, ...] | None
    since: Position
    anew: bool
    taken: Position | None
    tombstones: bytes
    followed: bytes
    keys: tuple[bytes, ...]
    written: int


@dataclass(frozen=True, slots=True)
class Tail:
    """What a file says of itself last.

    Attributes:
        until: the position up to which it has everything.
        batches: how many there are.
        grains: how many are in them.
    """

    until: Position
    batches: int
    grains: int


def write_file(path: Path, head: Head, batches: Iterable[Batch]) -> tuple[Written, Tail]:
    """Write a file, or several parts of it if one cannot hold all.

    Args:
        path: the file; one that is there is replaced when all is written.
        head: what it says of itself.
        batches: are taken one after the other, and not kept.

    Raises:
        StoreError: it cannot be written.
    """
    tails: list[Tail] = []

    def records() -> Iterator[bytes]:
        tail = Tail(head.since, 0, 0)
        yield from _records("head", head, head.written)
        for batch in batches:
            told = replace(batch, grains=())
            # An older store may have taken a record as a grain: among grains none is readable.
            grains = [grain for grain in batch.grains if not is_sync_record(grain)]
            yield from _records("batch", told, head.written, len(grains))
            yield from grains
            until = tail.until if batch.until is None else batch.until
            tail = Tail(until, tail.batches + 1, tail.grains + len(grains))
        tails.append(tail)
        yield from _records("tail", tail, head.written)

    written = container.write(path, records(), codec="zstd", check=False)
    return written, tails[0]


def _records(kind: _Kind, value: Head | Tail | Batch, at: int, grains: int = 0) -> Iterator[bytes]:
    data = wire.pack(value)
    parts = [data[i : i + _PART] for i in range(0, len(data), _PART)]
    for number, part in enumerate(parts):
        fields = {
            "type": SYNC_TYPE,
            "created_at": at,
            "record": kind,
            "value": part,
            "part": number,
            "of": len(parts),
            "grains": grains if number == len(parts) - 1 else 0,
        }
        yield encode(fields, type_byte=SYNC_BYTE)


class BundleFile:
    """A file that was opened; every byte of it was verified, and every count.

    Args:
        path: the file, or the name that its parts have in common.

    Raises:
        NotFoundError: there is no such file.
        SchemaError: it is a .mg file, and none of a sync.
        UnsupportedError: it is of another version.
        CorruptError: its records and grains do not follow each other as they must.
        OmsError: it is torn, changed, or no .mg file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._files: list[container.Container] = []
        try:
            for part in container.parts(path):
                self._files.append(container.read(part))
                self._files[-1].verify()
            if (first := next(self._grains(), None)) is None or not is_sync_record(first):
                raise SchemaError("a .mg file, and none of a sync", expected=SYNC_TYPE)
            self.head: Head = _Reading(self._grains()).record("head", Head)[0]
            for _ in self.batches():  # all of it is sound before the first batch is used
                pass
        except BaseException:
            self.close()
            raise

    def signer(self, trust: Trust | None = None, resolver: Resolver | None = None) -> str | None:
        """Return who has signed every byte of it; arguments and errors as of ``signer_of``."""
        from omsgrain.crypto.files import signer_of

        return signer_of(((one.path, one.inside.data) for one in self._files), trust, resolver)

    def batches(self) -> Iterator[Batch]:
        """Walk its batches.

        Raises:
            CorruptError: it does not go on as it must, or its end is missing.
            TooLargeError: a batch is larger than any that is written.
        """
        reading = _Reading(self._grains())
        reading.record("head", Head)
        seen = Tail(self.head.since, 0, 0)
        while reading.next_kind() == "batch":
            batch, count = reading.record("batch", Batch)
            if batch.grains or (batch.store, batch.namespaces) != (
                self.head.store,
                self.head.namespaces,
            ):
                raise CorruptError("a batch of another file")
            batch = replace(batch, grains=reading.grains(count))
            until = seen.until if batch.until is None else batch.until
            seen = Tail(until, seen.batches + 1, seen.grains + count)
            yield batch
        tail, _ = reading.record("tail", Tail)
        if tail != seen or reading.next_kind() is not None:
            raise CorruptError("the end of the file does not fit what stands before")

    def close(self) -> None:
        """Let go of it."""
        while self._files:
            self._files.pop().close()

    def __enter__(self) -> BundleFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _grains(self) -> Iterator[bytes]:
        return chain.from_iterable(self._files)


class _Reading:
    """A walk through the records and grains of a file."""

    def __init__(self, grains: Iterator[bytes]) -> None:
        self._grains = grains
        self._ahead: bytes | None = next(grains, None)

    def next_kind(self) -> str | None:
        """The kind of the record that comes next; None at the end."""
        if self._ahead is None:
            return None
        return str(_fields(self._ahead).get("record"))

    def record(self, kind: _Kind, cls: type[T]) -> tuple[T, int]:
        """The next record, and how many grains follow it.

        Raises:
            CorruptError: it is not the one that must stand here.
        """
        parts: list[bytes] = []
        many: object = None
        while True:
            if self._ahead is None:
                raise CorruptError("the end of the file is missing", expected=kind)
            fields = _fields(self._ahead)
            value, grains = fields.get("value"), fields.get("grains")
            many = many if parts else fields.get("of")
            place = (kind, len(parts), many)
            if (fields.get("record"), fields.get("part"), fields.get("of")) != place or not (
                isinstance(value, bytes)
                and isinstance(grains, int)
                and 0 <= grains <= bounds.GRAINS
                and isinstance(many, int)
                and len(parts) < many <= _PARTS
            ):
                raise CorruptError("a record of another kind", expected=kind)
            parts.append(value)
            self._ahead = next(self._grains, None)
            if len(parts) == many:
                return _value(cls, b"".join(parts)), grains

    def grains(self, count: int) -> tuple[bytes, ...]:
        """So many grains.

        Raises:
            CorruptError: there are not so many.
            TooLargeError: they do not fit into memory together.
        """
        found: list[bytes] = []
        size = 0
        for _ in range(count):
            if self._ahead is None:
                raise CorruptError("grains of a batch are missing")
            if is_sync_record(self._ahead):
                raise CorruptError("a record where a grain of a batch should stand")
            size += len(self._ahead)
            if size > _BATCH:
                expected = f"at most {_BATCH} bytes of grains"
                raise TooLargeError("a batch is larger than is taken", expected=expected)
            found.append(self._ahead)
            self._ahead = next(self._grains, None)
        return tuple(found)


def _fields(blob: bytes) -> dict[str, object]:
    if not is_sync_record(blob):
        raise CorruptError("a grain where a record should stand")
    fields: dict[str, object] = _core.decode(blob)
    return fields


def _value(cls: type[T], data: bytes) -> T:
    if cls is Head and data[1:2] != bytes([VERSION]):  # its first field
        raise UnsupportedError("a file of another version of sync", expected=str(VERSION))
    value = wire.unpack(cls, data)
    if isinstance(value, Head):
        bounds.check((value.since, value.taken or value.since))
        bounds.check_count(value.keys, _MOST_KEYS)
        if any(len(one) not in (0, bounds.ID) for one in (value.store, value.to)):
            raise CorruptError("not the id of a store")
    elif isinstance(value, Tail):
        bounds.check(value.until)
    else:
        bounds.check(value)
    return value
