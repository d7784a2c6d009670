# SPDX-License-Identifier: Apache-2.0
"""Dialogues with questions and the turns that answer them, in the layout of LoCoMo.

The file is a list of dialogues. ``dialogues.json`` beside this file is a small set of our own,
with invented people. LoCoMo itself is not here: pass your copy to ``python -m benches.recall``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWN = Path(__file__).with_name("dialogues.json")

_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D(\d+):(\d+)")
_UNANSWERABLE = 5  # the category of questions that no turn answers


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the ids of the turns that answer it.

    Attributes:
        category: of our own set: 1 asks with the words as they are written, 2 with other forms of
            them, 3 with other words, 4 about two turns.
    """

    text: str
    evidence: frozenset[str]
    category: int


@dataclass(frozen=True, slots=True)
class Dialogue:
    name: str
    turns: dict[str, str]  # the text with its speaker, by id
    questions: tuple[Question, ...]


def read(path: Path) -> list[Dialogue]:
    """Read a file; questions without evidence in the dialogue are left out."""
    with path.open(encoding="utf-8") as file:
        return [_dialogue(one, number) for number, one in enumerate(json.load(file))]


def together(dialogues: list[Dialogue]) -> Dialogue:
    """Join dialogues into one, whose ids begin with the names of theirs."""
    return Dialogue(
        "all",
        {f"{one.name}/{id}": text for one in dialogues for id, text in one.turns.items()},
        tuple(
            Question(
                asked.text,
                frozenset(f"{one.name}/{id}" for id in asked.evidence),
                asked.category,
            )
            for one in dialogues
            for asked in one.questions
        ),
    )


def _dialogue(given: Mapping[str, Any], number: int) -> Dialogue:
    turns = dict(_turns(given["conversation"]))
    return Dialogue(
        str(given.get("sample_id", number)), turns, tuple(_questions(given["qa"], turns))
    )


def _turns(conversation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    sessions = [name for name in conversation if _SESSION.fullmatch(name)]
    for name in sorted(sessions, key=lambda name: int(name.rpartition("_")[2])):
        for turn in conversation[name]:
            text = f"{turn['speaker']}: {turn.get('text', '')}"
            if caption := turn.get("blip_caption"):  # what a picture in the turn shows
                text += f" [{caption}]"
            yield turn["dia_id"], text


def _questions(given: list[dict[str, Any]], turns: Mapping[str, str]) -> Iterator[Question]:
    for one in given:
        if one.get("category") == _UNANSWERABLE:
            continue
        # Some ids of the published file are joined, or have leading zeros.
        found = (_TURN.finditer(str(id)) for id in one.get("evidence") or ())
        named = {f"D{int(part[1])}:{int(part[2])}" for parts in found for part in parts}
        if evidence := frozenset(named & turns.keys()):
            yield Question(str(one["question"]), evidence, int(one.get("category", 0)))
