# SPDX-License-Identifier: Apache-2.0
"""The key-value store beside LlamaIndex's own; the memory block inside its memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.schema import TextNode
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.storage.kvstore.types import BaseKVStore

import omsgrain as og
from omsgrain.integrations.llama_index import GrainKVStore, GrainMemoryBlock
from support.frameworks import run_page

VALUES: list[dict[str, Any]] = [
    {},
    {"a": None},
    {"n": [1, 1.0, True, 1 << 70], "t": "cafe\u0301"},
    {"__data__": {"id": "x", "deep": [{"deeper": {}}]}},
]
COLLECTIONS = ("data", "*", "docstore/ref_doc_info", "")


@pytest.mark.parametrize("seed", range(2))
def test_random_calls_get_the_answers_of_the_simple_store(
    memory: og.Memory, seed: int, long: bool
) -> None:
    """One call differs: ``put_all`` takes any batch size."""

    async def run() -> None:
        random, ours, theirs = Random(seed), GrainKVStore(memory), SimpleKVStore()
        assert isinstance(ours, BaseKVStore)
        for _ in range(3_000 if long else 150):
            key, where = random.choice(("a", "b", "", "e\u0301")), random.choice(COLLECTIONS)
            value = random.choice(VALUES)
            match random.randrange(8):
                case 0:
                    ours.put(key, value, where)
                    theirs.put(key, value, where)
                case 1:
                    await ours.aput(key, value, where)
                    await theirs.aput(key, value, where)
                case 2:
                    pairs = [(random.choice("abc"), random.choice(VALUES)) for _ in range(3)]
                    await ours.aput_all(pairs, where)
                    await theirs.aput_all(pairs, where)
                case 3:
                    assert ours.get(key, where) == theirs.get(key, where)
                case 4:
                    assert await ours.aget(key, where) == await theirs.aget(key, where)
                case 5:
                    assert ours.delete(key, where) == theirs.delete(key, where)
                case 6:
                    found = await ours.adelete(key, where)
                    assert found == await theirs.adelete(key, where)
                case _:
                    assert ours.get_all(where) == theirs.get_all(where)
                    assert await ours.aget_all(where) == await theirs.aget_all(where)

    asyncio.run(run())


def test_a_document_store_works_over_it(memory: og.Memory) -> None:
    store = GrainKVStore(memory)
    documents = KVDocumentStore(store, batch_size=10)
    documents.add_documents([TextNode(id_="1", text="green tea"), TextNode(id_="2", text="cat")])
    found = documents.get_document("1")
    assert found is not None
    assert found.get_content() == "green tea"
    documents.delete_document("2")
    assert documents.get_document("2", raise_error=False) is None


def test_a_value_that_changed_has_a_history(memory: og.Memory) -> None:
    store = GrainKVStore(memory)
    for n in range(3):
        store.put("a", {"n": n})
    assert [entry.value for entry in store.entries().history("a")] == [{"n": n} for n in range(3)]
    store.delete("a")
    assert len(memory.store) == 0


def test_the_block_recalls_what_left_the_short_term_memory(memory: og.Memory) -> None:
    async def run() -> None:
        memory.remember("Ada is allergic to nuts.")
        block = GrainMemoryBlock(memory=memory, limit=2)
        agent = Memory.from_defaults(
            session_id="s1",
            token_limit=60,
            token_flush_size=20,
            tokenizer_fn=str.split,
            memory_blocks=[block],
        )
        await agent.aput(ChatMessage(role="user", content="I parked the car in the garage."))
        for n in range(20):
            role = ("assistant", "user")[n % 2]
            await agent.aput(ChatMessage(role=role, content=f"We spoke about item {n}."))
        asked = [ChatMessage(role="user", content='-"Where is the car?')]
        assert "garage" in await block.aget(asked)
        assert "nuts" in await block.aget([ChatMessage(role="user", content="What nuts?")])
        assert await block.aget([ChatMessage(role="user", content="?!")]) == ""
        assert await block.aget([]) == ""
        thread = memory.store.graph.thread("s1")
        assert thread[0]["content"] == "I parked the car in the garage."
        await agent.aput(ChatMessage(role="user", content="Where is the car?"))
        assert "garage" in str(await agent.aget())
        await agent.sql_store._async_engine.dispose()  # or its connection is left open

    asyncio.run(run())


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("llama_index", tmp_path)
