# SPDX-License-Identifier: Apache-2.0
"""The routes of the server: one table, for the router and for OpenAPI."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, get_args

from starlette.responses import Response

from omsgrain import _core
from omsgrain.crypto import signers
from omsgrain.crypto.did import PublicKey, resolve
from omsgrain.formats.aimem.check import RULES as AIMEM
from omsgrain.formats.aimem.signature import HEADER
from omsgrain.query.filters import FILTERS, FilterKind
from omsgrain.registry import TYPES
from omsgrain.server import bundles, export, grains, mcp, sync
from omsgrain.server.errors import MEDIA, RULES, HttpRefusal
from omsgrain.server.metrics import MEDIA_TYPE as METRICS
from omsgrain.server.metrics import store_figures, text_of
from omsgrain.server.request import (
    BLOB,
    BUNDLE,
    COSE_KEY,
    JSON,
    LINES,
    Handler,
    Parameter,
    RequestContext,
    as_json,
)
from omsgrain.storage.records import Verification
from omsgrain.storage.tokens import Scope
from omsgrain.sync.protocol import MEDIA as SYNC


@dataclass(frozen=True, slots=True)
class Route:
    method: str  # GET, POST or DELETE; a GET also handles HEAD
    path: str  # a path with names in braces
    handler: Handler
    says: str  # a description in one sentence
    scopes: tuple[Scope, ...] = ()  # the token needs one of these; empty: no token is needed
    parameters: tuple[Parameter, ...] = ()  # parameters of the query string
    bodies: tuple[str, ...] = ()  # media types of the request
    answers: tuple[str, ...] = (JSON,)  # media types of the response
    shape: str = "Object"  # the schema of a JSON response
    # rules that it can break, beside those of all routes
    refuses: tuple[str, ...] = field(default=())
    bundle: bool = False  # whether the body is a bundle, which has more rules
    rpc: bool = False  # whether the body is JSON-RPC, which has errors of its own


_SCOPES: Final = ("FULL", "DNA_ONLY", "SINCE")
_EXPORT: Final = (
    Parameter(
        "scope", "Which chunks to export.", choices=_SCOPES, default="FULL", rule="invalid_scope"
    ),
    Parameter("since", "With scope SINCE: the least created_at; ignored otherwise."),
    Parameter("include_embeddings", "Include vectors.", "boolean", default=False),
    Parameter("embedding_model", "The model of the vectors; needed if there are several."),
    Parameter("embedding_dim", "The length of the vectors; others are refused.", "integer", low=1),
    Parameter("producer", "Only grains of this producer; by default of all."),
)
_KINDS: Final[dict[FilterKind, dict[str, Any]]] = {
    "type": {"choices": tuple(kind.name for kind in TYPES)},
    "time": {"kind": "time"},
    "current": {"choices": ("true", "false", "all"), "default": "true"},
    "status": {"choices": get_args(Verification)},
    "fraction": {"kind": "number", "low": 0, "high": 1},
    "flag": {"kind": "boolean", "default": False},
    "bool": {"kind": "boolean"},
    "where": {"kind": "json"},
}
"""Kind of a filter -> the kind of its parameter, if it is not text."""
_FILTERS: Final = {
    name: Parameter(name, one.says, **_KINDS.get(one.kind, {})) for name, one in FILTERS.items()
}
_QUERY: Final = (
    # The user is the token's tenant, and only its own sealed grains are visible.
    *(one for name, one in _FILTERS.items() if name not in ("user_id", "sealed")),
    Parameter(
        "order", "The order of the results.", choices=("newest", "oldest"), default="newest"
    ),
    Parameter("limit", "The most results on a page.", "integer", low=1, high=1_000, default=50),
    Parameter("cursor", "The next_cursor of the page before."),
    Parameter("count", "Count all matches.", "boolean", default=False),
    Parameter("latest_per", "Only the newest grain of each value of this field or path."),
)
_SEARCH: Final = (
    Parameter("text", "The words to search for.", required=True),
    Parameter("limit", "results", "integer", low=1, high=1_000, default=10),
    Parameter("wait", "First add new grains to the text index.", "boolean", default=True),
    _FILTERS["type"],
    _FILTERS["namespace"],
)
_ADAPT: Final = Parameter(
    "adapt",
    "For a blob: convert the form of another engine.",
    "boolean",
    default=False,
)
_LAST: Final = 2**53 - 1  # the largest integer that all JSON readers represent
_CHANGES: Final = (
    Parameter(
        "since", "The next of the response before.", "integer", low=0, high=_LAST, default=0
    ),
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


async def pubkey(call: RequestContext) -> Response:
    """Return the key that signs exports. Spec: AIMEM §5.3."""
    signer = call.service.options.signer
    if signer is None:
        raise HttpRefusal("not_found", "the server has no signing key")
    key: PublicKey = getattr(signer, "public_key", None) or resolve(signer.did)
    return Response(signers.dumps_public(key, signer.did), media_type=COSE_KEY)


async def health(call: RequestContext) -> Response:
    """Succeed if the store can be read."""
    call.service.check_running()
    await call.service.quick(lambda: len(call.service.stores.main))
    return as_json({"status": "ok"})


async def ready(call: RequestContext) -> Response:
    """Succeed if the store can be read and written, and the server is not stopping."""
    call.service.check_running()
    await call.service.quick(call.service.stores.check_writable)
    return as_json({"status": "ok"})


async def metrics(call: RequestContext) -> Response:
    """Return the figures of the server and its store for Prometheus."""
    counts = call.service.options.counts
    if counts is None:
        raise HttpRefusal("not_found", "the server was started without --metrics")
    figures = await call.service.quick(lambda: store_figures(call.service.stores.main))
    return Response(text_of([*figures, *counts.figures()]), media_type=METRICS)


async def openapi(call: RequestContext) -> Response:
    return as_json(document())


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET", "/v1/brain/export", export.export, "Export the tenant's memory as one bundle.",
        ("export",), _EXPORT, answers=(BUNDLE,), shape="Bundle",
        refuses=("since_missing", "erased", "refused_by_policy"),
    ),
    Route(
        "GET", "/v1/brain/export/stream", export.export_lines,
        "Export the tenant's memory by lines.",
        ("export",), _EXPORT, answers=(LINES,),
        refuses=("since_missing", "erased", "refused_by_policy"),
    ),
    Route(
        "POST", "/v1/brain/import", bundles.import_, "Import a bundle.", ("import",),
        bodies=(BUNDLE, JSON, LINES), shape="Summary", bundle=True,
        refuses=(*_BODY, "unsupported_media_version"),
    ),
    Route(
        "DELETE", "/v1/brain", bundles.erase, "Erase the tenant's memory for good.", ("admin",),
        shape="Erasure", refuses=("refused_by_policy",),
    ),
    Route(
        "POST", "/v1/grains", grains.put, "Store grains: all of them, or none.", ("import",),
        (_ADAPT,), bodies=(JSON, LINES, BLOB), shape="Stored",
        refuses=(*_BODY, "other_tenant", "erased", "refused_by_policy", "unknown_reference"),
    ),
    Route(
        "GET", "/v1/grains", grains.query, "Find the grains that match all filters.", ("export",),
        _QUERY, shape="Page",
    ),
    Route(
        "GET", "/v1/grains/{address}", grains.get, "Get one grain.", ("export",),
        answers=(JSON, BLOB), shape="Grain", refuses=("not_found",),
    ),
    Route(
        "DELETE", "/v1/grains/{address}", grains.delete, "Delete one grain.", ("admin",),
        shape="Deleted", refuses=("not_found", "refused_by_policy"),
    ),
    Route(
        "GET", "/v1/search", grains.search, "Find the grains that best match words.", ("export",),
        _SEARCH, shape="Page",
    ),
    Route(
        "POST", "/v1/verify", grains.verify,
        "List the problems of a blob, a bundle, or a stored grain; store nothing.", ("export",),
        bodies=(BLOB, BUNDLE, JSON), shape="Verdict", refuses=(*_BODY, "not_found"),
    ),
    Route(
        "GET", "/v1/changes", grains.changes, "List the changes to the tenant's grains.",
        ("export",), _CHANGES, shape="Changes",
    ),
    Route(
        "POST", "/mcp", mcp.message, "Answer a message of MCP, the protocol of agents.",
        ("import", "export", "admin"), bodies=(JSON,), shape="Message",
        refuses=(*_BODY, "other_origin", "not_found"), rpc=True,
    ),
    Route(
        "POST", "/v1/sync/greet", sync.handler("greet"),
        "Introduce two stores: ids, positions and rights.",
        ("sync:read", "sync:write"), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/share", sync.handler("share"), "Exchange keys of tombstones.",
        ("sync:read", "sync:write"), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/changes", sync.handler("changes"),
        "Get the rows after a position of the feed.",
        ("sync:read",), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/reconcile", sync.handler("reconcile"),
        "Answer a message that compares two stores.",
        ("sync:read", "sync:write"), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/lacking", sync.handler("lacking"), "Find which grains the store lacks.",
        ("sync:read", "sync:write"), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/give", sync.handler("give"), "Get items by their keys.",
        ("sync:read",), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/take", sync.handler("take"), "Write a batch.",
        ("sync:write",), **_MESSAGE,
    ),
    Route(
        "GET", "/.well-known/aimem-pubkey", pubkey, "Get the key that signs exports.",
        answers=(COSE_KEY,), refuses=("not_found",),
    ),
    Route("GET", "/healthz", health, "Report whether the server works.", shape="Health"),
    Route("GET", "/readyz", ready, "Report whether the server can write.", shape="Health"),
    Route(
        "GET", "/metrics", metrics, "Get the figures of the server for Prometheus.",
        answers=(METRICS,), refuses=("not_found",),
    ),
    Route("GET", "/openapi.json", openapi, "Get this document."),
)  # fmt: skip
"""Every route."""

_ALL = (
    "unknown_parameter", "internal", "store_unavailable", "invalid_request", "headers_too_large",
)  # fmt: skip
_TOKEN = ("missing_token", "missing_scope", "too_many_requests")
_RPC: Final = (400, 404, 406)
"""The statuses of errors of JSON-RPC, and of a client that accepts no JSON."""


def statuses(route: Route) -> list[int]:
    """Return every status beside 200 of a route."""
    rules = [*_ALL, *(_TOKEN if route.scopes else ()), *route.refuses]
    found = {(RULES.get(rule) or AIMEM[rule]).status for rule in rules}
    if route.bundle:
        found |= {rule.status for rule in AIMEM.values()}
    return sorted(found | set(_RPC if route.rpc else ()))


_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_FREE: Final = {"type": "object"}
_ADDRESS: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_SHAPES: Final[dict[str, Any]] = {
    "Object": _FREE,
    "Fields": _object("type", type={"enum": [kind.name for kind in TYPES]}),
    "Problem": _object(
        "type", "title", "status", "code", "rule",
        type=_TEXT, title=_TEXT, status={"type": "integer"}, code=_TEXT, rule=_TEXT,
        detail=_TEXT, pointer=_TEXT, problems=_list(_FREE), total=_COUNT,
    ),
    "Bundle": _object(
        "format", "version", "producer", "tenant_id", "exported_at", "scope", "checksum",
        format={"const": "aimem-bundle"}, version={"const": "1"}, producer=_TEXT,
        tenant_id=_TEXT, exported_at=_TEXT, scope={"enum": ["FULL", "DNA_ONLY", "SINCE"]},
        checksum={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
        chunks=_list(_FREE), edges=_list(_FREE), entities=_list(_FREE),
        chunk_entities=_list(_FREE),
    ),
    "Summary": _object(
        "chunks_inserted", "chunks_updated", "chunks_skipped_idempotent",
        "chunks_rejected_conflict", "conflicts",
        chunks_inserted=_COUNT, chunks_updated=_COUNT, chunks_skipped_idempotent=_COUNT,
        chunks_rejected_conflict=_list(_TEXT), conflicts=_list(_FREE),
    ),
    "Erasure": _FREE,
    "Stored": _object(
        "addresses", "stored", "duplicates",
        addresses=_list(_ADDRESS), stored=_COUNT, duplicates=_COUNT,
    ),
    "Page": _object(
        "results", "total", "next_cursor",
        results=_list(
            _object("grain", "content_address", grain=_FREE, content_address=_ADDRESS)
        ),
        total={"type": ["integer", "null"]}, next_cursor={"type": ["string", "null"]},
        ranked={"type": "boolean"}, incomplete={"enum": ["refused", "bytes", "behind", None]},
    ),
    "Grain": _object(
        "content_address", "grain", "state",
        content_address=_ADDRESS, grain=_FREE, state=_FREE,
    ),
    "Deleted": _object("deleted", deleted=_ADDRESS),
    "Verdict": _object("ok", "problems", ok={"type": "boolean"}, problems=_list(_FREE)),
    "Changes": _object(
        "changes", "next", "more",
        changes=_list(
            _object(
                "seq", "kind", "content_address",
                seq=_COUNT, kind=_TEXT, content_address=_ADDRESS,
            )
        ),
        next=_COUNT, more={"type": "boolean"},
    ),
    "Message": _object("jsonrpc", jsonrpc={"const": "2.0"}),
    "Health": _object("status", status={"const": "ok"}),
}  # fmt: skip
_GRAINS: Final = {
    "anyOf": [
        {"$ref": "#/components/schemas/Fields"},
        {"type": "array", "items": {"$ref": "#/components/schemas/Fields"}},
    ]
}
_OWN: Final[dict[tuple[str, str], Any]] = {
    ("/v1/grains", JSON): _GRAINS,
    ("/mcp", JSON): {"$ref": "#/components/schemas/Message"},
    ("/v1/verify", JSON): _object("address", address=_ADDRESS) | {"additionalProperties": False},
    ("/v1/verify", BUNDLE): {},  # of any type: the response lists the problems
}
"""Schemas of bodies, where the media type does not say enough."""
_TAKEN: Final[dict[str, Any]] = {
    BUNDLE: {"$ref": "#/components/schemas/Bundle"},
    JSON: {"$ref": "#/components/schemas/Bundle"},
    LINES: _TEXT,
    BLOB: {"type": "string", "format": "binary"},
    COSE_KEY: {"type": "string", "format": "binary"},
    METRICS: _TEXT,
    SYNC: {"type": "string", "format": "binary"},
}


@cache
def document() -> dict[str, Any]:
    """Return the whole OpenAPI document."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "omsgrain", "version": _core.__version__},
        "paths": paths,
        "components": {
            "schemas": _SHAPES,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    refused: dict[str, Any] = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    refused |= _content(route) if route.rpc else {}
    empty = {"202": {"description": "A notification was taken."}} if route.rpc else {}
    found: dict[str, Any] = {
        "operationId": route.handler.__name__.strip("_"),
        "summary": route.says,
        "responses": {
            "200": {"description": route.says, "content": _content(route)},
            **{
                str(status): {"description": "Refused", "content": refused}
                for status in statuses(route)
            },
            **empty,
        },
    }
    parameters = [_parameter(one) for one in route.parameters]
    if "{address}" in route.path:
        where = {"name": "address", "in": "path", "required": True, "schema": _ADDRESS}
        parameters.insert(0, where)
    if route.bundle:
        parameters.append({"name": HEADER, "in": "header", "schema": _TEXT})
    if parameters:
        found["parameters"] = parameters
    if route.bodies:
        content = {
            media: {"schema": _OWN.get((route.path, media), _TAKEN[media])}
            for media in route.bodies
        }
        found["requestBody"] = {"required": True, "content": content}
    if route.scopes:
        found["security"] = [{"token": []}]
        found["description"] = f"For tokens with the scope {' or '.join(route.scopes)}."
    return found


def _content(route: Route) -> dict[str, Any]:
    shape = {"$ref": f"#/components/schemas/{route.shape}"}
    own = (JSON, BUNDLE)
    return {m: {"schema": shape if m in own else _TAKEN[m]} for m in route.answers}


def _parameter(known: Parameter) -> dict[str, Any]:
    kinds = {"integer": "integer", "number": "number", "boolean": "boolean"}
    schema: dict[str, Any] = {"type": kinds.get(known.kind, "string")}
    if known.choices:
        schema["enum"] = list(known.choices)
    if known.kind == "time":
        schema["examples"] = ["2026-01-15T10:00:00Z", "1h", "1768471200000", "@1768471200"]
    bounds = {"minimum": known.low, "maximum": known.high, "default": known.default}
    schema |= {name: value for name, value in bounds.items() if value is not None}
    values = {"name": known.name, "in": "query", "description": known.says, "schema": schema}
    return values | ({"required": True} if known.required else {})
