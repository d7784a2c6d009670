# SPDX-License-Identifier: Apache-2.0
"""How many examples a run of the suite has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """How many seeded examples a test runs."""

    grains: int
    noise: int
