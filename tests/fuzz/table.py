# SPDX-License-Identifier: Apache-2.0
"""All targets, by name. An extra that is not installed takes its targets away."""

from __future__ import annotations

from typing import Final

from fuzz import (
    asking,
    backups,
    containers,
    documents,
    grains,
    imports,
    recordings,
    redaction,
    syncing,
    taken,
    trust,
    wire,
)
from fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    name.replace(" ", "-"): target
    for room in (
        grains,
        taken,
        containers,
        trust,
        syncing,
        documents,
        imports,
        recordings,
        asking,
        backups,
        wire,
        redaction,
    )
    for name, target in room.TARGETS.items()
}
