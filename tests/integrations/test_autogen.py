# SPDX-License-Identifier: Apache-2.0
"""The memory of an AutoGen agent beside AutoGen's list: the same contents, the same context."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from autogen_core import Image
from autogen_core.memory import ListMemory, Memory, MemoryContent, MemoryMimeType
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import UserMessage

import omsgrain as og
from omsgrain.integrations.autogen import AutoGenMemory
from support.frameworks import run_page

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # noqa: E501
CONTENTS = [
    MemoryContent(content="green tea", mime_type=MemoryMimeType.TEXT),
    MemoryContent(content="cafe\u0301", mime_type="text/x-note", metadata={"n": None, "a": [1.0]}),
    MemoryContent(content={"city": "Oslo", "n": 1 << 70}, mime_type=MemoryMimeType.JSON),
    MemoryContent(content=b"\x00\xff", mime_type=MemoryMimeType.BINARY),
    MemoryContent(content="", mime_type=MemoryMimeType.TEXT, metadata={}),
]


async def context_of(memory: Memory) -> list[Any]:
    context = UnboundedChatCompletionContext()
    await memory.update_context(context)
    return [message.model_dump() for message in await context.get_messages()]


def dumped(contents: Any) -> list[Any]:
    return [(one.content, one.mime_type, one.metadata) for one in contents]


@pytest.mark.parametrize("seed", range(2))
def test_random_calls_get_the_contents_of_the_list(
    memory: og.Memory, seed: int, long: bool
) -> None:
    async def run() -> None:
        random, ours, theirs = Random(seed), AutoGenMemory(memory), ListMemory()
        for _ in range(1_000 if long else 60):
            match random.randrange(6):
                case 0 | 1 | 2:
                    content = random.choice(CONTENTS)
                    await ours.add(content)
                    await theirs.add(content)
                case 3:
                    assert await context_of(ours) == await context_of(theirs)
                case 4:
                    found, expected = await ours.query(""), await theirs.query("")
                    assert dumped(found.results) == dumped(expected.results)
                case _:
                    if random.random() < 0.3:
                        await ours.clear()
                        await theirs.clear()
                        assert len(memory.store) == 0

    asyncio.run(run())


def test_an_image_comes_back(memory: og.Memory) -> None:
    ours = AutoGenMemory(memory)
    image = Image.from_base64(PIXEL)
    asyncio.run(ours.add(MemoryContent(content=image, mime_type=MemoryMimeType.IMAGE)))
    (found,) = asyncio.run(ours.query("")).results
    assert isinstance(found.content, Image)
    assert found.content.image.tobytes() == image.image.tobytes()


def test_a_limit_chooses_what_matches_the_last_message(memory: og.Memory) -> None:
    async def run() -> None:
        ours = AutoGenMemory(memory, limit=2)
        assert isinstance(ours, Memory)
        for text in ("Ada likes tea", "Ada has a cat", "Bob drinks tea", "It is late, text/plain"):
            await ours.add(MemoryContent(content=text, mime_type="text/plain"))
        assert [one.content for one in (await ours.query("cat")).results] == ["Ada has a cat"]
        assert (await ours.query("zebra")).results == []
        context = UnboundedChatCompletionContext()
        await context.add_message(UserMessage(content='-"Who likes +tea?', source="user"))
        result = await ours.update_context(context)
        assert [one.content for one in result.memories.results] == [
            "Ada likes tea",
            "Bob drinks tea",
        ]
        (_, added) = await context.get_messages()
        assert "1. Ada likes tea\n2. Bob drinks tea" in str(added.content)
        await ours.close()
        assert memory.recall("cat")[0].text == "Ada has a cat"

    asyncio.run(run())


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("autogen", tmp_path)
