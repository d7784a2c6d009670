# SPDX-License-Identifier: Apache-2.0
"""Words in any script, prepared alike for the index, for queries and for snippets.

A prepared text consists of folded words, separated by spaces, or by hyphens in place of signs. It
is made character by character:

- Letters lose case and accents, including Hebrew points and Arabic vowel signs. Vowel signs of
  Indic scripts stay, because they are letters there. Compatibility forms become plain (``ﬁ``, full
  width, ``①``). Digits of any script become 0-9.
- Text in scripts without spaces (Han, Kana, Thai, Lao, Khmer, Myanmar) and in Hangul, whose
  particles attach to words, is split into characters. A word in such text is a phrase of
  characters.
- An emoji is a word, whatever its skin tone. Joined emoji are several words.
- Joiners and direction marks are dropped. Signs become hyphens. Everything else becomes a space.

No character depends on its neighbours, so places in the prepared text map back to the text.

Words with one sign between them (``robot-17``, ``don't``, ``12.5``) can be found by each part. In
the index, each such pair is also a word of its own, because ``robot`` alone may be frequent.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from types import NoneType
from typing import Any

GAP = " ¶ "
"""Separates two texts in a column, so that no phrase spans both. No query contains this word. FTS5
reads all non-ASCII characters as letters."""

_JOINER = "·"
"""Joins the word for a pair. No query contains it."""

_KEPT = 1 << 16  # characters to cache; only hostile texts have more

_SPLIT = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19FF),  # Tai Le, New Tai Lue, Khmer symbols
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),
    (0x3021, 0x312F),  # Hangzhou numerals, Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA980, 0xA9FF),  # Javanese, Myanmar
    (0xAA60, 0xAA7F),
    (0xAC00, 0xD7A3),  # Hangul
    (0xF900, 0xFAFF),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)
_EMOJI = (
    (0x231A, 0x23FF),
    (0x2600, 0x27BF),
    (0x2B00, 0x2BFF),
    (0x1F000, 0x1F3FA),
    (0x1F400, 0x1FAFF),
)
_VANISH = (
    (0x0640, 0x0640),  # Arabic elongation
    (0x034F, 0x034F),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x20DD, 0x20E4),  # enclosing marks, keycaps
    (0xFE00, 0xFE0F),  # variation selectors
    (0x1F3FB, 0x1F3FF),  # skin tones
    (0xE0100, 0xE01EF),
)
_LIKE_SIGNS = {0x02BB, 0x02BC}  # letters that look like apostrophes


def _within(code: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _is_accent(char: str) -> bool:
    """Whether a mark can be dropped; Indic marks are vowels, and Kana marks change the letter."""
    kind = unicodedata.combining(char)
    return kind >= 200 or 10 <= kind <= 36  # marks above and below; Hebrew, Arabic, Syriac points


def _fold(code: int, accents: bool = False) -> str:
    char = chr(code)
    kind = unicodedata.category(char)
    if code == 0x200B:  # zero-width space
        return " "
    if kind == "Cf" or _within(code, _VANISH):
        return ""
    if kind == "Nd":
        return str(unicodedata.decimal(char))
    parts = unicodedata.normalize("NFKD", char)
    kept = "".join(part for part in parts if accents or not _is_accent(part)).casefold()
    return "".join(map(_spaced, unicodedata.normalize("NFC", kept)))


def _spaced(char: str) -> str:
    code, kind = ord(char), unicodedata.category(char)
    if _within(code, _EMOJI):
        return f" {char} "
    if kind in ("Cc", "Cs") or kind[0] == "Z":
        return " "
    if kind[0] in "PS" or code in _LIKE_SIGNS:
        return "-"
    return f" {char} " if _within(code, _SPLIT) else char


class _Folds(dict[int, str]):
    def __init__(self, accents: bool) -> None:
        super().__init__((code, _fold(code)) for code in range(128))
        self._accents = accents

    def __missing__(self, code: int) -> str:
        fold = _fold(code, self._accents)
        if len(self) < _KEPT:
            self[code] = fold
        return fold


# Both start only where a word does: trying at every letter takes quadratic time on a long word.
_PAIR = re.compile("(?<![^ -])([^ -]+)-(?=([^ -]+))")
_ASCII_PAIR = re.compile("(?<![0-9A-Za-z])([0-9A-Za-z]+)[!-/:-@[-`{-~](?=([0-9A-Za-z]+))")
_ASCII_WORD = re.compile("[0-9a-z]+")
_FOLDS = _Folds(accents=False)
_LOWER = _Folds(accents=True)


def normal(text: str) -> str:
    """Return a text in a form that can be folded by character; most grains are in it already."""
    if text.isascii():
        return text
    if "\uff9e" in text or "\uff9f" in text:  # voicing marks after half-width Kana
        return unicodedata.normalize("NFKC", text)
    return unicodedata.normalize("NFC", text)


def prepare(text: str) -> str:
    """Return the words of a text, with spaces or hyphens between them."""
    return normal(text).translate(_FOLDS)


def spaced(text: str) -> str:
    return prepare(text).replace("-", " ")


def split(text: str) -> list[str]:
    return spaced(text).split()


def lowered(text: str) -> list[str]:
    """Return the words of a text in lower case, with their accents, as stems need them."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return normal(text).translate(_LOWER).replace("-", " ").split()


