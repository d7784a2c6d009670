# SPDX-License-Identifier: Apache-2.0
"""Connections on which nothing happens, and their end; what is no HTTP.

uvicorn would wait for ever for the headers of a request, and for a client to take the end of its
answer. While a request is answered, `body` and `streaming` have an eye on the time.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, ClassVar, Final

import h11
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from omsgrain.services.http.problems import Refusal, answer

__all__ = ["HEAD", "Connection", "head_size", "patient"]

HEAD: Final = 64 << 10
"""Bytes that the request line and the headers of a request may have."""
_TOO_LARGE: Final = 431


def head_size(scope: Scope) -> int:
    """How many bytes the request line and the headers had, but for spaces that mean nothing."""
    path = scope.get("raw_path") or scope["path"].encode()
    line = len(scope["method"]) + len(path) + len(scope["query_string"]) + len("  HTTP/1.1")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])


class Connection(H11Protocol):
    """A connection that is looked at now and then; one that is as it was is closed.

    Attributes:
        patience: seconds between two looks.
    """

    patience: ClassVar[float]
    _look: asyncio.TimerHandle | None = None
    _seen: tuple[Any, int] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self._look = self.loop.call_later(self.patience, self.look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP as everything else is refused, and end the connection.

        Bytes that follow the last request of a connection do not cost it its answer.
        """
        cycle = self.cycle
        if cycle is not None and not (cycle.more_body or cycle.response_complete):
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        hint = getattr(sys.exc_info()[1], "error_status_hint", None)
        rule = "headers_too_large" if hint == _TOO_LARGE else "invalid_request"
        told = answer(Refusal(rule, headers={"connection": "close"}))
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # else it is answered already
            headless = self.conn.our_state is h11.SEND_RESPONSE and self.scope["method"] == "HEAD"
            head = h11.Response(status_code=told.status_code, headers=told.raw_headers)
            body = h11.Data(data=b"" if headless else bytes(told.body))
            for event in (head, body, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # its answer has been given, or cannot be
            cycle.message_event.set()
        self.transport.close()

    def look(self) -> None:
        """Close it if no request came since the last look, and nothing of the answer was taken."""
        works = self.cycle is not None and not self.cycle.response_complete
        if works and not self.transport.is_closing():
            self._seen = None
        else:
            seen = self.cycle, self.transport.get_write_buffer_size()
            if seen == self._seen:
                if seen[1] or self.transport.is_closing():
                    self.transport.abort()  # to close it is to wait until all is taken
                    return
                self.transport.close()
            self._seen = seen
        self._look = self.loop.call_later(self.patience, self.look)


def patient(seconds: float) -> type[Connection]:
    """Connections that are looked at each so many seconds."""

    class Patient(Connection):
        patience = seconds

    return Patient
