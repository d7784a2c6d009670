# SPDX-License-Identifier: Apache-2.0
"""The description of the server in OpenAPI 3.1, written from the table of routes."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from omsgrain import _core
from omsgrain.formats.aimem.signature import HEADER
from omsgrain.registry import TYPES
from omsgrain.services.http.media import BLOB, BUNDLE, COSE_KEY, JSON, LINES
from omsgrain.services.http.parameters import Parameter
from omsgrain.services.http.problems import MEDIA
from omsgrain.services.http.routes import ROUTES, Route, statuses
from omsgrain.sync.message import MEDIA as SYNC

__all__ = ["document"]

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
