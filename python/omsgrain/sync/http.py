# SPDX-License-Identifier: Apache-2.0
"""A store behind an HTTP server as a peer: requests, retries, smaller messages after failures."""

from __future__ import annotations

import ipaddress
import json
import random
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from omsgrain import _core, errors
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
from omsgrain.sync import protocol, states
from omsgrain.sync.batch import digests
from omsgrain.sync.peer import (
    FRAME,
    HAS,
    ITEMS,
    LEAST_FRAME,
    SHORT,
    SIZE,
    Batch,
    BatchResult,
    GrainState,
    Greeting,
    Hello,
    Kind,
    Position,
    Reconciled,
    Space,
)
from omsgrain.sync.protocol import MEDIA, MOST, PATH

if TYPE_CHECKING:
    import httpx

_SCHEMES = ("http", "https")


def is_url(text: str) -> bool:
    """Whether a text is the URL of a server, and not a path."""
    return text.lower().startswith(tuple(f"{scheme}://" for scheme in _SCHEMES))


def service_url(text: str) -> str:
    """Return the URL of a server; refuse a URL to which a token must not be sent."""
    expected = "https://host or https://host/path"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise SchemaError("not the URL of a server", expected=expected) from None
    if parts.scheme not in _SCHEMES or not host or port == 0:
        raise SchemaError("not the URL of a server", expected=expected)
    if parts.username is not None or parts.query or parts.fragment:
        raise SchemaError(
            "the URL contains a token, user or query: use --token-file or OMSGRAIN_TOKEN",
            expected=expected,
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise UnsupportedError(
            "http:// to another machine would send the token and the grains unencrypted",
            expected="https://",
        )
    return text.rstrip("/")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_COME_BACK: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses after which a retry may succeed."""
_LATEST = 60.0  # the longest Retry-After, in seconds, that a retry waits
_REFUSAL = 64 << 10  # the most bytes of problem details
_SLOWEST = 4 << 10  # bytes per second; a slower response counts as broken
_TOKEN = re.compile("[!-~]+")
_PROBLEM = "application/problem+json"


class BrokenConnection(Exception):
    """The connection broke, or the server asks for a retry: the server may have run the request.

    ``after`` are the seconds to wait before a retry, if the server named them.
    """

    def __init__(self, what: str, after: float | None = None, *, reached: bool = True) -> None:
        super().__init__(what)
        self.what = what
        self.after = after
        self.reached = reached


def _trusted(verify: str | None) -> Any:
    """Return what httpx trusts: the certificates of the system, or of a file."""
    if verify is None:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=verify)
    except (OSError, ssl.SSLError):
        raise UnsupportedError(
            "the certificates to trust cannot be read", expected="a PEM file"
        ) from None


def _refuse_stranger(error: BaseException) -> None:
    """Refuse an untrusted certificate: a retry would not help."""
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise StoreError(
                "the certificate of the server is not trusted",
                expected="a certificate of a known authority, or of --ca",
                found=cause.verify_message,
            ) from None
        cause = cause.__cause__ or cause.__context__


def _refused(status: int, body: bytes, after: str) -> Exception:
    """Return the error for a response without a sync message."""
    problem = _problem(body)
    if status in _COME_BACK:
        seconds = min(float(after), _LATEST) if after.isascii() and after.isdigit() else None
        return BrokenConnection(problem.get("rule", f"status {status}"), seconds)
    code, rule = problem.get("code", ""), problem.get("rule")
    if status in (401, 403) and code not in errors.BY_CODE:
        text = problem.get("detail") or problem.get("title")
        text = text or "the server does not allow this for the token"
        return KeyMissingError(text, rule=rule, found=f"status {status}")
    if code in errors.BY_CODE:
        kind: type[OmsError] = errors.BY_CODE[code]
        text = problem.get("detail", "the other store refuses")
        return kind(text, rule=rule, field=problem.get("pointer"))
    if 300 <= status < 400:
        return StoreError("the server redirects", expected="its final URL")
    return StoreError(
        "the response is not from an omsgrain server", found=f"status {status}", rule=rule
    )


def _problem(body: bytes) -> dict[str, str]:
    """Return the texts of problem details; empty if they cannot be read."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    return {name: value[:300] for name, value in texts.items() if value.isprintable()}


_TRIES: Final = 10
_UNREACHED: Final = 3
_FIRST, _LONGEST = 0.5, 30.0  # seconds to wait before a retry
_SMALLER = 4
_CALM = 8  # responses in a row before messages grow again
_ITEM, _GRAIN = 48, 512  # about how many bytes an address and a grain take
_ABOUT = 64  # bytes of a tombstone in a message
_LENGTH = 4


class HttpPeer:
    """A store behind ``omsgrain serve``; needs the extra ``web``.

    Args:
        url: The URL of the server, such as ``https://hub.example``; ``http://`` only on this
            machine.
        token: Sent to this server only.
        verify: A file of certificates to trust instead of the system's.
        timeout: Seconds without a byte until the connection counts as broken.
        tries: The peer gives up after this many failures in a row; after at most three if the
            server was never reached.
        wait: Waits some seconds.
        transport: An httpx transport, instead of a new connection.

    Attributes:
        url: The URL of the server, without secrets.
        sent: Bytes of all messages sent, without headers, also of lost ones.
        received: Bytes of all responses, without headers.

    Raises:
        SchemaError: Not the URL of a server, or one with a token in it.
        KeyMissingError: The token is not valid.
        UnsupportedError: The connection would not be encrypted, or httpx is not installed.
    """

    remote: Final = True

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
        self.url = service_url(url)
        self.sent = self.received = 0
        self._timeout, self._tries, self._wait = timeout, tries, wait
        self._divisor = 1  # of the allowed size of a message
        self._breaks = self._calm = 0
        self._reached = False
        try:
            self._httpx: Any = import_module("httpx")
        except ImportError:
            text = "sync over HTTP needs more packages"
            raise UnsupportedError(text, expected=packages_of("web")) from None
        headers = {"content-type": MEDIA, "accept": MEDIA, "accept-encoding": "identity"}
        if token is not None:
            if _TOKEN.fullmatch(token) is None:
                raise KeyMissingError(
                    "the token for the server is not valid",
                    expected="ASCII letters without spaces",
                )
            headers["authorization"] = f"Bearer {token}"
        self._client: httpx.Client = self._httpx.Client(
            headers=headers,
            verify=_trusted(verify),
            follow_redirects=False,
            trust_env=self.url.startswith("https"),  # a proxy must not see unencrypted requests
            timeout=timeout,
            transport=transport,
        )

    def hello(self, hello: Hello) -> Greeting:
        """As ``Peer.hello``; all requests raise these errors.

        Raises:
            KeyMissingError: The server does not accept the token, or not for this.
            StoreError: The connection broke again and again, the other store is busy, or the
                server is not omsgrain.
            OmsError: The other store refuses, or the response is not a sync message.
        """
        found: Greeting = self._retried("greet", hello)
        return found

    def tombstones(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        found: tuple[bytes, ...] = self._retried("share", tuple(keys))
        return found

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        """As ``Peer.changes``; smaller batches on a bad connection."""
        found: Batch | None = None
        while found is None:
            most = max(min(size, 1), min(size, SIZE) // self._divisor)
            found = self._try("changes", protocol.Changes(since, hello, most))
        return found

    def reconcile(
        self,
        space: Space,
        message: bytes,
        hello: Hello,
        initiator: bool = False,
        limit: int = FRAME,
    ) -> Reconciled:
        """As ``Peer.reconcile``; shorter messages on a bad connection."""
        found: Reconciled | None = None
        while found is None:
            most = max(LEAST_FRAME, min(limit, FRAME // self._divisor))
            part = _core.cut_message(message, most)
            asked = protocol.Reconcile(space, part, hello, initiator, most)
            found = self._try("reconcile", asked)
        return found

    def missing(self, addresses: Sequence[bytes]) -> bytes:
        """As ``Peer.missing``; fewer addresses at once on a bad connection."""
        found, at = b"", 0
        while at < len(addresses):
            part = tuple(addresses[at : at + self._width(_ITEM)])
            answer = self._try("lacking", part)
            if answer is None:
                continue
            if len(answer) != len(part):
                raise StoreError("the response does not match the request")
            found += answer
            at += len(part)
        return found

    def get(self, kind: Kind, keys: Sequence[bytes], hello: Hello) -> Batch:
        """As ``Peer.get``.

        Raises:
            IntegrityError: The other store sent a grain that was not requested.
        """
        whole: Batch | None = None
        at = 0
        while whole is None or at < len(keys):
            part = tuple(keys[at : at + self._width(_GRAIN)])
            batch: Batch | None = self._try("give", protocol.Get(kind, part, hello))
            if batch is None:
                continue
            asked = {key[:SHORT] for key in part}
            if kind == "grains" and not {key[:SHORT] for key in digests(batch.grains)} <= asked:
                raise IntegrityError("the other store sent grains that were not requested")
            whole = batch if whole is None else _joined(whole, batch)
            at += len(part)
            if batch.rest or sum(map(len, whole.grains)) >= SIZE:
                break
        return replace(whole, rest=whole.rest + tuple(keys[at:]))

    def put(self, batch: Batch) -> BatchResult:
        """As ``Peer.put``; on a bad connection in parts, each a commit.

        If a response is lost, the written grains count as duplicates.
        """
        done, late = BatchResult(), Batch(batch.store)
        left: Batch | None = batch
        while left is not None:
            # A full batch is a bit larger than SIZE, and is sent whole.
            part, rest = cut_batch(left, max(1, 2 * SIZE // self._divisor))
            sent = together(late, part) if rest is None else part
            took: BatchResult | None = self._try("take", sent)
            if took is None:
                fresh = self._not_there(sent, part.grains)
                gone = len(part.grains) - len(fresh)
                done = replace(done, duplicates=done.duplicates + gone)
                later = () if rest is None else rest.grains
                left = replace(left, grains=fresh + later)
                continue
            done = _added(done, took, last=rest is None)
            if rest is not None:
                late = together(late, _put_off(part, took))
            left = rest
        return done

    def _not_there(self, batch: Batch, grains: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Return the grains to send again after a lost response.

        An envelope may add a signature to a stored grain. It is sent again, unless the position of
        the feed shows that the whole batch was written.
        """
        if not grains:
            return ()
        there = self.missing(digests(grains))
        whole = False
        if batch.until is not None:
            whole = self.hello(Hello(batch.store, batch.namespaces)).seen == batch.until
        return tuple(
            grain
            for grain, answer in zip(grains, there, strict=True)
            if answer != HAS or not (whole or grain[:1] != ENVELOPE_BYTE)
        )

    def close(self) -> None:
        self._client.close()

    def __repr__(self) -> str:
        return f"<HttpPeer at {urlsplit(self.url).hostname}>"

    def _retried(self, name: str, value: Any) -> Any:
        """Repeat a request until a response arrives."""
        found = None
        while found is None:
            found = self._try(name, value)
        return found

    def _try(self, name: str, value: Any) -> Any:
        """Return the response; None after a failure, when the request can be repeated."""
        try:
            answer = self._send(name, protocol.pack(value))
        except BrokenConnection as broken:
            self._broke(broken)
            return None
        found = protocol.unpack(protocol.ANSWERS[name], answer)
        self._breaks = 0
        self._reached = True
        self._calm += 1
        if self._calm >= _CALM and self._divisor > 1:
            self._divisor //= 2
            self._calm = 0
        return found

    def _send(self, name: str, body: bytes) -> bytes:
        self.sent += len(body)
        try:
            with self._client.stream("POST", f"{self.url}{PATH}{name}", content=body) as answer:
                media = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
                if answer.status_code == 200 and media == MEDIA:
                    return self._read(answer, MOST)
                body = self._read(answer, _REFUSAL) if media == _PROBLEM else b""
                raise _refused(answer.status_code, body, answer.headers.get("retry-after", ""))
        except self._httpx.TransportError as error:
            _refuse_stranger(error)
            unreached = (self._httpx.ConnectError, self._httpx.ConnectTimeout)
            raise BrokenConnection(
                type(error).__name__, reached=not isinstance(error, unreached)
            ) from None
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            text = f"the request to {self.url} failed"
            raise StoreError(text, found=type(error).__name__) from None

    def _read(self, answer: httpx.Response, most: int) -> bytes:
        """Return the body of a response, with limits of bytes and time."""
        data = bytearray()
        end = time.monotonic() + self._timeout
        for piece in answer.iter_raw():
            data += piece
            self.received += len(piece)
            if len(data) > most:
                raise TooLargeError("the response of the server is too large")
            if time.monotonic() > end + len(data) / _SLOWEST:
                raise BrokenConnection("too slow")
        return bytes(data)

    def _width(self, size: int) -> int:
        """Return how many items of a size fit into a message."""
        return max(1, min(ITEMS, SIZE // (self._divisor * size)))

    def _broke(self, broken: BrokenConnection) -> None:
        """Wait and make messages smaller, or give up."""
        self._calm = 0
        self._breaks += 1
        self._reached |= broken.reached
        if self._breaks >= (self._tries if self._reached else min(self._tries, _UNREACHED)):
            raise StoreError(
                f"the server at {self.url} does not respond",
                found=f"{broken.what}, {self._breaks} times in a row",
            ) from None
        if broken.after is None:
            self._divisor = min(self._divisor * _SMALLER, SIZE)
            longest = min(_LONGEST, _FIRST * 2 ** (self._breaks - 1))
            # Random: clients must not all retry at once.
            self._wait(longest * random.uniform(0.5, 1.0))
        else:
            self._wait(broken.after)


def _joined(first: Batch, second: Batch) -> Batch:
    names = ("grains", "states", "tombstones", "withheld", "rest")
    return replace(first, **{name: getattr(first, name) + getattr(second, name) for name in names})


def cut_batch(batch: Batch, size: int) -> tuple[Batch, Batch | None]:
    """Split a batch: grains with states about them, or states, or tombstones.

    Only the last part has the feed position. An interrupted sync therefore repeats the batch; the
    grains that it wrote are duplicates then.
    """
    things = len(batch.grains) + len(batch.states) + len(batch.tombstones)
    if _weight(batch) <= size or things <= 1:
        return batch, None
    early = Batch(batch.store, batch.namespaces, more=True)
    if batch.grains:
        count = _fitting([len(grain) + _LENGTH for grain in batch.grains], size)
        part, later = batch.grains[:count], batch.grains[count:]
        ready = _about(batch.states, set(digests(part)))
        # A state about a later grain too is sent again with that grain.
        others = set(batch.states) - set(ready) | set(_about(ready, set(digests(later))))
        first = replace(early, grains=part, states=ready)
        left = tuple(state for state in batch.states if state in others)
        rest = replace(batch, grains=later, states=left)
    elif batch.states:
        count = _fitting([states.weight(state) for state in batch.states], size)
        first = replace(early, states=batch.states[:count])
        rest = replace(batch, states=batch.states[count:])
    else:
        count = max(1, size // _ABOUT)
        first = replace(early, tombstones=batch.tombstones[:count])
        rest = replace(batch, tombstones=batch.tombstones[count:])
    return first, rest


def _put_off(part: Batch, done: BatchResult) -> Batch:
    """Return the refused items of a part to send again with the last part: they may need it."""
    late = {one.address for one in done.refused} | set(done.waiting)
    if not late:
        return Batch(part.store)
    grains = tuple(
        grain
        for grain, digest in zip(part.grains, digests(part.grains), strict=True)
        if digest in late
    )
    return Batch(part.store, grains=grains, states=_about(part.states, late))


def together(first: Batch, batch: Batch) -> Batch:
    """Add the grains and states of an earlier part to a batch."""
    return replace(batch, grains=first.grains + batch.grains, states=first.states + batch.states)


def _added(before: BatchResult, done: BatchResult, *, last: bool) -> BatchResult:
    """Add the results of two parts; refusals of a part before the last are tried again."""
    counts = ("stored", "duplicates", "states", "tombstones", "erased", "unproven")
    added = {name: getattr(before, name) + getattr(done, name) for name in counts}
    refused, waiting = (done.refused, done.waiting) if last else ((), ())
    return BatchResult(**added, refused=refused, waiting=waiting)


def _about(states: Sequence[GrainState], of: Collection[bytes]) -> tuple[GrainState, ...]:
    return tuple(
        state
        for state in states
        if state.address in of or any(one in of for one in state.successors)
    )


def _weight(batch: Batch) -> int:
    grains = sum(map(len, batch.grains)) + _LENGTH * len(batch.grains)
    return grains + sum(map(states.weight, batch.states)) + _ABOUT * len(batch.tombstones)


def _fitting(sizes: Sequence[int], size: int) -> int:
    """Return how many sizes fit, at least one."""
    count = total = 0
    for one in sizes:
        total += one
        if count and total > size:
            break
        count += 1
    return count
