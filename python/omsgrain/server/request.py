# SPDX-License-Identifier: Apache-2.0
"""One request of a route: its token, parameters and body.

A body is received piece by piece into an unnamed file and decompressed, with limits of size, speed
and compression.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from email.policy import HTTP
from functools import partial
from typing import IO, Any, Final, Literal, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from omsgrain.crypto.seal import spool
from omsgrain.errors import OmsError
from omsgrain.json_values import parsed
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.service import Flag, HttpService, ServerOptions
from omsgrain.storage.tokens import Scope as TokenScope
from omsgrain.storage.tokens import Token, Tokens, is_token

T = TypeVar("T")

BUNDLE: Final = "application/aimem-bundle+json"
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
BLOB: Final = "application/octet-stream"
COSE_KEY: Final = "application/cose-key"
VERSION: Final = "1"
"""The parameter ``version`` of the media type of bundles."""
CODE: Final = "omsgrain.code"
"""Key in the scope of a request: the code of the error that cut its response short."""
_REALM: Final = 'Bearer realm="omsgrain"'
_SCHEME = "bearer"
_IN_MEMORY = 1 << 20  # bytes of a body that stays in memory
_PIECE = 256 << 10  # bytes that a thread writes in one step
_UNPACKED = 1 << 20  # the most bytes that one step decompresses
_BIT = 4 << 10  # bytes for the decompressor in one call
_BUFFERED = 1 << 20  # bytes of a compressed body before its ratio counts
_DRAINED = 64 << 20  # bytes that are read and dropped, so that the client reads the refusal
_SHORT = 64 << 10  # bytes of a body read before a refusal, to keep the connection
_MEDIA = 256  # characters of a Content-Type: its parser takes quadratic time
_LENGTH = re.compile("[0-9]+")
_DIGITS = 18  # digits of a length; int() refuses thousands
_GZIP: Final = 31  # for zlib: a gzip header is needed
_LONGEST = 4_096
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?")
Step = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs something in a thread."""
Kind = Literal["text", "integer", "number", "boolean", "time", "json"]


@dataclass(slots=True)
class RequestContext:
    service: HttpService  # shared by all requests
    headers: Headers
    receive: Receive  # receives its body
    head: bool  # whether only the headers of the response are wanted
    path: Mapping[str, str]  # the named parts of the path
    given: Mapping[str, Any]  # the checked parameters
    media: str = ""  # the media type of the body; empty without a body
    token: Token | None = None  # the client's token; None if the route needs none

    @property
    def tenant(self) -> str:
        assert self.token is not None and self.token.tenant is not None, (
            "the route requires a tenant"
        )
        return self.token.tenant

    @property
    def actor(self) -> str:
        return f"token:{self.name}"

    @property
    def name(self) -> str:
        """The name of the client's token."""
        assert self.token is not None, "the route requires a token"
        return self.token.name

    async def body(self, limit: int) -> IO[bytes]:
        """Receive the body; the file is at its beginning."""
        service = self.service
        check_length(self.headers, limit)  # before it waits for a place
        async with service.uploads.inside(self.name):
            return await receive_body(
                self.receive, self.headers, limit, service.options, service.quick
            )

    async def do(
        self, function: Callable[[Flag], Response], body: IO[bytes] | None = None
    ) -> Response:
        """Work in a thread, once there is a place; a large body needs an extra one."""
        large = body is not None and size_of(body) > self.service.options.large

        async def work() -> Response:
            async with self.working(large=large) as flag:
                return await self.service.step(flag, partial(function, flag))

        return await until_gone(self.receive, work())

    def working(self, *, large: bool = False) -> AbstractAsyncContextManager[Flag]:
        """Wait for a place, and keep it for the block."""
        return self.service.working(self.name, large=large)


Handler = Callable[[RequestContext], Awaitable[Response]]


def size_of(file: IO[bytes]) -> int:
    """Return the size of a file, and go to its beginning."""
    size = file.seek(0, 2)
    file.seek(0)
    return size


async def until_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Wait for something; cancel it, and raise Gone, if the client disconnects."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(is_gone(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Gone
        return working.result()
    finally:
        for task in (working, watching):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def is_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def as_json(value: Any, headers: Mapping[str, str] | None = None) -> Response:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(data, headers=headers, media_type="application/json")


def secret_of(headers: Headers) -> str:
    """Return the token of a request. Spec: RFC 6750."""
    given = headers.getlist("authorization")
    if not given:
        raise HttpRefusal("missing_token", headers={"www-authenticate": _REALM})
    scheme, _, secret = given[0].strip().partition(" ")
    secret = secret.strip()
    if len(given) > 1 or scheme.lower() != _SCHEME or not secret:
        raise HttpRefusal(
            "malformed_token", headers={"www-authenticate": _challenge("invalid_request")}
        )
    if not is_token(secret):
        raise _unknown()
    return secret


