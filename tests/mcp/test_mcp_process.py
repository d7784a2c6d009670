# SPDX-License-Identifier: Apache-2.0
"""The server as a process: what it says where, how it ends, and many calls at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mcp import StdioServerParameters

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from support.mcp_agents import ADA, agent, environment, parameters, started
from support.mcp_lines import HELLO, READY, Process, remember, request
from support.shell import USAGE, Shell, exit_code

HEX = "5a" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    og.open(tmp_path / "m.omsg").close()
    return tmp_path / "m.omsg"


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT"])
def test_it_ends_and_nothing_is_lost(path: Path, how: str) -> None:
    process = Process(path, "--log-format", "json")
    process.say(HELLO, READY, remember(1, "the secret of the yak"))
    assert process.hear()["result"]["serverInfo"]["name"] == "omsgrain"
    assert process.hear()["result"]["structuredContent"]["new"]
    process.child.send_signal(signal.Signals[how])
    code, out, log = process.end()
    assert (code, out) == (0, b"")
    events = [json.loads(line) for line in log.splitlines()]
    assert [one["event"] for one in events] == ["serving", "call", "stopped"]
    assert events[1]["call"] == "tools/call remember"
    for word in ("secret", "yak", ADA):
        assert word not in log
    with og.open(path, readonly=True) as store:
        assert len(store.query(user_id=ADA).results) == 1
        assert store.maintenance.check().ok


def test_what_is_no_message_is_answered_and_not_logged(path: Path) -> None:
    process = Process(path)
    # No JSON, and without an id that can be read; half a character is no JSON.
    process.say(b"{the yak", b"\xff\xfe", b'{"id": 7,', b"", b"  ", b"[" * 100_000)
    process.say(b'{"jsonrpc": "2.0", "id": 3, "method": "ping", "params": {"_": "yak \\ud800"}}')
    process.say(b'{"method": "ping", "params": {"_": "yak \\ud800"}, "id": "x"}')
    # JSON, but no requests.
    process.say(b"[]", b"7", b'{"jsonrpc": "2.0", "id": 9}', b'{"jsonrpc": "2.0", "id": []}')
    process.say(b'{"jsonrpc": "2.0", "id": 4, "method": "ping", "params": ["yak"]}')
    process.say(b'{"jsonrpc": "2.0", "id": "y", "method": {"yak": 1}}')
    process.say(b'{"id": 6, "method": "ping"}')
    # Nobody waits for an answer to these.
    process.say(b'{"method": "yak"}', b'{"id": 1, "result": 1}', b'{"id": 1, "error": {}}')
    # The server goes on.
    process.say(HELLO, READY, request(1, "tools/call", name="recall", arguments=["yak"]))
    process.say(request(2, "tools/call", name="recall", arguments={}))
    code, out, log = process.end()
    answers = [json.loads(line) for line in out.splitlines()]
    errors = [(one["id"], one["error"]["code"]) for one in answers if "error" in one]
    no_json = [None, None, 7, None, 3, "x"]
    assert errors[:6] == [(id, -32700) for id in no_json]
    assert errors[6:-1] == [(id, -32600) for id in (None, None, 9, None, 4, "y", 6)]
    assert errors[-1] == (1, -32602)
    results = {one["id"]: one["result"] for one in answers if "result" in one}
    assert code == 0
    assert results.keys() == {0, 2}
    assert results[2]["structuredContent"] == {"memories": []}
    assert "yak" not in log
    assert "Traceback" not in log


def test_the_first_answer_needs_no_format(path: Path) -> None:
    """It costs little more than the SDK's own start: what calls need is loaded by calls."""
    how = parameters(path)
    command = [how.command, "-X", "importtime", *how.args]
    done = subprocess.run(command, input=HELLO, env=how.env, capture_output=True, text=False)
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "omsgrain"
    loaded = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    assert {"omsgrain.mcp.tools", "omsgrain.storage.lmdb.storage"} <= loaded
    late = {"omsgrain.memory.verbs", "omsgrain.formats.table", "omsgrain.interchange.kept"}
    late |= {"omsgrain.mcp.documents", "omsgrain.query.query"}
    assert not loaded & late


def test_a_client_that_reads_no_answers_ends_the_server(path: Path) -> None:
    process = Process(path)
    assert process.child.stdout is not None
    process.child.stdout.close()
    process.child.stdout = None
    process.say(HELLO)
    code, _, log = process.end()
    assert (code, "Traceback" in log) == (0, False)


