# SPDX-License-Identifier: Apache-2.0
"""The check finds each row that makes no sense, and a rebuild mends what follows from the rest."""

from __future__ import annotations

import struct
from pathlib import Path
from shutil import copytree
from typing import Any

import msgpack
import pytest

import omsgrain as og
from omsgrain.storage import audit
from omsgrain.storage.check import check
from omsgrain.storage.lmdb.reader import address_key
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.records import GrainStatus, pack
from omsgrain.storage.tables import (
    ADDRESSES,
    AUDIT,
    COUNTER,
    COUNTERS,
    DELETED,
    EVENT,
    EVENTS,
    HEAD,
    HEAD_RECORD,
    HELD,
    HOLDS,
    META,
    MODELS,
    OLD_ADDRESSES,
    PAST_TERMS,
    REVIEWS,
    SEQUENCE,
    STATES,
    SUPERSEDED,
    SUPERSEDES,
    TERMS,
    VECTORS,
    Table,
)
from support.store_contract import pair, put

GRAINS = [
    pair(og.encode({"type": "event", "content": f"number {n}", "created_at": n}))
    for n in range(1, 8)
]
SUPERSEDING, REMOVED, MISSING = 2, 7, 99
"""Grain 1 was superseded by 2 and 3 by 7, which was removed; 4 is held, 5 has a vector."""


def key(seq: int) -> bytes:
    return SEQUENCE.pack(seq)


def address(seq: int) -> str:
    return GRAINS[seq - 1][0].hex()


def succeeded(*addresses: str) -> bytes:
    row = pack(GrainStatus(superseded_by=min(addresses), successors=addresses))
    assert row is not None
    return row


def supersede(writer: Any, old: int, new: int) -> None:
    writer.set_row(STATES, key(old), succeeded(address(new)))
    writer.set_past(old, True)
    writer.set_row(SUPERSEDES, key(new) + key(old), b"")
    number = writer.event(SUPERSEDED, old, GRAINS[old - 1][0])
    writer.set_row(REVIEWS, key(number), msgpack.packb({"operation": "supersede"}))
    writer.set_row(REVIEWS, key(old), msgpack.packb({"operation": "put"}))


def live(writer: Any) -> None:
    """The states of the grains."""
    supersede(writer, 1, 2)
    supersede(writer, 3, REMOVED)
    writer.set_row(HOLDS, key(4), msgpack.packb([["court", None, 1]]))
    writer.event(HELD, 4, GRAINS[3][0])
    writer.set_row(COUNTERS, key(4), COUNTER.pack(3, 1_700_000_000_000))
    writer.set_row(MODELS, b"small", msgpack.packb({"id": 1, "dimension": 2}))
    writer.set_row(VECTORS, struct.pack(">IQ", 1, 5), struct.pack("<2f", 1, 2))
    writer.event(DELETED, REMOVED, GRAINS[REMOVED - 1][0])
    writer.remove(REMOVED)
    audit.append(writer, operation="delete", actor=None, digests=[GRAINS[6][0]], time=1)


