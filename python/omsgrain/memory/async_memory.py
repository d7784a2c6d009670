# SPDX-License-Identifier: Apache-2.0
"""``AsyncMemory``: the verbs of ``Memory`` for programs with an event loop."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from omsgrain.errors import StoreError
from omsgrain.memory.memory import Memory
from omsgrain.memory.threads import in_thread_of

if TYPE_CHECKING:
    from typing_extensions import Self

    import omsgrain as og
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.memory.embedder import Embed
    from omsgrain.memory.memory import MemoryView
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

    def _open(self) -> Memory:
        if self._memory is None:
            raise StoreError("the memory is not open", expected="async with AsyncMemory(...)")
        return self._memory

    remember = in_thread_of(_open, Memory.remember)
    remember_messages = in_thread_of(_open, Memory.remember_messages)
    recall = in_thread_of(_open, Memory.recall)
    search = in_thread_of(_open, Memory.search)
    context = in_thread_of(_open, Memory.context)

    def as_of(self, time: Time) -> MemoryView:
        """Return a read-only view of the memory at a time. Its verbs are not asynchronous."""
        return self._open().as_of(time)

    update = in_thread_of(_open, Memory.update)
    forget = in_thread_of(_open, Memory.forget)
    forget_many = in_thread_of(_open, Memory.forget_many)
    history = in_thread_of(_open, Memory.history)
    reembed = in_thread_of(_open, Memory.reembed)
