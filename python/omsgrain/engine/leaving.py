# SPDX-License-Identifier: Apache-2.0
"""What may leave the store, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omsgrain import _core
from omsgrain.errors import UnsupportedError
from omsgrain.grain import Grain
from omsgrain.store.base import Reader
from omsgrain.store.state import State

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings
    from omsgrain.privacy import Purpose

__all__ = ["check", "told", "under_rules"]

_PROFILES = ("legal", "finance", "consumer")
"""The domain profiles with rules about what may leave."""


def check(settings: Settings, grain: Grain, held: bool, purpose: Purpose) -> tuple[str, ...]:
    """Refuse a grain that a profile's rule or a preset keeps in the store.

    Returns:
        Ids of the rules by which somebody should look at it.

    Raises:
        UnsupportedError: ``rule`` names what keeps it.
    """
    from omsgrain.index import policy

    rule = policy.check_export(grain, held, sale=purpose == "sale")
    if rule is not None:
        raise UnsupportedError("a rule keeps a grain in the store", found=grain.address, rule=rule)
    if settings.preset is None:
        return ()
    return settings.preset.check_export(grain, purpose=purpose)


def told(state: State) -> dict[str, Any]:
    """What a manifest says of a grain: only what is not the default, and no counts of reads."""
    said = {
        "superseded_by": state.superseded_by,
        "system_valid_to": state.system_valid_to,
        "verification_status": state.verification_status,
    }
    return {name: value for name, value in said.items() if value not in (None, "unverified")}


def under_rules(reader: Reader) -> set[int]:
    """The numbers of the grains that declare a profile with such rules."""
    return {
        int.from_bytes(place[12:], "big")
        for name in _PROFILES
        for place in reader.places(_core.term("tag", f"profile:{name}"), None, False)
    }
