# SPDX-License-Identifier: Apache-2.0
"""The methods of mem0's ``Memory`` over a store of omsgrain: change one import line.

No model is called. ``add`` stores each message as it is. With ``infer=True``, the default, it
skips a text that the same scope already has; mem0 would have a model extract facts here.
``search`` ranks by words, and by meaning too with ``embed``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timezone
from hashlib import md5
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import omsgrain as og
from omsgrain.errors import NotFoundError, SchemaError, UnsupportedError
from omsgrain.integrations.entries import CLOCK, delete_versions, pack, unpack
from omsgrain.memory.embedder import Embedder
from omsgrain.memory.threads import in_thread_of
from omsgrain.search.words import split

if TYPE_CHECKING:
    from typing_extensions import Self

    from omsgrain.grain import Grain
    from omsgrain.query.filters import Filters

_NAMESPACE: Final = "mem0"
_RELATION: Final = "remembers"
_SCOPES: Final = ("user_id", "agent_id", "run_id")
_PROMOTED: Final = (*_SCOPES, "actor_id", "role", "attributed_to", "expiration_date")
_IDENTITY: Final = frozenset((*_SCOPES, "actor_id"))
_CANDIDATES: Final = 1_000
_UNSET: Final = object()
_TESTS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": lambda value, other: value == other,
    "ne": lambda value, other: value != other,
    "gt": lambda value, other: value is not None and value > other,
    "gte": lambda value, other: value is not None and value >= other,
    "lt": lambda value, other: value is not None and value < other,
    "lte": lambda value, other: value is not None and value <= other,
    "in": lambda value, other: value in other,
    "nin": lambda value, other: value not in other,
    "contains": lambda value, other: value is not None and other in value,
    "icontains": lambda value, other: str(other).casefold() in str(value or "").casefold(),
}


class InvalidArgumentError(SchemaError, ValueError):
    """An argument is invalid. It is a ValueError too, as in mem0."""


class UnknownMemoryError(NotFoundError, ValueError):
    """There is no memory with this id. It is a ValueError too, as in mem0."""


class Mem0Memory:
    """The methods of mem0's ``Memory``; ``omsgrain.integrations.mem0.Memory`` is its other name.

    Args:
        config: a mapping: ``store`` is an open store or a path, by default ``memory.omsg`` in the
            directory that mem0 uses (``MEM0_DIR``, or ``.mem0`` in the home directory); ``keys``
            and ``embed`` are as for ``omsgrain.Memory``. Others, such as ``llm``, have no effect.

    Raises:
        InvalidArgumentError: an argument is invalid.
        UnknownMemoryError: ``update`` or ``delete`` of a memory that is not there.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        config = config or {}
        store = config.get("store")
        self._owns = not isinstance(store, og.GrainStore)
        self.store: og.GrainStore = store if isinstance(store, og.GrainStore) else _open(config)
        embed = config.get("embed")
        self._embedder = None if embed is None else Embedder(embed)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """Return a memory with a configuration."""
        return cls(config_dict)

    def add(
        self,
        messages: str | Mapping[str, Any] | list[Any],
        *,
        user_id: Any = None,
        agent_id: Any = None,
        run_id: Any = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: Any = None,
        expiration_date: Any = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> dict[str, Any]:
        """Store messages, except those of the system, each as a memory.

        Args:
            messages: a text, a message or a list of messages with ``role`` and ``content``.
            user_id: whose memory it is; this, ``agent_id`` or ``run_id`` is required.
            agent_id: the agent.
            run_id: the run.
            metadata: more about them, as JSON.
            timestamp: not supported, as in mem0's library.
            expiration_date: the last day of its life, such as 2030-12-31.
            infer: skip texts that the same scope already has.
            memory_type: not supported: procedural memories need a model.
            prompt: has no effect, because there is no model.

        Returns:
            ``{"results": [{"id", "memory", "event": "ADD"}]}``, as in mem0.
        """
        if timestamp is not None:
            raise InvalidArgumentError("timestamps are not supported", field="/timestamp")
        if memory_type is not None:
            raise InvalidArgumentError("procedural memories need a model", field="/memory_type")
        scope = _scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        payload = {n: v for n, v in (metadata or {}).items() if n not in _IDENTITY} | scope
        if expiration_date is not None:
            payload["expiration_date"] = _day(expiration_date)
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        elif isinstance(messages, Mapping):
            messages = [messages]
        elif not isinstance(messages, list):
            expected = "a text, a message or a list of messages"
            raise InvalidArgumentError("not messages", field="/messages", expected=expected)
        now = _now()
        added = []
        for message in messages:
            role, text, name = _message(message)
            if role in (None, "system") or not text:
                continue
            if infer and self._has(text, scope):
                continue
            more = {"role": role, "created_at": now, "updated_at": now}
            if name:
                more["actor_id"] = name
            id = str(uuid4())
            self._put(id, text, payload | more)
            result = {"id": id, "memory": text, "event": "ADD"}
            added.append(result if infer else result | {"actor_id": name or None, "role": role})
        return {"results": added}

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """Return a memory, or None."""
        grain = self._find(memory_id)
        return None if grain is None else _item(grain, score=None)

    def get_all(
        self,
        /,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        show_expired: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the memories of a scope, the newest first, as ``{"results": [...]}``.

        Args:
            filters: the scope, and values of the metadata, with mem0's operators.
            top_k: how many, at most.
            show_expired: also those past their ``expiration_date``.
            **kwargs: a scope here is refused, as in mem0: it belongs into ``filters``.
        """
        asked = _asked(filters, kwargs, top_k)
        found = (g for g in self._all(asked) if _fits(g, asked, show_expired))
        return {"results": [_item(grain) for grain in islice(found, top_k)]}

    def search(
        self,
        /,
        query: str,
        *,
        top_k: int = 20,
        filters: Mapping[str, Any] | None = None,
        threshold: float = 0.1,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any = None,
        show_expired: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the memories of a scope that match a question, the best first.

        Args:
            query: the words to find.
            top_k: how many, at most.
            filters: the scope, and values of the metadata, with mem0's operators.
            threshold: the least score; the best has 1.
            rerank: has no effect.
            explain: say of each which words match, in ``score_details``.
            reference_date: not supported, as in mem0's library.
            show_expired: also those past their ``expiration_date``.
            **kwargs: a scope here is refused, as in mem0: it belongs into ``filters``.
        """
        if reference_date is not None:
            raise InvalidArgumentError("not supported", field="/reference_date")
        asked = _asked(filters, kwargs, top_k)
        if not isinstance(query, str) or not query.strip():
            raise InvalidArgumentError("the query is empty", field="/query", expected="words")
        if not 0 <= threshold <= 1:
            raise InvalidArgumentError("out of range", field="/threshold", expected="0 to 1")
        results: list[dict[str, Any]] = []
        for grain, score, why in self._ranked(query, asked):
            if len(results) == top_k:
                break
            if score >= threshold and _fits(grain, asked, show_expired):
                item = _item(grain, score=score)
                results.append(item | {"score_details": {"why": why}} if explain else item)
        return {"results": results}

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = _UNSET,
        data: str | None = None,
    ) -> dict[str, Any]:
        """Replace the text or the metadata of a memory by a newer version.

        Args:
            memory_id: its id.
            text: the new text; without it the text stays.
            metadata: values that are added to the metadata, or replace those of the same names.
            expiration_date: the last day of its life; None lifts it.
            data: another name of ``text``.

        Returns:
            ``{"message": ...}``, as in mem0.
        """
        text = data if text is None else text
        if text is None and metadata is None and expiration_date is _UNSET:
            raise InvalidArgumentError("nothing to update", expected="text or metadata")
        grain = self._known(memory_id)
        payload = _payload(grain)
        payload |= {n: v for n, v in (metadata or {}).items() if n not in _IDENTITY}
        if expiration_date is not _UNSET:
            payload["expiration_date"] = None if expiration_date is None else _day(expiration_date)
        payload["updated_at"] = _now()
        self._put(memory_id, _text(grain) if text is None else text, payload, before=grain)
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, Any]:
        """Delete a memory with all its versions."""
        delete_versions(self.store, [self._known(memory_id)])
        return {"message": "Memory deleted successfully!"}

    def delete_all(
        self, user_id: Any = None, agent_id: Any = None, run_id: Any = None
    ) -> dict[str, Any]:
        """Delete the memories of a scope with all their versions."""
        scope = _scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        delete_versions(self.store, self._all(scope))
        return {"message": "Memories deleted successfully!"}

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """Return the changes of a memory, the oldest first; of a deleted one there are none."""
        grain = self._find(memory_id)
        if grain is None:
            return []
        rows: list[dict[str, Any]] = []
        for version in self.store.history(grain.address):
            payload = _payload(version)
            before = rows[-1]["new_memory"] if rows else None
            rows.append(
                {
                    "id": version.address,
                    "memory_id": memory_id,
                    "old_memory": before,
                    "new_memory": _text(version),
                    "event": "UPDATE" if rows else "ADD",
                    "created_at": payload["created_at"],
                    "updated_at": payload["updated_at"],
                    "is_deleted": False,
                    "actor_id": payload.get("actor_id"),
                    "role": payload.get("role"),
                }
            )
        return rows

    def reset(self) -> None:
        """Delete all memories of all scopes."""
        delete_versions(self.store, self.store.iter_query(namespace=_NAMESPACE))

    def close(self) -> None:
        """Close the store, if the memory opened it."""
        if self._owns:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(
        self, id: str, text: str, payload: dict[str, Any], *, before: Grain | None = None
    ) -> None:
        if not isinstance(text, str):
            raise InvalidArgumentError("a memory is a text", field="/text")
        vectors = None
        if self._embedder is not None:
            vectors = {self._embedder.model: self._embedder.vectors([text])[0]}
        fields = {
            "type": "belief",
            "subject": id,
            "relation": _RELATION,
            "object": pack(text),
            "confidence": 1.0,
            "namespace": _NAMESPACE,
            "context": {"payload": pack(payload)},
            "created_at": CLOCK.next(0 if before is None else before["created_at"]),
        }
        if "user_id" in payload:
            fields["user_id"] = payload["user_id"]
        if tags := [f"{n}:{payload[n]}" for n in ("agent_id", "run_id") if n in payload]:
            fields["structural_tags"] = tags
        replaced: Filters = {"subject": id, "namespace": _NAMESPACE}
        self.store.put(fields, replaces=None if before is None else replaced, vectors=vectors)

    def _find(self, id: str) -> Grain | None:
        page = self.store.query(subject=str(id), namespace=_NAMESPACE, limit=1)
        return page.results[0].grain if page.results else None

    def _known(self, id: str) -> Grain:
        grain = self._find(id)
        if grain is None:
            raise UnknownMemoryError("there is no memory with this id", field="/memory_id")
        return grain

    def _has(self, text: str, scope: Mapping[str, Any]) -> bool:
        filters = _filters(scope) | {"object": pack(text)}
        return any(_in_scope(grain, scope) for grain in self.store.iter_query(**filters))

    def _all(self, asked: Mapping[str, Any]) -> Iterator[Grain]:
        return (g for g in self.store.iter_query(**_filters(asked)) if _in_scope(g, asked))

    def _ranked(self, query: str, asked: Mapping[str, Any]) -> Iterator[tuple[Grain, float, str]]:
        """Yield the grains that match words, or a vector too, each with its score and a reason."""
        embedder = self._embedder
        near = {} if embedder is None else embedder.question(self.store, query)
        try:
            page = self.store.search(query, limit=_CANDIDATES, **near, **_filters(asked))
            for hit in page.results:
                yield hit.grain, float(hit.score or 0.0), hit.snippet or "near in meaning"
            return
        except UnsupportedError:  # encrypted grains of several users, or too many of one
            words = set(split(query))
        found = [
            (grain, len(same) / len(words), " ".join(sorted(same)))
            for grain in islice(self._all(asked), _CANDIDATES)
            if (same := words.intersection(split(_text(grain))))
        ]
        yield from sorted(found, key=lambda one: -one[1])


