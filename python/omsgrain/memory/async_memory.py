# SPDX-License-Identifier: Apache-2.0
"""``AsyncMemory``: the verbs of ``Memory`` for programs with an event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omsgrain.errors import StoreError
from omsgrain.memory.memory import Memory

if TYPE_CHECKING:
    from typing_extensions import Self

    import omsgrain as og
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.memory.embedder import Embed
    from omsgrain.memory.memory import MemoryVersion, MemoryView, Recalled
    from omsgrain.query.query import Page
    from omsgrain.query.times import Time


class AsyncMemory:
    """The memory of an agent about one user; each verb runs in a thread, and none blocks the loop.

    Use it as an async context manager, which opens and closes it. Arguments, results and errors
    are those of ``Memory``. ``embed`` is an ordinary function, and is called in the thread.
    """

    __slots__ = ("_given", "_memory")

    def __init__(
        self,
        store: og.GrainStore | str | os.PathLike[str],
        *,
        user: str,
        keys: KeyRing | None = None,
        embed: Embed | None = None,
    ) -> None:
        self._given: dict[str, Any] = {"store": store, "user": user, "keys": keys, "embed": embed}
        self._memory: Memory | None = None

    async def __aenter__(self) -> Self:
        self._memory = await asyncio.to_thread(Memory, **self._given)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the store, if the memory opened it."""
        memory, self._memory = self._memory, None
        if memory is not None:
            await asyncio.to_thread(memory.close)

    async def remember(
        self,
        text: str,
        *,
        type: str | None = None,
        tags: Sequence[str] | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Store a memory, and return its address."""
        return await asyncio.to_thread(
            self._open().remember,
            text,
            type=type,
            tags=tags,
            importance=importance,
            metadata=metadata,
        )

    async def remember_messages(
        self, messages: Iterable[Mapping[str, Any]], *, session: str | None = None
    ) -> list[str]:
        """Store the messages of a conversation, an Event each, and return their addresses."""
        return await asyncio.to_thread(
            self._open().remember_messages, list(messages), session=session
        )

    async def recall(
        self,
        question: str | None = None,
        *,
        limit: int = 5,
        at: Time | None = None,
        since: Time | None = None,
        types: Sequence[str] | None = None,
        vector_weight: float | None = None,
        half_life_days: float | None = None,
        importance_weight: float = 0.0,
    ) -> list[Recalled]:
        """Find memories: those that match a question, the best first; without one the newest."""
        return await asyncio.to_thread(
            self._open().recall,
            question,
            limit=limit,
            at=at,
            since=since,
            types=types,
            vector_weight=vector_weight,
            half_life_days=half_life_days,
            importance_weight=importance_weight,
        )

    async def search(self, text: str, *, limit: int = 10) -> Page:
        """Search the user's grains as ``GrainStore.search`` does, with whole grains as results."""
        return await asyncio.to_thread(self._open().search, text, limit=limit)

    async def context(
        self,
        question: str | None = None,
        *,
        budget: int = 2_000,
        count: Callable[[str], int] = len,
    ) -> str:
        """Return the memories about a question as a block of text for a prompt."""
        return await asyncio.to_thread(self._open().context, question, budget=budget, count=count)

    def as_of(self, time: Time) -> MemoryView:
        """Return a read-only view of the memory at a time. Its verbs are not asynchronous."""
        return self._open().as_of(time)

    async def update(self, address: str, text: str) -> str:
        """Replace the text of a memory with a newer version, and return its address."""
        return await asyncio.to_thread(self._open().update, address, text)

    async def forget(self, address: str, *, reason: str | None = None) -> None:
        """Delete a memory with all its versions, and its copies in imported documents."""
        await asyncio.to_thread(self._open().forget, address, reason=reason)

    async def forget_many(self, addresses: Iterable[str], *, reason: str | None = None) -> None:
        """Delete several memories: all of them, or none."""
        await asyncio.to_thread(self._open().forget_many, addresses, reason=reason)

    async def history(self, address: str) -> list[MemoryVersion]:
        """Return all versions of a memory, the oldest first."""
        return await asyncio.to_thread(self._open().history, address)

    async def reembed(self) -> int:
        """Store vectors for the memories that have none of this model; return how many."""
        return await asyncio.to_thread(self._open().reembed)

    def _open(self) -> Memory:
        if self._memory is None:
            raise StoreError("the memory is not open", expected="async with AsyncMemory(...)")
        return self._memory
