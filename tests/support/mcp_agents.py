# SPDX-License-Identifier: Apache-2.0
"""An agent: the official client, over stdio, with `omsgrain mcp` as its process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import httpx2
from anyio.from_thread import start_blocking_portal
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, TextResourceContents

import omsgrain as og

ADA, BOB = "ada", "bob"
TIME = 1_768_471_200_000
NOWHERE = "f" * 64
NOBODY = "00000000-0000-4000-8000-000000000000"


class Agent:
    """A client that has a server of its own.

    Attributes:
        client: the official one.
    """

    def __init__(self, client: Client, run: Callable[..., Any], log: Any) -> None:
        self.client = client
        self._run = run
        self._log = log

    def ask(self, method: str, *given: Any) -> Any:
        """Return the result of a method of the client."""
        return self._run(partial(getattr(self.client, method), *given))

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        """Return the answer of a tool."""
        answer = self.ask("call_tool", tool, arguments)
        assert isinstance(answer, CallToolResult)
        return answer

    def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of a tool that succeeds."""
        answer = self.call(tool, **arguments)
        assert not answer.is_error, text_of(answer)
        assert isinstance(answer.structured_content, dict)
        return answer.structured_content

    def text(self, tool: str, **arguments: Any) -> str:
        """The text of such an answer."""
        answer = self.call(tool, **arguments)
        assert not answer.is_error, text_of(answer)
        return text_of(answer)

    def error(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of a tool that refuses."""
        answer = self.call(tool, **arguments)
        assert answer.is_error, text_of(answer)
        error: dict[str, Any] = answer.structured_content["error"]
        assert text_of(answer).startswith(error["code"] + ": ")
        return error

    def read(self, uri: str) -> Any:
        """Return the content of a resource."""
        (found,) = self.ask("read_resource", uri).contents
        assert isinstance(found, TextResourceContents)
        return json.loads(found.text)

    def refused(self, method: str, *given: Any) -> MCPError:
        """The error of the protocol that a method ends with."""
        try:
            self.ask(method, *given)
        except MCPError as error:
            return error
        raise AssertionError("it was not refused")

    def log(self) -> str:
        """Return the server's stderr so far."""
        self._log.seek(0)
        text: str = self._log.read()
        return text


@contextmanager
def agent(path: Path, *options: object, user: str = ADA) -> Iterator[Agent]:
    """Start a server for a store, and a client of it."""
    with started(parameters(path, *options, user=user)) as one:
        yield one


@contextmanager
def started(how: StdioServerParameters) -> Iterator[Agent]:
    """Start a server, and a client of it."""
    with TemporaryFile("w+") as log, connected(stdio_client(how, errlog=log), log) as one:
        yield one


@contextmanager
def connected(transport: Any, log: Any = None, mode: Any = "auto") -> Iterator[Agent]:
    """Make a client of a server that runs."""
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        client = stack.enter_context(
            portal.wrap_async_context_manager(Client(transport, mode=mode))
        )
        yield Agent(client, portal.call, log)


@contextmanager
def over_http(url: str, token: str, mode: Any = "auto") -> Iterator[Agent]:
    """Make a client of ``omsgrain serve``."""
    headers = {"authorization": f"Bearer {token}"}

    @asynccontextmanager
    async def transport() -> AsyncIterator[Any]:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            streamable_http_client(f"{url}/mcp", http_client=http) as streams,
        ):
            yield streams

    with connected(transport(), mode=mode) as one:
        yield one


def parameters(path: Path | str, *options: object, user: str = ADA) -> StdioServerParameters:
    """How the server is started."""
    args = ["-m", "omsgrain", "mcp", str(path), "--user", user, *map(str, options)]
    return StdioServerParameters(command=sys.executable, args=args, env=environment())


OTHER_SDK = "OMSGRAIN_TEST_MCP"
"""The variable with a directory of packages: servers find another version of the SDK there."""


def environment() -> dict[str, str]:
    """The environment of a server: what it needs of the test's own."""
    names = ("PYTHONPATH", "OMSGRAIN_KEYS", "OMSGRAIN_MASTER")
    found = {name: os.environ[name] for name in names if name in os.environ}
    if (other := os.environ.get(OTHER_SDK)) is not None:
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (other, found.get("PYTHONPATH"))))
    return found


def server_environment() -> dict[str, str]:
    """The same for ``omsgrain serve``."""
    return {**os.environ, **environment()}


def text_of(answer: CallToolResult) -> str:
    (first,) = answer.content
    assert isinstance(first, TextContent)
    return first.text


def belief(subject: str, *, user: str | None, at: int = 0, **more: Any) -> og.Grain:
    """A grain that no tool made."""
    return og.Belief(
        subject=subject, relation="is", object="violet", user_id=user, created_at=TIME + at, **more
    )
