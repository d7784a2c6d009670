# SPDX-License-Identifier: Apache-2.0
"""Mosquitto, a broker of MQTT."""

from __future__ import annotations

from pathlib import Path

from support.servers.debian import Server, free_port, needed

__all__ = ["CONFIG", "broker"]

#: Nothing is thrown away, and what clients have not acknowledged outlives a stop. Started by root
#: it would change to a user who cannot write there.
CONFIG = """
user root
listener {port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {directory}/
max_queued_messages 0
max_inflight_messages 0
"""


def broker(directory: Path, more: str = "", config: str = CONFIG) -> Server:
    """A broker that keeps its sessions below a directory; not started yet.

    Raises:
        Unavailable: there is no Mosquitto here.
    """
    command = needed("mosquitto", "mosquitto")
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    file = directory / "mosquitto.conf"
    file.write_text(config.format(port=port, directory=directory) + more, "utf-8")
    return Server([command, "-c", file], port, directory / "said.log")
