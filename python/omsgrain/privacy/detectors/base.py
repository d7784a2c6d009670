# SPDX-License-Identifier: Apache-2.0
"""The protocol of detectors, and the text as they see it."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from html import unescape
from html.entities import html5
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from omsgrain.errors import UnsupportedError, packages_of

Spans = Iterator[tuple[int, int]]
"""Places: the first code point, and the one after the last."""

HOLE = "\0"
"""Replaces redacted text. The built-in detectors never match across it."""


class Detector(Protocol):
    """Finds one type of thing in a text.

    A detector can also have ``find_under(key, text)``. It yields findings that depend on the key
    of the object whose value the text is, in addition to ``find``.

    Attributes:
        type: the name in the marker, such as ``email``: a-z and _, at most 32 characters.
        secret: True if it grants access (a key), False if it is about a person (a phone number).
    """

    @property
    def type(self) -> str: ...

    @property
    def secret(self) -> bool: ...

    def find(self, text: str) -> Spans:
        """Yield the places of findings in any order; spans may overlap.

        Args:
            text: a view of the text, with places in that view. Digits, spaces, dashes, quotes and
                full-width letters of any script are ASCII, and redacted text is a hole. If needed,
                a second view has no invisible characters, and has HTML entities and compatibility
                forms as plain letters.
        """
        ...


_MARKER = r"\[REDACTED:[a-z][a-z_]{0,31}\]"
MARKER = re.compile(_MARKER)
"""A redaction marker. It has no digits, so that no secret can hide in a type name."""

NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\U00020000-\U0003ffff"
)
"""Scripts without spaces, for a character class: Thai to Khmer, Kana, Han, Hangul."""

MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
"""Combining accents and vowels, which ``\\w`` does not match."""

IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's Default_Ignorable_Code_Point, for a character class: invisible characters."""

# And control characters except spaces
_UNSEEN = f"{IGNORED}\\x00-\\x08\\x0e-\\x1b\\x7f-\\x84\\x86-\\x9f"
_LIKE = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63",
    " ": "".join(map(chr, (0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))),
    '"': "\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d",
    "'": "\u2018\u2019\u201a",
}
_PLAIN = {odd: plain for plain, many in _LIKE.items() for odd in many}
_PLAIN |= {chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)}
_ODD = re.compile(rf"(?![0-9])\d|[{''.join(map(re.escape, _PLAIN))}]")

# Redacted text of any length is one hole, so a text and its redaction look the same.
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
    """A part of a view whose length differs from the text."""

    seen_from: int
    seen_to: int
    start: int
    end: int


class TextView(NamedTuple):
    """A text as detectors see it."""

    text: str  # the text with look-alikes as ASCII and redacted text as one hole
    # where the view and the text differ in length, from left to right
    pieces: tuple[_Piece, ...] = ()

    def places(self, start: int, end: int) -> tuple[int, int]:
        """Convert a place in the view to one in the text; a touched piece counts as a whole.

        Invisible characters at the edges are excluded.
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


def views(text: str) -> tuple[TextView, ...]:
    """Return the text as it is and, if that differs, as a reader sees it.

    In the first view, invisible characters separate words. In the second they are removed, HTML
    entities are decoded, and compatibility forms (full-width, mathematical, circled) are plain
    letters. Findings in either view count: a zero-width space may hide an address, or end one.

    Cost: linear.
    """
    plain = TextView(text)
    if HOLE in text or "[REDACTED:" in text:
        plain = _view(text, _HOLES, _hole)
    if not text.isascii():
        plain = plain._replace(text=_ODD.sub(_plain, plain.text))
    if _READ_OTHERWISE.search(text) is None and unicodedata.is_normalized("NFKC", text):
        return (plain,)
    read = _view(text, _PIECES, _read)
    return (plain,) if read.text == plain.text else (plain, read)


def folded_key(key: str) -> str:
    """Return an object's key as a reader sees it."""
    return views(key)[-1].text


