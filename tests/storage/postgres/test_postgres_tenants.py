# SPDX-License-Identifier: Apache-2.0
"""Tenants of one database see nothing of each other, and errors tell no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.search.postgres import vectors
from omsgrain.search.text import texts_of
from omsgrain.server import service
from omsgrain.storage.location import Budget
from omsgrain.storage.postgres import PostgresStorage
from omsgrain.storage.postgres.schema import KEYED_TABLES, TEXTS, WORDS, name_of
from omsgrain.store.context import context_of
from omsgrain.sync import LocalPeer, sync
from support.small_grains import facts, put, retract, set_rows
from support.sync_stores import addresses, belief, memory
from support.tokens import add_token

if TYPE_CHECKING:
    from support.servers.postgres import Postgres

pytestmark = pytest.mark.services

Stores = tuple[PostgresStorage, PostgresStorage]


@pytest.fixture(scope="module")
def url(postgres: Postgres) -> str:
    url = postgres.database()
    postgres.run("CREATE ROLE fleet LOGIN")
    for role in ("anna", "bert"):
        postgres.run(f"CREATE ROLE {role} LOGIN")
    postgres.run(f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO fleet")
    return url.replace("postgres@", "fleet@")


@pytest.fixture(scope="module")
def stores(url: str) -> Iterator[Stores]:
    """Two stores of one service, with rows in every table."""
    both = PostgresStorage(url, tenant="anna"), PostgresStorage(url, tenant="bert")
    for start, store in enumerate(both):
        put(store, *facts(5, start=100 * start))
        retract(store, 2)
        with closing(texts_of(store, Budget())) as texts:
            texts.catch_up(store.read)
        for table in KEYED_TABLES:
            set_rows(store, table, b"", b"k" * 40)
        store.admit(store.tenant)
    yield both
    for store in both:
        store.close()


def tables_of() -> list[str]:
    """Every table with rows of stores, with its schema."""
    own = [f"omsgrain.{name}" for name in ("heads", "blobs", "addresses", "terms", "counts")]
    return own + [name_of(table) for table in KEYED_TABLES]


def seen(connection: psycopg.Connection[tuple[object, ...]], table: str) -> set[object]:
    return {row[0] for row in connection.execute(f"SELECT DISTINCT store_id FROM {table}")}


@pytest.mark.parametrize("role", ["fleet", "anna"])
def test_raw_sql_sees_one_store_at_most(url: str, stores: Stores, role: str) -> None:
    anna, bert = (store.store_id for store in stores)
    with psycopg.connect(url.replace("fleet@", f"{role}@"), autocommit=True) as connection:
        tables = [table for table in tables_of() if table != "omsgrain.counts"]
        if role == "anna":
            tables += [TEXTS, WORDS]
        else:  # row-level security is not forced on their owner
            assert [seen(connection, table) for table in (TEXTS, WORDS)] == [{anna, bert}] * 2
        for named, wanted in ((None, set()), (anna, {anna}), (bert, {bert})):
            if named is not None:
                connection.execute(f"SET omsgrain.storage = '{named}'")
            if role == "anna" and named == bert:
                wanted = set()  # whatever it says of itself
            assert {table: seen(connection, table) for table in tables} == dict.fromkeys(
                tables, wanted
            )
        assert seen(connection, "omsgrain.stores") == ({anna, bert} if role == "fleet" else {anna})


def test_raw_sql_changes_nothing_of_others(url: str, stores: Stores) -> None:
    anna, bert = (store.store_id for store in stores)
    with psycopg.connect(url.replace("fleet@", "anna@"), autocommit=True) as connection:
        for named in (anna, bert):
            connection.execute(f"SET omsgrain.storage = '{named}'")
            for table in (*tables_of(), TEXTS, WORDS):
                done = connection.execute(f"DELETE FROM {table} WHERE store_id = {bert}")
                assert done.rowcount == 0
            for table in map(name_of, KEYED_TABLES):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"INSERT INTO {table} VALUES ({bert}, 'x', 'y')")
        for text in (
            "SELECT * FROM omsgrain.blobs_0",
            "UPDATE omsgrain.stores SET roles = ARRAY['anna']",
            "ALTER TABLE omsgrain.blobs DISABLE ROW LEVEL SECURITY",
            "DROP POLICY tenant ON omsgrain.blobs",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(text)
    assert stores[1].check().grains == 5


def test_a_role_opens_its_own_store_only(url: str, stores: Stores) -> None:
    own = url.replace("fleet@", "anna@")
    store = PostgresStorage(own, tenant="anna")
    assert put(store, *facts(1, start=500)) == [stores[0].stats().last_seq]
    assert store.stats().grains == 6
    store.close()
    for tenant in ("bert", "carl"):
        for readonly in (True, False):
            with pytest.raises(StoreError):
                PostgresStorage(own, tenant=tenant, readonly=readonly)
    with pytest.raises(StoreError):
        stores[0].admit("no such role")


def test_names_of_tenants(url: str) -> None:
    for name in ("", "x" * 201, "a\0b"):
        with pytest.raises(StoreError):
            PostgresStorage(url, tenant=name)
    store = PostgresStorage(url, tenant="o'neil; DROP TABLE -- ü")
    assert put(store, *facts(1)) == [1]
    store.close()


# --- errors --------------------------------------------------------------------------------------

SECRET = "xyzzy-42"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://postgres:{SECRET}@127.0.0.1:1/nothing",
        f"postgresql://postgres:{SECRET}@127.0.0.1:port/nothing",
        f"postgresql://postgres:{SECRET}@127.0.0.1:1/nothing?no_option={SECRET}",
        f"postgresql://127.0.0.1:1/nothing?user=me&password={SECRET}",
        f"mysql://postgres:{SECRET}@127.0.0.1:1/nothing",
        "guarded",
        "absent",
    ],
)
def test_errors_show_no_password(
    url: str, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    if url == "guarded":
        postgres.run("DROP ROLE IF EXISTS guarded")
        postgres.run("CREATE ROLE guarded LOGIN PASSWORD 'other'")
        url = postgres.url(user="guarded", password=SECRET)
    elif url == "absent":
        url = postgres.url("absent", password=SECRET)
    with pytest.raises(StoreError) as caught:
        PostgresStorage(url, patience=0.1)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error) + repr(error)
        error = error.__cause__
    assert SECRET not in caplog.text


def test_a_store_shows_no_password(postgres: Postgres) -> None:
    url = postgres.url(postgres.shared.rpartition("/")[2], password=SECRET)
    store = PostgresStorage(url, tenant="secret")
    assert SECRET not in repr(store.place) + store.place.shown
    assert store.place.shown.startswith("postgresql://postgres@127.0.0.1:")
    store.close()


def test_errors_show_no_stored_data(postgres: Postgres) -> None:
    """The database's own words repeat the values of rows."""
    store = PostgresStorage(postgres.shared, tenant="errors")

    def work(writer: object) -> None:
        for _ in range(2):
            writer.run(  # type: ignore[attr-defined]
                "INSERT INTO omsgrain.notes_0 VALUES ($1, $2, $3)", b"key", b""
            )

    with pytest.raises(StoreError) as caught:
        store.write(work)
    assert caught.value.found == "UniqueViolation (23505)"
    assert "6b6579" not in str(caught.value)
    store.close()


