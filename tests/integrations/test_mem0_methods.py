# SPDX-License-Identifier: Apache-2.0
"""mem0's methods without mem0: its arguments, its answers, and what differs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import OmsError
from omsgrain.integrations.mem0 import AsyncMemory, Memory
from support.frameworks import run_page

#: The parameters of mem0ai 2.2.1.
PARAMETERS = {
    "add": "messages user_id agent_id run_id metadata timestamp expiration_date infer memory_type "
    "prompt",
    "get": "memory_id",
    "get_all": "filters top_k show_expired kwargs",
    "search": "query top_k filters threshold rerank explain reference_date show_expired kwargs",
    "update": "memory_id text metadata expiration_date data",
    "delete": "memory_id",
    "delete_all": "user_id agent_id run_id",
    "history": "memory_id",
    "reset": "",
    "close": "",
}
ADA = {"user_id": "ada"}


@pytest.fixture
def mem0(memory: og.Memory) -> Memory:
    """The facade over a store of each kind."""
    return Memory({"store": memory.store, "llm": {"provider": "none"}})


def texts(said: dict[str, Any]) -> list[str]:
    return [one["memory"] for one in said["results"]]


def test_parameters_are_those_of_mem0() -> None:
    for name, expected in PARAMETERS.items():
        found = inspect.signature(getattr(Memory, name)).parameters
        assert [one for one in found if one != "self"] == expected.split(), name


def test_what_is_added_is_found_in_the_form_of_mem0(mem0: Memory) -> None:
    said = mem0.add("I like green tea", user_id="ada", metadata={"topic": "drinks"})
    (added,) = said["results"]
    assert added == {"id": added["id"], "memory": "I like green tea", "event": "ADD"}
    found = mem0.get(added["id"])
    assert found is not None
    assert found == {
        "id": added["id"],
        "memory": "I like green tea",
        "hash": md5(b"I like green tea").hexdigest(),
        "metadata": {"topic": "drinks"},
        "score": None,
        "created_at": found["created_at"],
        "updated_at": found["created_at"],
        "user_id": "ada",
        "role": "user",
    }
    (one,) = mem0.search("tea", filters=ADA)["results"]
    assert one == found | {"score": 1.0}
    (listed,) = mem0.get_all(filters=ADA)["results"]
    assert listed == {name: value for name, value in found.items() if name != "score"}
    assert mem0.get("none") is None
    (why,) = mem0.search("tea", filters=ADA, explain=True)["results"]
    assert "tea" in why["score_details"]["why"]


def test_messages_are_stored_as_they_are(mem0: Memory) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "I moved to Oslo", "name": "ada"},
        {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]},
        {"role": "user"},
        "no message",
    ]
    said = mem0.add(messages, user_id="ada", infer=False)["results"]
    assert [(one["memory"], one["actor_id"], one["role"]) for one in said] == [
        ("I moved to Oslo", "ada", "user"),
        ("Noted.", None, "assistant"),
    ]
    assert mem0.add(messages, user_id="ada") == {"results": []}  # the scope has these texts
    assert len(mem0.add(messages, user_id="ada", run_id="r1")["results"]) == 2
    assert len(mem0.add(messages, user_id="ada", infer=False)["results"]) == 2


def test_update_history_and_deletion(mem0: Memory, memory: og.Memory) -> None:
    id = mem0.add("Ada lives in Rome", user_id="ada", metadata={"n": 1})["results"][0]["id"]
    assert mem0.update(id, "Ada lives in Oslo", {"m": 2, "user_id": "eve"}) == {
        "message": "Memory updated successfully!"
    }
    mem0.update(id, expiration_date="2999-12-31")
    found = mem0.get(id)
    assert found is not None
    assert (found["memory"], found["metadata"], found["user_id"], found["expiration_date"]) == (
        "Ada lives in Oslo",
        {"n": 1, "m": 2},
        "ada",
        "2999-12-31",
    )
    rows = mem0.history(id)
    assert [(row["event"], row["old_memory"], row["new_memory"]) for row in rows] == [
        ("ADD", None, "Ada lives in Rome"),
        ("UPDATE", "Ada lives in Rome", "Ada lives in Oslo"),
        ("UPDATE", "Ada lives in Oslo", "Ada lives in Oslo"),
    ]
    assert len(memory.store) == 3
    assert mem0.search("Rome", filters=ADA) == {"results": []}
    assert mem0.delete(id) == {"message": "Memory deleted successfully!"}
    assert (mem0.get(id), mem0.history(id), len(memory.store)) == (None, [], 0)
    unknowns: list[Callable[[], Any]] = [lambda: mem0.delete(id), lambda: mem0.update(id, "x")]
    for unknown in unknowns:
        with pytest.raises(ValueError, match="ERR_NOT_FOUND"):
            unknown()


def test_scopes_are_apart(mem0: Memory) -> None:
    mem0.add("tea", user_id="ada")
    mem0.add("tea black", user_id="ada", agent_id="a")
    mem0.add("tea white", user_id="bob", agent_id="a", run_id="r")
    mem0.add("tea green", agent_id="a")
    assert len(texts(mem0.search("tea", filters=ADA))) == 2
    assert sorted(texts(mem0.search("tea", filters={"agent_id": "a"}))) == [
        "tea black",
        "tea green",
        "tea white",
    ]
    assert texts(mem0.search("tea", filters={"user_id": "ada", "agent_id": "a"})) == ["tea black"]
    assert texts(mem0.get_all(filters={"run_id": "r", "agent_id": "a"})) == ["tea white"]
    mem0.delete_all(agent_id="a")
    assert texts(mem0.get_all(filters=ADA)) == ["tea"]
    assert texts(mem0.get_all(filters={"agent_id": "a"})) == []
    mem0.reset()
    assert texts(mem0.get_all(filters=ADA)) == []


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"n": 2}, [2]),
        ({"n": {"gte": 2, "lt": 4}}, [2, 3]),
        ({"n": {"in": [1, 4]}}, [1, 4]),
        ({"n": {"nin": [1, 4]}}, [2, 3]),
        ({"n": {"ne": 1}}, [2, 3, 4]),
        ({"word": {"contains": "wo"}}, [2]),
        ({"word": {"icontains": "THREE"}}, [3]),
        ({"word": "*"}, [2, 3]),
        ({"OR": [{"n": 1}, {"word": "three"}]}, [1, 3]),
        ({"NOT": [{"n": 1}, {"n": {"gt": 3}}]}, [2, 3]),
        ({"AND": [{"n": {"gt": 1}}, {"n": {"lt": 3}}]}, [2]),
        ({"n": {"gt": "x"}}, []),
    ],
)
def test_filters_on_metadata(filters: dict[str, Any], expected: list[int]) -> None:
    mem0 = Memory({"store": ":memory:"})
    for n, word in ((1, None), (2, "two"), (3, "three"), (4, None)):
        mem0.add(f"tea {n}", user_id="ada", metadata={"n": n} | ({"word": word} if word else {}))
    for said in (
        mem0.get_all(filters=ADA | filters),
        mem0.search("tea", filters=ADA | filters, threshold=0),
    ):
        assert sorted(one["metadata"]["n"] for one in said["results"]) == expected


def test_expired_memories_are_not_shown(mem0: Memory) -> None:
    mem0.add("tea", user_id="ada", expiration_date="2020-01-01")
    assert texts(mem0.search("tea", filters=ADA)) == texts(mem0.get_all(filters=ADA)) == []
    assert texts(mem0.search("tea", filters=ADA, show_expired=True)) == ["tea"]
    assert texts(mem0.get_all(filters=ADA, show_expired=True)) == ["tea"]


def test_what_mem0_refuses_is_refused(mem0: Memory) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: mem0.add("tea"),
        lambda: mem0.add("tea", user_id=" "),
        lambda: mem0.add("tea", user_id="a b"),
        lambda: mem0.add(7, user_id="ada"),  # type: ignore[arg-type]
        lambda: mem0.add("tea", user_id="ada", timestamp=1),
        lambda: mem0.add("tea", user_id="ada", memory_type="procedural_memory"),
        lambda: mem0.add("tea", user_id="ada", expiration_date="tomorrow"),
        lambda: mem0.search("tea", user_id="ada"),
        lambda: mem0.search("tea"),
        lambda: mem0.search(" ", filters=ADA),
        lambda: mem0.search("tea", filters=ADA, threshold=2),
        lambda: mem0.search("tea", filters=ADA, top_k=-1),
        lambda: mem0.search("tea", filters=ADA, reference_date="2020-01-01"),
        lambda: mem0.get_all(user_id="ada"),
        lambda: mem0.delete_all(),
        lambda: mem0.update("x"),
    ]
    for call in calls:
        with pytest.raises(ValueError) as refused:
            call()
        assert isinstance(refused.value, OmsError)
    mem0.add("tea", user_id="ada")
    with pytest.raises(ValueError):
        mem0.get_all(filters=ADA | {"n": {"like": "x"}})
    assert len(mem0.store) == 1


def test_embed_finds_by_meaning(memory: og.Memory) -> None:
    def embed(given: list[str]) -> list[list[float]]:
        return [[float("tea" in text or "drink" in text), 0.1] for text in given]

    mem0 = Memory({"store": memory.store, "embed": embed})
    mem0.add("green tea", user_id="ada")
    mem0.add("a cat", user_id="ada")
    assert texts(mem0.search("drinks", filters=ADA, top_k=1)) == ["green tea"]


def test_the_default_is_the_directory_of_mem0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    with Memory() as mem0:
        mem0.add("tea", user_id="ada")
    with Memory.from_config({}) as mem0:
        assert texts(mem0.get_all(filters=ADA)) == ["tea"]
    assert (tmp_path / "mem0" / "memory.omsg").is_dir()


def test_the_asynchronous_methods_answer_the_same(memory: og.Memory) -> None:
    async def run() -> None:
        mem0 = AsyncMemory.from_config({"store": memory.store})
        (added,) = (await mem0.add("tea", user_id="ada", infer=False))["results"]
        await mem0.update(added["id"], "coffee")
        assert texts(await mem0.search("coffee", filters=ADA)) == ["coffee"]
        assert texts(await mem0.get_all(filters=ADA)) == ["coffee"]
        assert (await mem0.get(added["id"]) or {})["memory"] == "coffee"
        assert len(await mem0.history(added["id"])) == 2
        await mem0.delete(added["id"])
        await mem0.add("tea", user_id="ada")
        await mem0.delete_all(user_id="ada")
        await mem0.reset()
        mem0.close()
        assert len(memory.store) == 0

    asyncio.run(run())


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEM0_DIR", str(tmp_path))
    run_page("mem0", tmp_path)
