# SPDX-License-Identifier: Apache-2.0
"""A line to a server: one question and its answer, and what went wrong between."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from omsgrain import errors
from omsgrain.errors import (
    KeyMissingError,
    OmsError,
    StoreError,
    TooLargeError,
    UnsupportedError,
    packages_of,
)
from omsgrain.sync.message import MEDIA, MOST, PATH
from omsgrain.sync.urls import service_url

if TYPE_CHECKING:
    import httpx

__all__ = ["Broken", "Line"]

_COME_BACK: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses of what may be done when it is asked again."""
_LATEST = 60.0  # seconds of Retry-After that are heeded
_REFUSAL = 64 << 10  # bytes of problem details that are read
_SLOWEST = 4 << 10  # bytes a second of an answer, below which it is given up
_TOKEN = re.compile("[!-~]+")
_PROBLEM = "application/problem+json"


class Broken(Exception):
    """The line broke, or the server asks to come back: nobody knows what was done.

    Attributes:
        what: in a word or two, for a person.
        after: seconds after which to come back; None if the server did not say.
        reached: there was somebody at the other end.
    """

    def __init__(self, what: str, after: float | None = None, *, reached: bool = True) -> None:
        super().__init__(what)
        self.what = what
        self.after = after
        self.reached = reached


class Line:
    """A line to a server.

    Attributes:
        url: of the server; it holds no secret.
        host: of the server.
        sent: bytes of messages, of those too that did not arrive.
        received: bytes of answers.

    Args:
        url: of the server; https, or http on this machine.
        token: is shown with each question, and nowhere else.
        verify: file or directory of certificates to trust instead of the usual ones.
        timeout: seconds of silence after which it counts as broken.
        transport: what carries requests, instead of a connection of its own.
        clock: gives seconds.

    Raises:
        SchemaError, UnsupportedError: nothing can go to that address; or httpx is not installed.
        KeyMissingError: that is no token.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        verify: str | None = None,
        timeout: float = 120.0,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = service_url(url)
        parts = urlsplit(self.url)
        self.host = parts.hostname or ""
        self.sent = self.received = 0
        self._timeout = timeout
        self._clock = clock
        try:
            self._httpx: Any = import_module("httpx")
        except ImportError:
            text = "syncing over HTTP needs more packages"
            raise UnsupportedError(text, expected=packages_of("web")) from None
        headers = {"content-type": MEDIA, "accept": MEDIA, "accept-encoding": "identity"}
        if token is not None:
            if _TOKEN.fullmatch(token) is None:
                raise KeyMissingError("not a token", expected="letters of ASCII without spaces")
            headers["authorization"] = f"Bearer {token}"
        self._client: httpx.Client = self._httpx.Client(
            headers=headers,
            verify=_trusted(verify),
            follow_redirects=False,
            trust_env=parts.scheme == "https",  # a proxy gets nothing in the clear
            timeout=timeout,
            transport=transport,
        )

    def ask(self, name: str, body: bytes) -> bytes:
        """Ask once.

        Args:
            name: of the question.
            body: a message.

        Returns:
            The message that is the answer.

        Raises:
            Broken: there was none.
            OmsError: the server refuses.
        """
        self.sent += len(body)
        try:
            with self._client.stream("POST", f"{self.url}{PATH}{name}", content=body) as answer:
                media = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
                if answer.status_code == 200 and media == MEDIA:
                    return self._read(answer, MOST)
                told = self._read(answer, _REFUSAL) if media == _PROBLEM else b""
                raise _refused(answer.status_code, told, answer.headers.get("retry-after", ""))
        except self._httpx.TransportError as error:
            _refuse_stranger(error)
            unreached = (self._httpx.ConnectError, self._httpx.ConnectTimeout)
            raise Broken(type(error).__name__, reached=not isinstance(error, unreached)) from None
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            text = f"the server at {self.url} cannot be asked"
            raise StoreError(text, found=type(error).__name__) from None

    def _read(self, answer: httpx.Response, most: int) -> bytes:
        """The body of an answer, bounded in bytes and time."""
        data = bytearray()
        end = self._clock() + self._timeout
        for piece in answer.iter_raw():
            data += piece
            self.received += len(piece)
            if len(data) > most:
                raise TooLargeError("the server answers more than is taken")
            if self._clock() > end + len(data) / _SLOWEST:
                raise Broken("too slow")
        return bytes(data)

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def __repr__(self) -> str:
        return f"<Line to {self.host}>"


def _trusted(verify: str | None) -> Any:
    """What httpx trusts: the usual certificates, or those of a file."""
    if verify is None:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=verify)
    except (OSError, ssl.SSLError):
        raise UnsupportedError(
            "the certificates to trust cannot be read", expected="a file of PEM"
        ) from None


def _refuse_stranger(error: BaseException) -> None:
    """See that it was not a certificate: another try would not make it better.

    Raises:
        StoreError: it was.
    """
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise StoreError(
                "the certificate of the server is not to be trusted",
                expected="one of a known authority, or of --ca",
                found=cause.verify_message,
            ) from None
        cause = cause.__cause__ or cause.__context__


def _refused(status: int, told: bytes, after: str) -> Exception:
    """What an answer that is none says."""
    problem = _problem(told)
    if status in _COME_BACK:
        seconds = min(float(after), _LATEST) if after.isascii() and after.isdigit() else None
        return Broken(problem.get("rule", f"status {status}"), seconds)
    code, rule = problem.get("code", ""), problem.get("rule")
    if status in (401, 403) and code not in errors.BY_CODE:
        text = problem.get("detail") or problem.get("title")
        text = text or "the server does not let this token do that"
        return KeyMissingError(text, rule=rule, found=f"status {status}")
    if code in errors.BY_CODE:
        kind: type[OmsError] = errors.BY_CODE[code]
        text = problem.get("detail", "the other store refuses")
        return kind(text, rule=rule, field=problem.get("pointer"))
    if 300 <= status < 400:
        return StoreError("the server sends elsewhere", expected="the address where it stands")
    return StoreError("no answer of an omsgrain server", found=f"status {status}", rule=rule)


def _problem(told: bytes) -> dict[str, str]:
    """The texts of problem details; none of what cannot be read."""
    try:
        found = json.loads(told)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    return {name: value[:300] for name, value in texts.items() if value.isprintable()}
