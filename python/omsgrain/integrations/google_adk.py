# SPDX-License-Identifier: Apache-2.0
"""The memory service of Google's Agent Development Kit: the events of sessions, a grain each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from uuid import uuid4

from omsgrain.integrations.entries import CLOCK, Entries, delete, framework, pack, question, unpack
from omsgrain.memory.threads import in_thread

if TYPE_CHECKING:
    from omsgrain import GrainStore
    from omsgrain.query.filters import Filters

_base: Any = framework("google.adk.memory.base_memory_service", "google-adk")
_entry: Any = framework("google.adk.memory.memory_entry", "google-adk")

_NO_SESSION: Final = "unknown"
_MEMORIES: Final = "memories"
_MOST: Final = 10
_CANDIDATES: Final = 1_000


class GrainMemoryService(_base.BaseMemoryService):
    """ADK's ``BaseMemoryService`` over a store, for ``Runner(memory_service=...)``.

    The grains have the ``user_id`` of the session, so a store with keys encrypts each user's.

    Args:
        store: an open store.
        namespace: the namespace of the grains; each app has one below it.

    Raises:
        UnsupportedError: a search in more encrypted grains of a user than can be ranked.
        RangeError: the name of an app or a user is too long.
    """

    def __init__(self, store: GrainStore, *, namespace: str = "google-adk") -> None:
        self._store = store
        self._namespace = namespace

    @in_thread
    def add_session_to_memory(self, session: Any) -> None:
        """Store the events of a session with a text; a later call stores what changed."""
        where = self._where(session.app_name, session.user_id)
        self._put(where, session.id, session.events, whole=True)

    @in_thread
    def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store events beside those of the session. Known ids are skipped."""
        where = self._where(app_name, user_id)
        self._put(where, session_id or _NO_SESSION, events, whole=False)

    @in_thread
    def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store memories. One with a known id is skipped."""
        values = [
            {
                "id": one.id or str(uuid4()),
                "author": one.author,
                "timestamp": one.timestamp or datetime.now().isoformat(),
                "content": _dumped(one.content),
                "custom_metadata": {**(custom_metadata or {}), **one.custom_metadata},
            }
            for one in memories
        ]
        self._add(self._where(app_name, user_id), _MEMORIES, values)

    @in_thread
    def search_memory(self, *, app_name: str, user_id: str, query: str) -> Any:
        """Return up to ten memories that match words, the best first."""
        words = question(query)
        if words is None:
            return _base.SearchMemoryResponse(memories=[])
        where = self._where(app_name, user_id)
        hits = self._store.search(words, limit=_CANDIDATES, **where)
        found = (hit.grain for hit in hits if "content" in hit.matched_fields)
        memories = [
            _entry.MemoryEntry.model_validate(unpack(grain["x_event"]))
            for grain in islice(found, _MOST)
        ]
        return _base.SearchMemoryResponse(memories=memories)

    @in_thread
    def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete a memory. A later call with its session does not store it again."""
        if not memory_id:
            return
        where = self._where(app_name, user_id)
        found = [
            grain.address
            for grain in self._store.iter_query(**where)
            if unpack(grain["x_event"])["id"] == memory_id
        ]
        if found:
            self._deleted(where).set(memory_id, True)
            delete(self._store, found)

    def _where(self, app_name: str, user_id: str) -> Filters:
        return {"namespace": f"{self._namespace}:{quote(app_name, safe='')}", "user_id": user_id}

    def _put(self, where: Filters, session: str, events: Iterable[Any], *, whole: bool) -> None:
        values = {
            event.id: {
                "id": event.id,
                "author": event.author,
                "timestamp": datetime.fromtimestamp(event.timestamp).isoformat(),
                "content": _dumped(event.content),
            }
            for event in events
            if event.content and event.content.parts
        }
        if whole:
            within: Filters = {**where, "session_id": session}
            known = {
                grain.address: unpack(grain["x_event"])
                for grain in self._store.iter_query(**within)
            }
            gone = [a for a, value in known.items() if values.get(value["id"]) != value]
            delete(self._store, gone, forget=False)
        self._add(where, session, values.values())

    def _add(self, where: Filters, session: str, values: Iterable[Mapping[str, Any]]) -> None:
        within: Filters = {**where, "session_id": session}
        known = {unpack(grain["x_event"])["id"] for grain in self._store.iter_query(**within)}
        deleted = {entry.name for entry in self._deleted(where).all()}
        grains = [
            {
                "type": "event",
                "content": text,
                "session_id": session,
                "x_event": pack(dict(value)),
                "created_at": CLOCK.next(),
                **where,
            }
            for value in values
            if value["id"] not in known | deleted and (text := _text(value["content"])).strip()
        ]
        if grains:
            self._store.put_many(grains)

    def _deleted(self, where: Filters) -> Entries:
        """Return the ids of deleted memories."""
        return Entries(self._store, str(where["user_id"]), f"{where['namespace']}:deleted")


def _dumped(content: Any) -> Any:
    return content.model_dump(mode="json", exclude_none=True)


def _text(content: Mapping[str, Any]) -> str:
    texts = (part.get("text") for part in content.get("parts", ()))
    return " ".join(text for text in texts if text)
