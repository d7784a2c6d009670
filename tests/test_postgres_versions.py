# SPDX-License-Identifier: Apache-2.0
"""A database of an older version is brought up: while others are at its tables, by its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from facts import facts, put
from omsgrain.errors import StoreError
from omsgrain.store.postgres import PostgresStore, migrating

if TYPE_CHECKING:
    from servers.postgres import Postgres

pytestmark = pytest.mark.services


def older(url: str, version: int = 2) -> PostgresStore:
    """A store as an older version made it, with three grains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrating, "_STEPS", migrating._STEPS[:version])
        patch.setattr(migrating, "VERSION", version)
        store = PostgresStore(url, partitions=2)
    put(store, *facts(3))
    return store


def test_a_table_that_is_vacuumed_is_waited_for_with_patience(postgres: Postgres) -> None:
    """VACUUM, an index that is made, ``compact``: all have a lock that one of ours waits for."""
    url = postgres.database()
    older(url).close()
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE omsgrain.blobs IN SHARE UPDATE EXCLUSIVE MODE")
        with pytest.raises(StoreError) as caught:
            PostgresStore(url, patience=0.05)
        assert caught.value.found == "LockNotAvailable (55P03)"
    store = PostgresStore(url)
    assert store.stats().grains == 3
    store.close()
