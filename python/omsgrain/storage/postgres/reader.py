# SPDX-License-Identifier: Apache-2.0
"""What will be asked of the grains of a list is asked of many at once.

A query walks one list, and asks of each grain whether it is in the others, what became of it, and
what it says. Each of these would be a round trip. But the walk has read its places by pages, and
when the first of a page is asked about, the rest of the page is about to be: so the question is
put for all of them, and the answers are kept as long as the page is.

This holds in a snapshot, where answers do not change. A writer goes without.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import psycopg

from omsgrain import _core
from omsgrain.errors import StoreError
from omsgrain.grain import Grain, stored_grain
from omsgrain.storage.base import PAGE_BYTES, PAGE_GRAINS, Which
from omsgrain.storage.postgres import pool
from omsgrain.storage.postgres import statements as sql
from omsgrain.storage.postgres.connection import Database, PostgresHead, failure
from omsgrain.storage.postgres.pool import Array, Row, Statement, Wire, byteas
from omsgrain.storage.postgres.rows import Added, terms_of
from omsgrain.storage.records import PAST
from omsgrain.storage.scan import misplaced, stored
from omsgrain.storage.tables import SEQUENCE, STATES, Table

if TYPE_CHECKING:
    from omsgrain.storage.postgres.writer import PostgresWriter

_PAGES = 72  # pages kept: a query may walk 64 lists side by side
_GRAINS = 16, 128  # grains read at once, at first and at the most
_PLACES = 16  # places read at first, where not all that are met will be wanted


class _Has(Protocol):
    def __call__(self, key: bytes, places: list[bytes], which: Which, /) -> set[bytes]: ...


class ExpectedPlaces(NamedTuple):
    """What will be asked of the places of the next walk.

    Attributes:
        grains: how many of those that have all terms will be read.
        terms: what each is looked up in.
        states: whether its state is asked.
    """

    grains: int
    terms: tuple[bytes, ...]
    states: bool

    @property
    def places(self) -> int:
        """How many to read at first: one more tells whether the walk goes on."""
        wanted = min(self.grains + 1, _GRAINS[1])
        return max(4 * wanted, _PLACES) if self.terms or self.states else wanted

    def blobs(self, places: int) -> bool:
        """Whether blobs come with a page of so many places."""
        return 0 < self.grains and places <= 2 * _GRAINS[1]


class _Page:
    """Places that were read together, and what is known of them."""

    __slots__ = "at", "blobs", "came", "grains", "has", "held", "places", "states", "states_from"

    def __init__(self, places: list[bytes]) -> None:
        self.places = places
        self.at = {place[12:]: i for i, place in enumerate(places)}
        self.has: dict[tuple[bytes, Which], tuple[int, set[bytes]]] = {}
        self.states: dict[bytes, bytes] = {}
        self.states_from: int | None = None
        self.came: dict[int, bytes] = {}  # blobs, with the places
        self.blobs: dict[int, bytes] = {}
        self.held = 0, 0  # from which place, and up to which
        self.grains = _GRAINS[0]

    def numbers(self, first: int, last: int | None = None) -> list[int]:
        return [int.from_bytes(place[12:], "big") for place in self.places[first:last]]


class Prefetch:
    """Answers about the grains of the pages that were read last."""

    def __init__(
        self,
        has: _Has,
        states: Callable[[list[bytes]], dict[bytes, bytes]],
        blobs: Callable[[list[int]], dict[int, bytes]],
    ) -> None:
        self._has, self._states, self._blobs = has, states, blobs
        self._pages: deque[_Page] = deque()
        self._page_of: dict[bytes, _Page] = {}  # by the ends of places: their numbers

    def expect(
        self,
        places: list[bytes],
        *,
        has: dict[tuple[bytes, Which], set[bytes]] | None = None,
        states: dict[bytes, bytes] | None = None,
        blobs: dict[int, bytes] | None = None,
    ) -> None:
        """Say that a page was read."""
        page = _Page(places)
        if has is not None:
            page.has = {one: (0, found) for one, found in has.items()}
        if states is not None:
            page.states, page.states_from = states, 0
        if blobs is not None:
            page.came = blobs
        self._pages.append(page)
        self._page_of.update(dict.fromkeys(page.at, page))
        if len(self._pages) > _PAGES:
            old = self._pages.popleft()
            for end in old.at:
                if self._page_of.get(end) is old:
                    del self._page_of[end]

    def has(self, key: bytes, place: bytes, which: Which) -> bool | None:
        """Whether the grain at a place has a term; None if it is of no page."""
        page = self._page_of.get(place[12:])
        if page is None:
            return None
        index = page.at[place[12:]]
        if page.places[index] != place:
            return None
        known = page.has.get((key, which))
        if known is None or index < known[0]:
            found = self._has(key, page.places[index:], which)
            known = page.has[key, which] = index, found
        return place in known[1]

    def state(self, key: bytes) -> tuple[bytes | None] | None:
        """The row of a grain's state, which may be none; None if it is of no page."""
        page = self._page_of.get(key[-4:]) if key[:4] == bytes(4) else None
        if page is None or len(key) != SEQUENCE.size:
            return None
        index = page.at[key[-4:]]
        if page.states_from is None or index < page.states_from:
            page.states = self._states([bytes(4) + place[12:] for place in page.places[index:]])
            page.states_from = index
        return (page.states.get(key),)

    def blob(self, seq: int) -> tuple[bytes | None] | None:
        """The blob of a grain, which may be gone; None if it is of no page.

        Grains are large: they are read few at first, and let go of when the next ones are.
        """
        end = SEQUENCE.pack(seq)[-4:]
        page = self._page_of.get(end) if seq < 1 << 32 else None
        if page is None:
            return None
        if seq in page.came:
            return (page.came[seq],)
        index = page.at[end]
        first, last = page.held
        if index < first:
            return None  # read before, and let go of
        if index >= last:
            page.held = index, index + page.grains
            page.blobs = self._blobs(page.numbers(*page.held))
            page.grains = min(2 * page.grains, _GRAINS[1])
        return (page.blobs.get(seq),)

    def brought(self, numbers: list[int]) -> dict[int, bytes]:
        """The blobs of those of some grains that came along with their places."""
        found = {}
        for seq in numbers:
            page = self._page_of.get(SEQUENCE.pack(seq)[-4:])
            if page is not None and seq in page.came:
                found[seq] = page.came[seq]
        return found


