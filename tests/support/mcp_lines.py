# SPDX-License-Identifier: Apache-2.0
"""A server of MCP without a client: its lines are written and read by hand."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.mcp_agents import parameters


def request(n: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}).encode()


HELLO = request(
    0,
    "initialize",
    protocolVersion="2025-06-18",
    capabilities={},
    clientInfo={"name": "test", "version": "0"},
)
READY = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()


class Process:
    """A server process."""

    def __init__(self, path: Path | str, *options: object) -> None:
        given = parameters(path, *options)
        command = [given.command, *given.args]
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=given.env)

    def say(self, *lines: bytes) -> None:
        assert self.child.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and does not read the rest
            self.child.stdin.write(b"".join(line + b"\n" for line in lines))
            self.child.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.child.stdout is not None
        line: dict[str, Any] = json.loads(self.child.stdout.readline())
        return line

    def end(self) -> tuple[int, bytes, str]:
        out, err = self.child.communicate(timeout=30)
        return self.child.returncode, out, err.decode()


def remember(n: int, content: str) -> bytes:
    return request(n, "tools/call", name="remember", arguments={"content": content})
