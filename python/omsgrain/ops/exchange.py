# SPDX-License-Identifier: Apache-2.0
"""Bring grains from a store to .mg files and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omsgrain import container
from omsgrain.durable import refuse_existing
from omsgrain.ops.opening import open_store, open_to_read
from omsgrain.ops.signed import look_beside
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.batch import OnError
    from omsgrain.container.layout import Codec
    from omsgrain.container.write import WrittenContainer
    from omsgrain.policy.rules import Purpose
    from omsgrain.store.state_merge import ImportReport


def export_mg(
    store: Where,
    file: Path,
    filters: Mapping[str, Any],
    *,
    codec: Codec = "none",
    seekable: bool = False,
    sort: bool = False,
    replace: bool = False,
    purpose: Purpose = "transfer",
    policy: str | None = None,
    actor: str | None = None,
) -> WrittenContainer:
    """Write the grains that match the filters; all of them without any."""
    refuse_existing(file, replace)
    chosen = {**filters, "order": "oldest"} if filters else {}
    with open_to_read(store, actor=actor, policy=policy) as grains:
        return grains.export_mg(
            file, codec=codec, seekable=seekable, sort=sort, purpose=purpose, **chosen
        )


def import_mg(
    store: Where,
    file: Path,
    *,
    errors: OnError = "raise",
    allow_erased: bool = False,
    adapt: bool = False,
    trust: Sequence[str] = (),
    require_signature: bool = False,
    trust_state_from: Sequence[str] = (),
    actor: str | None = None,
) -> ImportReport:
    """Take the grains of a .mg file into a store, which is made if it is not there.

    What is no .mg file, or is not signed as it must be, is refused before a store is made.
    """
    for part in container.parts(file):
        container.read(part).close()
        look_beside(part, trust, required=require_signature)
    with open_store(store, actor=actor) as grains:
        return grains.import_mg(
            file,
            errors=errors,
            allow_erased=allow_erased,
            adapt=adapt,
            trust_state_from=trust_state_from,
        )
