# SPDX-License-Identifier: Apache-2.0
"""The state of a service of ``Type=notify``: sd_notify(3), a datagram to systemd's socket."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final

READY: Final = b"READY=1"
STOPPING: Final = b"STOPPING=1"
_SOCKET: Final = "NOTIFY_SOCKET"


def notify(state: bytes) -> None:
    """Send a state, if systemd started this process and waits for it."""
    address = os.environ.get(_SOCKET, "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return
    if address[0] == "@":  # a name without a file
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state, address)


def forget() -> None:
    """Send nothing from now on: only the main process of a service speaks for it."""
    os.environ.pop(_SOCKET, None)
