# SPDX-License-Identifier: Apache-2.0
"""The routes of the server: one table, by which requests are handled and OpenAPI is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from omsgrain.formats.aimem.rules import RULES as AIMEM
from omsgrain.index.filters import FILTERS
from omsgrain.registry import TYPES
from omsgrain.services.http import bundles, finding, grains, public, syncing
from omsgrain.services.http.call import Handler
from omsgrain.services.http.media import BLOB, BUNDLE, COSE_KEY, JSON, LINES
from omsgrain.services.http.parameters import Parameter
from omsgrain.services.http.problems import RULES
from omsgrain.store.tokens import Scope
from omsgrain.sync.message import MEDIA as SYNC

__all__ = ["ROUTES", "Route", "statuses"]


@dataclass(frozen=True, slots=True)
class Route:
    """What a method of a path does.

    Attributes:
        method: GET, POST or DELETE; a GET answers HEAD too.
        path: with names in braces.
        handler: does it.
        says: in one sentence.
        scope: what a token must be good for; None where everybody may.
        or_scope: another one that is as good.
        parameters: of the query string.
        bodies: media types that it takes.
        answers: media types of what it gives.
        shape: the name of the schema of a JSON answer.
        refuses: rules that it can break beside those of all routes.
        bundle: whether a bundle comes in, which adds the rules of bundles.
    """

    method: str
    path: str
    handler: Handler
    says: str
    scope: Scope | None = None
    parameters: tuple[Parameter, ...] = ()
    bodies: tuple[str, ...] = ()
    answers: tuple[str, ...] = (JSON,)
    shape: str = "Object"
    refuses: tuple[str, ...] = field(default=())
    bundle: bool = False
    or_scope: Scope | None = None

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What a token must be good for, one of these; none where everybody may."""
        return tuple(one for one in (self.scope, self.or_scope) if one is not None)


