# SPDX-License-Identifier: Apache-2.0
"""Stems of words, frequent words of languages, and a cheap guess of a text's language.

The index has each word of a grain as it is written, and beside the words their stems, each with a
mark that no word has. So exact words, phrases and beginnings are found as without stems. A plain
word of a query also asks for its stems, in each language that the index has.

The script of a word tells the language, or, in Latin script, the frequent words and the letters of
its text. A text without any of these is taken as English. A wrong guess loses little: a query is
stemmed in the same wrong language.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final
from zlib import crc32

from omsgrain._core import Stemmer
from omsgrain.search.words import spaced

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MARK: Final = "¬"
"""Begins each stem in the index. No word and no query contains it."""

_SHORTEST = 3  # letters of a word that has a stem
_LONGEST = 100  # letters; a longer one is data
_KEPT = 1 << 16  # stems to cache for each language

_FILE = (files("omsgrain.search") / "frequent_words.toml").read_text("utf-8")
_TABLES: dict[str, dict[str, str]] = tomllib.loads(_FILE)

_SCRIPTS = {
    "russian": (0x0400, 0x052F),
    "greek": (0x0370, 0x03FF),
    "arabic": (0x0600, 0x06FF),
    "hindi": (0x0900, 0x097F),
}
"""Languages that are taken for granted in a script other than Latin."""

LANGUAGES: Final = tuple(_TABLES["latin"])
"""Languages in Latin script. An index stores a set of them as bits, in this order."""

STEMMERS: Final = "frostem 2.20261016.1"
"""The crate that stems; other versions of it may give other stems."""

RULES: Final = crc32(f"1 {_FILE} {STEMMERS}".encode()) >> 2
"""Identifies the rules for words and stems. An index that was made by others is made again."""


def _hints(given: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Return for each word or letter a number with a byte of 1 for each language that has it.

    The bytes of a sum of such numbers are the counts of all languages. None has 256 hints. An
    ASCII letter is no hint, because it may be a name.
    """
    found: dict[str, int] = {}
    for number, language in enumerate(LANGUAGES):
        for one in given.get(language, ()):
            if len(one) > 1 or not one.isascii():
                found[one] = found.get(one, 0) + (1 << 8 * number)
    return found


_STOP = {
    # with and without accents
    language: frozenset({*words.split(), *spaced(words).split()})
    for language, words in (_TABLES["latin"] | _TABLES["other"]).items()
}
_WORDS = _hints(_STOP)
_LETTER = _hints(_TABLES["letters"])
_KNOWN = frozenset(_WORDS)
_FOREIGN_STOP = frozenset().union(*(_STOP[name] for name in _SCRIPTS))


def _counts(words: set[str]) -> bytes:
    """Return how many hints words give to each language: frequent words, and letters."""
    total = sum([_WORDS[word] for word in _KNOWN & words])
    if beyond := [word for word in words if not word.isascii()]:
        total += sum([_LETTER[letter] for letter in _LETTER.keys() & set("".join(beyond))])
    return total.to_bytes(len(LANGUAGES), "little")


def language(words: set[str]) -> int:
    """Return the number of the language of a text: of the best guesses the first, or English."""
    counts = _counts(words)
    return counts.index(max(counts))


def stop_words(words: set[str]) -> set[str]:
    """Return those words that are frequent in each language that the words can be of."""
    found = words & _FOREIGN_STOP
    counts = _counts(words)
    if best := max(counts):
        fitting = zip(LANGUAGES, counts, strict=True)
        found |= words.intersection(*[_STOP[name] for name, count in fitting if count == best])
    return found


class Stems(dict[str, str]):
    """The marked stems of words, by word: of a language in Latin script, and of other scripts.

    Frequent words, short words and words with digits have none: an empty text.
    """

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, word: str) -> str:
        found = self._stem(word)
        if len(self) < _KEPT:
            self[word] = found
        return found

    def _stem(self, word: str) -> str:
        if not has_stem(word):
            return ""
        language = _language_of_script(word[0], self._language)
        if language is None or word in _STOP[language]:
            return ""
        # Parts of a folded stem would be words of their own; a mark is inside of none.
        return MARK + spaced(_stemmer(language).stem(word)).replace(" ", "")


def has_stem(word: str) -> bool:
    """Whether a word is a word of a language: of a usual length, and letters only."""
    if not _SHORTEST <= len(word) <= _LONGEST:
        return False
    return word.isalpha() or {unicodedata.category(char)[0] for char in word} <= {"L", "M"}


def _language_of_script(letter: str, latin: str) -> str | None:
    code = ord(letter)
    if code < 0x0250 or 0x1E00 <= code < 0x1F00:
        return latin
    for language, (first, last) in _SCRIPTS.items():
        if first <= code <= last:
            return language
    return None


@cache
def _stemmer(language: str) -> Stemmer:
    return Stemmer(language)


@cache
def stems(number: int) -> Stems:
    """Return the stems for texts of a language, by its number."""
    return Stems(LANGUAGES[number])


def numbers(languages: int) -> list[int]:
    """Return the numbers of the languages of a set."""
    return [number for number in range(len(LANGUAGES)) if languages >> number & 1]
