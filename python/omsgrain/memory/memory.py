# SPDX-License-Identifier: Apache-2.0
"""A grain as an agent reads it: an id, a kind, a text, tags, times, whatever its format was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime, timezone
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize
from uuid import uuid4

import omsgrain as og
from omsgrain import _core
from omsgrain.errors import (
    FormatError,
    NotFoundError,
    RangeError,
    SchemaError,
    StoreError,
    UnsupportedError,
)
from omsgrain.formats.mif2.records import TABLE
from omsgrain.formats.records import is_duplicate
from omsgrain.formats.source import DUPLICATE, Source, is_beside
from omsgrain.formats.table import FORMATS
from omsgrain.grain import make
from omsgrain.interchange.kept import trimmed
from omsgrain.json_values import time_text
from omsgrain.query.envelope import gist
from omsgrain.search.words import split
from omsgrain.store import import_batch
from omsgrain.store.context import context_of
from omsgrain.store.import_batch import ImportStep
from omsgrain.store.source_index import open_sources

if TYPE_CHECKING:
    from omsgrain.formats.source import Get
    from omsgrain.grain import Grain
    from omsgrain.query.filters import Filters
    from omsgrain.storage.records import GrainStatus
    from omsgrain.store.source_index import SourcedGrain, SourceSnapshot

_TEXTS: Final = ("content", "summary", "name")
_TYPES: Final = (
    "memory_type",
    "conceptType",
    "memoryType",
    "type",
    "entity_type",
    "relation_type",
)


def id_of(grain: Grain) -> str:
    """Return the id of a memory: the id from its document, or its address."""
    source = Source.of(grain)
    return grain.address if source is None else source.id


def record_of(
    grain: Grain, get: Get, *, format: str | None = None
) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and the record of a grain; None if it never was a readable record."""
    source = Source.of(grain)
    if source is None or format not in (None, source.format):
        return None
    known = FORMATS.get(source.format)
    if known is None:
        return None
    try:
        found = known.record_of(grain, get)
    except (FormatError, NotFoundError):  # its fields can still be shown
        return None
    return None if found is None else (str(found[0]), dict(found[1]))


def values_of(
    grain: Grain, get: Get, *, state: GrainStatus | None = None, most: int | None = None
) -> dict[str, Any]:
    """Return a grain as JSON-ready values, without unknown ones."""
    kind, record = record_of(grain, get) or (grain.type, {})
    content = next((text for name in _TEXTS if (text := record.get(name))), None) or gist(grain)
    metadata = record.get("metadata")
    importance = record.get("importance", grain.get("importance"))
    if importance is None and isinstance(metadata, dict):
        importance = metadata.get("importance")
    values: dict[str, Any] = {
        "id": id_of(grain),
        "kind": kind,
        "type": next((name for key in _TYPES if (name := record.get(key))), kind),
        "content": content if most is None else content[:most],
        "cut": True if most is not None and len(content) > most else None,
        "tags": record.get("tags") or grain.get("structural_tags"),
        "importance": importance,
        "metadata": metadata or None,
        "created_at": record.get("created_at") or time_text(grain["created_at"]),
        "content_address": grain.address,
    }
    if state is not None:
        values |= {
            "current": state.superseded_by is None and not state.successors,
            "superseded_by": state.superseded_by,
            "verification_status": state.verification_status,
        }
    return {name: value for name, value in values.items() if value is not None}


HASH: Final = "sha256:"
"""The prefix of the origin that finds a grain by its text."""
_PAGE: Final = 1_000  # grains
_ADDRESS: Final = re.compile(r"[0-9a-f]{64}")


def found(snapshot: SourceSnapshot, id: str) -> list[SourcedGrain]:
    """Return what a user has under an id, the current grain first; or at an address."""
    there: list[SourcedGrain] = []
    if _ADDRESS.fullmatch(id):
        one = snapshot.get(id)
        there = [] if one is None else [one]
    elif not id.startswith(HASH):
        there = snapshot.find([id]).get(id, [])
    there = [one for one in there if not is_beside(one.grain)]
    if not there:
        raise NotFoundError("there is no memory with this id")
    return there


def head(snapshot: SourceSnapshot, id: str) -> SourcedGrain:
    one = found(snapshot, id)[0]
    if not one.current:
        one = found(snapshot, id_of(one.grain))[0]
    if not one.current:
        raise NotFoundError("the memory has no current version")
    return one


