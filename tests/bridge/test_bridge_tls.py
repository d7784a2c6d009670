# SPDX-License-Identifier: Apache-2.0
"""Brokers over TLS, which let in who knows the password; neither is ever shown."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone
from ipaddress import ip_address
from pathlib import Path

import nats
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from support.bridge_processes import Bridging
from support.servers.debian import Server, Unavailable, needed
from support.servers.mosquitto import CONFIG, broker
from support.servers.nats import jetstream
from support.shell import exit_code

pytestmark = pytest.mark.services

USER, WORD = "hub", "open sesame"


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A directory with a certificate of this machine and its key."""
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
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
    (tmp_path / "c.pem").write_bytes(made.public_bytes(Encoding.PEM))
    form = PrivateFormat.PKCS8, NoEncryption()
    (tmp_path / "k.pem").write_bytes(secret.private_bytes(Encoding.PEM, *form))
    return tmp_path


@pytest.fixture(params=["mqtt", "nats"])
def guarded(request: pytest.FixtureRequest, pem: Path) -> Iterator[tuple[Server, list[str]]]:
    """A broker that is started, and the options by which a bridge reads from it."""
    try:
        server, options = (_mosquitto if request.param == "mqtt" else _nats)(pem)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with server:
        if request.param == "nats":
            asyncio.run(_make_stream(pem, server.port))
        yield server, [*options, "--ca", str(pem / "c.pem"), "--user", USER]


def _mosquitto(pem: Path) -> tuple[Server, list[str]]:
    words = pem / "words"
    words.touch(0o600)
    server = broker(
        pem / "broker",
        f"certfile {pem}/c.pem\nkeyfile {pem}/k.pem\npassword_file {words}\n",
        CONFIG.replace("allow_anonymous true", "allow_anonymous false"),
    )
    subprocess.run([needed("mosquitto", "mosquitto_passwd"), "-b", words, USER, WORD], check=True)
    return server, ["--mqtt", f"mqtts://127.0.0.1:{server.port}", "--topic", "robots/#"]


def _nats(pem: Path) -> tuple[Server, list[str]]:
    tls = ("--tls", "--tlscert", pem / "c.pem", "--tlskey", pem / "k.pem")
    server = jetstream(pem / "broker", *tls, "--user", USER, "--pass", WORD)
    return server, ["--nats", f"tls://127.0.0.1:{server.port}", "--stream", "MEMORY"]


async def _make_stream(pem: Path, port: int) -> None:
    context = ssl.create_default_context(cafile=pem / "c.pem")
    url = f"tls://127.0.0.1:{port}"
    connection = await nats.connect(url, tls=context, user=USER, password=WORD)
    await connection.jetstream().add_stream(name="MEMORY", subjects=["robots.>"])
    await connection.close()


def test_tls_and_a_password(guarded: tuple[Server, list[str]], tmp_path: Path) -> None:
    _, options = guarded
    path, word = tmp_path / "hub.omsg", tmp_path / "word"
    options += ["--password-file", str(word), "--dead-letter-dir", str(tmp_path / "refused")]
    word.write_text(f"{WORD}\n")
    with Bridging(path, *options) as bridge:
        while "subscribed" not in bridge._read():
            bridge.until(lambda _: True)
        assert bridge.end(signal.SIGTERM) == 0
        assert WORD not in bridge.log
    word.write_text("guessed\n")
    with Bridging(path, *options) as bridge:
        assert bridge.wait() == exit_code("ERR_STORE")
        assert "guessed" not in bridge.log
    options[options.index("--ca") + 1] = "/etc/ssl/certs/ca-certificates.crt"
    with Bridging(path, *options) as bridge:  # one that nobody vouches for is not spoken with
        while "failed" not in bridge._read() and "connection_error" not in bridge._read():
            bridge.until(lambda _: True)
        assert bridge.end(signal.SIGTERM) == 0
