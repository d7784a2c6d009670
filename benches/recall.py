# SPDX-License-Identifier: Apache-2.0
"""How well recall finds: ``python -m benches.recall [FILE]``, a file in the layout of LoCoMo.

Every turn of a dialogue is a memory; each question asks for the turns that answer it. hit@k is the
share of questions with an answering turn among the first k, recall@k the mean share of their
answering turns. No model judges anything. Without a file, all dialogues of our own set are one
memory; those of a file are a memory each.

    words as written   no stems and no stop words, as a search in quotes
    words              with stems and stop words, the default
    vectors            of an embedder alone
    hybrid             words and vectors, with the default weight

The weak embedder hashes three letters at a time. The good one knows the stems of words and the
paraphrases of our own set; on another file it knows the stems alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import omsgrain as og
from benches import dialogues
from benches.dialogues import Dialogue, Question
from omsgrain.search import stem
from omsgrain.search.text import read_query
from omsgrain.search.words import lowered
from omsgrain.store.context import context_of

DEPTHS = (1, 3, 5, 10)
USER = "ada"
_DIMENSIONS = 512
_TIME = 1_700_000_000_000

_PARAPHRASES = {
    "race": "marathon",
    "prepare": "training",
    "nourishes": "bees",
    "insects": "bees",
    "honey": "bees",
    "award": "prize",
    "receive": "won",
    "hypertension": "pressure",
    "check": "measure",
    "marriage": "divorcing",
    "ended": "divorcing",
}

Vector = list[float]
Find = Callable[[str], list[str]]


def weak(text: str) -> Vector:
    """Hashed groups of three letters: near are texts with the same letters."""
    said = f" {text.lower()} "
    return _hashed(said[at : at + 3] for at in range(len(said) - 2))


def good(text: str) -> Vector:
    """Hashed stems, and those of paraphrases: near are texts about the same."""
    words = set(lowered(text))
    by_word = stem.stems(stem.language(words))
    known = (_PARAPHRASES[word] for word in words & _PARAPHRASES.keys())
    return _hashed(by_word[word] for word in chain(words, known) if by_word[word])


def _hashed(parts: Iterator[str]) -> Vector:
    vector = [1e-3] + [0.0] * (_DIMENSIONS - 1)  # never all zeros
    for part in parts:
        number = int.from_bytes(blake2b(part.encode(), digest_size=8).digest(), "big")
        vector[number % _DIMENSIONS] += 1 if number >> 40 & 1 else -1
    return vector


EMBEDDERS: dict[str, Callable[[str], Vector]] = {"weak": weak, "good": good}


def figures(
    dialogue: Dialogue, *, vector_weight: float | None = None
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield each way of finding, with the ids that it finds for each question, best first."""
    with og.open(":memory:") as store:
        ids = {
            address: id
            for address, id in zip(
                store.put_many(_grains(dialogue)).addresses, dialogue.turns, strict=True
            )
            if address is not None
        }
        for name, embed in EMBEDDERS.items():
            vectors = [embed(text) for text in dialogue.turns.values()]
            store.vectors.add_many(zip(ids, vectors, strict=True), model=name)

        def search(question: str, model: str | None = None, words: bool = True) -> list[str]:
            vector = None if model is None else EMBEDDERS[model](question)
            page = store.search(
                question if words else None,
                vector=vector,
                model=model,
                vector_weight=vector_weight,
                limit=max(DEPTHS),
                user_id=USER,
            )
            return [ids[hit.address] for hit in page]

        ways: dict[str, Find] = {
            "words as written": lambda text: [ids[one] for one in _as_written(store, text)],
            "words": search,
        }
        for name in EMBEDDERS:
            ways[f"vectors, {name}"] = partial(search, model=name, words=False)
            ways[f"hybrid, {name}"] = partial(search, model=name)
        for way, find in ways.items():
            yield way, {asked.text: find(asked.text) for asked in dialogue.questions}


def _grains(dialogue: Dialogue) -> Iterator[dict[str, object]]:
    for number, text in enumerate(dialogue.turns.values()):
        yield {"type": "event", "content": text, "user_id": USER, "created_at": _TIME + number}


def _as_written(store: og.GrainStore, text: str) -> list[str]:
    context = context_of(store)
    query = replace(read_query(text), words=(), stop=frozenset())
    found = context.texts().search(context.inner.read, query, limit=max(DEPTHS)).matches
    with context.inner.read() as reader:
        grains = [reader.grain(match.seq) for match in found]
    return [grain.address for grain in grains if grain is not None]


def scores(
    questions: Sequence[Question], found: dict[str, list[str]], depth: int
) -> tuple[float, float]:
    """Return hit and recall at a depth."""
    shares = [
        len(one.evidence.intersection(found[one.text][:depth])) / len(one.evidence)
        for one in questions
    ]
    return sum(share > 0 for share in shares) / len(shares), sum(shares) / len(shares)


def table(memories: Sequence[Dialogue]) -> Iterator[str]:
    """Yield the lines of the table over all memories."""
    counts = len(memories), sum(len(one.turns) for one in memories)
    questions = [asked for one in memories for asked in one.questions]
    yield f"{counts[0]} memories, {counts[1]} turns, {len(questions)} questions"
    heads = "".join(f" | hit@{depth} | recall@{depth}" for depth in DEPTHS)
    yield f"| found by{heads} |"
    yield "|---" + "|---:" * 2 * len(DEPTHS) + "|"
    sums: dict[str, list[float]] = {}
    for memory in memories:
        for way, found in figures(memory):
            row = sums.setdefault(way, [0.0] * (2 * len(DEPTHS)))
            for at, depth in enumerate(DEPTHS):
                for part, value in enumerate(scores(memory.questions, found, depth)):
                    row[2 * at + part] += value * len(memory.questions)
    for way, row in sums.items():
        yield f"| {way} | {' | '.join(f'{value / len(questions):.3f}' for value in row)} |"


def main(arguments: Sequence[str]) -> None:
    """Print the table of our own set, or of a file."""
    if arguments:
        memories = [one for one in dialogues.read(Path(arguments[0])) if one.questions]
    else:
        memories = [dialogues.together(dialogues.read(dialogues.OWN))]
    for line in table(memories):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
