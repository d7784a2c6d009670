# SPDX-License-Identifier: Apache-2.0
"""The figures of a bridge at ``http://127.0.0.1:PORT/metrics``, for Prometheus on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from omsgrain.errors import OmsError, StoreError
from omsgrain.server.metrics import MEDIA_TYPE, counters, store_figures, text_of

if TYPE_CHECKING:
    from omsgrain.bridge.bridge import BridgeCounts
    from omsgrain.store import GrainStore

HOST: Final = "127.0.0.1"
_PATH: Final = "/metrics"
_IDLE: Final = 10  # seconds until a silent client is disconnected


def metrics_text(store: GrainStore, counts: BridgeCounts) -> str:
    helps = {one.name: one.metadata["help"] for one in fields(counts)}
    own = counters("omsgrain_bridge", counts.to_dict(), helps)
    return text_of([*store_figures(store), *own])


@contextmanager
def metrics_served(port: int, text: Callable[[], str]) -> Iterator[int]:
    """Serve a text at /metrics for the block; yield the port, which 0 lets the system choose."""
    try:
        server = ThreadingHTTPServer((HOST, port), partial(_Handler, text))
    except OSError as error:
        raise StoreError(f"port {port} of {HOST} is not free: {error.strerror}") from None
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    timeout = _IDLE
    server_version, sys_version = "omsgrain", ""

    def __init__(self, text: Callable[[], str], *args: Any) -> None:
        self._text = text
        super().__init__(*args)

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != _PATH:
            self.send_error(404)
            return
        try:
            body = self._text().encode()
        except OmsError:
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("Content-Type", MEDIA_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: the bridge has a log of its own."""
