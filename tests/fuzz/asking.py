# SPDX-License-Identifier: Apache-2.0
"""Requests of users and agents: queries, cursors, searches, HTTP, MCP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

import omsgrain as og
from fuzz.target import Run, Target
from omsgrain.server.routes import ROUTES
from omsgrain.server.service import ServerOptions
from omsgrain.sync.protocol import MEDIA, QUESTIONS, pack
from support.http_server import BLOB, BUNDLE, LINES, Site, bundle, by_lines, chunk, lamp, site
from support.sync_messages import GOOD as SYNC

_LIMITS: Final = {"limit": 20}


@contextmanager
def _store(room: Path) -> Iterator[og.GrainStore]:
    with og.open(room / "memory.omsg", durability="relaxed") as store:
        store.put_many([lamp(f"lit {n}", user_id="ada", structural_tags=["a", f"t{n}"],
                             namespace=f"hall:{n % 3}", created_at=1_768_471_200_000 + n)
                        for n in range(40)])  # fmt: skip
        yield store


@contextmanager
def _query(room: Path) -> Iterator[Run]:
    """Filters as JSON; the value of "search" is searched for."""
    with _store(room) as store:

        def run(data: bytes) -> None:
            try:
                asked = json.loads(data)
            except (ValueError, RecursionError):
                asked = {"words": data.decode("utf-8", "replace")}
            if not isinstance(asked, dict):
                asked = {"object": asked}
            text = asked.pop("search", None)
            known = {name: value for name, value in asked.items() if name in _ASKED}
            if text is not None:
                store.search(
                    text, limit=5, **{n: known[n] for n in ("type", "namespace") if n in known}
                )
            page = store.query(**{**_LIMITS, **known})
            seen = [hit.address for hit in page.results]
            assert len(set(seen)) == len(seen) <= 1_000
            if page.next_cursor is not None:
                more = store.query(**{**_LIMITS, **known, "cursor": page.next_cursor})
                assert not {hit.address for hit in more.results} & set(seen)

        yield run


_ASKED: Final = (
    "type", "namespace", "subject", "relation", "object", "user_id", "session_id", "run_id", "tag",
    "origin", "created_after", "created_before", "valid_at", "known_at", "current",
    "min_confidence", "verification_status", "words", "where", "order", "limit", "cursor", "count",
    "explain", "scan", "bookkeeping",
)  # fmt: skip


def _queries() -> list[bytes]:
    asked: list[dict[str, Any]] = [
        {"subject": "lamp", "relation": "is"},
        {"type": "belief", "namespace": "hall:*", "limit": 3},
        {"object": "lit 3", "count": True, "explain": True},
        {"created_after": 1_768_471_200_010, "created_before": "2026-02-01T00:00:00Z"},
        {"valid_at": 5, "current": None, "order": "oldest"},
        {"known_at": "2026-01-15T10:00:00Z", "verification_status": "unverified"},
        {"words": "lit lamp", "min_confidence": 0.2, "tag": "a"},
        {"cursor": "AgABAgMEBQYHAAECAwQFBgcICQoLDA0ODw==", "user_id": "ada"},
        {"user_id": "ada", "where": {"object": {"ne": "lit 3"}, "context.a\\.b": {"lt": 2.5}}},
        {"search": 'lamp AND "lit 3" OR NEAR(lit lamp)', "type": "belief"},
        {"search": "lit* -dim user:ada ^x (", "namespace": "hall:1"},
    ]
    return [json.dumps(one).encode() for one in asked]


# -- HTTP -----------------------------------------------------------------------------------------


@contextmanager
def _http(room: Path) -> Iterator[Run]:
    """A request as text: method and path, headers, an empty line, and the body."""
    with site(room / "m.omsg", ServerOptions()) as served:
        tokens = {"A": served.token(), "S": served.sync_token()}
        for n in range(5):
            served.ask("POST", "/v1/grains", tokens["A"], json=lamp(f"lit {n}"))

        def run(data: bytes) -> None:
            _ask(served, tokens, data)

        yield run


def _ask(served: Site, tokens: dict[str, str], data: bytes) -> None:
    head, _, body = data.partition(b"\n\n")
    first, *rest = head.decode("latin-1").split("\n")
    method, _, path = first.partition(" ")
    headers = [line.partition(":")[::2] for line in rest]
    try:
        request = served.client.build_request(
            method or "GET", "/" + path.lstrip("/"), content=body,
            headers=[(name.strip() or "x", value.strip()) for name, value in headers],
        )  # fmt: skip
    except Exception:  # the client refuses to make such a request
        return
    for name, token in tokens.items():
        if request.headers.get("x-as") == name:
            request.headers["authorization"] = f"Bearer {token}"
    answer = served.loop.run_until_complete(served.client.send(request))
    assert answer.status_code < 500, answer.status_code
    if answer.status_code >= 400 and request.method != "HEAD":
        refused = answer.json()
        if "jsonrpc" in refused:  # an error of MCP
            assert isinstance(refused["error"]["code"], int)
        else:
            assert refused["status"] == answer.status_code


def _requests() -> list[bytes]:
    found = []
    bodies = {
        BUNDLE: bundle(chunk(1), chunk(2)), LINES: by_lines(bundle(chunk(3))),
        BLOB: og.encode(lamp("blob")), "application/json": json.dumps(lamp("json")).encode(),
    }  # fmt: skip
    for route in ROUTES:
        path = route.path.replace("{address}", "f" * 64).replace("{name}", "ada")
        asked = "&".join(f"{p.name}={p.default or 1}" for p in route.parameters)
        for media in route.bodies or ("",):
            body = bodies.get(media, b"{}")
            if media == MEDIA:
                name = path.rsplit("/", 1)[-1]
                body = pack(SYNC[name][0]) if name in QUESTIONS else b""
            who = "S" if "sync" in path else "A"
            lines = [f"{route.method} {path}?{asked}", f"x-as: {who}"]
            if media:
                lines.append(f"content-type: {media}")
            found.append("\n".join(lines).encode() + b"\n\n" + body)
    calls = (
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
         "params": {"name": "recall", "arguments": {"query": "lamp"}}},
        {"jsonrpc": "2.0", "id": "a", "method": "resources/read",
         "params": {"uri": "omsgrain://recent"}},
    )  # fmt: skip
    accept = "accept: application/json, text/event-stream"
    head = f"POST /mcp\nx-as: A\ncontent-type: application/json\n{accept}\n\n".encode()
    found += [head + json.dumps(one).encode() for one in calls]
    odd = (
        b"GET /v1/brain/export?embedding_dim=2&since=x\nx-as: A\naccept-encoding: gzip;q=1, *\n\n"
    )
    both = b"POST /v1/brain/import\nx-as: A\ncontent-length: 2\ntransfer-encoding: chunked\n\n{}"
    long = b"POST /v1/grains\nx-as: A\ncontent-length: 99999999999\nexpect: 100-continue\n\n[]"
    return [*found, odd, both, long, b"GET /v1/grains?subject=lamp\nx-as: A\nrange: bytes=0-1\n\n"]


# -- MCP ------------------------------------------------------------------------------------------


@contextmanager
def _mcp(room: Path) -> Iterator[Run]:
    """A tool and its arguments as JSON."""
    from omsgrain.mcp.arguments import read
    from omsgrain.mcp.server import Threads
    from omsgrain.mcp.service import McpOptions, McpService
    from omsgrain.mcp.tools import TOOLS

    (room / "files").mkdir()
    with _store(room) as store:
        service = McpService(store, McpOptions(user="ada", root=room / "files"), Threads(8))

        def run(data: bytes) -> None:
            try:
                asked = json.loads(data)
            except (ValueError, RecursionError):
                return
            if not isinstance(asked, dict):
                return
            name, given = asked.get("name"), asked.get("arguments")
            told = TOOLS.get(name) if isinstance(name, str) else None
            if told is None or not (given is None or isinstance(given, dict)):
                return

            async def call() -> None:
                work = partial(told.handler, service, read(told.arguments, given))
                await service.work.run(work, large=False)

            anyio.run(call)
            for path in (room / "files").iterdir():
                path.unlink()

        yield run


def _calls() -> list[bytes]:
    from support.mif1_documents import MINIMAL as MIF1
    from support.mif2_documents import MINIMAL as MIF2

    calls: list[tuple[str, dict[str, Any]]] = [
        ("remember", {"content": "The zebra prefers oat milk", "tags": ["a"], "importance": 0.5}),
        ("remember", {"content": "x", "replaces": "f" * 64, "metadata": {"by": [1, None]}}),
        ("recall", {"query": "which lamp is lit", "limit": 3, "since": "2026-01-01T00:00:00Z"}),
        ("recall", {"tag": "a", "type": "belief"}),
        ("forget", {"id": "f" * 64, "reason": "asked"}),
        ("history", {"id": "f" * 64}),
        ("export_memories", {"since": "2026-01-01T00:00:00Z", "redact_pii": True}),
        ("export_memories", {"path": "out.json"}),
        ("export", {"format": "mif-ld", "redact_pii": False}),
        ("import", {"data": json.dumps(MIF1), "dry_run": True}),
        ("update", {"id": "f" * 64, "content": "The zebra sleeps"}),
        ("context", {"question": "which lamp", "budget": 100, "at": "2026-01-01T00:00:00Z"}),
        ("import_memories", {"data": MIF2, "dry_run": True}),
        ("import_memories", {"data": json.dumps(MIF1), "merge_strategy": "overwrite"}),
        ("export_memory", {"format": "yaml", "include_graph": False}),
        ("import_memory", {"data": json.dumps(MIF1), "merge_strategy": "rename"}),
    ]
    return [json.dumps({"name": name, "arguments": given}).encode() for name, given in calls]


@contextmanager
def _mcp_lines(room: Path) -> Iterator[Run]:
    """Lines as they come over a pipe, before any of them is a message."""
    import os

    from omsgrain.mcp.transport import DescriptorLines

    def run(data: bytes) -> None:
        here, there = os.pipe()
        os.write(there, data[:60_000])
        os.close(there)
        lines = DescriptorLines(here, 200)
        found = []
        while line := lines.readline():
            found.append(line)
            assert len(line.encode("utf-8", "surrogatepass")) < 1_200
        assert len(found) <= data.count(b"\n") + 1
        for number in (here, lines._wake, lines._waker):
            os.close(number)

    yield run


def _mcp_seeds() -> list[bytes]:
    line = b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "recall"}}\n'
    long = b'{"jsonrpc": "2.0", "method": "x", "params": "' + b"y" * 400 + b'", "id": "a1"}\n'
    return [line * 3, line + long + line, long[:-1], b"\xff\xfe" + line, b"\n\n" + long * 2]


TARGETS = {
    "query": Target(_query, _queries, "json"),
    "http": Target(_http, _requests, "lines"),
    "mcp": Target(_mcp, _calls, "json"),
    "mcp lines": Target(_mcp_lines, _mcp_seeds),
}
