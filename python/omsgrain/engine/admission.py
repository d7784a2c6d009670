# SPDX-License-Identifier: Apache-2.0
"""May these grains come in? What only a store can tell: goals, delegation, a preset's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omsgrain.errors import OmsError
from omsgrain.grain import Grain
from omsgrain.intake import Pair
from omsgrain.store.base import Reader

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings

__all__ = ["Admission", "admit"]

_GOAL = 7  # type byte: most grains are none, and cost no more than a look at it


@dataclass(frozen=True, slots=True)
class Admission:
    """What a store says of grains that are to be put, by position.

    Attributes:
        refused: why they may not come in.
        reviews: the rules by which somebody should look at them.
    """

    refused: dict[int, OmsError]
    reviews: dict[int, tuple[str, ...]]


def admit(reader: Reader, settings: Settings, pairs: Sequence[Pair]) -> Admission:
    """Ask of each grain whether it may come in; one that is there already is not asked again."""
    asked = settings.preset is not None or settings.delegation
    found = Admission({}, {})
    for i, (digest, blob) in enumerate(pairs):
        if (asked or blob[2] == _GOAL) and reader.find([digest])[0] is None:
            try:
                if rules := _rules(reader, settings, Grain(blob)):
                    found.reviews[i] = rules
            except OmsError as error:
                found.refused[i] = error
    return found


def _rules(reader: Reader, settings: Settings, grain: Grain) -> tuple[str, ...]:
    from omsgrain.engine.world import StoreWorld
    from omsgrain.index import policy

    world = StoreWorld(reader, grain)
    policy.check_goal(world, grain)
    if settings.delegation:
        policy.check_delegation(world, grain, settings.clock())
    return () if settings.preset is None else settings.preset.check_put(grain)
