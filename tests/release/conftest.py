# SPDX-License-Identifier: Apache-2.0
"""A wheel of this tree, built once for those who install it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "maturin", "build", "--release", "-q", "-o", str(dist)]
    subprocess.run(command, cwd=ROOT, check=True)
    (built,) = dist.glob("*.whl")
    return built
