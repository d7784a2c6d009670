# SPDX-License-Identifier: Apache-2.0
"""A storage of a tenant of its own in the shared database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from omsgrain.storage.postgres import PostgresStorage

if TYPE_CHECKING:
    from support.servers.postgres import Postgres


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.shared


@pytest.fixture
def tenant(postgres: Postgres) -> str:
    return postgres.tenant()


@pytest.fixture
def store(url: str, tenant: str) -> Iterator[PostgresStorage]:
    store = PostgresStorage(url, tenant=tenant)
    yield store
    store.close()
