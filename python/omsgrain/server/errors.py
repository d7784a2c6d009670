# SPDX-License-Identifier: Apache-2.0
"""What is refused, as problem details: one table of rules, and a status for every error there is.

What goes wrong here is told to nobody but the log, and there without content: an answer of 500 or
503 says only that it is one. Spec: RFC 9457 (which replaces RFC 7807), AIMEM §3
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
"""What is told of the rules of presets, and of others that no page has."""
_CONFLICT, _NOT_FOUND, _UNPROCESSABLE, _UNAVAILABLE = 409, 404, 422, 503


class ServerRule(NamedTuple):
    """One rule of the server: its status, and what its breach is called."""

    status: int
    title: str


RULES: Final[dict[str, ServerRule]] = {
    "invalid_request": ServerRule(400, "not a request of HTTP whose end is certain"),
    "missing_token": ServerRule(401, "a token is needed"),
    "malformed_token": ServerRule(401, "not a bearer token"),
    "invalid_token": ServerRule(401, "the token does not hold"),
    "missing_scope": ServerRule(403, "the token is not good for this"),
    "other_tenant": ServerRule(403, "the grain does not belong to the tenant of the token"),
    "not_let": ServerRule(403, "not something that the token lets another store do"),
    "not_found": ServerRule(404, "there is nothing here"),
    "method_not_allowed": ServerRule(405, "not a method of this resource"),
    "slow_request": ServerRule(408, "the body came too slowly"),
    "erased": ServerRule(409, "it was erased, and does not come back"),
    "refused_by_policy": ServerRule(409, "a policy or a hold refuses"),
    "body_too_large": ServerRule(413, "the body is larger than is taken"),
    "unsupported_media_type": ServerRule(415, "not a media type that is taken here"),
    "unsupported_encoding": ServerRule(415, "not an encoding that is taken"),
    "unsupported_media_version": ServerRule(415, "not a version of the media type that is known"),
    "headers_too_large": ServerRule(431, "the request line and headers are larger than is taken"),
    "invalid_encoding": ServerRule(422, "the body is not what its encoding says"),
    "unknown_parameter": ServerRule(422, "not a parameter of this resource"),
    "invalid_parameter": ServerRule(422, "not a value of this parameter"),
    "invalid_message": ServerRule(422, "not a message of a sync"),
    "unknown_reference": ServerRule(422, "the grain names one that the tenant does not have"),
    "invalid_grain": ServerRule(422, "not a grain that can be stored, or not an address"),
    "too_many_requests": ServerRule(429, "too many requests are waiting"),
    "internal": ServerRule(500, "a defect of the server"),
    "store_unavailable": ServerRule(503, "the store cannot do it now"),
    "stopping": ServerRule(503, "the server is stopping"),
}
"""The rules of the server. Those of bundles stand in ``formats.aimem.rules``."""


class HttpRefusal(Exception):
    """A request that is not done, and why.

    Attributes:
        rule: of ``RULES``, or of those of bundles.
        status: the answer's.
        detail: one sentence, without content.
        pointer: where in the body.
        code: of the error behind it; the rule, if there is none.
        more: further members of the answer.
        headers: of the answer.
    """

    def __init__(
        self,
        rule: str,
        detail: str | None = None,
        *,
        pointer: str | None = None,
        status: int | None = None,
        code: str | None = None,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(rule)
        self.rule = rule
        self.status = RULES[rule].status if status is None else status
        self.detail = detail
        self.pointer = pointer
        self.code = code or rule
        self.more = more or {}
        self.headers = dict(headers or {})


def refusal_of(error: OmsError, retry_after: int = 1) -> HttpRefusal:
    """The refusal that an error of the library becomes."""
    if isinstance(error, DocumentError):
        rule = error.rule or "not_json"
        found = AIMEM.get(rule)
        status = _UNPROCESSABLE if found is None else found.status
        problems = [problem.to_dict() for problem in error.problems]
        more = {"problems": problems, "total": error.total}
        return _refusal(error, rule, status, more)
    if isinstance(error, NotFoundError):
        return HttpRefusal("not_found", code=error.code)
    if isinstance(error, StoreError | IntegrityError | KeyMissingError):
        headers = {"retry-after": str(retry_after)}
        return HttpRefusal("store_unavailable", code=error.code, headers=headers)
    if isinstance(error, ErasedError):
        return HttpRefusal("erased", code=error.code)
    if isinstance(error, PolicyError):
        return _refusal(error, "refused_by_policy", _CONFLICT)
    return _refusal(error, error.rule or "invalid_grain", _UNPROCESSABLE)


def _refusal(
    error: OmsError, rule: str, status: int, more: Mapping[str, Any] | None = None
) -> HttpRefusal:
    detail = error.message
    if error.expected is not None:
        detail += f"; expected {error.expected}"
    return HttpRefusal(
        rule, detail, pointer=error.field, status=status, code=error.code, more=more
    )


def _about(rule: str) -> tuple[str, str]:
    """The type of a problem, which is the place in the docs that explains it, and its title."""
    if rule in AIMEM:
        return f"{_PAGES}formats.md#{rule}", AIMEM[rule].says
    known = rule if rule in RULES else _REST
    return f"{_PAGES}serving.md#{known}", RULES[known].title


def answer(refusal: HttpRefusal) -> Response:
    """The answer that tells of a refusal."""
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
