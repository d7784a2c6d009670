# SPDX-License-Identifier: Apache-2.0
"""A store of each kind: in memory, on disk, and with `--services` in PostgreSQL."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.storage.base import Storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.location import location_of
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store.context import Settings

if TYPE_CHECKING:
    from support.servers.postgres import Postgres

#: For `params` beside the other kinds.
POSTGRES = pytest.param("postgres", marks=pytest.mark.services)
SEALED_POSTGRES = pytest.param("sealed postgres", marks=pytest.mark.services)

_numbers = count(1)


def server() -> Postgres:
    """A PostgreSQL server for the whole run; it waits for no disk."""
    made = _started()
    if isinstance(made, str):
        pytest.skip(made)
    return made


@cache
def _started() -> Postgres | str:
    """The server, or why there is none."""
    from support.servers.debian import Unavailable
    from support.servers.postgres import Postgres

    try:
        made = Postgres()
    except Unavailable as reason:
        return str(reason)
    atexit.register(made.__exit__)
    return made


@cache
def database() -> str:
    """A database for the stores of many tests, each a tenant of its own."""
    from omsgrain.storage.postgres import PostgresStorage

    url = server().database()
    PostgresStorage(url, partitions=2).close()
    return url


@cache
def url_of(path: Path) -> str:
    """The URL of a store for a path: the same one each time."""
    return f"{database()}?tenant=t{next(_numbers)}"


def made(kind: str, path: Path) -> Storage:
    """Open a store; of a kind that lasts, the one that belongs to the path."""
    if "memory" in kind:
        return MemoryStorage()
    return location_of(url_of(path)).open() if "postgres" in kind else LmdbStorage(path)


@contextmanager
def opened(kind: str, folder: Path, settings: Settings | None = None) -> Iterator[og.GrainStore]:
    """An empty store; of a sealed kind, with a key ring of its own."""
    settings = settings or Settings()
    with ExitStack() as stack:
        if "sealed" in kind:
            keys = stack.enter_context(KeyRing.create(folder / "x.keys", master=bytes(32)))
            settings = replace(settings, keys=keys)
        yield stack.enter_context(og.GrainStore(made(kind, folder / "m.omsg"), settings))
