# SPDX-License-Identifier: Apache-2.0
"""Servers without a network, and the requests that are made of them."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

import omsgrain as og
from omsgrain.formats.aimem.document import Bundle, write_bundle
from omsgrain.server.app import application
from omsgrain.server.log import Log
from omsgrain.server.service import HttpService, ServerOptions, Stores
from support.tokens import add_token

ADA, GRACE = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
ALL = ("import", "export", "admin")
SYNC = ("sync:read", "sync:write", "sync:admin")
BUNDLE, LINES, BLOB = (
    "application/aimem-bundle+json",
    "application/x-ndjson",
    "application/octet-stream",
)
TIME = 1_768_471_200_000
IMPORT, EXPORT, STREAM = "/v1/brain/import", "/v1/brain/export", "/v1/brain/export/stream"
TYPED = {"content-type": BUNDLE}

Content = bytes | AsyncIterator[bytes]


class Site:
    """A server in this process, and a loop in which requests are made of it.

    Attributes:
        path: of its store.
        service: what all requests share.
        log: what was logged.
    """

    def __init__(
        self,
        path: Path,
        options: ServerOptions | None = None,
        ring: Any = None,
        policy: str | None = None,
    ) -> None:
        self.path = path
        og.open(path, keys=ring).close()
        stores = Stores(og.open(path, keys=ring, policy=policy, count_access=False))
        self.log = io.StringIO()
        log = Log("json", self.log)
        self.service = HttpService(stores, options or ServerOptions(), log)
        self.app = application(self.service, log)
        self.loop = asyncio.new_event_loop()
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://omsgrain.test")

    def token(self, name: str = "ada", tenant: str = ADA, scopes: Any = ALL) -> str:
        """Make a token."""
        return add_token(self.path, name, tenant, scopes)

    def sync_token(self, name: str = "robot", scopes: Any = SYNC, *namespaces: str) -> str:
        """Make a token for another store: of namespaces, or of all there is."""
        return add_token(self.path, name, None, scopes, namespaces=namespaces)

    def ask(
        self, method: str, path: str, token: str | None = None, **given: Any
    ) -> httpx.Response:
        """Make a request and hear the whole answer."""
        headers = dict(given.pop("headers", {}))
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        request = self.client.request(method, path, headers=headers, **given)
        return self.loop.run_until_complete(asyncio.wait_for(request, 20))

    def wire(self, path: str, token: str, encoding: str) -> tuple[httpx.Headers, bytes]:
        """GET with an Accept-Encoding, and the body's bytes as they go over the wire."""
        headers = {"authorization": f"Bearer {token}", "accept-encoding": encoding}

        async def read() -> tuple[httpx.Headers, bytes]:
            async with self.client.stream("GET", path, headers=headers) as answer:
                return answer.headers, b"".join([part async for part in answer.aiter_raw()])

        return self.loop.run_until_complete(asyncio.wait_for(read(), 20))

    def lines(self) -> list[dict[str, Any]]:
        """Return the log."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def close(self) -> None:
        """Let go of all of it."""
        self.loop.run_until_complete(self.client.aclose())
        self.service.stop()
        self.service.close()
        self.loop.close()


@contextmanager
def site(
    path: Path, options: ServerOptions | None = None, ring: Any = None, policy: str | None = None
) -> Iterator[Site]:
    """A server on a new store."""
    found = Site(path, options, ring, policy)
    try:
        yield found
    finally:
        found.close()


def lamp(what: str = "on", **more: Any) -> dict[str, Any]:
    """A grain in JSON."""
    fields = {"type": "belief", "subject": "lamp", "relation": "is", "object": what}
    return {**fields, "confidence": 0.5, "created_at": TIME, **more}


def chunk(
    n: int, content: str | None = None, producer: str = "lab", **more: Any
) -> dict[str, Any]:
    """A chunk."""
    text = f"note {n}" if content is None else content
    return {
        "id": f"urn:aimem:{producer}:c{n}",
        "content": text,
        "content_hash": "sha256:" + sha256(text.encode()).hexdigest(),
        "memory_type": "fact",
        "created_at": "2026-01-15T10:00:00Z",
        **more,
    }


def envelope(**more: Any) -> dict[str, Any]:
    """An envelope without its checksum."""
    return {
        "format": "aimem-bundle",
        "version": "1",
        "producer": "lab",
        "tenant_id": ADA,
        "exported_at": "2026-02-01T00:00:00Z",
        "scope": "FULL",
        **more,
    }


def bundle(*chunks: dict[str, Any], **more: Any) -> bytes:
    """A bundle in one document, with its checksum."""
    return write_bundle(Bundle(envelope(**more), {"chunk": list(chunks)}))


def by_lines(document: bytes) -> bytes:
    """The same bundle by lines."""
    whole = json.loads(document)
    kinds = {
        "chunks": "chunk",
        "edges": "edge",
        "entities": "entity",
        "chunk_entities": "chunk_entity",
    }
    arrays = {name: whole.pop(name, []) for name in kinds}
    lines = [whole, *({"_kind": kinds[n]} | record for n, a in arrays.items() for record in a)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def imported(served: Site, token: str, body: bytes, **headers: str) -> dict[str, Any]:
    """Import a bundle that is to be taken; its summary."""
    answer = served.ask("POST", IMPORT, token, content=body, headers=TYPED | headers)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def chunks(document: httpx.Response) -> list[dict[str, Any]]:
    """The chunks of an export."""
    assert document.status_code == 200, document.text
    found: list[dict[str, Any]] = document.json()["chunks"]
    return found