def token_of(tokens: Tokens, secret: str, scopes: Sequence[TokenScope]) -> Token:
    """Return the record of a token; refuse it without one of the scopes."""
    token = tokens.find(secret)
    if token is None:
        raise _unknown()
    if not set(scopes) & set(token.scopes):
        asked = _challenge("insufficient_scope", f'scope="{" ".join(scopes)}"')
        detail = f"the scope {' or '.join(scopes)} is needed"
        raise HttpRefusal("missing_scope", detail, headers={"www-authenticate": asked})
    return token


def _unknown() -> HttpRefusal:
    return HttpRefusal("invalid_token", headers={"www-authenticate": _challenge("invalid_token")})


def _challenge(error: str, more: str | None = None) -> str:
    return ", ".join(filter(None, (f'{_REALM}, error="{error}"', more)))


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    says: str
    kind: Kind = "text"  # the type of its value; a time stays text for the query to read
    choices: tuple[str, ...] = ()  # its possible values; empty: any
    low: int | None = None  # the least number
    high: int | None = None  # the greatest number
    default: Any = None  # its default value
    rule: str = "invalid_parameter"  # the rule that a wrong choice breaks
    required: bool = False  # whether it is required


def read(query: bytes, known: Sequence[Parameter]) -> dict[str, Any]:
    table = {one.name: one for one in known}
    found: dict[str, Any] = {}
    for part in query.split(b"&"):
        if not part:
            continue
        name, _, value = part.partition(b"=")
        key, text = _text(name), _text(value)
        if key is None or key not in table:
            expected = ", ".join(table) or "none"
            raise HttpRefusal("unknown_parameter", f"expected one of {expected}")
        if key in found:
            raise HttpRefusal("invalid_parameter", f"{key} is given twice")
        found[key] = _value(table[key], text)
    for one in known:
        if one.required and one.name not in found:
            raise _wrong(one, one.says)
    return {one.name: one.default for one in known} | found


def _text(raw: bytes) -> str | None:
    try:
        text = unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if len(text) > _LONGEST or "\x00" in text else text


def _value(known: Parameter, text: str | None) -> Any:
    if text is None:
        raise _wrong(known, f"a text in UTF-8, of at most {_LONGEST} letters and without NUL")
    if known.choices and text not in known.choices:
        expected = ", ".join(known.choices)
        raise HttpRefusal(known.rule, f"{known.name}: expected {expected}")
    if known.kind == "boolean":
        if text not in _BOOLEANS:
            raise _wrong(known, "true or false")
        return _BOOLEANS[text]
    if known.kind == "integer":
        if not _INTEGER.fullmatch(text):
            raise _wrong(known, "a whole number")
        return _bounded(known, int(text))
    if known.kind == "number":
        if not _NUMBER.fullmatch(text):
            raise _wrong(known, "a number")
        return _bounded(known, float(text))
    if known.kind == "json":
        try:
            return parsed(text)
        except (ValueError, RecursionError, OmsError):
            raise _wrong(known, "JSON") from None
    return text


def _bounded(known: Parameter, number: Any) -> Any:
    low, high = known.low, known.high
    if (low is not None and number < low) or (high is not None and number > high):
        raise _wrong(known, f"{low} to {high}" if high is not None else f"at least {low}")
    return number


def _wrong(known: Parameter, expected: str) -> HttpRefusal:
    return HttpRefusal("invalid_parameter", f"{known.name}: expected {expected}")


def media_of(headers: Headers, known: Sequence[str]) -> str:
    """Return the media type of a body, one of those that a route accepts."""
    given = headers.getlist("content-type")
    if len(given) != 1:
        raise HttpRefusal("unsupported_media_type", "the Content-Type is missing")
    found = HTTP.header_factory("content-type", given[0]) if len(given[0]) <= _MEDIA else None
    if found is None or found.defects:
        raise HttpRefusal("unsupported_media_type", "the Content-Type cannot be read")
    if found.params.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise HttpRefusal("unsupported_media_type", "texts must be in UTF-8")
    name: str = found.content_type
    if name not in known:
        raise HttpRefusal("unsupported_media_type", f"expected {', '.join(known)}")
    if name == BUNDLE and found.params.get("version", VERSION) != VERSION:
        raise HttpRefusal("unsupported_media_version", f'expected version="{VERSION}"')
    return name


def weights(headers: Headers, name: str) -> dict[str, float]:
    """Return the values of a header such as ``Accept``, in lower case, with their weights."""
    found: dict[str, float] = {}
    for part in ",".join(headers.getlist(name)).split(","):
        value, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            found[value] = float(weight)
        except ValueError:
            found[value] = 0.0
    return found


class Gone(Exception):
    """The client disconnected."""


class Body:
    """Receives the messages of a body until it is complete."""

    __slots__ = ("_receive", "over")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.over = False

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.over = True
        return message


def check_length(headers: Headers, limit: int) -> None:
    """Refuse a body whose Content-Length is too large, before it is received."""
    length = _length(headers)
    if length is not None and length > limit:
        raise _too_large(limit)


def _length(headers: Headers) -> int | None:
    """Return the Content-Length; a huge number if it has too many digits; None without one."""
    given = headers.get("content-length", "")
    if not _LENGTH.fullmatch(given):
        return None
    return int(given) if len(given) <= _DIGITS else 10**_DIGITS


