# SPDX-License-Identifier: Apache-2.0
"""The text index finds what a plain reading of the texts finds; and in which order."""

from __future__ import annotations

from random import Random

import pytest

import omsgrain as og
from omsgrain.errors import SchemaError
from omsgrain.search import rank, words
from omsgrain.search.text import Phrase, Query, TextIndex, read_query
from omsgrain.search.words import texts
from omsgrain.storage.memory import MemoryStorage
from support.text_stores import event, put, remove, say, seqs

VOCABULARY = [
    *"red box bo* robot-17 robot 17 éa ea* a-b-c b-c* a.b robot-1* x".split(),
    *"北京 京 大学 กา กาแฟ 로봇 봇이 👍".split(),
]
SENTENCES = [
    *"red box boxes robot-17 robot 17 Éa ea eau a-b.c a_b b-c a b X".split(),
    *"北京大学 大学北京 กาแฟ 로봇이 👍🏽".split(),
]


Words = list[tuple[str, str]]
"""The words of a text, each with what stands before it."""


def read_words(text: str) -> Words:
    found: Words = []
    between = word = ""
    for char in words.prepare(text) + " ":
        if char not in " -":
            word += char
        elif word:
            found.append((word, between))
            between, word = char, ""
        else:
            between += char
    return found


def has(phrase: Phrase, prepared: list[Words]) -> bool:
    """Whether a phrase is in one of the texts of a grain."""
    n = len(phrase.words)
    for text in prepared:
        for i in range(len(text) - n + 1):
            *head, last = (word for word, _ in text[i : i + n])
            if (
                tuple(head) == phrase.words[:-1]
                and (
                    last == phrase.words[-1]
                    or (phrase.prefix and last.startswith(phrase.words[-1]))
                )
                and not (phrase.joined and any(b != "-" for _, b in text[i + 1 : i + n]))
            ):
                return True
    return False


def matches(query: Query, prepared: list[Words]) -> bool:
    if any(has(phrase, prepared) for phrase in query.excluded):
        return False
    if query.required:
        return all(has(phrase, prepared) for phrase in query.required)
    return any(has(phrase, prepared) for phrase in query.optional)


def random_query(rng: Random) -> str:
    parts = []
    for _ in range(rng.randint(1, 4)):
        said = " ".join(rng.choices(VOCABULARY, k=rng.randint(1, 2)))
        parts.append(rng.choice(("", "", "+", "-")) + rng.choice((said.split()[0], f'"{said}"')))
    return " ".join(parts)


@pytest.mark.parametrize("small", [10_000, 20], ids=["weighed", "counted"])
def test_a_model_finds_the_same(
    store: MemoryStorage, index: TextIndex, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(rank, "SMALL", small)
    rng = Random(5)

    def sentence() -> str:
        return " ".join(rng.choices(SENTENCES, k=rng.randint(1, 5)))

    blobs = [
        event(sentence(), structural_tags=[sentence(), f"n{n}"], context={"k": sentence()})
        for n in range(100)
    ]
    grains = zip(put(store, *blobs), map(og.Grain, blobs), strict=True)
    prepared = {seq: [read_words(text) for _, text in texts(grain)] for seq, grain in grains}
    gone = rng.sample(sorted(prepared), 20)
    index.catch_up(store.read)
    remove(store, *gone)
    for seq in gone:
        del prepared[seq]
    for _ in range(200):
        try:
            query = read_query(random_query(rng))
        except SchemaError:
            continue
        expected = {seq for seq, said in prepared.items() if matches(query, said)}
        found = seqs(index.search(store.read, query, limit=200))
        assert len(found) == len(set(found))
        assert set(found) == expected, query


def test_common_words_do_not_change_the_order(
    store: MemoryStorage, index: TextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large index they are not weighed: what they alone find comes last, newest first."""
    say(
        store,
        *(f"common {'rare ' * (n % 5 == 0)}{'x ' * (n % 4)}" + f"{n}" for n in range(60)),
        "else",
    )
    weighed = index.search(store.read, "common rare -41", limit=100)
    monkeypatch.setattr(rank, "SMALL", 10)
    counted = index.search(store.read, "common rare -41", limit=100)
    assert seqs(counted)[:12] == seqs(weighed)[:12]
    scores = [[match.score for match in found.matches[:12]] for found in (counted, weighed)]
    assert scores[0] == pytest.approx(scores[1])
    rest = [n for n in range(60, 0, -1) if n not in seqs(weighed)[:12] and n != 42]
    assert seqs(counted)[12:] == rest
    assert {match.score for match in counted.matches[12:]} == {0.0}
    only = index.search(store.read, "common", limit=100)
    assert seqs(only) == list(range(60, 0, -1))
    assert {match.score for match in only.matches} == {1.0}
    assert seqs(index.search(store.read, "+common", limit=100)) == list(range(60, 0, -1))
    assert set(seqs(index.search(store.read, "+common rare", limit=100))[:12]) == set(
        range(1, 61, 5)
    )
