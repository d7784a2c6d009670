# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window: what a page becomes when its scripts have run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from support.servers.debian import needed

__all__ = ["Seen", "look"]


class Seen(NamedTuple):
    """A page as a browser has it.

    Attributes:
        dom: its elements when all scripts have run, as HTML.
        said: what it wrote to its console, errors among it.
        picture: a PNG.
    """

    dom: str
    said: str
    picture: bytes


def look(page: Path, home: Path) -> Seen:
    """Open a page from its file, without a network.

    Args:
        page: the file.
        home: an empty directory for what the browser writes.

    Raises:
        Unavailable: Chromium cannot be installed here.
    """
    picture = home / "page.png"
    options = (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-background-networking", "--window-size=1200,3000",
        "--virtual-time-budget=5000", "--enable-logging=stderr", "--v=0",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={home / 'profile'}",
    )  # fmt: skip
    command = [str(needed("chromium", "chromium")), *options]
    shown = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True
    )
    subprocess.run(
        [*command, f"--screenshot={picture}", page.as_uri()], capture_output=True, check=True
    )
    lines = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    return Seen(shown.stdout, "\n".join(lines), picture.read_bytes())
