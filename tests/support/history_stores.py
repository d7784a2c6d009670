# SPDX-License-Identifier: Apache-2.0
"""A store whose grains are put, superseded and taken back row by row, without asking a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest

import omsgrain as og
from omsgrain.storage.base import Reader, Storage, Writer
from omsgrain.storage.records import pack, unpack
from omsgrain.storage.tables import SEQUENCE, STATES, SUPERSEDES
from support.store_kinds import POSTGRES, made

P = ParamSpec("P")
T = TypeVar("T")

TIME = 1_700_000_000_000
ABSENT = "ab" * 32
#: In memory; on disk with the index in memory; on disk with the index in its tables.
FORMS = ("memory", "lmdb", "flushed", POSTGRES)


def belief(what: object, at: int = 0, **fields: Any) -> bytes:
    whole = {"type": "belief", "subject": "lamp", "relation": "is", "object": str(what)}
    return og.encode(whole | {"confidence": 0.5, "created_at": TIME + at} | fields)


class Kept:
    """A store to look at."""

    def __init__(self, store: Storage, flushed: bool = False) -> None:
        self.store = store
        self.flushed = flushed

    def put(self, *blobs: bytes) -> list[str]:
        addresses = [og.address(blob) for blob in blobs]
        pairs = [(bytes.fromhex(a), blob) for a, blob in zip(addresses, blobs, strict=True)]
        self.store.write(lambda writer: writer.put(pairs))
        return addresses

    def supersede(self, *pairs: tuple[str, str]) -> None:
        """Note that the first of each pair was superseded by the second."""

        def work(writer: Writer) -> None:
            for old, new in pairs:
                before, after = (SEQUENCE.pack(seq_of(writer, a)) for a in (old, new))
                known = unpack(writer.row(STATES, before)).successors
                heads = tuple(sorted({*known, new}))
                change(writer, old, successors=heads, superseded_by=heads[0])
                writer.set_row(SUPERSEDES, after + before, b"")

        self.store.write(work)

    def line(self, *blobs: bytes) -> list[str]:
        """Put grains of which each superseded the one before."""
        addresses = self.put(*blobs)
        self.supersede(*pairwise(addresses))
        return addresses

    def retract(self, address: str) -> None:
        self.store.write(lambda writer: change(writer, address, verification_status="retracted"))

    def remove(self, address: str) -> None:
        self.store.write(lambda writer: writer.remove(seq_of(writer, address)))

    def ask(
        self, function: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self.flushed:
            self.store.flush()
        with self.store.read() as reader:
            return function(reader, *args, **kwargs)


def seq_of(reader: Reader, address: str) -> int:
    seq = reader.find([bytes.fromhex(address)])[0]
    assert seq is not None
    return seq


def change(writer: Writer, address: str, **changes: Any) -> None:
    seq = seq_of(writer, address)
    known = unpack(writer.row(STATES, SEQUENCE.pack(seq)))
    writer.set_row(STATES, SEQUENCE.pack(seq), pack(replace(known, **changes)))
    writer.set_past(seq, writer.is_past(seq))


def kept_in(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    """A fixture, one for each of `FORMS`."""
    form = request.param
    store = made(form, tmp_path / "memory.omsg")
    yield Kept(store, form == "flushed")
    store.close()
