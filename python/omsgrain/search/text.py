# SPDX-License-Identifier: Apache-2.0
"""Search by words: a query, and what every text index has.

    index = texts_of(store, budget)
    found = index.search(store.read, "shelf boxes")

A search reads matches in pages, until enough are good. An index gives the first page of the
matches, after it has caught up with the store, and then more.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from omsgrain.errors import RangeError, SchemaError
from omsgrain.search.feed import Read
from omsgrain.search.words import normal, pairs, prepare, split
from omsgrain.storage.base import TEXT_FILE, CheckProblem

if TYPE_CHECKING:
    from omsgrain.storage.base import Storage
    from omsgrain.storage.lmdb.budget import Budget

LONGEST = 10_000
"""Characters of a query."""

MOST_PHRASES = 256
"""Words and phrases of a query that are not the same."""

_PART = re.compile(r'([+-]?)(?:"([^"]*)"?|(\S+))')


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words next to each other, mostly one."""

    words: tuple[str, ...]  # folded
    prefix: bool = False  # the last one is only the beginning of a word
    joined: bool = False  # there is one sign between any two

    def __str__(self) -> str:
        """The phrase in the language of FTS5; a word has letters, digits and emoji only."""
        words = pairs(self.words) if self.joined else self.words
        return f'"{" ".join(words)}"' + " *" * self.prefix

    def pattern(self) -> str:
        """A regular expression for the phrase in a prepared text, from where a word begins."""
        between = "-" if self.joined else "[ -]+"
        return between.join(map(re.escape, self.words)) + "[^ -]*" * self.prefix


