# SPDX-License-Identifier: Apache-2.0
"""The audit trail: who did what to which grains, each entry bound to all before it by a hash.

``append`` adds an entry in the transaction of the work that it tells of, so there is no work
without its entry and no entry without its work. Whoever edits, swaps or drops an entry later
breaks the chain, and ``verify`` says where. A tail that was cut off can be seen only by somebody
who kept a ``Checkpoint`` outside of the store.
"""

from omsgrain.store.audit.ends import Checkpoint, checkpoint
from omsgrain.store.audit.entry import OPERATIONS, AuditEntry, Operation
from omsgrain.store.audit.reading import AuditLog, entries, tag
from omsgrain.store.audit.verification import AuditProblem, AuditReport, verify
from omsgrain.store.audit.writing import MOST_TAGS, append, erase_notes

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
    "entries",
    "erase_notes",
    "tag",
    "verify",
]
