# SPDX-License-Identifier: Apache-2.0
"""An example of a resolver: did:web over HTTPS.

It runs only if you pass it to a verification:

    verify_signed(envelope, resolver=WebResolver())

The signer chooses the host, so the host must not be in the verifier's network. The resolver
connects only to public addresses, to the very address that it checked, without redirects and
proxies, and with limits on size and time. Spec: did:web method, DID Core §5.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from omsgrain.crypto.did import Did, PublicKey, from_multibase, parse
from omsgrain.crypto.signers import public_from_jwk
from omsgrain.errors import DidError, UnsupportedError

#: Returns the document at a URL.
Fetch = Callable[[str], bytes]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_DOCUMENT = 64 << 10
_REMEMBERED = 1024
_TRIES = 3  # addresses of a host
_PORTS = (1 << 16) - 1
_HOST = re.compile(
    r"(?=.{4,253}(?:%3A|$))((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9])"
    r"(?:%3A([1-9][0-9]{0,4}))?",
    re.IGNORECASE,
)
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]+")
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")  # the rest is local, mapped or translated
#: The blocks of IANA's special-purpose address registries, since Python's tables differ from
#: version to version. Globally reachable blocks are here too: no named host has an address in a
#: protocol's anycast block.
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24",
            "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
            "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
        ),
    )
)  # fmt: skip


class WebResolver:
    """Looks up did:web DIDs, and caches the keys.

    A DID with several keys for assertions needs a fragment that selects one. Failures are not
    cached.
    """

    def __init__(
        self,
        fetch: Fetch | None = None,
        *,
        ttl: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a resolver."""
        self._fetch = fetch if fetch is not None else fetch_https
        self._ttl = ttl
        self._clock = clock
        self._keys: dict[str, tuple[float, PublicKey]] = {}
        self._lock = threading.Lock()

    def __call__(self, text: str) -> PublicKey:
        """Return the public key of a did:web."""
        did = parse(text)
        url = document_url(did)
        now = self._clock()
        with self._lock:
            known = self._keys.get(text)
        if known is not None and now - known[0] < self._ttl:
            return known[1]
        key = key_in(self._fetch(url), did)
        with self._lock:
            self._keys.pop(text, None)
            while len(self._keys) >= _REMEMBERED:  # remove the oldest
                del self._keys[next(iter(self._keys))]
            self._keys[text] = (now, key)
        return key


def document_url(did: Did) -> str:
    host, *path = did.id.split(":")
    match = _HOST.fullmatch(host)
    if did.method != "web" or match is None or not all(map(_SEGMENT.fullmatch, path)):
        raise DidError("a did:web without a public host name", expected="the name of a host")
    if match[2] and int(match[2]) > _PORTS:
        raise DidError("a did:web with an invalid port", expected=f"a port up to {_PORTS}")
    port = f":{match[2]}" if match[2] else ""
    where = "/".join(path) if path else ".well-known"
    return f"https://{match[1]}{port}/{where}/did.json"


def key_in(document: bytes, did: Did) -> PublicKey:
    """Return the key for assertions in a DID's document. Spec: DID Core §5.3.2."""
    if len(document) > MAX_DOCUMENT:
        raise DidError("the DID's document is too large", expected=f"at most {MAX_DOCUMENT} bytes")
    try:
        values = json.loads(document)
    except (ValueError, RecursionError):
        raise DidError("the DID's document is not JSON") from None
    if not isinstance(values, dict) or values.get("id") != str(did):
        raise DidError("the document belongs to another DID")
    methods = dict(_methods(values, str(did)))
    if did.fragment is not None:
        method = methods.get(f"{did}#{did.fragment}")
    elif len(methods) > 1:
        raise DidError("the DID has several keys", expected="a fragment that selects one")
    else:
        method = next(iter(methods.values()), None)
    key = None if method is None else _key(method)
    if key is None:
        raise DidError("the DID's document does not have this key", expected="Ed25519 or P-256")
    return key


def _methods(document: Mapping[str, Any], did: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the verification methods for assertions, by full id."""
    listed = dict(_named(document.get("verificationMethod"), did))
    uses = document.get("assertionMethod")
    for use in uses if isinstance(uses, list) else ():
        if isinstance(use, str):
            name = did + use if use.startswith("#") else use
            if name in listed:
                yield name, listed[name]
        else:
            yield from _named([use], did)


def _named(methods: object, did: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for method in methods if isinstance(methods, list) else ():
        if isinstance(method, dict) and isinstance(name := method.get("id"), str):
            name = did + name if name.startswith("#") else name
            if name.startswith(f"{did}#") and method.get("controller", did) == did:
                yield name, method


def _key(method: Mapping[str, Any]) -> PublicKey | None:
    multibase, jwk = method.get("publicKeyMultibase"), method.get("publicKeyJwk")
    if isinstance(multibase, str):
        return from_multibase(multibase)
    return public_from_jwk(jwk) if isinstance(jwk, dict) else None


def fetch_https(url: str, timeout: float = 5.0, deadline: float = 15.0) -> bytes:
    """Return the document at an https URL of a public host, by httpx."""
    try:
        httpx: Any = import_module("httpx")
    except ImportError:
        raise UnsupportedError("looking up a did:web needs the package httpx") from None
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    # The connection uses a checked address: a second lookup of the name could return another.
    # Certificate and Host header are those of the name.
    cut = _Cut(deadline)
    request = {
        "headers": {"Host": parts.netloc, "Accept-Encoding": "identity"},
        "extensions": {"sni_hostname": host, "trace": cut.trace},
    }
    failure: Exception | None = None
    with cut:
        for address in public_addresses(host, port)[:_TRIES]:
            at = f"[{address}]" if address.version == 6 else str(address)
            try:
                with (
                    httpx.Client(
                        trust_env=False, follow_redirects=False, timeout=timeout
                    ) as client,
                    client.stream("GET", f"https://{at}:{port}{parts.path}", **request) as answer,
                ):
                    return _body(answer, cut)
            except httpx.ConnectError as error:
                failure = error
            except (httpx.HTTPError, OSError) as error:
                failure = error
                break
            if cut.over:
                break
    found = type(failure).__name__
    raise DidError("the DID's host did not respond", found=found) from failure


class _Cut:
    """Cuts a connection after a deadline.

    The time-outs of a connection restart with each byte, so a slow response could take hours.
    """

    def __init__(self, seconds: float) -> None:
        self.over = seconds <= 0  # the deadline has passed
        self._stream: Any = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember the new connection; httpx calls this at each step."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._stream = info["return_value"]
            if self.over:
                self._end()

    def _end(self) -> None:
        self.over = True
        found = None if self._stream is None else self._stream.get_extra_info("socket")
        if found is not None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)


def _body(answer: Any, cut: _Cut) -> bytes:
    if answer.status_code != 200:
        raise DidError(
            "the host returned no document for the DID", found=f"status {answer.status_code}"
        )
    data = b""
    for chunk in answer.iter_raw():
        data += chunk
        if len(data) > MAX_DOCUMENT or cut.over:
            raise DidError("the DID's document is too large or too slow")
    return data


def public_addresses(host: str, port: int) -> list[Address]:
    """Return the addresses of a host; all must be public."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise DidError("the name of the DID's host cannot be resolved") from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not addresses or not all(map(is_public, addresses)):
        raise DidError("the DID's host is not public")
    return addresses


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public network, and to a single host."""
    if not address.is_global or any(address in block for block in _SPECIAL):
        return False
    return address.version == 4 or address in _GLOBAL_V6
