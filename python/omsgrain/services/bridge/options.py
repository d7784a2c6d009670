# SPDX-License-Identifier: Apache-2.0
"""Which broker, what of it, and who asks."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.ops.serving import is_loopback

__all__ = ["Broker", "Credentials", "broker"]

_SCHEMES = {
    "mqtt": (1883, False),
    "mqtts": (8883, True),
    "nats": (4222, False),
    "tls": (4222, True),
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks. What is secret is in no repr.

    Attributes:
        user: name.
        password: with it, or a token of NATS without a name.
        file: credentials of NATS: a JWT and its key.
        authority: certificates that the broker's must be signed by, PEM; those of the system if
            none.
        certificate: our own, PEM.
        key: its private key, PEM.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    file: Path | None = None
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker and how it is reached.

    Attributes:
        scheme: ``mqtt``, ``mqtts``, ``nats`` or ``tls`` (NATS over TLS).
        host: its name or address.
        port: where it listens.
        credentials: who asks.
    """

    scheme: str
    host: str
    port: int
    credentials: Credentials = field(default_factory=Credentials)

    @property
    def tls(self) -> bool:
        """Whether nobody between can read along."""
        return _SCHEMES[self.scheme][1]

    @property
    def name(self) -> str:
        """The broker as text, without who asks."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def context(self) -> ssl.SSLContext | None:
        """What TLS goes by; None without TLS.

        Raises:
            OSError: a certificate or key cannot be read, or is none.
        """
        if not self.tls:
            return None
        own = self.credentials
        context = ssl.create_default_context(cafile=own.authority)
        if own.certificate is not None:
            context.load_cert_chain(own.certificate, own.key)
        return context


def broker(
    url: str, schemes: tuple[str, ...], credentials: Credentials, *, in_clear: bool = False
) -> Broker:
    """Read the URL of a broker.

    Args:
        url: such as ``mqtt://hub.example.org:1883``.
        schemes: those that it can have.
        credentials: who asks.
        in_clear: let a password go over a network that others can read along.

    Raises:
        SchemaError: no such URL, or who asks is in it: what is in a command line, everybody sees.
        UnsupportedError: a password, or credentials, would go over the network in the clear.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SchemaError("not the URL of a broker", field="/url") from None
    if parts.username is not None or parts.password is not None:
        raise SchemaError("a name or password in the URL of a broker", field="/url")
    more = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in schemes or not parts.hostname or port == 0 or more:
        text = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
        raise SchemaError("not the URL of a broker", field="/url", expected=text)
    usual, _ = _SCHEMES[parts.scheme]
    found = Broker(parts.scheme, parts.hostname, port or usual, credentials)
    secret = credentials.password is not None
    if secret and not (found.tls or in_clear or is_loopback(found.host)):
        raise UnsupportedError(
            "the password would go over the network in the clear",
            expected=f"{schemes[-1]}://, or --plain-password",
        )
    if not found.tls and (credentials.authority or credentials.certificate):
        raise SchemaError("certificates go with TLS", field="/url", expected=f"{schemes[-1]}://")
    if (credentials.certificate is None) != (credentials.key is None):
        raise SchemaError("a certificate goes with its key", field="/tls")
    return found
