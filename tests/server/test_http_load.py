# SPDX-License-Identifier: Apache-2.0
"""Many clients of many tenants at once: none is sent away, nothing is lost or mixed up."""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

import omsgrain as og
from support.http_process import Served
from support.http_server import BUNDLE, LINES, bundle, by_lines, chunk
from support.tokens import add_token

IMPORT, EXPORT, STREAM = "/v1/brain/import", "/v1/brain/export", "/v1/brain/export/stream"
TOGETHER = 4  # clients of one tenant
WHOLE = 8  # each so many exports one is of all


@dataclass
class Client:
    """One of those at work.

    Attributes:
        number: of it; four that follow each other have one tenant.
        token: of its tenant.
        sent: the contents of the chunks that the server said it had inserted.
        took: seconds of each request, by path.
    """

    number: int
    token: str
    sent: list[str] = field(default_factory=list)
    took: dict[str, list[float]] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        return tenant_of(self.number)

    async def once(self, http: httpx.AsyncClient, turn: int) -> None:
        """Bring something in, and look that it and nothing of others comes out."""
        n = 1_000_000 * self.number + turn
        content = f"{self.tenant} {self.number} {turn}"
        at = f"2026-01-15T{turn // 3600 % 24:02}:{turn // 60 % 60:02}:{turn % 60:02}Z"
        data = bundle(chunk(n, content, created_at=at), tenant_id=self.tenant)
        lines = turn % 2 == 1
        media = {"content-type": LINES if lines else BUNDLE}
        body = by_lines(data) if lines else data
        answer = await self.ask(http, "POST", IMPORT, content=body, headers=media)
        assert answer.json()["chunks_inserted"] == 1, answer.text
        self.sent.append(content)
        whole = turn % WHOLE == 0
        asked = {} if whole else {"scope": "SINCE", "since": at}
        answer = await self.ask(http, "GET", STREAM if lines else EXPORT, params=asked)
        if lines:
            records = [json.loads(line) for line in answer.content.splitlines()[1:]]
        else:
            records = answer.json()["chunks"]
        found = {record["content"] for record in records}
        assert all(text.startswith(self.tenant) for text in found)
        assert set(self.sent if whole else [content]) <= found

    async def ask(
        self, http: httpx.AsyncClient, method: str, path: str, **given: object
    ) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token}", **given.pop("headers", {})}  # type: ignore[dict-item]
        start = time.perf_counter()
        answer = await http.request(method, path, headers=headers, **given)  # type: ignore[arg-type]
        self.took.setdefault(path, []).append(time.perf_counter() - start)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer


def tenant_of(number: int) -> str:
    return str(UUID(int=number // TOGETHER + 1, version=4))


def at_work(
    path: Path, count: int, goes_on: Callable[[int], bool]
) -> tuple[list[Client], list[dict[str, Any]]]:
    """Let many clients work on a server until each has had enough; they, and what it logged."""
    tenants = {tenant_of(n) for n in range(count)}
    tokens = {
        tenant: add_token(path, f"t{i}", tenant, ("import", "export"))
        for i, tenant in enumerate(sorted(tenants))
    }
    clients = [Client(n, tokens[tenant_of(n)]) for n in range(count)]

    async def work(http: httpx.AsyncClient, client: Client) -> None:
        turn = 0
        while goes_on(turn):
            await client.once(http, turn)
            turn += 1

    async def all_of_them(url: str) -> None:
        limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as http:
            await asyncio.gather(*(work(http, client) for client in clients))

    with Served(path, "--log-format", "json") as served:
        asyncio.run(all_of_them(served.url))
        assert served.end(signal.SIGTERM) == 0
        assert "defect" not in served.log
        return clients, served.lines()


def test_many_at_once_lose_nothing(
    tmp_path: Path, long: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.omsg"
    og.open(path).close()
    start = time.perf_counter()
    if long:
        clients, logged = at_work(path, 200, lambda _: time.perf_counter() - start < 60)
    else:
        clients, logged = at_work(path, 20, lambda turn: turn < 2)
    took = time.perf_counter() - start
    with og.open(path) as store:
        for tenant in {client.tenant for client in clients}:
            mine = {grain["object"] for grain in store if grain["user_id"] == tenant}
            assert mine == {text for one in clients if one.tenant == tenant for text in one.sent}
        assert len(store) == sum(len(client.sent) for client in clients)
        assert store.maintenance.check().ok
    assert {line["status"] for line in logged} == {200}
    if not long:
        return
    with capsys.disabled():
        print(f"\n{len(clients)} clients: {len(logged) / took:.0f} requests a second")
        for name in (IMPORT, EXPORT, STREAM):
            # One process plays all clients, so most of what they wait for is one another.
            theirs = [1e3 * t for client in clients for t in client.took.get(name, ())]
            ours = [line["ms"] for line in logged if line["route"] == name]
            print(f"{name}: {len(ours)} requests; {told(ours)} in the server, {told(theirs)} seen")


def told(times: list[float]) -> str:
    cuts = statistics.quantiles(times, n=100)
    some = ", ".join(f"p{p} {cuts[p - 1]:.0f}" for p in (50, 95, 99))
    return f"{some}, at most {max(times):.0f} ms"
