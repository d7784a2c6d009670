# SPDX-License-Identifier: Apache-2.0
"""Where a store is kept: a directory, a database, or this process; and how it is opened.

    location = location_of("memory.omsg")   # or "postgresql://robots@hub/memory?tenant=fleet7"
    location.must_exist()
    storage = location.open(readonly=True)
    storage.sidecar.folder                  # where its text index and its graphs are

A URL has the form of libpq and one more parameter, ``tenant``: the part of the database. Without a
password in it libpq reads ``PGPASSWORD`` and ``~/.pgpass``.
"""

from __future__ import annotations

import os
import re
import sys
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from omsgrain.durable import file_path
from omsgrain.errors import RangeError, SchemaError, StoreError, UnsupportedError, number_found

if TYPE_CHECKING:
    from omsgrain.storage.base import CheckReport, Storage

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_EXPECTED = "postgresql://USER@HOST/DATABASE"
_WRITTEN = "user, password, hosts and database with @ : / ? written as %40 %3A %2F %3F"
_HOST = r"(?:\[[^]@/?]*\]|[^]@/?:,[]*)(?::\d*)?"
# libpq takes a password with such signs for a host or a path in part, and that is shown.
_URL = re.compile(
    rf"(?i:postgres(?:ql)?)://(?:(?P<user>[^@/?:]*)(?::[^@/?]*)?@)?"
    rf"(?P<where>{_HOST}(?:,{_HOST})*(?:/[^@/?]*)?)"
    r"(?:\?(?P<options>(?:[^=&]+=[^&]*(?:&|$))*))?"
)
_UNSENT = re.compile("[\0\ud800-\udfff]")


def is_url(where: object) -> bool:
    return isinstance(where, str) and _SCHEME.match(where) is not None


def match_url(text: str) -> re.Match[str] | None:
    """Match a URL of a database that can be read in one way only, and be sent."""
    return _URL.fullmatch(text) if can_be_sent(text) else None


def can_be_sent(text: str) -> bool:
    """Tell whether a database takes a text: without NUL, and Unicode."""
    return _UNSENT.search(text) is None


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """Where a store in PostgreSQL is."""

    shown: str  # the URL without passwords and options, for people
    # the URL as the driver takes it: without the tenant, with the password if it has one.
    # Never show it.
    secret: str = field(repr=False)
    tenant: str | None = None  # whose part of the database; None for the one that has no name

    @classmethod
    def parse(cls, text: str) -> StoreUrl:
        found = _SCHEME.match(text)
        if found is None:
            raise SchemaError("not the URL of a store", expected=_EXPECTED)
        scheme = found[1].lower()
        if scheme not in ("postgresql", "postgres"):
            raise UnsupportedError(
                "no store is opened by such a URL", expected=_EXPECTED, found=f"{scheme}://"
            )
        parts = match_url(text)
        if parts is None:
            raise SchemaError("not a URL that can be read", expected=_WRITTEN)
        options = [one.partition("=") for one in (parts["options"] or "").split("&") if one]
        tenants = [value for name, _, value in options if unquote(name) == "tenant"]
        if len(tenants) > 1:
            raise SchemaError("a store is of one tenant", field="/tenant", found="several")
        kept = "&".join(["".join(one) for one in options if unquote(one[0]) != "tenant"])
        user = "" if parts["user"] is None else f"{parts['user']}@"
        return cls(
            shown=f"postgresql://{user}{parts['where']}"
            + "".join(f"?tenant={t}" for t in tenants),
            secret=f"postgresql{text[found.end(1) :].partition('?')[0]}"
            + (f"?{kept}" if kept else ""),
            tenant=_tenant(tenants[0]) if tenants else None,
        )

    def __str__(self) -> str:
        return self.shown


def _tenant(value: str) -> str:
    try:
        tenant = unquote(value, errors="strict")
    except UnicodeDecodeError:
        tenant = ""
    if not (tenant and can_be_sent(tenant)):
        raise SchemaError("not a tenant", field="/tenant", expected="a name in UTF-8")
    return tenant


Where: TypeAlias = str | os.PathLike[str] | StoreUrl
"""The name of a store: the path of its directory, a URL, or ``:memory:``."""

IN_MEMORY = ":memory:"
"""The name of a new store in memory, as in SQLite. A ``Path`` is always a path."""


def is_durable(durability: str) -> bool:
    """Return whether each commit waits for the disk."""
    if durability not in ("commit", "relaxed"):
        raise SchemaError(
            "unknown durability", field="/durability", expected='"commit" or "relaxed"'
        )
    return durability == "commit"


LEAST = 16 << 20
"""Bytes; half of it are the modules and LMDB's own lists."""

_FIXED = 10 << 20
_GRAIN = 48 << 10  # bytes a grain of a run: most of its rows touch a page of their own
_COUNT = 256  # bytes a grain whose reads are counted
_MOST_MEMORY = 1 << 40
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_FORM = re.compile(r"([0-9]{1,15})\s*([A-Za-z]*)")
_AMOUNT = 'bytes, or a text such as "64MB"'


