# SPDX-License-Identifier: Apache-2.0
"""Search: grains ranked by words, by vectors, or by both."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from omsgrain import _core
from omsgrain.errors import SchemaError, UnsupportedError, see_range
from omsgrain.formats.source import STATE
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.query.filters import conditions
from omsgrain.query.query import Hit, Incomplete, Page, see_limit
from omsgrain.query.walk import Walk, holds, is_opened, living, state_holds
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import SEALED, SEQUENCE
from omsgrain.store.context import Context, see_whole

if TYPE_CHECKING:
    from omsgrain.query.filters import Conditions, Filters
    from omsgrain.search.feed import Read
    from omsgrain.search.matrix import VectorMatrices, VectorRows
    from omsgrain.search.text import Query, TextIndex
    from omsgrain.search.vectors import Vector

_FEW = 5_000  # matches of the filters up to which these are ranked instead of testing each match
_TEST = 20  # times the cost of listing a grain, that of testing a match
_LIMIT = 1_000
_DEEP = 100  # minimum results of each list to fuse


def search(
    context: Context,
    text: str | None,
    vector: Vector | None,
    model: str | None,
    limit: int,
    most_bytes: int | None,
    wait: bool,
    filters: Filters,
    vector_weight: float | None = None,
) -> Page:
    from omsgrain.search.rank import VECTOR_WEIGHT
    from omsgrain.search.text import read_query

    share = VECTOR_WEIGHT if vector_weight is None else vector_weight
    see_range("vector_weight", share, 0, 1)
    if text is None and vector is None:
        raise SchemaError("a search needs words or a vector", expected="text, vector, or both")
    if type(wait) is not bool:
        raise SchemaError("wait is a bool", field="/wait", expected="True or False")
    see_limit(limit, _LIMIT)
    if most_bytes is not None:
        see_whole("most_bytes", most_bytes, 1)
    asked = conditions(filters, context.settings.clock)
    with context.inner.read() as reader:
        asked = living(reader, asked, context.settings.clock)
    indexes = _indexes(context, asked)
    query = None if text is None else read_query(text)
    few = _few(context, asked, limit) if indexes.vectors is None else None
    most = limit if text is None or vector is None else max(_DEEP, 4 * limit)
    with ExitStack() as stack:
        # One snapshot only: a second one could deadlock with a writer that waits for the first.
        readers: list[Reader] = []
        accept = None if few is not None else _accept(indexes, asked, stack, readers)
        lists: list[Sequence[tuple[int, float]]] = []
        complete, behind = True, 0
        if query is not None:
            if indexes.vectors is not None:
                wait = True  # that index is in memory, and never fed in the background
            else:
                context.awaits_texts |= wait
            found = indexes.texts().search(
                indexes.feed, query, limit=most, seqs=few, accept=accept, wait=wait
            )
            lists.append(found.matches)
            complete, behind = found.complete or len(found.matches) == most, found.behind
            if behind:
                context.feed_texts_soon()
        if not readers:
            readers.append(stack.enter_context(indexes.read()))
        reader = readers[0]
        if vector is not None:
            near = context.nearest().search(
                reader,
                vector,
                model=model,
                limit=most,
                allowed=few,
                accept=accept,
                own=indexes.vectors and indexes.vectors(),
            )
            lists.append([(seq, max(0.0, score)) for seq, score in near])
        hits, cut = _hits(reader, lists, share, query, limit, most_bytes, asked.names)
    incomplete: Incomplete | None = "bytes" if cut else None
    if incomplete is None and not complete:
        incomplete = "refused"
    context.count_reads([hit.address for hit in hits])
    return Page(hits, None, None, None, incomplete, behind)


class _Indexes(NamedTuple):
    """The indexes and snapshots of a search."""

    read: Read  # opens a snapshot in which the results are read
    feed: Read  # opens the snapshot that the text index reads
    texts: Callable[[], TextIndex]
    # returns the vectors of the one user whose encrypted grains are searched, and where they are
    # kept; None if the plain grains of all are
    vectors: Callable[[], tuple[VectorRows, VectorMatrices]] | None = None
    key: bytes | None = None  # the number of that user's key


def _indexes(context: Context, asked: Conditions) -> _Indexes:
    """Choose the indexes: those of the plain grains, or of one user's grains, opened."""
    plain = _Indexes(context.inner.read, context.inner.read, context.texts)
    ring = context.settings.keys
    if not asked.sealed or ring is None:
        return plain
    with context.storage.read() as reader:
        if not (is_opened(reader) and reader.has_sealed()):
            return plain
        user = asked.equal.get("user_id")
        if user is None:
            raise UnsupportedError(
                "encrypted grains can be ranked for one user at a time",
                field="/user_id",
                expected="user_id=, or sealed=False, to search plain grains only",
            )
        keys = reader.keys_to_open(user)
    if keys is None:
        return plain
    from omsgrain.search.user_texts import OpenedGrains

    own = OpenedGrains(context.storage, user, keys)
    kept = context.user_texts(ring)
    return _Indexes(
        own.snapshot,
        own.feed,
        lambda: kept.of(keys).texts,
        lambda: (own, kept.of(keys).vectors),
        keys.number,
    )


