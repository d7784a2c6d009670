# SPDX-License-Identifier: Apache-2.0
"""The example resolver of did:web: what it looks up, what it takes, whom it does not ask."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from omsgrain.crypto import PublicKey, did, did_web, sign, verify_signed
from omsgrain.crypto.signers import Ed25519Signer
from omsgrain.errors import DidError, UnsupportedError
from support.did_documents import NAME, document, jwk, method
from support.signers import ALICE, BOB, GRAIN

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def resolve(body: bytes, text: str = NAME) -> PublicKey:
    return did_web.WebResolver(lambda url: body)(text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("did:web:example.com", "https://example.com/.well-known/did.json"),
        ("did:web:example.com#a", "https://example.com/.well-known/did.json"),
        ("did:web:a.b-c.example:robots:r2", "https://a.b-c.example/robots/r2/did.json"),
        ("did:web:example.com%3A8443:r2", "https://example.com:8443/r2/did.json"),
    ],
)
def test_urls(text: str, url: str) -> None:
    assert did_web.document_url(did.parse(text)) == url


@pytest.mark.parametrize(
    "name",
    [
        "localhost",
        "127.0.0.1",
        "example",
        "example.1",
        "-a.example",
        "a..example",
        "example.com%3A0",
        "example.com%3A123456",
        "example.com%3A65536",
        "example.com%2Fpath",
        "user%40example.com",
        "example.com:..",
        "example.com:.",
        "example.com:a%2Fb",
        "example.com::a",
        ".".join(["a" * 60] * 5) + ".example",
    ],
)
def test_names_that_are_not_looked_up(name: str) -> None:
    with pytest.raises(DidError):
        did_web.document_url(did.Did("web", name))
    with pytest.raises(DidError):
        did_web.document_url(did.Did("key", "example.com"))


GOOD: dict[str, tuple[bytes, str, PublicKey]] = {
    "multikey": (document(method()), NAME, ALICE.public_key),
    "full ids": (document(method(f"{NAME}#a", controller=NAME)), NAME, ALICE.public_key),
    "the one that is named": (
        document(method("#a"), method("#b", BOB)),
        f"{NAME}#b",
        BOB.public_key,
    ),
    "the one for assertions": (
        document(method("#a"), method("#b", BOB), uses=["#b"]),
        NAME,
        BOB.public_key,
    ),
    "a method of its own": (document(uses=[method()]), NAME, ALICE.public_key),
    "jwk": (
        document({"id": "#a", "publicKeyJwk": jwk(BOB.public_key)}),
        NAME,
        BOB.public_key,
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_documents(name: str) -> None:
    body, text, key = GOOD[name]
    assert resolve(body, text) == key


BAD: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"<html>", NAME),
    "no map": (b"[]", NAME),
    "nested without end": (b"[" * 60_000, NAME),
    "of another": (document(method(), id="did:web:example.org"), NAME),
    "of nobody": (b"{}", NAME),
    "without keys": (document(), NAME),
    "key for other uses": (document(method(), uses=[]), NAME),
    "several keys": (document(method("#a"), method("#b")), NAME),
    "no such key": (document(method()), f"{NAME}#b"),
    "key that another controls": (document(method(controller="did:web:example.org")), NAME),
    "key of another": (document(method("did:web:example.org#a")), NAME),
    "key of another kind": (document({"id": "#a", "publicKeyJwk": {"kty": "RSA"}}), NAME),
    "no key": (document({"id": "#a"}), NAME),
    "key that is none": (document({"id": "#a", "publicKeyMultibase": "z6Mk"}), NAME),
    "kinds that are wrong": (document(uses=7, verificationMethod=[1, {"id": 2}]), NAME),
    "too large": (document(method()) + b" " * did_web.MAX_DOCUMENT, NAME),
}


@pytest.mark.parametrize("name", BAD)
def test_documents_that_are_refused(name: str) -> None:
    body, text = BAD[name]
    with pytest.raises(DidError):
        resolve(body, text)


def test_keys_are_remembered_and_failures_are_not() -> None:
    asked, now = [], [0.0]
    body = [b"{}"]

    def fetch(url: str) -> bytes:
        asked.append(url)
        return body[0]

    resolver = did_web.WebResolver(fetch, ttl=60, clock=lambda: now[0])
    with pytest.raises(DidError):
        resolver(NAME)
    body[0] = document(method())
    for now[0] in (0, 30, 59.9):
        assert resolver(NAME) == ALICE.public_key
    assert len(asked) == 2
    body[0] = document(method(signer=BOB))
    now[0] = 60.0
    assert resolver(NAME) == BOB.public_key
    assert len(asked) == 3


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(did_web, "_REMEMBERED", 2)
    asked = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        return document(method(), id="did:web:" + url.split("/")[2])

    resolver = did_web.WebResolver(fetch)
    for host in ("a.example", "b.example", "c.example", "c.example", "a.example"):
        resolver(f"did:web:{host}")
    assert [url.split("/")[2][0] for url in asked] == ["a", "b", "c", "a"]


def test_a_grain_signed_by_a_web_name() -> None:
    robot = Ed25519Signer(ALICE._key, "did:web:example.com#a")
    resolver = did_web.WebResolver(lambda url: document(method()))
    envelope = sign(GRAIN, robot, iat=1)
    assert verify_signed(envelope, resolver=resolver)["object"] == "dark mode"


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.215.14", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False),
        ("192.88.99.1", False),
        ("192.88.100.1", True),
        ("192.0.0.9", False),
        ("192.31.196.1", False),
        ("192.52.193.1", False),
        ("192.175.48.1", False),
        ("198.19.255.255", False),
        ("203.0.113.1", False),
        ("240.0.0.1", False),
        ("2001:1::1", False),
        ("2001:3::1", False),
        ("2001:4:112::1", False),
        ("2001:2f::1", False),
        ("2001:1ff::1", False),
        ("2001:200::1", True),
        ("2001:db8::1", False),
        ("2620:4f:8000::1", False),
        ("3fff::1", False),
        ("3fff:fff::1", False),
        ("3fff:1000::1", True),
        ("5f00::1", False),
        ("64:ff9b:1::1", False),
        ("100::1", False),
        ("100:0:0:1::1", False),
        ("fec0::1", False),
    ],
)
def test_public_addresses(address: str, public: bool) -> None:
    assert did_web.is_public(ip_address(address)) is public


#: IANA's special-purpose address registries: of IPv4, with multicast and what lies within other
#: blocks; and of IPv6. Those behind the bar can be reached from anywhere, or are deprecated.
_REGISTRY, _REACHABLE = (
    tuple(map(ip_network, text.split()))
    for text in """
    0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
    192.0.0.0/24 192.0.0.0/29 192.0.0.8/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24
    192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 255.255.255.255/32
    ::1/128 ::/128 ::ffff:0:0/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32
    2001:2::/48 2001:10::/28 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/10
    | 192.0.0.9/32 192.0.0.10/32 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.88.99.2/32
    192.175.48.0/24 224.0.0.0/4 64:ff9b::/96 2001:1::1/128 2001:1::2/128 2001:1::3/128
    2001:3::/32 2001:4:112::/48 2001:20::/28 2001:30::/28 2620:4f:8000::/48 ff00::/8
    """.split("|")
)
_UNASSIGNED = ip_network("2000::/3")  # IANA has given addresses to hosts nowhere else


def around(block: Network) -> list[Address]:
    """The ends of a block, its middle, and its neighbours."""
    first, last = int(block[0]), int(block[-1])
    most = (1 << block.max_prefixlen) - 1
    numbers = {first - 1, first, (first + last) // 2, last, last + 1}
    return [type(block[0])(n) for n in sorted(numbers) if 0 <= n <= most]


def blocks_of_python() -> list[Network]:
    """The special blocks that this version of Python knows."""
    tables = (vars(vars(ipaddress)[f"_IPv{version}Constants"]).values() for version in (4, 6))
    values = [one for table in tables for one in table]
    listed = [one for value in values if isinstance(value, list) for one in value]
    return [one for one in (*values, *listed) if isinstance(one, IPv4Network | IPv6Network)]


def test_no_special_block_of_the_registries_is_public() -> None:
    for block in (*_REGISTRY, *_REACHABLE):
        for address in (block[0], block[-1]):
            assert not did_web.is_public(address), block


def test_python_and_the_registries_name_the_same_addresses() -> None:
    """Special addresses by Python are not public; a registry lists the others."""
    blocks = blocks_of_python()
    assert len(blocks) > 25
    rng = Random(23)
    asked = [one for block in (*blocks, *_REGISTRY, *_REACHABLE) for one in around(block)]
    asked += [IPv4Address(rng.getrandbits(32)) for _ in range(2_000)]
    asked += [IPv6Address(rng.getrandbits(128)) for _ in range(500)]
    asked += [IPv6Address((1 << 125) + rng.getrandbits(125)) for _ in range(2_000)]
    for address in asked:
        special = not address.is_global or address.is_multicast or address.is_reserved
        special |= address.is_loopback or address.is_link_local or address.is_unspecified
        named = any(address in block for block in (*_REGISTRY, *_REACHABLE))
        unassigned = address.version == 6 and address not in _UNASSIGNED
        assert did_web.is_public(address) == (not (named or unassigned)), address
        assert not (special and did_web.is_public(address)), address


class Net:
    """Names and hosts in place of `socket` and httpx."""

    ConnectError = type("ConnectError", (OSError,), {})
    HTTPError = type("HTTPError", (Exception,), {})

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[tuple[str, Any]] = []
        self.options: dict[str, Any] = {}
        self.status, self.body = 200, document(method())
        self.down: set[str] = set()
        self.trickles: socket.socket | None = None  # its head, and so slowly that it never comes
        monkeypatch.setattr(socket, "getaddrinfo", self.getaddrinfo)
        monkeypatch.setitem(sys.modules, "httpx", self)

    def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        if not self.addresses:
            raise socket.gaierror
        return [(0, 0, 0, "", (address, port)) for address in self.addresses]

    @contextmanager
    def Client(self, **options: Any) -> Iterator[Net]:
        self.options = options
        yield self

    @contextmanager
    def stream(self, verb: str, url: str, **request: Any) -> Iterator[Any]:
        self.asked.append((url, request))
        if any(address in url for address in self.down):
            raise self.ConnectError
        if self.trickles is not None:
            stream = SimpleNamespace(get_extra_info={"socket": self.trickles}.get)
            request["extensions"]["trace"](
                "connection.start_tls.complete", {"return_value": stream}
            )
            try:
                self.trickles.recv(1)
            except TimeoutError:
                pytest.fail("nobody cut it")
            raise self.HTTPError
        chunks = [self.body[i : i + 1000] for i in range(0, len(self.body), 1000)]
        yield SimpleNamespace(status_code=self.status, iter_raw=lambda: chunks)


def test_the_address_that_was_checked_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(monkeypatch, "93.184.215.14", "2606:2800::1", "93.184.215.15", "93.184.215.16")
    assert did_web.WebResolver()(NAME) == ALICE.public_key
    ((url, request),) = net.asked
    assert url == "https://93.184.215.14:443/.well-known/did.json"
    assert request["headers"]["Host"] == "example.com"
    assert request["extensions"]["sni_hostname"] == "example.com"
    assert net.options["follow_redirects"] is net.options["trust_env"] is False
    net.down = {"93.184.215.14"}
    assert did_web.WebResolver()(NAME) == ALICE.public_key
    assert net.asked[-1][0].startswith("https://[2606:2800::1]:443/")
    net.down |= {"2606", "93.184.215.15"}
    with pytest.raises(DidError):
        did_web.WebResolver()(NAME)
    assert len(net.asked) == 1 + 2 + 3


@pytest.mark.parametrize(
    "addresses",
    [(), ("127.0.0.1",), ("93.184.215.14", "10.0.0.1"), ("fe80::1%eth0",)],
    ids=["none", "private", "one private", "scoped"],
)
def test_private_hosts_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    net = Net(monkeypatch, *addresses)
    with pytest.raises(DidError):
        did_web.WebResolver()(NAME)
    assert not net.asked


def test_answers_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(monkeypatch, "93.184.215.14")
    net.status = 302
    with pytest.raises(DidError):
        did_web.WebResolver()(NAME)
    net.status, net.body = 200, b" " * (did_web.MAX_DOCUMENT + 1)
    with pytest.raises(DidError):
        did_web.WebResolver()(NAME)
    net.body = document(method())
    with pytest.raises(DidError):
        did_web.fetch_https("https://example.com/did.json", deadline=-1)


def test_a_head_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(monkeypatch, "93.184.215.14")
    net.trickles, other = socket.socketpair()
    net.trickles.settimeout(20)  # by itself it would begin anew with each byte
    with net.trickles, other, pytest.raises(DidError):
        did_web.fetch_https("https://example.com/did.json", deadline=0.02)
    net.trickles = None
    assert did_web.WebResolver()(NAME) == ALICE.public_key


def test_without_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(UnsupportedError):
        did_web.WebResolver()(NAME)
