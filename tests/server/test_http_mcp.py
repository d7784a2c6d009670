# SPDX-License-Identifier: Apache-2.0
"""Agents over HTTP: MCP at /mcp, as the tenant of a token, within its scopes."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.mcp.tools import TOOLS
from omsgrain.server.service import ServerOptions
from support.http_process import Served
from support.http_server import ADA, ALL, GRACE, TYPED, Site, bundle, by_lines, chunk, site
from support.mcp_agents import over_http, server_environment
from support.tokens import add_token

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "m.omsg"
    og.open(path).close()
    return path


@pytest.fixture(scope="module")
def served(path: Path) -> Iterator[Served]:
    with Served(path, "--log-format", "json", env=server_environment()) as one:
        yield one


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_remembers_over_http(served: Served, path: Path, mode: str) -> None:
    """With the newest protocol, and with that of older clients."""
    secrets = [add_token(path, f"{mode}-{who}", f"{mode}-{who}", ALL) for who in (ADA, GRACE)]
    with (
        over_http(served.url, secrets[0], mode) as ada,
        over_http(served.url, secrets[1], mode) as grace,
    ):
        assert [tool.name for tool in ada.ask("list_tools").tools] == [*TOOLS]
        made = ada.do("remember", content=f"The {mode} lynx naps", tags=["zoo"])
        newer = ada.do("update", id=made["id"], content=f"The {mode} lynx wakes")
        (found,) = ada.do("recall", query=f"+{mode} lynx")["memories"]
        assert (found["id"], found["content"]) == (made["id"], newer["content"])
        assert "lynx wakes" in ada.do("context", question=f"+{mode} lynx")["context"]
        assert ada.read(f"omsgrain://memory/{made['id']}")["content"] == newer["content"]
        assert len(ada.ask("get_prompt", "about", {"topic": mode}).messages) == 2
        assert ada.error("recall", since="then")["field"] == "/since"
        assert grace.do("recall", query="lynx")["memories"] == []
        assert grace.error("history", id=made["id"])["code"] == "ERR_NOT_FOUND"
        document = ada.text("export_memories", redact_pii=False)
        assert grace.do("import_memories", data=document)["memories_imported"] == 1
        assert grace.do("recall", query="lynx")["memories"]
        assert ada.error("export", path="x.json")["rule"] == "no_root"
        assert ada.do("forget", id=made["id"])["versions"] == 2
        assert ada.do("recall", query=f"+{mode} lynx")["memories"] == []
    with og.open(path, readonly=True) as store:
        assert f"token:{mode}-{ADA}" in {entry.actor for entry in store.audit.entries()}


def test_many_agents_at_once(served: Served, path: Path) -> None:
    token = add_token(path, "many", "urn:omsgrain:many", ALL)
    with over_http(served.url, token) as one, ThreadPoolExecutor(8) as pool:
        said = [f"animal{n} is number {n}" for n in range(20)]
        made = list(pool.map(lambda text: one.do("remember", content=text), said))
        assert all(each["new"] for each in made)
        found = one.do("recall", limit=100)["memories"]
        assert {each["content"] for each in found} == {*said}


def test_it_stops_with_a_client(tmp_path: Path) -> None:
    path = tmp_path / "m.omsg"
    og.open(path).close()
    token = add_token(path, "ada", ADA, ALL)
    with Served(path, "--log-format", "json", env=server_environment()) as served:
        with over_http(served.url, token) as one:
            one.do("remember", content="The secret of the yak")
            assert served.end(signal.SIGTERM) == 0
    for word in ("yak", ADA, token, "Traceback"):
        assert word not in served.log
    events = served.lines()
    assert {e["call"] for e in events if e["event"] == "call"} >= {"tools/call remember"}
    routes = {(e["route"], e["status"]) for e in events if e["event"] == "request"}
    assert ("/mcp", 200) in routes


# -- without a network ----------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Site]:
    options = ServerOptions(document=20_000, large=2_000, origins=("https://chat.example",))
    with site(tmp_path / "m.omsg", options) as one:
        yield one


def message(method: str, id: int | None = 1, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return found if id is None else found | {"id": id}


def call(here: Site, token: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of a tool."""
    asked = message("tools/call", name=tool, arguments=arguments)
    answer = here.ask("POST", "/mcp", token, json=asked, headers=JSON)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


def test_a_token_may_do_what_its_scopes_say(here: Site) -> None:
    tokens = {scope: here.token(scope, ADA, [scope]) for scope in ALL}
    listed = {}
    for scope, token in tokens.items():
        asked = message("tools/list")
        answer = here.ask("POST", "/mcp", token, json=asked, headers=JSON).json()
        listed[scope] = [tool["name"] for tool in answer["result"]["tools"]]
    assert listed == {
        "import": ["import", "import_memories", "import_memory"],
        "export": ["recall", "context", "history", "export", "export_memories", "export_memory"],
        "admin": ["forget"],
    }
    for tool, given, scope in (
        ("recall", {}, "import"),
        ("remember", {"content": "The yak"}, "import"),
        ("remember", {"content": "The yak"}, "export"),
        ("forget", {"id": "x"}, "export"),
        ("import_memory", {"data": "{}"}, "admin"),
    ):
        result = call(here, tokens[scope], tool, **given)
        assert result["isError"]
        assert result["structuredContent"]["error"]["rule"] == "missing_scope"
    asked = message("resources/read", uri="omsgrain://recent")
    answer = here.ask("POST", "/mcp", tokens["import"], json=asked, headers=JSON)
    assert answer.json()["error"]["data"]["rule"] == "missing_scope"
    assert len(here.service.stores.main) == 0


