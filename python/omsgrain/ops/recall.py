# SPDX-License-Identifier: Apache-2.0
"""Remember, recall, forget, history: the memory of one user, in an agent's words.

All of them are about the grains of one user. Those of others are not there: neither shown nor
counted, and asked for by id or address they are answered for like what never was.

What is remembered is a record of MIF 2.0, so it leaves in an export under the id that it has here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import omsgrain as og
from omsgrain import _core
from omsgrain.engine.recording import Step
from omsgrain.errors import FormatError, RangeError, SchemaError, StoreError, UnsupportedError
from omsgrain.formats.mif2.records import TABLE
from omsgrain.formats.records import is_duplicate
from omsgrain.gateways.trimming import trimmed
from omsgrain.grain import make
from omsgrain.ops.memories import id_of, record_of, told
from omsgrain.ops.owned import HASH, Owned, found, head
from omsgrain.ops.plain import time_text
from omsgrain.text.words import split

if TYPE_CHECKING:
    from omsgrain.grain import Grain

__all__ = ["MOST", "TYPES", "forget", "get", "history", "recall", "remember", "stats"]

TYPES: Final = ("observation", "decision", "learning", "error", "context", "conversation")
"""Kinds of memories that MIF 2.0 names; there may be others."""
MOST: Final = 100
"""Memories that are recalled at once."""

_CONTENT: Final = 100_000  # characters, as many as MIF 1.0 takes
_METADATA: Final = 100_000  # characters of JSON
_SHOWN: Final = 8_000  # characters of a memory that is recalled
_LOOKED_AT: Final = 1_000  # grains for one recall
_WORDS: Final = 16  # of a question that sealed grains are asked
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
    """Keep a memory; what is known already is not kept twice.

    Args:
        store: where.
        user_id: whose it is.
        content: what to remember.
        type: its kind: one of ``TYPES``, or another word; an observation, if that is not said.
        tags: words to find it by.
        importance: from 0 to 1.
        metadata: anything else, as JSON.
        replaces: the id of the memory that this is a newer version of. It keeps its id, and its
            type and tags where no others are given.

    Returns:
        The memory, and whether it is ``new``.

    Raises:
        NotFoundError: there is nothing that it could replace.
        SchemaError, RangeError: an argument cannot be.
        OmsError: the store or a policy refuses.
    """
    owned = Owned(store, user_id)
    for _ in range(_TRIES):
        with store.sources(user_id) as snapshot:
            before = None if replaces is None else head(snapshot, replaces)
            former = {} if before is None else _former(before.grain, owned)
            record = _record(content, type, tags, importance, metadata, former)
            name, text = record["id"], HASH + sha256(content.encode()).hexdigest()
            there = snapshot.find([name, text], "current")
        twins = [one for one in there.get(text, ()) if not is_duplicate(one.grain)]
        if twins and (before is None or before.address == twins[0].address):
            return told(twins[0].grain, owned.get) | {"new": False}
        built = TABLE.to_grain(_KIND, record, owner=user_id)
        grain = built.grain
        if importance is not None:
            grain = make(grain.to_dict() | {"importance": float(importance)})
        step = Step(
            id=name,
            also=(text,),
            seen=tuple({one.address for several in there.values() for one in several}),
            grain=grain,
            parts=tuple(built.parts),
            replaces=None if before is None else before.address,
        )
        # What was forgotten before may be said again.
        since, again = snapshot.seq, True
        done = store.record([step], user_id=user_id, since=since, allow_erased=again)
        (outcome,) = done.outcomes
        if outcome.error is not None:
            raise outcome.error
        if not outcome.moved:
            with store.sources(user_id) as snapshot:
                kept = head(snapshot, name)  # sealed, it stands under another address
            return told(kept.grain, owned.get) | {"new": True}
    raise StoreError("others change this memory all the time")


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
    """Find memories: those that match words, the best first; without words the newest.

    Args:
        store: where.
        user_id: whose they are.
        query: words; the language is that of ``GrainStore.search``.
        limit: how many, 1 to ``MOST``.
        type: only of this kind.
        tag: only with this tag.
        since: only of this time or later, RFC 3339.
        until: only from before this time.

    Returns:
        The ``memories``.

    Raises:
        RangeError: the limit.
        SchemaError: nothing to look for in the words, or a time that is none.
    """
    if not 1 <= limit <= MOST:
        raise RangeError("not a number of memories", field="/limit", expected=f"1 to {MOST}")
    asked = {"tag": tag, "created_after": since, "created_before": until}
    filters = {name: value for name, value in asked.items() if value is not None}
    filters["user_id"] = user_id
    owned = Owned(store, user_id)
    if query is None:
        grains = _newest(store, filters, limit)
    else:
        grains = _best(store, query, filters, limit)
    said = (told(grain, owned.get, most=_SHOWN) for grain in owned.those(grains))
    wanted = None if type is None else _folded(type)
    kept = (one for one in said if wanted is None or wanted == _folded(one["type"]))
    return {"memories": list(islice(kept, limit))}


def forget(
    store: og.GrainStore, user_id: str, id: str, *, reason: str | None = None
) -> dict[str, Any]:
    """Delete a memory with all its versions, and what documents kept of it besides; or nothing.

    No import brings it back, unless that is allowed to bring back what is gone.

    Args:
        store: where.
        user_id: whose it is.
        id: its id, or the address of one of its versions.
        reason: why, for the audit trail; nothing personal.

    Returns:
        Its ``id``, how many ``versions`` are gone, and their addresses as ``forgotten``.

    Raises:
        NotFoundError: the user has no such memory.
        InvalidationDeniedError: a policy or a hold refuses.
    """
    owned = Owned(store, user_id)
    versions = owned.versions(id)
    addresses = [grain.address for grain in versions]
    more = [address for address in owned.beside(versions) if address not in addresses]
    gone = [*addresses, *more]
    ids = {id_of(grain) for grain in versions}
    with trimmed(store, user_id, ids, owned.listed(gone)) as beside:
        store.delete_many(gone, beside=beside, reason=reason, erased="forgotten")
    return {"id": id_of(versions[-1]), "versions": len(addresses), "forgotten": addresses}


def history(store: og.GrainStore, user_id: str, id: str) -> dict[str, Any]:
    """All versions of a memory, the oldest first, whole, each with what became of it.

    Raises:
        NotFoundError: the user has no such memory.
        RangeError: there are too many.
    """
    owned = Owned(store, user_id)
    versions = owned.versions(id)
    if len(versions) > _VERSIONS:
        raise RangeError("too many versions", expected=f"at most {_VERSIONS}")
    said = [_whole(store, owned, grain) for grain in versions]
    return {"id": id_of(versions[-1]), "versions": said}


def get(store: og.GrainStore, user_id: str, id: str) -> dict[str, Any]:
    """One memory, whole: the version at an address, or of an id the one that is current.

    Raises:
        NotFoundError: the user has no such memory.
    """
    with store.sources(user_id) as snapshot:
        one = found(snapshot, id)[0]
    return _whole(store, Owned(store, user_id), one.grain)


def stats(store: og.GrainStore, user_id: str) -> dict[str, Any]:
    """How many current grains a user has, and of when the newest is."""
    page = store.query(user_id=user_id, limit=1, count=True)
    newest = page.results[0].grain["created_at"] if page.results else None
    return {"grains": page.total, "newest": None if newest is None else time_text(newest)}


def _whole(store: og.GrainStore, owned: Owned, grain: Grain) -> dict[str, Any]:
    """A memory with what became of it; what has superseded it is named if it is the user's."""
    said = told(grain, owned.get, state=store.state(grain.address))
    if "superseded_by" in said and not owned.has(said["superseded_by"]):
        del said["superseded_by"]
    return said