def lower(text: str) -> str:
    """Return the text in lower case with the same length."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join([s if len(s := c.lower()) == 1 else c for c in text])


def _view(text: str, odd: re.Pattern[str], instead: Callable[[re.Match[str]], str]) -> TextView:
    """Return the text with each match replaced, and the places where lengths differ."""
    parts, pieces, at, size = [], [], 0, 0
    for found in odd.finditer(text):
        start, end = found.span()
        new = instead(found)
        parts += [text[at:start], new]
        size += start - at + len(new)
        at = end
        if len(new) != end - start:
            pieces.append(_Piece(size - len(new), size, start, end))
    return TextView("".join([*parts, text[at:]]), tuple(pieces))


def _hole(_found: re.Match[str]) -> str:
    return HOLE


def _read(found: re.Match[str]) -> str:
    if found["hole"] is not None:
        return HOLE
    entity = found["entity"]
    if entity is None:
        return _plain_letters(found[0])
    if entity[0] != "#" and entity not in html5:
        return found[0]
    return "".join(map(_plain_letters, unescape(f"&{entity}")))


@lru_cache(maxsize=65_536)
def _plain_letters(odd: str) -> str:
    """Return what a reader sees for one code point: nothing, itself, or plain letters."""
    return _ODD.sub(_plain, _UNSEEN_ONE.sub("", unicodedata.normalize("NFKC", odd)))


def _plain(found: re.Match[str]) -> str:
    odd = found[0]
    return _PLAIN.get(odd) or str(unicodedata.decimal(odd))


@cache
def library(module: str) -> Any:
    """Import a module of the extra ``privacy``."""
    try:
        return import_module(module)
    except ImportError:
        package = {"stdnum": "python-stdnum"}.get(module.split(".")[0], module)
        message = f"{package} is not installed"
        raise UnsupportedError(message, expected=packages_of("privacy")) from None


_FOR = (
    "for|of|to|on|at|de|del|du|da|do|di|der|für|fürs|zu|zum|von|vom|pour|para|per"
    "|voor|för|для|от|к"
)
_IS = (
    "(?:is |was |has been )?(?:now )?(?:set |changed |reset |updated )?to|is now|is|was|ist|war"
    "|lautet|es|era|est|é|è|är|er|on|jest|olarak|là|ialah|adalah|είναι|هي|هو|है"
)
_JOIN = re.compile(
    rf"""["'`\])*_]{{0,2}}"""
    rf"""(?:[ \t]{{1,3}}(?:{_FOR})(?:[ \t]{{1,3}}[\w'.@/-]{{1,30}}){{1,4}}?)?"""
    rf"""(?:[ \t]{{0,4}}(?P<sign>:=|=>|->|==?|:|-(?=[ \t]))\s{{0,4}}"""
    rf"""|[ \t]{{1,4}}(?P<word>{_IS})[ \t]{{0,1}}:?\s{{1,4}}"""
    rf"""|[ \t]{{0,2}}(?P<sticky>是|为|為|は、?|는|은|คือ)[ \t]{{0,4}}:?[ \t]{{0,4}})"""
    rf"""(?:[*_]{{1,2}}[ ]?)?""",
    re.IGNORECASE,
)
_SPACE = re.compile(r"[ \t]{1,2}")
_QUOTED = re.compile(
    r'"((?:\\[^\n\0]|[^"\\\n\0]){1,1000})"'
    r"|'((?:\\[^\n\0]|[^'\\\n\0]){1,1000})'"
    r"|`([^`\n\0]{1,1000})`"
)
# Up to a space, or to the next name of a list with values: ;User=x in a connection string.
_NEXT = r"(?![;&,][\w .-]{1,30}=)"
_ASCII = re.compile(rf"""(?:{_NEXT}[^\s\0"'`<{NO_SPACES}])+""")
_ANY = re.compile(rf"""(?:{_NEXT}[^\s\0"'`<、。])+""")
_TRAILING = ".,;:)]}>"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NEAR = 40
# Documents repeat few keys.
_LONGEST_NAME, _MOST_NAMES = 64, 4_096
_RUNS_ON = re.compile(f"[{NO_SPACES}]")

