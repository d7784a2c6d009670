# SPDX-License-Identifier: Apache-2.0
"""The labelled corpus of privacy: texts, what is in them, and how much of it is found.

Each line of the file is a text in pieces. A labelled piece has a type. What looks like a key of a
provider stands in parts, so that no scanner of this repository takes the file for a leak; all of
it is invented, or of the ranges that are set aside for documentation and tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from omsgrain.privacy.detect import spans
from support.paths import TEST_DATA

FILE = TEST_DATA / "privacy_corpus.jsonl"


class Label(NamedTuple):
    """Something in a text; ``missed`` says that no detector is expected to find it."""

    type: str
    start: int
    end: int
    missed: bool


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and what is in it, in code points."""

    lang: str
    text: str
    labels: tuple[Label, ...]

    def values(self) -> Iterator[str]:
        """The texts that must be absent after redaction."""
        return (self.text[x.start : x.end] for x in self.labels if not x.missed)


class Figures(NamedTuple):
    """How well one type is found.

    Attributes:
        labelled: how many there are.
        whole: how many of them are covered from end to end by findings of the type.
        findings: how many findings there are.
        right: how many of them are where one of the type is labelled.
    """

    labelled: int
    whole: int
    findings: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.findings

    @property
    def recall(self) -> float:
        return self.whole / self.labelled


@cache
def corpus() -> tuple[Labelled, ...]:
    """All texts."""
    return tuple(_read(json.loads(line)) for line in FILE.read_text("utf-8").splitlines())


def measure(texts: Iterable[Labelled]) -> dict[str, Figures]:
    """Count, for each type, what is found."""
    counts: dict[str, list[int]] = {}
    for text in texts:
        found = spans(text.text)
        for label in text.labels:
            count = counts.setdefault(label.type, [0, 0, 0, 0])
            count[0] += 1
            count[1] += any(
                s.start <= label.start and label.end <= s.end and label.type in s.types
                for s in found
            )
        for span in found:
            count = counts.setdefault(span.types[0], [0, 0, 0, 0])
            count[2] += 1
            count[3] += any(
                x.start < span.end and span.start < x.end and x.type in span.types
                for x in text.labels
            )
    return {type: Figures(*count) for type, count in sorted(counts.items())}


def total(figures: dict[str, Figures]) -> Figures:
    """All types together."""
    return Figures(*map(sum, zip(*figures.values(), strict=True)))


_UNSEEN = "\u00ad\u200b\u200c\u200d\u2060\u2063\ufeff\ufe0f\U000e0041\u034f\u061c\u180e"
_WIDE = {chr(plain): chr(plain + 0xFEE0) for plain in range(0x21, 0x7F)}
_BOLD = {
    **{chr(0x61 + n): chr(0x1D41A + n) for n in range(26)},
    **{chr(0x41 + n): chr(0x1D400 + n) for n in range(26)},
    **{chr(0x30 + n): chr(0x1D7CE + n) for n in range(10)},
}


def _unseen(letter: str, last: bool, random: Random) -> str:
    return letter if last or random.random() < 0.8 else letter + random.choice(_UNSEEN)


def _entity(letter: str, last: bool, random: Random) -> str:
    if letter.isalnum() or letter.isspace() or letter == "\\" or random.random() < 0.5:
        return letter
    return random.choice([f"&#{ord(letter)};", f"&#x{ord(letter):x};"])


DISGUISES: Final[dict[str, Callable[[str, bool, Random], str]]] = {
    "invisible code points": _unseen,
    "HTML entities": _entity,
    "full-width forms": lambda letter, last, random: _WIDE.get(letter, letter),
    "mathematical letters": lambda letter, last, random: _BOLD.get(letter, letter),
}


def disguised(how: str) -> list[Labelled]:
    """All texts as somebody writes them who hides what is in them, each time the same."""
    random, write, texts = Random(2026), DISGUISES[how], []
    for text in corpus():
        starts = {label.start for label in text.labels}
        ends = {label.end for label in text.labels} | {len(text.text)}
        parts, places, size = [], {}, 0
        for at, letter in enumerate(text.text):
            places[at] = size
            # A place before or after a label stays one: nothing is put at its edge.
            parts.append(write(letter, at + 1 in ends or at + 1 in starts, random))
            size += len(parts[-1])
        places[len(text.text)] = size
        labels = [label._replace(start=places[label.start], end=places[label.end])
                  for label in text.labels]  # fmt: skip
        texts.append(Labelled(text.lang, "".join(parts), tuple(labels)))
    return texts


def _read(line: dict[str, Any]) -> Labelled:
    text, labels = "", []
    for piece in line["text"]:
        start = len(text)
        text += piece if isinstance(piece, str) else "".join(piece["parts"])
        if isinstance(piece, dict) and "type" in piece:
            labels.append(Label(piece["type"], start, len(text), piece.get("missed", False)))
    return Labelled(line["lang"], text, tuple(labels))
