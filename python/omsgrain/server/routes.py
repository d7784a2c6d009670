# SPDX-License-Identifier: Apache-2.0
"""The routes of the server: one table, by which requests are handled and OpenAPI is written."""

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
from omsgrain.server import bundles, export, grains, sync
from omsgrain.server.errors import MEDIA, RULES, HttpRefusal
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
    """What a method of a path does.

    Attributes:
        method: GET, POST or DELETE; a GET answers HEAD too.
        path: with names in braces.
        handler: does it.
        says: in one sentence.
        scopes: a token needs one of these; empty: no token is needed.
        parameters: of the query string.
        bodies: media types of the request.
        answers: media types of the answer.
        shape: the schema of a JSON answer.
        refuses: rules that it can break, beside those of all routes.
        bundle: the body is a bundle, which has rules of its own.
    """

    method: str
    path: str
    handler: Handler
    says: str
    scopes: tuple[Scope, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    bodies: tuple[str, ...] = ()
    answers: tuple[str, ...] = (JSON,)
    shape: str = "Object"
    refuses: tuple[str, ...] = field(default=())
    bundle: bool = False


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
_KINDS: Final[dict[FilterKind, dict[str, Any]]] = {
    "type": {"choices": tuple(kind.name for kind in TYPES)},
    "time": {"kind": "time", "low": 0},
    "current": {"choices": ("true", "false", "all"), "default": "true"},
    "status": {"choices": get_args(Verification)},
    "fraction": {"kind": "number", "low": 0, "high": 1},
    "flag": {"kind": "boolean", "default": False},
}
"""Kind of a filter -> what its parameter is beside a text."""
_FILTERS: Final = {
    name: Parameter(name, one.says, **_KINDS.get(one.kind, {})) for name, one in FILTERS.items()
}
_QUERY: Final = (
    # The user is the token's tenant, and its sealed grains are its own.
    *(one for name, one in _FILTERS.items() if name not in ("user_id", "sealed")),
    Parameter("order", "of the results", choices=("newest", "oldest"), default="newest"),
    Parameter("limit", "results a page", "integer", low=1, high=1_000, default=50),
    Parameter("cursor", "next_cursor of the page before"),
    Parameter("count", "count all that match", "boolean", default=False),
)
_SEARCH: Final = (
    Parameter("text", "something to search for", required=True),
    Parameter("limit", "results", "integer", low=1, high=1_000, default=10),
    _FILTERS["type"],
    _FILTERS["namespace"],
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


async def pubkey(call: RequestContext) -> Response:
    """Return the key that signs exports. Spec: AIMEM §5.3."""
    signer = call.service.options.signer
    if signer is None:
        raise HttpRefusal("not_found", "the server signs nothing")
    key: PublicKey = getattr(signer, "public_key", None) or resolve(signer.did)
    return Response(signers.dumps_public(key, signer.did), media_type=COSE_KEY)


async def health(call: RequestContext) -> Response:
    """Answer if the store can be read."""
    call.service.check_running()
    await call.service.quick(lambda: len(call.service.stores.main))
    return as_json({"status": "ok"})


async def openapi(call: RequestContext) -> Response:
    """Return the description of all routes."""
    return as_json(document())


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET", "/v1/brain/export", export.export, "The tenant's memory as one bundle.",
        ("export",), _EXPORT, answers=(BUNDLE,), shape="Bundle",
        refuses=("since_missing", "erased", "refused_by_policy"),
    ),
    Route(
        "GET", "/v1/brain/export/stream", export.export_lines, "The same by lines.", ("export",),
        _EXPORT, answers=(LINES,), refuses=("since_missing", "erased", "refused_by_policy"),
    ),
    Route(
        "POST", "/v1/brain/import", bundles.import_, "Take a bundle in.", ("import",),
        bodies=(BUNDLE, JSON, LINES), shape="Summary", bundle=True,
        refuses=(*_BODY, "unsupported_media_version"),
    ),
    Route(
        "DELETE", "/v1/brain", bundles.erase, "Erase the tenant's memory, for good.", ("admin",),
        shape="Erasure", refuses=("refused_by_policy",),
    ),
    Route(
        "POST", "/v1/grains", grains.put, "Store grains: all of them, or none.", ("import",),
        (_ADAPT,), bodies=(JSON, LINES, BLOB), shape="Stored",
        refuses=(*_BODY, "other_tenant", "erased", "refused_by_policy", "unknown_reference"),
    ),
    Route(
        "GET", "/v1/grains", grains.query, "Grains that match all filters.", ("export",),
        _QUERY, shape="Page",
    ),
    Route(
        "GET", "/v1/grains/{address}", grains.get, "One grain.", ("export",),
        answers=(JSON, BLOB), shape="Grain", refuses=("not_found",),
    ),
    Route(
        "DELETE", "/v1/grains/{address}", grains.delete, "Delete one grain.", ("admin",),
        shape="Deleted", refuses=("not_found", "refused_by_policy"),
    ),
    Route(
        "GET", "/v1/search", grains.search, "Grains that best match words.", ("export",),
        _SEARCH, shape="Page",
    ),
    Route(
        "POST", "/v1/verify", grains.verify, "Say what is wrong with a blob, a bundle, or a "
        "stored grain; nothing is stored.", ("export",),
        bodies=(BLOB, BUNDLE, JSON), shape="Verdict", refuses=(*_BODY, "not_found"),
    ),
    Route(
        "GET", "/v1/changes", grains.changes, "What happened to grains.", ("export",),
        _CHANGES, shape="Changes",
    ),
    Route(
        "POST", "/v1/sync/greet", sync.handler("greet"), "Who is here, and how far it has come.",
        ("sync:read", "sync:write"), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/share", sync.handler("share"), "Exchange keys of tombstones.",
        ("sync:read", "sync:write"), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/changes", sync.handler("changes"), "What came after a position.",
        ("sync:read",), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/ranges", sync.handler("ranges"), "Digests over ranges of items.",
        ("sync:read", "sync:write"), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/listing", sync.handler("listing"), "The items in ranges.",
        ("sync:read",), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/lacking", sync.handler("lacking"), "Which of some items are not here.",
        ("sync:read", "sync:write"), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/give", sync.handler("give"), "Items by their keys.",
        ("sync:read",), **_MESSAGE,
    ),
    Route(
        "POST", "/v1/sync/take", sync.handler("take"), "Take a batch in.",
        ("sync:write",), **_MESSAGE,
    ),
    Route(
        "GET", "/.well-known/aimem-pubkey", pubkey, "The key that signs our exports.",
        answers=(COSE_KEY,), refuses=("not_found",),
    ),
    Route("GET", "/healthz", health, "Whether the server works.", shape="Health"),
    Route("GET", "/openapi.json", openapi, "This document."),
)  # fmt: skip
"""Every route."""

