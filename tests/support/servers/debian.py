# SPDX-License-Identifier: Apache-2.0
"""Programs from Debian's packages, installed where they are missing, and started for one test."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

__all__ = ["Server", "Unavailable", "free_port", "needed"]

PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin")
"""Where servers lie beside PATH."""
#: What apt asks before it starts the service of a package; 101: it is not to be started.
POLICY = Path("/usr/sbin/policy-rc.d")
PATIENCE = 30.0  # seconds that a server has to listen


class Unavailable(Exception):
    """A program is not there and cannot be installed; the text says why."""


def needed(package: str, command: str, places: Sequence[str] = ()) -> Path:
    """Find a command; install the package that has it if it is missing.

    Args:
        package: of Debian; or several, with spaces between.
        command: the program.
        places: more directories that it can be in, such as those of a version.

    Raises:
        Unavailable: it cannot be installed here.
    """
    if found := _find(command, places):
        return found
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{command} is missing, and there is no apt-get to install {package}")
    if os.geteuid() != 0:
        raise Unavailable(f"{command} is missing, and only root may install {package}")
    install = ("install", "--yes", "--no-install-recommends", *package.split())
    said = _apt(*install)
    if said is not None:
        _apt("update")
        said = _apt(*install)
    if said is not None:
        raise Unavailable(f"apt-get cannot install {package}: {said}")
    if found := _find(command, places):
        return found
    raise Unavailable(f"the package {package} is installed, and has no {command}")


def _find(command: str, places: Sequence[str]) -> Path | None:
    path = os.pathsep.join([os.environ.get("PATH", ""), *PLACES, *places])
    found = shutil.which(command, path=path)
    return None if found is None else Path(found)


def _apt(*arguments: str) -> str | None:
    """Run apt-get; return its last line if it fails. Installed services stay off."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _services_off():
        done = subprocess.run(
            ["apt-get", "-q", *arguments], env=environment, capture_output=True, text=True
        )
    lines = (done.stderr or done.stdout).strip().splitlines()
    return None if done.returncode == 0 else (lines or ["it says nothing"])[-1]


@contextmanager
def _services_off() -> Iterator[None]:
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def free_port() -> int:
    """A free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


class Server:
    """A server of one test: a process that listens on loopback and writes below one directory.

    Args:
        command: what starts it, the same each time.
        port: where it listens then.
        said: the file for what it says.
        ready: whether it answers; without it, a connection is enough.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        port: int,
        said: Path,
        ready: Callable[[], bool] | None = None,
    ) -> None:
        self.port = port
        self._command = [str(part) for part in command]
        self._said = said
        self._ready = ready or self._listens
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert self._child is None, "it runs already"
        with self._said.open("ab") as said:
            self._child = subprocess.Popen(self._command, stdout=said, stderr=said)
        until = time.monotonic() + PATIENCE
        while not self._ready():
            ended = self._child.poll()
            if ended is not None or time.monotonic() > until:
                self.kill()
                tail = self._said.read_text("utf-8", "replace")[-2_000:]
                raise AssertionError(f"the server did not start ({ended}): {tail}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it as its service would be stopped."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it and start it again, at the same port."""
        self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> None:
        if self._child is not None:
            self._child.send_signal(number)
            self._child.wait(PATIENCE)
            self._child = None

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
