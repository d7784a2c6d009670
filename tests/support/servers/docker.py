# SPDX-License-Identifier: Apache-2.0
"""Docker: the daemon of this machine, or Debian's, started for one test."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

from support.servers.debian import Server, needed

__all__ = ["Docker"]


class Docker:
    """A daemon, and the client that asks it.

    Args:
        home: a directory for a daemon that is started here.

    Raises:
        Unavailable: there is no daemon, and none can be installed.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._environment = dict(os.environ)
        self._daemon: Server | None = None
        if shutil.which("docker") is None or not self._answers():
            self._start()

    def _start(self) -> None:
        daemon = needed("docker.io containerd runc iptables", "dockerd")
        socket = f"unix://{self._home}/socket"
        self._environment["DOCKER_HOST"] = socket
        command: list[str | Path] = [daemon, "--host", socket, "--pidfile", self._home / "pid"]
        for option in ("data-root", "exec-root"):
            command += [f"--{option}", self._home / option]
        self._daemon = Server(command, 0, self._home / "log", self._answers)
        self._daemon.start()

    def _answers(self) -> bool:
        return self.ask("version").returncode == 0

    def ask(self, *words: object, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the client, and return how it ended."""
        return subprocess.run(
            ["docker", *map(str, words)],
            env=self._environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )

    def __call__(self, *words: object) -> str:
        """Run a command of the client that ends well; return what it printed."""
        done = self.ask(*words)
        assert done.returncode == 0, f"docker {words[0]}: {done.stdout[-2_000:]}{done.stderr}"
        return done.stdout.strip()

    def attach(self, *words: object) -> subprocess.Popen[str]:
        """Start a command that prints while it runs."""
        command = ["docker", *map(str, words)]
        return subprocess.Popen(
            command,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def has(self, image: str) -> bool:
        """Whether an image is there, or a registry has it."""
        return any(
            self.ask(*words, image).returncode == 0 for words in (("image", "inspect"), ("pull",))
        )

    def __enter__(self) -> Docker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._daemon is not None:
            self._daemon.stop()
            # What it has mounted for itself stays.
            namespace = self._home / "exec-root" / "netns" / "default"
            subprocess.run(["umount", str(namespace)], check=False, capture_output=True)
            shutil.rmtree(self._home, ignore_errors=True)