PLACEHOLDER = re.compile(
    r"[*x.•#_\-]+|\$[{(].*|(?-i:\$[A-Z_]+)|%\w+%|\{\{.*|\{[\w.]+\}|<.*>|\[.*\]|your[ _-].*"
    r"|(?:os|process|config|settings|env|self|this)\..*"
    r"|(?:[a-z_]+\.)+[a-z_]+\(.*|(?:getenv|getpass|input|env|get_secret)\(.*"
    r"|n/?a|none|null|nil|true|false|undefined|string|str|text|bool|boolean|integer|int|bytes"
    r"|required|optional|redacted|hidden|removed|masked|omitted|unknown|empty|todo|tbd",
    re.IGNORECASE,
)
"""Placeholders that people write instead of a value."""


class Words:
    """Lower-case words to search for."""

    def __init__(self, words: Iterable[str], ends: Iterable[str] = ()) -> None:
        self._words = [(w, _RUNS_ON.match(w) is None) for w in words]
        self._words += [(w, False) for w in ends]
        self._names: dict[str, bool] = {}

    def places(self, small: str) -> Iterator[list[int]]:
        """Yield, for each word that occurs, the places where it ends, in order."""
        for word, alone in self._words:
            if word in small and (ends := list(_ends(small, word, alone))):
                yield ends

    def before(self, text: str, start: int) -> bool:
        """Return whether one of the words occurs shortly before a place."""
        return any(True for _ in self.places(lower(text[max(0, start - _NEAR) : start])))

    def name(self, key: str) -> bool:
        """Return whether an object's key ends with one of the words, as in ``userPassword``."""
        known = self._names.get(key)
        if known is None:
            known = self._name(key)
            if len(key) <= _LONGEST_NAME and len(self._names) < _MOST_NAMES:
                self._names[key] = known
        return known

    def _name(self, key: str) -> bool:
        small = lower(_CAMEL.sub(" ", key[-_LONGEST_NAME:])).strip()
        names = [small, re.sub("[_-]", " ", small)]
        names += [name[:-1] for name in names if name.endswith("s")]
        return any(
            name.endswith(word) and not (alone and _letter(name, len(name) - len(word) - 1))
            for name in names
            for word, alone in self._words
        )


Join: TypeAlias = Literal["sign", "word", "space"]


class LabelledValue(NamedTuple):
    """A value after a label."""

    start: int  # its first code point
    end: int  # the code point after its last
    quoted: bool  # whether it was in quotes
    # what separates label and value: a "sign" such as a colon, a "word" such as "is", or only
    # "space". After a line break it is always "space".
    join: Join


def said(text: str, words: Words) -> Iterator[LabelledValue]:
    """Yield the value after each of the words.

    Cost: linear. The text of a value is not searched again for the same word.
    """
    for ends in words.places(lower(text)):
        past = 0
        for end in ends:
            if end < past or (found := _JOIN.match(text, end) or _SPACE.match(text, end)) is None:
                continue
            join: Join = "space"
            if found.re is _JOIN and "\n" not in found[0]:
                join = "sign" if found["sign"] else "word"
            value = _value(text, found.end(), join)
            if value is not None:
                # After only a space, the value may be another label, as in "password token: x".
                past = past if join == "space" else value.end
                yield value


def _value(text: str, start: int, join: Join) -> LabelledValue | None:
    if quoted := _QUOTED.match(text, start):
        return LabelledValue(*quoted.span(quoted.lastindex or 0), True, join)
    one = _ASCII if text[start : start + 1].isascii() else _ANY
    found = one.match(text, start)
    if found is None:
        return None
    length = len(found[0].rstrip(_TRAILING))
    return LabelledValue(start, start + length, False, join) if length else None


def _ends(small: str, word: str, alone: bool) -> Iterator[int]:
    at = small.find(word)
    runs_on = _RUNS_ON.match(word) is not None
    while at >= 0:
        end = at + len(word)
        if not (alone and _letter(small, at - 1)) and (runs_on or not _letter(small, end)):
            yield end
        at = small.find(word, end)


def _letter(text: str, at: int) -> bool:
    return 0 <= at < len(text) and text[at].isalnum() and _RUNS_ON.match(text[at]) is None
