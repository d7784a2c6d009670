# SPDX-License-Identifier: Apache-2.0
"""One request on its way through a route: who asks, for what, with which body."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Literal, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive

from omsgrain.server.bodies import Gone, check_length, receive_body
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.service import Flag, HttpService
from omsgrain.storage.tokens import Token

T = TypeVar("T")


@dataclass(slots=True)
class RequestContext:
    """One request.

    Attributes:
        service: what all requests share.
        headers: of the request.
        receive: gives its body.
        head: only the headers of the answer are wanted.
        path: the parts of the path that have names.
        given: the parameters, each known and of its kind.
        media: the media type of the body, one that the route takes; empty without a body.
        token: who asks; None where everybody may.
    """

    service: HttpService
    headers: Headers
    receive: Receive
    head: bool
    path: Mapping[str, str]
    given: Mapping[str, Any]
    media: str = ""
    token: Token | None = None

    @property
    def tenant(self) -> str:
        """Whose memory this is about."""
        assert self.token is not None and self.token.tenant is not None, "the route asks for one"
        return self.token.tenant

    @property
    def actor(self) -> str:
        """Who acts, as the audit trail names it."""
        return f"token:{self._who}"

    @property
    def _who(self) -> str:
        assert self.token is not None, "the route asks for a token"
        return self.token.name

    async def body(self, limit: int) -> IO[bytes]:
        """Receive the body; errors are those of ``receive_body``."""
        service = self.service
        check_length(self.headers, limit)  # at once, and not when it is its turn
        async with service.uploads.inside(self._who):
            return await receive_body(
                self.receive, self.headers, limit, service.options, service.quick
            )

    async def do(self, function: Callable[[Flag], Response], *, size: int = 0) -> Response:
        """Do all of the work in a thread, when it is this request's turn.

        It ends at its next step when the client goes away, for which all of the body must be here.
        """
        return await self._while_there(self._in_turn(function, size))

    async def _in_turn(self, function: Callable[[Flag], Response], size: int) -> Response:
        async with self.working(large=size > self.service.options.large) as flag:
            return await self.service.step(flag, partial(function, flag))

    async def _while_there(self, work: Coroutine[Any, Any, T]) -> T:
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(is_gone(self.receive))
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

    def working(self, *, large: bool = False) -> AbstractAsyncContextManager[Flag]:
        """Wait for a turn, and keep it for the block."""
        return self.service.working(self._who, large=large)


async def is_gone(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


Handler = Callable[[RequestContext], Awaitable[Response]]


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(data, status, headers, media_type="application/json")


Kind = Literal["text", "integer", "number", "boolean", "time"]
_LONGEST = 4_096
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a resource.

    Attributes:
        name: how it is called.
        says: what it asks for.
        kind: of its value. A time is ms since 1970, or RFC 3339 text.
        choices: the values that it can have; any, if there are none.
        low: the least number.
        high: the greatest.
        default: what stands for it when it is not given.
        rule: what a wrong choice breaks.
        required: whether it must be given.
    """

    name: str
    says: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    default: Any = None
    rule: str = "invalid_parameter"
    required: bool = False


def read(query: bytes, known: Sequence[Parameter]) -> dict[str, Any]:
    """Read the query string of a request; what is not given has its default."""
    table = {one.name: one for one in known}
    found: dict[str, Any] = {}
    for part in query.split(b"&"):
        if not part:
            continue
        name, _, value = part.partition(b"=")
        key, text = _text(name), _text(value)
        if key is None or key not in table:
            expected = ", ".join(table) or "none"
            raise HttpRefusal("unknown_parameter", f"known are: {expected}")
        if key in found:
            raise HttpRefusal("invalid_parameter", f"{key} stands twice")
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
        status = None if known.rule == "invalid_parameter" else 422
        expected = ", ".join(known.choices)
        raise HttpRefusal(known.rule, f"{known.name}: expected {expected}", status=status)
    if known.kind == "boolean":
        if text not in _BOOLEANS:
            raise _wrong(known, "true or false")
        return _BOOLEANS[text]
    if known.kind == "integer" or (known.kind == "time" and _INTEGER.fullmatch(text)):
        if not _INTEGER.fullmatch(text):
            raise _wrong(known, "a whole number")
        return _bounded(known, int(text))
    if known.kind == "number":
        if not _NUMBER.fullmatch(text):
            raise _wrong(known, "a number")
        return _bounded(known, float(text))
    return text


def _bounded(known: Parameter, number: Any) -> Any:
    low, high = known.low, known.high
    if (low is not None and number < low) or (high is not None and number > high):
        raise _wrong(known, f"{low} to {high}" if high is not None else f"at least {low}")
    return number


def _wrong(known: Parameter, expected: str) -> HttpRefusal:
    return HttpRefusal("invalid_parameter", f"{known.name}: expected {expected}")
