# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server of its own for tests: in a temporary directory, on a free loopback port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Literal

from support.servers.debian import free_port, needed

__all__ = ["Postgres"]

_USER = "postgres"  # the server refuses to run as root
_ACCESS = """\
local all all trust
host all guarded,memory 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


#: Debian keeps each version's programs apart, and none of them in PATH.
_PLACES = [f"/usr/lib/postgresql/{version}/bin" for version in range(25, 12, -1)]


class Postgres:
    """A server.

    Args:
        durable: whether it waits for the disk; only tests that kill nothing do without.
        settings: more of its own settings.

    Attributes:
        programs: the directory of its commands.

    Raises:
        Unavailable: there is no PostgreSQL here.
    """

    def __init__(self, *, durable: bool = False, **settings: object) -> None:
        self.programs = needed("postgresql", "initdb", _PLACES).resolve().parent
        memory = Path("/dev/shm")  # what waits for no disk needs none
        place = memory if not durable and os.access(memory, os.W_OK) else None
        self._home = Path(tempfile.mkdtemp(prefix="omsgrain-postgres-", dir=place))
        self._data = self._home / "data"
        self._names = count(1)
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(self._home, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
        self.port = free_port()
        make = ["initdb", "-D", str(self._data), "-U", _USER, "-A", "trust", "-E", "UTF8", "-N"]
        make[0] = str(self.programs / make[0])
        subprocess.run(make, cwd="/", check=True, stdout=subprocess.DEVNULL, **self._as)
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self._home,
            "fsync": "on" if durable else "off",
            "max_connections": 100,
            "recovery_init_sync_method": "syncfs",  # not each file of it, one by one
            **settings,
        }
        lines = "".join(f"{name} = '{value}'\n" for name, value in options.items())
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(lines)
        (self._data / "pg_hba.conf").write_text(_ACCESS)
        self.start()

    def __enter__(self) -> Postgres:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(self.programs / "postgres"), "-D", str(self._data)]
        with (self._home / "log").open("ab") as log:
            self._main = subprocess.Popen(
                command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._as
            )
        ready = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready).returncode != 0:
            assert self._main.poll() is None, (self._home / "log").read_text("utf-8")[-2_000:]
            time.sleep(0.02)

    def stop(self, how: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop it; ``immediate`` is a crash."""
        ways = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
        self._main.send_signal(ways[how])
        self._main.wait(60)

    def restart(self) -> None:
        """Stop and start it, as an administrator does."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill every process of it at once, as a power cut does to programs."""
        if self._main.poll() is None:
            own = _children(self._main.pid)
            self._main.kill()
            self._main.wait()
            for process in own:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            while any(_lives(process) for process in own):
                time.sleep(0.01)

    def url(self, database: str = _USER, user: str = _USER, password: str = "") -> str:
        """The URL of a database."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """Make a new database; return its URL."""
        name = f"store_{next(self._names)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)

    @cached_property
    def shared(self) -> str:
        """The URL of a database that tests share, each as a tenant of its own."""
        return self.database()

    def tenant(self) -> str:
        """A name that no other test has."""
        return f"tenant {next(self._names)}"

    def run(self, text: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Run a statement as the superuser; return its rows."""
        import psycopg

        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []


def _children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in found]


def _lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"
