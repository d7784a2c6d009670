# SPDX-License-Identifier: Apache-2.0
"""Numbers that are huge, or none, and texts that are not Unicode: refused, and in short.

Programs often pass on outside values unchecked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.crypto import signers
from omsgrain.crypto.disclosure import disclose, reveal, view_of
from omsgrain.errors import OmsError
from omsgrain.storage.base import Storage
from omsgrain.storage.memory import MemoryStorage
from support.signers import ALICE

HUGE = 10**5_000
BELIEF = og.encode(
    {
        "type": "belief",
        "subject": "lamp",
        "relation": "is",
        "object": "lit",
        "confidence": 0.5,
        "user_id": "ada",
        "created_at": 1,
    }
)


@pytest.mark.parametrize("number", [HUGE, -HUGE, 10**300], ids=["huge", "below", "large"])
@pytest.mark.parametrize(
    "call",
    [
        lambda store, n: store.query(limit=n),
        lambda store, n: store.query(min_confidence=n),
        lambda store, n: store.query(created_after=n),
        lambda store, n: store.search("lamp", limit=n),
        lambda store, n: store.search(vector=[1.0], model="m", limit=n),
        lambda store, n: store.reviews.resolve(n),
        lambda store, n: store.put({"type": "event", "content": "lamp", "created_at": n}),
        lambda store, n: og.encode({"type": "event", "content": "lamp"}, type_byte=n),
    ],
)
def test_they_are_refused_in_short(
    call: Callable[[og.GrainStore, Any], object], number: int
) -> None:
    with og.GrainStore(MemoryStorage()) as store, pytest.raises(OmsError) as refusal:
        call(store, number)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("memory", [HUGE, -HUGE, "9" * 5_000], ids=["huge", "below", "text"])
def test_of_memory(memory: int | str, tmp_path: Path) -> None:
    with pytest.raises(OmsError) as refusal:
        og.open(tmp_path / "memory.omsg", memory_limit=memory)
    assert refusal.value.code in ("ERR_RANGE", "ERR_SCHEMA")
    assert len(str(refusal.value)) < 400


def test_a_value_that_is_no_number_is_named_by_its_kind() -> None:
    with og.GrainStore(MemoryStorage()) as store, pytest.raises(OmsError) as refusal:
        store.query(limit={"a": "lamp" * 9_000})  # type: ignore[arg-type]
    assert (refusal.value.code, refusal.value.found) == ("ERR_RANGE", "dict")


LONE = "\ud800"
"""JSON can spell it; UTF-8 cannot."""


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda store: store.query(subject="lamp", relation=LONE), "ERR_SCHEMA"),
        (lambda store: store.query(namespace=LONE + ":*"), "ERR_SCHEMA"),
        (lambda store: store.query(tag=LONE), "ERR_SCHEMA"),
        (lambda store: store.search("lamp", user_id=LONE), "ERR_SCHEMA"),
        (lambda store: store.get(LONE), "ERR_HASH_LENGTH"),
        (lambda store: store.contest(LONE), "ERR_HASH_LENGTH"),
    ],
)
def test_texts_that_are_not_unicode(call: Callable[[og.GrainStore], object], code: str) -> None:
    with og.GrainStore(MemoryStorage()) as store, pytest.raises(OmsError) as refusal:
        call(store)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda store, value: store.graph.thread("s", which=value), "ERR_SCHEMA"),
        (lambda store, value: store.graph.branches("s", which=value), "ERR_SCHEMA"),
        (lambda store, value: list(store.graph.duplicates(which=value)), "ERR_SCHEMA"),
        (lambda store, value: store.search("lamp", **{value: 1}), "ERR_SCHEMA"),
        (lambda store, value: store.put_many([], batch_size=value), "ERR_RANGE"),
        (lambda store, value: disclose(BELIEF, [value]), "ERR_SCHEMA"),
        (lambda store, value: reveal(view_of(BELIEF, ["object"]), {value: 1}), "ERR_SCHEMA"),
        (lambda store, value: og.verify(BELIEF, value), "ERR_HASH_LENGTH"),
        (lambda store, value: signers.dumps_public(ALICE.public_key, value), "ERR_SCHEMA"),
        (lambda store, value: store.delete_many([store.put(BELIEF)], erased=value), "ERR_SCHEMA"),
    ],
)
@pytest.mark.parametrize("value", [LONE, "lamp\u00e9 " * 4_000], ids=["lone", "long"])
def test_options_that_are_none(
    call: Callable[[og.GrainStore, Any], object], code: str, value: str, below: Storage
) -> None:
    with og.GrainStore(below) as store, pytest.raises(OmsError) as refusal:
        call(store, value)
    assert refusal.value.code == code
    told = str(refusal.value)
    assert len(told) < 500  # with the names of all filters
    assert told.encode()


@pytest.mark.parametrize("value", [HUGE, "lamp" * 9_000, LONE], ids=["huge", "long", "lone"])
def test_columns(value: object) -> None:
    pytest.importorskip("pyarrow")
    with og.GrainStore(MemoryStorage()) as store, pytest.raises(OmsError) as refusal:
        store.to_arrow(columns=[value])  # type: ignore[list-item]
    assert refusal.value.code == "ERR_SCHEMA"
    assert len(str(refusal.value).encode()) < 400


def test_a_depth_without_end() -> None:
    """A loop past the last grain never ends."""
    with og.GrainStore(MemoryStorage()) as store:
        address = store.put(BELIEF)
        for walk in (store.graph.provenance, store.graph.descendants):
            graph = walk(address, depth=HUGE)
            assert (graph.complete, len(graph.nodes)) == (True, 1)
