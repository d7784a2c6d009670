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

#: Of Debian, with Python 3.13 and the programs `python` and `pip`, as the official image has them.
SUITE = "trixie"
PACKAGES = "ca-certificates,python-is-python3,python3-pip,python3-venv"
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")


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

    def import_debian(self, image: str, cache: Path) -> None:
        """Make an image with Python of Debian's packages; the cache saves doing it again."""
        if not cache.exists():
            root = cache.parent / "root"
            shutil.rmtree(root, ignore_errors=True)
            root.parent.mkdir(parents=True, exist_ok=True)
            debootstrap = needed("debootstrap", "debootstrap")
            command = [
                str(debootstrap),
                "--variant=minbase",
                f"--include={PACKAGES}",
                SUITE,
                str(root),
            ]
            subprocess.run(command, check=True, capture_output=True)
            if TRUSTED.exists():  # what this machine trusts, as a proxy of its network
                shutil.copy(TRUSTED, root / TRUSTED.relative_to("/"))
            for place in ("var/cache/apt/archives", "var/lib/apt/lists"):
                shutil.rmtree(root / place)
            part = cache.with_suffix(".part")
            subprocess.run(["tar", "-C", str(root), "-cf", str(part), "."], check=True)
            part.rename(cache)
            shutil.rmtree(root)
        self("import", cache, image)

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