class AddressPrefetch:
    """The grains at some addresses, which are asked for in their order: read few at first."""

    def __init__(self, read: Callable[[list[bytes]], dict[bytes, tuple[int, bytes]]]) -> None:
        self._read = read
        self._order: list[bytes] = []
        self._at: dict[bytes, int] = {}
        self._held = 0, 0
        self._grains = _GRAINS[0]
        self._known: dict[bytes, tuple[int, bytes]] = {}
        self._blobs: dict[int, bytes] = {}

    def expect(self, digests: Sequence[bytes]) -> None:
        """Say which will be asked for."""
        self._order = [*digests]
        self._at = {digest: i for i, digest in enumerate(digests)}
        self._held, self._grains = (0, 0), _GRAINS[0]

    def find(self, digest: bytes) -> tuple[int | None] | None:
        """The number of a grain, which may not be there; None if it is not expected."""
        index = self._at.get(digest)
        if index is None:
            return None
        first, last = self._held
        if not first <= index < last:
            self._held = index, index + self._grains
            self._known = self._read(self._order[index : index + self._grains])
            self._blobs = dict(self._known.values())
            self._grains = min(2 * self._grains, _GRAINS[1])
        found = self._known.get(digest)
        return (None if found is None else found[0],)

    def blob(self, seq: int) -> bytes | None:
        """The blob of a grain that was read together with the last one that was found."""
        return self._blobs.get(seq)


MANY = 1_024
"""Grains of a term that is worth a row."""

GENERATION = 1 << 32
"""Ordinals of a generation: a rebuild takes the next one, so that all are learnt anew."""

_SEEN = 1_023  # a mask: of one grain in 1,024 the terms are looked at


