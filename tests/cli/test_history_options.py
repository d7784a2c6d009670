# SPDX-License-Identifier: Apache-2.0
"""The options that bound a history: one meaning, and one error, on each command that has them."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.bridge.broker import BrokerError
from omsgrain.bridge.mqtt import Mqtt
from support.http_process import Served
from support.mcp_lines import HELLO, Process
from support.shell import USAGE, Shell, exit_code

COMMANDS: dict[str, tuple[str, ...]] = {
    "retain": (),
    "serve": ("--port", "0"),
    "bridge": ("--mqtt", "mqtt://127.0.0.1:1", "--topic", "a", "--dead-letter", "refused"),
    "mcp": ("--user", "ada"),
}
LIMITS = ("--keep", "7d", "--keep-where", "namespace=maps", "--keep-cited")
OLD = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "m.omsg"
    with og.open(path) as made:
        cited = made.put({"type": "event", "content": "cited", "created_at": OLD})
        made.put_many(
            [
                {"type": "event", "content": "old", "created_at": OLD},
                {"type": "event", "content": "map", "namespace": "maps", "created_at": OLD},
            ]
        )
        made.put(og.Event(content="new", derived_from=[cited]))
    return path


def contents(path: Path) -> set[str]:
    with og.open(path, readonly=True) as made:
        return {grain["content"] for grain in made}


def test_serve(store: Path) -> None:
    with Served(store, *LIMITS) as served:
        assert served.end(signal.SIGTERM) == 0
    assert contents(store) == {"cited", "map", "new"}


def test_mcp(store: Path) -> None:
    process = Process(store, *LIMITS)
    process.say(HELLO)
    assert process.end()[0] == 0
    assert contents(store) == {"cited", "map", "new"}


def test_bridge(shell: Shell, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Any, most: int, wait: float) -> Any:
        raise BrokerError("the broker refuses the connection")

    monkeypatch.setattr(Mqtt, "fetch", refused)
    assert shell("bridge", store, *COMMANDS["bridge"], *LIMITS) == exit_code("ERR_STORE")
    assert contents(store) == {"cited", "map", "new"}


def test_retain(shell: Shell, store: Path) -> None:
    report = shell.json("retain", store, *LIMITS)
    assert report["kept"] == [["cited", 1], ["keep_where", 1]]
    assert contents(store) == {"cited", "map", "new"}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("given", "code", "option"),
    [
        (("--keep", "soon"), USAGE, "--keep"),
        (("--keep", "0d"), USAGE, "--keep"),
        (("--keep", "2000000w"), "ERR_RANGE", "--keep"),
        (("--max-bytes", "much"), USAGE, "--max-bytes"),
        (("--max-bytes", "1MB"), "ERR_RANGE", "--max-bytes"),
        (("--keep", "7d", "--keep-where", "maps"), USAGE, "--keep-where"),
        (("--keep", "7d", "--keep-where", "place=maps"), USAGE, "--keep-where"),
        (("--keep", "7d", "--keep-where", "is_error=perhaps"), USAGE, "--keep-where"),
        (("--keep", "7d", *["--keep-where", "tag=a"] * 2), USAGE, "--keep-where"),
        (("--keep-where", "namespace=maps"), USAGE, "--keep-where"),
        (("--keep-cited",), USAGE, "--keep-cited"),
    ],
)
def test_what_is_refused(
    shell: Shell, store: Path, command: str, given: tuple[str, ...], code: str | int, option: str
) -> None:
    wanted = code if isinstance(code, int) else exit_code(code)
    status, error = shell.error(command, store, *COMMANDS[command], *given)
    assert status == wanted
    assert option in (error["message"] if code == USAGE else error["field"])
    assert len(contents(store)) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_has_no_file_to_bound(shell: Shell, command: str) -> None:
    url = "postgresql://robots@127.0.0.1:1/memory"
    code, error = shell.error(command, url, *COMMANDS[command], "--max-bytes", "512MB")
    assert (code, error["field"]) == (exit_code("ERR_UNSUPPORTED"), "--max-bytes")


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (["type=observation", "observer_id=lidar-3"], {"r"}),
        (["type=6"], {"r"}),
        (["min_confidence=0.5"], {"b"}),
        (['where={"object.celsius": {"gt": 2.5}}'], {"r"}),
        (["is_error=true"], {"a"}),
        (["created_after=2000d", "type=event"], {"e"}),
        (["current=all", "tag=x=y"], {"e"}),
    ],
)
def test_the_filters_of_keep_where(
    shell: Shell, tmp_path: Path, where: list[str], left: set[str]
) -> None:
    grains: dict[str, dict[str, Any]] = {
        "r": {"type": "observation", "observer_id": "lidar-3", "observer_type": "lidar",
              "object": {"celsius": 3.0}},
        "b": {"type": "belief", "subject": "s", "relation": "r", "object": "o", "confidence": 0.9},
        "a": {"type": "action", "tool_name": "t", "input": {}, "content": "", "is_error": True},
        "e": {"type": "event", "content": "c", "structural_tags": ["x=y"]},
    }  # fmt: skip
    with og.open(tmp_path / "m.omsg") as store:
        names = {store.put(fields | {"created_at": OLD}): name for name, fields in grains.items()}
    options = [word for one in where for word in ("--keep-where", one)]
    shell.json("retain", tmp_path / "m.omsg", "--keep", "1d", *options)
    with og.open(tmp_path / "m.omsg", readonly=True) as store:
        assert {names[grain.address] for grain in store} == left


def test_a_program_that_starts_mcp_gets_the_limits_as_given(shell: Shell, store: Path) -> None:
    options = (*LIMITS, "--keep-where", "tag=x", "--max-bytes", "512MB")
    arguments = ("mcp", store, "--user", "ada", *options, "--install", "cursor", "--print")
    words = shell.json(*arguments)["entry"]["args"]
    at = words.index("--keep")
    assert words[at : at + 2] == ["--keep", "7d"]
    assert words.count("--keep-where") == 2 and "namespace=maps" in words
    assert words[words.index("--max-bytes") + 1] == "512000000"


def test_a_server_that_only_reads_bounds_nothing(shell: Shell, store: Path) -> None:
    assert shell("mcp", store, "--user", "ada", "--readonly", "--keep", "7d") == USAGE
    assert len(contents(store)) == 4