@dataclass(frozen=True, slots=True)
class Budget:
    """The limit of each part; without a budget, one that is fast on large machines."""

    run: int = 65_536  # grains in a sorted run of the index
    batch: int = sys.maxsize  # grains in a transaction of many that need not be one
    counts: int = 4_096  # grains whose reads are counted before that is written
    text: int = 8 << 20  # bytes of the text index's cache
    vectors: int = 256 << 20  # bytes of vectors in memory
    page: int = 4_096  # grains that the text index takes in at a time
    commit: int = 64 << 20  # bytes of rows in a commit of a compaction
    step: int = 4 << 30  # bytes of address space by which the map grows at the most

    @classmethod
    def of(cls, memory: int) -> Budget:
        """Share out so many bytes."""
        most, rest = cls(), memory - _FIXED
        run = max(64, rest * 3 // 4 // _GRAIN)
        return cls(
            run=min(most.run, run),
            batch=run,
            counts=min(most.counts, rest // 16 // _COUNT),
            text=min(most.text, rest // 8),
            vectors=min(most.vectors, rest // 16),
            page=min(most.page, run),
            commit=min(most.commit, rest // 4),
            step=min(most.step, max(LEAST, memory)),
        )

    def tightened(self, other: Budget) -> Budget:
        """The smaller of two in all that several handles share."""
        return Budget(*(min(getattr(self, n), getattr(other, n)) for n in self.__slots__))


def budget_of(memory: int | str | None) -> Budget:
    if memory is None:
        return Budget()
    found = bytes_of(memory, "/memory_limit")
    if not LEAST <= found <= _MOST_MEMORY:
        raise RangeError(
            "a store cannot work with that much memory",
            field="/memory_limit",
            expected=f"{LEAST} bytes (16MiB) or more",
            found=number_found(found),
        )
    return Budget.of(found)


def bytes_of(amount: int | str, field: str) -> int:
    """Return a number of bytes, given as a text or a number in an argument."""
    if type(amount) is int:
        return amount
    what = "not an amount of memory" if field == "/memory_limit" else "not a number of bytes"
    if isinstance(amount, str):
        matched = _FORM.fullmatch(amount.strip())
        if matched and matched[2].upper() in _UNITS:
            return int(matched[1]) * _UNITS[matched[2].upper()]
        raise SchemaError(what, field=field, expected=_AMOUNT)
    raise SchemaError(what, field=field, expected=_AMOUNT, found=type(amount).__name__)


class Location(ABC):
    """The place of a store, which may not exist yet. ``str`` gives its text for people."""

    __slots__ = ()

    @abstractmethod
    def exists(self) -> bool:
        """Tell whether there is a store."""

    def must_exist(self) -> None:
        """See that there is a store, which opening it for writing would make."""
        if not self.exists():
            raise StoreError(f"there is no store at {str(self)!r}")

    @abstractmethod
    def is_writable(self) -> bool:
        """Tell whether opening the store for writing is worth a try."""

    def open(
        self,
        *,
        readonly: bool = False,
        durable: bool = True,
        budget: Budget | None = None,
    ) -> Storage:
        """Open the store; make it if it is not there and may be written."""
        return self._open(readonly, durable, budget)

    @abstractmethod
    def _open(self, readonly: bool, durable: bool, budget: Budget | None) -> Storage: ...

    def check(self) -> CheckReport:
        """Look at all of a store that is not trusted yet."""
        with closing(self.open(readonly=True)) as store:
            return store.check()


def location_of(where: Where) -> Location:
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
class DirectoryLocation(Location):
    """A directory with the files of an ``LmdbStorage``."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        from omsgrain.storage.lmdb.data_file import DATA_FILE

        return (self.path / DATA_FILE).exists()

    def must_exist(self) -> None:
        """See that there is a store: an empty directory would become one."""
        from omsgrain.storage.lmdb.data_file import prepare

        prepare(self.path, readonly=True)

    def is_writable(self) -> bool:
        from omsgrain.storage.lmdb.data_file import DATA_FILE

        data = self.path / DATA_FILE
        return os.access(self.path, os.W_OK) and (not data.exists() or os.access(data, os.W_OK))

    def _open(self, readonly: bool, durable: bool, budget: Budget | None) -> Storage:
        from omsgrain.storage.lmdb.storage import LmdbStorage

        return LmdbStorage(self.path, readonly=readonly, durable=durable, budget=budget)

    def check(self) -> CheckReport:
        """Look at every byte, in a process of its own: LMDB trusts its pages."""
        from omsgrain.storage.check import check_in_child

        return check_in_child(self.path)


@dataclass(frozen=True, slots=True)
class MemoryLocation(Location):
    """The memory of this process, until the store is closed. Each time it is a new store."""

    def __str__(self) -> str:
        return IN_MEMORY

    def exists(self) -> bool:
        return False

    def must_exist(self) -> None:
        raise StoreError("a store in memory is always new", expected="a store that is there")

    def is_writable(self) -> bool:
        return True

    def _open(self, readonly: bool, durable: bool, budget: Budget | None) -> Storage:
        if readonly:
            self.must_exist()
        if budget is not None:
            raise UnsupportedError(
                "a store in memory takes what its grains take",
                field="/memory_limit",
                expected="no amount",
            )
        from omsgrain.storage.memory import MemoryStorage

        return MemoryStorage()


@dataclass(frozen=True, slots=True)
class ServerLocation(Location):
    url: StoreUrl

    def __str__(self) -> str:
        return self.url.shown

    def exists(self) -> bool:
        from omsgrain.storage.postgres.storage import is_store

        return is_store(self.url.secret, self.url.tenant)

    def is_writable(self) -> bool:
        from omsgrain.storage.postgres.storage import is_writable

        return is_writable(self.url.secret)

    def _open(self, readonly: bool, durable: bool, budget: Budget | None) -> Storage:
        if budget is not None:
            raise UnsupportedError(
                "how much memory a store in a database takes is for the server to say",
                field="/memory_limit",
                expected="no amount",
            )
        from omsgrain.storage.postgres.storage import PostgresStorage

        return PostgresStorage(
            self.url.secret,
            tenant=self.url.tenant,
            readonly=readonly,
            durable=durable,
        )
