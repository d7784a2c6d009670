# SPDX-License-Identifier: Apache-2.0
"""Stores and text indexes of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from omsgrain.search.text import TextIndex
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from support.store_kinds import POSTGRES
from support.text_stores import Opened, texts_in


@pytest.fixture
def store() -> Iterator[MemoryStorage]:
    store = MemoryStorage()
    yield store
    store.close()


@pytest.fixture(params=["sqlite", POSTGRES])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TextIndex]:
    with texts_in(request.param, tmp_path) as index:
        yield index


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LmdbStorage]:
    store = LmdbStorage(tmp_path / "memory.omsg", durable=False)
    yield store
    store.close()


@pytest.fixture
def opened() -> Iterator[Opened]:
    opened = Opened()
    yield opened
    opened.close()
