# SPDX-License-Identifier: Apache-2.0
"""The process: stdin and stdout carry the protocol, stderr the log.

It ends when stdin ends, or with SIGTERM or SIGINT: received calls finish and get responses, and
the store is closed.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from io import FileIO
from typing import TypeVar

import anyio
from anyio.from_thread import check_cancelled
from anyio.to_thread import run_sync

import omsgrain as og
from omsgrain.mcp import sdk
from omsgrain.mcp.methods import application
from omsgrain.mcp.service import McpOptions, McpService
from omsgrain.mcp.tools import listed
from omsgrain.mcp.transport import DescriptorLines, messages
from omsgrain.server.log import Log

T = TypeVar("T")


def run(store: og.GrainStore, options: McpOptions, log: Log) -> None:
    """Serve until stdin ends, or SIGTERM or SIGINT comes; the store is closed then."""
    sdk.mute_logs()
    warnings.simplefilter("ignore")  # their text can have content
    lines = DescriptorLines(sys.stdin.fileno(), options.line)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: lines.stop())
    try:
        service = McpService(store, options, Threads(options.at_work))
        with _own_stdout() as out:
            anyio.run(_serve, service, lines, out, log)
    finally:
        store.close()


def _own_stdout() -> FileIO:
    """Take stdout for the protocol; whatever a library prints goes to stderr from now on."""
    sys.stdout.flush()
    out = FileIO(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return out


async def _serve(service: McpService, lines: DescriptorLines, out: FileIO, log: Log) -> None:
    server = application(log, service)
    async with messages(lines, out, service.options.line, log) as (incoming, outgoing):
        log.write("serving", tools=len(listed(service)))
        await sdk.run(server, incoming, outgoing)
    log.write("stopped")


class Threads:
    """Runs a few calls at once, and of those that take much memory one. For one event loop."""

    def __init__(self, at_work: int) -> None:
        self._work = anyio.CapacityLimiter(at_work)
        self._large = anyio.CapacityLimiter(1)  # a document takes ten times its size

    async def run(self, function: Callable[[], T], *, large: bool) -> T:
        """Run something in a thread. Cancellation waits for its end, or for `alive`."""
        return await run_sync(function, limiter=self._large if large else self._work)

    def alive(self) -> None:
        check_cancelled()
