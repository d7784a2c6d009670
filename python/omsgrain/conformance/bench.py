# SPDX-License-Identifier: Apache-2.0
"""What checks work with: directories, stores, and the services of this build without a network."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.http.probe import Probe, TenantTokens
from omsgrain.errors import packages_of
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import AUDIT
from omsgrain.store.context import Settings

NOW: Final = 1_768_471_200_000
"""The time that clocks of stores show, ms since 1970."""


class MissingError(Exception):
    """What a rule needs is not installed."""


class Bench:
    """Directories, stores and a server for checks; `close` closes all of them.

    Attributes:
        clock: the time that stores in memory see, ms since 1970; it is set by hand.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)
        self._made = 0
        self._open = ExitStack()
        self._storages: dict[og.GrainStore, MemoryStorage] = {}
        self.clock = NOW

    def close(self) -> None:
        """Close all that was opened."""
        self._open.close()

    def directory(self) -> Path:
        """A new directory."""
        self._made += 1
        path = self._root / str(self._made)
        path.mkdir()
        return path

    def store(self, **settings: Any) -> og.GrainStore:
        """A new store in memory, whose clock stands still."""
        self.clock = NOW
        storage = MemoryStorage()
        made = og.GrainStore(storage, Settings(clock=lambda: self.clock, **settings))
        self._storages[made] = storage
        return self._open.enter_context(made)

    def storage(self, store: og.GrainStore) -> MemoryStorage:
        """The storage under a store in memory."""
        return self._storages[store]

    def audit_rows(self, store: og.GrainStore) -> bytes:
        """All rows of the audit trail of a store in memory."""
        with self.storage(store).read() as reader:
            return b"".join(key + row for key, row in reader.rows(AUDIT))

    def on_disk(self, **options: Any) -> og.GrainStore:
        """A new store on disk."""
        made = og.open(self.directory() / "memory.omsg", **options)
        return self._open.enter_context(made)

    def keys(self) -> og.crypto.KeyRing:
        """A new key ring."""
        path = self.directory() / "people.keys"
        made = og.crypto.KeyRing.create(path, master=bytes(range(32)))
        return self._open.enter_context(made)

    @cached_property
    def probe(self) -> Probe:
        """Asks a server of this build over HTTP, as one tenant."""
        try:
            from omsgrain.conformance.within import client
        except ImportError as error:
            raise MissingError(f"no {error.name}: needs {packages_of('server')}") from None
        asked, token = client(self.directory() / "served.omsg", self._open)
        full, out, brought, admin = (
            token("full", ("import", "export")),
            token("out", ("export",)),
            token("in", ("import",)),
            token("admin", ("admin",)),
        )
        return Probe(asked, TenantTokens(full, out, brought, admin))

    @cached_property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools that agents are offered, and the schemas of their arguments."""
        try:
            from omsgrain.mcp.tools import listed
        except ImportError as error:
            raise MissingError(f"no {error.name}: needs {packages_of('mcp')}") from None
        return {tool.name: tool.input_schema for tool in listed(readonly=False)}
