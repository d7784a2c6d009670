# SPDX-License-Identifier: Apache-2.0
"""What a check needs of a store's reader beside the contract."""

from __future__ import annotations

from typing import Protocol

from omsgrain.store.base import Reader
from omsgrain.store.tables import Table

__all__ = ["Examined"]


class Examined(Reader, Protocol):
    """A snapshot that is examined."""

    def has_blob(self, seq: int) -> bool:
        """Tell whether there is a grain with a sequence number, without reading it."""
        ...

    def entries(self, table: Table) -> int:
        """Return the number of rows of a table."""
        ...
