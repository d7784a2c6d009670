# SPDX-License-Identifier: Apache-2.0
"""Grains that never were AIMEM, left in a bundle and come back: nothing is stored twice.

Such a chunk carries the whole grain, or at least the address that it stands under: 32 digits of it
are its local name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from omsgrain.engine.sources import Found, Snapshot
from omsgrain.errors import OmsError
from omsgrain.formats.aimem import native, times, urn
from omsgrain.formats.source import Source
from omsgrain.grain import Grain
from omsgrain.intake import take_one

__all__ = ["Returned", "returned"]

_LOCAL = re.compile("[0-9a-f]{32}")
_ADDRESS = re.compile("[0-9a-f]{64}")


class Returned(NamedTuple):
    """A chunk that was a grain.

    Attributes:
        found: the grain in this store; None if it is not here.
        said: the chunk that it would be now, and the one that came, to be compared.
        carried: the grain that the chunk carries, if it is not here and can be.
    """

    found: Found | None
    said: tuple[dict[str, Any], dict[str, Any]] | None = None
    carried: Grain | None = None


def returned(snapshot: Snapshot, chunk: Mapping[str, Any], tenant: str) -> Returned | None:
    """Say which grain a chunk was; None if it was none of this tenant.

    Args:
        snapshot: of the tenant's grains.
        chunk: as it came.
        tenant: whose it is to be.
    """
    named = urn.parse(chunk["id"])
    if named is None:
        return None
    found = _found(snapshot, chunk, named.local)
    if found is None:
        grain = native.carried(chunk)
        if grain is None or grain.get("user_id") != tenant or not _may_come(grain):
            return None
        there = snapshot.get(grain.address)
        return Returned(there, None, grain if there is None else None)
    if Source.of(found.grain) is not None:  # it has a name of its own
        return None
    made, _ = native.native(found.grain, producer=named.producer, owner=tenant, strict=True)
    if made is None:
        return None
    came = {name: value for name, value in chunk.items() if name != native.MEMBER}
    return Returned(found, (made | {"id": chunk["id"]}, came))


def _found(snapshot: Snapshot, chunk: Mapping[str, Any], local: str) -> Found | None:
    member = chunk.get(native.MEMBER)
    address = member.get("address") if isinstance(member, dict) else None
    if isinstance(address, str) and _ADDRESS.fullmatch(address):
        return snapshot.get(address)
    created = times.parse(chunk["created_at"])
    if created is None or created.seconds < 0 or not _LOCAL.fullmatch(local):
        return None
    return snapshot.begins(local, created.millis)


def _may_come(grain: Grain) -> bool:
    """Whether a grain can be put as it is: one that superseded another cannot."""
    try:
        take_one(grain)
    except OmsError:
        return False
    return not grain.sealed