@pytest.fixture(scope="module", params=["written", "in the tail"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("states") / "memory.omsg"
    store = LmdbStorage(path)
    put(store, *GRAINS)
    if request.param == "written":
        store.flush()
    store.write(live)
    store.close()
    report = check(path)
    assert report.ok, report.problems
    return path


def event(kind: bytes, seq: int, digest: bytes) -> bytes:
    return EVENT.pack(kind, seq, digest)


ANY = b"\0" * 32
Row = tuple[Table, bytes, bytes | None]
#: A row that is set, or deleted; what the check then names; whether a rebuild mends it.
DAMAGES: dict[str, tuple[Row, tuple[str, int | None], bool]] = {
    "state of no grain": ((STATES, key(MISSING), b"\x10\x80"), ("state", MISSING), False),
    "state that is none": ((STATES, key(4), b"\xff\xff"), ("state", 4), False),
    "state under no number": ((STATES, b"four", b"\x10\x80"), ("state", None), False),
    "state without its index": ((STATES, key(5), b"\x02\x80"), ("term", 5), True),
    "state that is gone": ((STATES, key(1), None), ("term", 1), True),
    "successor nobody knows": ((STATES, key(1), succeeded("ab" * 32)), ("state", 1), False),
    "no way back": ((SUPERSEDES, key(2) + key(1), None), ("state", 1), True),
    "way to nowhere": ((SUPERSEDES, key(2) + key(4), b""), ("state", None), True),
    "counter of no grain": (
        (COUNTERS, key(MISSING), COUNTER.pack(1, 1)),
        ("state", MISSING),
        False,
    ),
    "counter that is none": ((COUNTERS, key(4), b"1"), ("state", 4), False),
    "hold on no grain": ((HOLDS, key(MISSING), b"\x91\xc0"), ("state", MISSING), False),
    "hold that is none": ((HOLDS, key(4), b"\xc1"), ("state", 4), False),
    "event of no kind": ((EVENTS, key(8), event(b"?", 1, GRAINS[0][0])), ("state", None), False),
    "event to come": ((EVENTS, key(500), event(b"S", 1, GRAINS[0][0])), ("state", 1), False),
    "event before its grain": ((EVENTS, key(8), event(b"S", 8, ANY)), ("state", 8), False),
    "event with the number of a grain": (
        (EVENTS, key(2), event(b"S", 1, GRAINS[0][0])),
        ("state", 1),
        False,
    ),
    "event of another address": ((EVENTS, key(8), event(b"S", 1, ANY)), ("state", 1), False),
    "event that explains a gap": ((EVENTS, key(11), None), ("state", 3), False),
    "review of nothing": ((REVIEWS, key(1), b"\x80"), ("state", None), False),
    "review of a grain to come": (
        (REVIEWS, key(500), msgpack.packb({"operation": "put"})),
        ("state", None),
        False,
    ),
    "review that is none": ((REVIEWS, key(8), b"\x01"), ("state", None), False),
    "model that is none": ((MODELS, b"large", b"\x80"), ("state", None), False),
    "two models with a number": (
        (MODELS, b"large", msgpack.packb({"id": 1, "dimension": 2})),
        ("state", None),
        False,
    ),
    "vector of no model": ((VECTORS, struct.pack(">IQ", 7, 5), bytes(8)), ("state", 5), False),
    "vector of no grain": (
        (VECTORS, struct.pack(">IQ", 1, MISSING), bytes(8)),
        ("state", MISSING),
        False,
    ),
    "vector too long": ((VECTORS, struct.pack(">IQ", 1, 5), bytes(12)), ("state", 5), False),
    "vector under no number": ((VECTORS, b"\0\0\0\1", bytes(8)), ("state", None), False),
    "entry of the audit": ((AUDIT, key(2), b"\x80"), ("audit", None), False),
    "address of no grain": ((ADDRESSES, address_key(ANY, MISSING), b""), ("address", None), True),
    "old address of no grain": (
        (OLD_ADDRESSES, address_key(ANY, MISSING), b""),
        ("address", None),
        True,
    ),
    "term of no grain": ((TERMS, b"nowhere", bytes(16)), ("term", None), True),
    "term in both tables": ((PAST_TERMS, b"a", bytes(16)), ("term", None), True),
    "counts": ((META, HEAD_RECORD, HEAD.pack(11, 5, 7, 0)), ("head", None), True),
}


def test_the_numbers_of_the_events(store: Path) -> None:
    """The table above names them."""
    inner = LmdbStorage(store, readonly=True)
    with inner.read() as reader:
        numbers = [SEQUENCE.unpack(k)[0] for k, _ in reader.rows(EVENTS)]
    inner.close()
    assert numbers == [8, 9, 10, 11]


@pytest.mark.parametrize("name", DAMAGES)
def test_each_is_found(store: Path, tmp_path: Path, name: str) -> None:
    (table, row, value), (where, seq), mended = DAMAGES[name]
    path = Path(copytree(store, tmp_path / "memory.omsg"))
    inner = LmdbStorage(path)
    inner.write(lambda writer: writer.set_row(table, row, value))
    report = check(path)
    assert (where, seq) in {(problem.where, problem.seq) for problem in report.problems}
    assert not report.ok
    inner.rebuild()
    assert check(path).ok == mended
    inner.close()
