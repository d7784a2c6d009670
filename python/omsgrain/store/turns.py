# SPDX-License-Identifier: Apache-2.0
"""The writers of one process take turns, by a queue.

A commit costs a sync of the disk whatever it holds: threads that wait for one another share a
commit. If the work of one fails, all is taken back, and begun again with each work in a nested
transaction, so that the one takes nothing along.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from omsgrain.errors import StoreError

if TYPE_CHECKING:
    from omsgrain.store.recent import Appended, Recent

__all__ = ["Member", "Session", "Turns", "WorkFailedError"]

_TOGETHER = 128  # works that share a commit at the most


class Session:
    """What a commit will add beside its rows, handed to each work in it.

    Attributes:
        pending: sequence number by address, of the works before this one.
        fresh: the same, of this work.
        added: the grains of the works before this one.
        own: those of this work.
        base: the last sequence number that was committed before.
        rows: index rows of what all of them wrote; made when a work asks the index.
        after: what to do once it is committed; that of the last work counts.
    """

    __slots__ = ("added", "after", "base", "fresh", "own", "pending", "rows")

    def __init__(self) -> None:
        self.pending: dict[bytes, int] = {}
        self.fresh: dict[bytes, int] = {}
        self.added: list[Appended] = []
        self.own: list[Appended] = []
        self.base: int | None = None
        self.rows: Recent | None = None
        self.after: Callable[[], None] | None = None

    def keep(self) -> None:
        """The work is done: what it added belongs to the commit."""
        self.pending.update(self.fresh)
        self.added += self.own
        self.fresh, self.own = {}, []

    def drop(self) -> None:
        """The work failed: forget what it added."""
        self.fresh, self.own = {}, []
        self.rows = None


Work = Callable[..., Any]
"""What a store hands to it is the store's own affair; LMDB's a transaction and a session."""


class Member:
    """One work that waits for a commit.

    Attributes:
        alone: it shares its commit with no other, being large.
        expecting: addresses that it will look for.
        done: it was committed, or failed.
    """

    __slots__ = ("alone", "done", "error", "expecting", "result", "work")

    def __init__(self, work: Work, alone: bool, expecting: Sequence[bytes]) -> None:
        self.work = work
        self.alone = alone
        self.expecting = expecting
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self, result: Any, error: BaseException | None) -> None:
        """Say what became of it."""
        self.result, self.error, self.done = result, error, True

    def outcome(self) -> Any:
        """Return what the work returned, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return self.result


class _Queue:
    """The works of a process that wait for a commit, in order of arrival."""

    __slots__ = ("_lock", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Member] = deque()
        self._lock = threading.Lock()

    def append(self, member: Member) -> None:
        """Wait behind the others."""
        with self._lock:
            self._waiting.append(member)

    def take(self) -> list[Member]:
        """Take those that share the next commit."""
        with self._lock:
            taken: list[Member] = []
            while self._waiting and len(taken) < _TOGETHER:
                if self._waiting[0].alone and taken:
                    break
                taken.append(self._waiting.popleft())
                if taken[0].alone:
                    break
            return taken

    def give_back(self, members: list[Member]) -> None:
        """Put members that were not settled in front again."""
        with self._lock:
            self._waiting.extendleft(reversed(members))


class WorkFailedError(Exception):
    """One of several works has failed: begin again, each apart from the others."""


class Turns:
    """The threads of a process that write to one store: one of them commits for all that wait.

    Args:
        commit: commits members, and settles each; what it raises is the end of those that it has
            not settled.
    """

    __slots__ = ("_commit", "_leader", "_turn", "queue")

    def __init__(self, commit: Callable[[list[Member]], None]) -> None:
        self._commit = commit
        self._turn = threading.Lock()
        self._leader: int | None = None
        self.queue = _Queue()

    def write(self, work: Work, *, alone: bool = False, expecting: Sequence[bytes] = ()) -> Any:
        """Run a work in a write transaction; others may share it, unless it is ``alone``.

        Returns:
            What the work returned.

        Raises:
            StoreError: this thread has the turn.
            Exception: what the work, or the commit, has raised.
        """
        self._check()
        member = Member(work, alone, expecting)
        self.queue.append(member)
        while not member.done:
            with self._turn:
                if not member.done:
                    self._lead(member)
        return member.outcome()

    def _check(self) -> None:
        if self._leader == threading.get_ident():  # it would wait for itself
            raise StoreError("a write transaction inside another one of the same thread")

    def _lead(self, own: Member) -> None:
        """Commit the works at the head of the queue; others may be among them, or all of them."""
        self._leader = threading.get_ident()
        members = self.queue.take()
        try:
            self._commit(members)
        except Exception as error:
            for member in members:
                if not member.done:
                    member.settle(None, error)
        finally:
            # After an interrupt the others lead themselves.
            self.queue.give_back([m for m in members if not m.done and m is not own])
            self._leader = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have the turn without a commit.

        Raises:
            StoreError: this thread has it.
        """
        self._check()
        with self._turn:
            self._leader = threading.get_ident()
            try:
                yield
            finally:
                self._leader = None
