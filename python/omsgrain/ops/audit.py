# SPDX-License-Identifier: Apache-2.0
"""Read and verify the audit trail of a store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omsgrain.ops.opening import open_store, resolver_in_use
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.storage.audit.log import AuditEntry
    from omsgrain.storage.audit.verify import AuditReport, Checkpoint


def audit_entries(
    store: Where, *, after: int = 0, address: str | None = None, operation: str | None = None
) -> Iterator[AuditEntry]:
    """Walk the entries; arguments and errors are those of ``store.audit.entries``."""
    with open_store(store, readonly=True) as grains:
        yield from grains.audit.entries(after, address=address, operation=operation)


def audit_verify(
    store: Where,
    checkpoint: Path | None = None,
    *,
    signer: str | None = None,
    resolver: Resolver | None = None,
) -> AuditReport:
    """Verify the trail, against a checkpoint that was kept elsewhere if there is one."""
    from omsgrain.storage.audit.verify import Checkpoint

    kept = None if checkpoint is None else Checkpoint.from_json(checkpoint.read_bytes())
    with open_store(store, readonly=True) as grains:
        return grains.audit.verify(kept, signer=signer, resolver=resolver or resolver_in_use())


def audit_checkpoint(
    store: Where, *, key: Path | None = None, did: str | None = None
) -> Checkpoint:
    """Return where the trail ends now."""
    from omsgrain import crypto

    signer = None if key is None else crypto.load_signer(key, did)
    with open_store(store, readonly=True) as grains:
        return grains.audit.checkpoint(signer, iat=None if key is None else int(time.time()))


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
