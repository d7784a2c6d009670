# SPDX-License-Identifier: Apache-2.0
"""A client of the SDK 1.x, as a program: it starts a server by a command, and prints what it got.

    python mcp_client_1.py COMMAND ARGUMENT...

With a URL and a token in place of the command, it uses Streamable HTTP.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any


async def converse(session: Any) -> dict[str, Any]:
    """Call some methods, and return the results as JSON."""
    hello = await session.initialize()
    tools = await session.list_tools()
    made = await session.call_tool("remember", {"content": "The lynx naps", "tags": ["zoo"]})
    found = await session.call_tool("recall", {"query": "lynx"})
    refused = await session.call_tool("forget", {"id": "f" * 64})
    resource = await session.read_resource("omsgrain://stats")
    prompt = await session.get_prompt("about", {"topic": "lynx"})
    return {
        "sdk": version("mcp"),
        "server": hello.serverInfo.name,
        "tools": [tool.name for tool in tools.tools],
        "made": made.structuredContent,
        "found": found.structuredContent,
        "refused": refused.structuredContent,
        "stats": json.loads(resource.contents[0].text),
        "messages": len(prompt.messages),
    }


async def main(where: str, *rest: str) -> None:
    from mcp import ClientSession, StdioServerParameters, stdio_client

    if where.startswith("http://"):
        connect: Any = import_module("mcp.client.streamable_http").streamablehttp_client
        headers = {"Authorization": f"Bearer {rest[0]}"}
        async with (
            connect(where, headers=headers) as (incoming, outgoing, _),
            ClientSession(incoming, outgoing) as session,
        ):
            print(json.dumps(await converse(session)))
        return
    how = StdioServerParameters(command=where, args=[*rest])
    async with (
        stdio_client(how) as (incoming, outgoing),
        ClientSession(incoming, outgoing) as session,
    ):
        print(json.dumps(await converse(session)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
