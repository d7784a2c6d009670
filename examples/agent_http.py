# SPDX-License-Identifier: Apache-2.0
"""An agent on another machine: remember and recall over HTTP, with a token.

    pip install '.[server,mcp]'
    python examples/agent_http.py memory.omsg

It makes a token for ada's memory and starts `omsgrain serve`, as an operator does. Then it calls
the tools of MCP at `/mcp` by plain requests, so a client in any language can do the same. The
server refuses a request without the token.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

TENANT = "urn:example:ada"
_numbers = count(1)


def make_token(store: Path) -> str:
    """Make a token that reads and writes ada's memory, and return it."""
    command = [sys.executable, "-m", "omsgrain", "token", "add", str(store), "agent", "--create"]
    command += ["--tenant", TENANT, "--scope", "import", "--scope", "export", "--json"]
    done = subprocess.run(command, check=True, capture_output=True)
    token: str = json.loads(done.stdout)["token"]
    return token


@contextmanager
def serving(store: Path) -> Iterator[str]:
    """Serve a store at a free port; yield the URL."""
    command = [sys.executable, "-m", "omsgrain", "serve", str(store), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.terminate()


def call(url: str, token: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and return its answer."""
    message = {
        "jsonrpc": "2.0",
        "id": next(_numbers),
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    with urlopen(Request(f"{url}/mcp", json.dumps(message).encode(), headers)) as answer:
        result: dict[str, Any] = json.load(answer)["result"]
    if result.get("isError"):
        raise RuntimeError(f"{tool}: {result['structuredContent']}")
    return dict(result["structuredContent"])


def main(arguments: list[str]) -> int:
    """Remember, recall, and try it without the token."""
    store = Path(arguments[0])
    token = make_token(store)
    with serving(store) as url:
        tea = call(url, token, "remember", content="Ada drinks green tea.", tags=["kitchen"])
        call(url, token, "update", id=tea["id"], content="Ada drinks black tea.")
        found = call(url, token, "recall", query="What tea does she drink?")
        print("recalled:", *(one["content"] for one in found["memories"]))
        print("versions:", len(call(url, token, "history", id=tea["id"])["versions"]))
        try:
            call(url, "omg_of_nobody", "recall")
        except HTTPError as refused:
            print("without the token:", refused.code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
