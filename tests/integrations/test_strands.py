# SPDX-License-Identifier: Apache-2.0
"""The memory store of Strands beside the SDK's own: the same additions, the same results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from strands.memory import MemoryManager
from strands.vended_memory_stores.test_memory_store import TestMemoryStore

import omsgrain as og
from omsgrain.integrations.strands import StrandsMemoryStore
from support.frameworks import run_page

WORDS = ("gauge", "lamp", "robot", "shelf", "violet", "window", "garden", "kettle")


def run(work: Any) -> Any:
    return asyncio.run(work)


def test_it_answers_as_the_store_of_the_sdk(memory: og.Memory) -> None:
    """The SDK ranks by the number of common words, so the results of one word are compared."""
    random, ours = Random(7), StrandsMemoryStore(memory, max_search_results=100)
    theirs = TestMemoryStore(name="memory", persist=False, max_search_results=100)
    ids: dict[str, set[str]] = {}
    for number in range(150):
        if random.random() < 0.5:
            text = " ".join(random.choices(WORDS, k=random.randrange(1, 5)))
            metadata = random.choice((None, {"number": number}))
            known = any(one.content == text for one in run(theirs.search(text)))
            run(theirs.add(text, metadata))
            ids.setdefault(text, set()).add(run(ours.add(text, metadata))["id"])
            assert known == (len(memory.history(next(iter(ids[text])))) == 1 and known)
        else:
            query = random.choice((*WORDS, "", "?!", "teapot"))
            one, two = run(ours.search(query)), run(theirs.search(query))
            assert {entry.content for entry in one} == {entry.content for entry in two}
            for entry in two:
                (same,) = [other for other in one if other.content == entry.content]
                given = {k: v for k, v in entry.metadata.items() if k != "_relevanceScore"}
                assert given.items() <= same.metadata.items()
    assert all(len(addresses) == 1 for addresses in ids.values())


def test_results_have_the_whole_text_and_where_it_is(memory: og.Memory) -> None:
    store = StrandsMemoryStore(memory)
    text = "The kettle is new. " + "It is blue. " * 1_000
    added = run(store.add(text, {"source": "shop"}))
    (found,) = run(store.search('kettles +"no operator" -kettle'))
    assert found.content == text
    assert found.metadata["address"] == added["id"]
    assert found.metadata["source"] == "shop"
    assert memory.recall("kettle")[0].address == added["id"]


def test_messages_are_events_of_a_session(memory: og.Memory) -> None:
    store = StrandsMemoryStore(memory, session="monday")
    messages = [
        {"role": "user", "content": [{"text": "Where is the violet lamp?"}]},
        {
            "role": "assistant",
            "content": [{"text": "On the shelf."}, {"toolUse": {"name": "look"}}],
        },
    ]
    added = run(store.add_messages(messages))
    events = [memory.store.get(address) for address in added["ids"]]
    assert [event["role"] for event in events] == ["user", "assistant"]
    assert {event["session_id"] for event in events} == {"monday"}
    assert [one.content for one in run(store.search("violet"))] == ["Where is the violet lamp?"]


def test_what_the_sdk_refuses_is_refused(memory: og.Memory) -> None:
    for wrong in ({"name": " "}, {"max_search_results": 0}):
        with pytest.raises(ValueError):
            StrandsMemoryStore(memory, **wrong)
    store = StrandsMemoryStore(memory, writable=False)
    for write in (store.add("x"), store.add_messages([])):
        with pytest.raises(ValueError):
            run(write)
    with pytest.raises(ValueError):
        run(StrandsMemoryStore(memory).add(" "))
    with pytest.raises(ValueError):
        run(store.search("x", {"max_search_results": 0}))


def test_a_manager_searches_and_adds_by_it(memory: og.Memory) -> None:
    manager = MemoryManager(stores=[StrandsMemoryStore(memory, name="ours")], add_tool_config=True)
    run(manager.add("The lamp is violet."))
    (found,) = run(manager.search("lamps"))
    assert (found.content, found.store_name) == ("The lamp is violet.", "ours")


def test_the_page(tmp_path: Path) -> None:
    run_page("strands", tmp_path)