def test_a_token_for_syncing_opens_one_tenant(url: str) -> None:
    homes = [f"{url}?tenant={name}" for name in ("carl", "dora")]
    for n, home in enumerate(homes):
        with og.open(home) as store:
            store.put(belief(f"lamp {n}"))
    secret = add_token(homes[0], "robot", None, ["sync:read"])

    def of(home: str) -> service.Stores:
        return service.Stores(og.open(home))

    with closing(of(homes[0])) as carl, closing(of(homes[1])) as dora:
        assert dora.tokens.find(secret) is None
        token = carl.tokens.find(secret)
        assert token is not None
        robot = memory()
        assert sync(LocalPeer(robot), carl.peer(token), direction="pull").received.grains == 1
        assert addresses(robot) == addresses(carl.main) != addresses(dora.main)


# --- what others planted -------------------------------------------------------------------------

# Functions of exactly the types that statements of ours give; the server's own take any type. Each
# notes who ran it, with what. A search by vectors could find a type and an operator so called.
PLANTED = (
    "CREATE TABLE public.stolen (who text, what text)",
    "GRANT INSERT ON public.stolen TO PUBLIC",
    *(
        f"CREATE FUNCTION public.unnest(given {kind}[]) RETURNS SETOF {kind} LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.stolen VALUES (current_user, given::text); "
        "RETURN QUERY SELECT pg_catalog.unnest(given); END $$"
        for kind in ("bytea", "bigint", "boolean", "text")
    ),
    "CREATE FUNCTION public.array_append(given text[], more text) RETURNS text[] LANGUAGE plpgsql "
    "AS $$ BEGIN INSERT INTO public.stolen VALUES (current_user, more); "
    "RETURN pg_catalog.array_append(given, more); END $$",
    "CREATE DOMAIN public.vector AS real[]",
    "CREATE FUNCTION public.near(a real[], b real[]) RETURNS float8 LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO public.stolen VALUES (current_user, b::text); RETURN 0; END $$",
    "CREATE OPERATOR public.<=> (LEFTARG = real[], RIGHTARG = real[], FUNCTION = public.near)",
    "CREATE FUNCTION public.same(a bytea, b text) RETURNS boolean LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO public.stolen VALUES (current_user, a::text); RETURN true; END $$",
    "CREATE OPERATOR public.= (LEFTARG = bytea, RIGHTARG = text, FUNCTION = public.same)",
    "CREATE FUNCTION public.equal(a bytea, b bytea) RETURNS boolean LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO public.stolen VALUES (current_user, a::text); "
    "RETURN a OPERATOR(pg_catalog.=) b; END $$",
    "CREATE OPERATOR public.= (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = public.equal)",
)


