# SPDX-License-Identifier: Apache-2.0
"""Vectors that the server compares: it finds the same as a comparison here.

The server of the tests has no pgvector. What is asked of that extension is its name, its type, the
cast from real[] and the operator ``<=>``; a stand-in made of SQL has the four.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import cache
from random import Random

import pytest

from omsgrain.search.nearest import Nearest
from omsgrain.search.postgres import vectors
from omsgrain.search.postgres.vectors import PostgresGraphs
from omsgrain.search.text import Match
from omsgrain.storage.postgres import PostgresStorage
from omsgrain.store import GrainStore
from omsgrain.store.context import context_of
from support import store_kinds
from support.vector_stores import add, noise, put, remove

pytestmark = pytest.mark.services

EXTENSION = (
    "CREATE SCHEMA extensions",
    "CREATE DOMAIN extensions.vector AS real[]",
    "CREATE FUNCTION extensions.distance(real[], real[]) RETURNS float8 LANGUAGE sql IMMUTABLE AS "
    "$$ SELECT 1 - sum(a * b) / sqrt(sum(a * a) * sum(b * b)) "
    "FROM unnest($1::float8[], $2::float8[]) AS both_of(a, b) $$",
    "CREATE OPERATOR extensions.<=> "
    "(LEFTARG = real[], RIGHTARG = real[], FUNCTION = extensions.distance)",
    "GRANT USAGE ON SCHEMA extensions TO PUBLIC",
    "SET allow_system_table_mods = on; INSERT INTO pg_extension (oid, extname, extowner, "
    "extnamespace, extrelocatable, extversion) SELECT 99999, 'vector', 10, oid, false, '1' "
    "FROM pg_namespace WHERE nspname = 'extensions'",
)


@cache
def able() -> str:
    """The URL of a database that can compare vectors."""
    url = store_kinds.server().database()
    for text in EXTENSION:
        store_kinds.server().run(text, url)
    return url


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[PostgresStorage]:
    with closing(PostgresStorage(able(), tenant=request.node.name, partitions=2)) as store:
        yield store


def graphs_of(store: PostgresStorage, *, readonly: bool = False) -> PostgresGraphs:
    there = store.sidecar
    assert there.database is not None
    return PostgresGraphs(there.database, there.store_id, readonly=readonly, large=50)


def rows(store: PostgresStorage) -> int:
    text = f"SELECT count(*) FROM omsgrain.near WHERE store_id = {store.store_id}"
    ((count,),) = store_kinds.server().run(text, able())
    assert isinstance(count, int)
    return count


def found(store: PostgresStorage, nearest: Nearest, query: list[float], limit: int) -> list[Match]:
    with store.read() as reader:
        return nearest.search(reader, query, limit=limit)


def test_any_life_of_vectors(store: PostgresStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_FEW", 20)
    rng = Random(4)
    alive = put(store, 300)
    add(store, {seq: noise(rng, 6) for seq in alive})
    with closing(Nearest(graphs=graphs_of(store))) as nearest:
        for step in range(12):
            query = noise(rng, 6)
            asked = found(store, nearest, query, 15)
            assert asked == found(store, Nearest(), query, 15)
            assert len(asked) == 15
            gone = rng.sample(alive, 8)
            remove(store, gone)
            alive = [seq for seq in alive if seq not in gone]
            add(store, {seq: noise(rng, 6) for seq in rng.sample(alive, 10)})
            new = put(store, 5, 1_000 + 5 * step)
            add(store, {seq: noise(rng, 6) for seq in new})
            alive += new
        nearest.catch_up(store, make=False)
        assert rows(store) == len(alive)


def test_only_compact_rewrites_the_shared_table(store: PostgresStorage) -> None:
    """It is locked meanwhile; closing a handle leaves it in use, without what was removed."""

    def file() -> object:
        return store_kinds.server().run("SELECT pg_relation_filenode('omsgrain.near')", able())

    rng = Random(7)
    alive = put(store, 300)
    add(store, {seq: noise(rng, 4) for seq in alive})
    grains = GrainStore(store)
    context_of(grains)._nearest = nearest = Nearest(graphs=graphs_of(store))
    found(store, nearest, noise(rng, 4), 5)
    before = file()
    remove(store, alive[:5])
    nearest.catch_up(store, make=False)
    assert rows(store) == 295 and file() == before
    remove(store, alive[5:9])
    grains.maintenance.compact()
    after = file()
    assert rows(store) == 291 and after != before
    remove(store, alive[9:12])
    grains.close()
    assert rows(store) == 288 and file() == after


def test_the_server_samples_no_vectors(store: PostgresStorage) -> None:
    rng = Random(8)
    add(store, {seq: noise(rng, 4) for seq in put(store, 300)})
    with closing(Nearest(graphs=graphs_of(store))) as nearest:
        found(store, nearest, noise(rng, 4), 5)
    assert rows(store) == 300
    store_kinds.server().run("ANALYZE", able())
    text = "SELECT attname FROM pg_stats WHERE tablename IN ('near', 'near_come')"
    columns = {name for (name,) in store_kinds.server().run(text, able())}
    assert columns == {"store_id", "model", "seq", "event"}


def test_few_vectors_are_compared_here(store: PostgresStorage) -> None:
    rng = Random(5)
    add(store, {seq: noise(rng, 4) for seq in put(store, 40)})
    with closing(Nearest(graphs=graphs_of(store))) as nearest:
        query = noise(rng, 4)
        assert found(store, nearest, query, 5) == found(store, Nearest(), query, 5)
        assert rows(store) == 0


def test_a_handle_that_only_reads_feeds_nothing(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_FEW", 20)
    rng = Random(6)
    add(store, {seq: noise(rng, 4) for seq in put(store, 400)})
    query = noise(rng, 4)
    truth = found(store, Nearest(), query, 9)
    with closing(Nearest(graphs=graphs_of(store, readonly=True))) as reading:
        assert found(store, reading, query, 9) == truth
        with closing(Nearest(graphs=graphs_of(store))) as nearest:
            assert found(store, nearest, query, 9) == truth
        assert rows(store) == 400
        assert found(store, reading, query, 9) == truth
        new = put(store, 3, 1_000)
        add(store, {seq: query for seq in new})  # a few more are compared here
        assert {near.seq for near in found(store, reading, query, 3)} == set(new)
        assert rows(store) == 400


@pytest.mark.parametrize("old", [False, True], ids=["admitted", "admitted long ago"])
def test_a_role_admitted_before_the_table_was_made(
    store: PostgresStorage, old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_FEW", 20)
    server, rng = store_kinds.server(), Random(8)
    role = f"reader_{'of_old' if old else 'of_vectors'}"
    server.run(f"CREATE ROLE {role} LOGIN")
    server.run("DROP TABLE IF EXISTS omsgrain.near, omsgrain.near_come", able())
    store.admit(role)
    add(store, {seq: noise(rng, 4) for seq in put(store, 100)})
    query = noise(rng, 4)
    with closing(Nearest(graphs=graphs_of(store))) as nearest:
        truth = found(store, nearest, query, 9)
    assert rows(store) == 100
    if old:  # without rights on what comes later
        server.run(f"REVOKE ALL ON omsgrain.near, omsgrain.near_come FROM {role}", able())
    url = able().replace("postgres@", f"{role}@")
    with closing(PostgresStorage(url, tenant=store.tenant)) as own:
        add(own, {seq: noise(rng, 4) for seq in put(own, 1, 1_000)})
        with closing(Nearest(graphs=graphs_of(own))) as nearest:
            assert found(own, nearest, query, 9) == found(own, Nearest(), query, 9)
            nearest.catch_up(own, make=False)
        assert truth[0] in found(own, Nearest(), query, 9)
    assert rows(store) == (100 if old else 101)
