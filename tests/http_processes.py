# SPDX-License-Identifier: Apache-2.0
"""`omsgrain serve` as a process on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

COMMAND = "from omsgrain.cli import main; main()"


class Served:
    """A process that serves a store, on a port that was free.

    Attributes:
        url: where it listens.
        code: what it ended with.
        log: what it wrote to stderr.
    """

    def __init__(self, path: Path | str, *options: object) -> None:
        self._said = TemporaryFile("w+")  # a pipe that nobody reads would fill up
        command = [sys.executable, "-c", COMMAND, "serve", path, "--port", "0", "--json"]
        self.child = subprocess.Popen(
            [*map(str, [*command, *options])],
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert line, self._read()
        self.url: str = json.loads(line)["url"]
        self.log = ""
        self.code: int | None = None

    def end(self, number: int) -> int:
        """Send a signal, and wait for the end."""
        if self.code is None:
            self.child.send_signal(number)
            self.child.communicate(timeout=30)
            self.code, self.log = self.child.returncode, self._read()
        return self.code

    def _read(self) -> str:
        self._said.seek(0)
        return self._said.read()

    def workers(self) -> list[int]:
        """The processes that have begun to serve by now, with --workers and --log-format json."""
        # Where the file stands is the child's, too: only this reads without moving it.
        said = os.pread(self._said.fileno(), 1 << 20, 0).decode().splitlines(keepends=True)
        events = [json.loads(line) for line in said if line.endswith("\n")]
        return [event["began"] for event in events if "began" in event]

    def lines(self) -> list[dict[str, Any]]:
        """What it logged, with --log-format json."""
        return [json.loads(line) for line in self.log.splitlines()]

    def __enter__(self) -> Served:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.code is None:
            self.child.kill()
            self.child.communicate()
        self._said.close()


def certified(directory: Path) -> tuple[Path, Path]:
    """Files of a certificate for this machine, and of its key."""
    certificate, key = directory / "c.pem", directory / "k.pem"
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start.replace(year=2126))
        .add_extension(here, critical=False)
        .sign(secret, SHA256())
    )
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    form = PrivateFormat.PKCS8, NoEncryption()
    key.write_bytes(secret.private_bytes(Encoding.PEM, *form))
    return certificate, key
