# SPDX-License-Identifier: Apache-2.0
"""The memory of an AutoGen agent: contents in order, each an Event."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from omsgrain.integrations.entries import CLOCK, delete, framework, pack, question, unpack
from omsgrain.memory.threads import in_thread

if TYPE_CHECKING:
    from omsgrain import Memory
    from omsgrain.grain import Grain
    from omsgrain.query.filters import Filters

_sdk: Any = framework("autogen_core.memory", "autogen-core")
_core: Any = framework("autogen_core", "autogen-core")
_models: Any = framework("autogen_core.models", "autogen-core")

_CANDIDATES: Final = 1_000
_HEAD: Final = "\nRelevant memory content (in chronological order):\n"


class AutoGenMemory(_sdk.Memory):
    """AutoGen's ``Memory`` over an ``omsgrain.Memory``, for ``AssistantAgent(memory=[...])``.

    Args:
        memory: an open memory; ``close`` leaves it open.
        limit: how many contents an agent gets: those that match its last message best. None gives
            it all of them, as AutoGen's ``ListMemory`` does.
        namespace: the namespace of the contents.

    Raises:
        SchemaError: the metadata or a content is not JSON, bytes or an image.
    """

    component_config_schema = None

    def __init__(
        self, memory: Memory, *, limit: int | None = None, namespace: str = "autogen"
    ) -> None:
        self._store = memory.store
        self._limit = limit
        self._where: Filters = {"namespace": namespace, "user_id": memory.user}

    @in_thread
    def add(self, content: Any, cancellation_token: Any = None) -> None:
        """Store a content: a text, a JSON value, bytes or an image."""
        mime = content.mime_type
        newest = self._store.query(**self._where, limit=1).results
        self._store.put(
            {
                "type": "event",
                "content": _text(content.content) or "content",
                "x_content": {
                    "content": pack(_packed(content.content)),
                    "mime_type": mime if isinstance(mime, str) else mime.value,
                    "metadata": pack(content.metadata),
                },
                "created_at": CLOCK.next(newest[0].grain["created_at"] if newest else 0),
                **self._where,
            }
        )

    async def query(self, query: Any = "", cancellation_token: Any = None, **kwargs: Any) -> Any:
        """Return the contents that match words, the best first; without words all, in order."""
        text = query if isinstance(query, str) else _text(query.content)
        return _sdk.MemoryQueryResult(results=await self._find(text))

    async def update_context(self, model_context: Any) -> Any:
        """Add the contents to a model's context as a message of the system."""
        text = ""
        if self._limit is not None:
            messages = await model_context.get_messages()
            text = _text(messages[-1].content) if messages else ""
        results = await self._find(text, in_order=True)
        if results:
            lines = [f"{n}. {content.content}" for n, content in enumerate(results, 1)]
            block = _HEAD + "\n".join(lines) + "\n"
            await model_context.add_message(_models.SystemMessage(content=block))
        return _sdk.UpdateContextResult(memories=_sdk.MemoryQueryResult(results=results))

    @in_thread
    def clear(self) -> None:
        """Delete all contents."""
        delete(self._store, [grain.address for grain in self._store.iter_query(**self._where)])

    async def close(self) -> None:
        """Do nothing: who opened the memory closes it."""

    @in_thread
    def _find(self, text: str, *, in_order: bool = False) -> list[Any]:
        words = question(text)
        if words is None:
            grains = list(islice(self._store.iter_query(**self._where), self._limit))[::-1]
        else:
            hits = self._store.search(words, limit=_CANDIDATES, **self._where)
            found = (hit.grain for hit in hits if "content" in hit.matched_fields)
            grains = list(islice(found, self._limit))
            if in_order:
                grains.sort(key=lambda grain: int(grain["created_at"]))
        return [_content(grain) for grain in grains]


def _packed(content: Any) -> dict[str, Any]:
    """Return a content as JSON."""
    if isinstance(content, bytes):
        return {"bytes": b64encode(content).decode()}
    if isinstance(content, _core.Image):
        return {"image": content.to_base64()}
    return {"value": content}


def _content(grain: Grain) -> Any:
    context = grain["x_content"]
    held = unpack(context["content"])
    content = held.get("value")
    if "bytes" in held:
        content = b64decode(held["bytes"])
    elif "image" in held:
        content = _core.Image.from_base64(held["image"])
    mime = context["mime_type"]
    known = {kind.value: kind for kind in _sdk.MemoryMimeType}
    return _sdk.MemoryContent(
        content=content, mime_type=known.get(mime, mime), metadata=unpack(context["metadata"])
    )


def _text(content: Any) -> str:
    """Return the words of a content, or of the parts of a message."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return " ".join(map(_text, content.values()))
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        return " ".join(map(_text, content))
    return ""