Memory = Mem0Memory


class AsyncMem0Memory:
    """The methods of mem0's ``AsyncMemory``; each runs in a thread.

    Args:
        config: as for ``Memory``.

    Raises:
        InvalidArgumentError, UnknownMemoryError: as for ``Memory``.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._memory = Mem0Memory(config)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """Return a memory with a configuration."""
        return cls(config_dict)

    def _inner(self) -> Mem0Memory:
        return self._memory

    add = in_thread_of(_inner, Mem0Memory.add)
    get = in_thread_of(_inner, Mem0Memory.get)
    get_all = in_thread_of(_inner, Mem0Memory.get_all)
    search = in_thread_of(_inner, Mem0Memory.search)
    update = in_thread_of(_inner, Mem0Memory.update)
    delete = in_thread_of(_inner, Mem0Memory.delete)
    delete_all = in_thread_of(_inner, Mem0Memory.delete_all)
    history = in_thread_of(_inner, Mem0Memory.history)
    reset = in_thread_of(_inner, Mem0Memory.reset)

    def close(self) -> None:
        """Close the store, if the memory opened it."""
        self._memory.close()


AsyncMemory = AsyncMem0Memory


def _open(config: Mapping[str, Any]) -> og.GrainStore:
    path = config.get("store")
    if path is None:
        folder = Path(os.environ.get("MEM0_DIR") or Path.home() / ".mem0")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "memory.omsg"
    return og.open(path, keys=config.get("keys"))


def _message(message: Any) -> tuple[str | None, str, str | None]:
    """Return the role, the text and the name of a message; no role if it is none."""
    if not isinstance(message, Mapping):
        return None, "", None
    content = message.get("content")
    if isinstance(content, list):  # blocks
        texts = (block.get("text") for block in content if isinstance(block, Mapping))
        content = "\n".join(text for text in texts if isinstance(text, str))
    return message.get("role"), content if isinstance(content, str) else "", message.get("name")


def _scope(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of a scope that are given, as text."""
    scope = {}
    for name in _SCOPES:
        if given.get(name) is not None:
            value = str(given[name]).strip()
            if not value or any(c.isspace() for c in value):
                raise InvalidArgumentError("not an id", field=f"/{name}", expected="no spaces")
            scope[name] = value
    if not scope:
        expected = "at least one of user_id, agent_id, run_id"
        raise InvalidArgumentError("there is no scope", expected=expected)
    return scope


