# SPDX-License-Identifier: Apache-2.0
"""Documents of a user's memory, as text or as files below the root of the server."""

from __future__ import annotations

import json
from typing import Any, Final

from omsgrain.crypto.cose import MAX_OVERHEAD
from omsgrain.crypto.detached import SUFFIX
from omsgrain.crypto.trust import Trust, look
from omsgrain.errors import SchemaError
from omsgrain.formats.aimem import document as bundles
from omsgrain.formats.aimem.fields import AimemLimits, is_tenant
from omsgrain.formats.table import DOCUMENTS, sniff
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.export import AimemExportReport
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from omsgrain.mcp.service import Json, McpService, answer, refuse

_MOST: Final = 100
"""Records, warnings and losses that a result lists; the rest are counted."""
_ARRAYS: Final = ("errors", "warnings", "losses", "added", "conflicts", "chunks_rejected_conflict")


def export_any(service: McpService, given: dict[str, Any]) -> Json:
    """Return the memory as a document of any format."""
    path, format, tenant = given.pop("path"), given["format"], given.pop("tenant_id")
    if format in DOCUMENTS:
        if tenant is not None:
            expected = "only with the format aimem"
            raise SchemaError("the document has no tenant", field="/tenant_id", expected=expected)
        return _export(service, given, path)
    _check_bundle(service, given, tenant)
    _check_path(service, path)
    report = AimemExportReport()
    since = given["since"]
    (bundle,) = export_bundle(
        service.store,
        service.user,
        report=report,
        alive=service.work.alive,
        scope="FULL" if since is None else "SINCE",
        since=since,
        together=True,
        include_embeddings=given["include_embeddings"],
        purpose=service.options.purpose,
        tenant_id=tenant,
    )
    return _given(service, bundles.write_bundle(bundle), report.to_dict(), path)


def _check_bundle(service: McpService, given: dict[str, Any], tenant: str | None) -> None:
    """Refuse what a bundle cannot do; an error asks for all that it needs."""
    if given["redact_pii"]:
        expected = "false: a bundle is exported as it is"
        if not is_tenant(service.user if tenant is None else tenant):
            expected += "; and tenant_id, a UUID or a URI"
        raise SchemaError("AIMEM has no redaction", field="/redact_pii", expected=expected)
    if not given["include_graph"]:
        raise SchemaError(
            "a bundle always has the knowledge graph", field="/include_graph", expected="true"
        )


def import_any(service: McpService, given: dict[str, Any]) -> Json:
    """Import a document of any format."""
    data = _document(service, given.pop("data"))
    if sniff(data) in DOCUMENTS:
        return _import(service, data, given)
    if given["merge_strategy"] != "skip_duplicates":
        expected = "skip_duplicates"
        raise SchemaError(
            "AIMEM has rules of its own for what exists",
            field="/merge_strategy",
            expected=expected,
        )
    limits = AimemLimits(document=service.options.document)
    summary = import_bundle(
        service.store,
        bundles.read_bundle(data, limits, alive=service.work.alive),
        tenant=service.user,
        dry_run=given["dry_run"],
        alive=service.work.alive,
    )
    return answer(_short(summary.to_dict()))


def export_memories(service: McpService, given: dict[str, Any]) -> Json:
    """Return the memory as a document of MIF 2.0."""
    path = given.pop("path")
    return _export(service, given | {"format": "mif2"}, path)


def export_memory(service: McpService, given: dict[str, Any]) -> Json:
    """Return the memory as a document of MIF 1.0."""
    layout = given.pop("format")
    return _export(service, given | {"format": "mif1", "layout": layout}, None)


def import_memories(service: McpService, given: dict[str, Any]) -> Json:
    """Import a document of MIF. Both tools accept documents of either version."""
    return _import(service, _document(service, given.pop("data")), given)


def _import(service: McpService, data: bytes, given: dict[str, Any]) -> Json:
    report = import_document(
        service.store,
        data,
        user_id=service.user,
        most=service.options.document,
        alive=service.work.alive,
        **given,
    )
    return answer(_short(report.to_dict()))


def _export(service: McpService, given: dict[str, Any], path: str | None) -> Json:
    _check_path(service, path)
    given["purpose"] = service.options.purpose
    dump, report = export_document(service.store, service.user, alive=service.work.alive, **given)
    return _given(service, dump.data, report.to_dict(), path)


def _check_path(service: McpService, path: str | None) -> None:
    if path is not None and service.options.readonly:
        raise refuse("read_only", field="/path")


def _given(service: McpService, data: bytes, report: Json, path: str | None) -> Json:
    """Return a document, or write it to a file."""
    values = _short(report | {"bytes": len(data)})
    if path is not None:
        return answer(values | {"path": service.root.write(path, data, field="/path")})
    if len(data) > service.options.answer:
        expected = f"at most {service.options.answer} bytes; give a path, or a later since"
        raise refuse("answer_too_large", expected=expected, found=f"{len(data)} bytes")
    return answer(values, data.decode())


def _document(service: McpService, data: str | dict[str, Any]) -> bytes:
    """Return the bytes of a given document, or of the file at a given path."""
    if service.options.signed_only:
        raise refuse("signature_missing", field="/data")
    if isinstance(data, dict):
        return _checked(service, json.dumps(data, ensure_ascii=False))
    if data.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") or "\n" in data:
        return _checked(service, data)
    found = service.root.read(data, service.options.document, field="/data")
    signature = service.root.find(data + SUFFIX, MAX_OVERHEAD, field="/data")
    if signature is not None:
        look(signature, found, Trust())  # refuses an invalid document
    return found


def _checked(service: McpService, text: str) -> bytes:
    most = service.options.document
    try:
        found = text.encode()
    except UnicodeEncodeError:
        raise refuse("invalid_argument", field="/data", expected="a text of characters") from None
    if len(found) > most:
        raise refuse("too_large", field="/data", expected=f"at most {most} bytes")
    return found


def _short(values: Json) -> Json:
    """Shorten the long lists of a result, and add their counts."""
    for name in _ARRAYS:
        if isinstance(listed := values.get(name), list) and len(listed) > _MOST:
            values[name] = listed[:_MOST]
            values.setdefault(f"{name}_total", len(listed))
    return values
