# SPDX-License-Identifier: Apache-2.0
"""Blind rows in sorted runs: any history of writes gives the rows of a plain set."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice
from operator import methodcaller
from pathlib import Path

import lmdb
import pytest

from omsgrain.storage.base import Writer
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import BLIND

GROUPS = [bytes([n]) * 8 for n in (1, 2, 0xFF)]


def row(rng: random.Random) -> bytes:
    """A row of one of three users; many rows share a token."""
    token = bytes([rng.randrange(40)]) * 16
    return rng.choice(GROUPS) + token + rng.randbytes(16)


def written(rows: list[bytes]) -> Callable[[Writer], None]:
    return lambda writer: writer.set_rows(BLIND, [(key, b"") for key in rows])


def agrees(storage: LmdbStorage, model: set[bytes], rng: random.Random) -> None:
    ordered = sorted(model)
    with storage.read() as reader:
        assert [key for key, _ in reader.rows(BLIND)] == ordered
        for group in GROUPS:
            token = bytes([rng.randrange(40)]) * 16
            for prefix in (group, group + token):
                own = [key for key in ordered if key.startswith(prefix)]
                assert [key for key, _ in reader.rows(BLIND, prefix=prefix)] == own
                (ends,) = reader.suffixes(BLIND, [prefix])
                size = 40 - len(prefix)
                ends_of = [ends[at : at + size] for at in range(0, len(ends), size)]
                assert sorted(prefix + end for end in ends_of) == own
                (some,) = reader.suffixes(BLIND, [prefix], 5)
                assert min(5, len(own)) * size <= len(some) <= len(ends)
        for key in rng.sample(ordered, min(5, len(ordered))):
            assert reader.row(BLIND, key) == b""
            after = [key for key, _ in islice(reader.rows(BLIND, after=key), 3)]
            assert after == [one for one in ordered if one > key][:3]
        assert reader.row(BLIND, row(rng)) is None


@pytest.mark.parametrize("seed", range(4))
def test_any_history_gives_the_rows_of_a_set(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    storage = LmdbStorage(tmp_path / "memory.omsg", durable=False)
    model: set[bytes] = set()
    for _ in range(25):
        action = rng.choice(["write", "write", "write", "one", "remove", "drop"])
        if action == "write":
            rows = [row(rng) for _ in range(rng.choice([1, 30, 400]))]
            storage.write(written(rows))
            model.update(rows)
        elif action == "one":
            key = row(rng)
            storage.write(methodcaller("set_row", BLIND, key, b""))
            model.add(key)
        elif action == "remove":
            gone = rng.sample(sorted(model), min(len(model), rng.choice([1, 60])))
            storage.write(methodcaller("unset_rows", BLIND, [*gone, row(rng)]))
            model.difference_update(gone)
        else:
            group = rng.choice(GROUPS)
            while storage.write(methodcaller("drop_rows", BLIND, group, 100)) >= 100:
                pass
            model = {key for key in model if not key.startswith(group)}
        agrees(storage, model, rng)
    storage.compact()
    agrees(storage, model, rng)
    storage.close()


def test_a_group_has_few_runs(tmp_path: Path) -> None:
    """Whether its rows came in many commits of one size, or one by one."""
    rng = random.Random(1)
    storage = LmdbStorage(tmp_path / "memory.omsg", durable=False)
    for _ in range(64):
        rows = [GROUPS[0] + rng.randbytes(32) for _ in range(26)]
        storage.write(written(rows))
    storage.close()
    with lmdb.open(str(storage.path), max_dbs=64, readonly=True) as env:
        with env.begin(db=env.open_db(BLIND.name, create=False)) as txn:
            found = txn.get(GROUPS[0])
    assert found is not None and len(found) // 8 <= 4
