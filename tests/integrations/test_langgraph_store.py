# SPDX-License-Identifier: Apache-2.0
"""``LangGraphStore`` beside LangGraph's ``InMemoryStore``, on the same random operations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import omsgrain as og
from omsgrain import errors as err
from omsgrain.integrations.langgraph import LangGraphStore
from support.sealed_kinds import PLAIN_AND_SEALED, opened

LABELS = ["users", "ada", "eva", "docs", "a:b", "50%", "*", "Cafe\u0301", "Caf\u00e9", "v1"]
SPACES = [tuple(Random(5).choices(LABELS, k=1 + n % 3)) for n in range(16)]
KEYS = ["a", "100%:*", "Cafe\u0301", "Caf\u00e9"]
ODD: list[Any] = [None, 1 << 70, "Cafe\u0301", float("inf"), {"x": None}, [None, 1], "\ud800"]
LEAVES: list[Any] = [0, 1, -1, 2.5, True, False, "", "tea", "Caf\u00e9", [1, "a"], [], {}, *ODD]


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=PLAIN_AND_SEALED)
def grains(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, clock) as store:
        yield store


@pytest.fixture
def store(grains: og.GrainStore) -> LangGraphStore:
    return LangGraphStore(grains, user="ada")


def value(random: Random) -> dict[str, Any]:
    found: dict[str, Any] = {"n": random.choice([0, 1, 2, 2.5, -3])}
    for name in random.sample(["kind", "deep", "a.b", "Cafe\u0301"], random.randrange(4)):
        found[name] = random.choice(LEAVES)
        if name == "deep" and random.random() < 0.7:
            found[name] = {"x": random.choice(LEAVES), "y": [random.choice(LEAVES)]}
    return found


def filters(random: Random) -> dict[str, Any] | None:
    if random.random() < 0.4:
        return None
    found: dict[str, Any] = {}
    if random.random() < 0.6:
        names = random.sample(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"], random.choice([1, 2]))
        found["n"] = {name: random.choice([0, 1, 2.5, "2"]) for name in names}
    if random.random() < 0.6:
        found["kind"] = random.choice([*LEAVES, {"$ne": "tea"}, {"$eq": 1}])
    if random.random() < 0.3:
        found["deep"] = random.choice([{"x": random.choice(LEAVES)}, {"$ne": None}, {}])
    return found


def operation(random: Random) -> Op:
    where = random.choice(SPACES)
    kind = random.random()
    if kind < 0.45:
        return PutOp(where, random.choice(KEYS), value(random))
    if kind < 0.55:
        return PutOp(where, random.choice(KEYS), None)
    if kind < 0.75:
        return GetOp(where, random.choice(KEYS))
    if kind < 0.9:
        begun = where[: random.choice([0, 0, 1, 2])]
        return SearchOp(begun, filters(random), random.choice([1, 3, 10]), random.randrange(3))
    conditions = [
        MatchCondition(how, tuple(random.choices([*LABELS[:4], "*"], k=random.choice([1, 2]))))
        for how in ("prefix", "suffix")
        if random.random() < 0.4
    ]
    depth = random.choice([None, None, 1, 2])
    return ListNamespacesOp(tuple(conditions), depth, random.choice([2, 100]), random.randrange(2))


class Reference:
    """``InMemoryStore``, without two of its habits.

    It lists namespaces that were only asked for, or are empty again; and its order is that of the
    first put. Stores that last list those with items, the last put first.
    """

    def __init__(self) -> None:
        self.store = InMemoryStore()
        self.updates: dict[tuple[tuple[str, ...], str], int] = {}

    def batch(self, ops: list[Op], number: int) -> list[Any]:
        results: list[Any] = []
        for op in ops:
            for name in [name for name, items in self.store._data.items() if not items]:
                del self.store._data[name]
            if isinstance(op, SearchOp):
                [found] = self.store.batch([op._replace(limit=10_000, offset=0)])
                assert isinstance(found, list)
                ordered = sorted(found, key=self.updated, reverse=True)
                results.append(ordered[op.offset : op.offset + op.limit])
            elif isinstance(op, PutOp):
                results.append(None)
            else:
                results += self.store.batch([op])
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        self.store.batch(list(puts.values()))
        for at, put in enumerate(puts):
            self.updates[put] = number * 100 + at
        return results

    def updated(self, item: Any) -> int:
        return self.updates[(item.namespace, item.key)]


def shown(result: Any) -> Any:
    if isinstance(result, Item):
        return (result.namespace, result.key, result.value)
    if isinstance(result, list):
        return [shown(one) for one in result]
    return result


def compare(store: LangGraphStore, count: int, seed: int, *, asynchronous: bool = False) -> None:
    random, reference, met = Random(seed), Reference(), 0
    done = number = 0
    while done < count:
        number += 1
        ops = [operation(random) for _ in range(random.choice([1, 1, 1, 2, 5]))]
        done += len(ops)
        expected = reference.batch(ops, number)
        found = asyncio.run(store.abatch(ops)) if asynchronous else store.batch(ops)
        assert [shown(one) for one in found] == [shown(one) for one in expected], ops
        met += sum(bool(one) for one in expected)
    assert met > count / 5


def test_random_operations(store: LangGraphStore) -> None:
    compare(store, 300, 1)


def test_random_operations_with_an_event_loop(grains: og.GrainStore) -> None:
    compare(LangGraphStore(grains, user="ada"), 100, 2, asynchronous=True)


@pytest.mark.long
def test_ten_thousand_random_operations(store: LangGraphStore) -> None:
    compare(store, 10_000, 3)


def test_an_update_keeps_the_history_and_the_first_time(store: LangGraphStore) -> None:
    for n in range(3):
        store.put(("users",), "ada", {"n": n})
    item = store.get(("users",), "ada")
    assert item is not None
    assert (item.value, item.created_at < item.updated_at) == ({"n": 2}, True)
    [hit] = store.store.query(user_id="ada")
    history = [grain["object"]["value"] for grain in store.store.history(hit.address)]
    assert history == [{"n": 0}, {"n": 1}, {"n": 2}]
    store.put(("users",), "ada", {"n": 0})
    again = store.get(("users",), "ada")
    assert again is not None
    assert (again.value, again.created_at) == ({"n": 0}, item.created_at)


def test_a_delete_leaves_no_version(store: LangGraphStore) -> None:
    for n in range(3):
        store.put(("users",), "ada", {"n": n})
    store.delete(("users",), "ada")
    store.delete(("users",), "ada")
    assert (len(store.store), store.list_namespaces()) == (0, [])


def test_an_item_lives_as_long_as_it_is_read(store: LangGraphStore, clock: Clock) -> None:
    store.put(("cache",), "a", {"n": 1})
    store.put(("cache",), "a", {"n": 2}, ttl=0.5)
    clock.now += 29_000
    assert store.get(("cache",), "a") is not None  # and it lives on
    clock.now += 29_000
    assert store.get(("cache",), "a", refresh_ttl=False) is not None
    assert len(store.search(("cache",), refresh_ttl=False)) == 1
    clock.now += 2_000
    assert store.get(("cache",), "a") is None
    assert (store.search(()), store.list_namespaces()) == ([], [])
    assert store.sweep_ttl() == 2  # the older version ends too
    assert len(store.store) == 0
    store.put(("cache",), "a", {"n": 3}, ttl=None)
    clock.now += 10_000_000
    assert store.get(("cache",), "a") is not None


def test_an_item_that_is_over_can_be_put_again(store: LangGraphStore, clock: Clock) -> None:
    store.put(("cache",), "a", {"n": 1}, ttl=1)
    clock.now += 60_000
    store.put(("cache",), "a", {"n": 1})
    assert [item.value for item in store.search(("cache",))] == [{"n": 1}]


def test_words_rank_without_an_index(store: LangGraphStore) -> None:
    store.put(("notes",), "a", {"text": "Ada waters the garden"})
    store.put(("notes",), "b", {"text": "the kettle is warm"})
    store.put(("other",), "c", {"text": "another garden"})
    [found] = store.search(("notes",), query="garden")
    assert (found.key, found.score) == ("a", 1.0)


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0 + text.count("a"), 1.0 + text.count("e"), 1.0 + len(text) % 7] for text in texts]


def test_vectors_rank_as_in_memory(grains: og.GrainStore) -> None:
    index: Any = {"embed": embed, "dims": 3, "fields": ["text"]}
    stores = LangGraphStore(grains, user="ada", index=index), InMemoryStore(index=index)
    found = []
    for store in stores:
        for n, text in enumerate(["banana", "tree", "green apples", "xyz", "eel", "area"]):
            store.put(("notes",), str(n), {"text": text, "even": n % 2 == 0})
        store.put(("notes",), "plain", {"text": "bananas"}, index=False)
        store.put(("notes",), "0", {"text": "a banana", "even": True})
        found.append(
            [
                [item.key for item in store.search(("notes",), query="banana tree", limit=limit)]
                + [item.key for item in store.search(("notes",), query="e", filter={"even": True})]
                for limit in (2, 10)
            ]
        )
    assert found[0] == found[1]


def test_another_user_sees_nothing(grains: og.GrainStore) -> None:
    LangGraphStore(grains, user="ada").put(("users",), "a", {"n": 1})
    other = LangGraphStore(grains, user="eva")
    assert (other.get(("users",), "a"), other.search(()), other.list_namespaces()) == (
        None,
        [],
        [],
    )


def test_refusals(store: LangGraphStore) -> None:
    for op in (GetOp(("a.b",), "x"), PutOp(("",), "x", {}), SearchOp(("a.b",))):
        with pytest.raises(InvalidNamespaceError):
            store.batch([op])
    for wrong in (
        PutOp(("a",), "", {"n": 1}),
        PutOp(("a",), "\ud800", {"n": 1}),
        "get",
    ):
        with pytest.raises(err.SchemaError):
            store.batch([wrong])  # type: ignore[list-item]
    store.put(("a",), "x", {"n": 1})
    with pytest.raises(err.SchemaError):
        store.search(("a",), filter={"n": {"$like": 1}})
    with pytest.raises(err.TooLargeError):
        store.put(("a",), "x", {"text": "x" * (1 << 20)})
    item = store.get(("a",), "x")
    assert item is not None
    assert item.value == {"n": 1}
