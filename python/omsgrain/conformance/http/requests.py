# SPDX-License-Identifier: Apache-2.0
"""Single requests and the statuses of their answers, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from omsgrain.conformance.http.faults import Basis
from omsgrain.conformance.http.probe import BUNDLE, EXPORT, IMPORT, LINES, STREAM

Body = Literal["bundle", "none", "empty", "array", "text", "gzip", "not gzip", "utf-16", "bom"]
"""What is sent: a good bundle of fresh names in some coding, or something else."""


class Request(NamedTuple):
    """One request.

    Attributes:
        name: in short.
        section: of the draft.
        method: of HTTP.
        path: from the base on.
        statuses: one of these must come.
        token: ``full``, ``export_only``, ``import_only``, or the text of the header itself.
        query: parameters.
        body: what is sent.
        media: its type.
        headers: further ones.
        basis: who says so.
    """

    name: str
    section: str
    method: str
    path: str
    statuses: tuple[int, ...]
    token: str = "full"
    query: Mapping[str, str] = {}
    body: Body = "none"
    media: str | None = None
    headers: Mapping[str, str] = {}
    basis: Basis = "draft"


def _post(name: str, statuses: tuple[int, ...], body: Body, media: str, **more: object) -> Request:
    return Request(
        name,
        "3.2",
        "POST",
        IMPORT,
        statuses,
        body=body,
        media=media,
        **more,  # type: ignore[arg-type]
    )


_NOBODY = {
    "no token": "",
    "another scheme": "Basic YWRhOnRlYQ==",
    "an empty token": "Bearer",  # a space behind it is no part of a header
    "a token that nobody has": "Bearer nobody-0000000000000000000000000000",
}

REQUESTS: Final[tuple[Request, ...]] = (
    *(
        Request(f"export with {name}", "3.1", "GET", EXPORT, (401,), header)
        for name, header in _NOBODY.items()
    ),
    *(
        Request(f"import with {name}", "3.1", "POST", IMPORT, (401,), header, {}, "bundle", BUNDLE)
        for name, header in _NOBODY.items()
    ),
    Request("stream without a token", "3.1", "GET", STREAM, (401,), "", basis="recommendation"),
    Request("export without the scope", "3.1", "GET", EXPORT, (403,), "import_only"),
    Request(
        "stream without the scope", "3.1", "GET", STREAM, (403,), "import_only",
        basis="recommendation",
    ),
    Request(
        "import without the scope", "3.2", "POST", IMPORT, (403,), "export_only", {}, "bundle",
        BUNDLE, basis="recommendation",
    ),
    # imports
    _post("a bundle", (200,), "bundle", BUNDLE),
    _post("a bundle of version=1", (200,), "bundle", f"{BUNDLE}; version=1"),
    _post("a bundle as application/json", (200,), "bundle", "application/json",
          basis="recommendation"),
    _post("version=2 of the media type", (415, 422), "bundle", f"{BUNDLE}; version=2",
          basis="recommendation"),
    _post("another media type", (415, 422), "bundle", "text/plain", basis="recommendation"),
    _post("no body", (400, 422), "empty", BUNDLE),
    _post("an array", (422,), "array", BUNDLE),
    _post("no JSON", (400, 422), "text", BUNDLE),
    _post("UTF-16", (400, 422), "utf-16", BUNDLE),
    _post("a byte order mark", (200,), "bom", BUNDLE, basis="recommendation"),
    _post("gzip", (200,), "gzip", BUNDLE, headers={"content-encoding": "gzip"},
          basis="recommendation"),
    _post("gzip that is none", (400, 415, 422), "not gzip", BUNDLE,
          headers={"content-encoding": "gzip"}, basis="recommendation"),
    # exports
    Request("export", "3.1", "GET", EXPORT, (200,)),
    Request("export of DNA_ONLY", "3.1", "GET", EXPORT, (200,), query={"scope": "DNA_ONLY"}),
    Request(
        "export of SINCE", "3.1", "GET", EXPORT, (200,),
        query={"scope": "SINCE", "since": "2026-01-01T00:00:00Z"},
    ),
    Request(
        "SINCE without since", "3.1", "GET", EXPORT, (422,), query={"scope": "SINCE"},
        basis="recommendation",
    ),
    Request(
        "since is no time", "3.1", "GET", EXPORT, (422,),
        query={"scope": "SINCE", "since": "last week"}, basis="recommendation",
    ),
    Request(
        "another scope", "3.1", "GET", EXPORT, (422,), query={"scope": "ALL"},
        basis="recommendation",
    ),
    Request(
        "stream: since is no time", "3.1", "GET", STREAM, (422,),
        query={"scope": "SINCE", "since": "last week"}, basis="recommendation",
    ),
    Request("another method", "3.2", "PUT", IMPORT, (405,), body="bundle", media=BUNDLE,
            basis="recommendation"),
    _post("by lines: no envelope", (422,), "empty", LINES, basis="recommendation"),
)  # fmt: skip
"""Requests that stand alone."""
