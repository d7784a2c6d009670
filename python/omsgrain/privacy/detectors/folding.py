# SPDX-License-Identifier: Apache-2.0
"""A text as detectors see it, and the way back to places in the text itself."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from html import unescape
from html.entities import html5
from typing import NamedTuple

from omsgrain.privacy.detectors.detector import HOLE

__all__ = ["IGNORED", "MARKER", "MARKS", "NO_SPACES", "View", "folded_key", "lower", "views"]

_MARKER = r"\[REDACTED:[a-z][a-z_]{0,31}\]"
MARKER = re.compile(_MARKER)
"""What stands for something redacted. No digits: a secret cannot hide as the name of a type."""

NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\U00020000-\U0003ffff"
)
"""Scripts that run on without a space, as a part of a class: Thai to Khmer, Kana, Han, Hangul."""

MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
"""Accents and vowels that belong to the letter before, and that no ``\\w`` matches."""

IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Default_Ignorable_Code_Point of Unicode, as a part of a class: nobody sees them."""

_UNSEEN = f"{IGNORED}\\x00-\\x08\\x0e-\\x1b\\x7f-\\x84\\x86-\\x9f"  # and controls but spaces
_LIKE = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63",
    " ": "".join(map(chr, (0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))),
    '"': "\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d",
    "'": "\u2018\u2019\u201a",
}
_PLAIN = {odd: plain for plain, many in _LIKE.items() for odd in many}
_PLAIN |= {chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)}
_ODD = re.compile(rf"(?![0-9])\d|[{''.join(map(re.escape, _PLAIN))}]")

# However long what was redacted is, it is one hole: so a text looks as its redaction does.
_HOLES = re.compile(rf"(?P<hole>(?:{HOLE}|{_MARKER})+)")
# Escaped once or more: &#64; &#x40; &commat; &amp;#64;
_ENTITY = (
    r"&(?:amp;|#38;|#[xX]26;)*"
    r"(?P<entity>#(?:[xX][0-9A-Fa-f]{1,6}|[0-9]{1,7});?|[A-Za-z][A-Za-z0-9]{1,31};)"
)
_PIECES = re.compile(rf"{_HOLES.pattern}|{_ENTITY}|[^\t-\r -~]")
_READ_OTHERWISE = re.compile(rf"[{_UNSEEN}]|&[A-Za-z#]")
_UNSEEN_ONE = re.compile(f"[{_UNSEEN}]")


class _Piece(NamedTuple):
    """A part of a view that is not as long as what it was made of."""

    seen_from: int
    seen_to: int
    start: int
    end: int


class View(NamedTuple):
    """A text as detectors see it.

    Attributes:
        text: look-alikes are ASCII, what was redacted is one hole.
        pieces: where the view and the text differ in length, from left to right.
    """

    text: str
    pieces: tuple[_Piece, ...] = ()

    def places(self, start: int, end: int) -> tuple[int, int]:
        """Where something stands in the text itself; a piece that it touches belongs to it whole.

        What nobody sees at its edges stays outside.
        """
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, at: int) -> tuple[int, int]:
        known = bisect_right(self.pieces, at, key=lambda piece: piece.seen_from)
        if known == 0:
            return at, at + 1
        piece = self.pieces[known - 1]
        if at < piece.seen_to:
            return piece.start, piece.end
        at += piece.end - piece.seen_to
        return at, at + 1


def views(text: str) -> tuple[View, ...]:
    """The text as it stands, and, if that is something else, as a reader takes it.

    In the first, what nobody sees parts words; in the second it is gone, entities of HTML are
    what they stand for, and compatibility forms (full-width, mathematical, circled) are plain
    letters. What is found in either is found: a zero-width space may hide an address, or end one.

    Cost: linear.
    """
    plain = View(text)
    if HOLE in text or "[REDACTED:" in text:
        plain = _view(text, _HOLES, _hole)
    if not text.isascii():
        plain = plain._replace(text=_ODD.sub(_plain, plain.text))
    if _READ_OTHERWISE.search(text) is None and unicodedata.is_normalized("NFKC", text):
        return (plain,)
    read = _view(text, _PIECES, _read)
    return (plain,) if read.text == plain.text else (plain, read)


def folded_key(key: str) -> str:
    """The key of an object as a reader takes it."""
    return views(key)[-1].text


def lower(text: str) -> str:
    """The text in small letters, as long as it was."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join([s if len(s := c.lower()) == 1 else c for c in text])


def _view(text: str, odd: re.Pattern[str], instead: Callable[[re.Match[str]], str]) -> View:
    """The text with something else in the place of each match, and where lengths differ."""
    parts, pieces, at, size = [], [], 0, 0
    for found in odd.finditer(text):
        start, end = found.span()
        new = instead(found)
        parts += [text[at:start], new]
        size += start - at + len(new)
        at = end
        if len(new) != end - start:
            pieces.append(_Piece(size - len(new), size, start, end))
    return View("".join([*parts, text[at:]]), tuple(pieces))


def _hole(_found: re.Match[str]) -> str:
    return HOLE


def _read(found: re.Match[str]) -> str:
    if found["hole"] is not None:
        return HOLE
    entity = found["entity"]
    if entity is None:
        return _letters(found[0])
    if entity[0] != "#" and entity not in html5:
        return found[0]
    return "".join(map(_letters, unescape(f"&{entity}")))


@lru_cache(maxsize=65_536)
def _letters(odd: str) -> str:
    """What one code point is for a reader: nothing, itself, or plain letters."""
    return _ODD.sub(_plain, _UNSEEN_ONE.sub("", unicodedata.normalize("NFKC", odd)))


def _plain(found: re.Match[str]) -> str:
    odd = found[0]
    return _PLAIN.get(odd) or str(unicodedata.decimal(odd))
