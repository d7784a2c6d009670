# SPDX-License-Identifier: Apache-2.0
"""Erasing a tenant: all that is theirs, durably, and nothing of anybody else. Spec: AIMEM §5.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omsgrain.storage import tombstones
from omsgrain.storage.erasure_queue import WITHIN
from omsgrain.store.context import context_of

if TYPE_CHECKING:
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.store import GrainStore
    from omsgrain.store.privacy.erasure import ErasureReport


def erase_tenant(
    store: GrainStore,
    tenant: str,
    *,
    reason_code: str,
    scrub: Literal["now", "queued"] = "now",
    within_days: int = WITHIN,
    rekey: MasterKey | None = None,
) -> ErasureReport:
    """Erase all memory of a tenant: grains, index rows, vectors, keys, what is sealed with them.

    From the first moment on no export has any of it: one that begins finds nothing, and one that
    runs stops with an error. Only holds and minimum retentions keep a grain; it is restricted
    then, leaves in no export, and goes when nothing keeps it any more.

    A grain that bears the tenant's id and belongs to no user goes as well; one that belongs to
    another user stays, whatever it says, and the report names it. Records that were erased come
    back by no import, unless it allows that; new ones the tenant may have at once. The audit
    trail says that there was an erasure, and not whose or of what.

    Spec: AIMEM §5.2
    """
    return store.privacy.erase(
        [tenant],
        reason_code=reason_code,
        mentions="tenant",
        scrub=scrub,
        ciphertext=True,
        within_days=within_days,
        rekey=rekey,
    )


def erasures(store: GrainStore, tenant: str) -> int:
    """Return how often a tenant was erased, by whatever process; counted before anything goes."""
    with context_of(store).storage.read() as reader:
        return tombstones.times(reader, "identity", tenant)