def _asked(
    filters: Mapping[str, Any] | None, others: Mapping[str, Any], top_k: int
) -> dict[str, Any]:
    """Check what a reading method is asked for."""
    for name in others:
        expected = f"filters={{{name!r}: ...}}" if name in _SCOPES else None
        raise InvalidArgumentError("unknown argument", field=f"/{name}", expected=expected)
    if type(top_k) is not int or top_k < 0:
        raise InvalidArgumentError("out of range", field="/top_k", expected="0 or more")
    return dict(filters or {}) | _scope(filters or {})


def _filters(asked: Mapping[str, Any]) -> Filters:
    """Return the filters of a query that an index answers."""
    filters: Filters = {"namespace": _NAMESPACE}
    if "user_id" in asked:
        filters["user_id"] = asked["user_id"]
    for name in ("run_id", "agent_id"):
        if name in asked:
            filters["tag"] = f"{name}:{asked[name]}"
    return filters


def _payload(grain: Grain) -> dict[str, Any]:
    return dict(unpack(grain["context"]["payload"]))


def _text(grain: Grain) -> str:
    return str(unpack(grain["object"]))


def _in_scope(grain: Grain, asked: Mapping[str, Any]) -> bool:
    payload = _payload(grain)
    return all(payload.get(name) == asked[name] for name in _SCOPES if name in asked)


