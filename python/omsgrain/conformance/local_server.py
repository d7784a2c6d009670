# SPDX-License-Identifier: Apache-2.0
"""Runs a server of this build in this process, without a network."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx

import omsgrain as og
from omsgrain.server.app import application
from omsgrain.server.log import Log
from omsgrain.server.service import HttpService, ServerOptions, Stores
from omsgrain.storage.tokens import open_tokens

_TENANT: Final = "11111111-1111-4111-8111-111111111111"
_BASE: Final = "http://omsgrain.test"


class _Through(httpx.BaseTransport):
    """Sends requests to an application, one at a time, in its own event loop."""

    def __init__(self, app: Any) -> None:
        self._loop = asyncio.new_event_loop()
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url=_BASE)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        asked = self._client.request(
            request.method, str(request.url), headers=request.headers, content=request.read()
        )
        found = self._loop.run_until_complete(asked)
        headers = [  # httpx has already decompressed the content
            (name, value) for name, value in found.headers.items() if name != "content-encoding"
        ]
        return httpx.Response(found.status_code, headers=headers, content=found.content)

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()


def client(
    path: Path, until: ExitStack
) -> tuple[httpx.Client, Callable[[str, Sequence[str]], str]]:
    """Serve a new store; return a client and a function that makes tokens."""
    og.open(path).close()
    service = HttpService(Stores(og.open(path, count_access=False)), ServerOptions())
    until.callback(service.close)
    until.callback(service.stop)
    asked = httpx.Client(
        transport=_Through(application(service, Log("json", io.StringIO()))), base_url=_BASE
    )
    until.enter_context(asked)

    def token(name: str, scopes: Sequence[str]) -> str:
        with open_tokens(path) as tokens:
            return tokens.add(name, _TENANT, scopes)

    return asked, token
