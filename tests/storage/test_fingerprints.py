# SPDX-License-Identifier: Apache-2.0
"""Fingerprints on disk: 1,024 keys for all of them, and the same answers as with one key each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import omsgrain as og
from omsgrain import _core
from omsgrain.query.graph import duplicates, find_same
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import TERMS
from support.store_contract import put

TIME = 1_768_471_200_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStorage]:
    with closing(LmdbStorage(tmp_path / "memory.omsg", durable=False)) as store:
        yield store


def blob(number: int, at: int = 0) -> bytes:
    said = {"type": "event", "content": f"lamp {number}", "created_at": TIME + at}
    return og.encode(said)


def pair(one: bytes) -> tuple[bytes, bytes]:
    return bytes.fromhex(og.address(one)), one


def test_the_same_answers_as_with_a_key_each(store: LmdbStorage, long: bool) -> None:
    rng = Random(11)
    number = 30_000 if long else 3_000
    blobs = [blob(rng.randrange(number), at) for at in range(number)]
    with closing(MemoryStorage()) as other:
        for start in range(0, number, number // 3):
            put(other, *map(pair, blobs[start : start + number // 3]))
            put(store, *map(pair, blobs[start : start + number // 3]))
            if start < number // 2:
                store.flush()  # some rows are on disk, the others in the memtable
        with store.read() as one, other.read() as two:
            found = list(duplicates(one))
            assert found == list(duplicates(two))
            said = Counter(_core.fingerprint(b) for b in blobs)
            assert len(found) == sum(n > 1 for n in said.values()) > 100
            for b in blobs[:200]:
                key = _core.term("fingerprint", _core.fingerprint(b))
                assert one.term_count(key) == two.term_count(key) > 0
                ends = [p[12:] for p in one.places(key, None, True)]
                assert ends == [p[12:] for p in two.places(key, None, True)]


def test_many_share_a_key(store: LmdbStorage) -> None:
    put(store, *(pair(blob(n)) for n in range(2_000)))
    store.flush()
    with store.read() as reader:
        keys = {key for key, _ in reader.rows(TERMS, prefix=b"f")}
        assert {len(key) for key in keys} == {3}
        assert len(keys) <= 1_024
        assert len(list(reader.keys(b"f"))) == 2_000  # which are read back from the grains


def test_a_grain_with_the_same_first_bytes_is_another(store: LmdbStorage) -> None:
    """58 of 128 bits could be made equal on purpose, so each match is looked at."""
    one, other = blob(1), blob(2)
    put(store, pair(one), pair(other))
    store.flush()
    key = _core.term("fingerprint", _core.fingerprint(one))
    found = _core.bucket(key)
    assert found is not None
    bucket, part = found
    forged = TIME.to_bytes(6, "big") + part + (2).to_bytes(4, "big")  # says that 2 is like 1
    env = store._env.file
    with env.env.begin(write=True) as txn:
        txn.put(bucket, forged, db=env.tables[TERMS], dupdata=True)
    with store.read() as reader:
        assert reader.term_count(key) == 1
        assert list(duplicates(reader)) == []
        assert find_same(reader, blob(1, 5)) == og.address(one)
