# SPDX-License-Identifier: Apache-2.0
"""The memory service beside ADK's own in memory: the same calls, the same memories found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

import omsgrain as og
from omsgrain.integrations.google_adk import GrainMemoryService
from support.frameworks import run_page

#: No two have a stem in common, and none is so frequent that a search leaves it out.
WORDS = "garage kettle sunrise violin harbour pepper lantern cobalt".split()


def content(text: str | None) -> types.Content:
    call = types.Part(function_call=types.FunctionCall(name="find", args={"n": 1}))
    return types.Content(role="user", parts=[call] if text is None else [types.Part(text=text)])


def event(number: int, text: str | None) -> Event:
    return Event(
        id=f"e{number}",
        author="ada",
        timestamp=1_700_000_000.25 + number,
        content=content(text),
    )


def shown(found: Any) -> list[str]:
    return sorted(one.model_dump_json(exclude_none=True) for one in found.memories)


@pytest.mark.parametrize("seed", range(2))
def test_random_calls_find_the_memories_of_the_service_in_memory(
    memory: og.Memory, seed: int, long: bool
) -> None:
    """The order is another: rare words count more here. Forms of a word are found too."""

    async def run() -> None:
        random = Random(seed)
        ours, theirs = GrainMemoryService(memory.store), InMemoryMemoryService()
        services: list[BaseMemoryService] = [ours, theirs]
        number = 0
        sessions = {
            (app, user, id): Session(id=id, app_name=app, user_id=user, events=[])
            for app in ("a", "b:*")
            for user in ("ada", "bob")
            for id in ("s", "t")
        }
        for _ in range(600 if long else 60):
            session = sessions[random.choice(list(sessions))]
            scope = {"app_name": session.app_name, "user_id": session.user_id}
            match random.randrange(7):
                case 0 | 1:
                    if len(session.events) < 4:
                        text = " ".join(random.sample(WORDS, 2))
                        session.events.append(event(number, random.choice((text, text, None))))
                        number += 1
                    elif random.random() < 0.5:
                        session.events.pop(0)
                    for service in services:
                        await service.add_session_to_memory(session)
                case 2:
                    events = [event(n, WORDS[n % 8]) for n in range(100, 102)]
                    for service in services:
                        await service.add_events_to_memory(
                            **scope, events=events, session_id=session.id
                        )
                case 3:
                    gone = random.choice((None, "none", f"e{random.randrange(number + 1)}"))
                    for service in services:
                        await service.delete_memory(**scope, memory_id=gone)
                case _:
                    query = " ".join(random.sample([*WORDS, "zebra"], random.choice((1, 1, 2))))
                    expected = await theirs.search_memory(**scope, query=query)
                    if len(expected.memories) < 10:
                        found = await ours.search_memory(**scope, query=query)
                        assert shown(found) == shown(expected), query

    asyncio.run(run())


def test_memories_are_added_and_found(memory: og.Memory) -> None:
    async def run() -> None:
        service = GrainMemoryService(memory.store)
        scope: dict[str, Any] = {"app_name": "a", "user_id": memory.user}
        entry = MemoryEntry(content=content("The kettle is broken."), custom_metadata={"n": None})
        await service.add_memory(**scope, memories=[entry], custom_metadata={"ttl": "1d"})
        (found,) = (await service.search_memory(**scope, query="-kettles!")).memories
        assert found.content == entry.content
        assert found.custom_metadata == {"ttl": "1d", "n": None}
        assert found.id
        await service.add_memory(**scope, memories=[found])
        assert memory.recall("kettle")[0].text == "The kettle is broken."
        for query in ("?", "", "zebra"):
            assert (await service.search_memory(**scope, query=query)).memories == []
        await service.delete_memory(**scope, memory_id=found.id)
        assert (await service.search_memory(**scope, query="kettle")).memories == []
        assert [grain["object"] for grain in memory.store] == [{"value": True}]

    asyncio.run(run())


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("google_adk", tmp_path)
