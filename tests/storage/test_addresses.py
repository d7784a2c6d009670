# SPDX-License-Identifier: Apache-2.0
"""The tables of addresses: rows have the beginning of an address, and full keys are moved on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.storage.lmdb.reader import address_key
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.lmdb.writer import LmdbWriter
from omsgrain.storage.tables import ADDRESS, ADDRESSES, BLOBS, MARK, OLD_ADDRESSES, SEQUENCE, Table
from support.child_process import ended
from support.small_grains import facts, remove, set_rows
from support.store_contract import Pair, pair, put

RUN = 40


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let addresses-1 keep few rows."""
    most = 3 * RUN
    monkeypatch.setattr("omsgrain.storage.lmdb.writer.NEWEST_ADDRESSES", most)
    return most


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStorage]:
    store = LmdbStorage(tmp_path / "memory.omsg", durable=False)
    yield store
    store.close()


def filled(store: LmdbStorage, count: int) -> list[Pair]:
    """Put so many grains, and write the index after each run."""
    grains = facts(count)
    for start in range(0, count, RUN):
        put(store, *grains[start : start + RUN])
        store.flush()
    return grains


def entries(store: LmdbStorage) -> tuple[int, int]:
    with store.read() as reader:
        return reader.entries(ADDRESSES), reader.entries(OLD_ADDRESSES)


def rows(store: LmdbStorage, *tables: Table) -> list[bytes]:
    with store.read() as reader:
        return sorted(key for table in tables for key, _ in reader.rows(table))


def expect(store: LmdbStorage, there: dict[bytes, bytes], absent: list[bytes]) -> None:
    """Ask for addresses one by one, and many at once."""
    with store.read() as reader:
        assert all(reader.get(digest) == blob for digest, blob in there.items())
        assert all(reader.seq_of(digest) is None for digest in absent)
        found = reader.find([*there, *absent])
        assert [seq is not None for seq in found] == [True] * len(there) + [False] * len(absent)
        named = reader.named_many([*there, *absent])
        blobs = [None if grain is None else grain.blob for grain in named]
        assert blobs == [*there.values(), *[None for _ in absent[:1]]]  # up to the first
    latest = store.latest()
    assert latest is not None
    addresses = [digest.hex() for digest in there]
    several = latest.get_many(addresses, None, None)
    assert several is None or [blob for blob, _ in several] == list(there.values())
    assert all(latest.get(digest.hex(), None, None) is None for digest in absent)


def test_full_keys_are_moved_on(store: LmdbStorage, few: int) -> None:
    grains = filled(store, 10 * RUN)
    new, old = entries(store)
    assert new <= few and new + old == 10 * RUN
    with store.read() as reader:
        assert rows(store, ADDRESSES, OLD_ADDRESSES) == sorted(
            address_key(digest, seq)
            for (digest, _), seq in zip(grains, reader.find([d for d, _ in grains]), strict=True)
            if seq is not None
        )
    expect(store, dict(grains), [bytes(32), bytes([255]) * 32])
    assert put(store, *grains[::7]) == [False] * len(grains[::7])
    assert store.check().ok


def test_one_key_with_all_addresses(store: LmdbStorage, few: int) -> None:
    """Whoever makes grains can choose the first bytes of their addresses."""
    alike = [pair for pair in facts(4_000) if pair[0][0] == 7]
    for start in range(0, len(alike), 5):
        put(store, *alike[start : start + 5])
        store.flush()
    others = [pair for pair in filled(store, 4 * RUN) if pair not in alike]
    assert entries(store)[0] <= few
    expect(store, dict(alike + others), [])


def test_removed_from_either_table(store: LmdbStorage, few: int) -> None:
    grains = filled(store, 8 * RUN)
    assert min(entries(store)) > 0
    gone = random.Random(3).sample(range(1, 8 * RUN + 1), RUN)
    for seq in gone:
        remove(store, seq)
    assert sum(entries(store)) == 7 * RUN
    left = {d: blob for n, (d, blob) in enumerate(grains, 1) if n not in gone}
    expect(store, left, [d for n, (d, _) in enumerate(grains, 1) if n in gone])
    assert store.check().ok
    again = [grains[seq - 1] for seq in gone]
    assert put(store, *again) == [True] * RUN
    store.flush()
    expect(store, dict(grains), [])
    assert store.check().ok


