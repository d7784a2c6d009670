# SPDX-License-Identifier: Apache-2.0
"""What the rules of a preset are, and what of a store they do not allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omsgrain.errors import OmsError
from omsgrain.ops.opening import open_store
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.policy.presets import Explained


@dataclass(frozen=True, slots=True)
class Violation:
    """A grain that a preset would not let in now.

    Attributes:
        address: the grain.
        error: the first rule that it breaks.
    """

    address: str
    error: OmsError


def policy_rules(presets: tuple[str, ...]) -> tuple[Explained, ...]:
    """The rules of presets, one by one."""
    from omsgrain.policy.presets import explain, load

    return explain(load(presets))


def policy_check(store: Where, presets: tuple[str, ...]) -> Iterator[Violation]:
    """Find the grains of a store that presets would not let in now."""
    from omsgrain.policy.presets import load

    preset = load(presets)
    with open_store(store, readonly=True) as grains:
        for grain in grains:
            for error in preset.put_refusals(grain):
                yield Violation(grain.address, error)
                break
