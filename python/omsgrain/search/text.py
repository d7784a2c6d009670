# SPDX-License-Identifier: Apache-2.0
"""Search by words: queries, and the interface of text indexes.

    index = texts_of(store, budget)
    found = index.search(store.read, "shelf boxes")

A search reads matches in pages until it has enough. An index catches up with the store and returns
the first page of the matches, and then further pages.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from omsgrain.errors import RangeError, SchemaError
from omsgrain.search.feed import Read
from omsgrain.search.stem import has_stem, numbers, stems, stop_words
from omsgrain.search.words import lowered, normal, pairs, prepare, split
from omsgrain.storage.base import TEXT_FILE, CheckProblem

if TYPE_CHECKING:
    from omsgrain.storage.base import Storage
    from omsgrain.storage.location import Budget

LONGEST = 10_000
"""Maximum characters of a query."""

MOST_PHRASES = 256
"""Maximum distinct words and phrases of a query."""

MOST_STEMS = 256
"""Maximum stems that a query asks for; those of the first words."""

_PART = re.compile(r'([+-]?)(?:"([^"]*)"?|(\S+))')
_APOSTROPHES = frozenset("'\u2018\u2019\u02bc\uff07")


class Phrase(NamedTuple):
    words: tuple[str, ...]  # folded
    prefix: bool = False  # the last word is a prefix
    joined: bool = False  # one sign separates each two words

    def __str__(self) -> str:
        """Return the phrase in FTS5 syntax; words have only letters, digits and emoji."""
        words = pairs(self.words) if self.joined else self.words
        return f'"{" ".join(words)}"' + " *" * self.prefix

    def pattern(self) -> str:
        """Return a regular expression for the phrase in a prepared text."""
        between = "-" if self.joined else "[ -]+"
        return between.join(map(re.escape, self.words)) + "[^ -]*" * self.prefix


@dataclass(frozen=True)
class Query:
    required: tuple[Phrase, ...]  # all are required
    optional: tuple[Phrase, ...]  # any one, if none are required; otherwise they raise the rank
    excluded: tuple[Phrase, ...]  # none may occur
    stop: frozenset[Phrase] = frozenset()  # optional ones whose matches alone come last
    words: tuple[str, ...] = ()  # plain words to stem, in lower case, with accents

    def with_stems(self, languages: int) -> Query:
        """Return the query with the stems of its plain words in a set of languages."""
        found: dict[Phrase, None] = {}
        for word in self.words:
            for number in numbers(languages):
                if (stem := stems(number)[word]) and len(found) < MOST_STEMS:
                    found[Phrase((stem,))] = None
        return replace(self, optional=(*self.optional, *found)) if found else self

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """A regular expression for the matches in a prepared text, without stems."""
        wanted = sorted((*self.required, *self.optional), key=lambda p: -len(p.words))
        return _any_of(phrase.pattern() for phrase in wanted)

    @cached_property
    def single(self) -> frozenset[str]:
        """The words that match alone."""
        every = (*self.required, *self.optional)
        return frozenset(p.words[0] for p in every if len(p.words) == 1 and not p.prefix)

    @cached_property
    def simple(self) -> bool:
        """Whether all that it finds are words that match alone."""
        every = {*self.required, *self.optional}
        return len(self.single) == len(every)

    def pattern_with(self, words: Iterable[str]) -> re.Pattern[str]:
        """Return the regular expression for the matches, and for some more folded words."""
        more = self.single.union(words)
        if len(more) == len(self.single):
            return self.pattern
        longer = [p for p in (*self.required, *self.optional) if len(p.words) > 1 or p.prefix]
        longer.sort(key=lambda p: -len(p.words))
        return _any_of([*(p.pattern() for p in longer), *map(re.escape, sorted(more))])

    def expression(self) -> str:
        wanted = " OR ".join(map(str, self.optional))
        if self.required:
            needed = f"({' AND '.join(map(str, self.required))})"
            wanted = f"{needed} OR ({needed} AND ({wanted}))" if wanted else needed
        if not self.excluded:
            return wanted
        return f"({wanted}) NOT ({' OR '.join(map(str, self.excluded))})"


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"(?<![^ -])(?:{'|'.join(patterns)})(?![^ -])")


def read_query(text: str) -> Query:
    if not isinstance(text, str):
        raise SchemaError(
            "a search text must be a string",
            field="/text",
            expected="a string",
            found=type(text).__name__,
        )
    if len(text) > LONGEST:
        raise RangeError(
            "the search text is too long",
            field="/text",
            expected=f"at most {LONGEST} characters",
            found=str(len(text)),
        )
    found: dict[str, dict[Phrase, None]] = {"+": {}, "": {}, "-": {}}
    plain: dict[Phrase, list[str]] = {}
    for sign, quoted, bare in _PART.findall(normal(text)):
        phrase = _phrase(bare or quoted, bool(bare))
        if phrase is not None:
            sign = sign or "+" * (not bare)
            found[sign][phrase] = None
            if not sign and not phrase.prefix:
                plain[phrase] = _plain_words(bare, phrase)
    if not (found["+"] or found[""]):
        raise SchemaError(
            "the search text has no word", field="/text", expected="a word or a phrase"
        )
    count = sum(map(len, found.values()))
    if count > MOST_PHRASES:
        raise RangeError(
            "the search text has too many words",
            field="/text",
            expected=f"at most {MOST_PHRASES}",
            found=str(count),
        )
    words = dict.fromkeys(word for some in plain.values() for word in some)
    frequent = stop_words(set(words))
    stop: set[Phrase] = set()
    if frequent:
        stop = {phrase for phrase, some in plain.items() if some and frequent.issuperset(some)}
        if len(stop) == len(found[""]):
            stop = set()  # all that is optional: weigh it
        stop.difference_update(found["+"])
    kept = tuple(word for word in words if word not in frequent and has_stem(word))
    required, optional, excluded = map(tuple, found.values())
    return Query(required, optional, excluded, frozenset(stop), kept)


def _plain_words(bare: str, phrase: Phrase) -> list[str]:
    """Return the words of an unquoted phrase that can be stemmed: one, or parts at an apostrophe.

    Of ``Ada's`` and ``l'eau`` the longer part counts. Words with other signs between them are
    names, which have no other forms.
    """
    words = lowered(bare)
    if len(phrase.words) == 1 or not phrase.joined:
        return words if len(words) == 1 else []
    signs = {char for char in bare.strip() if prepare(char) == "-"}
    return [word for word in words if len(word) > 2] if signs <= _APOSTROPHES else []


def _phrase(said: str, bare: bool) -> Phrase | None:
    words = tuple(split(said))
    if not words:
        return None
    stem = said.rstrip("*")
    prefix = stem != said and bool(split(stem[-1]))
    joined = bare and len(words) > 1 and prepare(said).strip("-") == "-".join(words)
    return Phrase(words, prefix, joined)


Row = tuple[int, float]
"""A sequence number and the weight of the match, or 0."""

More: TypeAlias = Callable[[int], list[Row]]
"""Returns the next so many matches; fewer at the end."""

MOST = 100_000
"""Matches that a filter may reject before a search stops."""

TRIES = 100
"""Attempts to read an index that others empty meanwhile."""

_FIRST_PAGE = 256  # matches to read first with a filter; then 8 times as many


class Match(NamedTuple):
    seq: int  # its sequence number
    score: float  # of words and of several lists 1 for the best down to 0; of vectors the cosine


@dataclass(frozen=True, slots=True)
class TextMatches:
    matches: tuple[Match, ...]  # best first; newest first among equals
    more: bool  # whether there are further matches
    read: int  # number of matches that were read, including those that a filter rejected
    complete: bool  # False if the search stopped after too many rejections
    behind: int = 0  # grains that were not in the index, at most


class Start(NamedTuple):
    page: list[Row]  # the first page, best first
    more: More  # returns the next page
    behind: int = 0  # grains that are not in the index yet, at most; 0 after catching up


Watch: TypeAlias = Callable[[int], bool]
"""Gets how many sequence numbers a page of a feed had; False stops the feed."""


class TextIndex(ABC):
    """The text index of a store. Threads may share it; a forked child may not use it.

    Never call it while you hold a snapshot of the store, because other processes may wait for it.
    """

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether an index exists, so that keeping it up to date is useful."""

    @abstractmethod
    def catch_up(self, read: Read, watch: Watch | None = None) -> int:
        """Index what is new in the store, and return the last number that the index includes."""

    @abstractmethod
    def behind(self, read: Read) -> int:
        """Return how many grains are not in the index yet, at most."""

    @abstractmethod
    def start(
        self, read: Read, query: Query, seqs: Set[int] | None, size: int, *, wait: bool = True
    ) -> Start:
        """Return the first matches of a query, after catching up unless ``wait`` is False."""

    def search(
        self,
        read: Read,
        query: str | Query,
        *,
        limit: int = 10,
        seqs: Set[int] | None = None,
        accept: Callable[[int], bool] | None = None,
        most: int = MOST,
        wait: bool = True,
    ) -> TextMatches:
        """Return grains by their words, after catching up with the store if it shall wait."""
        query = query if isinstance(query, Query) else read_query(query)
        if limit < 1 or most < 1:
            raise RangeError("limit and most must be at least 1", expected="limit, most >= 1")
        wanted = limit + 1  # one more shows whether there are further ones
        size = wanted if accept is None else max(wanted, _FIRST_PAGE)
        begun = self.start(read, query, seqs, size, wait=wait)
        found: list[Row] = []
        rows, complete = 0, True
        for row in _rows(begun, size):
            if rows - len(found) == most:
                complete = False
                break
            rows += 1
            if accept is None or accept(row[0]):
                found.append(row)
                if len(found) == wanted:
                    break
        best = found[0][1] if found else 0.0
        # Without a weighed match, all have 1; those of stop words alone, of weight -1, have 0.
        scored = [
            Match(seq, max(weight, 0.0) / best if best > 0 else weight + 1)
            for seq, weight in found
        ]
        whole = len(found) == wanted
        return TextMatches(tuple(scored[:limit]), whole, rows, complete, begun.behind)

    @abstractmethod
    def rebuild(self, read: Read) -> None:
        """Rebuild an existing index from the blobs."""

    @abstractmethod
    def scrub(self, read: Read) -> None:
        """Remove all words of removed grains from the index."""

    @contextmanager
    def scrubbing(self, read: Read) -> Iterator[None]:
        """Scrub the index after the block, which rewrites the store."""
        yield
        self.scrub(read)

    @abstractmethod
    def check(self, read: Read) -> tuple[CheckProblem, ...]:
        """Compare an existing index word by word with the grains."""

    @abstractmethod
    def close(self) -> None:
        """Close the index. A second call does nothing."""


def _rows(begun: Start, size: int) -> Iterator[Row]:
    """Yield all matches, best first, in pages on demand."""
    page, more, _ = begun
    seen: set[int] = set()
    while True:
        for row in page:
            if row[0] not in seen:  # grains indexed meanwhile shift the others
                seen.add(row[0])
                yield row
        if len(page) < size:
            return
        size *= 8
        page = more(size)


def texts_of(store: Storage, budget: Budget) -> TextIndex:
    """Return the text index of a store: in its directory, in its database, or in memory."""
    there = store.sidecar
    if there.database is not None:
        from omsgrain.search.postgres.text import PostgresTextIndex

        return PostgresTextIndex(
            there.database, there.store_id, readonly=store.readonly, page=budget.page
        )
    from omsgrain.search.text_file import SqliteTextIndex

    path = None if there.folder is None else there.folder / TEXT_FILE
    return SqliteTextIndex(path, readonly=store.readonly, budget=budget)
