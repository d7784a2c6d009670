# SPDX-License-Identifier: Apache-2.0
"""AIMEM bundles into a store and out of it, and the erasure of a tenant. Spec: AIMEM §3, §5.

A tenant is a ``user_id``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omsgrain.interchange.aimem_export import (
    AimemExport,
    BundleOptions,
    export_bundle,
    export_stream,
)
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.export import AimemExportReport
from omsgrain.interchange.outcome import Conflict, ImportSummary
from omsgrain.storage import tombstones
from omsgrain.storage.erasure_queue import WITHIN
from omsgrain.store.context import context_of

if TYPE_CHECKING:
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.store import GrainStore
    from omsgrain.store.privacy.erasure import ErasureReport

__all__ = [
    "AimemExport",
    "AimemExportReport",
    "BundleOptions",
    "Conflict",
    "ImportSummary",
    "erase_tenant",
    "erasures",
    "export_bundle",
    "export_stream",
    "import_bundle",
]


def erase_tenant(
    store: GrainStore,
    tenant: str,
    *,
    reason_code: str,
    scrub: Literal["now", "queued"] = "now",
    within_days: int = WITHIN,
    rekey: MasterKey | None = None,
) -> ErasureReport:
    """Erase all memory of a tenant: grains, index rows, vectors, keys and ciphertext.

    From the first moment no export includes any of it: an export that begins finds nothing, and
    one that is running stops with an error. Only holds and minimum retentions keep a grain. Such
    a grain is restricted, is in no export, and is erased when nothing keeps it any longer.

    A grain that bears the tenant's id and belongs to no user is erased too. One that belongs to
    another user stays, whatever it says, and the report names it. An import brings erased records
    back only with ``allow_erased``; the tenant can have new ones at once. The audit trail says
    that there was an erasure, and not of whom or of what.

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
    """Return how often a tenant was erased, by any process; an erasure counts as it begins."""
    with context_of(store).storage.read() as reader:
        return tombstones.times(reader, "identity", tenant)
