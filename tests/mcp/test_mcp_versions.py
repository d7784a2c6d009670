# SPDX-License-Identifier: Apache-2.0
"""The server with the SDK 1.x, under the same tests as with 2.x; and a client of 1.x."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.mcp.tools import TOOLS
from support.http_process import Served
from support.http_server import ALL
from support.mcp_agents import OTHER_SDK, parameters
from support.paths import ROOT
from support.tokens import add_token

pytestmark = pytest.mark.services
#: The oldest version that is supported, with a pydantic of its time, and the newest one of 1.x.
VERSIONS = {"1.20.0": ("mcp==1.20.0", "pydantic<2.12"), "1.x": ("mcp<2",)}


@pytest.fixture(scope="module", params=VERSIONS)
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the SDK and what it needs, for PYTHONPATH."""
    target = tmp_path_factory.mktemp("sdk")
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(target)]
    done = subprocess.run([*command, *VERSIONS[request.param]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def test_the_server_passes_the_same_tests(packages: Path) -> None:
    """A client of 2.x, and a server of 1.x."""
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "2", "tests/mcp"]
    tests.append("tests/server/test_http_mcp.py")
    environment = os.environ | {OTHER_SDK: str(packages)}
    done = subprocess.run(tests, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_client_of_1_x_and_a_server_of_2_x(packages: Path, tmp_path: Path) -> None:
    how = parameters(tmp_path / "m.omsg", "--create")
    check(packages, how.command, *how.args)


def test_a_client_of_1_x_over_http(packages: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.omsg"
    og.open(path).close()
    token = add_token(path, "ada", "urn:omsgrain:ada", ALL)
    with Served(path) as served:
        check(packages, f"{served.url}/mcp", token)


def check(packages: Path, *where: str) -> None:
    """Let a client of 1.x talk to a server, and see that it got the right answers."""
    program = ROOT / "tests" / "support" / "mcp_client_1.py"
    done = subprocess.run(
        [sys.executable, str(program), *where],
        env=os.environ | {"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["sdk"].startswith("1.")
    assert found["server"] == "omsgrain"
    assert found["tools"] == [*TOOLS]
    assert found["made"]["new"]
    assert [one["id"] for one in found["found"]["memories"]] == [found["made"]["id"]]
    assert found["refused"]["error"]["code"] == "ERR_NOT_FOUND"
    assert (found["stats"]["grains"], found["messages"]) == (1, 2)
