# SPDX-License-Identifier: Apache-2.0
"""A tree of Debian's packages, to start programs of another system in."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from support.servers.debian import needed

__all__ = ["pack"]

#: Of Debian, with Python 3.13 and the programs `python` and `pip`, as the official image has them.
SUITE = "trixie"
PACKAGES = "ca-certificates,python-is-python3,python3-pip,python3-venv"
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")


def pack(archive: Path) -> None:
    """Write the tree to an archive, unless it is there.

    Raises:
        Unavailable: debootstrap is missing, and cannot be installed.
    """
    if archive.exists():
        return
    root = archive.parent / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    debootstrap = str(needed("debootstrap", "debootstrap"))
    command = [debootstrap, "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)]
    subprocess.run(command, check=True, capture_output=True)
    if TRUSTED.exists():  # what this machine trusts, as a proxy of its network
        shutil.copy(TRUSTED, root / TRUSTED.relative_to("/"))
    for place in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(root / place)
    part = archive.with_suffix(".part")
    subprocess.run(["tar", "-C", str(root), "-cf", str(part), "."], check=True)
    part.rename(archive)
    shutil.rmtree(root)
