# SPDX-License-Identifier: Apache-2.0
"""Bodies: received piece by piece into a file that has no name, unpacked on the way, bounded."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable
from typing import IO, Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from omsgrain.crypto.seal import spool
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.options import ServerOptions

_IN_MEMORY = 1 << 20  # bytes of a body that needs no file
_PIECE = 256 << 10  # bytes that are gathered for one step of a thread
_UNPACKED = 1 << 20  # bytes that one step unpacks at the most
_BIT = 4 << 10  # bytes that are handed to the unpacker at a time
_BUFFERED = 1 << 20  # bytes to which a packed body may grow before it is measured
_DRAINED = 64 << 20  # bytes that are read and thrown away, so that a client hears the refusal
_SHORT = 64 << 10  # bytes of a body that is read before its refusal, which keeps the connection

_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PARAMETER = re.compile(
    r"""\s*;\s*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([!#$%&'*+.^_`|~0-9A-Za-z-]+|"[^"\\]*"))?"""
)
_LENGTH = re.compile("[0-9]+")
_DIGITS = 18  # of a length; int() refuses those of thousands
_GZIP: Final = 31  # of zlib: a gzip header is needed

Step = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs something that may take a while in a thread."""


class Gone(Exception):
    """The client went away."""


class Body:
    """What gives the pieces of a body, and knows when it is over."""

    __slots__ = ("_receive", "over")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.over = False

    async def __call__(self) -> Message:
        """The next message."""
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.over = True
        return message


class Media:
    """A media type and its parameters, both in lower case but for quoted values."""

    __slots__ = ("name", "parameters")

    def __init__(self, name: str, parameters: dict[str, str]) -> None:
        self.name = name
        self.parameters = parameters


def media_of(headers: Headers) -> Media:
    """Read the media type of a body."""
    given = headers.getlist("content-type")
    found = _TYPE.match(given[0].strip()) if len(given) == 1 else None
    if found is None:
        raise HttpRefusal("unsupported_media_type", "the body has no media type")
    text, parameters, at = given[0].strip(), {}, found.end()
    while at < len(text):
        part = _PARAMETER.match(text, at)
        if part is None or part.end() == at:
            raise HttpRefusal("unsupported_media_type", "the media type cannot be read")
        if part[1] is not None:
            parameters[part[1].lower()] = part[2].strip('"')
        at = part.end()
    if parameters.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise HttpRefusal("unsupported_media_type", "texts are taken in UTF-8")
    return Media(found[0].lower(), parameters)


def check_length(headers: Headers, limit: int) -> None:
    """Refuse a body that says it is too large, before any of it is received."""
    length = _length(headers)
    if length is not None and length > limit:
        raise _too_large(limit)


def _length(headers: Headers) -> int | None:
    """The length that a body says it has; of one without an end a length that is none."""
    given = headers.get("content-length", "")
    if not _LENGTH.fullmatch(given):
        return None
    return int(given) if len(given) <= _DIGITS else 10**_DIGITS


async def receive_body(
    receive: Receive, headers: Headers, limit: int, options: ServerOptions, step: Step
) -> IO[bytes]:
    """Receive a body; the file stands at its beginning."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise HttpRefusal("unsupported_encoding", "identity and gzip are taken")
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
                await step(lambda data=data: sink.write(data))  # type: ignore[misc]
        sink.write(b"".join(pieces))
        return sink.finish()
    except BaseException:
        sink.file.close()
        raise


async def answer_early(
    response: Response, scope: Scope, body: Body, send: Send, timeout: float
) -> None:
    """Refuse a request of which the body was not read.

    The answer goes out at once and ends the connection; what the client has already sent is read
    for a while, or it would not hear the answer. A short body is read first, and the connection
    kept. A client that waits to be told to send its body is told the answer instead.
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
    """Read what is left of a body, up to a bound; whether that was all of it."""
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
    """Takes the bytes of a body, unpacks them, and counts."""

    def __init__(self, limit: int, ratio: int, packed: bool) -> None:
        self.file = spool(_IN_MEMORY)
        self.packed = packed
        self._limit = limit
        self._ratio = ratio
        self._came = self._size = 0
        self._unpacker = zlib.decompressobj(_GZIP) if packed else None
        self._begun = False

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._came += len(data)
        if self._unpacker is None:
            self._put(data)
            return
        # Bit by bit: what is left after each part of a file is copied, and parts can be tiny.
        for at in range(0, len(data), _BIT):
            self._unpack(data[at : at + _BIT])

    def _unpack(self, data: bytes) -> None:
        while data:
            if self._unpacker is None or self._unpacker.eof:  # parts, one after the other
                self._unpacker = zlib.decompressobj(_GZIP)
            try:
                self._put(self._unpacker.decompress(data, _UNPACKED))
            except zlib.error:
                raise HttpRefusal("invalid_encoding", "not gzip") from None
            self._begun = True
            data = self._unpacker.unconsumed_tail or self._unpacker.unused_data

    def finish(self) -> IO[bytes]:
        """Give the file, from its beginning."""
        if self._unpacker is not None and self._begun:
            while not self._unpacker.eof:
                # What stays in the unpacker comes with further calls, until nothing does.
                rest = self._unpacker.decompress(b"", _UNPACKED)
                if not rest:
                    raise HttpRefusal("invalid_encoding", "the gzip was cut short")
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
        """Refuse what unpacks to more than anything does that is worth sending."""
        if self.packed and self._size > self._came * self._ratio:
            raise HttpRefusal("body_too_large", "it unpacks to more than such a body can hold")


def _too_large(limit: int) -> HttpRefusal:
    return HttpRefusal("body_too_large", f"at most {limit} bytes", headers={"connection": "close"})


BUNDLE: Final = "application/aimem-bundle+json"
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
BLOB: Final = "application/octet-stream"
COSE_KEY: Final = "application/cose-key"
VERSION: Final = "1"
"""The value that the parameter ``version`` of the bundle's media type can have."""


def weights(headers: Headers, name: str) -> dict[str, float]:
    """What a header such as ``Accept`` asks for, in lower case, and how much."""
    found: dict[str, float] = {}
    for part in ",".join(headers.getlist(name)).split(","):
        value, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            found[value] = float(weight)
        except ValueError:
            found[value] = 0.0
    return found
