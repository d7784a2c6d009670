# SPDX-License-Identifier: Apache-2.0
"""Where another store is reached over HTTP."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from omsgrain.errors import SchemaError, UnsupportedError

__all__ = ["is_loopback", "is_url", "service_url"]

_SCHEMES = ("http", "https")


def is_url(text: str) -> bool:
    """Whether this is meant as an address of the web, and not as a path."""
    return text.lower().startswith(tuple(f"{scheme}://" for scheme in _SCHEMES))


def service_url(text: str) -> str:
    """See that a token and memories can go to an address.

    Returns:
        The address, without a slash at its end.

    Raises:
        SchemaError: it is none, or has a secret in it: addresses are shown and logged.
        UnsupportedError: they would go over a network in the clear.
    """
    expected = "https://host or https://host/path"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise SchemaError("not an address of a server", expected=expected) from None
    if parts.scheme not in _SCHEMES or not host or port == 0:
        raise SchemaError("not an address of a server", expected=expected)
    if parts.username is not None or parts.query or parts.fragment:
        raise SchemaError(
            "the address of a server holds neither a token nor a query", expected=expected
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise UnsupportedError(
            "the token and the memory would go over the network in the clear", expected="https://"
        )
    return text.rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