@pytest.mark.parametrize("table", [ADDRESSES, OLD_ADDRESSES], ids=["new", "old"])
def test_addresses_that_begin_alike(store: LmdbStorage, table: Table) -> None:
    """A row of another grain is beside: as after 2^56 hashes that somebody made for it."""
    grains = filled(store, 2 * RUN)
    news = facts(2 * RUN + 20)[2 * RUN :]

    def lead_astray(writer: LmdbWriter) -> None:
        for seq, (digest, _) in enumerate(grains + news, 1):
            other = seq % (2 * RUN) + 1
            writer.set_row(table, address_key(digest, other), b"")

    store.write(lead_astray)
    expect(store, dict(grains), [digest for digest, _ in news])
    assert put(store, *grains) == [False] * len(grains)
    assert put(store, grains[0]) == [False]
    assert put(store, news[0]) == [True]
    assert put(store, *news) == [False] + [True] * (len(news) - 1)
    store.flush()
    expect(store, dict(grains + news), [])
    remove(store, 1)
    expect(store, dict(grains[1:] + news), [grains[0][0]])
    store.rebuild()
    assert store.check().ok


def test_a_missing_row_and_a_row_too_much_are_found(store: LmdbStorage, few: int) -> None:
    grains = filled(store, 8 * RUN)
    (digest, _) = grains[3]
    assert all(rows(store, table) for table in (ADDRESSES, OLD_ADDRESSES))
    for table in (ADDRESSES, OLD_ADDRESSES):
        key = rows(store, table)[5]
        set_rows(store, table, None, key)
        seq = int.from_bytes(key[ADDRESS:], "big")
        assert ("address", seq) in {(p.where, p.seq) for p in store.check().problems}
        assert store.rebuild().readdressed == 1
        assert store.check().ok
        set_rows(store, table, b"", address_key(digest, 9))
        assert {p.where for p in store.check().problems} == {"address"}
        assert store.rebuild().readdressed == 0
        assert store.check().ok
    both = rows(store, OLD_ADDRESSES)[0]
    set_rows(store, ADDRESSES, b"", both)
    assert not store.check().ok


def test_a_damaged_grain_keeps_its_address(store: LmdbStorage, few: int) -> None:
    grains = filled(store, 8 * RUN)

    def damage(writer: LmdbWriter) -> None:
        for seq in (2, 8 * RUN):
            row = writer.row(BLOBS, SEQUENCE.pack(seq)) or b""
            writer.set_row(BLOBS, SEQUENCE.pack(seq), row[:MARK] + b"\0" + row[MARK + 1 :])
            digest = grains[seq - 1][0]
            for table in (ADDRESSES, OLD_ADDRESSES):
                writer.set_row(table, address_key(digest, seq), None)

    store.write(damage)
    report = store.rebuild()
    assert (report.damaged, report.readdressed) == ((2, 8 * RUN), 2)
    with store.read() as reader:
        assert reader.find([grains[1][0], grains[-1][0]]) == [2, 8 * RUN]
    for seq in (2, 8 * RUN):
        remove(store, seq)
    assert store.check().ok
    assert sum(entries(store)) == 8 * RUN - 2


def test_compacted_and_copied(store: LmdbStorage, few: int, tmp_path: Path) -> None:
    grains = filled(store, 6 * RUN)
    before = entries(store)
    store.compact()
    store.backup(tmp_path / "copy.omsg")
    assert entries(store) == before
    copy = LmdbStorage(tmp_path / "copy.omsg", readonly=True)
    assert entries(copy) == before
    expect(copy, dict(grains), [])
    copy.close()


KILLED = """
import os, signal, sys
from hashlib import sha256
import omsgrain as og
from omsgrain.storage.lmdb import writer
from omsgrain.storage.lmdb.storage import LmdbStorage
writer.NEWEST_ADDRESSES = 30
store = LmdbStorage(sys.argv[1])
moves = 0
move = writer.LmdbWriter._move_addresses
def die(self, least):
    global moves
    move(self, least)
    moves += least > 0
    if moves == 3:
        os.kill(os.getpid(), signal.SIGKILL)
writer.LmdbWriter._move_addresses = die
for start in range(0, 400, 10):
    blobs = [og.encode({"type": "event", "content": str(n), "created_at": n + 1})
             for n in range(start, start + 10)]
    store.write(lambda writer: writer.put([(sha256(blob).digest(), blob) for blob in blobs]))
    print(start, flush=True)
    store.flush()
"""


def test_killed_while_rows_are_moved(tmp_path: Path) -> None:
    killed = ended(KILLED, tmp_path / "memory.omsg")
    assert killed.returncode == -9
    stored = int(killed.stdout.split()[-1]) + 10
    blobs = [
        og.encode({"type": "event", "content": str(n), "created_at": n + 1})
        for n in range(stored + 1)
    ]
    *there, (absent, _) = [pair(blob) for blob in blobs]
    store = LmdbStorage(tmp_path / "memory.omsg")
    expect(store, dict(there), [absent])
    assert store.check().ok
    store.close()
