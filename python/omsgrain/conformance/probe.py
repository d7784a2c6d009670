# SPDX-License-Identifier: Apache-2.0
"""Sends requests to a server and checks its responses."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from omsgrain.conformance.aimem import renamed, sealed
from omsgrain.conformance.rule import spelled

if TYPE_CHECKING:
    import httpx

BUNDLE: Final = "application/aimem-bundle+json"
LINES: Final = "application/x-ndjson"
PROBLEM: Final = "application/problem+json"
IMPORT: Final = "/v1/brain/import"
EXPORT: Final = "/v1/brain/export"
STREAM: Final = "/v1/brain/export/stream"
_LARGEST = 256 << 20  # bytes of a response


@dataclass(frozen=True, slots=True)
class TenantTokens:
    """Bearer tokens of one tenant."""

    full: str = field(repr=False)  # can import and export
    # cannot import; if None, the cases that need it are skipped
    export_only: str | None = field(default=None, repr=False)
    import_only: str | None = field(default=None, repr=False)  # cannot export
    admin: str | None = field(default=None, repr=False)  # can erase the tenant


class Mismatch(Exception):
    """A response differs from the expected one; both in a few words."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip().lower()

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise Mismatch("a body of JSON", f"{len(self.body)} bytes of {self.media}") from None

    def problem(self) -> dict[str, Any]:
        if self.media != PROBLEM:
            raise Mismatch(PROBLEM, self.media or "no media type")
        value = self.json()
        if not isinstance(value, dict) or not isinstance(value.get("type", "about:blank"), str):
            raise Mismatch("an object with a type", as_kind(value))
        if value.get("status", self.status) != self.status:
            raise Mismatch(f"the status {self.status} in the body too", str(value.get("status")))
        return value

    def rule(self) -> str:
        """The rule that problem details name: a member ``rule``, or the end of ``type``."""
        value = self.problem()
        named = value.get("rule")
        if isinstance(named, str):
            return named
        return str(value.get("type", "")).replace(":", "/").rsplit("/", 1)[-1]


class Probe:
    """One run against a server, as a producer of a new name: all records are new to it."""

    def __init__(self, client: httpx.Client, tokens: TenantTokens) -> None:
        self._client = client
        self.tokens = tokens
        self._producer = f"probe-{secrets.token_hex(6)}"
        self._names = 0

    def fresh(self, document: dict[str, Any]) -> dict[str, Any]:
        """Rename the records of a document, so that they are new to the server."""
        self._names += 1
        return renamed(document, f"{self._producer}-{self._names}")

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        media: str | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ProbeResponse:
        own = dict(headers or {})
        token = self.tokens.full if token is None else token
        if token and "authorization" not in own:
            own["authorization"] = f"Bearer {token}"
        if media is not None:
            own["content-type"] = media
        parts: list[bytes] = []
        size = 0
        request = self._client.build_request(method, path, params=query, content=body, headers=own)
        answer = self._client.send(request, stream=True)
        try:
            for part in answer.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > _LARGEST:
                    raise Mismatch(f"at most {_LARGEST} bytes", "more")
        finally:
            answer.close()
        found = {name.lower(): value for name, value in answer.headers.items()}
        return ProbeResponse(answer.status_code, found, b"".join(parts))

    def put(self, document: dict[str, Any]) -> ProbeResponse:
        return self.send("POST", IMPORT, body=spelled(sealed(document)), media=BUNDLE)

    def taken(self, document: dict[str, Any], **expected: Any) -> dict[str, Any]:
        """Import a valid bundle, and check its summary."""
        answer = self.put(document)
        must(answer.status == 200, "200", _said(answer))
        summary = answer.json()
        must(isinstance(summary, dict), "a summary", as_kind(summary))
        for name, value in expected.items():
            own = summary.get(name)
            must(own == value, f"{name} = {value!r}", f"{own!r}")
        return dict(summary)

    def exported(self, **query: str) -> dict[str, Any]:
        answer = self.send("GET", EXPORT, query=query)
        must(answer.status == 200, "200", _said(answer))
        must(answer.media == BUNDLE, BUNDLE, answer.media)
        document = answer.json()
        must(isinstance(document, dict), "an object", as_kind(document))
        return dict(document)


def must(holds: bool, expected: str, found: str) -> None:
    """Raise a Mismatch if a condition is false."""
    if not holds:
        raise Mismatch(expected, found or "nothing")


def as_kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a text", type(None): "null"}
    return names.get(type(value), "a value")


def _said(answer: ProbeResponse) -> str:
    """Return the status, and the rule if the response names one."""
    try:
        return f"{answer.status} {answer.rule()}"
    except Mismatch:
        return str(answer.status)


def expect(answer: ProbeResponse, *statuses: int) -> None:
    """Raise a Mismatch for any other status."""
    wanted = " or ".join(map(str, statuses))
    must(answer.status in statuses, wanted, _said(answer))


def fail(expected: str, found: str) -> NoReturn:
    raise Mismatch(expected, found)
