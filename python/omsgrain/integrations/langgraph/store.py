# SPDX-License-Identifier: Apache-2.0
"""LangGraph's ``BaseStore`` over a store of grains.

    LangGraph                   grain
    namespace ("users", "ada")  namespace "langgraph:items:users:ada:"
    key                         subject, with the relation "has_value"
    value                       object of a Belief: {"value": value}, or {"json": text} if a grain
                                would change it, such as a null
    put on an existing key      the new version supersedes the old, which stays in the history
    delete                      all versions are deleted
    ttl                         the end of the grain's life
    created_at of the item      "created_at" in the context of later versions

Items come newest first, by their last update.
"""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

import omsgrain as og
from omsgrain.errors import SchemaError
from omsgrain.integrations.entries import delete_versions, pack, unpack
from omsgrain.integrations.langgraph.labels import joined, read, spell, split
from omsgrain.store.context import context_of

if TYPE_CHECKING:
    from omsgrain.query.filters import Filters

ROOT: Final = "langgraph:items:"
_HAS: Final = "has_value"
_OPERATORS: Final = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class LangGraphStore(BaseStore):
    """A ``BaseStore`` that keeps every version of an item.

    Without ``index`` a search with a query ranks by words. With it, an item has the vector of the
    texts in its fields.

    Args:
        store: the store, which stays open.
        user: the ``user_id`` of all items. An encrypted store needs it, to encrypt them.
        index: the embedding function and the fields, as for LangGraph's ``InMemoryStore``.
        ttl: defaults of the time to live, in minutes.

    Raises:
        InvalidNamespaceError: a namespace is empty or has an invalid label; it is LangGraph's.
        SchemaError: a value is not JSON, or an operation or an operator is unknown.
        UnsupportedError: a search in more encrypted items of a user than can be ranked.
    """

    supports_ttl = True

    __slots__ = (
        "_embed",
        "_fields",
        "_last",
        "_lock",
        "index_config",
        "store",
        "ttl_config",
        "user",
    )

    def __init__(
        self,
        store: og.GrainStore,
        *,
        user: str | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.store = store
        self.user = user
        self.ttl_config = ttl
        self.index_config = index
        self._embed = None if index is None else ensure_embeddings(index.get("embed"))
        self._fields = list((index or {}).get("fields") or ["$"])
        self._last = 0
        self._lock = threading.Lock()

    # --- operations -----------------------------------------------------------------------------

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: those that read see the store before those that write.

        Of several puts of one item the last counts.
        """
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                puts[(op.namespace, op.key)] = op
                results.append(None)
            elif isinstance(op, GetOp):
                results.append(self._get(op))
            elif isinstance(op, SearchOp):
                results.append(self._search(op))
            elif isinstance(op, ListNamespacesOp):
                results.append(self._namespaces(op))
            else:
                expected = "GetOp, PutOp, SearchOp or ListNamespacesOp"
                raise SchemaError("unknown operation", expected=expected, found=type(op).__name__)
        for put in puts.values():
            if put.value is None:
                self._delete(put)
            else:
                self._put(put, put.value)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in a thread, as ``batch`` does."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over, and what else is due; returns their number.

        Nothing reads them before. Call it as often as items expire.
        """
        return self.store.privacy.run_due().expired

    # --- one item -------------------------------------------------------------------------------

    def _named(self, namespace: tuple[str, ...], key: str) -> Filters:
        return {
            "namespace": joined(ROOT, namespace),
            "subject": spell(key),
            "relation": _HAS,
            "user_id": self.user,
        }

    def _current(self, namespace: tuple[str, ...], key: str) -> og.Grain | None:
        page = self.store.query(limit=1, **self._named(namespace, key))
        return page.results[0].grain if page.results else None

    def _get(self, op: GetOp) -> Item | None:
        grain = self._current(op.namespace, op.key)
        if grain is None:
            return None
        self._refresh([grain], op.refresh_ttl)
        return Item(**_parts(grain))

    def _put(self, op: PutOp, value: Mapping[str, Any]) -> None:
        named = self._named(op.namespace, op.key)
        old = self._current(op.namespace, op.key)
        known: Mapping[str, Any] = {} if old is None else old.get("context", {})
        fields = {name: one for name, one in named.items() if one is not None}
        fields |= {"type": "belief", "confidence": 1.0, "created_at": self._now()}
        about: dict[str, Any] = {}
        if old is not None:
            about["created_at"] = known.get("created_at", old["created_at"])
            about["version"] = known.get("version", 1) + 1  # or a value could return to itself
        if op.ttl is not None:
            about["ttl_minutes"] = float(op.ttl)
        fields["object"] = pack(dict(value))
        if about:
            fields["context"] = about
        vector = self._vector(value, op.index)
        ends = None if op.ttl is None else timedelta(minutes=op.ttl)
        vectors = None if vector is None else {ROOT: vector}
        address = self.store.put(fields, replaces=named, expires_at=ends, vectors=vectors)
        if old is not None and ends is not None:  # its history ends with it
            olds = [one.address for one in self.store.history(address)]
            self.store.privacy.expire([one for one in olds if one != address], ends)

    def _delete(self, op: PutOp) -> None:
        """Delete all versions, so that nothing of the item stays."""
        if (grain := self._current(op.namespace, op.key)) is not None:
            delete_versions(self.store, [grain], forget=False)

    def _now(self) -> int:
        """The time in ms, later than that of every earlier put, which keeps their order."""
        with self._lock:
            self._last = max(context_of(self.store).settings.clock(), self._last + 1)
            return self._last

    def _refresh(self, grains: Sequence[og.Grain], asked: bool) -> None:
        """Begin the time to live again, of items that have one."""
        if not asked or context_of(self.store).storage.readonly:
            return
        for grain in grains:
            minutes = grain.get("context", {}).get("ttl_minutes")
            if minutes is not None:
                self.store.privacy.expire([grain.address], timedelta(minutes=minutes))

    # --- several items --------------------------------------------------------------------------

    def _search(self, op: SearchOp) -> list[SearchItem]:
        filters: Filters = {
            "namespace": joined(ROOT, op.namespace_prefix) + "*",
            "relation": _HAS,
            "user_id": self.user,
        }
        found: Iterable[tuple[og.Grain, float | None]]
        found = ((grain, None) for grain in self.store.iter_query(**filters))
        if op.query:
            found = self._ranked(op, filters)
        matching = (
            (grain, score) for grain, score in found if matches(_value(grain), op.filter or {})
        )
        chosen = list(islice(matching, op.offset, op.offset + op.limit))
        self._refresh([grain for grain, _ in chosen], op.refresh_ttl)
        return [SearchItem(**_parts(grain), score=score) for grain, score in chosen]

    def _ranked(self, op: SearchOp, filters: Filters) -> Iterator[tuple[og.Grain, float | None]]:
        """Rank by vectors, then items without one; without an index by words."""
        most = 1_000 if op.filter else min(1_000, max(1, op.offset + op.limit))
        query = op.query or ""
        if self._embed is None:
            for hit in self.store.search(query, limit=most, **filters):
                yield hit.grain, hit.score
            return
        seen = set()
        if ROOT in [model.name for model in self.store.vectors.models()]:
            vector = self._embed.embed_query(query)
            for hit in self.store.search(vector=vector, model=ROOT, limit=most, **filters):
                seen.add(hit.address)
                yield hit.grain, hit.score
        for grain in self.store.iter_query(**filters):
            if grain.address not in seen:
                yield grain, None

    def _vector(self, value: Mapping[str, Any], index: Any) -> list[float] | None:
        if self._embed is None or index is False:
            return None
        fields = self._fields if index is None else index
        paths = [path if path == "$" else tokenize_path(path) for path in fields]
        texts = [text for path in paths for text in get_text_at_path(dict(value), path)]
        if not texts:
            return None
        return [float(one) for one in self._embed.embed_documents(["\n".join(texts)])[0]]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        begun: tuple[str, ...] = ()
        for condition in conditions:
            if condition.match_type == "prefix":
                begun = max(begun, _until_star(condition.path), key=len)
        names = self.store.namespaces(joined(ROOT, begun), user_id=self.user)
        found = {split(ROOT, name) for name in names}
        found = {one for one in found if all(_fits(condition, one) for condition in conditions)}
        if op.max_depth is not None:
            found = {one[: op.max_depth] for one in found}
        return sorted(found)[op.offset : op.offset + op.limit]


def matches(value: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Tell whether a value passes a filter of LangGraph: equal values, or operators with ``$``."""
    return all(_compare(value.get(key), wanted) for key, wanted in asked.items())


def _compare(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(name).startswith("$") for name in wanted):
            return all(_operate(found, name, than) for name, than in wanted.items())
        return isinstance(found, Mapping) and matches(found, wanted)
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(found) == len(wanted)
            and all(map(_compare, found, wanted))
        )
    return bool(found == wanted)


def _operate(found: Any, name: str, than: Any) -> bool:
    test = _OPERATORS.get(name)
    if test is None:
        raise SchemaError("unknown operator", expected=", ".join(_OPERATORS))
    if name in ("$eq", "$ne"):
        return bool(test(found, than))
    try:
        return bool(test(float(found), float(than)))
    except (TypeError, ValueError):
        return False  # what is no number has no order


def _until_star(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(path[: path.index("*")] if "*" in path else path)


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    there = namespace[: len(path)]
    if condition.match_type == "suffix":
        there = namespace[len(namespace) - len(path) :]
    elif condition.match_type != "prefix":
        raise SchemaError("unknown match", expected="prefix or suffix")
    return all(asked in ("*", label) for asked, label in zip(path, there, strict=True))


def _value(grain: og.Grain) -> dict[str, Any]:
    return cast("dict[str, Any]", unpack(grain["object"]))


def _parts(grain: og.Grain) -> dict[str, Any]:
    updated = grain["created_at"]
    return {
        "value": _value(grain),
        "key": read(grain["subject"]),
        "namespace": split(ROOT, grain["namespace"]),
        "created_at": _when(grain.get("context", {}).get("created_at", updated)),
        "updated_at": _when(updated),
    }


def _when(ms: int) -> datetime:
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=ms)
