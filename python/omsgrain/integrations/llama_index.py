# SPDX-License-Identifier: Apache-2.0
"""For LlamaIndex: a block of long-term memory, and a store of values under keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from omsgrain.integrations.entries import Entries, framework, question
from omsgrain.memory.memory import Memory
from omsgrain.memory.threads import in_thread

_blocks: Any = framework("llama_index.core.memory", "llama-index-core")
_stores: Any = framework("llama_index.core.storage.kvstore.types", "llama-index-core")

_COLLECTION = "data"


class GrainMemoryBlock(_blocks.BaseMemoryBlock[str]):
    """A memory block of LlamaIndex's ``Memory`` over an ``omsgrain.Memory``.

    Messages that leave the short-term memory are stored, an Event each. The block gives the model
    those memories that match the last message, whoever stored them.

    Args:
        memory: an open memory.
        limit: how many memories, at most.
        name: the name of the block in the prompt.

    Raises:
        SchemaError: a message is invalid.
    """

    name: str = "omsgrain"
    memory: Memory
    limit: int = 5

    @in_thread
    def _aget(self, messages: Any = None, **block_kwargs: Any) -> str:
        """Return the memories that match the last message with a text, a line each."""
        texts = [text for one in messages or () if (text := one.content)]
        words = question(texts[-1]) if texts else None
        if words is None:
            return ""
        found = self.memory.recall(words, limit=self.limit)
        return "\n".join(one.text for one in found)

    @in_thread
    def _aput(self, messages: Any) -> None:
        """Store messages, those of a session together."""
        sessions: dict[Any, list[dict[str, Any]]] = {}
        for one in messages:
            if one.content:
                session = one.additional_kwargs.get("session_id")
                message = {"role": one.role.value, "content": one.content}
                sessions.setdefault(session, []).append(message)
        for session, several in sessions.items():
            self.memory.remember_messages(several, session=session)


class GrainKVStore(_stores.BaseKVStore):
    """LlamaIndex's ``BaseKVStore``, for document, index and chat stores. Values are JSON.

    Each change of a value is a version; ``delete`` deletes a value with all its versions.

    Args:
        memory: an open memory.
        namespace: the namespace of the values; each collection has one below it.

    Raises:
        SchemaError: a value is not JSON, or a key is no text.
    """

    def __init__(self, memory: Memory, *, namespace: str = "llama-index") -> None:
        self._memory = memory
        self._namespace = namespace

    def entries(self, collection: str = _COLLECTION) -> Entries:
        """Return the values of a collection, which have a history."""
        where = f"{self._namespace}:{quote(collection, safe='')}"
        return Entries(self._memory.store, self._memory.user, where)

    def put(self, key: str, val: dict[str, Any], collection: str = _COLLECTION) -> None:
        """Store a value under a key."""
        self.entries(collection).set(key, val)

    def put_all(
        self,
        kv_pairs: Sequence[tuple[str, dict[str, Any]]],
        collection: str = _COLLECTION,
        batch_size: int = 1,
    ) -> None:
        """Store several values in one transaction."""
        self.entries(collection).set_many(dict(kv_pairs))

    def get(self, key: str, collection: str = _COLLECTION) -> dict[str, Any] | None:
        """Return the value under a key, or None."""
        entry = self.entries(collection).get(key)
        return None if entry is None else entry.value

    def get_all(self, collection: str = _COLLECTION) -> dict[str, dict[str, Any]]:
        """Return all values of a collection by key."""
        return {entry.name: entry.value for entry in self.entries(collection).all()}

    def delete(self, key: str, collection: str = _COLLECTION) -> bool:
        """Delete a value; return whether there was one."""
        return self.entries(collection).delete([key]) == 1

    aput = in_thread(put)
    aput_all = in_thread(put_all)
    aget = in_thread(get)
    aget_all = in_thread(get_all)
    adelete = in_thread(delete)
