# SPDX-License-Identifier: Apache-2.0
"""What is asked for: the text of a search, read into phrases of words.

    shelf boxes       grains with any of the words; the more, and the rarer, the higher
    +shelf boxes      only grains with ``shelf``; ``boxes`` moves them up
    "red box"         only grains with the two next to each other, in this order
    -empty  -"red b"  only grains without
    ship*             words that begin so
    robot-17          the two with any one sign between them; "robot 17" also finds them apart

Any other word that falls apart (a URL, a Chinese word) is a phrase of its parts. Nothing that
somebody types is a mistake of syntax: a quote that does not end goes to the end, a sign that
belongs to no word stands between words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from omsgrain.errors import RangeError, SchemaError
from omsgrain.text.words import normal, pairs, prepare, split

__all__ = ["LONGEST", "MOST_PHRASES", "Phrase", "Query", "read_query"]

LONGEST = 10_000
"""Characters of a query."""

MOST_PHRASES = 256
"""Words and phrases of a query that are not the same."""

_PART = re.compile(r'([+-]?)(?:"([^"]*)"?|(\S+))')


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words next to each other, mostly one.

    Attributes:
        words: folded.
        prefix: the last one is only the beginning of a word.
        joined: there is one sign between any two.
    """

    words: tuple[str, ...]
    prefix: bool = False
    joined: bool = False

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
    """A search.

    Attributes:
        required: all of them must be there.
        optional: any, if nothing is required; otherwise they move a grain up.
        excluded: none may be there.
    """

    required: tuple[Phrase, ...]
    optional: tuple[Phrase, ...]
    excluded: tuple[Phrase, ...]

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
    """Read the text of a search.

    Raises:
        SchemaError: no text, or no word in it that grains should have.
        RangeError: too long, or of too many words.
    """
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