def _former(grain: Grain, owned: Owned) -> dict[str, Any]:
    """What a newer version keeps of a memory."""
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
    """The record of a memory, as MIF 2.0 has it."""
    kind = former.get("memory_type", TYPES[0]) if type is None else type
    if type is not None and not _TYPE.fullmatch(type):
        expected = "lower-case letters, digits and _"
        raise SchemaError("not a kind of memory", field="/type", expected=expected)
    if not content.strip() or len(content) > _CONTENT:
        expected = f"1 to {_CONTENT} characters"
        raise RangeError("nothing to remember, or too much", field="/content", expected=expected)
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
        # What no document can say later would keep all of the memory here.
        _core.canonical_json(json.dumps(record, allow_nan=False).encode("ascii"))
        size = len(json.dumps(more))
    except (ValueError, TypeError, RecursionError):
        raise FormatError("not JSON: half a character, or no number") from None
    if size > _METADATA:
        expected = f"at most {_METADATA} characters of JSON"
        raise RangeError("too much metadata", field="/metadata", expected=expected)
    return record


def _folded(type: str) -> str:
    """A type as it is compared: MIF 1.0 writes ``CodeEdit`` for ``code_edit``."""
    return type.replace("_", "").casefold()


def _newest(store: og.GrainStore, filters: Mapping[str, Any], limit: int) -> Iterator[Grain]:
    """The newest grains, by pages as far as they are asked for; so many of them at most."""
    cursor: str | None = None
    for most in (limit, *[MOST] * (_LOOKED_AT // MOST)):
        page = store.query(**filters, limit=most, cursor=cursor)
        yield from (hit.grain for hit in page.results)
        cursor = page.next_cursor
        if cursor is None:
            return


def _best(
    store: og.GrainStore, query: str, filters: Mapping[str, Any], limit: int
) -> Iterator[Grain]:
    """The grains that match words, the best first; so many of them at most."""
    try:
        seen = 0
        for most in (limit, _LOOKED_AT):  # all of them only if those before were not enough
            hits = store.search(query, limit=most, **filters).results
            yield from (hit.grain for hit in hits[seen:])
            seen = len(hits)
            if seen < most:
                return
    except UnsupportedError:  # what is sealed cannot be ranked
        yield from _by_words(store, query, filters)


def _by_words(store: og.GrainStore, query: str, filters: Mapping[str, Any]) -> Iterator[Grain]:
    """The grains with words of a question, those first that have more of them, and rarer ones.

    Sealed grains can be asked for whole words alone, and each word is a question of its own.
    """
    words = list(dict.fromkeys(split(query)))[:_WORDS]
    if not words:
        raise SchemaError("no word to look for", field="/query", expected="at least one word")
    weights: dict[str, float] = {}
    grains: dict[str, Grain] = {}
    for word in words:
        hits = store.query(**filters, words=word, limit=MOST).results
        for hit in hits:
            address = hit.content_address
            weights[address] = weights.get(address, 0.0) + 1 / len(hits)
            grains[address] = hit.grain
    yield from (grains[address] for address in sorted(grains, key=lambda a: -weights[a]))