class UserGrains:
    def __init__(self, store: og.GrainStore, user_id: str) -> None:
        self._store = store
        self._user_id = user_id
        self._name = normalize("NFC", user_id)

    def get(self, address: str) -> Grain:
        """Return one of them, such as a part of a large memory."""
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            one = snapshot.get(address)
        if one is None:
            raise NotFoundError("a part of the memory is missing")
        return one.grain

    def has(self, address: str) -> bool:
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            return snapshot.get(address) is not None

    def those(self, grains: Iterable[Grain]) -> Iterator[Grain]:
        """Yield those of some grains that are the user's and have content."""
        for grain in grains:
            if not grain.sealed and grain.get("user_id") == self._name and not is_beside(grain):
                yield grain

    def versions(self, id: str) -> list[Grain]:
        """Return all versions of a memory, the oldest first."""
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            first = found(snapshot, id)
            own = id_of(first[0].grain)
            first = snapshot.find([own]).get(own, first)
        joined: dict[str, Grain] = {}
        for one in reversed(first):  # the oldest first
            if one.address not in joined and not is_beside(one.grain):
                with suppress(NotFoundError):  # deleted meanwhile
                    joined |= {grain.address: grain for grain in self._store.history(one.address)}
        if not joined:
            raise NotFoundError("there is no memory with this id")
        return list(self.those(joined.values()))

    def left_of(self, grains: Sequence[Grain]) -> tuple[list[str], set[str]]:
        """Return what else contains the text of deleted grains, and the ids that end with them.

        The first are the addresses of their parts, except parts of remaining versions, and of
        duplicates without another version.
        """
        going = {grain.address for grain in grains}
        sources = [source for grain in grains if (source := Source.of(grain)) is not None]
        stay: dict[tuple[str, str, str], Source] = {}
        kept: set[str] = set()
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            for several in snapshot.find({source.id for source in sources}).values():
                for one in several:
                    other = Source.of(one.grain)
                    if other is None or one.address in going or is_duplicate(one.grain):
                        continue
                    stay[other.format, other.kind, other.id] = other
                    kept.update(other.parts)
        gone = {one.id for one in sources if (one.format, one.kind, one.id) not in stay}
        copies = list(self._copies(gone)) if gone else []
        copied = [source for grain in copies if (source := Source.of(grain)) is not None]
        sources += copied
        gone |= self._unused(
            {one.id for one in copied}, going.union(one.address for one in copies)
        )
        parts = dict.fromkeys(part for source in sources for part in source.parts)
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            there = [one for one in parts if one not in kept and snapshot.get(one) is not None]
        more = dict.fromkeys([*(grain.address for grain in copies), *there])
        return [one for one in more if one not in going], gone

    def _unused(self, ids: Set[str], going: Set[str]) -> set[str]:
        """Return those ids that only deleted grains have."""
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            there = snapshot.find(ids)
        return {id for id in ids if {one.address for one in there.get(id, ())} <= going}

    def listed(self, addresses: Iterable[str]) -> set[str]:
        """Return the addresses by which documents name grains, also of sealed grains."""
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            there = (snapshot.get(address) for address in addresses)
            return {_core.address(one.grain.blob) for one in there if one is not None}

    def _copies(self, ids: Set[str]) -> Iterator[Grain]:
        """Yield the stored copies of records that contain the text of these ids; few do."""
        cursor: str | None = None
        while True:
            page = self._store.query(
                user_id=self._user_id,
                namespace=DUPLICATE,
                current=None,
                bookkeeping=True,
                limit=_PAGE,
                cursor=cursor,
            )
            for hit in page.results:
                if is_duplicate(hit.grain) and hit.grain["context"].get("of") in ids:
                    yield hit.grain
            cursor = page.next_cursor
            if cursor is None:
                return


