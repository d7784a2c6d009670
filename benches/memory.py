# SPDX-License-Identifier: Apache-2.0
"""Rows M2: what an agent asks of the memories of one user, with and without an embedder.

How well recall finds is measured by ``python -m benches.recall``.

The embedder is the mean of one vector for each word: it costs little, and both sides use it.
The peer ranks texts in memory by bm25s, and vectors by numpy; reciprocal ranks combine them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from itertools import accumulate

import omsgrain as og
from benches import peer
from benches.bm25_peer import Index
from benches.measure import Case, Plan, Row, check, timed

USER = "ada"
LIMIT = 10
QUERIES = 20
DIMENSIONS = 64
RANK = 60  # the constant of reciprocal rank fusion, as in omsgrain

_SYLLABLES = "ba da fo gu ka li me no pa ri so ta vu we zi".split()
_WORDS = 2_000
_COMMON = frozenset(("ada", "what", "did", "say", "about"))

Vector = list[float]
Embed = Callable[[list[str]], list[Vector]]
Ask = Callable[[str], list[str]]


def texts(count: int) -> list[str]:
    """Memories of five to fifteen words by Zipf's law; the last word is in one memory only."""
    rng = random.Random(8)
    words = list({"".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4))): 0 for _ in range(_WORDS)})
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))
    return [
        f"Ada {' '.join(rng.choices(words, cum_weights=weights, k=rng.randint(4, 14)))} item{i}"
        for i in range(count)
    ]


def questions(texts: list[str]) -> list[str]:
    """Eight words: stop words, two rare words of a memory, and its last one."""
    often = Counter(word for text in texts for word in text.split())
    asked = []
    for number in random.Random(9).sample(range(len(texts)), QUERIES):
        *words, last = texts[number].split()
        rare = sorted(words, key=lambda word: often[word])[:2]
        asked.append(f"what did Ada say about {' '.join(rare)} {last}")
    return asked


@cache
def _direction(word: str) -> Vector:
    rng = random.Random(sha256(word.encode()).digest())
    return [rng.gauss(0, 1) for _ in range(DIMENSIONS)]


@cache
def vector(text: str) -> Vector:
    """A vector of a text: the mean of those of its words, without those that say little."""
    found = [_direction(word) for word in text.lower().split() if word not in _COMMON]
    return [sum(column) / len(found) for column in zip(*found, strict=True)]


def embed(texts: list[str]) -> list[Vector]:
    """The vectors of texts. Both sides keep those of questions, as a memory does."""
    return [vector(text) for text in texts]


def by_words(plan: Plan) -> Case:
    said = texts(plan.count)
    index = Index(said)

    def theirs(question: str) -> list[str]:
        return [said[number] for number in index.best(question, LIMIT)]

    return _case(_recall(plan, said, None), said, theirs)


def by_words_and_vectors(plan: Plan) -> Case:
    numpy = peer.module("numpy")
    said = texts(plan.count)
    index, matrix = Index(said), numpy.array(embed(said), dtype="float32")
    matrix /= numpy.linalg.norm(matrix, axis=1, keepdims=True)

    def theirs(question: str) -> list[str]:
        asked = numpy.array(vector(question), dtype="float32")
        near = numpy.argsort(matrix @ asked)[::-1][: 10 * LIMIT].tolist()
        scores: dict[int, float] = {}
        for ranked in (index.best(question, 10 * LIMIT), near):
            for rank, number in enumerate(ranked, 1):
                scores[number] = scores.get(number, 0.0) + 1 / (RANK + rank)
        return [said[number] for number in sorted(scores, key=lambda n: -scores[n])[:LIMIT]]

    return _case(_recall(plan, said, embed), said, theirs)


def _recall(plan: Plan, said: list[str], embedder: Embed | None) -> Ask:
    """Recall from a memory that has all of it. How it was stored is not measured."""
    store = og.open(plan.directory / "memory.omsg", durability="relaxed")
    memory = og.Memory(store, user=USER, embed=embedder)
    for text in said:
        memory.remember(text)
    check(len(store) == len(said), "all are new")
    return lambda question: [one.text for one in memory.recall(question, limit=LIMIT)]


def _case(ours: Ask, said: list[str], theirs: Ask) -> Case:
    """Both sides find the memory with the rare word; by its vector another can be as near."""
    asked = questions(said)
    for question in asked:
        wanted = question.split()[-1]
        for found in (ours(question), theirs(question)):
            rare = [wanted in text.split() for text in found[:3]]
            check(any(rare), "the memory with the rare word is among the first")
            check(len(found) == LIMIT, "a full page")
    return Case(
        timed(lambda: [ours(question) for question in asked]),
        timed(lambda: [theirs(question) for question in asked]),
        len(asked),
    )


WORK = "recall of ten of one user's 5,000 memories by a question of eight words"

ROWS = (
    Row(
        "M2", WORK, "bm25s in memory, the same", 2.0, by_words,
        sets=("-",), count=5_000, unit="ms", kind="most", of="queries",
    ),
    Row(
        "M2-embedder", f"{WORK}, and its vector", "bm25s and numpy in memory, the same", 2.0,
        by_words_and_vectors,
        sets=("-",), count=5_000, unit="ms", kind="most", of="queries",
    ),
)  # fmt: skip
