# SPDX-License-Identifier: Apache-2.0
"""Words that tell what comes after them: ``password: x``, ``API key is x``, ``密码是x``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from omsgrain.privacy.detectors.folding import NO_SPACES, lower

__all__ = ["PLACEHOLDER", "Said", "Words", "said"]

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
# Up to a space, or to the next of a list of names with values: ;User=x in a connection string.
_NEXT = r"(?![;&,][\w .-]{1,30}=)"
_ASCII = re.compile(rf"""(?:{_NEXT}[^\s\0"'`<{NO_SPACES}])+""")
_ANY = re.compile(rf"""(?:{_NEXT}[^\s\0"'`<、。])+""")
_TRAILING = ".,;:)]}>"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NEAR = 40
# Documents have few keys, over and over.
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
"""What people write in the place of a value."""


class Words:
    """Words to look for, in small letters.

    Args:
        words: those that stand alone: ``pass`` is not in ``compass``.
        ends: those that may be the end of a longer name: ``DB_PASSWORD``, ``dbPassword``.
    """

    def __init__(self, words: Iterable[str], ends: Iterable[str] = ()) -> None:
        self._words = [(w, _RUNS_ON.match(w) is None) for w in words]
        self._words += [(w, False) for w in ends]
        self._names: dict[str, bool] = {}

    def places(self, small: str) -> Iterator[list[int]]:
        """Yield, for each word that is there, the places where it ends, in order."""
        for word, alone in self._words:
            if word in small and (ends := list(_ends(small, word, alone))):
                yield ends

    def told(self, text: str, start: int) -> bool:
        """Tell whether one of the words stands shortly before a place."""
        return any(True for _ in self.places(lower(text[max(0, start - _NEAR) : start])))

    def name(self, key: str) -> bool:
        """Tell whether a key of an object ends with one of the words: ``userPassword``."""
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


class Said(NamedTuple):
    """A value after a telling word.

    Attributes:
        start: its first code point.
        end: the one after its last.
        quoted: whether it stood in quotes.
        join: what stood between: a sign such as a colon, a word such as "is", or only space, to
            which the end of a line counts in any case.
    """

    start: int
    end: int
    quoted: bool
    join: Join


def said(text: str, words: Words) -> Iterator[Said]:
    """Yield what is said after each of the words.

    Cost: linear. What a value covers is not looked at again for the same word.
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
                # After a mere space it may be another telling word, as in "password token: x".
                past = past if join == "space" else value.end
                yield value


def _value(text: str, start: int, join: Join) -> Said | None:
    if quoted := _QUOTED.match(text, start):
        return Said(*quoted.span(quoted.lastindex or 0), True, join)
    one = _ASCII if text[start : start + 1].isascii() else _ANY
    found = one.match(text, start)
    if found is None:
        return None
    length = len(found[0].rstrip(_TRAILING))
    return Said(start, start + length, False, join) if length else None


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
