# SPDX-License-Identifier: Apache-2.0
"""What the table ``words`` has of a grain: its words three times, each for another question.

    words   tsvector of the different words, each behind the number of its store: which grains?
    says, about, more   all words in their order, each between two spaces: how often, and which
                        stand together?
    size    how many there are: how much is one of them worth?

The words are those that the index in SQLite has, so both find the same. PostgreSQL makes none: a
tsvector that it made would have stems, and places for the first 16,383 words only. A grain of so
many different words that no tsvector takes them is *wide*: each search looks at it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from omsgrain.search.feed import Words
from omsgrain.text.words import GAP

__all__ = ["LONGEST", "Row", "cut", "framed", "lexeme", "row_of"]

LONGEST = 500
"""Letters of a word that count: a tsvector takes words of 2,046 bytes."""

_MOST = 900_000  # bytes of the words of a tsvector, which takes a MiB
_WORD = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")
_FOLD = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_GAP = GAP.strip()


class Row(NamedTuple):
    """A row of the table, without the number of the store."""

    seq: int
    size: int
    says: str
    about: str
    more: str
    words: str
    wide: bool


def cut(word: str) -> str:
    """A word as the table has it."""
    return word[:LONGEST]


def framed(words: list[str]) -> str:
    """Words in their order, so that each has its own space on both sides."""
    return f" {'  '.join(words)} " if words else ""


def lexeme(store_id: int, word: str) -> str:
    """A word of a store as a tsvector and a tsquery have it: stores share an index of words."""
    return f"'{store_id}.{word}'"


def row_of(store_id: int, given: Words) -> Row:
    """Make the row of a grain.

    Args:
        store_id: the number of the store.
        given: its number and texts, as ``feed`` gives them.
    """
    seq, *columns = given
    split = [[cut(word) for word in _WORD.findall(_folded(text))] for text in columns]
    different = {word for words in split for word in words}
    different.discard(_GAP)
    wide = sum(map(len, different)) > _MOST // 4 and (
        sum(len(word.encode()) + 12 for word in different) > _MOST
    )
    # In the order of PostgreSQL, so that what it gives back can be compared.
    names = [] if wide else sorted(lexeme(store_id, word) for word in different)
    says, about, more = map(framed, split)
    return Row(seq, sum(map(len, split)), says, about, more, " ".join(names), wide)


def _folded(text: str) -> str:
    """Letters of ASCII without case; the others were folded by ``for_index``."""
    return text.lower() if text.isascii() else text.translate(_FOLD)