def test_pending_calls_are_answered_when_stdin_ends(path: Path) -> None:
    process = Process(path, "--log-format", "json")
    process.say(HELLO, READY, *(remember(n, f"the yak {n}") for n in range(1, 20)))
    code, out, log = process.end()
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert sorted(one["id"] for one in answers) == list(range(20))
    assert all("result" in one for one in answers)
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events == ["serving", *["call"] * 19, "stopped"]
    with og.open(path, readonly=True) as store:
        assert len(store.query(user_id=ADA).results) == 19


LONG = "x" * (2 << 20)
HUGE = {
    "first": (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": "%b"}', 7),
    "last": (b'{"method": "tools/call", "params": "%b", "jsonrpc": "2.0", "id": "a1"}', "a1"),
    "within": (b'{"params": {"id": 3, "x": "%b", "id": 4}, "jsonrpc": "2.0"}', None),
    "nothing": (b"%b", None),
}


def test_a_message_that_is_too_long_is_answered_and_passed_over(path: Path) -> None:
    process = Process(path, "--document-limit", "1")
    process.say(HELLO, READY)
    process.hear()
    for line, id in HUGE.values():
        process.say(line % LONG.encode(), remember(8, "the yak"))
        answers = [process.hear() for _ in range(2)]
        (error,) = [one for one in answers if "error" in one]
        assert (error["id"], error["error"]["code"]) == (id, -32600)
        told = error["error"]["data"]
        assert (told["code"], told["rule"]) == ("ERR_UNSUPPORTED", "line_too_long")
        assert {one["id"] for one in answers} == {id, 8}
    assert process.child.stdin is not None
    process.child.stdin.write(b'{"id": 9, "x": "' + LONG.encode())  # and no end of the line
    code, out, log = process.end()
    assert (code, json.loads(out)["id"]) == (0, 9)
    assert log.count("line_too_long") == len(HUGE) + 1


def test_a_cancelled_import_ends_at_a_batch(path: Path) -> None:
    records = [
        {"id": f"m{n}", "content": f"text {n}", "created_at": "2026-01-15T10:00:00Z"}
        for n in range(6_000)
    ]
    data = {"mif_version": "2.0", "memories": records}
    process = Process(path, "--log-format", "json")
    process.say(HELLO, READY)
    process.hear()
    given = {"name": "import_memories", "arguments": {"data": data}}
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": 1}}
    process.say(
        request(1, "tools/call", **given),
        json.dumps({"jsonrpc": "2.0", **cancelled}).encode(),
        request(2, "tools/call", name="recall", arguments={}),
    )
    assert process.hear()["id"] == 2
    code, out, log = process.end()
    assert (code, out) == (0, b"")
    events = [json.loads(line) for line in log.splitlines()]
    (ended,) = [one["ended"] for one in events if one.get("call") == "tools/call import_memories"]
    assert ended == "cancelled"
    with og.open(path, readonly=True) as store:
        stored = len(store)
        assert stored < 6_000
        assert stored % 1_000 == 0
        assert store.maintenance.check().ok


def test_many_calls_at_once(path: Path) -> None:
    with agent(path) as ada, ThreadPoolExecutor(16) as pool:
        said = [f"animal{n} is number {n}" for n in range(40)]
        made = list(pool.map(lambda text: ada.do("remember", content=text), said))
        found = list(pool.map(lambda n: ada.do("recall", query=f"animal{n}"), range(40)))
        same = list(pool.map(lambda _: ada.do("remember", content="once"), range(8)))
        assert [one["memories"][0]["id"] for one in found] == [one["id"] for one in made]
        assert len({one["id"] for one in made}) == 40
        assert sum(one["new"] for one in same) == 1
        assert len({one["id"] for one in same}) == 1


def test_readonly_changes_nothing(path: Path, tmp_path: Path) -> None:
    with og.open(path) as store:
        address = store.put(og.Event(content="a lynx", user_id=ADA, created_at=1))
    with agent(path, "--readonly", "--root", tmp_path) as ada:
        names = [tool.name for tool in ada.ask("list_tools").tools]
        assert names == [
            "recall", "context", "history", "export", "export_memories", "export_memory",
        ]  # fmt: skip
        assert ada.do("recall", query="lynx")["memories"][0]["id"] == address
        for tool, given in (
            ("remember", {"content": "x"}),
            ("forget", {"id": address}),
            ("import_memory", {"data": "{}"}),
            ("export_memories", {"path": "x.json"}),
        ):
            error = ada.error(tool, **given)
            assert (error["code"], error["rule"]) == ("ERR_UNSUPPORTED", "read_only")
    assert not (tmp_path / "x.json").exists()


def test_sealed_memories(path: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.omsk"
    KeyRing.create(keys, master=bytes.fromhex(HEX)).close()
    (tmp_path / "master").touch(0o600)
    (tmp_path / "master").write_text(HEX)
    options = ("--keys", keys, "--master", tmp_path / "master")
    with agent(path, *options) as ada:
        made = ada.do("remember", content="The puffin hides a key")
        assert not ada.do("remember", content="The puffin hides a key")["new"]
        newer = ada.do("remember", content="The puffin lost a key", replaces=made["id"])
        (found,) = ada.do("recall", query="where is the key of the puffin")["memories"]
        assert (found["id"], found["content"]) == (made["id"], newer["content"])
        assert len(ada.do("history", id=made["id"])["versions"]) == 2
        assert b"puffin" not in b"".join(p.read_bytes() for p in path.rglob("*") if p.is_file())
        with agent(path) as keyless:
            assert keyless.do("recall", query="puffin")["memories"] == []
            assert keyless.error("history", id=made["id"])["code"] == "ERR_NOT_FOUND"
        with agent(path, *options, user="bob") as bob:
            assert bob.do("recall", query="puffin")["memories"] == []
            assert bob.error("forget", id=made["content_address"])["code"] == "ERR_NOT_FOUND"
        assert ada.do("forget", id=made["id"])["versions"] == 2
        assert ada.do("recall", query="puffin")["memories"] == []


def test_memories_in_the_clear_beside_sealed_ones_need_plain(path: Path, tmp_path: Path) -> None:
    with KeyRing.create(tmp_path / "keys.omsk", master=bytes.fromhex(HEX)) as ring:
        with og.open(path, keys=ring) as store:
            store.put(og.Event(content="sealed", user_id=ADA))
    with agent(path) as keyless:
        assert keyless.error("remember", content="The puffin hides")["code"] == "ERR_KEY"
    with agent(path, "--plain") as plain:
        assert plain.do("remember", content="The puffin hides")["new"]
        (found,) = plain.do("recall", query="puffin")["memories"]
        assert found["content"] == "The puffin hides"
    with og.open(path, readonly=True) as store:
        assert sorted(grain.sealed for grain in store) == [False, True]


def test_it_does_not_start_without_a_store_or_a_user(
    tmp_path: Path, path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell("mcp", tmp_path / "none", "--user", ADA) == exit_code("ERR_STORE")
    assert shell("mcp", path) == USAGE
    assert shell("mcp", path, "--user", " ") == USAGE
    (tmp_path / "empty").mkdir()
    code, error = shell.error("mcp", tmp_path / "empty", "--user", ADA)
    assert (code, error["code"]) == (exit_code("ERR_STORE"), "ERR_STORE")
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    for name in [name for name in sys.modules if name.startswith("omsgrain.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    code, error = shell.error("mcp", path, "--user", ADA)
    assert error["code"] == "ERR_UNSUPPORTED"
    assert "'mcp'" in error["expected"]


def test_without_arguments_it_serves_a_store_of_the_user(tmp_path: Path) -> None:
    home = {name: str(tmp_path) for name in ("XDG_DATA_HOME", "HOME", "LOCALAPPDATA")}
    how = StdioServerParameters(
        command=sys.executable, args=["-m", "omsgrain", "mcp"], env=environment() | home
    )
    for text in ("The lynx naps", "The lynx wakes"):  # the second one finds the store there
        with started(how) as one:
            assert one.do("remember", content=text)["new"]
    (store,) = tmp_path.rglob("memory.omsg")
    with og.open(store, readonly=True) as kept:
        assert {grain["user_id"] for grain in kept} == {"me"}
        assert len(kept) == 2
    if os.name == "posix":
        assert store.parent.stat().st_mode & 0o077 == 0


def test_the_store_of_the_environment_is_served(path: Path) -> None:
    """Not the user's own, and only if it exists."""
    how = [sys.executable, "-m", "omsgrain", "mcp", "--user", ADA]
    for store, status in (
        (path, 0),
        (path.with_name("none.omsg"), exit_code("ERR_STORE")),
    ):
        done = subprocess.run(
            how, input=b"", env=environment() | {"OMSGRAIN_STORE": str(store)}, capture_output=True
        )
        assert done.returncode == status, done.stderr
