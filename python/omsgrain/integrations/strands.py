# SPDX-License-Identifier: Apache-2.0
"""A memory store of Strands Agents over an ``omsgrain.Memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from omsgrain.integrations.entries import framework
from omsgrain.memory import verbs
from omsgrain.memory.limits import MOST
from omsgrain.memory.threads import in_thread
from omsgrain.search.words import split

if TYPE_CHECKING:
    from omsgrain import Memory

_types: Any = framework("strands.memory.types", "strands-agents")

_RESULTS: Final = 10


class StrandsMemoryStore(_types.MemoryStore):
    """A memory store for ``strands.memory.MemoryManager(stores=[...])``.

    ``add`` remembers a text, and a known text is not stored twice. ``add_messages`` stores each
    message as an event, without a model. ``search`` finds both, also by inflected words, and by
    meaning if the memory has ``embed``. Each verb runs in a thread.

    Args:
        memory: an open memory.
        name: the name of the store, for the tools of the agent.
        description: what the store is for, for the tools of the agent.
        max_search_results: the most results of a search that names no number; 10 by default.
        writable: whether the agent may add to it.
        extraction: as for other stores of Strands: when messages of the agent are stored.
        session: the session of stored messages; a new one for each call by default.

    Raises:
        ValueError: an argument is invalid, the content is empty, or the store is not writable.
        SchemaError, FormatError: a message is invalid, or metadata is not JSON.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        name: str = "memory",
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: Any = None,
        session: str | None = None,
    ) -> None:
        if not name.strip():
            raise ValueError("a memory store has a name")
        if max_search_results is not None and max_search_results < 1:
            raise ValueError("max_search_results is at least 1")
        self.memory = memory
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = writable
        self.extraction = extraction
        self.session = session

    @in_thread
    def search(self, query: str, options: Any = None) -> list[Any]:
        """Find memories by the words of a text, the best first; a text without words finds none.

        The metadata of a result has ``address``, ``type``, ``created_at`` and ``score`` beside
        what was given to ``add``.
        """
        most = (options or {}).get("max_search_results")
        if most is not None and most < 1:
            raise ValueError("max_search_results is at least 1")
        limit = min(most or self.max_search_results or _RESULTS, MOST)
        words = " ".join(split(query))  # the text is no query: its signs mean nothing
        if not words:
            return []
        found = []
        for one in self.memory.recall(words, limit=limit):
            whole = verbs.get(self.memory.store, self.memory.user, one.address)
            metadata = {
                **whole.get("metadata", {}),
                "address": one.address,
                "type": one.type,
                "created_at": whole["created_at"],
                "score": one.score,
            }
            found.append(_types.MemoryEntry(content=whole["content"], metadata=metadata))
        return found

    @in_thread
    def add(self, content: str, metadata: dict[str, Any] | None = None) -> dict[str, str]:
        """Remember a text, and return the address of its grain as ``id``."""
        self._check_writable()
        if not content.strip():
            raise ValueError("the content is empty")
        return {"id": self.memory.remember(content, metadata=metadata)}

    @in_thread
    def add_messages(self, messages: list[Any], context: Any = None) -> dict[str, list[str]]:
        """Store messages of a conversation, an event each: all of them, or none."""
        self._check_writable()
        given = [{**message, "content": _blocks(message["content"])} for message in messages]
        return {"ids": self.memory.remember_messages(given, session=self.session)}

    def _check_writable(self) -> None:
        if not self.writable:
            raise ValueError(f"the memory store {self.name!r} is not writable")


def _blocks(content: list[Any]) -> list[dict[str, Any]]:
    """Return the blocks of a message, each with the type that its one member names."""
    return [{"type": next(iter(block), "text"), **block} for block in content]