@pytest.mark.parametrize("path", ["public", "public,pg_catalog"])
def test_functions_that_others_planted_are_not_run(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Up to PostgreSQL 14 everybody may make functions in the schema public.

    The second path is one that finds them even before those of the server with the same types.
    """
    url = postgres.database()
    name = url.rpartition("/")[2]
    for role in ("planter", "keeper"):
        if not postgres.run(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
            postgres.run(f"CREATE ROLE {role} LOGIN")
    postgres.run(f"GRANT CREATE ON DATABASE {name} TO keeper")
    postgres.run("GRANT CREATE ON SCHEMA public TO PUBLIC", url)
    planter = url.replace("postgres@", "planter@")
    for text in PLANTED:
        postgres.run(text, planter)
    monkeypatch.setenv("PGOPTIONS", f"-c search_path={path}")
    monkeypatch.setattr(vectors, "LARGE", 2)
    grains = [belief(f"number {n}", n) for n in range(20)]
    with og.open(url.replace("postgres@", "keeper@")) as store:
        addresses = [one or "" for one in store.put_many(grains).addresses]
        new = store.supersede(addresses[0], belief("new", 99))
        store.delete(addresses[1])
        for address in (new, *addresses[2:8]):
            store.vectors.add(address, [1.0, 2.0], model="m")
        assert store.search("number").results and store.search(vector=[1.0, 2.0]).results
        assert store.query(current=None).results and store.get(new)
        store.privacy.erase(["nobody"], reason_code="asked")
        assert store.maintenance.check().ok
        store.maintenance.rebuild()
        store.maintenance.backup(tmp_path / "copy.omsg")
        below = context_of(store).inner
        assert isinstance(below, PostgresStorage)
        below.admit("planter")
    assert postgres.run("SELECT * FROM public.stolen", url) == []
