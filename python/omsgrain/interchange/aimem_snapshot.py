# SPDX-License-Identifier: Apache-2.0
"""What stood around the records of a bundle, kept beside them in a store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from omsgrain import _core
from omsgrain.formats.aimem import fields
from omsgrain.formats.aimem.check import WARNINGS
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from omsgrain.formats.aimem.records import FORMAT
from omsgrain.formats.document import Manifest, manifest
from omsgrain.formats.problems import Problem
from omsgrain.grain import Grain
from omsgrain.interchange.aimem_plan import AimemDecision, AimemPlan

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

_GONE: Final = b""


class SnapshotDocument:
    """A document that is to be kept, if all its records are stored as they came."""

    def __init__(self, envelope: Mapping[str, Any], kinds: Collection[Kind], tenant: str) -> None:
        self._envelope = dict(envelope)
        self._tenant = tenant
        self._digests: dict[Kind, list[bytes]] = {
            kind: [] for kind in ARRAYS.values() if kind in kinds
        }

    def note(self, plan: AimemPlan, decision: AimemDecision, grain: Grain | None) -> None:
        """Note which grain a record is; none, if no grain says exactly what it does."""
        listed = self._digests[plan.one.kind]
        listed.extend([_GONE] * (plan.one.place + 1 - len(listed)))
        if decision.fate == "conflict":
            return
        if plan.twin is not None and plan.exact:
            listed[plan.one.place] = listed[plan.twin.place]
        if grain is None and plan.stored is not None and plan.exact:
            grain = plan.stored.grain
        if grain is not None and plan.carried is None:
            listed[plan.one.place] = bytes.fromhex(_core.address(grain.blob))

    def keep(self, store: GrainStore, *, allow_erased: bool) -> list[Problem]:
        """Store it; a warning if that cannot be."""
        if any(_GONE in listed for listed in self._digests.values()):
            return [Problem("document_not_kept", "", WARNINGS["document_not_kept"].says)]
        names = {kind: name for name, kind in ARRAYS.items()}
        arrays = {
            names[kind]: [digest.hex() for digest in listed]
            for kind, listed in self._digests.items()
        }
        created_at = fields.of_grain(fields.parse_time(self._envelope["exported_at"]))
        whole = Manifest(FORMAT, self._envelope["checksum"], self._envelope, arrays)
        grains = manifest(whole, created_at=created_at, user_id=self._tenant)
        store.put_many(grains, allow_erased=allow_erased)
        return []
