# SPDX-License-Identifier: Apache-2.0
"""A line to a server: one question and its answer, and what went wrong between."""

from __future__ import annotations

import ipaddress
import json
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from omsgrain import errors
from omsgrain.errors import (
    IntegrityError,
    KeyMissingError,
    OmsError,
    SchemaError,
    StoreError,
    TooLargeError,
    UnsupportedError,
    packages_of,
)
from omsgrain.header import ENVELOPE_BYTE
from omsgrain.sync import parts, protocol
from omsgrain.sync.peer import (
    HAS,
    ITEMS,
    SIZE,
    Batch,
    BatchResult,
    Greeting,
    Hello,
    Position,
    Range,
    Space,
    SyncItem,
)
from omsgrain.sync.protocol import MEDIA, MOST, PATH

if TYPE_CHECKING:
    import httpx

_SCHEMES = ("http", "https")


def is_url(text: str) -> bool:
    """Whether this is meant as an address of the web, and not as a path."""
    return text.lower().startswith(tuple(f"{scheme}://" for scheme in _SCHEMES))


def service_url(text: str) -> str:
    """See that a token and memories can go to an address."""
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


_COME_BACK: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses of what may be done when it is asked again."""
_LATEST = 60.0  # seconds of Retry-After that are heeded
_REFUSAL = 64 << 10  # bytes of problem details that are read
_SLOWEST = 4 << 10  # bytes a second of an answer, below which it is given up
_TOKEN = re.compile("[!-~]+")
_PROBLEM = "application/problem+json"


class BrokenConnection(Exception):
    """The line broke, or the server asks to come back: nobody knows what was done.

    Attributes:
        what: in a word or two, for a person.
        after: seconds after which to come back; None if the server did not say.
        reached: there was somebody at the other end.
    """

    def __init__(self, what: str, after: float | None = None, *, reached: bool = True) -> None:
        super().__init__(what)
        self.what = what
        self.after = after
        self.reached = reached


class HttpSession:
    """A line to a server.

    Attributes:
        url: of the server; it holds no secret.
        host: of the server.
        sent: bytes of messages, of those too that did not arrive.
        received: bytes of answers.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        verify: str | None = None,
        timeout: float = 120.0,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = service_url(url)
        parts = urlsplit(self.url)
        self.host = parts.hostname or ""
        self.sent = self.received = 0
        self._timeout = timeout
        self._clock = clock
        try:
            self._httpx: Any = import_module("httpx")
        except ImportError:
            text = "syncing over HTTP needs more packages"
            raise UnsupportedError(text, expected=packages_of("web")) from None
        headers = {"content-type": MEDIA, "accept": MEDIA, "accept-encoding": "identity"}
        if token is not None:
            if _TOKEN.fullmatch(token) is None:
                raise KeyMissingError("not a token", expected="letters of ASCII without spaces")
            headers["authorization"] = f"Bearer {token}"
        self._client: httpx.Client = self._httpx.Client(
            headers=headers,
            verify=_trusted(verify),
            follow_redirects=False,
            trust_env=parts.scheme == "https",  # a proxy gets nothing in the clear
            timeout=timeout,
            transport=transport,
        )

    def ask(self, name: str, body: bytes) -> bytes:
        """Ask once."""
        self.sent += len(body)
        try:
            with self._client.stream("POST", f"{self.url}{PATH}{name}", content=body) as answer:
                media = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
                if answer.status_code == 200 and media == MEDIA:
                    return self._read(answer, MOST)
                told = self._read(answer, _REFUSAL) if media == _PROBLEM else b""
                raise _refused(answer.status_code, told, answer.headers.get("retry-after", ""))
        except self._httpx.TransportError as error:
            _refuse_stranger(error)
            unreached = (self._httpx.ConnectError, self._httpx.ConnectTimeout)
            raise BrokenConnection(
                type(error).__name__, reached=not isinstance(error, unreached)
            ) from None
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            text = f"the server at {self.url} cannot be asked"
            raise StoreError(text, found=type(error).__name__) from None

    def _read(self, answer: httpx.Response, most: int) -> bytes:
        """The body of an answer, bounded in bytes and time."""
        data = bytearray()
        end = self._clock() + self._timeout
        for piece in answer.iter_raw():
            data += piece
            self.received += len(piece)
            if len(data) > most:
                raise TooLargeError("the server answers more than is taken")
            if self._clock() > end + len(data) / _SLOWEST:
                raise BrokenConnection("too slow")
        return bytes(data)

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def __repr__(self) -> str:
        return f"<Line to {self.host}>"


