# SPDX-License-Identifier: Apache-2.0
"""A database of an older version is brought up: while others are at its tables, by its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from omsgrain.errors import StoreError
from omsgrain.storage.postgres import PostgresStorage, schema
from support.small_grains import facts, put

if TYPE_CHECKING:
    from support.servers.postgres import Postgres

pytestmark = pytest.mark.services


def older(url: str, version: int = 2) -> PostgresStorage:
    """A store as an older version made it, with three grains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "_STEPS", schema._STEPS[:version])
        patch.setattr(schema, "VERSION", version)
        store = PostgresStorage(url, partitions=2)
    put(store, *facts(3))
    return store


def test_a_table_that_is_vacuumed_is_waited_for_with_patience(postgres: Postgres) -> None:
    """VACUUM, an index that is made, ``compact``: all have a lock that one of ours waits for."""
    url = postgres.database()
    older(url).close()
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE omsgrain.blobs IN SHARE UPDATE EXCLUSIVE MODE")
        with pytest.raises(StoreError) as caught:
            PostgresStorage(url, patience=0.05)
        assert caught.value.found == "LockNotAvailable (55P03)"
    store = PostgresStorage(url)
    assert store.stats().grains == 3
    store.close()


# --- who brings it up ----------------------------------------------------------------------------


@pytest.fixture
def owned(postgres: Postgres) -> str:
    """The URL of a database for a role that may make a schema in it, and is no superuser."""
    url = postgres.database()
    if not postgres.run("SELECT 1 FROM pg_roles WHERE rolname = 'keeper'"):
        postgres.run("CREATE ROLE keeper LOGIN")
    postgres.run(f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO keeper")
    return url.replace("postgres@", "keeper@")


def test_tables_of_another_role_are_left_to_it(postgres: Postgres, owned: str) -> None:
    """Vectors, say, whose table a superuser's search made."""
    older(owned).close()
    url = owned.replace("keeper@", "postgres@")
    postgres.run("CREATE TABLE omsgrain.near (store_id bigint, v bytea)", url)
    postgres.run("ALTER TABLE omsgrain.words OWNER TO postgres", url)
    postgres.run("GRANT ALL ON omsgrain.words TO keeper", url)
    store = PostgresStorage(owned)
    assert store.stats().grains == 3
    store.close()
    assert unsampled_columns(postgres, url) >= {"blobs.blob", "texts.digest"}
    assert not unsampled_columns(postgres, url) & {"near.v", "words.words"}


def unsampled_columns(postgres: Postgres, url: str) -> set[object]:
    text = (
        "SELECT c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c "
        "ON c.oid = a.attrelid WHERE c.relnamespace = 'omsgrain'::regnamespace "
        "AND a.attstattarget = 0 AND a.attnum > 0"
    )
    return {row[0] for row in postgres.run(text, url)}


def test_the_owner_may_make_no_more_schemas(postgres: Postgres, owned: str) -> None:
    """The right was given for the first time only, and taken back."""
    older(owned).close()
    postgres.run(f"REVOKE CREATE ON DATABASE {owned.rpartition('/')[2]} FROM keeper")
    store = PostgresStorage(owned)
    assert store.stats().grains == 3
    store.close()


def test_an_admitted_role_learns_which_role_upgrades(postgres: Postgres, owned: str) -> None:
    old = older(owned)
    if not postgres.run("SELECT 1 FROM pg_roles WHERE rolname = 'guest'"):
        postgres.run("CREATE ROLE guest LOGIN")
    old.admit("guest")
    url = owned.replace("keeper@", "guest@")
    for readonly in (True, False):
        with pytest.raises(StoreError) as caught:
            PostgresStorage(url, readonly=readonly)
        assert caught.value.found == "schema version 2"
    PostgresStorage(owned).close()
    store = PostgresStorage(url)
    assert store.stats().grains == 3
    store.close()
    old.close()