def _fits(grain: Grain, asked: Mapping[str, Any], show_expired: bool) -> bool:
    payload = _payload(grain)
    ends = payload.get("expiration_date")
    if ends and not show_expired and str(ends) < _now()[:10]:
        return False
    return _passes(payload, asked)


def _passes(payload: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    """Return whether a payload passes all filters, with mem0's operators."""
    for name, wanted in filters.items():
        if name in ("AND", "OR", "NOT"):
            if not isinstance(wanted, list) or not wanted:
                raise InvalidArgumentError("a list of filters", field=f"/filters/{name}")
            passed = [_passes(payload, inner) for inner in wanted]
            if not {"AND": all(passed), "OR": any(passed), "NOT": not any(passed)}[name]:
                return False
        elif isinstance(wanted, Mapping):
            for operator, value in wanted.items():
                test = _TESTS.get(operator)
                if test is None:
                    expected = ", ".join(_TESTS)
                    at = f"/filters/{name}"
                    raise InvalidArgumentError("unknown operator", field=at, expected=expected)
                try:
                    if not test(payload.get(name), value):
                        return False
                except TypeError:  # of another kind
                    return False
        elif name not in payload if wanted == "*" else payload.get(name) != wanted:
            return False
    return True


def _item(grain: Grain, **more: Any) -> dict[str, Any]:
    """Return a memory in mem0's form."""
    payload, text = _payload(grain), _text(grain)
    item: dict[str, Any] = {
        "id": grain["subject"],
        "memory": text,
        "hash": md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest(),
        "metadata": None,
        **more,
        "created_at": payload.pop("created_at"),
        "updated_at": payload.pop("updated_at"),
    }
    item |= {name: payload.pop(name) for name in _PROMOTED if name in payload}
    if payload:
        item["metadata"] = payload
    return item


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


def _day(value: Any) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat()
    try:
        return (value if isinstance(value, date) else date.fromisoformat(value)).isoformat()
    except (TypeError, ValueError):
        expected = "a day such as 2030-12-31"
        raise InvalidArgumentError(
            "no date", field="/expiration_date", expected=expected
        ) from None
