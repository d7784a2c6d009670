# SPDX-License-Identifier: Apache-2.0
"""Why a search found a grain: the matching fields, and a snippet of one of them.

It uses the grain's own text and the words that the index was fed, so it shows exactly what the
index found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from omsgrain.search.stem import language, stems
from omsgrain.search.text import Query
from omsgrain.search.words import SAYS, Places, lowered, split, texts

WIDTH = 160
"""Approximate characters of a snippet."""

_MOST_MARKS = 1_000  # matches to examine in one text
_NEAR = 16  # characters within which to cut at a space
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Snippet:
    field: str  # the name of the field
    text: str  # the part, on one line; "…" marks a cut
    marks: tuple[Span, ...]  # start and end of each matching word in ``text``, in order

    def marked(self) -> str:
        """Return the text with each matching word in brackets."""
        out, end = [], 0
        for start, stop in self.marks:
            out += [self.text[end:start], "[", self.text[start:stop], "]"]
            end = stop
        return "".join(out) + self.text[end:]


@dataclass(frozen=True, slots=True)
class Shown:
    fields: tuple[str, ...]  # the names of the matching fields, in the grain's order
    snippet: Snippet | None  # a snippet of the field with the most words; None if none matches


def show(fields: Mapping[str, Any], query: Query) -> Shown:
    names: dict[str, None] = {}
    best: tuple[tuple[int, bool], str, Places, list[Span]] | None = None
    said = [(name, text, set(lowered(text))) for name, text in texts(fields)]
    forms = _forms(set().union(*[words for _, _, words in said]), query)
    pattern = query.pattern_with(forms)
    alone = query.single.union(forms)
    for name, text, words in said:
        if query.simple and words.isdisjoint(alone) and text.isascii():
            continue  # most texts: a look at their words costs less than a look at their places
        places, spans = _found(text, pattern)
        if spans:
            names[name] = None
            found = {places.spaced[start:end] for start, end in spans}
            rank = (len(found), name in SAYS)
            if best is None or rank > best[0]:
                best = rank, name, places, spans
    if best is None:
        return Shown((), None)
    _, name, places, spans = best
    return Shown(tuple(names), _cut(name, places, spans))


def piece(text: str, fields: Mapping[str, Any], query: Query) -> Snippet:
    """Return the best snippet of a text about a grain; its beginning if nothing matches."""
    words = set(lowered("\n".join([said for _, said in texts(fields)])))
    places, spans = _found(text, query.pattern_with(_forms(words, query)))
    if spans:
        return _cut("", places, spans)
    text = places.text
    high = _end(text, min(WIDTH, len(text)), 0)
    return Snippet("", _CONTROL.sub(" ", text[:high]) + "…" * (high < len(text)), ())


def _forms(words: set[str], query: Query) -> list[str]:
    """Return those words of a grain that have a stem which a query asks for, folded."""
    if not query.words:
        return []
    by_word = stems(language(words))
    wanted = {by_word[word] for word in query.words}
    wanted.discard("")
    if wanted.isdisjoint(map(by_word.__getitem__, words)):
        return []
    forms = [word for word in words if by_word[word] in wanted]
    return forms if all(map(str.isascii, forms)) else split(" ".join(forms))


def _found(text: str, pattern: re.Pattern[str]) -> tuple[Places, list[Span]]:
    places = Places(text)
    finds = islice(pattern.finditer(places.spaced), _MOST_MARKS)
    return places, [find.span() for find in finds]


def _cut(name: str, places: Places, spans: list[Span]) -> Snippet:
    text = places.text
    marks = [
        (start, min(end, start + WIDTH))
        for start, end in map(places.back, *zip(*spans, strict=True))
    ]
    said = [places.spaced[start:end] for start, end in spans]
    first, last = _densest(marks, said)
    start, end = marks[first][0], marks[last][1]
    low = max(0, min(start - (WIDTH - end + start) // 2, len(text) - WIDTH))
    high = min(len(text), low + WIDTH)
    low, high = _begin(text, low, start), _end(text, high, end)
    before, after = "…" * (low > 0), "…" * (high < len(text))
    shift = len(before) - low
    inside = tuple((s + shift, e + shift) for s, e in marks if low <= s and e <= high)
    return Snippet(name, before + _CONTROL.sub(" ", text[low:high]) + after, inside)


def _densest(marks: list[Span], said: list[str]) -> Span:
    """Return the first and last mark of the part with the most different words."""
    best, most = (0, 0), 0
    last = 0
    for first, (start, _) in enumerate(marks):
        while last + 1 < len(marks) and marks[last + 1][1] - start <= WIDTH:
            last += 1
        if (count := len(set(said[first : last + 1]))) > most:
            best, most = (first, last), count
    return best


def _begin(text: str, low: int, limit: int) -> int:
    """Return the start of a part, at the start of a word if one is near."""
    if low == 0:
        return 0
    space = text.find(" ", low - 1, min(low + _NEAR, limit))
    low = low if space < 0 else space + 1
    while low < limit and _clings(text[low]):
        low += 1
    return low


def _end(text: str, high: int, limit: int) -> int:
    """Return the end of a part, at the end of a word if one is near."""
    if high == len(text):
        return high
    space = text.rfind(" ", max(high - _NEAR, limit), high + 1)
    high = high if space < 0 else space
    while high > limit and _clings(text[high]):
        high -= 1
    return high


def _clings(char: str) -> bool:
    """Whether a character belongs to the one before."""
    return unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf")
