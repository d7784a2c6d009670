# SPDX-License-Identifier: Apache-2.0
"""Refusals as problem details: one table of rules, and a status for every error.

The response to a defect has no details: 500 or 503 says only that. The log has the details,
without content. Spec: RFC 9457 (which replaces RFC 7807), AIMEM §3
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from omsgrain.errors import (
    ErasedError,
    IntegrityError,
    KeyMissingError,
    NotFoundError,
    OmsError,
    PolicyError,
    StoreError,
)
from omsgrain.formats.aimem.check import RULES as AIMEM
from omsgrain.formats.problems import DocumentError

MEDIA: Final = "application/problem+json"
_PAGES = "https://github.com/omsgrain/omsgrain/blob/main/docs/"
_REST = "invalid_grain"
"""The rule in the docs for rules of presets, and for others without a page."""
_UNPROCESSABLE = 422


class ServerRule(NamedTuple):
    """A rule of the server: its status, and the title of a violation."""

    status: int
    title: str


RULES: Final[dict[str, ServerRule]] = {
    "invalid_request": ServerRule(400, "not a valid HTTP request"),
    "missing_token": ServerRule(401, "a token is needed"),
    "malformed_token": ServerRule(401, "not a bearer token"),
    "invalid_token": ServerRule(401, "the token is unknown, expired or revoked"),
    "missing_scope": ServerRule(403, "the token lacks the scope"),
    "other_tenant": ServerRule(403, "the grain does not belong to the tenant of the token"),
    "other_origin": ServerRule(403, "pages of this origin may not use MCP here"),
    "not_let": ServerRule(403, "the token does not allow this sync"),
    "not_found": ServerRule(404, "not found"),
    "method_not_allowed": ServerRule(405, "the resource does not have this method"),
    "slow_request": ServerRule(408, "the body arrived too slowly"),
    "erased": ServerRule(409, "the grain was erased, and is not stored again"),
    "refused_by_policy": ServerRule(409, "a policy or a hold refuses"),
    "body_too_large": ServerRule(413, "the body is too large"),
    "unsupported_media_type": ServerRule(415, "unsupported media type"),
    "unsupported_encoding": ServerRule(415, "unsupported content encoding"),
    "unsupported_media_version": ServerRule(415, "unsupported version of the media type"),
    "headers_too_large": ServerRule(431, "the request line and headers are too large"),
    "invalid_encoding": ServerRule(422, "the body does not match its encoding"),
    "unknown_parameter": ServerRule(422, "unknown parameter"),
    "invalid_parameter": ServerRule(422, "invalid value of a parameter"),
    "invalid_message": ServerRule(422, "not a valid sync message"),
    "unknown_reference": ServerRule(422, "the grain names a grain that the tenant does not have"),
    "invalid_grain": ServerRule(422, "not a valid grain or address"),
    "too_many_requests": ServerRule(429, "too many requests are waiting"),
    "internal": ServerRule(500, "a defect of the server"),
    "store_unavailable": ServerRule(503, "the store is not available now"),
    "stopping": ServerRule(503, "the server is stopping"),
}
"""The rules of the server. Those of bundles are in ``formats.aimem.rules``."""


class HttpRefusal(Exception):
    def __init__(
        self,
        rule: str,
        detail: str | None = None,
        *,
        pointer: str | None = None,
        code: str | None = None,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(rule)
        self.rule = rule  # of ``RULES``, of bundles, or of a preset
        known = RULES.get(rule) or AIMEM.get(rule)
        self.status = _UNPROCESSABLE if known is None else known.status
        self.detail = detail  # one sentence, without content
        self.pointer = pointer  # the place in the body
        self.code = code or rule  # of the error behind it
        self.more = more or {}  # further members of the response
        self.headers = dict(headers or {})


def refusal_of(error: OmsError, retry_after: int = 1) -> HttpRefusal:
    """Return the refusal for an error of the library."""
    if isinstance(error, DocumentError):
        problems = [problem.to_dict() for problem in error.problems]
        more = {"problems": problems, "total": error.total}
        return _refusal(error, error.rule or "not_json", more)
    if isinstance(error, NotFoundError):
        return HttpRefusal("not_found", code=error.code)
    if isinstance(error, StoreError | IntegrityError | KeyMissingError):
        headers = {"retry-after": str(retry_after)}
        return HttpRefusal("store_unavailable", code=error.code, headers=headers)
    if isinstance(error, ErasedError):
        return HttpRefusal("erased", code=error.code)
    is_policy = isinstance(error, PolicyError)
    return _refusal(error, "refused_by_policy" if is_policy else error.rule or "invalid_grain")


def _refusal(error: OmsError, rule: str, more: Mapping[str, Any] | None = None) -> HttpRefusal:
    detail = error.message
    if error.expected is not None:
        detail += f"; expected {error.expected}"
    return HttpRefusal(rule, detail, pointer=error.field, code=error.code, more=more)


def _about(rule: str) -> tuple[str, str]:
    """Return the type of a problem, a link to its explanation in the docs, and its title."""
    if rule in AIMEM:
        return f"{_PAGES}formats.md#{rule}", AIMEM[rule].says
    known = rule if rule in RULES else _REST
    return f"{_PAGES}serving.md#{known}", RULES[known].title


def answer(refusal: HttpRefusal) -> Response:
    rule = refusal.rule
    type_, title = _about(rule)
    body: dict[str, Any] = {
        "type": type_,
        "title": title,
        "status": refusal.status,
        "code": refusal.code,
        "rule": rule,
    }
    known = {"detail": refusal.detail, "pointer": refusal.pointer}
    body |= {name: value for name, value in known.items() if value is not None}
    data = json.dumps(body | dict(refusal.more)).encode("ascii")
    return Response(data, refusal.status, refusal.headers, media_type=MEDIA)