@dataclass(frozen=True)
class Query:
    """A search."""

    required: tuple[Phrase, ...]  # all of them must be there
    optional: tuple[Phrase, ...]  # any, if nothing is required; otherwise they move a grain up
    excluded: tuple[Phrase, ...]  # none may be there

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds what the grain is found for, in a prepared text."""
        wanted = sorted((*self.required, *self.optional), key=lambda p: -len(p.words))
        any_of = "|".join(phrase.pattern() for phrase in wanted)
        return re.compile(f"(?<![^ -])(?:{any_of})(?![^ -])")

    def expression(self) -> str:
        """The query in the language of FTS5."""
        wanted = " OR ".join(map(str, self.optional))
        if self.required:
            needed = f"({' AND '.join(map(str, self.required))})"
            wanted = f"{needed} OR ({needed} AND ({wanted}))" if wanted else needed
        if not self.excluded:
            return wanted
        return f"({wanted}) NOT ({' OR '.join(map(str, self.excluded))})"


def read_query(text: str) -> Query:
    """Read the text of a search."""
    if not isinstance(text, str):
        raise SchemaError(
            "a search is for words",
            field="/text",
            expected="a string",
            found=type(text).__name__,
        )
    if len(text) > LONGEST:
        raise RangeError(
            "the search is too long",
            field="/text",
            expected=f"at most {LONGEST} characters",
            found=str(len(text)),
        )
    found: dict[str, dict[Phrase, None]] = {"+": {}, "": {}, "-": {}}
    for sign, quoted, bare in _PART.findall(normal(text)):
        phrase = _phrase(bare or quoted, bool(bare))
        if phrase is not None:
            found[sign or "+" * (not bare)][phrase] = None
    if not (found["+"] or found[""]):
        raise SchemaError(
            "there is no word to search for", field="/text", expected="a word or a phrase"
        )
    count = sum(map(len, found.values()))
    if count > MOST_PHRASES:
        raise RangeError(
            "the search has too many words",
            field="/text",
            expected=f"at most {MOST_PHRASES}",
            found=str(count),
        )
    return Query(tuple(found["+"]), tuple(found[""]), tuple(found["-"]))


def _phrase(said: str, bare: bool) -> Phrase | None:
    words = tuple(split(said))
    if not words:
        return None
    stem = said.rstrip("*")
    prefix = stem != said and bool(split(stem[-1]))
    joined = bare and len(words) > 1 and prepare(said).strip("-") == "-".join(words)
    return Phrase(words, prefix, joined)


Row = tuple[int, float]
"""A sequence number and the weight of the match; 0 where it has none."""

More: TypeAlias = Callable[[int], list[Row]]
"""Gives the next so many matches; fewer are the last."""

MOST = 100_000
"""Matches that a filter may refuse before a search stops."""

TRIES = 100
"""Times that others may empty an index between catching up and reading."""

_FIRST_PAGE = 256  # matches read at first if a filter may refuse them; then 8 times as many


@dataclass(frozen=True, slots=True)
class Match:
    """A grain that was found.

    Attributes:
        seq: its sequence number.
        score: how well it matches, from 1 for the best of the result down to 0.
    """

    seq: int
    score: float


@dataclass(frozen=True, slots=True)
class TextMatches:
    """The answer to a search.

    Attributes:
        matches: best first; of equals the newest first.
        more: there are others after them.
        read: how many matches were read, those that a filter refused among them.
        complete: False if the search stopped because too many had been refused.
    """

    matches: tuple[Match, ...]
    more: bool
    read: int
    complete: bool


class Start(NamedTuple):
    """The matches of a query, begun."""

    page: list[Row]  # the first of them, best first
    more: More  # gives the next


class TextIndex(ABC):
    """The text index of a store. Any thread may use it; in a forked child it refuses.

    Never call it while you hold a snapshot of the store: others may have to wait for that.
    """

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether there is an index already, so that it is of use to keep it up to date."""

    @abstractmethod
    def catch_up(self, read: Read) -> int:
        """Take in what the store has and the index has not; a search does so by itself."""

    @abstractmethod
    def start(self, read: Read, query: Query, seqs: Set[int] | None, size: int) -> Start:
        """Catch up, and begin to read the matches of a query."""

    def search(
        self,
        read: Read,
        query: str | Query,
        *,
        limit: int = 10,
        seqs: Set[int] | None = None,
        accept: Callable[[int], bool] | None = None,
        most: int = MOST,
    ) -> TextMatches:
        """Find grains by their words, after catching up with the store."""
        query = query if isinstance(query, Query) else read_query(query)
        if limit < 1 or most < 1:
            raise RangeError("a search asks for at least one match", expected="limit, most >= 1")
        wanted = limit + 1  # one more tells whether there are others
        found: list[Row] = []
        rows, complete = 0, True
        for row in self._rows(read, query, seqs, wanted, filtered=accept is not None):
            if rows - len(found) == most:
                complete = False
                break
            rows += 1
            if accept is None or accept(row[0]):
                found.append(row)
                if len(found) == wanted:
                    break
        best = found[0][1] if found else 0.0
        scored = [Match(seq, weight / best if best else 1.0) for seq, weight in found]
        return TextMatches(tuple(scored[:limit]), len(found) == wanted, rows, complete)

    def _rows(
        self,
        read: Read,
        query: Query,
        seqs: Set[int] | None,
        wanted: int,
        *,
        filtered: bool,
    ) -> Iterator[Row]:
        """All matches, best first, read in pages as they are needed."""
        size = max(wanted, _FIRST_PAGE) if filtered else wanted
        page, more = self.start(read, query, seqs, size)
        seen: set[int] = set()
        while True:
            for row in page:
                if row[0] not in seen:  # what came in meanwhile has moved the others
                    seen.add(row[0])
                    yield row
            if len(page) < size:
                return
            size *= 8
            page = more(size)

    @abstractmethod
    def rebuild(self, read: Read) -> None:
        """Rebuild an index that exists from the blobs; nothing else stays in it."""

    @abstractmethod
    def scrub(self, read: Read) -> None:
        """See that no word of removed grains stays in the index."""

    @contextmanager
    def scrubbing(self, read: Read) -> Iterator[None]:
        """Scrub while the store itself is rewritten, which is done inside the block."""
        yield
        self.scrub(read)

    @abstractmethod
    def check(self, read: Read) -> tuple[CheckProblem, ...]:
        """Compare an index that exists, word by word, with what the grains give."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the index; a second call does nothing."""


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