def _trusted(verify: str | None) -> Any:
    """What httpx trusts: the usual certificates, or those of a file."""
    if verify is None:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=verify)
    except (OSError, ssl.SSLError):
        raise UnsupportedError(
            "the certificates to trust cannot be read", expected="a file of PEM"
        ) from None


def _refuse_stranger(error: BaseException) -> None:
    """See that it was not a certificate: another try would not make it better."""
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise StoreError(
                "the certificate of the server is not to be trusted",
                expected="one of a known authority, or of --ca",
                found=cause.verify_message,
            ) from None
        cause = cause.__cause__ or cause.__context__


def _refused(status: int, told: bytes, after: str) -> Exception:
    """What an answer that is none says."""
    problem = _problem(told)
    if status in _COME_BACK:
        seconds = min(float(after), _LATEST) if after.isascii() and after.isdigit() else None
        return BrokenConnection(problem.get("rule", f"status {status}"), seconds)
    code, rule = problem.get("code", ""), problem.get("rule")
    if status in (401, 403) and code not in errors.BY_CODE:
        text = problem.get("detail") or problem.get("title")
        text = text or "the server does not let this token do that"
        return KeyMissingError(text, rule=rule, found=f"status {status}")
    if code in errors.BY_CODE:
        kind: type[OmsError] = errors.BY_CODE[code]
        text = problem.get("detail", "the other store refuses")
        return kind(text, rule=rule, field=problem.get("pointer"))
    if 300 <= status < 400:
        return StoreError("the server sends elsewhere", expected="the address where it stands")
    return StoreError("no answer of an omsgrain server", found=f"status {status}", rule=rule)


def _problem(told: bytes) -> dict[str, str]:
    """The texts of problem details; none of what cannot be read."""
    try:
        found = json.loads(told)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    return {name: value[:300] for name, value in texts.items() if value.isprintable()}


T = TypeVar("T")
K = TypeVar("K", str, bytes, SyncItem)

_TRIES: Final = 10
_UNREACHED: Final = 3
_FIRST, _LONGEST = 0.5, 30.0  # seconds to wait after a break
_SMALLER = 4
_CALM = 8  # answers in a row after which messages grow again
_ITEM, _GRAIN, _LISTED = 48, 512, 4_096  # bytes that an item, a grain, a range take, about
_STUCK = 3  # breaks at one range
_ADDRESS = 64  # digits
_DIGITS = "0123456789abcdef"


