# SPDX-License-Identifier: Apache-2.0
"""The memory tool beside the SDK's own over files: the same commands, the same answers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from anthropic.tools import (
    BetaAbstractMemoryTool,
    BetaAsyncAbstractMemoryTool,
    BetaLocalFilesystemMemoryTool,
    ToolError,
)

import omsgrain as og
from omsgrain.integrations.anthropic import AsyncMemoryTool, MemoryTool
from support.frameworks import run_page

NAMES = ("a", "b.txt", ".hidden", "d", "e f", "\u00e9", "e\u0301.md")
WORDS = (
    "tea",
    "tea tea",
    "aaa",
    "aa",
    "",
    "x\ny",
    "\n",
    "cafe\u0301",
    "caf\u00e9",
    "\r\n",
    "\U0001f375",
)
DIRECTORY = re.compile(r"^[^\t]+(\t.*/|\t/memories[^\n]*)$", re.M)


def answer(tool: Any, command: dict[str, Any]) -> tuple[str, str]:
    """What a model sees: the answer or the error; how the SDK reports other errors is its own."""
    try:
        return "answer", tool.call(command)
    except ToolError as error:
        return "error", str(error.content)
    except OSError:
        return "error", ""


def path(random: Random, known: list[str]) -> str:
    if known and random.random() < 0.7:
        return random.choice(known)
    parts = [random.choice(NAMES) for _ in range(random.randrange(4))]
    if random.random() < 0.1:
        parts.insert(random.randrange(len(parts) + 1), random.choice(("..", ".", "")))
    return "/".join(("/memories", *parts)) + random.choice(("", "", "", "/"))


def text(random: Random) -> str:
    return random.choice(("", "\n")).join(random.choice(WORDS) for _ in range(random.randrange(6)))


def command(random: Random, known: list[str]) -> dict[str, Any]:
    names = "view create create str_replace str_replace insert insert delete rename"
    name = random.choice(names.split())
    match name:
        case "view":
            given = random.choice(([], [1, 2], [2, -1], [0, 1], [3, 2], [5, 9]))
            return {"command": name, "path": path(random, known)} | (
                {"view_range": given} if given else {}
            )
        case "create":
            return {"command": name, "path": path(random, known), "file_text": text(random)}
        case "str_replace":
            old, new = random.choice((*WORDS, "t", "e")), random.choice(WORDS)
            return {"command": name, "path": path(random, known), "old_str": old, "new_str": new}
        case "insert":
            line = random.randrange(-1, 5)
            return {
                "command": name,
                "path": path(random, known),
                "insert_line": line,
                "insert_text": text(random),
            }
        case "rename":
            return {
                "command": name,
                "old_path": path(random, known),
                "new_path": path(random, known),
            }
        case _:
            return {"command": name, "path": path(random, known)}


def directories(root: Path) -> set[Path]:
    return {one for one in root.rglob("*") if one.is_dir()}


@pytest.mark.parametrize("seed", range(4))
def test_random_commands_get_the_answers_of_the_sdk(
    memory: og.Memory, tmp_path: Path, seed: int, long: bool
) -> None:
    """Three differences remain. The test makes up for the first two.

    A directory has the size of its files, not of a block of some file system. A command that
    fails leaves nothing behind; the SDK's has made the directories above the new path. An error
    that the SDK reports as Python's own, with a path of the machine, is a sentence here.
    """
    ours, theirs = MemoryTool(memory), BetaLocalFilesystemMemoryTool(str(tmp_path / "files"))
    random, known = Random(seed), list[str]()
    for _ in range(2_500 if long else 250):
        asked = command(random, known)
        before = directories(tmp_path / "files")
        expected, found = answer(theirs, asked), answer(ours, asked)
        assert found[0] == expected[0], asked
        if found[0] == "answer" and asked["command"] in ("create", "rename"):
            known = [*known[-9:], asked.get("path") or asked["new_path"]]
        if expected[1]:
            assert DIRECTORY.sub(r"\1", found[1]) == DIRECTORY.sub(r"\1", expected[1]), asked
        else:
            assert found[1]
        if found[0] == "error":
            for made in sorted(directories(tmp_path / "files") - before, reverse=True):
                made.rmdir()
    everything = {"command": "view", "path": "/memories"}
    assert DIRECTORY.sub(r"\1", answer(ours, everything)[1]) == DIRECTORY.sub(
        r"\1", answer(theirs, everything)[1]
    )


@pytest.mark.parametrize(
    "outside",
    [
        "/memories/../x",
        "/memories/a/../../x",
        "/etc/passwd",
        "x",
        "",
        "/memoriesx",
        "/memories/\0",
    ],
)
def test_a_path_outside_is_refused_by_every_command(memory: og.Memory, outside: str) -> None:
    tool = MemoryTool(memory)
    tool.call({"command": "create", "path": "/memories/a", "file_text": "tea"})
    for asked in (
        {"command": "view", "path": outside},
        {"command": "create", "path": outside, "file_text": ""},
        {"command": "str_replace", "path": outside, "old_str": "a", "new_str": "b"},
        {"command": "insert", "path": outside, "insert_line": 0, "insert_text": ""},
        {"command": "delete", "path": outside},
        {"command": "rename", "old_path": outside, "new_path": "/memories/b"},
        {"command": "rename", "old_path": "/memories/a", "new_path": outside},
    ):
        with pytest.raises(ToolError):
            tool.call(asked)
    assert [entry.name for entry in tool.files.history("/memories/a")] == ["/memories/a"]
    assert len(memory.store) == 1


def test_each_edit_is_a_version_and_deletion_ends_them(memory: og.Memory) -> None:
    tool = MemoryTool(memory)
    tool.call({"command": "create", "path": "/memories/a.txt", "file_text": "green tea"})
    then = memory.recall("tea")[0].created_at
    tool.call(
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "tea", "new_str": "kale"}
    )
    tool.call(
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 1, "insert_text": "b"}
    )
    tool.call(
        {"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/d/b.txt"}
    )
    versions = tool.files.history("/memories/d/b.txt")
    assert [version.value for version in versions] == [
        "green tea",
        "green kale",
        "green kale\nb\n",
        "green kale\nb\n",
    ]
    assert "kale" in memory.recall("kale")[0].text
    assert memory.recall("tea") == []
    assert "green tea" in memory.as_of(then).recall("tea")[0].text
    tool.call({"command": "delete", "path": "/memories/d"})
    assert len(memory.store) == 0


def test_a_hold_is_told_to_the_model(memory: og.Memory) -> None:
    tool = MemoryTool(memory)
    tool.call({"command": "create", "path": "/memories/a", "file_text": "tea"})
    (version,) = tool.files.history("/memories/a")
    memory.store.holds.add(version.address, authority="court", reason_code="litigation")
    with pytest.raises(ToolError) as refused:
        tool.call({"command": "delete", "path": "/memories/a"})
    assert "ERR_" in str(refused.value)
    assert "tea" in tool.call({"command": "view", "path": "/memories/a"})


def test_the_asynchronous_tool_answers_the_same(memory: og.Memory) -> None:
    async def run() -> list[str]:
        tool = AsyncMemoryTool(memory)
        assert isinstance(tool, BetaAsyncAbstractMemoryTool)
        said = [
            await tool.call(one)
            for one in (
                {"command": "create", "path": "/memories/a", "file_text": "tea\n"},
                {"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"},
                {"command": "view", "path": "/memories/a"},
                {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
                {"command": "str_replace", "path": "/memories/b", "old_str": "x", "new_str": "y"},
                {"command": "view", "path": "/memories"},
                {"command": "delete", "path": "/memories/b"},
            )
        ]
        with pytest.raises(ToolError):
            await tool.call({"command": "view", "path": "/memories/b"})
        await tool.clear_all_memory()
        return said

    said = asyncio.run(run())
    assert said[2].splitlines()[1:] == ["     1\tx", "     2\ttea", "     3\t"]
    assert said[5].endswith("\n6B\t/memories\n6B\t/memories/b")


def test_the_tool_is_named_to_the_service_as_the_sdk_does(memory: og.Memory) -> None:
    tool = MemoryTool(memory, cache_control={"type": "ephemeral"})
    assert isinstance(tool, BetaAbstractMemoryTool)
    assert tool.to_dict() == {
        "type": "memory_20250818",
        "name": "memory",
        "cache_control": {"type": "ephemeral"},
    }
    tool.call({"command": "create", "path": "/memories/a/b", "file_text": "tea"})
    assert tool.clear_all_memory() == "All memory cleared"
    assert len(memory.store) == 0


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("anthropic", tmp_path)
