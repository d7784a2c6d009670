# SPDX-License-Identifier: Apache-2.0
"""nats-server, with JetStream."""

from __future__ import annotations

from pathlib import Path

from support.servers.debian import Server, free_port, needed

__all__ = ["jetstream"]


def jetstream(directory: Path, *more: str | Path) -> Server:
    """A server that keeps its streams below a directory; not started yet.

    Args:
        directory: is made if it is not there.
        more: options of the server.

    Raises:
        Unavailable: there is no nats-server here.
    """
    command = needed("nats-server", "nats-server")
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    options: list[str | Path] = [
        "-a",
        "127.0.0.1",
        "-p",
        str(port),
        "-js",
        "-sd",
        directory / "streams",
    ]
    return Server([command, *options, *more], port, directory / "said.log")