class TermCounts:
    """The terms that have a row, as far as this process knows.

    Attributes:
        ordinal: of the last of them.
        keys: all of them.
    """

    __slots__ = ("keys", "ordinal")

    def __init__(self, ordinal: int = 0, keys: frozenset[bytes] = frozenset()) -> None:
        self.ordinal = ordinal
        self.keys = keys

    def loaded(self, writer: PostgresWriter) -> TermCounts:
        """Return what is known in a transaction, with what others have found since."""
        if writer.head.ordinal == self.ordinal:
            return self
        # A rebuild, or a database that was put back, begins a new generation.
        same = writer.head.ordinal >> 32 == self.ordinal >> 32
        more = same and writer.head.ordinal > self.ordinal
        rows = writer.all(sql.COUNTED, self.ordinal if more else 0)
        known = self.keys if more else frozenset()
        return TermCounts(writer.head.ordinal, known.union(key for key, _ in rows))

    def changed(self, changes: Mapping[bytes, tuple[int, int]]) -> dict[bytes, tuple[int, int]]:
        """Pick from what changed the terms that have a row."""
        return {key: changes[key] for key in self.keys & changes.keys() if any(changes[key])}

    def chosen(self, grains: list[Added]) -> list[Added]:
        """Pick the grains whose terms are looked at."""
        return [g for g in grains if int.from_bytes(g[1][:2], "big") & _SEEN == 0]

    def noticed(self, writer: PostgresWriter, chosen: list[Added]) -> TermCounts:
        """Give rows to the terms of some grains, if many have them."""
        keys = sorted({key for key, _ in terms_of(chosen).lists} - self.keys)
        if not keys:
            return self
        many = [key for (key,) in writer.run(sql.MANY, byteas(keys), writer.store_id, MANY, MANY)]
        return self.counted(writer, many) if many else self

    def counted(self, writer: PostgresWriter, keys: list[bytes]) -> TermCounts:
        """Give rows to terms, which have none."""
        number, last = writer.store_id, writer.head.ordinal
        writer.run(sql.COUNT, number, last, number, number, byteas(keys))
        writer.head = writer.head._replace(ordinal=last + len(keys))
        return TermCounts(writer.head.ordinal, self.keys.union(keys))


_ROWS = 16, 512  # rows of a table read at a time, at first and at the most
_PLACES_A_PAGE = 16, 1_024  # the same of places
_KEYS = 16, 256  # the same of terms