def pairs(words: Sequence[str]) -> list[str]:
    """Return the index words for pairs of words with one sign between them."""
    return [f"{one}{_JOINER}{two}" for one, two in pairwise(words)]


def for_index(text: str) -> str:
    """Return the text for the index; FTS5 folds ASCII text itself."""
    if text.isascii():
        pair = _ASCII_PAIR
    else:
        text, pair = prepare(text), _PAIR
    found = ""
    end = -1
    for match in pair.finditer(text):
        found += GAP if found and match.start() != end else " "
        found += _JOINER.join(match.groups())
        end = match.end()
    return text + found


class Places:
    """A text in normal form, its prepared form, and the mapping between them."""

    __slots__ = ("_ends", "spaced", "text")

    def __init__(self, text: str) -> None:
        self.text = normal(text)  # the text, in normal form
        self.spaced = self.text.translate(_FOLDS)  # its words, with spaces or hyphens between
        self._ends: list[int] | None = None

    def back(self, start: int, end: int) -> tuple[int, int]:
        """Return which characters of the text a range of the prepared form came from.

        Dropped marks after the last character belong to it.
        """
        if self.text.isascii():
            return start, end
        if self._ends is None:  # the end of each folded character
            self._ends = list(accumulate(len(_FOLDS[ord(char)]) for char in self.text))
        ends = self._ends
        last = ends[bisect_right(ends, end - 1)]
        return bisect_right(ends, start), bisect_right(ends, last)

    def part(self, start: int, end: int) -> str:
        """Return the text that a range of the prepared form came from."""
        low, high = self.back(start, end)
        return self.text[low:high]


COLUMNS = ("says", "about", "more")
WEIGHTS = (2.0, 3.0, 1.0)

SAYS = frozenset(
    {
        "agreed_content",
        "conclusion",
        "content",
        "content_blocks",
        "description",
        "object",
        "tool_description",
    }
)
"""Fields with the content of a grain."""

ABOUT = frozenset({"entity_id", "observer_id", "structural_tags", "subject", "tool_name"})
"""Fields with the topic of a grain, in few words."""

UNSEARCHED = frozenset(
    {
        # for filters, and people; other fields may name a person in a text
        *("namespace", "origin_namespace", "user_id", "session_id", "run_id"),
        *(
            "author_did",
            "origin_did",
            "observer_did",
            "subject_did",
            "grantee_did",
            "witness_dids",
        ),
        *("delegate_to", "delegate_from", "assigned_agent", "return_to", "invalidation_initiator"),
        # other grains, by address
        *("derived_from", "related_to", "superseded_by", "parent_message_id", "parent_task_id"),
        *("parent_goals", "satisfaction_evidence", "depends_on", "output_grain", "dissent_grains"),
        *("prior_consent", "context_grains", "provenance_chain", "processing_basis"),
        *("_disclosure_of", "_elided"),
        # one of few values
        *("type", "source_type", "temporal_type", "role", "epistemic_status", "identity_state"),
        *("verification_status", "invalidation_type", "recall_priority", "stop_reason"),
        *("action_phase", "tool_type", "execution_mode", "error_type", "observer_type"),
        *("observation_mode", "observation_scope", "goal_state", "inference_method", "basis"),
        *("scope", "jurisdiction", "license", "allowed_transitions"),
        # for programs
        *("tool_call_id", "call_batch_id", "tool_version", "interpreter_id", "input_schema"),
        *("output_schema", "model_id", "observer_model", "frame_id", "sync_group", "token_usage"),
        *("expiry_policy", "recurrence", "invalidation_policy", "retention_policy"),
        *("supersession_auth", "trusted_timestamp", "authorized_namespaces", "authorized_types"),
        "authorized_tools",
    }
)
"""Fields that are not searched, in addition to numbers, times and booleans."""

PLAIN_KEYS = frozenset({"content_blocks", "content_refs", "embedding_refs"})
"""Maps whose keys are defined by the format."""


_WITHOUT = frozenset({str, int, float, bool, NoneType})
"""Types without texts inside."""

COLUMN_OF = {name: None for name in UNSEARCHED} | dict.fromkeys(SAYS, 0) | dict.fromkeys(ABOUT, 1)
"""The number of a field's column; None if it is not searched. Other fields are in the last one."""


def texts(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield all searched texts of a grain, each with the name of its field."""
    for name, value in fields.items():
        if name not in UNSEARCHED:
            kind = type(value)
            if kind is str:  # the usual case
                yield name, value
            if kind in _WITHOUT:
                continue
            for text in inside(value, name not in PLAIN_KEYS):
                yield name, text


def inside(value: Any, keys: bool) -> Iterator[str]:
    """Yield the texts inside a value; a grain has at most 32 levels."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if keys:
                yield key
            yield from inside(item, keys)
    elif isinstance(value, list):
        for item in value:
            yield from inside(item, keys)


def words_of(fields: Mapping[str, Any]) -> set[str]:
    return set(split("\n".join([text for _, text in texts(fields)])))
