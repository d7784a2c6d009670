# SPDX-License-Identifier: Apache-2.0
"""The verbs of one user's memory, with answers as JSON values, as MCP gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import omsgrain as og
from omsgrain import _core
from omsgrain.errors import FormatError, RangeError, SchemaError, StoreError, UnsupportedError
from omsgrain.formats.mif2.records import TABLE
from omsgrain.formats.records import is_duplicate
from omsgrain.grain import make
from omsgrain.interchange.kept import trimmed
from omsgrain.json_values import time_text
from omsgrain.memory.factors import PLAIN, Factors
from omsgrain.memory.limits import MOST, TYPES
from omsgrain.memory.record import HASH, UserGrains, found, head, id_of, record_of, values_of
from omsgrain.memory.trace import traced
from omsgrain.query.query import see_limit
from omsgrain.query.times import now
from omsgrain.search.words import split
from omsgrain.store import import_batch
from omsgrain.store.context import context_of
from omsgrain.store.import_batch import ImportStep
from omsgrain.store.source_index import open_sources

if TYPE_CHECKING:
    from omsgrain.grain import Grain
    from omsgrain.memory.embedder import Embedder
    from omsgrain.query.filters import Filters
    from omsgrain.query.where import ValueTests

_CONTENT: Final = 100_000  # characters, the limit of MIF 1.0
_METADATA: Final = 100_000  # characters of JSON
_SHOWN: Final = 8_000  # characters of a recalled memory
_LOOKED_AT: Final = 1_000  # grains for one recall
_WORDS: Final = 16  # words of a query over sealed grains
_VERSIONS: Final = 1_000
_TRIES: Final = 5
_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_KIND: Final = "memory"


def remember(
    store: og.GrainStore,
    user_id: str,
    content: str,
    *,
    type: str | None = None,
    tags: Sequence[str] | None = None,
    importance: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    replaces: str | None = None,
) -> dict[str, Any]:
    """Keep a memory; an existing one is not stored twice."""
    about = About(type, tags, importance, metadata)
    grain, new = keep(store, user_id, content, about, replaces=replaces)
    return values_of(grain, UserGrains(store, user_id).get) | {"new": new}


def _written(*_: object, replaces: str | None = None, **__: object) -> str:
    return "create_memory" if replaces is None else "update_memory"


class About(NamedTuple):
    """Properties of a memory beside its text; a newer version keeps those that are None here."""

    type: str | None = None
    tags: Sequence[str] | None = None
    importance: float | None = None
    metadata: Mapping[str, Any] | None = None


@traced(_written, count=lambda kept: 1)
def keep(
    store: og.GrainStore,
    user_id: str,
    content: str,
    about: About,
    *,
    replaces: str | None = None,
    embedder: Embedder | None = None,
) -> tuple[Grain, bool]:
    """Store a memory with its vector, in one commit. Return its grain, and whether it is new."""
    owned = UserGrains(store, user_id)
    vector: tuple[str, bytes] | None = None
    for _ in range(_TRIES):
        with open_sources(context_of(store), user_id) as snapshot:
            before = None if replaces is None else head(snapshot, replaces)
            former = {} if before is None else _former(before.grain, owned)
            record = _record(content, about, former)
            name, text = record["id"], HASH + sha256(content.encode()).hexdigest()
            there = snapshot.find([name, text], "current")
        twins = [one for one in there.get(text, ()) if not is_duplicate(one.grain)]
        if twins and (before is None or before.address == twins[0].address):
            return twins[0].grain, False
        if embedder is not None and vector is None:
            vector = (embedder.model, embedder.vectors([content])[0])
        built = TABLE.to_grain(_KIND, record, owner=user_id)
        grain = built.grain
        if about.importance is not None:
            grain = make(grain.to_dict() | {"importance": float(about.importance)})
        step = ImportStep(
            id=name,
            also=(text,),
            seen=tuple({one.address for several in there.values() for one in several}),
            grain=grain,
            parts=tuple(built.parts),
            replaces=None if before is None else before.address,
            vector=vector,
        )
        done = import_batch.record(
            context_of(store),
            [step],
            user_id=user_id,
            since=snapshot.seq,
            allow_erased=True,  # a forgotten memory may be remembered again
        )
        (outcome,) = done.outcomes
        if outcome.error is not None:
            raise outcome.error
        if not outcome.moved:
            with open_sources(context_of(store), user_id) as snapshot:
                kept = head(snapshot, name)  # an encrypted grain has another address
            return kept.grain, True
    raise StoreError("others change this memory again and again")


class Recollection(NamedTuple):
    """A grain that a recall found."""

    grain: Grain
    score: float | None = None  # 1 for the best; None without a question
    # a piece of its text, with the words that were found in brackets; None if its vector alone was
    snippet: str | None = None


def recall(
    store: og.GrainStore,
    user_id: str,
    query: str | None = None,
    *,
    limit: int = 10,
    type: str | None = None,
    tag: str | None = None,
    where: ValueTests | None = None,
    since: str | None = None,
    until: str | None = None,
    at: str | None = None,
) -> dict[str, Any]:
    """Find memories: those that match words, the best first; without words the newest."""
    asked: Filters = {
        "tag": tag,
        "where": where,
        "created_after": since,
        "created_before": until,
        "known_at": at,
    }
    found = matches(
        store, user_id, query, limit=limit, types=None if type is None else [type], filters=asked
    )
    return {"memories": [values for _, values in found]}


@traced("search_memory", count=len)
def matches(
    store: og.GrainStore,
    user_id: str,
    query: str | None,
    *,
    limit: int,
    types: Sequence[str] | None,
    filters: Filters,
    embedder: Embedder | None = None,
    factors: Factors = PLAIN,
) -> list[tuple[Recollection, dict[str, Any]]]:
    """Return the memories that match, the best first, each with its values.

    ``types`` are types of memories or of grains. An embedder ranks by meaning too.
    """
    see_limit(limit, MOST)
    factors.check()
    filters = {**filters, "user_id": user_id}
    owned = UserGrains(store, user_id)
    if query is None:
        candidates = _newest(store, filters, limit)
    else:
        candidates = _best(store, query, filters, limit, embedder, factors)
    wanted = None if types is None else {_folded(name) for name in types}
    chosen: list[tuple[Recollection, dict[str, Any]]] = []
    for match in candidates:
        if not owned.has_content(match.grain):
            continue
        values = values_of(match.grain, owned.get, most=_SHOWN)
        if wanted is None or not wanted.isdisjoint(
            {_folded(values["type"]), _folded(match.grain.type)}
        ):
            chosen.append((match, values))
            if len(chosen) == limit:
                break
    return chosen


def forget(
    store: og.GrainStore, user_id: str, id: str, *, reason: str | None = None
) -> dict[str, Any]:
    """Delete a memory with all its versions, and its copies in documents; all or nothing.

    An import skips it, unless the import allows erased memories.
    """
    versions = forget_many(store, user_id, [id], reason=reason)
    addresses = [grain.address for grain in versions]
    return {"id": id_of(versions[-1]), "versions": len(addresses), "forgotten": addresses}


@traced("delete_memory", count=len)
def forget_many(
    store: og.GrainStore, user_id: str, ids: Iterable[str], *, reason: str | None = None
) -> list[Grain]:
    """Delete several memories as ``forget`` does, all or none. Return all deleted versions."""
    owned = UserGrains(store, user_id)
    named = {grain.address: grain for id in ids for grain in owned.versions(id, expired=True)}
    versions = list(named.values())
    more, gone = owned.left_of(versions)
    addresses = [*named, *more]
    gone |= {id_of(grain) for grain in versions}
    with trimmed(store, user_id, gone, owned.listed(addresses)) as beside:
        store.delete_many(addresses, beside=beside, reason=reason, erased="forgotten")
    return versions


def history(store: og.GrainStore, user_id: str, id: str) -> dict[str, Any]:
    """Return all versions of a memory, whole, the oldest first, each with its state."""
    owned = UserGrains(store, user_id)
    versions = owned.versions(id)
    if len(versions) > _VERSIONS:
        raise RangeError("the memory has too many versions", expected=f"at most {_VERSIONS}")
    said = [whole(store, owned, grain) for grain in versions]
    return {"id": id_of(versions[-1]), "versions": said}


def get(store: og.GrainStore, user_id: str, id: str) -> dict[str, Any]:
    """Return one memory, whole: the version at an address, or the current one of an id."""
    with open_sources(context_of(store), user_id) as snapshot:
        one = found(snapshot, id)[0]
    return whole(store, UserGrains(store, user_id), one.grain)


def stats(store: og.GrainStore, user_id: str) -> dict[str, Any]:
    """Return the number of a user's current grains, and the time of the newest."""
    page = store.query(user_id=user_id, limit=1, count=True)
    newest = page.results[0].grain["created_at"] if page.results else None
    return {"grains": page.total, "newest": None if newest is None else time_text(newest)}


