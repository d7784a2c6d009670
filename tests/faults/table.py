# SPDX-License-Identifier: Apache-2.0
"""All scenarios, by name."""

from __future__ import annotations

from typing import Final

from faults import commits, files, people
from faults.scenario import Scenario

SCENARIOS: Final[dict[str, Scenario]] = {
    **commits.SCENARIOS,
    **files.SCENARIOS,
    **people.SCENARIOS,
}
