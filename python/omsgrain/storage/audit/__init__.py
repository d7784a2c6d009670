# SPDX-License-Identifier: Apache-2.0
"""The audit trail: who did what to which grains, in a hash chain.

``append`` adds an entry in the transaction of the work that it describes, so neither exists
without the other. Editing, swapping or dropping an entry later breaks the chain, and ``verify``
says where. A cut-off tail can be detected only with a ``Checkpoint`` that was kept outside the
store.
"""

from __future__ import annotations

from omsgrain.storage.audit.log import (
    MOST_TAGS,
    OPERATIONS,
    AuditEntry,
    Operation,
    append,
    erase_notes,
)
from omsgrain.storage.audit.trail import AuditLog, tag
from omsgrain.storage.audit.verify import AuditProblem, AuditReport, Checkpoint, checkpoint, verify

__all__ = [
    "MOST_TAGS",
    "OPERATIONS",
    "AuditEntry",
    "AuditLog",
    "AuditProblem",
    "AuditReport",
    "Checkpoint",
    "Operation",
    "append",
    "checkpoint",
    "erase_notes",
    "tag",
    "verify",
]