def whole(store: og.GrainStore, owned: UserGrains, grain: Grain) -> dict[str, Any]:
    """Return a memory with its state; its successor is named if it is the user's."""
    said = values_of(grain, owned.get, state=store.status(grain.address))
    if "superseded_by" in said and not owned.has(said["superseded_by"]):
        del said["superseded_by"]
    return said


def _former(grain: Grain, owned: UserGrains) -> dict[str, Any]:
    """Return what a newer version keeps of a memory."""
    kind, record = record_of(grain, owned.get, format=TABLE.format) or ("", {})
    kept = ("id", "memory_type", "tags") if kind == _KIND else ()
    return {name: record[name] for name in kept if name in record}


def _record(content: str, about: About, former: Mapping[str, Any]) -> dict[str, Any]:
    type, tags, importance, metadata = about
    kind = former.get("memory_type", TYPES[0]) if type is None else type
    if type is not None and not _TYPE.fullmatch(type):
        expected = "lower-case letters, digits and _"
        raise SchemaError("not a kind of memory", field="/type", expected=expected)
    if not content.strip() or len(content) > _CONTENT:
        expected = f"1 to {_CONTENT} characters"
        raise RangeError("the content is empty or too long", field="/content", expected=expected)
    record: dict[str, Any] = {"id": former.get("id", str(uuid4())), "content": content}
    record |= {"created_at": time_text(now()), "memory_type": kind}
    if kept := former.get("tags") if tags is None else list(dict.fromkeys(tags)):
        record["tags"] = kept
    more = dict(metadata or {})
    if importance is not None:
        more["importance"] = importance
    if more:
        record["metadata"] = more
    try:
        # Metadata that no document can represent would prevent exports of the whole memory.
        _core.canonical_json(json.dumps(record, allow_nan=False).encode("ascii"))
        size = len(json.dumps(more))
    except (ValueError, TypeError, RecursionError):
        raise FormatError("metadata is not JSON: an unpaired surrogate, or NaN") from None
    if size > _METADATA:
        expected = f"at most {_METADATA} characters of JSON"
        raise RangeError("metadata is too large", field="/metadata", expected=expected)
    return record