class HttpPeer:
    """A store behind ``omsgrain serve``; needs the extra ``web``.

    Args:
        url: of the server, such as ``https://hub.example``; without TLS this machine only.
        token: is shown to the server, and to nobody else.
        verify: a file of certificates to trust instead of the usual ones.
        timeout: seconds of silence after which the line counts as broken.
        tries: breaks in a row after which it is given up; three are enough where nobody was ever
            reached.
        wait: waits some seconds.
        transport: what carries requests, instead of a connection of its own.

    Raises:
        SchemaError: that is no address of a server, or it has a token in it.
        KeyMissingError: that is no token.
        UnsupportedError: it would go over a network in the clear, or httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        verify: str | None = None,
        timeout: float = 120.0,
        tries: int = _TRIES,
        wait: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._line = HttpSession(
            url, token=token, verify=verify, timeout=timeout, transport=transport
        )
        self._tries = tries
        self._wait = wait
        self._share = 1  # of what a message may have, one in so many
        self._breaks = self._calm = 0
        self._reached = False

    @property
    def sent(self) -> int:
        """Bytes of all messages that were sent, without HTTP's own."""
        return self._line.sent

    @property
    def received(self) -> int:
        """Bytes of all messages that came, without HTTP's own."""
        return self._line.received

    def greet(self, hello: Hello) -> Greeting:
        """As ``Peer.greet``; errors of all questions stand here.

        Raises:
            KeyMissingError: the server does not take the token, or not for this.
            StoreError: the line broke again and again, the store there cannot do it now, or
                there is no omsgrain server.
            OmsError: what the other store refuses, or a message of it that is none.
        """
        found: Greeting = self._surely("greet", hello)
        return found

    def share(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        """As ``Peer.share``."""
        found: tuple[bytes, ...] = self._surely("share", tuple(keys))
        return found

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        """As ``Peer.changes``; less at once on a bad line."""
        while True:
            most = max(min(size, 1), min(size, SIZE) // self._share)
            try:
                found: Batch = self._ask("changes", protocol.Changes(since, hello, most))
            except BrokenConnection as broken:
                self._broke(broken)
            else:
                return found

    def ranges(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[Range, ...]:
        """As ``Peer.ranges``."""

        def ask(part: tuple[str, ...]) -> tuple[Range, ...]:
            found: tuple[Range, ...] = self._ask("ranges", protocol.Ranges(space, part, hello))
            return _as_many(found, part)

        return tuple(one for found in self._by_parts(prefixes, ask) for one in found)

    def listing(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[SyncItem, ...]:
        """As ``Peer.listing``; on a bad line by ever longer prefixes."""
        left, found, stuck = list(prefixes), [], 0
        while left:
            part = tuple(left[: self._width(_LISTED)])
            try:
                found += self._ask("listing", protocol.Ranges(space, part, hello))
            except BrokenConnection as broken:
                self._broke(broken)
                stuck += len(part) == 1
                # Not at the first break: sixteen questions for one must not become ever more.
                if stuck >= _STUCK and len(part[0]) < _ADDRESS:
                    left[:1] = [part[0] + digit for digit in _DIGITS]
                    stuck = 0
                continue
            stuck = 0
            del left[: len(part)]
        return tuple(found)

    def lacking(self, space: Space, items: Sequence[SyncItem]) -> bytes:
        """As ``Peer.lacking``."""

        def ask(part: tuple[SyncItem, ...]) -> bytes:
            found: bytes = self._ask("lacking", protocol.Lacking(space, part))
            return _as_many(found, part)

        return b"".join(self._by_parts(items, ask))

    def give(self, space: Space, keys: Sequence[bytes], hello: Hello) -> Batch:
        """As ``Peer.give``.

        Raises:
            IntegrityError: a grain is none of those that were asked for.
        """
        whole: Batch | None = None
        at = 0
        while whole is None or at < len(keys):
            part = tuple(keys[at : at + self._width(_GRAIN)])
            try:
                batch: Batch = self._ask("give", protocol.Give(space, part, hello))
            except BrokenConnection as broken:
                self._broke(broken)
                continue
            if space in ("grains", "signatures") and not set(parts.digests(batch.grains)) <= set(
                part
            ):
                raise IntegrityError("the other store gives grains that nobody asked for")
            whole = batch if whole is None else _joined(whole, batch)
            at += len(part)
            if batch.rest or sum(map(len, whole.grains)) >= SIZE:
                break
        return replace(whole, rest=whole.rest + tuple(keys[at:]))

    def take(self, batch: Batch) -> BatchResult:
        """As ``Peer.take``; on a bad line in parts, each a commit of its own.

        Grains that were there when the answer was lost count as duplicates.
        """
        done, late = BatchResult(), Batch(batch.store)
        left: Batch | None = batch
        while left is not None:
            # A full batch is a bit larger than SIZE, and goes as one.
            part, rest = parts.cut(left, max(1, 2 * SIZE // self._share))
            sent = parts.together(late, part) if rest is None else part
            try:
                took: BatchResult = self._ask("take", sent)
            except BrokenConnection as broken:
                self._broke(broken)
                fresh = self._not_there(sent, part.grains)
                gone = len(part.grains) - len(fresh)
                done = replace(done, duplicates=done.duplicates + gone)
                later = () if rest is None else rest.grains
                left = replace(left, grains=fresh + later)
                continue
            done = parts.added(done, took, last=rest is None)
            if rest is not None:
                late = parts.together(late, parts.put_off(part, took))
            left = rest
        return done

    def _not_there(self, batch: Batch, grains: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Those that must be sent again, after an answer was lost.

        An envelope may bring a further signature to a grain that is there: it is sent again,
        unless the position of the feed says that all was taken.
        """
        if not grains:
            return ()
        there = self.lacking("grains", [SyncItem(digest) for digest in parts.digests(grains)])
        whole = False
        if batch.until is not None:
            whole = self.greet(Hello(batch.store, batch.namespaces)).seen == batch.until
        return tuple(
            grain
            for grain, answer in zip(grains, there, strict=True)
            if answer != HAS or not (whole or grain[:1] != ENVELOPE_BYTE)
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._line.close()

    def __repr__(self) -> str:
        return f"<HttpPeer at {self._line.host}>"

    def _ask(self, name: str, value: Any) -> Any:
        answer = self._line.ask(name, protocol.pack(value))
        found = protocol.unpack(protocol.ANSWERS[name], answer)
        self._breaks = 0
        self._reached = True
        self._calm += 1
        if self._calm >= _CALM and self._share > 1:
            self._share //= 2
            self._calm = 0
        return found

    def _surely(self, name: str, value: Any) -> Any:
        """Ask until there is an answer, as all others do that may ask for less."""
        while True:
            try:
                return self._ask(name, value)
            except BrokenConnection as broken:
                self._broke(broken)

    def _by_parts(self, items: Sequence[K], ask: Callable[[tuple[K, ...]], T]) -> list[T]:
        found, at = [], 0
        while at < len(items):
            part = tuple(items[at : at + self._width(_ITEM)])
            try:
                found.append(ask(part))
            except BrokenConnection as broken:
                self._broke(broken)
                continue
            at += len(part)
        return found

    def _width(self, size: int) -> int:
        """How many items go into a message, with so many bytes of question or answer for each."""
        return max(1, min(ITEMS, SIZE // (self._share * size)))

    def _broke(self, broken: BrokenConnection) -> None:
        """Wait, and go on with less; or give up."""
        self._calm = 0
        self._breaks += 1
        self._reached |= broken.reached
        if self._breaks >= (self._tries if self._reached else min(self._tries, _UNREACHED)):
            raise StoreError(
                f"the server at {self._line.url} does not answer",
                found=f"{broken.what}, {self._breaks} times in a row",
            ) from None
        if broken.after is None:
            self._share = min(self._share * _SMALLER, SIZE)
            longest = min(_LONGEST, _FIRST * 2 ** (self._breaks - 1))
            self._wait(longest * random.uniform(0.5, 1.0))  # not all come back at once
        else:
            self._wait(broken.after)


def _as_many(found: T, asked: Sequence[Any]) -> T:
    """See that there is an answer for each that was asked about."""
    if len(cast("Sequence[Any]", found)) != len(asked):
        raise StoreError("the other store does not answer what it was asked")
    return found


def _joined(first: Batch, second: Batch) -> Batch:
    return replace(
        first,
        grains=first.grains + second.grains,
        states=first.states + second.states,
        tombstones=first.tombstones + second.tombstones,
        withheld=first.withheld + second.withheld,
        rest=first.rest + second.rest,
    )