_ALL = (
    "unknown_parameter", "internal", "store_unavailable", "invalid_request", "headers_too_large",
)  # fmt: skip
_TOKEN = ("missing_token", "missing_scope", "too_many_requests")


def statuses(route: Route) -> list[int]:
    """Every status that a route can answer with beside 200."""
    rules = [*_ALL, *(_TOKEN if route.scopes else ()), *route.refuses]
    found = {(RULES.get(rule) or AIMEM[rule]).status for rule in rules}
    if route.bundle:
        found |= {rule.status for rule in AIMEM.values()}
    return sorted(found)


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
        ranked={"type": "boolean"}, incomplete={"enum": ["refused", "bytes", None]},
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
    ("/v1/verify", JSON): _object("address", address=_ADDRESS) | {"additionalProperties": False},
    ("/v1/verify", BUNDLE): {},  # whatever it is, the answer says what is wrong with it
}
"""Bodies that are not what their media type alone says."""
_TAKEN: Final[dict[str, Any]] = {
    BUNDLE: {"$ref": "#/components/schemas/Bundle"},
    JSON: {"$ref": "#/components/schemas/Bundle"},
    LINES: _TEXT,
    BLOB: {"type": "string", "format": "binary"},
    COSE_KEY: {"type": "string", "format": "binary"},
    SYNC: {"type": "string", "format": "binary"},
}


@cache
def document() -> dict[str, Any]:
    """The whole description."""
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
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    found: dict[str, Any] = {
        "operationId": route.handler.__name__.strip("_"),
        "summary": route.says,
        "responses": {
            "200": {"description": route.says, "content": _content(route)},
            **{
                str(status): {"description": "Refused", "content": {MEDIA: problem}}
                for status in statuses(route)
            },
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
    if known.kind != "time":  # which can be a text too
        bounds = {"minimum": known.low, "maximum": known.high, "default": known.default}
        schema |= {name: value for name, value in bounds.items() if value is not None}
    told = {"name": known.name, "in": "query", "description": known.says, "schema": schema}
    return told | ({"required": True} if known.required else {})