TYPES: Final = ("observation", "decision", "learning", "error", "context", "conversation")
"""Kinds of memories that MIF 2.0 names; others are allowed."""
MOST: Final = 100
"""The most memories of one recall."""

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
    owned = UserGrains(store, user_id)
    for _ in range(_TRIES):
        with open_sources(context_of(store), user_id) as snapshot:
            before = None if replaces is None else head(snapshot, replaces)
            former = {} if before is None else _former(before.grain, owned)
            record = _record(content, type, tags, importance, metadata, former)
            name, text = record["id"], HASH + sha256(content.encode()).hexdigest()
            there = snapshot.find([name, text], "current")
        twins = [one for one in there.get(text, ()) if not is_duplicate(one.grain)]
        if twins and (before is None or before.address == twins[0].address):
            return values_of(twins[0].grain, owned.get) | {"new": False}
        built = TABLE.to_grain(_KIND, record, owner=user_id)
        grain = built.grain
        if importance is not None:
            grain = make(grain.to_dict() | {"importance": float(importance)})
        step = ImportStep(
            id=name,
            also=(text,),
            seen=tuple({one.address for several in there.values() for one in several}),
            grain=grain,
            parts=tuple(built.parts),
            replaces=None if before is None else before.address,
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
            return values_of(kept.grain, owned.get) | {"new": True}
    raise StoreError("others change this memory again and again")


def recall(
    store: og.GrainStore,
    user_id: str,
    query: str | None = None,
    *,
    limit: int = 10,
    type: str | None = None,
    tag: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> dict[str, Any]:
    """Find memories: those that match words, the best first; without words the newest."""
    if not 1 <= limit <= MOST:
        raise RangeError("limit is out of range", field="/limit", expected=f"1 to {MOST}")
    filters: Filters = {
        "tag": tag,
        "created_after": since,
        "created_before": until,
        "user_id": user_id,
    }
    owned = UserGrains(store, user_id)
    if query is None:
        grains = _newest(store, filters, limit)
    else:
        grains = _best(store, query, filters, limit)
    said = (values_of(grain, owned.get, most=_SHOWN) for grain in owned.those(grains))
    wanted = None if type is None else _folded(type)
    kept = (one for one in said if wanted is None or wanted == _folded(one["type"]))
    return {"memories": list(islice(kept, limit))}


def forget(
    store: og.GrainStore, user_id: str, id: str, *, reason: str | None = None
) -> dict[str, Any]:
    """Delete a memory with all its versions, and its copies in documents; all or nothing.

    An import skips it, unless the import allows erased memories.
    """
    owned = UserGrains(store, user_id)
    versions = owned.versions(id)
    addresses = [grain.address for grain in versions]
    more, ids = owned.left_of(versions)
    gone = [*addresses, *more]
    ids |= {id_of(grain) for grain in versions}
    with trimmed(store, user_id, ids, owned.listed(gone)) as beside:
        store.delete_many(gone, beside=beside, reason=reason, erased="forgotten")
    return {"id": id_of(versions[-1]), "versions": len(addresses), "forgotten": addresses}


def history(store: og.GrainStore, user_id: str, id: str) -> dict[str, Any]:
    """Return all versions of a memory, whole, the oldest first, each with its state."""
    owned = UserGrains(store, user_id)
    versions = owned.versions(id)
    if len(versions) > _VERSIONS:
        raise RangeError("the memory has too many versions", expected=f"at most {_VERSIONS}")
    said = [_whole(store, owned, grain) for grain in versions]
    return {"id": id_of(versions[-1]), "versions": said}


def get(store: og.GrainStore, user_id: str, id: str) -> dict[str, Any]:
    """Return one memory, whole: the version at an address, or the current one of an id."""
    with open_sources(context_of(store), user_id) as snapshot:
        one = found(snapshot, id)[0]
    return _whole(store, UserGrains(store, user_id), one.grain)


def stats(store: og.GrainStore, user_id: str) -> dict[str, Any]:
    """Return the number of a user's current grains, and the time of the newest."""
    page = store.query(user_id=user_id, limit=1, count=True)
    newest = page.results[0].grain["created_at"] if page.results else None
    return {"grains": page.total, "newest": None if newest is None else time_text(newest)}


def _whole(store: og.GrainStore, owned: UserGrains, grain: Grain) -> dict[str, Any]:
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


def _record(
    content: str,
    type: str | None,
    tags: Sequence[str] | None,
    importance: float | None,
    metadata: Mapping[str, Any] | None,
    former: Mapping[str, Any],
) -> dict[str, Any]:
    kind = former.get("memory_type", TYPES[0]) if type is None else type
    if type is not None and not _TYPE.fullmatch(type):
        expected = "lower-case letters, digits and _"
        raise SchemaError("not a kind of memory", field="/type", expected=expected)
    if not content.strip() or len(content) > _CONTENT:
        expected = f"1 to {_CONTENT} characters"
        raise RangeError("the content is empty or too long", field="/content", expected=expected)
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record: dict[str, Any] = {"id": former.get("id", str(uuid4())), "content": content}
    record |= {"created_at": now, "memory_type": kind}
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


def _newest(store: og.GrainStore, filters: Filters, limit: int) -> Iterator[Grain]:
    """Yield the newest grains, up to a limit; pages are read as needed."""
    cursor: str | None = None
    for most in (limit, *[MOST] * (_LOOKED_AT // MOST)):
        page = store.query(**filters, limit=most, cursor=cursor)
        yield from (hit.grain for hit in page.results)
        cursor = page.next_cursor
        if cursor is None:
            return


def _best(store: og.GrainStore, query: str, filters: Filters, limit: int) -> Iterator[Grain]:
    """Yield the grains that match words, the best first, up to a limit."""
    try:
        seen = 0
        for most in (limit, _LOOKED_AT):  # all, if the first were not enough
            hits = store.search(query, limit=most, **filters).results
            yield from (hit.grain for hit in hits[seen:])
            seen = len(hits)
            if seen < most:
                return
    except UnsupportedError:  # too many encrypted grains to rank
        yield from _by_words(store, query, filters)


def _by_words(store: og.GrainStore, query: str, filters: Filters) -> Iterator[Grain]:
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
    yield from (grains[address] for address in sorted(grains, key=lambda a: -weights[a]))
