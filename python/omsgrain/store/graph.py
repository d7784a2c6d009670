# SPDX-License-Identifier: Apache-2.0
"""``store.graph``: versions, origins, threads, goals and duplicates of grains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from omsgrain.errors import SchemaError
from omsgrain.grain import Grain
from omsgrain.query import graph
from omsgrain.query import history as conversation
from omsgrain.query import history as goals
from omsgrain.query import history as supersession
from omsgrain.store.context import StorePart

if TYPE_CHECKING:
    from omsgrain.query.graph import Graph, Same
    from omsgrain.query.history import Branch, GoalTree
    from omsgrain.storage.base import Which


class GrainGraph(StorePart):
    """``store.graph``: versions, origins, threads, goals and duplicates of grains."""

    __slots__ = ()

    def heads(self, address: str) -> list[Grain]:
        """Return the versions that nothing has superseded; several if the history has forked.

        Raises:
            NotFoundError: the grain is not in the store.
            RangeError: there are too many versions.
        """
        with self._context.storage.read() as reader:
            return supersession.heads(reader, address)

    def provenance(self, address: str, *, depth: int = 16, limit: int = 10_000) -> Graph:
        """Return what a grain was made from, and what that was made from.

        Args:
            address: the grain.
            depth: at most so many links away from it.
            limit: at most so many links in all.

        Raises:
            NotFoundError: the grain is not in the store.
        """
        with self._context.storage.read() as reader:
            return graph.provenance(reader, address, depth, limit)

    def descendants(self, address: str, *, depth: int = 16, limit: int = 10_000) -> Graph:
        """Return what was made from a grain, and what was made from that; as ``provenance``."""
        with self._context.storage.read() as reader:
            return graph.descendants(reader, address, depth, limit)

    def thread(self, session_id: str, *, which: Which = "current") -> list[Grain]:
        """Return the messages of a session by time, an answer behind what it answers.

        Args:
            session_id: the session.
            which: ``current`` messages, ``past`` ones, or ``all``.

        Raises:
            SchemaError: another ``which``.
            RangeError: there are too many.

        Spec: OMS §28.6
        """
        _see_which(which)
        with self._context.storage.read() as reader:
            return conversation.thread(reader, session_id, which)

    def branches(self, session_id: str, *, which: Which = "current") -> tuple[Branch, ...]:
        """Return the messages of a session as a tree: runs of messages, and what each follows.

        Arguments and errors are those of ``thread``.

        Spec: OMS §28.6
        """
        return conversation.branches(self.thread(session_id, which=which))

    def goals(self, address: str, *, depth: int = 16, limit: int = 10_000) -> GoalTree:
        """Return what a goal depends on and which goals it serves, each as it stands now.

        Raises:
            NotFoundError: the grain is not in the store.
            SchemaError: it is no goal.
        """
        with self._context.storage.read() as reader:
            return goals.goal_tree(reader, address, depth, limit)

    def duplicates(self, *, which: Which = "current") -> Iterator[Same]:
        """Walk the groups of grains that say the same, apart from when it was said.

        Args:
            which: among ``current`` grains, ``past`` ones, or ``all``.

        Raises:
            SchemaError: another ``which``; told with the first.
        """
        _see_which(which)
        with self._context.storage.read() as reader:
            yield from graph.duplicates(reader, which)


def _see_which(which: object) -> None:
    """Refuse what each kind of store would take for something else."""
    if which not in ("current", "past", "all"):
        raise SchemaError("no such grains", field="/which", expected="current, past or all")
