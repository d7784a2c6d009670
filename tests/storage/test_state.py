# SPDX-License-Identifier: Apache-2.0
"""States of grains: their bytes, and details of the store on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from omsgrain._core import term
from omsgrain.errors import IntegrityError, SchemaError
from omsgrain.storage.base import Writer
from omsgrain.storage.lmdb.memtable import Memtable
from omsgrain.storage.lmdb.reader import LmdbReader
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.lmdb.writer import LmdbWriter
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.records import (
    CONTESTED,
    RESTRICTED,
    RETRACTED,
    SUPERSEDED,
    VERIFIED,
    GrainStatus,
    pack,
    unpack,
)
from omsgrain.storage.tables import ADDRESSES, BLOBS, HELD, PAST_TERMS, STATES, TERMS, Table
from support.child_process import run
from support.paths import TESTS
from support.small_grains import (
    ALL,
    WHICH,
    change,
    elsewhere,
    facts,
    key,
    put,
    remove,
    retract,
    split,
)
from support.state_model import walk

A, B = "aa" * 32, "bb" * 32


# --- the bytes of a state ------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.omsg"


@pytest.fixture
def store(path: Path) -> Iterator[LmdbStorage]:
    store = LmdbStorage(path, durable=False)
    yield store
    store.close()


@pytest.mark.parametrize(
    ("state", "bits"),
    [
        (GrainStatus(), 0),
        (GrainStatus(superseded_by=A, system_valid_to=7, successors=(A, B)), SUPERSEDED),
        (GrainStatus(verification_status="retracted"), RETRACTED),
        (GrainStatus(restricted=True), RESTRICTED),
        (GrainStatus(verification_status="contested", system_valid_to=-1), CONTESTED),
        (GrainStatus(verification_status="verified"), VERIFIED),
        (
            GrainStatus(
                superseded_by=A,
                successors=(A,),
                verification_status="contested",
                restricted=True,
            ),
            SUPERSEDED | RESTRICTED | CONTESTED,
        ),
    ],
)
def test_a_state_comes_back(state: GrainStatus, bits: int) -> None:
    row = pack(state)
    assert state.bits == bits
    assert unpack(row) == state
    assert (row is None) == (state == GrainStatus())
    assert row is None or row[0] == bits
    # Reads and holds stand elsewhere.
    assert pack(replace(state, access_count=5, last_accessed_at=6, held=True)) == row


def test_a_state_of_two_minds() -> None:
    for state in (
        GrainStatus(superseded_by=A),
        GrainStatus(successors=(A,)),
        GrainStatus(B, successors=(A, B)),
    ):
        with pytest.raises(SchemaError):
            pack(state)


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b"\x00",
        b"\x20\x80",  # a bit that does not exist
        b"\x12\x80",  # retracted and verified
        b"\x01\x80",  # superseded by nothing
        b"\x00\x81\xa1s\x91\xc4\x20" + bytes(32),  # not superseded, and by whom
        b"\x01\x81\xa1s\x91\xc4\x01a",  # an address of one byte
        b"\x01\x81\xa1s\xa1a",
        b"\x02\x90",
        b"\x02\x81\xa1t\xa1a",
        b"\x02\x80junk",
        b"\x02" + b"\x91" * 5_000,
    ],
)
def test_a_damaged_state(row: bytes) -> None:
    with pytest.raises(IntegrityError):
        unpack(row)


# --- on disk -------------------------------------------------------------------------------------


def dump(store: LmdbStorage, table: Table) -> list[tuple[bytes, bytes]]:
    with store.read() as reader, reader._txn.cursor(store._env.tables[table]) as cursor:
        return [(bytes(name), bytes(value)) for name, value in cursor]


def seqs_in(store: LmdbStorage, table: Table) -> set[int]:
    return {int.from_bytes(place[12:], "big") for _, place in dump(store, table)}


def test_rows_are_in_one_of_two_tables(store: LmdbStorage) -> None:
    put(store, *facts(6))
    store.flush()
    retract(store, 2)
    put(store, *facts(4, start=6))
    retract(store, 8, 9)
    remove(store, 3, 9, 10)
    assert (seqs_in(store, TERMS), seqs_in(store, PAST_TERMS)) == ({1, 4, 5, 6}, {2})
    store.flush()
    assert (seqs_in(store, TERMS), seqs_in(store, PAST_TERMS)) == ({1, 4, 5, 6, 7}, {2, 8})
    with store.read() as reader:  # and so the counts are exact
        assert [reader.term_count(ALL, which) for which in WHICH] == [5, 2, 7]
    before = [dump(store, table) for table in (TERMS, PAST_TERMS)]
    report = store.rebuild()
    assert [dump(store, table) for table in (TERMS, PAST_TERMS)] == before
    assert (report.grains, report.rows) == (7, sum(map(len, before)))


def test_a_grain_damaged_on_the_disk_is_removed_whole(store: LmdbStorage) -> None:
    """Its blob no longer shows which rows it has."""
    put(store, *facts(3))
    retract(store, 2)
    store.flush()
    for seq in (1, 2):

        def damage(writer: LmdbWriter, seq: int = seq) -> None:
            row = writer.row(BLOBS, key(seq)) or b""
            writer._txn.put(key(seq), row[:-1] + b"\0", db=writer._tables[BLOBS])

        store.write(damage)
        remove(store, seq)
    assert (seqs_in(store, TERMS), seqs_in(store, PAST_TERMS)) == ({3}, set())
    assert [row[-4:] for _, row in dump(store, ADDRESSES)] == [key(3)[-4:]]


def test_it_is_there_after_reopening(path: Path) -> None:
    grains = facts(6)
    store = LmdbStorage(path, durable=False)
    put(store, *grains)
    retract(store, 1)
    store.flush()
    retract(store, 2)
    remove(store, 3)
    store.write(lambda writer: writer.event(HELD, 2, grains[1][0]))
    store.close()
    store = LmdbStorage(path, durable=False)
    with store.read() as reader:
        assert split(reader) == ([4, 5, 6], [1, 2])
        assert (reader.last_seq(), reader.head.watermark) == (8, 8)
        assert reader.find([digest for digest, _ in grains]) == [1, 2, None, 4, 5, 6]
    assert put(store, grains[2]) == [9]
    store.close()


def test_a_tail_of_events_is_read_once(
    store: LmdbStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, *facts(2))
    store.write(lambda writer: [writer.event(HELD, 1, b"x" * 32) for _ in range(3)])
    store._env.memtable = Memtable(0)  # as another process begins
    read: list[int] = []
    page = LmdbReader.hashed_page

    def hashed_page(self: LmdbReader, after: int) -> list[tuple[int, bytes, bytes | None]]:
        read.append(after)
        return page(self, after)

    monkeypatch.setattr(LmdbReader, "hashed_page", hashed_page)
    for _ in range(3):
        with store.read() as reader:
            assert reader.find([facts(1)[0][0]]) == [1]
    assert read == [0, 2]


def test_another_process_removes(path: Path, store: LmdbStorage) -> None:
    """The memtable of this process is compared with each snapshot."""
    grains = facts(6)
    put(store, *grains)
    store.flush()
    code = """
        import os, sys
        sys.path.insert(0, sys.argv[2])
        from support.small_grains import facts, put, remove, retract
        from omsgrain.storage.lmdb.storage import LmdbStorage
        store = LmdbStorage(sys.argv[1])
        remove(store, 2, 3)
        put(store, *facts(2))
        retract(store, 4)
        os._exit(0)  # no flush
    """
    digests = [digest for digest, _ in grains]
    with store.read() as old:
        run(code, path, TESTS)
        with store.read() as reader:
            assert split(reader) == ([1, 8, 5, 6], [4])
            assert reader.find(digests) == [1, 8, None, 4, 5, 6]
            assert reader.get(digests[2]) is None
        assert split(old) == ([1, 2, 3, 4, 5, 6], [])  # its rows are made only now
        assert old.find(digests) == [1, 2, 3, 4, 5, 6]
    assert put(store, *grains) == [1, 8, 9, 4, 5, 6]


def test_a_snapshot_overtaken_while_it_opens(store: LmdbStorage) -> None:
    """A later snapshot filled what is remembered, without what was removed in between."""
    grains = facts(4)
    put(store, *grains)
    with store.read() as old:
        elsewhere(lambda: remove(store, 2))
        later = Memtable(0)
        with store.read() as reader:
            later.load(reader, reader.last_seq())
            later.load_rows(reader, reader.last_seq())
        opened = LmdbReader(store._env, old._txn, later)
        assert opened.find([digest for digest, _ in grains]) == [1, 2, 3, 4]
        assert split(opened) == ([1, 2, 3, 4], [])


def test_works_that_share_a_commit(store: LmdbStorage) -> None:
    """Each sees what the ones before it did, and nothing of one that failed."""
    grains = facts(8)
    put(store, *grains[:4])
    said: dict[str, Any] = {}

    def first(writer: Writer) -> None:
        writer.put(grains[4:6])
        change(writer, 1, GrainStatus(restricted=True))
        said["first"] = split(writer)

    def fails(writer: Writer) -> None:
        said["before"] = split(writer)
        writer.remove(5)
        writer.remove(2)
        change(writer, 6, GrainStatus(restricted=True))
        writer.put([grains[6], grains[4]])
        said["inside"] = split(writer)
        raise ZeroDivisionError

    def last(writer: Writer) -> None:
        said["after"] = split(writer)
        writer.put([grains[7], grains[4]])
        writer.remove(6)
        assert split(writer, term("object", "lamp 7")) == ([7], [])
        said["last"] = split(writer)

    together(store, first, fails, last)
    assert said == {
        "first": ([2, 3, 4, 5, 6], [1]),
        "before": ([2, 3, 4, 5, 6], [1]),
        "inside": ([3, 4, 8, 7], [1, 6]),
        "after": ([2, 3, 4, 5, 6], [1]),
        "last": ([2, 3, 4, 5, 7], [1]),
    }
    for _ in range(2):
        with store.read() as reader:
            assert split(reader) == ([2, 3, 4, 5, 7], [1])
            found = reader.find([digest for digest, _ in grains])
            assert found == [1, 2, 3, 4, 5, None, None, 7]
        store.flush()


def together(store: LmdbStorage, *works: Callable[[Any], None]) -> None:
    """Let works of several threads share a commit, in this order."""
    queue, inside, end = store._env._queue.queue, threading.Event(), threading.Event()

    def hold(_: object) -> None:
        inside.set()
        assert end.wait(20)

    def do(work: Callable[[Any], None]) -> None:
        with suppress(ZeroDivisionError):
            store.write(work)

    threads = [threading.Thread(target=do, args=(work,)) for work in (hold, *works)]
    threads[0].start()
    assert inside.wait(20)
    for number, thread in enumerate(threads[1:], start=1):
        thread.start()
        while len(queue._waiting) < number:
            pass
    end.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


# --- in memory -----------------------------------------------------------------------------------


def test_memory_forgets_what_no_snapshot_sees() -> None:
    store = MemoryStorage()
    put(store, *facts(3))
    with store.read() as old:
        retract(store, 1)
        remove(store, 1, 2)
        put(store, *facts(1, start=5))
        assert split(old) == ([1, 2, 3], [])
        assert len(store._tables[BLOBS]._rows) == 4
    put(store, *facts(1, start=6))
    store.compact()
    assert set(store._tables[BLOBS]._rows) == {key(3), key(5), key(6)}
    assert store._tables[STATES]._rows == {}
    assert store.rebuild().grains == 3
    with store.read() as reader:
        assert split(reader) == ([3, 5, 6], [])
    assert store.check().ok


# --- a model -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "lmdb"])
def test_against_a_model(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for seed in range(300 if request.config.getoption("--long") else 10):
        path = tmp_path / str(seed)
        if kind == "memory":
            walk(MemoryStorage, False, Random(seed))
        else:
            walk(partial(LmdbStorage, path, durable=False), True, Random(seed))
