# SPDX-License-Identifier: Apache-2.0
"""A text as detectors see it. One code point stays one, so places are the same."""

from __future__ import annotations

import re
import unicodedata

from omsgrain.privacy.detectors.detector import HOLE

__all__ = ["MARKER", "MARKS", "NO_SPACES", "fold", "lower"]

MARKER = re.compile(r"\[REDACTED:[a-z][a-z_]{0,31}\]")
"""What stands for something redacted. No digits: a secret cannot hide as the name of a type."""

NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\U00020000-\U0003ffff"
)
"""Scripts that run on without a space, as a part of a class: Thai to Khmer, Kana, Han, Hangul."""

MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
"""Accents and vowels that belong to the letter before, and that no ``\\w`` matches."""

_FULL_WIDTH = range(0xFF01, 0xFF5F)
_LIKE = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63",
    " ": "".join(map(chr, (0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))),
    '"': "\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d",
    "'": "\u2018\u2019\u201a",
}
_PLAIN = {odd: plain for plain, many in _LIKE.items() for odd in many}
_ODD = re.compile(rf"(?![0-9])\d|[\uff01-\uff5e{''.join(_PLAIN)}]")


def fold(text: str) -> str:
    """The text with look-alikes in ASCII, and with holes where markers stand."""
    if "[REDACTED:" in text:
        text = MARKER.sub(lambda found: HOLE * len(found[0]), text)
    return text if text.isascii() else _ODD.sub(_plain, text)


def lower(text: str) -> str:
    """The text in small letters, as long as it was."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join([s if len(s := c.lower()) == 1 else c for c in text])


def _plain(found: re.Match[str]) -> str:
    odd = found[0]
    if ord(odd) in _FULL_WIDTH:
        return chr(ord(odd) - 0xFEE0)
    return _PLAIN.get(odd) or str(unicodedata.decimal(odd))
