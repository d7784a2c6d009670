# SPDX-License-Identifier: Apache-2.0
"""How much went through a bridge: numbers, and nothing of what it was."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Counts"]


@dataclass(slots=True)
class Counts:
    """What a bridge has done since it began.

    Attributes:
        messages: taken from the broker.
        again: of these, delivered before.
        bytes: of the messages.
        stored: grains that were new.
        duplicates: grains that were there already.
        warnings: grains that are allowed but look like a mistake.
        refused: messages set aside, whole or in part.
        acknowledged: messages settled.
        commits: batches.
        retries: times that something was tried again.
        published: changes told.
        commit_seconds: spent in the store.
        gather_seconds: spent waiting for messages.
        settle_seconds: spent setting aside and acknowledging.
    """

    messages: int = 0
    again: int = 0
    bytes: int = 0
    stored: int = 0
    duplicates: int = 0
    warnings: int = 0
    refused: int = 0
    acknowledged: int = 0
    commits: int = 0
    retries: int = 0
    published: int = 0
    commit_seconds: float = 0.0
    gather_seconds: float = 0.0
    settle_seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON-ready values."""
        values = asdict(self)
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in values.items()}
