# SPDX-License-Identifier: Apache-2.0
"""MIF documents in and out, of either version, for the user of the server. Spec: MIF 1.0 §8."""

from __future__ import annotations

import json
from typing import Any, Final

from mcp.types import CallToolResult

from omsgrain.crypto.cose import MAX_OVERHEAD
from omsgrain.crypto.trust import Trust, look
from omsgrain.ops import mif
from omsgrain.ops.signed import SIGNATURE
from omsgrain.services.mcp.problems import answer, refuse
from omsgrain.services.mcp.service import Service

__all__ = ["export_memories", "export_memory", "import_memories", "import_memory"]

_MOST: Final = 100
"""Records, warnings and losses that an answer tells of; the rest are counted."""
_ARRAYS: Final = ("errors", "warnings", "losses", "added")


def export_memories(service: Service, given: dict[str, Any]) -> CallToolResult:
    """The memory as a document of MIF 2.0."""
    path = given.pop("path")
    return _export(service, given, path, format="mif2")


def export_memory(service: Service, given: dict[str, Any]) -> CallToolResult:
    """The memory as a document of MIF 1.0."""
    layout = given.pop("format")
    return _export(service, given, None, format="mif1", layout=layout)


def import_memories(service: Service, given: dict[str, Any]) -> CallToolResult:
    """Take a document in. Both tools take documents of either version."""
    data = _document(service, given.pop("data"))
    report = mif.import_document(
        service.store,
        data,
        user_id=service.user,
        most=service.options.document,
        alive=service.alive,
        **given,
    )
    return answer(_short(report.to_dict()))


import_memory = import_memories


def _export(
    service: Service, given: dict[str, Any], path: str | None, **options: Any
) -> CallToolResult:
    if path is not None and service.options.readonly:
        raise refuse("read_only", field="/path")
    dump, told = mif.export_document(
        service.store, service.user, alive=service.alive, **given, **options
    )
    told = _short(told | {"bytes": len(dump.data)})
    if path is not None:
        return answer(told | {"path": service.root.write(path, dump.data, field="/path")})
    if len(dump.data) > service.options.answer:
        expected = f"at most {service.options.answer} bytes; or a path, or less by since"
        raise refuse("answer_too_large", expected=expected, found=f"{len(dump.data)} bytes")
    return answer(told, dump.data.decode())


def _document(service: Service, data: str | dict[str, Any]) -> bytes:
    """The bytes of a document that was given, or of the file at a path that was."""
    if isinstance(data, dict):
        return _checked(service, json.dumps(data, ensure_ascii=False))
    if data.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") or "\n" in data:
        return _checked(service, data)
    found = service.root.read(data, service.options.document, field="/data")
    signature = service.root.find(data + SIGNATURE, MAX_OVERHEAD, field="/data")
    if signature is not None:
        look(signature, found, Trust())  # refuses one that is none, or provably false
    return found


def _checked(service: Service, text: str) -> bytes:
    most = service.options.document
    try:
        found = text.encode()
    except UnicodeEncodeError:
        raise refuse("invalid_argument", field="/data", expected="a text of characters") from None
    if len(found) > most:
        raise refuse("too_large", field="/data", expected=f"at most {most} bytes")
    return found


def _short(told: dict[str, Any]) -> dict[str, Any]:
    """What an answer tells: of the lists that can be long the first of them, and how many."""
    for name in _ARRAYS:
        if isinstance(listed := told.get(name), list) and len(listed) > _MOST:
            told |= {name: listed[:_MOST], f"{name}_total": len(listed)}
    return told
