# SPDX-License-Identifier: Apache-2.0
"""Connections on which nothing happens, and their end.

uvicorn would wait for ever for the headers of a request, and for a client to take the end of its
answer. While a request is answered, `body` and `streaming` have an eye on the time.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection", "patient"]


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
