# SPDX-License-Identifier: Apache-2.0
"""A writer to PostgreSQL asks little twice; its answers from memory are those of the tables."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest

from omsgrain.storage.base import Writer
from omsgrain.storage.postgres import PostgresStorage, cache
from omsgrain.storage.postgres.cache import WriteCache, walked
from omsgrain.storage.tables import BLIND, HOLDS, META, NOTES, Table
from support.small_grains import facts, put, retract, split

if TYPE_CHECKING:
    pass


def first(rows: list[tuple[bytes, bytes]], most: int) -> list[tuple[bytes, bytes]]:
    return rows[:most]


def test_a_table_is_read_whole_when_it_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_FEW", 2)
    known = WriteCache({META: {b"a": b"1"}})
    assert known.table(META, lambda most: pytest.fail("it is known")) == {b"a": b"1"}
    rows = {table: [(bytes([n]), b"x") for n in range(n)] for n, table in ((2, NOTES), (3, HOLDS))}
    for table, answers in ((NOTES, [None, 2, 2]), (HOLDS, [None, None, None])):
        for answer in answers:
            found = known.table(table, partial(first, rows[table]))
            assert (None if found is None else len(found)) == answer
    assert not known.set(NOTES, b"none", None)
    assert known.set(NOTES, b"\0", None) and known.set(HOLDS, b"none", None)
    assert list(walked({b"ab": b"1", b"a": b"2", b"b": b"3"}, b"a", b"a")) == [(b"ab", b"1")]


@pytest.mark.services
@pytest.mark.parametrize("few", [0, 5, 1_000])
def test_rows_of_a_writer_against_a_dict(
    store: PostgresStorage, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_FEW", few)
    random = Random(few)
    model: dict[Table, dict[bytes, bytes]] = {NOTES: {}, BLIND: {}, META: {}}

    def step(writer: Writer, table: Table) -> None:
        rows, key = model[table], b"k%d" % random.randrange(30)
        prefix = random.choice((b"k", b"k1", b"k2"))
        what = random.choice(("set", "set", "drop", "row", "some", "walk", "last", "prefix"))
        if what == "set":
            rows[key] = b"v%d" % random.randrange(99)
            writer.set_row(table, key, rows[key])
        elif what == "drop":
            rows.pop(key, None)
            writer.set_row(table, key, None)
        elif what == "row":
            assert writer.row(table, key) == rows.get(key)
        elif what == "some":
            keys = [key, b"k1", b"none"]
            assert writer.some_rows(table, keys) == {k: rows[k] for k in keys if k in rows}
        elif what == "walk":
            found = [one for one in sorted(rows.items()) if one[0].startswith(prefix)]
            assert list(writer.rows(table, prefix=prefix)) == found
            assert list(writer.rows(table, key, prefix)) == [one for one in found if one[0] > key]
        elif what == "last" and table is not META:
            assert writer.last_row(table) == max(rows.items(), default=None)
        elif what == "prefix":
            gone = sorted(k for k in rows if k.startswith(prefix))[:3]
            for one in gone:
                del rows[one]
            assert writer.drop_rows(table, prefix, 3) == len(gone)

    def work(writer: Writer) -> None:
        for _ in range(60):
            step(writer, random.choice(list(model)))

    for _ in range(3):
        store.write(work)
        with store.read() as reader:
            for table, rows in model.items():
                assert dict(reader.rows(table, prefix=b"k")) == rows


@pytest.mark.services
def test_grains_removed_and_put_again_in_one_work(store: PostgresStorage) -> None:
    grains = facts(6)
    put(store, *grains[:5])
    retract(store, 2, 3)

    def work(writer: Writer) -> None:
        assert writer.find([digest for digest, _ in grains]) == [1, 2, 3, 4, 5, None]
        for seq in (1, 2, 4):
            writer.remove(seq)
        assert writer.find([digest for digest, _ in grains]) == [None, None, 3, None, 5, None]
        assert writer.blob_at(2) is None and writer.get(grains[0][0]) is None
        assert writer.put([grains[1], grains[5], grains[2]]) == [True, True, False]
        writer.remove(8)  # the first removal has given up a number
        assert writer.find([grains[1][0], grains[5][0]]) == [7, None]
        assert [seq for seq, _ in writer.page(0)] == [3, 5, 7]

    store.write(work)
    with store.read() as reader:
        assert split(reader) == ([7, 5], [3])
    assert store.check().ok
