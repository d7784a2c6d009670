# SPDX-License-Identifier: Apache-2.0
"""Rows S6: search by words, and how it grows with the store.

A question is answered down to the objects of the grains. bm25s ranks texts in memory; what it
finds is taken from a list.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import omsgrain as og
from benches import areev_peer, data, peer
from benches.bm25_peer import Index
from benches.measure import Case, Plan, Row, check, timed

LIMIT = 10
QUERIES = 20
GROWTH = 10
LARGE = 200_000

RARE = "{}"
"""A word that one grain has: the number of a shelf."""
COMMON = "shelf {}"
"""The same beside a word that all have, so that all are candidates."""
QUESTION = "which robot saw the boxes on shelf {}"
"""Eight words: three that all grains have, four that none has, or that stop words are."""

Ask = Callable[[str], list[object]]


def numbers(count: int) -> list[str]:
    """Numbers of shelves."""
    return [str(n) for n in random.Random(6).sample(range(500, count), QUERIES)]


def against_areev(text: str, plan: Plan) -> Case:
    orjson = peer.module("orjson")
    grains = plan.grains()
    db = areev_peer.opened(plan.directory, index_text=True)
    check(len(areev_peer.add(db, areev_peer.calls(grains))) == plan.count, "the peer has all")

    def theirs(words: str) -> list[object]:
        page = orjson.loads(db.search(words, k=LIMIT))
        return [grain["fields"]["object"] for grain in page]

    return _against(text, plan, grains, theirs)


def against_bm25s(text: str, plan: Plan) -> Case:
    grains = plan.grains()
    fields = ("subject", "relation", "object", "namespace", "user_id")
    index = Index([" ".join(str(grain[name]) for name in fields) for grain in grains])

    def theirs(words: str) -> list[object]:
        return [grains[number]["object"] for number in index.best(words, LIMIT)]

    return _against(text, plan, grains, theirs)


def _against(text: str, plan: Plan, grains: list[data.Fields], theirs: Ask) -> Case:
    """Both sides are asked the same texts, and find the grain with the number first."""
    ours = _asked_of(plan, grains)
    found = 1 if text == RARE else LIMIT
    asked = numbers(plan.count)
    for word in asked:
        for page in (ours(text.format(word)), theirs(text.format(word))):
            check(page[0] == grains[int(word)]["object"], "the grain with the number is the first")
            check(len(page) == found, "as many as there are, or as were asked for")
    return Case(
        timed(lambda: [ours(text.format(word)) for word in asked]),
        timed(lambda: [theirs(text.format(word)) for word in asked]),
        QUERIES,
    )


def _asked_of(plan: Plan, grains: list[data.Fields]) -> Ask:
    """Search in a new store that has the grains."""
    store = og.open(plan.directory / f"{len(grains)}.omsg")
    check(store.put_many(grains).stored == len(grains), "all are new")

    def ask(text: str) -> list[object]:
        return [hit.grain["object"] for hit in store.search(text, limit=LIMIT).results]

    return ask


def growth(text: str, plan: Plan) -> Case:
    """The same questions of a store of ten times the grains; the smaller one is the peer."""
    grains = plan.grains()
    sizes = (len(grains), len(grains) // GROWTH)
    large, small = (_asked_of(plan, grains[:size]) for size in sizes)
    # The last grains of the smaller store are in both.
    asked = [text.format(word) for word in numbers(sizes[1])]
    for words in asked:
        check(large(words)[0] == small(words)[0], "both find the grain with the number first")
    return Case(
        timed(lambda: [large(words) for words in asked]),
        timed(lambda: [small(words) for words in asked]),
        QUERIES,
    )


SMALL = LARGE // GROWTH


def _rows(name: str, of: str, text: str, goal: float | None) -> tuple[Row, ...]:
    """Against areev, and against itself in a smaller store; bm25s has a row of its own."""
    return (
        Row(
            name, _work(SMALL, of), "areev search, the same", goal, partial(against_areev, text),
            count=SMALL, of="queries",
        ),
        Row(
            f"{name}-growth", _work(LARGE, of), f"the same in {SMALL:,}", 1 / 4,
            partial(growth, text), count=LARGE, of="queries",
        ),
    )  # fmt: skip


def _bm25s(name: str, count: int, of: str, text: str) -> Row:
    """A question has a limit in milliseconds; the others are compared only."""
    build, work = partial(against_bm25s, text), _work(count, of)
    against = "bm25s in memory, the same"
    if text != QUESTION:
        return Row(name, work, against, None, build, count=count, of="queries")
    return Row(name, work, against, 2.0, build, count=count, of="queries", unit="ms", kind="most")


def _work(count: int, of: str) -> str:
    return f"search in {count:,} grains for {of}, limit={LIMIT}"


ONE = "a word that one has"
BOTH = "a word that one has and one that all have"
EIGHT = "a question of eight words with stop words"

ROWS = (
    *_rows("S6", ONE, RARE, 3.0),
    *_rows("S6-common", BOTH, COMMON, 50.0),
    *_rows("S6-question", EIGHT, QUESTION, None),
    _bm25s("S6-bm25s", SMALL, ONE, RARE),
    _bm25s("S6-common-bm25s", SMALL, BOTH, COMMON),
    _bm25s("S6-question-bm25s", SMALL, EIGHT, QUESTION),
    _bm25s("S6-question-large", LARGE, EIGHT, QUESTION),
)
