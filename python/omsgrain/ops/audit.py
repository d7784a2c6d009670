# SPDX-License-Identifier: Apache-2.0
"""Read and verify the audit trail of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omsgrain as og

if TYPE_CHECKING:
    from omsgrain.store.audit import AuditEntry, AuditReport, Checkpoint


def audit_entries(
    store: Path, *, after: int = 0, address: str | None = None, operation: str | None = None
) -> Iterator[AuditEntry]:
    """Walk the entries; arguments and errors are those of ``store.audit.entries``."""
    with og.open(store, readonly=True) as grains:
        yield from grains.audit.entries(after, address=address, operation=operation)


def audit_verify(store: Path, checkpoint: Path | None = None) -> AuditReport:
    """Verify the trail, against a checkpoint that was kept elsewhere if there is one.

    Raises:
        FormatError: the file is no checkpoint.
        StoreError: there is no store at the path.
    """
    from omsgrain.store.audit import Checkpoint

    kept = None if checkpoint is None else Checkpoint.from_json(checkpoint.read_bytes())
    with og.open(store, readonly=True) as grains:
        return grains.audit.verify(kept)


def audit_checkpoint(store: Path) -> Checkpoint:
    """Return where the trail ends now.

    Raises:
        StoreError: there is no store at the path.
    """
    with og.open(store, readonly=True) as grains:
        return grains.audit.checkpoint()


def entry_values(entry: AuditEntry) -> Mapping[str, Any]:
    """An entry as JSON-ready values; what it does not have is left out."""
    values = {
        "number": entry.number,
        "sound": entry.sound,
        "time": entry.time,
        "operation": entry.operation,
        "actor": entry.actor,
        "count": entry.count,
        "reason_code": entry.reason_code,
        "note": entry.note,
        "note_erased": entry.note_erased or None,
        "details": dict(entry.details) or None,
        "last_seq": entry.last_seq,
        "grains": entry.grains,
        "tags": [tag.hex() for tag in entry.tags] or None,
        "hash": entry.hash,
    }
    return {name: value for name, value in values.items() if value is not None}
