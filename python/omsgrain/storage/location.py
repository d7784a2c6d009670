# SPDX-License-Identifier: Apache-2.0
"""Where a store is kept: a directory, a database, or this process. Stores are opened from here.

location = location_of("memory.omsg")       # or "postgresql://robots@hub/memory?tenant=fleet7"
location.must_exist()
storage = location.open(readonly=True)
storage.sidecar.folder                      # where its text index and its graphs are
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from omsgrain.durable import file_path
from omsgrain.errors import StoreError, UnsupportedError
from omsgrain.storage.url import StoreUrl, is_url

if TYPE_CHECKING:
    from omsgrain.storage.base import CheckReport, Storage

Where: TypeAlias = str | os.PathLike[str] | StoreUrl
"""What names a store: the path of its directory, a URL, or ``:memory:``."""

IN_MEMORY = ":memory:"
"""The name of a new store in memory, as in SQLite. A ``Path`` is always a path."""

Durability: TypeAlias = Literal["commit", "relaxed"]


class Location(Protocol):
    """Where a store is kept, whether there is one already or not. ``str`` shows it to people."""

    def exists(self) -> bool:
        """Tell whether there is a store."""
        ...

    def must_exist(self) -> None:
        """See that there is a store, which opening it for writing would make."""
        ...

    def is_writable(self) -> bool:
        """Tell whether opening the store for writing is worth a try."""
        ...

    def open(
        self,
        *,
        readonly: bool = False,
        durability: Durability = "commit",
        memory: int | str | None = None,
    ) -> Storage:
        """Open the store; make it if it is not there and may be written."""
        ...

    def check(self) -> CheckReport:
        """Look at every byte of a store that nobody trusts yet."""
        ...


def location_of(where: Where) -> Location:
    """Return where a store is kept."""
    if isinstance(where, str) and is_url(where):
        where = StoreUrl.parse(where)
    if where == IN_MEMORY:
        return MemoryLocation()
    return (
        ServerLocation(where)
        if isinstance(where, StoreUrl)
        else DirectoryLocation(file_path(where))
    )


def directory_of(where: Where) -> Path:
    """Return the directory of a store that is files, and can be handled as such."""
    location = location_of(where)
    if isinstance(location, DirectoryLocation):
        return location.path
    raise UnsupportedError(
        "only a store in files can be copied and restored; a database has its own tools",
        expected="a directory",
        found=str(location),
    )


@dataclass(frozen=True, slots=True)
class DirectoryLocation:
    """A directory with the files of an ``LmdbStorage``."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        """Tell whether there is a store."""
        from omsgrain.storage.lmdb.open import DATA_FILE

        return (self.path / DATA_FILE).exists()

    def must_exist(self) -> None:
        """See that there is a store: an empty directory would become one."""
        from omsgrain.storage.lmdb.open import prepare

        prepare(self.path, readonly=True)

    def is_writable(self) -> bool:
        """Tell whether files in the directory may be written."""
        from omsgrain.storage.lmdb.open import DATA_FILE

        data = self.path / DATA_FILE
        return os.access(self.path, os.W_OK) and (not data.exists() or os.access(data, os.W_OK))

    def open(
        self,
        *,
        readonly: bool = False,
        durability: Durability = "commit",
        memory: int | str | None = None,
    ) -> Storage:
        """Open the store."""
        from omsgrain.storage.lmdb.budget import parse
        from omsgrain.storage.lmdb.storage import LmdbStorage

        budget = parse(memory)
        return LmdbStorage(self.path, readonly=readonly, durability=durability, budget=budget)

    def check(self) -> CheckReport:
        """Look at every byte, in a process of its own: LMDB trusts its pages."""
        from omsgrain.storage.check import check_in_child

        return check_in_child(self.path)


@dataclass(frozen=True, slots=True)
class MemoryLocation:
    """The memory of this process, until the store is closed. Each time it is a new store."""

    def __str__(self) -> str:
        return IN_MEMORY

    def exists(self) -> bool:
        """Tell that there is none yet."""
        return False

    def must_exist(self) -> None:
        """Refuse: what is opened here is always new."""
        raise StoreError("a store in memory is always new", expected="a store that is there")

    def is_writable(self) -> bool:
        """Tell that it can be written."""
        return True

    def open(
        self,
        *,
        readonly: bool = False,
        durability: Durability = "commit",
        memory: int | str | None = None,
    ) -> Storage:
        """Open a new store."""
        if readonly:
            self.must_exist()
        if memory is not None:
            raise UnsupportedError(
                "a store in memory takes what its grains take",
                field="/memory",
                expected="no amount",
            )
        from omsgrain.storage.memory import MemoryStorage

        return MemoryStorage()

    def check(self) -> CheckReport:
        """Refuse, as there is nothing to look at."""
        with closing(self.open(readonly=True)) as store:
            return store.check()


@dataclass(frozen=True, slots=True)
class ServerLocation:
    """A database on a server."""

    url: StoreUrl

    def __str__(self) -> str:
        return self.url.shown

    def exists(self) -> bool:
        """Tell whether there is a store."""
        from omsgrain.storage.postgres.storage import is_store

        return is_store(self.url.secret, self.url.tenant)

    def must_exist(self) -> None:
        """See that there is a store: an empty database would become one."""
        if not self.exists():
            raise StoreError(f"there is no store at {str(self)!r}")

    def is_writable(self) -> bool:
        """Tell whether the server takes writes from this user."""
        from omsgrain.storage.postgres.storage import is_writable

        return is_writable(self.url.secret)

    def open(
        self,
        *,
        readonly: bool = False,
        durability: Durability = "commit",
        memory: int | str | None = None,
    ) -> Storage:
        """Open the store."""
        if memory is not None:
            raise UnsupportedError(
                "how much memory a store in a database takes is for the server to say",
                field="/memory",
                expected="no amount",
            )
        from omsgrain.storage.postgres.storage import PostgresStorage

        return PostgresStorage(
            self.url.secret,
            tenant=self.url.tenant,
            readonly=readonly,
            durability=durability,
        )

    def check(self) -> CheckReport:
        """Look at every row; the server looks after its pages."""
        with closing(self.open(readonly=True)) as store:
            return store.check()
