# SPDX-License-Identifier: Apache-2.0
"""A wheel beside Debian's own packages, as the how-to says: what it takes, and that it works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.paths import DEBIAN, ROOT
from support.servers.debian_tree import pack

pytestmark = pytest.mark.services

PAGE = ROOT / "docs" / "how-to" / "install.md"
SECTION = re.compile(r"^### With Debian's packages\n.*?```sh\n(.*?)```\n(.*?)^#", re.M | re.S)
#: The bytes of what apt and pip added, without compiled modules and without pip.
ADDED = (
    "find /usr /memory -type f -cnewer /before ! -name '*.pyc' ! -path '*/pip*' -printf '%s\\n'"
)


@pytest.fixture
def tree(wheel: Path, tmp_path: Path) -> Iterator[Path]:
    """A Debian with the wheel and the examples in its root directory."""
    pack(DEBIAN)
    root = tmp_path / "debian"
    root.mkdir()
    subprocess.run(["tar", "-C", root, "-xf", DEBIAN], check=True)
    shutil.copy(wheel, root)
    shutil.copytree(ROOT / "examples", root / "examples")
    yield root
    shutil.rmtree(root)


def run(tree: Path, script: str) -> str:
    command = ["chroot", str(tree), "bash", "-euc", script]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return done.stdout


def test_it_is_small_and_works(tree: Path) -> None:
    found = SECTION.search(PAGE.read_text("utf-8"))
    assert found is not None
    commands = found[1].replace(
        "sudo apt install", "apt-get -q -y --no-install-recommends install"
    )
    run(tree, "apt-get -q update; touch /before")
    run(tree, commands)
    told = re.search(r"take (\d+) MB", found[2])
    assert told is not None
    size = sum(map(int, run(tree, ADDED).split()))
    assert size <= int(told[1]) * 1_000_000
    versions = "memory/bin/python -m pip list --path /usr/lib/python3/dist-packages"
    assert re.search(r"^cryptography ", run(tree, versions), re.M)
    assert "56 of 56 claims held" in run(tree, "memory/bin/python examples/demo")
