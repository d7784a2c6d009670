# SPDX-License-Identifier: Apache-2.0
"""A session beside the SDK's own in SQLite: the same calls, the same items."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from agents import Session, SQLiteSession
from agents.memory import SessionSettings

import omsgrain as og
from omsgrain.integrations.openai_agents import GrainSession
from support.frameworks import run_page

ITEMS: list[Any] = [
    {"role": "user", "content": "Where is my car?"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Parked", "x": None}]},
    {"type": "function_call", "name": "find", "arguments": '{"a": 1.0}', "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": "cafe\u0301"},
    {"type": "reasoning", "summary": [], "id": "r", "n": 1 << 70, "f": 1e300},
    {"role": "user", "content": ""},
    {},
]


@pytest.mark.parametrize("seed", range(2))
def test_random_calls_get_the_items_of_sqlite(memory: og.Memory, seed: int, long: bool) -> None:
    async def run() -> None:
        random = Random(seed)
        pairs = [(GrainSession(id, memory), SQLiteSession(id)) for id in ("a", "b:*", "\u00e9")]
        for _ in range(3_000 if long else 120):
            ours, theirs = random.choice(pairs)
            match random.randrange(8):
                case 0 | 1 | 2:
                    items = random.choices(ITEMS, k=random.randrange(4))
                    await ours.add_items(items)
                    await theirs.add_items(items)
                case 3 | 4:
                    assert await ours.pop_item() == await theirs.pop_item()
                case 5 | 6:
                    limit = random.choice((None, -1, 0, 1, 2, 100))
                    found, expected = await ours.get_items(limit), await theirs.get_items(limit)
                    assert json.dumps(found, sort_keys=True) == json.dumps(
                        expected, sort_keys=True
                    )
                case _:
                    if random.random() < 0.2:
                        await ours.clear_session()
                        await theirs.clear_session()
        for ours, theirs in pairs:
            assert await ours.get_items() == await theirs.get_items()
            theirs.close()

    asyncio.run(run())


def test_it_is_a_session_of_the_sdk(memory: og.Memory) -> None:
    session = GrainSession("a", memory, session_settings=SessionSettings(limit=1))
    assert isinstance(session, Session)
    asyncio.run(session.add_items(ITEMS[:3]))
    assert asyncio.run(session.get_items()) == ITEMS[2:3]
    assert asyncio.run(session.get_items(2)) == ITEMS[1:3]
    assert memory.recall("car")[0].text == "Where is my car?"
    assert [grain["content"] for grain in memory.store.graph.thread("a")][1] == "Parked"


def test_what_is_deleted_leaves_no_grain(memory: og.Memory) -> None:
    session = GrainSession("a", memory)
    asyncio.run(session.add_items(ITEMS * 2))
    assert asyncio.run(session.pop_item()) == {}
    assert len(memory.store) == 2 * len(ITEMS) - 1
    asyncio.run(session.clear_session())
    assert len(memory.store) == 0
    assert asyncio.run(session.pop_item()) is None


def test_sessions_of_two_handles_are_one(memory: og.Memory) -> None:
    async def run() -> None:
        one, other = GrainSession("a", memory), GrainSession("a", memory)
        await asyncio.gather(*(s.add_items([{"n": n}]) for n in range(20) for s in (one, other)))
        items = await one.get_items()
        assert sorted(item["n"] for item in items) == sorted([*range(20), *range(20)])
        assert await other.get_items() == items

    asyncio.run(run())


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("openai_agents", tmp_path)
