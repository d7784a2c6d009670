# SPDX-License-Identifier: Apache-2.0
"""A server of S3's protocol on loopback, which keeps objects in memory and fails on demand."""

from __future__ import annotations

import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

BUCKET = "robots"
_MODIFIED = "2026-11-29T10:00:00.000Z"
_HEADER = "Sun, 29 Nov 2026 10:00:00 GMT"


class Failure(NamedTuple):
    """An answer in place of the right one; status 0 cuts the connection."""

    status: int
    code: str = ""


class ObjectServer:
    """A bucket on loopback.

    Attributes:
        objects: what it has, by name.
        asked: the method and the path of each request, with its query.
        fails: says what to answer in place of the right answer to a request.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.fails: Callable[[str, str], Failure | None] = lambda method, path: None
        server = self

        class Handler(_Handler):
            bucket = server

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def used_by(self, patch: pytest.MonkeyPatch, url: str | None = None) -> None:
        """Set what a client finds in the environment."""
        for name, value in {
            "AWS_ENDPOINT_URL": url or self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "an-id",
            "AWS_SECRET_ACCESS_KEY": "a-secret",
            "AWS_REGION": "eu-central-1",
        }.items():
            patch.setenv(name, value)

    def fail_once(self, *failures: Failure) -> None:
        """Answer the next requests with these, and then as usual."""
        left = list(failures)
        self.fails = lambda method, path: left.pop(0) if left else None

    def __enter__(self) -> ObjectServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: ObjectServer

    def _answered(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.bucket.asked.append((self.command, self.path))
        failure = self.bucket.fails(self.command, self.path)
        if failure is not None:
            self._fail(*failure)
            return
        parts = urlsplit(self.path)
        bucket, _, name = unquote(parts.path).lstrip("/").partition("/")
        if bucket != BUCKET:
            self._fail(404, "NoSuchBucket")
        elif self.command == "PUT" and not parts.query:
            self.bucket.objects[name] = body
            self._send(200, b"", ETag='"1"')
        elif self.command == "POST" and parts.query == "delete":
            named = re.findall("<Key>([^<]+)</Key>", body.decode())
            for gone in named:
                self.bucket.objects.pop(gone, None)
            rows = "".join(f"<Deleted><Key>{gone}</Key></Deleted>" for gone in named)
            self._send(200, f"<DeleteResult>{rows}</DeleteResult>".encode())
        elif self.command == "GET" and not name:
            self._send(200, self._listing(parse_qs(parts.query)["prefix"][0]))
        elif self.command == "GET" and name in self.bucket.objects:
            self._send(200, self.bucket.objects[name], **{"ETag": '"1"', "Last-Modified": _HEADER})
        elif self.command == "GET":
            self._fail(404, "NoSuchKey")
        else:
            self._fail(501, "NotImplemented")

    do_GET = do_PUT = do_POST = _answered

    def _listing(self, prefix: str) -> bytes:
        rows = "".join(
            f"<Contents><Key>{name}</Key><Size>{len(data)}</Size>"
            f"<LastModified>{_MODIFIED}</LastModified><ETag>1</ETag></Contents>"
            for name, data in self.bucket.objects.items()
            if name.startswith(prefix)
        )
        return f"<ListBucketResult><Name>{BUCKET}</Name>{rows}</ListBucketResult>".encode()

    def _fail(self, status: int, code: str) -> None:
        if not status:
            self.connection.shutdown(2)
            self.close_connection = True
            return
        self._send(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""
