# SPDX-License-Identifier: Apache-2.0
"""A session of the OpenAI Agents SDK: the items of a conversation, an Event each."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from omsgrain.errors import NotFoundError
from omsgrain.integrations.entries import CLOCK, delete, framework, pack, unpack
from omsgrain.memory.threads import in_thread

if TYPE_CHECKING:
    from omsgrain import Memory
    from omsgrain.query.filters import Filters

_sdk: Any = framework("agents.memory", "openai-agents")

_TEXTS: Final = ("content", "output", "summary", "arguments", "name", "type")


class GrainSession:
    """The SDK's ``Session`` over an ``omsgrain.Memory``, for ``Runner.run(..., session=...)``.

    ``recall`` finds the texts of the items too. ``pop_item`` and ``clear_session`` delete grains.

    Args:
        session_id: the name of the conversation.
        memory: an open memory.
        namespace: the namespace of the items.
        session_settings: the SDK's settings, such as the most items to read.

    Raises:
        SchemaError: an item is not JSON.
    """

    def __init__(
        self,
        session_id: str,
        memory: Memory,
        *,
        namespace: str = "openai-agents",
        session_settings: Any = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or _sdk.SessionSettings()
        self._store = memory.store
        self._where: Filters = {
            "session_id": session_id,
            "namespace": namespace,
            "user_id": memory.user,
        }
        self._lock = threading.Lock()

    @in_thread
    def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order; with a limit the newest of them."""
        most = self.session_settings.limit if limit is None else limit
        if most is not None and most < 0:
            most = None
        found = islice(self._store.iter_query(**self._where), most)
        return [unpack(grain["x_item"]) for grain in found][::-1]

    @in_thread
    def add_items(self, items: list[Any]) -> None:
        """Store items after the others: all of them, or none."""
        with self._lock:
            newest = self._store.query(**self._where, limit=1).results
            after = newest[0].grain["created_at"] if newest else 0
            grains = [self._event(item, after) for item in items]
            if grains:
                self._store.put_many(grains)

    @in_thread
    def pop_item(self) -> Any:
        """Delete the newest item and return it; None if there is none."""
        while newest := self._store.query(**self._where, limit=1).results:
            try:
                delete(self._store, [newest[0].address])
            except NotFoundError:  # another process has it
                continue
            return unpack(newest[0].grain["x_item"])
        return None

    @in_thread
    def clear_session(self) -> None:
        """Delete all items."""
        delete(self._store, [grain.address for grain in self._store.iter_query(**self._where)])

    def _event(self, item: Any, after: int) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "type": "event",
            "content": _text(item) or "item",
            "x_item": pack(item),
            "created_at": CLOCK.next(after),
            **self._where,
        }
        role = item.get("role") if isinstance(item, Mapping) else None
        if isinstance(role, str) and role:
            fields["role"] = role
        return fields


def _text(item: Any) -> str:
    """Return the text of an item, of its blocks, or what it calls."""
    if isinstance(item, str):
        return item
    if isinstance(item, list):
        return "\n".join(filter(None, map(_text, item)))
    if isinstance(item, Mapping):
        texts = (item.get(name) for name in ("text", *_TEXTS))
        return next(filter(None, map(_text, texts)), "")
    return ""
