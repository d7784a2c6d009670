# SPDX-License-Identifier: Apache-2.0
"""The image is built and used as the how-to says, and so is the compose file."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.deploy_files import DEPLOY, only, stages
from support.paths import DEBIAN, ROOT
from support.servers.debian import free_port
from support.servers.debian_tree import pack
from support.servers.docker import Docker

pytestmark = pytest.mark.services

PAGE = ROOT / "docs" / "how-to" / "deploy.md"
ADA = "7e1b1b0e-8f5c-4f1e-9d0a-0a5d1c2f3b4a"
EVENT = {"type": "event", "content": "left the dock", "created_at": 1768471200000}


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    with Docker(tmp_path_factory.mktemp("docker")) as found:
        yield found


@pytest.fixture(scope="module")
def image(docker: Docker, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image of deploy/Dockerfile, of a wheel of this tree."""
    tree = tmp_path_factory.mktemp("tree")
    for path in ("deploy/Dockerfile", "requirements/all.txt"):
        (tree / path).parent.mkdir()
        shutil.copy(ROOT / path, tree / path)
    (tree / "dist").mkdir()
    shutil.copy(wheel, tree / "dist")
    name = f"omsgrain-test-{secrets.token_hex(4)}"
    base = stages()[0][0].text.partition("=")[2]
    if not docker.has(base):
        base = f"{name}-base"
        pack(DEBIAN)
        docker("import", DEBIAN, base)
    build = ("build", "-q", "--network=host", "--build-arg", f"PYTHON={base}")
    docker(*build, "-f", tree / "deploy" / "Dockerfile", "-t", name, tree)
    yield name
    docker.ask("image", "rm", "--force", name, f"{name}-base")


def options(name: str, port: int) -> list[str]:
    """Those of `docker run` on the page, for a container and a volume of this name."""
    found = re.search(r"^docker run ((?:.*\\\n)*.*) omsgrain$", PAGE.read_text("utf-8"), re.M)
    assert found is not None
    words = found[1].replace("\\\n", " ").split()
    own = {"memory:/data": f"{name}:/data", "127.0.0.1:8080:8080": f"127.0.0.1:{port}:8080"}
    assert own.keys() <= set(words)
    return ["--name", name, *(own.get(word, word) for word in words)]


@contextmanager
def listening(docker: Docker, *words: object) -> Iterator[None]:
    """Run a container, and wait until its server listens."""
    with docker.attach(*words) as attached:
        assert attached.stdout is not None
        line = attached.stdout.readline()
        assert "listening on" in line, line
        yield


def test_a_container_serves_and_loses_nothing(docker: Docker, image: str) -> None:
    port, name = free_port(), f"{image}-server"
    health = only(stages()[2], "HEALTHCHECK").text.partition("CMD ")[2]
    flags = options(name, port)
    url = f"http://127.0.0.1:{port}"
    try:
        with listening(docker, "run", *flags, image):
            for path in ("/healthz", "/readyz"):
                assert httpx.get(url + path).status_code == 200
            docker("exec", name, *json.loads(health))
            assert docker("exec", name, "id", "-u") == "10001"
            assert docker.ask("exec", name, "touch", "/opt/omsgrain/new").returncode != 0
            status = docker("exec", name, "cat", "/proc/1/status")
            assert re.search(r"^CapBnd:\s+0+$", status, re.M) and "NoNewPrivs:\t1" in status
            add = ("token", "add", "/data/memory.omsg", "ada", "--tenant", ADA)
            scopes = ("--scope", "import", "--scope", "export")
            token = docker("exec", name, "omsgrain", *add, *scopes)
            headers = {"authorization": f"Bearer {token}"}
            put = httpx.post(f"{url}/v1/grains", json=EVENT, headers=headers).json()
            docker("kill", name)
        with listening(docker, "start", "--attach", name):
            (address,) = put["addresses"]
            got = httpx.get(f"{url}/v1/grains/{address}", headers=headers)
            assert (got.status_code, "left the dock" in got.text) == (200, True)
            docker("stop", name)
        assert docker("inspect", "--format", "{{.State.ExitCode}}", name) == "0"
        docker("rm", name)
        command = [str(word) for word in only(stages()[2], "CMD").words()]
        with listening(docker, "run", *flags, image, *command, "--metrics"):
            assert "\nomsgrain_store_grains 1\n" in httpx.get(f"{url}/metrics").text
            docker("stop", name)
        docker("rm", name)
        said = docker("run", *flags, image, "check", "/data/memory.omsg")
        assert said.startswith("1 grain") and said.endswith("no problems")
    finally:
        docker.ask("rm", "--force", name)
        docker.ask("volume", "rm", name)


def test_compose_serves_a_database(docker: Docker, image: str, tmp_path: Path) -> None:
    if docker.ask("compose", "version").returncode != 0:
        pytest.skip("docker compose is needed")
    database = re.search(r"image: (postgres:.*)", (DEPLOY / "compose.yaml").read_text("utf-8"))
    assert database is not None
    if not docker.has(database[1]):
        pytest.skip(f"no registry has {database[1]}")
    port = free_port()
    (tmp_path / "env").write_text("POSTGRES_PASSWORD=first\nOMSGRAIN_PASSWORD=second\n")
    (tmp_path / "own.yaml").write_text(
        f"services: {{server: {{image: {image}, build: !reset null, "
        f"ports: !override ['127.0.0.1:{port}:8080']}}}}"
    )
    files = ("-f", DEPLOY / "compose.yaml", "-f", tmp_path / "own.yaml")
    compose = ("compose", "-p", image, "--env-file", tmp_path / "env", *files)
    store = "postgresql://omsgrain@database/memory"
    url = f"http://127.0.0.1:{port}"
    try:
        docker(*compose, "up", "--detach", "--wait")
        add = (
            "token",
            "add",
            store,
            "ada",
            "--tenant",
            ADA,
            "--scope",
            "import",
            "--scope",
            "export",
        )
        token = docker(*compose, "exec", "-T", "server", "omsgrain", *add)
        headers = {"authorization": f"Bearer {token}"}
        (address,) = httpx.post(f"{url}/v1/grains", json=EVENT, headers=headers).json()[
            "addresses"
        ]
        docker(*compose, "restart", "database")
        docker(*compose, "up", "--detach", "--wait")
        assert httpx.get(f"{url}/readyz").status_code == 200
        got = httpx.get(f"{url}/v1/grains/{address}", headers=headers)
        assert (got.status_code, "left the dock" in got.text) == (200, True)
    finally:
        docker.ask(*compose, "down", "--volumes")
