# SPDX-License-Identifier: Apache-2.0
"""What an import did. Spec: AIMEM §3.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from omsgrain.counts import counted
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from omsgrain.formats.problems import Problem
from omsgrain.gateways.aimem.deciding import REASONS, Decision, Fate

__all__ = ["MOST", "Conflict", "ImportSummary", "Tally"]

MOST = 10_000
"""Conflicts that are listed; the rest are counted, or a bundle could fill the memory."""

_NAMES: Final = {kind: name for name, kind in ARRAYS.items()}
_WORDS: Final[dict[Fate, str]] = {
    "inserted": "inserted",
    "unchanged": "skipped_idempotent",
    "updated": "updated",
    "conflict": "rejected_conflict",
}


@dataclass(frozen=True, slots=True)
class Conflict:
    """A record that was not taken.

    Attributes:
        kind: of what kind it is.
        id: its URN; of an edge or a link what it joins.
        decision: why.
        code: of the error, where the store refused it.
    """

    kind: Kind
    id: str
    decision: Decision
    code: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The conflict as JSON-ready values; what is not known is left out."""
        reason = self.decision.reason
        found: dict[str, Any] = {"id": self.id, "kind": self.kind, "reason": reason}
        if reason is not None:
            found["message"] = REASONS[reason]
        if self.decision.fields:
            found["fields"] = list(self.decision.fields)
        return found if self.code is None else found | {"code": self.code}


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What an import did.

    Attributes:
        counts: how many records of each kind met which fate.
        conflicts: the first ten thousand that were not taken.
        warnings: what was taken although it looks wrong, and what could not be kept.
    """

    counts: dict[tuple[Kind, Fate], int]
    conflicts: tuple[Conflict, ...]
    warnings: tuple[Problem, ...]

    __repr__ = counted

    def count(self, kind: Kind, fate: Fate) -> int:
        """How many records of a kind met a fate."""
        return self.counts.get((kind, fate), 0)

    @property
    def total_conflicts(self) -> int:
        """How many records were not taken."""
        return sum(number for (_, fate), number in self.counts.items() if fate == "conflict")

    def to_dict(self) -> dict[str, Any]:
        """The summary as the format's reference has it, and what that leaves out.

        ``chunks_rejected_conflict`` is a list of URNs; of the other kinds they are counted.
        """
        told: dict[str, Any] = {
            f"{_NAMES[kind]}_{word}": self.count(kind, fate)
            for kind in _NAMES
            for fate, word in _WORDS.items()
        }
        told["chunks_rejected_conflict"] = [
            one.id for one in self.conflicts if one.kind == "chunk"
        ]
        told["conflicts"] = [one.to_dict() for one in self.conflicts]
        told["conflicts_total"] = self.total_conflicts
        return told | {"warnings": [one.to_dict() for one in self.warnings]}

    def audited(self) -> dict[str, int]:
        """The numbers for the audit trail: no names and no content."""
        return {
            f"{_NAMES[kind]}_{fate}": number
            for (kind, fate), number in sorted(self.counts.items())
        }


class Tally:
    """Counts while an import goes on."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Kind, Fate]] = Counter()
        self._conflicts: list[Conflict] = []

    def add(self, kind: Kind, name: str, decision: Decision, code: str | None = None) -> None:
        """Count one record.

        Args:
            kind: of what kind it is.
            name: its id.
            decision: what became of it.
            code: of the error, where the store refused it.
        """
        self._counts[kind, decision.fate] += 1
        if decision.fate == "conflict" and len(self._conflicts) < MOST:
            self._conflicts.append(Conflict(kind, name, decision, code))

    def summary(self, warnings: Sequence[Problem]) -> ImportSummary:
        """What it came to."""
        return ImportSummary(dict(self._counts), tuple(self._conflicts), tuple(warnings))
