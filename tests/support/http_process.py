# SPDX-License-Identifier: Apache-2.0
"""`omsgrain serve` as a process on loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from support.processes import Command


class Served(Command):
    """A process that serves a store, on a port that was free.

    Attributes:
        url: where it listens.
    """

    def __init__(
        self, path: Path | str, *options: object, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__("serve", path, "--port", "0", "--json", *options, env=env)
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert line, self._read()
        self.url: str = json.loads(line)["url"]

    def workers(self) -> list[int]:
        """The processes that have begun to serve by now, with --workers and --log-format json."""
        # Where the file stands is the child's, too: only this reads without moving it.
        said = os.pread(self._said.fileno(), 1 << 20, 0).decode().splitlines(keepends=True)
        events = [json.loads(line) for line in said if line.endswith("\n")]
        return [event["began"] for event in events if "began" in event]

    def lines(self) -> list[dict[str, Any]]:
        """Return its log, with --log-format json."""
        return [json.loads(line) for line in self.log.splitlines()]


def certified(directory: Path, *names: str) -> tuple[Path, Path]:
    """Files of a certificate for this machine and these names of it, and of its key."""
    certificate, key = directory / "c.pem", directory / "k.pem"
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    here = x509.SubjectAlternativeName(
        [x509.IPAddress(ip_address("127.0.0.1")), *map(x509.DNSName, names)]
    )
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