def _few(context: Context, asked: Conditions, limit: int) -> Set[int] | None:
    """Return the grains that match the filters, if listing them costs less than testing matches.

    If the filters match a share of the grains, a full page takes about ``limit`` tests for each
    such share. Benchmark row M2: a user who has all 5,000 grains.
    """
    from omsgrain.search.text import MOST

    if not asked.terms:
        return None
    with context.inner.read() as reader:
        walk = Walk(reader, asked, True)
        grains = reader.count()
        if walk.estimate > _FEW:
            return None
        if grains <= MOST and walk.estimate**2 > _TEST * limit * grains:
            return None
        return walk.seqs()


def _accept(
    indexes: _Indexes, asked: Conditions, stack: ExitStack, readers: list[Reader]
) -> Callable[[int], bool]:
    """Return a test of one grain, which keeps the snapshot of its first call.

    An index that is not current still has grains that were removed.
    """
    more = asked.bounded or asked.prefix or asked.tested
    plain = not (asked.equal or more)
    whose = None if more or asked.equal.keys() != {"user_id"} else asked.equal["user_id"]

    def accept(seq: int) -> bool:
        if not readers:
            readers.append(stack.enter_context(indexes.read()))
        reader = readers[0]
        if plain or whose is not None:  # rows S6 and M2-embedder: without decoding it
            blob = reader.blob_at(seq)
            if blob is None:
                return False
            if blob[2] != STATE and (plain or _owns(reader, seq, blob, whose, indexes.key)):
                return state_holds(reader, seq, asked)
        grain = reader.grain(seq)
        return grain is not None and holds(reader, seq, grain, asked)

    return cache(accept)  # words and vectors find the same grains


def _owns(reader: Reader, seq: int, blob: bytes, user_id: str | None, key: bytes | None) -> bool:
    """Whether a grain is a user's; False also if only the decoded grain can tell."""
    if blob[1] & ENCRYPTED_BIT:
        return key is not None and reader.row(SEALED, SEQUENCE.pack(seq)) == key
    return _core.user_ids([blob]) == [user_id]


def _hits(
    reader: Reader,
    lists: list[Sequence[tuple[int, float]]],
    share: float,
    query: Query | None,
    limit: int,
    most_bytes: int | None,
    names: tuple[str, ...],
) -> tuple[list[Hit], bool]:
    """Read the best grains of the lists, and tell whether there were too many bytes."""
    from omsgrain.search.rank import fuse
    from omsgrain.search.snippet import show

    ranked = lists[0]
    if len(lists) > 1:
        numbers = [[seq for seq, _ in one] for one in lists]
        weights = (1 - share, share)
        ranked = fuse(numbers, place=partial(_place, reader), limit=limit, weights=weights)
    hits: list[Hit] = []
    size, incomplete = 0, False
    for seq, score in islice(ranked, limit):
        incomplete = most_bytes is not None and size >= most_bytes
        if incomplete:
            break
        grain = reader.grain(seq)
        if grain is None:
            continue
        shown = None if query is None else show(grain.fields, query)
        fields = names if shown is None else (*shown.fields, *names)
        snippet = None if shown is None or shown.snippet is None else shown.snippet.marked()
        hits.append(Hit(grain, score, fields, grain.address, snippet))
        size += len(grain.blob)
    return hits, incomplete


def _place(reader: Reader, seq: int) -> bytes:
    """Return the sort key that breaks ties as the index does: newest first, then by address."""
    grain = reader.grain(seq)
    if grain is None:
        return b""
    time = grain.get("created_at", 0)
    address = bytes(255 - byte for byte in bytes.fromhex(grain.address))
    return (time if isinstance(time, int) and time > 0 else 0).to_bytes(8, "big") + address
