# SPDX-License-Identifier: Apache-2.0
"""A storage backend of CrewAI's memory over an ``omsgrain.Memory``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from math import dist
from typing import TYPE_CHECKING, Any, Final

from omsgrain.integrations.entries import Entries, framework, unpack
from omsgrain.memory.threads import in_thread

if TYPE_CHECKING:
    from omsgrain import Memory

_types: Any = framework("crewai.memory.types", "crewai")
_backend: Any = framework("crewai.memory.storage.backend", "crewai")

_NEAREST: Final = 1_000  # vectors that one search looks at


class CrewaiStorage:
    """The storage of ``crewai.Memory(storage=CrewaiStorage(memory), embedder=...)``.

    Each record is a grain of the memory's user, with its embedding as a vector. An update
    supersedes it, so the history has all versions; ``delete`` and ``reset`` delete records with
    all their versions. A scope is a path: ``/team`` has ``/team/ada``, but not ``/teams``; a
    record has a tag for each scope that it is in. A search looks at the 1,000 records of its scope
    that are nearest by angle; scores are ``1 / (1 + distance²)``.

    Args:
        memory: an open memory.
        namespace: the namespace of the records; two storages with the same one share them.

    Raises:
        EmbeddingDimensionMismatchError: an embedding is longer or shorter than the stored ones;
            it is CrewAI's.
        SchemaError: the metadata of a record is not JSON.
    """

    def __init__(self, memory: Memory, *, namespace: str = "crewai") -> None:
        self._store = memory.store
        self._user = memory.user
        self._entries = Entries(memory.store, memory.user, namespace)

    def save(self, records: list[Any]) -> None:
        """Store records with their embeddings in one transaction, over those with the same ids."""
        self._check_dimension(record.embedding for record in records)
        self._entries.set_many(
            {str(one.id): one.model_dump(mode="json", exclude={"embedding"}) for one in records},
            vectors={str(one.id): one.embedding for one in records if one.embedding},
            tags={str(one.id): _tags(one.scope) for one in records},
        )

    def update(self, record: Any) -> None:
        """Replace the record with the same id; without an embedding it keeps the former one."""
        if not record.embedding:
            before = self.get_record(record.id)
            if before is not None and before.embedding:
                record = record.model_copy(update={"embedding": before.embedding})
        self.save([record])

    def get_record(self, record_id: str) -> Any | None:
        """Return a record with its embedding."""
        entry = self._entries.get(str(record_id))
        if entry is None:
            return None
        record = _types.MemoryRecord.model_validate(entry.value)
        vector = self._store.vectors.get(entry.address).get(self._entries.namespace)
        return record if vector is None else record.model_copy(update={"embedding": list(vector)})

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[Any, float]]:
        """Return the records nearest to a vector that match the filters, with their scores."""
        if self._dimension() is None or limit < 1:
            return []
        self._check_dimension([query_embedding])
        hits = self._store.search(
            vector=query_embedding,
            model=self._entries.namespace,
            limit=_NEAREST,
            user_id=self._user,
            namespace=self._entries.namespace,
            tag=_tag(scope_prefix),
        )
        found: list[tuple[Any, float]] = []
        for hit in hits.results:
            record = _types.MemoryRecord.model_validate(unpack(hit.grain["object"]))
            if not _matches(record, scope_prefix, categories, metadata_filter):
                continue
            vector = self._store.vectors.get(hit.address)[self._entries.namespace]
            score = 1.0 / (1.0 + dist(query_embedding, vector) ** 2)
            if score >= min_score:
                found.append((record, score))
            if len(found) == limit:
                break
        return found

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that match all filters, and return their number."""
        wanted = None if record_ids is None else set(map(str, record_ids))
        names = [
            str(record.id)
            for record in self._records(scope_prefix)
            if _matches(record, None, categories, metadata_filter)
            and (wanted is None or str(record.id) in wanted)
            and (older_than is None or _comparable(record.created_at) < _comparable(older_than))
        ]
        return self._entries.delete(names)

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete the records of a scope, or all."""
        self.delete(scope_prefix)

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[Any]:
        """Return records of a scope, the newest first."""
        if limit <= 0 or offset < 0:
            return []
        found = sorted(
            self._records(scope_prefix),
            key=lambda record: _comparable(record.created_at),
            reverse=True,
        )
        return found[offset : offset + limit]

    def get_scope_info(self, scope: str) -> Any:
        """Return the number, the categories and the times of the records of a scope."""
        path = _folded(scope)
        records = list(self._records(path))
        times = sorted((record.created_at for record in records), key=_comparable)
        return _types.ScopeInfo(
            path=path or "/",
            record_count=len(records),
            categories=sorted({name for record in records for name in record.categories}),
            oldest_record=times[0] if times else None,
            newest_record=times[-1] if times else None,
            child_scopes=_children(records, path),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes directly below a scope."""
        return _children(self._records(parent), _folded(parent))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the categories of a scope, each with its number of records."""
        counts: dict[str, int] = {}
        for record in self._records(scope_prefix):
            for name in record.categories:
                counts[name] = counts.get(name, 0) + 1
        return counts

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records of a scope."""
        return sum(1 for _ in self._records(scope_prefix))

    asave = in_thread(save)
    asearch = in_thread(search)
    adelete = in_thread(delete)

    def _records(self, scope: str | None) -> Iterator[Any]:
        for entry in self._entries.all(_tag(scope)):
            record = _types.MemoryRecord.model_validate(entry.value)
            if _matches(record, scope, None, None):
                yield record

    def _dimension(self) -> int | None:
        """Return the length of the stored embeddings."""
        for entry in self._entries.all():
            vector = self._store.vectors.get(entry.address).get(self._entries.namespace)
            if vector is not None:
                return len(vector)
        return None

    def _check_dimension(self, embeddings: Iterable[list[float] | None]) -> None:
        known = self._dimension()
        for embedding in embeddings:
            if embedding:
                known = known or len(embedding)
                if len(embedding) != known:
                    raise _backend.EmbeddingDimensionMismatchError(known, len(embedding))


def _matches(
    record: Any,
    scope: str | None,
    categories: list[str] | None,
    metadata: dict[str, Any] | None,
) -> bool:
    path = _folded(scope or "")
    if path and record.scope != path and not record.scope.startswith(f"{path}/"):
        return False
    if categories and not set(categories) & set(record.categories):
        return False
    return all(record.metadata.get(key) == value for key, value in (metadata or {}).items())


def _folded(scope: str) -> str:
    """Return a scope with one slash at its beginning and none at its end; "" for the root."""
    path = scope.strip("/")
    return f"/{path}" if path else ""


def _tag(scope: str | None) -> str | None:
    """Return the tag that all records of a scope have; None for the root."""
    path = _folded(scope or "")
    return f"scope:{path}" if path else None


def _tags(scope: str) -> list[str]:
    """Return the tags of a record: of its scope, and of all scopes that this one is in."""
    ends = [*(i for i, letter in enumerate(scope) if letter == "/"), len(scope)]
    paths = [scope[:end] for end in ends]
    return [f"scope:{path}" for path in paths if path and path == _folded(path)]


def _children(records: Iterable[Any], path: str) -> list[str]:
    below = (record.scope[len(path) + 1 :].partition("/")[0] for record in records)
    return sorted({f"{path}/{name}" for name in below if name})


def _comparable(time: datetime) -> datetime:
    """Return a time without its zone; CrewAI's times are in UTC, and have none."""
    return time if time.tzinfo is None else time.astimezone(timezone.utc).replace(tzinfo=None)
