# SPDX-License-Identifier: Apache-2.0
"""What every part of a GrainStore stands on: the store below, and letting go of it."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from omsgrain.store.base import Store

__all__ = ["Base"]

Self = TypeVar("Self", bound="Base")


class Base:
    """A handle on a store.

    Args:
        store: where the blobs are kept; ``omsgrain.open`` gives one on disk.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        self._store.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