def _folded(type: str) -> str:
    """Return a type in the form for comparisons: MIF 1.0 writes ``CodeEdit`` for ``code_edit``."""
    return type.replace("_", "").casefold()


def _newest(store: og.GrainStore, filters: Filters, limit: int) -> Iterator[Recollection]:
    """Yield the newest grains, up to a limit; pages are read as needed."""
    cursor: str | None = None
    for most in (limit, *[MOST] * (_LOOKED_AT // MOST)):
        page = store.query(**filters, limit=most, cursor=cursor)
        yield from (Recollection(hit.grain) for hit in page.results)
        cursor = page.next_cursor
        if cursor is None:
            return


def _best(
    store: og.GrainStore,
    query: str,
    filters: Filters,
    limit: int,
    embedder: Embedder | None,
    factors: Factors,
) -> Iterator[Recollection]:
    """Yield the grains that match words, or a vector too, the best first, up to a limit."""
    near: dict[str, Any] = {} if embedder is None else embedder.question(store, query)
    if near and factors.vector_weight is not None:
        near["vector_weight"] = factors.vector_weight
    try:
        if factors.reorder:  # which of them is best is known after all are read
            hits = store.search(query, limit=_LOOKED_AT, **near, **filters).results
            for hit, score in factors.ranked(hits):
                yield Recollection(hit.grain, score, hit.snippet)
            return
        seen = 0
        for most in (limit, _LOOKED_AT):  # all, if the first were not enough
            hits = store.search(query, limit=most, **near, **filters).results
            yield from (Recollection(hit.grain, hit.score, hit.snippet) for hit in hits[seen:])
            seen = len(hits)
            if seen < most:
                return
    except UnsupportedError:  # too many encrypted grains to rank
        yield from _by_words(store, query, filters)


def _by_words(store: og.GrainStore, query: str, filters: Filters) -> Iterator[Recollection]:
    """Yield the grains with words of a query: first those with more and rarer words.

    Sealed grains match whole words only, and each word is a query.
    """
    words = list(dict.fromkeys(split(query)))[:_WORDS]
    if not words:
        raise SchemaError("no word to look for", field="/query", expected="at least one word")
    weights: dict[str, float] = {}
    grains: dict[str, Grain] = {}
    for word in words:
        asked: Filters = {**filters, "words": word}
        hits = store.query(**asked, limit=MOST).results
        for hit in hits:
            address = hit.address
            weights[address] = weights.get(address, 0.0) + 1 / len(hits)
            grains[address] = hit.grain
    best = max(weights.values(), default=1.0)
    for address in sorted(grains, key=lambda a: -weights[a]):
        yield Recollection(grains[address], weights[address] / best)
