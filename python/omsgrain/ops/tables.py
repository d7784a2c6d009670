# SPDX-License-Identifier: Apache-2.0
"""Bring grains from a store to Parquet files and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omsgrain.durable import refuse_existing
from omsgrain.ops.opening import open_store, open_to_read
from omsgrain.ops.signed import look_beside
from omsgrain.storage.location import Where
from omsgrain.store import parquet

if TYPE_CHECKING:
    from omsgrain.batch import OnError
    from omsgrain.policy.rules import Purpose
    from omsgrain.store.parquet import WrittenParquet
    from omsgrain.store.state_merge import ImportReport


def export_parquet(
    store: Where,
    file: Path,
    filters: Mapping[str, Any],
    *,
    columns: Iterable[str] | None = None,
    unsealed: bool = False,
    replace: bool = False,
    purpose: Purpose = "transfer",
    policy: str | None = None,
    actor: str | None = None,
) -> WrittenParquet:
    """Write the grains that match the filters as a table; all of them without any."""
    refuse_existing(file, replace)
    chosen = {**filters, "order": "oldest"} if filters else {}
    with open_to_read(store, actor=actor, policy=policy) as grains:
        return grains.export_parquet(
            file, columns=columns, unsealed=unsealed, purpose=purpose, **chosen
        )


def import_parquet(
    store: Where,
    file: Path,
    *,
    errors: OnError = "raise",
    allow_erased: bool = False,
    trust: Sequence[str] = (),
    require_signature: bool = False,
    actor: str | None = None,
) -> ImportReport:
    """Take the grains of a table into a store, which is made if it is not there.

    What is no Parquet file of grains, or is not signed as it must be, is refused before a store
    is made; ``trust`` and ``require_signature`` are those of ``ops.import_mg``.
    """
    next(parquet.read(file), None)
    look_beside(file, trust, required=require_signature)
    with open_store(store, actor=actor) as grains:
        return grains.import_parquet(file, errors=errors, allow_erased=allow_erased)