class PostgresReader:
    """Reads in one transaction, which begins with the first question, in the same round trip."""

    def __init__(self, database: Database, store_id: int) -> None:
        self.store_id = store_id
        self._database = database
        self._wire: Wire | None = None
        self._head: PostgresHead | None = None
        self._ended = False
        self._ahead: Prefetch | None = Prefetch(
            self._has_of, lambda keys: self.some_rows(STATES, keys), self._blobs_of
        )
        self._named: AddressPrefetch | None = AddressPrefetch(self._named_of)
        self._along: ExpectedPlaces | None = None

    def end(self, how: str | None = "COMMIT") -> None:
        """End the transaction: a walk that was left half-way cannot go on."""
        self._ended = True
        if self._wire is not None:
            self._database.end(self._wire, how)

    @property
    def head(self) -> PostgresHead:
        """The head of the store as this transaction sees it."""
        if self._head is None:
            self.ask()
        assert self._head is not None, "it comes with the first answer"
        return self._head

    @head.setter
    def head(self, head: PostgresHead) -> None:
        self._head = head

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """Put questions in one round trip; return the rows that each gives."""
        if self._ended:
            raise StoreError("the snapshot is over")
        if self._wire is None:
            return self._begin(statements)
        try:
            return self._wire.ask(*statements)
        except psycopg.Error as error:
            raise failure(self._database.place, "read the store", error) from None

    def _begin(self, statements: Sequence[Statement]) -> list[list[Row]]:
        opening = (sql.READ, ()), (sql.HEAD, (self.store_id,))
        self._wire, (_, head, *found) = self._database.begin(*opening, *statements)
        if not head:
            raise self._database.gone()
        self._head = PostgresHead(*head[0])
        return found

    def all(self, text: str, *params: Any) -> list[Row]:
        """Ask for rows of the store; its number is the first parameter."""
        return self._run(text, self.store_id, *params)

    def _run(self, text: str, *params: Any) -> list[Row]:
        return self.ask((text, params))[0]

    def of(self, table: Table, text: str, *params: Any) -> list[Row]:
        """Ask for rows of one table of keys and values."""
        return self.all(text, *params)

    def among(self, text: str, asked: Array, *params: Any) -> list[Row]:
        """Ask for those of a list that are there."""
        return self._run(text, asked, self.store_id, *params)

    def one(self, text: str, *params: Any) -> Any:
        """Ask for one value; None if there is no row."""
        rows = self.all(text, *params)
        return rows[0][0] if rows else None

    # --- grains ---------------------------------------------------------------------------------

    def count(self) -> int:
        """Return the number of grains."""
        return self.head.grains

    def last_seq(self) -> int:
        """Return the last sequence number given."""
        return self.head.last_seq

    def expect(self, digests: Sequence[bytes]) -> None:
        """Say which grains will be asked for by their addresses."""
        if self._named is not None:
            self._named.expect(digests)

    def _named_of(self, digests: list[bytes]) -> dict[bytes, tuple[int, bytes]]:
        found = self.among(sql.NAMED, byteas(digests))
        return {digest: (seq, blob) for digest, seq, blob in found}

    def get(self, digest: bytes) -> bytes | None:
        """Return the blob put under the digest, or None."""
        if self._named is not None and (found := self._named.find(digest)) is not None:
            return None if found[0] is None else self._named.blob(found[0])
        blob: bytes | None = self.one(sql.GET, digest)
        return blob

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        """Return the sequence number of each; None where there is no such grain."""
        if self._named is not None and len(digests) == 1:
            expected = self._named.find(digests[0])
            if expected is not None:
                return [*expected]
        known: dict[bytes, int] = {}
        for part in sql.together(digests):
            known.update(self.among(sql.FIND, byteas(part)))
        return [known.get(digest) for digest in digests]

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        """Return the next blobs with their sequence numbers, in order."""
        return [(seq, blob) for seq, _, blob in self.rows_from(after, grains, size)]

    def rows_from(self, after: int, grains: int, size: int) -> list[Row]:
        """Return the next numbers, addresses and blobs."""
        return self.all(sql.PAGE, after, grains, size) if after < sql.BEYOND else []

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        """Return the next sequence numbers, blobs and addresses; no address for a damaged blob."""
        rows = self.rows_from(after, PAGE_GRAINS, PAGE_BYTES)
        found = _core.stored_blobs([blob for _, _, blob in rows], 0)
        return [
            (seq, blob, digest if address == digest.hex() else None)
            for (seq, digest, blob), (_, address) in zip(rows, found, strict=True)
        ]

    def blob_at(self, seq: int) -> bytes | None:
        """Return the blob with a sequence number, or None."""
        if self._ahead is not None and (known := self._ahead.blob(seq)) is not None:
            return known[0]
        if self._named is not None and (named := self._named.blob(seq)) is not None:
            return named
        blob: bytes | None = self.one(sql.BLOB, seq) if seq < sql.BEYOND else None
        return blob

    def grain(self, seq: int) -> Grain | None:
        """Return the grain with a sequence number; a sealed one stays so."""
        blob = self.blob_at(seq)
        return None if blob is None else stored(blob)

    def named(self, digest: bytes) -> Grain | None:
        """Return the grain at an address; a sealed one stays so."""
        blob = self.get(digest)
        return None if blob is None else stored(blob)

    def grains_at(self, places: Sequence[bytes]) -> list[tuple[bytes, Grain]]:
        """Return the grains at some places of the index; their blobs are hashed together."""
        numbers = [int.from_bytes(place[12:], "big") for place in places]
        blobs = {} if self._ahead is None else self._ahead.brought(numbers)
        if rest := [seq for seq in numbers if seq not in blobs]:
            blobs |= self._blobs_of(rest)
        there = [p for p, seq in zip(places, numbers, strict=True) if seq in blobs]
        found = _core.blobs_at([blobs[seq] for seq in numbers if seq in blobs], there, 0)
        if found is None:
            raise misplaced()
        return [
            (place, stored_grain(blob, address))
            for place, (blob, address) in zip(there, found, strict=True)
        ]

    def _blobs_of(self, numbers: list[int]) -> dict[int, bytes]:
        return dict(self.among(sql.BLOBS, pool.numbers(numbers)))

    # --- terms ----------------------------------------------------------------------------------

    def term_count(self, key: bytes, which: Which = "all") -> int:
        """Return how many grains have a term: of a term that many have, by its count."""
        return self.term_counts([(key, which)])[0]

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        """Return how many grains have each of some terms, in one round trip."""
        number = self.store_id
        asked = [(sql.COUNTS[which], (number, key, number, key)) for key, which in terms]
        return [int(rows[0][0]) for rows in self.ask(*asked)] if asked else []

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        """Tell whether the grain at a place has a term, and is one of ``which``."""
        if self._ahead is not None:
            known = self._ahead.has(key, place, which)
            if known is not None:
                return known
        return bool(self._has_of(key, [place], which))

    def _has_of(self, key: bytes, places: list[bytes], which: Which) -> set[bytes]:
        return {place for (place,) in self.among(sql.HAS[which], byteas(places), key)}

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        """Walk the places of the grains that have a term, by pages, each asked for when needed."""
        limit, most = _PLACES_A_PAGE
        if after is None:
            after = sql.ABOVE if newest else b""
        along, self._along = self._along or ExpectedPlaces(0, (), False), None
        if self._ahead is None:
            along = ExpectedPlaces(0, (), False)
        elif along.grains:
            limit = along.places
        while True:
            page = self._page_of(key, after, newest, which, limit, along)
            yield from page
            if len(page) < limit:
                return
            after, limit = page[-1], min(4 * limit, most)

    def expect_places(
        self, grains: int, terms: Sequence[bytes] = (), states: bool = False
    ) -> None:
        """Say what will be asked of the grains whose places are walked next."""
        self._along = ExpectedPlaces(grains, tuple(terms), states)

    def _page_of(
        self,
        key: bytes,
        after: bytes,
        newest: bool,
        which: Which,
        limit: int,
        along: ExpectedPlaces,
    ) -> list[bytes]:
        """Read places, and what will be asked of them."""
        number, blobs = self.store_id, along.blobs(limit)
        params: list[Any] = [number] if blobs else []
        for term in along.terms:
            params += [number, term]
        params += [number] if along.states else []
        params += [number, key, after, limit]
        params += [number, key, after, limit, limit] if which == "all" else []
        text = sql.places(which, newest, len(along.terms), along.states, blobs)
        rows = self.all(text, *params[1:])
        page = [row[0] for row in rows]
        if self._ahead is not None and page:
            self._ahead.expect(page, **_brought(rows, along, which, blobs))
        return page

    def keys(self, prefix: bytes, which: Which = "all") -> Iterator[bytes]:
        """Walk the terms whose keys begin with a prefix, each once, sorted."""
        end = beyond(prefix)
        limit, most = _KEYS
        after: bytes | None = None
        while True:
            # The first one may be the prefix itself; from then on, what comes behind.
            first = sql.FIRST_KEY if after is None else sql.NEXT_KEY
            start = prefix if after is None else after
            text = sql.KEYS[which].format(first=first)
            rows = self.all(text, start, end, self.store_id, end, limit, self.store_id)
            yield from [key for key, there in rows if there]
            if len(rows) < limit:
                return
            after, limit = rows[-1][0], min(4 * limit, most)

    # --- rows -----------------------------------------------------------------------------------

    def is_past(self, seq: int) -> bool:
        """Tell whether a grain was superseded, retracted or restricted."""
        row = self.row(STATES, SEQUENCE.pack(seq))
        return bool(row and row[0] & PAST)

    def row(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key in a table of life STATE or BLIND, or None."""
        if self._ahead is not None and table is STATES:
            known = self._ahead.state(key)
            if known is not None:
                return known[0]
        value: bytes | None = self.one(sql.row(table), key)
        return value

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of those of some keys that are there."""
        found: dict[bytes, bytes] = {}
        for part in sql.together(keys):
            found.update(self.among(sql.some_rows(table), byteas(part)))
        return found

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Walk keys and values by rising keys, in pages, so that a writer may change them."""
        end = beyond(prefix)
        limit, most = _ROWS
        if after is None or after < prefix:
            page = self.of(table, sql.rows_from(table), prefix, end, limit)
        else:
            page = self.of(table, sql.rows_after(table), after, end, limit)
        while True:
            yield from page
            if len(page) < limit:
                return
            after, limit = page[-1][0], min(2 * limit, most)
            page = self.of(table, sql.rows_after(table), after, end, limit)

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        """Return the highest key and its value; None if the table is empty."""
        rows = self.of(table, sql.last_row(table))
        return rows[0] if rows else None


def _brought(
    rows: Sequence[Row], along: ExpectedPlaces, which: Which, blobs: bool
) -> dict[str, Any]:
    """What came along with places, as ``Prefetch.expect`` takes it."""
    found: dict[str, Any] = {}
    if along.terms:
        found["has"] = {
            (term, which): {row[0] for row in rows if row[n]}
            for n, term in enumerate(along.terms, 1)
        }
    if along.states:
        at = 1 + len(along.terms)
        states = [(bytes(4) + row[0][12:], row[at]) for row in rows]
        found["states"] = {key: state for key, state in states if state is not None}
    if blobs:
        numbers = [(int.from_bytes(row[0][12:], "big"), row[-1]) for row in rows]
        found["blobs"] = {seq: blob for seq, blob in numbers if blob is not None}
    return found


def beyond(prefix: bytes) -> bytes:
    """Return a key above all that begin with a prefix, and below or equal to all others above."""
    stem = prefix.rstrip(b"\xff")
    if not stem:
        return sql.ABOVE
    return stem[:-1] + bytes([stem[-1] + 1])