_SCOPES: Final = ("FULL", "DNA_ONLY", "SINCE")
_EXPORT: Final = (
    Parameter("scope", "which chunks", choices=_SCOPES, default="FULL", rule="invalid_scope"),
    Parameter("since", "with scope SINCE: the least created_at; else passed over"),
    Parameter("include_embeddings", "with vectors", "boolean", default=False),
    Parameter("embedding_model", "of which model; may be left out where there is one"),
    Parameter(
        "embedding_dim", "how many floats each has; refused if it has others", "integer", low=1
    ),
    Parameter("producer", "only what this producer has named; what all have by default"),
)
_FIND: Final = tuple(
    Parameter(name, f"the {name} of the grain") for name in FILTERS if name not in ("user_id",)
)
_TYPE = Parameter("type", "the type of the grain", choices=tuple(kind.name for kind in TYPES))
_QUERY: Final = (
    _TYPE,
    *(one for one in _FIND if one.name != "type"),
    Parameter("created_after", "created then or later", "time", low=0),
    Parameter("created_before", "created before", "time", low=0),
    Parameter("valid_at", "true at this time", "time", low=0),
    Parameter("known_at", "held to be so at this time", "time", low=0),
    Parameter("current", "past grains too?", choices=("true", "false", "all"), default="true"),
    Parameter(
        "verification_status",
        "what verification found",
        choices=("unverified", "verified", "contested", "retracted"),
    ),
    Parameter("min_confidence", "the least confidence", "number", low=0, high=1),
    Parameter("bookkeeping", "bookkeeping grains of documents too?", "boolean", default=False),
    Parameter("words", "all of these words are in it"),
    Parameter("order", "of the results", choices=("newest", "oldest"), default="newest"),
    Parameter("limit", "results a page", "integer", low=1, high=1_000, default=50),
    Parameter("cursor", "next_cursor of the page before"),
    Parameter("count", "count all that match", "boolean", default=False),
)
_SEARCH: Final = (
    Parameter("text", "something to search for", required=True),
    Parameter("limit", "results", "integer", low=1, high=1_000, default=10),
    _TYPE,
    Parameter("namespace", "the namespace of the grain"),
)
_ADAPT: Final = Parameter(
    "adapt",
    "of a blob: convert what another engine wrote its own way",
    "boolean",
    default=False,
)
_LAST: Final = 2**53 - 1  # that all readers of JSON can count to
_CHANGES: Final = (
    Parameter("since", "next of the answer before", "integer", low=0, high=_LAST, default=0),
)
_BODY: Final = (
    "slow_request", "body_too_large", "unsupported_media_type", "unsupported_encoding",
    "invalid_encoding",
)  # fmt: skip
_MESSAGE: Final[dict[str, Any]] = {
    "bodies": (SYNC,),
    "answers": (SYNC,),
    "refuses": (*_BODY, "invalid_message", "not_let"),
}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET", "/v1/brain/export", bundles.export, "The tenant's memory as one bundle.", "export",
        _EXPORT, answers=(BUNDLE,), shape="Bundle",
        refuses=("since_missing", "erased", "refused_by_policy"),
    ),
    Route(
        "GET", "/v1/brain/export/stream", bundles.export_lines, "The same by lines.", "export",
        _EXPORT, answers=(LINES,), refuses=("since_missing", "erased", "refused_by_policy"),
    ),
    Route(
        "POST", "/v1/brain/import", bundles.import_, "Take a bundle in.", "import",
        bodies=(BUNDLE, JSON, LINES), shape="Summary", bundle=True,
        refuses=(*_BODY, "unsupported_media_version"),
    ),
    Route(
        "DELETE", "/v1/brain", bundles.erase, "Erase the tenant's memory, for good.", "admin",
        shape="Erasure", refuses=("refused_by_policy",),
    ),
    Route(
        "POST", "/v1/grains", grains.put, "Store grains: all of them, or none.", "import",
        (_ADAPT,), bodies=(JSON, LINES, BLOB), shape="Stored",
        refuses=(*_BODY, "other_tenant", "erased", "refused_by_policy", "unknown_reference"),
    ),
    Route(
        "GET", "/v1/grains", finding.query, "Grains that match all filters.", "export",
        _QUERY, shape="Page",
    ),
    Route(
        "GET", "/v1/grains/{address}", grains.get, "One grain.", "export",
        answers=(JSON, BLOB), shape="Grain", refuses=("not_found",),
    ),
    Route(
        "DELETE", "/v1/grains/{address}", grains.delete, "Delete one grain.", "admin",
        shape="Deleted", refuses=("not_found", "refused_by_policy"),
    ),
    Route(
        "GET", "/v1/search", finding.search, "Grains that best match words.", "export",
        _SEARCH, shape="Page",
    ),
    Route(
        "POST", "/v1/verify", finding.verify, "Say what is wrong with a blob, a bundle, or a "
        "stored grain; nothing is stored.", "export",
        bodies=(BLOB, BUNDLE, JSON), shape="Verdict", refuses=(*_BODY, "not_found"),
    ),
    Route(
        "GET", "/v1/changes", finding.changes, "What happened to grains.", "export",
        _CHANGES, shape="Changes",
    ),
    Route(
        "POST", "/v1/sync/greet", syncing.greet, "Who is here, and how far it has come.",
        "sync:read", or_scope="sync:write", **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/share", syncing.share, "Exchange keys of tombstones.", "sync:read",
        or_scope="sync:write", **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/changes", syncing.changes, "What came after a position.", "sync:read",
        **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/ranges", syncing.ranges, "Digests over ranges of items.", "sync:read",
        or_scope="sync:write", **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/listing", syncing.listing, "The items in ranges.", "sync:read",
        **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/lacking", syncing.lacking, "Which of some items are not here.",
        "sync:read", or_scope="sync:write", **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/give", syncing.give, "Items by their keys.", "sync:read", **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/take", syncing.take, "Take a batch in.", "sync:write", **_MESSAGE,
    ),
    Route(
        "GET", "/.well-known/aimem-pubkey", public.pubkey, "The key that signs our exports.",
        answers=(COSE_KEY,), refuses=("not_found",),
    ),
    Route("GET", "/healthz", public.health, "Whether the server works.", shape="Health"),
    Route("GET", "/openapi.json", public.openapi, "This document."),
)  # fmt: skip
"""Every route."""

_ALL = (
    "unknown_parameter", "internal", "store_unavailable", "invalid_request", "headers_too_large",
)  # fmt: skip
_TOKEN = ("missing_token", "missing_scope", "too_many_requests")


def statuses(route: Route) -> list[int]:
    """Every status that a route can answer with beside 200."""
    rules = [*_ALL, *(_TOKEN if route.scope else ()), *route.refuses]
    found = {(RULES.get(rule) or AIMEM[rule]).status for rule in rules}
    if route.bundle:
        found |= {rule.status for rule in AIMEM.values()}
    return sorted(found)
