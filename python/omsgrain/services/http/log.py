# SPDX-License-Identifier: Apache-2.0
"""The access log: a line a request, without content, tokens, tenants or query strings.

A path is told as its template, since addresses and whatever a client wrongly puts there are
somebody's. What the server does not expect is told by its class and its place in our code: its
text could have content in it.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from secrets import token_hex
from typing import Any, Literal, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omsgrain.services.http.problems import Refusal, answer

__all__ = ["ROUTE", "AccessLog", "Format", "Log"]

Format = Literal["text", "json"]
ROUTE = "omsgrain.route"
"""Where in the scope of a request the template of its path stands."""
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_ABORTED = "aborted"


class Log:
    """Writes the lines.

    Args:
        form: ``text`` or ``json``.
        stream: where to; stderr by default.
    """

    def __init__(self, form: Format = "text", stream: TextIO | None = None) -> None:
        self._json = form == "json"
        self._stream = stream

    def write(self, event: str, **values: Any) -> None:
        """Write a line."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        if self._json:
            line = json.dumps({"time": now, "event": event, **values})
        else:
            told = (f"{k}={v}" for k, v in values.items() if v is not None)
            line = " ".join([now, event, *told])
        stream = self._stream or sys.stderr
        try:
            stream.write(line + "\n")
            stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads the log any more: no reason to stop serving

    def defect(self, error: BaseException, request: str) -> None:
        """Tell of something that was not expected."""
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "omsgrain" in f.filename] or list(frames)
        place = None
        if ours:
            name = ours[-1].filename.replace("\\", "/").rpartition("omsgrain/")[2]
            place = f"{name}:{ours[-1].lineno}"
        self.write("defect", request=request, error=type(error).__name__, place=place)


@dataclass(slots=True)
class _Told:
    """What is known of an answer when it is over."""

    status: int | None = None
    size: int = 0
    whole: bool = False


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
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                ]
            elif message["type"] == "http.response.body":
                told.size += len(message.get("body", b""))
                told.whole = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, tell)
        except Exception as error:
            self._log.defect(error, request)
            if told.status is None:
                await answer(Refusal("internal"))(scope, receive, tell)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            self._log.write(
                "request",
                request=request,
                method=method,
                route=scope.get(ROUTE, "-"),
                status=told.status if told.whole else f"{told.status or '-'} {_ABORTED}",
                bytes=told.size,
                ms=round((self._clock() - began) * 1000, 1),
            )