def test_without_a_token_or_with_one_of_a_sync_nothing_is_answered(here: Site) -> None:
    asked: dict[str, Any] = {"json": message("tools/list"), "headers": JSON}
    assert here.ask("POST", "/mcp", **asked).status_code == 401
    assert here.ask("POST", "/mcp", here.sync_token(), **asked).status_code == 403


def test_pages_of_other_origins_are_refused(here: Site) -> None:
    token = here.token()
    for origin, status in (
        ("https://chat.example", 200),
        ("https://evil.example", 403),
        ("http://localhost:8080", 403),
        ("null", 403),
        ("", 403),
    ):
        headers = JSON | {"origin": origin}
        answer = here.ask("POST", "/mcp", token, json=message("tools/list"), headers=headers)
        assert answer.status_code == status, origin
        if status == 403:
            assert answer.json()["rule"] == "other_origin"


def test_there_are_no_sessions_and_no_streams(here: Site) -> None:
    token = here.token()
    for method in ("GET", "DELETE", "PUT"):
        answer = here.ask(method, "/mcp", token, headers=JSON | {"mcp-session-id": "x"})
        assert (answer.status_code, answer.json()["rule"]) == (405, "method_not_allowed")
        assert answer.headers["allow"] == "OPTIONS, POST"
    hello = message(
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "test", "version": "0"},
    )
    answer = here.ask("POST", "/mcp", token, json=hello, headers=JSON)
    assert answer.json()["result"]["serverInfo"]["name"] == "omsgrain"
    assert "mcp-session-id" not in answer.headers
    ready = message("notifications/initialized", None)
    answer = here.ask("POST", "/mcp", token, json=ready, headers=JSON)
    assert (answer.status_code, answer.content) == (202, b"")


def test_limits_are_those_of_other_routes(here: Site) -> None:
    token = here.token()
    large = message("tools/call", name="recall", arguments={"query": "x" * 4_000})
    assert here.ask("POST", "/mcp", token, json=large, headers=JSON).status_code == 200
    assert here.service.large.waiting == 0
    larger = message("tools/call", name="recall", arguments={"query": "x" * 20_000})
    answer = here.ask("POST", "/mcp", token, json=larger, headers=JSON)
    assert (answer.status_code, answer.json()["rule"]) == (413, "body_too_large")
    answer = here.ask("POST", "/mcp", token, content=b"{}", headers=TYPED)
    assert (answer.status_code, answer.json()["rule"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{the yak", -32700), (b"7", -32600), (b"[]", -32600), (b'{"id": 1}', -32600)],
)
def test_what_is_no_message_gets_an_error(here: Site, body: bytes, code: int) -> None:
    answer = here.ask("POST", "/mcp", here.token(), content=body, headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in (code, -32602)
    assert "yak" not in here.log.getvalue()


def test_a_server_of_signed_bundles_imports_no_documents(tmp_path: Path) -> None:
    with site(tmp_path / "m.omsg", ServerOptions(require_signature=True)) as here:
        for tool in ("import", "import_memories", "import_memory"):
            result = call(here, here.token(tool), tool, data=json.dumps({"mif_version": "2.0"}))
            assert result["structuredContent"]["error"]["rule"] == "signature_missing"


def test_the_work_of_a_client_that_disconnects_ends(here: Site) -> None:
    """An import ends at a batch; the places of the request are free again."""
    records = [
        {"id": f"m{n}", "content": f"text {n}", "created_at": "2026-01-15T10:00:00Z"}
        for n in range(150)
    ]
    document = json.dumps({"mif_version": "2.0", "memories": records})
    asked = message("tools/call", name="import_memories", arguments={"data": document})
    body = json.dumps(asked).encode()
    token = here.token()
    answered: list[Any] = []

    async def disconnect() -> None:
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            return next(given, {"type": "http.disconnect"})

        async def send(sent: Any) -> None:
            answered.append(sent)

        headers = [(n.encode(), v.encode()) for n, v in JSON.items()]
        headers.append((b"authorization", f"Bearer {token}".encode()))
        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "path": "/mcp",
            "raw_path": b"/mcp", "query_string": b"", "headers": headers,
        }  # fmt: skip
        await here.app(scope, receive, send)

    here.loop.run_until_complete(asyncio.wait_for(disconnect(), 20))
    assert answered == []
    assert call(here, token, "recall")["structuredContent"]["memories"] is not None


def test_without_the_sdk_the_rest_is_served(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    token = here.token()
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    for name in [name for name in sys.modules if name.startswith("omsgrain.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    answer = here.ask("POST", "/mcp", token, json=message("tools/list"), headers=JSON)
    assert (answer.status_code, answer.json()["rule"]) == (404, "not_found")
    assert "'mcp'" in answer.json()["detail"]
    lines = by_lines(bundle(chunk(1)))
    headers = {"content-type": "application/x-ndjson"}
    answer = here.ask("POST", "/v1/brain/import", token, content=lines, headers=headers)
    assert answer.status_code == 200
