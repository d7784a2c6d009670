# SPDX-License-Identifier: Apache-2.0
"""The benchmark of recall: its layout, its figures, and what it promises of vectors."""

from __future__ import annotations

import json
from pathlib import Path

from benches import dialogues, recall
from benches.dialogues import Question

FILE = [
    {
        "sample_id": "t-1",
        "conversation": {
            "speaker_a": "Nora",
            "speaker_b": "Felix",
            "session_10_date_time": "9:00 am on 2 June, 2025",
            "session_10": [{"speaker": "Nora", "dia_id": "D10:1", "text": "I sold the boat."}],
            "session_2_date_time": "9:00 am on 1 May, 2025",
            "session_2": [
                {"speaker": "Felix", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a boat"},
                {"speaker": "Nora", "dia_id": "D2:2", "text": "Nice."},
            ],
        },
        "qa": [
            {
                "question": "Who sells boats?",
                "answer": "Nora",
                "evidence": ["D10:01"],
                "category": 2,
            },
            {"question": "Both?", "answer": 2, "evidence": ["D2:1; D2:2", "D"], "category": 1},
            {"question": "Elsewhere?", "answer": "", "evidence": ["D7:1"], "category": 1},
            {"question": "None?", "evidence": [], "category": 4},
            {"question": "Never?", "adversarial_answer": "x", "evidence": ["D2:1"], "category": 5},
        ],
        "observation": {},
        "session_summary": {},
        "event_summary": {},
    }
]


def test_a_file_in_the_layout_of_locomo_is_read(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(json.dumps(FILE), encoding="utf-8")
    (read,) = dialogues.read(path)
    assert read.turns == {
        "D2:1": "Felix: Look! [a boat]",
        "D2:2": "Nora: Nice.",
        "D10:1": "Nora: I sold the boat.",
    }
    assert list(read.turns) == ["D2:1", "D2:2", "D10:1"]
    assert read.questions == (
        Question("Who sells boats?", frozenset({"D10:1"}), 2),
        Question("Both?", frozenset({"D2:1", "D2:2"}), 1),
    )


def test_figures_of_a_ranking() -> None:
    asked = [Question("one", frozenset({"a"}), 1), Question("two", frozenset({"b", "c"}), 1)]
    found = {"one": ["x", "a"], "two": ["b"]}
    assert recall.scores(asked, found, 1) == (0.5, 0.25)
    assert recall.scores(asked, found, 3) == (1.0, 0.75)


def test_stems_find_more_and_vectors_never_lose() -> None:
    """The figures of docs/search.md are of these rows."""
    memory = dialogues.together(dialogues.read(dialogues.OWN))
    assert len(memory.questions) == 100
    hits: dict[str, list[float]] = {}
    recalls: dict[str, list[float]] = {}
    for way, found in recall.figures(memory):
        pairs = [recall.scores(memory.questions, found, depth) for depth in recall.DEPTHS]
        hits[way], recalls[way] = map(list, zip(*pairs, strict=True))
    assert hits["words as written"][2] < 0.5
    assert hits["words"][0] > 0.95
    for name in recall.EMBEDDERS:
        for shares in (hits, recalls):
            pair = zip(shares[f"hybrid, {name}"], shares["words"], strict=True)
            assert all(one >= two for one, two in pair), name
    assert hits["hybrid, good"][0] == 1
    assert recalls["hybrid, good"][0] == 0.97


def test_the_table_in_the_docs_is_measured() -> None:
    page = (Path(__file__).parents[2] / "docs" / "search.md").read_text("utf-8")
    memory = [dialogues.together(dialogues.read(dialogues.OWN))]
    for line in [*recall.table(memory)][3:]:
        assert line.split("|", 2)[2] in page, line
