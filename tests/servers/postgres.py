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
from functools import cached_property
from itertools import count
from pathlib import Path

from servers.debian import free_port, needed

__all__ = ["Postgres"]

_USER = "postgres"  # the server refuses to run as root
_ACCESS = """\
local all all trust
host all guarded 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


#: Debian keeps each version's programs apart, and none of them in PATH.
_PLACES = [f"/usr/lib/postgresql/{version}/bin" for version in range(25, 12, -1)]


class Postgres:
    """A server.

    Args:
        durable: whether it waits for the disk; only tests that kill nothing do without.
        settings: more of its own settings.

    Raises:
        Unavailable: there is no PostgreSQL here.
    """

    def __init__(self, *, durable: bool = False, **settings: object) -> None:
        self._programs = needed("postgresql", "initdb", _PLACES).resolve().parent
        memory = Path("/dev/shm")  # what waits for no disk needs none
        place = memory if not durable and os.access(memory, os.W_OK) else None
        self._home = Path(tempfile.mkdtemp(prefix="omsgrain-postgres-", dir=place))
        self._data = self._home / "data"
        self._names = count(1)
        self._as: list[str] = []
        if os.geteuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(self._home, user.pw_uid, user.pw_gid)
            self._as = ["runuser", "-u", _USER, "--"]
        self.port = free_port()
        self._run("initdb", "-D", self._data, "-U", _USER, "-A", "trust", "-E", "UTF8", "-N")
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self._home,
            "fsync": "on" if durable else "off",
            "max_connections": 100,
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

    def _run(self, program: str, *args: object) -> None:
        done = subprocess.run(
            [*self._as, str(self._programs / program), *map(str, args)],
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._run("pg_ctl", "-D", self._data, "-l", self._home / "log", "-w", "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``smart``, ``fast`` or ``immediate``, which is a crash."""
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def restart(self) -> None:
        """Stop and start it, as an administrator does."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill every process of it at once, as a power cut does to programs."""
        try:
            main = int((self._data / "postmaster.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return
        own = [main, *_children(main)]
        for process in own:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
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
            cursor = connection.execute(text)  # type: ignore[call-overload]
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
