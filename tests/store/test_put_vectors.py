# SPDX-License-Identifier: Apache-2.0
"""A grain and its vectors are stored in one transaction, by the store and by the adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.integrations.entries import Entries
from omsgrain.integrations.mem0 import Memory as Mem0
from omsgrain.search import vectors
from support.child_process import ended
from support.query_stores import TIME, note
from support.store_kinds import POSTGRES, SEALED_POSTGRES, opened

KINDS = ["memory", "lmdb", "sealed lmdb", POSTGRES, SEALED_POSTGRES]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path) as store:
        yield store


def kept(store: og.GrainStore, address: str) -> dict[str, list[float]]:
    return {model: list(vector) for model, vector in store.vectors.get(address).items()}


def test_a_put_with_vectors(store: og.GrainStore) -> None:
    one = store.put(note(1), vectors={"small": [1, 0], "large": [0, 1, 0]})
    assert kept(store, one) == {"small": [1, 0], "large": [0, 1, 0]}
    assert store.put(note(1), vectors={"small": [0, 1]}) == one
    assert kept(store, one)["small"] == [0, 1]
    again = note(1, created_at=TIME + 5)
    assert store.put(again, dedupe="semantic", vectors={"small": [1, 1]}) == one
    assert kept(store, one)["small"] == [1, 1]
    new = store.put(
        note(2), replaces={"subject": "door", "user_id": "ada"}, vectors={"small": [2, 0]}
    )
    assert kept(store, new) == {"small": [2, 0]}
    assert [grain.address for grain in store.history(new)] == [one, new]
    assert len(store.vectors.models()) == 2
    assert store.maintenance.check().ok


def test_many_with_vectors(store: og.GrainStore) -> None:
    each = [{"small": [n, 1.0]} if n != 2 else None for n in range(5)]
    report = store.put_many([note(n) for n in range(5)], vectors=each)
    assert [kept(store, address or "") for address in report.addresses] == [
        one or {} for one in each
    ]
    items: list[Any] = [note(n) if n != 12 else {"type": "belief"} for n in range(10, 15)]
    report = store.put_many(items, errors="collect", batch_size=2, vectors=each)
    assert [error.index for error in report.errors] == [2]
    found = [None if address is None else kept(store, address) for address in report.addresses]
    assert found == each
    for wrong in (each[:4], [*each, None]):
        with pytest.raises(err.SchemaError) as refused:
            store.put_many([note(n) for n in range(20, 25)], vectors=wrong)
        assert refused.value.field == "/vectors"
    with pytest.raises(err.RangeError):
        store.put_many([note(20), note(21)], vectors=[{"small": [1.0]}, {"small": [float("nan")]}])
    assert len(store) == 9


KILLED = """
import os, sys
import omsgrain as og
from omsgrain.search import vectors
vectors.add = lambda *_: os._exit(9)
og.open(sys.argv[1]).put(
    {"type": "event", "role": "user", "content": "hello", "created_at": 1, "user_id": "ada"},
    vectors={"small": [1.0, 0.0]},
)
"""


def test_killed_between_a_grain_and_its_vector(tmp_path: Path) -> None:
    assert ended(KILLED, tmp_path / "a.omsg").returncode == 9
    with og.open(tmp_path / "a.omsg") as store:
        assert (len(store), store.maintenance.check().ok) == (0, True)


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


def mem0(store: og.GrainStore, text: str) -> None:
    memory = Mem0({"store": store, "embed": embed})
    found = memory.get_all(filters={"user_id": "ada"})["results"]
    if found:
        memory.update(found[0]["id"], text)
    else:
        memory.add(text, user_id="ada")


def entries(store: og.GrainStore, text: str) -> None:
    Entries(store, "ada", "test:values").set_many({"x": text}, vectors={"x": embed([text])[0]})


def messages(store: og.GrainStore, text: str) -> None:
    memory = og.Memory(store, user="ada", embed=embed)
    memory.remember_messages([{"role": "user", "content": text}], session="s")


def langgraph(store: og.GrainStore, text: str) -> None:
    module = pytest.importorskip("omsgrain.integrations.langgraph")
    index = {"embed": embed, "dims": 2, "fields": ["text"]}
    module.LangGraphStore(store, user="ada", index=index).put(("notes",), "x", {"text": text})


@pytest.mark.parametrize("way", [mem0, entries, messages, langgraph])
def test_an_adapter_that_fails_at_the_vector_stores_nothing(
    store: og.GrainStore,
    way: Callable[[og.GrainStore, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def current() -> list[tuple[str, Any]]:
        hits = store.query(user_id="ada")
        return [(hit.address, kept(store, hit.address)) for hit in hits]

    def full(*_: object) -> None:
        raise err.StoreError("no space left")

    way(store, "first")
    before = current()
    assert [list(vectors.values()) for _, vectors in before] == [[[5.0, 1.0]]]
    audit = len(list(store.audit.entries()))
    with monkeypatch.context() as patch:
        patch.setattr(vectors, "add", full)
        with pytest.raises(err.StoreError):
            way(store, "second")
    assert (current(), len(list(store.audit.entries()))) == (before, audit)
    way(store, "second")
    assert [6.0, 1.0] in [one for _, own in current() for one in own.values()]
    assert store.maintenance.check().ok


def test_the_vector_of_an_equal_value_is_replaced(store: og.GrainStore) -> None:
    values = Entries(store, "ada", "test:values")
    values.set_many({"x": 1, "y": 2}, vectors={"x": [1.0, 0.0]})
    first = values.get("x")
    assert first is not None
    values.set_many({"x": 1, "y": 3}, vectors={"x": [0.0, 1.0], "y": [1.0, 1.0]})
    assert values.get("x") == first
    assert kept(store, first.address) == {"test:values": [0.0, 1.0]}
    second = values.get("y")
    assert second is not None
    assert kept(store, second.address) == {"test:values": [1.0, 1.0]}
