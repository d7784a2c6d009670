# SPDX-License-Identifier: Apache-2.0
"""What a grain was found for: the fields that match, and the best piece of one of them.

Made from the grain's own text, with the words that the index was fed, so it shows exactly what the
index found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from omsgrain.search.text import Query
from omsgrain.search.words import SAYS, Places, texts

WIDTH = 160
"""Characters of a snippet, about."""

_MOST_MARKS = 1_000  # matches looked at in one text
_NEAR = 16  # characters to the next space at which a piece is rather cut
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a field, with what was found in it.

    Attributes:
        field: the name of the field.
        text: the piece, on one line; "…" marks where it was cut.
        marks: where the words are that were found: start and end in ``text``, in order.
    """

    field: str
    text: str
    marks: tuple[Span, ...]

    def marked(self, before: str = "[", after: str = "]") -> str:
        """The text with something before and after each word that was found."""
        out, end = [], 0
        for start, stop in self.marks:
            out += [self.text[end:start], before, self.text[start:stop], after]
            end = stop
        return "".join(out) + self.text[end:]


@dataclass(frozen=True, slots=True)
class Shown:
    """How a grain matches a search.

    Attributes:
        fields: the names of the fields that match, in the grain's order.
        snippet: from the field with most of the words; None if none matches.
    """

    fields: tuple[str, ...]
    snippet: Snippet | None


def show(fields: Mapping[str, Any], query: Query, width: int = WIDTH) -> Shown:
    """Say how a grain matches a search."""
    names: dict[str, None] = {}
    best: tuple[tuple[int, bool], str, Places, list[Span]] | None = None
    for name, text in texts(fields):
        places, spans = _found(text, query)
        if spans:
            names[name] = None
            words = {places.spaced[start:end] for start, end in spans}
            rank = (len(words), name in SAYS)
            if best is None or rank > best[0]:
                best = rank, name, places, spans
    if best is None:
        return Shown((), None)
    _, name, places, spans = best
    return Shown(tuple(names), _cut(name, places, spans, width))


def piece(text: str, query: Query, width: int = WIDTH) -> Snippet:
    """The best piece of a text that is no field; its beginning, if nothing matches."""
    places, spans = _found(text, query)
    if spans:
        return _cut("", places, spans, width)
    text = places.text
    high = _end(text, min(width, len(text)), 0)
    return Snippet("", _CONTROL.sub(" ", text[:high]) + "…" * (high < len(text)), ())


def _found(text: str, query: Query) -> tuple[Places, list[Span]]:
    """Where in a text is what was searched for."""
    places = Places(text)
    finds = islice(query.pattern.finditer(places.spaced), _MOST_MARKS)
    return places, [find.span() for find in finds]


def _cut(name: str, places: Places, spans: list[Span], width: int) -> Snippet:
    """The piece of the text that has the most different words."""
    text = places.text
    marks = [
        (start, min(end, start + width))
        for start, end in map(places.back, *zip(*spans, strict=True))
    ]
    said = [places.spaced[start:end] for start, end in spans]
    first, last = _densest(marks, said, width)
    start, end = marks[first][0], marks[last][1]
    low = max(0, min(start - (width - end + start) // 2, len(text) - width))
    high = min(len(text), low + width)
    low, high = _begin(text, low, start), _end(text, high, end)
    before, after = "…" * (low > 0), "…" * (high < len(text))
    shift = len(before) - low
    inside = tuple((s + shift, e + shift) for s, e in marks if low <= s and e <= high)
    return Snippet(name, before + _CONTROL.sub(" ", text[low:high]) + after, inside)


def _densest(marks: list[Span], said: list[str], width: int) -> Span:
    """Which marks, from and to, fit into the width and have the most different words."""
    best, most = (0, 0), 0
    last = 0
    for first, (start, _) in enumerate(marks):
        while last + 1 < len(marks) and marks[last + 1][1] - start <= width:
            last += 1
        if (count := len(set(said[first : last + 1]))) > most:
            best, most = (first, last), count
    return best


def _begin(text: str, low: int, limit: int) -> int:
    """Where a piece begins, at the start of a word if one is near."""
    if low == 0:
        return 0
    space = text.find(" ", low - 1, min(low + _NEAR, limit))
    low = low if space < 0 else space + 1
    while low < limit and _clings(text[low]):
        low += 1
    return low


def _end(text: str, high: int, limit: int) -> int:
    """Where a piece ends."""
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