async def receive_body(
    receive: Receive, headers: Headers, limit: int, options: ServerOptions, step: Step
) -> IO[bytes]:
    """Receive a body into a file, and go to its beginning."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise HttpRefusal("unsupported_encoding", "expected identity or gzip")
    check_length(headers, limit)
    sink = _Sink(limit, options.ratio, packed=encoding != "identity")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + options.timeout
    pieces: list[bytes] = []
    gathered, more = 0, True
    try:
        while more:
            left = min(options.timeout, deadline - loop.time())
            try:
                message = await asyncio.wait_for(receive(), max(left, 0))
            except (asyncio.TimeoutError, TimeoutError):
                raise HttpRefusal("slow_request", headers={"connection": "close"}) from None
            if message["type"] == "http.disconnect":
                raise Gone
            piece, more = message.get("body", b""), message.get("more_body", False)
            deadline += len(piece) / options.slowest
            pieces.append(piece)
            gathered += len(piece)
            if gathered >= _PIECE or (not more and (gathered > _PIECE or sink.packed)):
                data, pieces, gathered = b"".join(pieces), [], 0
                await step(partial(sink.write, data))
        sink.write(b"".join(pieces))
        return sink.finish()
    except BaseException:
        sink.file.close()
        raise


async def answer_early(
    response: Response, scope: Scope, body: Body, send: Send, timeout: float
) -> None:
    """Respond to a request before its body was read.

    A short body is read first, and the connection stays open. Otherwise the response is sent at
    once and ends the connection. The server continues to read for a while, since a client that
    still sends would not see the response. A client with ``Expect: 100-continue`` gets the
    response and sends no body.
    """
    headers = Headers(scope=scope)
    if body.over or not ("content-length" in headers or "transfer-encoding" in headers):
        await response(scope, body, send)
        return
    waits = headers.get("expect", "").strip().lower() == "100-continue"
    closing = response.headers.get("connection") == "close"
    length = _length(headers)
    short = length is not None and length <= _SHORT
    if short and not waits and not closing and await _drain(body, timeout):
        await response(scope, body, send)
        return
    response.headers["connection"] = "close"

    async def unfinished(message: Message) -> None:
        more = {"more_body": True} if message["type"] == "http.response.body" else {}
        await send({**message, **more})

    await response(scope, body, unfinished)
    if not waits:
        await _drain(body, timeout)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drain(body: Body, timeout: float) -> bool:
    """Read the rest of a body up to a limit; return whether that was all."""
    loop = asyncio.get_running_loop()
    end, size = loop.time() + timeout, 0
    while not body.over and size < _DRAINED and (left := end - loop.time()) > 0:
        try:
            message = await asyncio.wait_for(body(), left)
        except (asyncio.TimeoutError, TimeoutError):
            return False
        size += len(message.get("body", b""))
    return body.over


class _Sink:
    """Writes the bytes of a body to a file, decompressed and within limits."""

    def __init__(self, limit: int, ratio: int, packed: bool) -> None:
        self.file = spool(_IN_MEMORY)
        self.packed = packed
        self._limit = limit
        self._ratio = ratio
        self._came = self._size = 0
        self._unpacker = zlib.decompressobj(_GZIP) if packed else None
        self._begun = False

    def write(self, data: bytes) -> None:
        self._came += len(data)
        if self._unpacker is None:
            self._put(data)
            return
        # In small pieces: the rest is copied after each gzip member, and members can be tiny.
        for at in range(0, len(data), _BIT):
            self._unpack(data[at : at + _BIT])

    def _unpack(self, data: bytes) -> None:
        while data:
            if self._unpacker is None or self._unpacker.eof:  # the next gzip member
                self._unpacker = zlib.decompressobj(_GZIP)
            try:
                self._put(self._unpacker.decompress(data, _UNPACKED))
            except zlib.error:
                raise HttpRefusal("invalid_encoding", "the body is not gzip") from None
            self._begun = True
            data = self._unpacker.unconsumed_tail or self._unpacker.unused_data

    def finish(self) -> IO[bytes]:
        if self._unpacker is not None and self._begun:
            while not self._unpacker.eof:
                # The decompressor holds bytes back until a call returns none.
                rest = self._unpacker.decompress(b"", _UNPACKED)
                if not rest:
                    raise HttpRefusal("invalid_encoding", "the gzip data ends too early")
                self._put(rest)
        self._measure()
        self.file.seek(0)
        return self.file

    def _put(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            raise _too_large(self._limit)
        if self._size > _BUFFERED:
            self._measure()
        self.file.write(data)

    def _measure(self) -> None:
        """Refuse a body with too high a compression ratio."""
        if self.packed and self._size > self._came * self._ratio:
            raise HttpRefusal(
                "body_too_large", "the body decompresses to more than the allowed ratio"
            )


def _too_large(limit: int) -> HttpRefusal:
    return HttpRefusal("body_too_large", f"at most {limit} bytes", headers={"connection": "close"})
