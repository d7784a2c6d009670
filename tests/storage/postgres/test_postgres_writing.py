# SPDX-License-Identifier: Apache-2.0
"""Write transactions in PostgreSQL: what waits is sent in an order that the tables can take."""

from __future__ import annotations

import pytest

from omsgrain.errors import StoreError
from omsgrain.storage.base import Writer
from omsgrain.storage.postgres import PostgresStorage, rows
from omsgrain.storage.postgres import writer as writing
from omsgrain.storage.postgres.pool import Statement
from omsgrain.storage.postgres.rows import Added, IndexRows
from support.shared_commits import shared
from support.small_grains import ALL, facts, put, seqs

pytestmark = pytest.mark.services


@pytest.mark.parametrize("count", [3, 80])
def test_a_removed_grain_that_is_put_again_is_new(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Some grains have their terms looked at, which asks before the commit."""
    monkeypatch.setattr(writing, "_SEEN", 0)  # every grain
    grains = facts(count)
    put(store, *grains[:3])

    def work(writer: Writer) -> list[bool]:
        writer.remove(1)
        writer.remove(3)
        return writer.put(grains)

    assert store.write(work) == [True, False, True] + [True] * (count - 3)
    with store.read() as reader:
        # A removal takes a number, too.
        assert reader.find([digest for digest, _ in grains[:3]]) == [5, 2, 6]
        assert sorted(seqs(reader)) == [2, *range(5, count + 4)]
        assert reader.term_count(ALL) == count
    assert store.check().ok


def test_a_large_put_is_sent_in_parts(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes no statement of a gigabyte, and memory for many would be missing."""
    monkeypatch.setattr(writing, "_GATHERED", 8 << 10)
    monkeypatch.setattr(writing, "MANY", 20)
    monkeypatch.setattr(writing, "_SEEN", 3)  # one grain of four: counts are made between parts
    grains = facts(500)
    put(store, grains[7])
    sizes: list[int] = []
    inner = rows.add

    def add(store_id: int, some: list[Added], terms: IndexRows) -> list[Statement]:
        sizes.append(sum(len(blob) for _, _, blob in some))
        return inner(store_id, some, terms)

    monkeypatch.setattr(writing, "add", add)
    given = grains + grains[::50] + facts(1, start=500)
    flags = store.write(lambda writer: writer.put(given))
    assert flags == [n != 7 for n in range(500)] + [False] * 10 + [True]
    assert max(sizes) <= 9 << 10
    assert store.stats().blob_bytes == sum(sizes) + len(grains[7][1])
    with store.read() as reader:
        assert reader.find([grains[0][0], grains[7][0], given[-1][0]]) == [2, 1, 501]
        assert reader.term_count(ALL) == 501
    assert store.check().ok


def test_a_refused_transaction_does_not_end_others(
    store: PostgresStorage,
) -> None:
    grains = facts(2)
    outcomes = shared(
        store,
        lambda writer: writer.put(grains[:1]),
        lambda writer: writer.one("SELECT 1 / ($1 - $1)"),
        lambda writer: writer.put(grains[1:]),
    )
    assert outcomes[::2] == [[True], [True]]
    refused = outcomes[1]
    assert isinstance(refused, StoreError)
    assert refused.found == "DivisionByZero (22012)"
    assert store.stats().grains == 2
