# SPDX-License-Identifier: Apache-2.0
"""An agent that remembers over MCP: a client of the official package and omsgrain's server.

    pip install '.[mcp]' 'mcp>=2'
    python examples/agent.py memory.omsg

The client starts `omsgrain mcp` as a process and talks to it over stdin and stdout. It lists the
tools, stores memories, recalls them, replaces one, reads its history, and forgets it. The server
is bound to one user, so an agent cannot reach the memory of another user.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

import omsgrain as og

USER = "ada"


def server(store: Path) -> StdioServerParameters:
    """How an agent program starts the server: a command, and its arguments."""
    arguments = ["-m", "omsgrain", "mcp", str(store), "--user", USER]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers, as JSON-ready values."""
    answer = await client.call_tool(tool, arguments)
    if answer.is_error:
        raise RuntimeError(f"{tool}: {answer.structured_content}")
    return dict(answer.structured_content or {})


async def converse(store: Path) -> None:
    """A session."""
    async with Client(stdio_client(server(store))) as client:
        tools = await client.list_tools()
        print("tools:", ", ".join(sorted(tool.name for tool in tools.tools)))

        tea = await call(client, "remember", content="Ada drinks green tea.", tags=["kitchen"])
        await call(client, "remember", content="The train to Bern leaves at 7:02.")
        found = await call(client, "recall", query="tea")
        print("recalled:", found["memories"][0]["content"])

        await call(client, "remember", content="Ada drinks black tea.", replaces=tea["id"])
        found = await call(client, "recall", query="tea")
        print("recalled:", *(one["content"] for one in found["memories"]))
        past = await call(client, "history", id=tea["id"])
        print("before:", past["versions"][0]["content"])

        await call(client, "forget", id=tea["id"], reason="she asked for it")
        found = await call(client, "recall", query="tea")
        print("after forgetting:", len(found["memories"]), "found")


def main(arguments: list[str]) -> int:
    """Run the session, and show who did what."""
    path = Path(arguments[0])
    og.open(path).close()  # the server wants a store that is there
    asyncio.run(converse(path))
    with og.open(path, readonly=True) as store:
        print("audit trail:", *(f"{e.operation} by {e.actor};" for e in store.audit.entries()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
