# SPDX-License-Identifier: Apache-2.0
"""How often a memory was read where it comes from: the store goes on counting from there.

MIF 1.0 says it in the record; the reference implementation of MIF 2.0 in its own extension.
"""

from __future__ import annotations

from typing import Any, Final

from omsgrain.formats import times
from omsgrain.gateways.mif.arriving import Arrived, Document

__all__ = ["reads_of"]

_VENDOR: Final = "shodh-memory"
_MEMORIES: Final = "memory_metadata"


def reads_of(document: Document, one: Arrived) -> tuple[int, int | None] | None:
    """How often a record was read, and when last in ms since 1970; None if nothing says so."""
    if one.kind != "memory":
        return None
    if document.version.name == "mif1":
        record: Any = document.record_of(one)
        return _told(record.get("access_count"), record.get("accessed_at"))
    told = document.manifest.envelope.get("vendor_extensions")
    for name in (_VENDOR, _MEMORIES, one.id):
        told = told.get(name) if isinstance(told, dict) else None
    if not isinstance(told, dict):
        return None
    return _told(told.get("access_count"), told.get("last_accessed"))


def _told(count: Any, at: Any) -> tuple[int, int | None] | None:
    instant = times.parse(at, floating=True) if isinstance(at, str) else None
    last = None if instant is None or instant.seconds < 0 else instant.millis
    reads = count if type(count) is int and count > 0 else 0
    return (reads, last) if reads or last is not None else None
