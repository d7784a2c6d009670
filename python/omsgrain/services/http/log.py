# SPDX-License-Identifier: Apache-2.0
"""The access log: a line a request, without content, tokens, tenants or query strings.

If it is to have the name of a token, that is what it is called here and in the audit trail.

A path is told as its template, since addresses and whatever a client wrongly puts there are
somebody's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omsgrain.services.http.problems import Refusal, answer
from omsgrain.services.log import Log

__all__ = ["CODE", "ROUTE", "TOKEN", "AccessLog"]

ROUTE = "omsgrain.route"
"""Where in the scope of a request the template of its path stands."""
TOKEN = "omsgrain.token"
"""Where the name of the token stands, if it is to be told."""
CODE = "omsgrain.code"
"""Where the code of the error stands that ended an answer in its middle."""
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_ABORTED = "aborted"


@dataclass(slots=True)
class _Told:
    """What is known of an answer when it is over."""

    status: int | None = None
    size: int = 0
    length: int | None = None
    ended: bool = False

    @property
    def whole(self) -> bool:
        """Whether all of it went out; who has all that was announced may leave before the end."""
        return self.ended or self.size == self.length


class AccessLog:
    """The outermost layer: gives each request an id, logs it, and lets nothing out.

    Args:
        app: what is inside.
        log: where to.
        clock: seconds, of any beginning.
    """

    def __init__(
        self, app: ASGIApp, log: Log, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._log = log
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request, told = self._clock(), token_hex(8), _Told()

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                told.status = message["status"]
                length = dict(message.get("headers", ())).get(b"content-length")
                told.length = None if length is None else int(length)
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                ]
            elif message["type"] == "http.response.body":
                told.size += len(message.get("body", b""))
                told.ended = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, tell)
        except Exception as error:
            self._log.defect(error, request)
            if told.status is None:
                await answer(Refusal("internal"))(scope, receive, tell)
        finally:
            names = {"token": TOKEN, "code": CODE}
            known = {name: scope[key] for name, key in names.items() if key in scope}
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            self._log.write(
                "request",
                request=request,
                method=method,
                route=scope.get(ROUTE, "-"),
                status=told.status if told.whole else f"{told.status or '-'} {_ABORTED}",
                **known,
                bytes=told.size,
                ms=round((self._clock() - began) * 1000, 1),
            )
