# SPDX-License-Identifier: Apache-2.0
"""``store.graph``: versions, sources, threads, goals and duplicates of grains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from omsgrain.errors import SchemaError
from omsgrain.grain import Grain
from omsgrain.query import graph, history
from omsgrain.query.walk import Ended, ended
from omsgrain.store.context import StorePart

if TYPE_CHECKING:
    from omsgrain.query.graph import Graph, Same
    from omsgrain.query.history import Branch, GoalTree
    from omsgrain.storage.base import Reader, Which


class GrainGraph(StorePart):
    """``store.graph``: versions, sources, threads, goals and duplicates of grains.

    Grains whose end of life has come are missing, as they are after ``store.privacy.run_due``;
    only the grain whose address you give is shown.
    """

    __slots__ = ()

    def heads(self, address: str) -> list[Grain]:
        """Return the current versions of a grain; several if the history forked.

        Args:
            address: any version.

        Raises:
            NotFoundError: the grain is not in the store.
            RangeError: there are too many versions.
        """
        with self._context.storage.read() as reader:
            return history.heads(reader, address, self._ended(reader))

    def provenance(self, address: str, *, depth: int = 16, limit: int = 10_000) -> Graph:
        """Return the grains that a grain was derived from, directly and indirectly.

        Args:
            address: the grain.
            depth: maximum number of links from the grain.
            limit: maximum number of links in total.

        Raises:
            NotFoundError: the grain is not in the store.
        """
        with self._context.storage.read() as reader:
            return graph.provenance(reader, address, depth, limit, self._ended(reader))

    def descendants(self, address: str, *, depth: int = 16, limit: int = 10_000) -> Graph:
        """Return the grains derived from a grain, directly and indirectly.

        Arguments and errors are those of ``provenance``.
        """
        with self._context.storage.read() as reader:
            return graph.descendants(reader, address, depth, limit, self._ended(reader))

    def thread(self, session_id: str, *, which: Which = "current") -> list[Grain]:
        """Return the messages of a session by time, each reply after the message it replies to.

        Args:
            session_id: the session.
            which: "current", "past" or "all" messages.

        Raises:
            SchemaError: ``which`` has another value.
            RangeError: the session has too many messages.

        Spec: OMS §28.6
        """
        _see_which(which)
        with self._context.storage.read() as reader:
            return history.thread(reader, session_id, which, self._ended(reader))

    def branches(self, session_id: str, *, which: Which = "current") -> tuple[Branch, ...]:
        """Return the messages of a session as a tree of branches.

        Arguments and errors are those of ``thread``.

        Spec: OMS §28.6
        """
        return history.branches(self.thread(session_id, which=which))

    def goals(self, address: str, *, depth: int = 16, limit: int = 10_000) -> GoalTree:
        """Return the goals that a goal depends on and serves, with their current versions.

        Args:
            address: the goal.
            depth: maximum number of links from the goal.
            limit: maximum number of links in total.

        Raises:
            NotFoundError: the grain is not in the store.
            SchemaError: the grain is not a goal.
        """
        with self._context.storage.read() as reader:
            return history.goal_tree(reader, address, depth, limit, self._ended(reader))

    def duplicates(self, *, which: Which = "current") -> Iterator[Same]:
        """Iterate over groups of grains with the same content, apart from their times.

        Args:
            which: among "current", "past" or "all" grains.

        Raises:
            SchemaError: ``which`` has another value; raised with the first group.
        """
        _see_which(which)
        with self._context.storage.read() as reader:
            yield from graph.duplicates(reader, which, self._ended(reader))

    def _ended(self, reader: Reader) -> Ended | None:
        return ended(reader, self._context.settings.clock)


def _see_which(which: object) -> None:
    """Refuse an unknown ``which``, which storages would read differently."""
    if which not in ("current", "past", "all"):
        raise SchemaError(
            "invalid choice of grains", field="/which", expected="current, past or all"
        )
