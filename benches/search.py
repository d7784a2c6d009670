# SPDX-License-Identifier: Apache-2.0
"""Rows S6: search by words, and how it grows with the store."""

from __future__ import annotations

import random
from collections.abc import Callable

import areev
import orjson

import omsgrain as og
from benches import areev_peer
from benches.measure import Case, Plan, Row, check, timed

LIMIT = 10
QUERIES = 20
GROWTH = 10


def numbers(count: int) -> list[str]:
    """Words that are in one grain of so many: the number of a shelf."""
    return [str(n) for n in random.Random(6).sample(range(500, count), QUERIES)]


def one(plan: Plan) -> Case:
    """A word that one grain has."""
    return words(plan, "{}".format, 1)


def common(plan: Plan) -> Case:
    """The same beside a word that all have, so that all are candidates."""
    return words(plan, "shelf {}".format, LIMIT)


def words(plan: Plan, text: Callable[[str], str], found: int) -> Case:
    """Both sides are asked the same text, and give so many grains."""
    grains = plan.grains()
    store = og.open(plan.directory / "ours.omsg")
    check(store.put_many(grains).stored == plan.count, "all are new")
    path = str(plan.directory / "areev.db")
    db = areev.Areev(path, ns="warehouse:zone-3", telemetry="off", index_text=True)
    check(len(areev_peer.add(db, areev_peer.calls(grains))) == plan.count, "the peer has all")
    asked = numbers(plan.count)

    def ours(word: str) -> list[object]:
        return [hit.grain["object"] for hit in store.search(text(word), limit=LIMIT).results]

    def peer(word: str) -> list[object]:
        page = orjson.loads(db.search(text(word), k=LIMIT))
        return [grain["fields"]["object"] for grain in page]

    for word in asked:
        for page in (ours(word), peer(word)):
            check(page[0] == grains[int(word)]["object"], "the grain with the number is the first")
            check(len(page) == found, "as many as there are, or as were asked for")
    return Case(
        timed(lambda: [ours(word) for word in asked]),
        timed(lambda: [peer(word) for word in asked]),
        QUERIES,
    )


def growth(plan: Plan) -> Case:
    """The same questions of a store of ten times the grains; the smaller one is the peer."""
    grains = plan.grains()
    sizes = (len(grains), len(grains) // GROWTH)
    stores = [og.open(plan.directory / f"{size}.omsg") for size in sizes]
    # A robot's name and a number of boxes: 0.2 percent and one shelf of the grains.
    asked = [f"robot-{n} {n + 500}" for n in random.Random(7).sample(range(400), QUERIES)]
    for store, size in zip(stores, sizes, strict=True):
        check(store.put_many(grains[:size]).stored == size, "all are new")
        for text in asked:
            check(len(store.search(text, limit=LIMIT).results) == LIMIT, "a full page")

    def run(store: og.GrainStore) -> list[int]:
        return [len(store.search(text, limit=LIMIT).results) for text in asked]

    return Case(timed(lambda: run(stores[0])), timed(lambda: run(stores[1])), QUERIES)


ROWS = (
    Row(
        "S6",
        f"search in 20,000 grains for a word that one has, limit={LIMIT}",
        "areev search, the same",
        50.0,
        one,
        count=20_000,
        of="queries",
    ),
    Row(
        "S6-common",
        f"search for a word that one has and one that all have, limit={LIMIT}",
        "areev search, the same",
        50.0,
        common,
        count=20_000,
        of="queries",
    ),
    Row(
        "S6-growth",
        "search in 200,000 grains",
        "the same in 20,000",
        0.25,
        growth,
        count=200_000,
        of="queries",
    ),
)
