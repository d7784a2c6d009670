# SPDX-License-Identifier: Apache-2.0
"""What an import did: each record with its fate, and the numbers under the formats' own names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from omsgrain.counts import counted
from omsgrain.formats.problems import Problem
from omsgrain.gateways.mif.deciding import REASONS, Fate, Reason

__all__ = ["PLURALS", "MifReport", "RecordReport"]

PLURALS: Final = {
    "memory": "memories",
    "entity": "entities",
    "relationship": "relationships",
    "episode": "episodes",
    "todo": "todos",
    "project": "projects",
    "reminder": "reminders",
    "node": "nodes",
    "edge": "edges",
    "consent": "consents",
}
"""What the records of a kind are called together."""
_ALWAYS: Final = ("memory", "entity", "relationship")
_TAKEN: Final[tuple[Fate, ...]] = ("imported", "renamed")
_LEFT: Final[tuple[Fate, ...]] = ("refused", "erased")


class RecordReport(NamedTuple):
    """What became of one record.

    Attributes:
        pointer: where it stands in the document, a JSON pointer.
        id: its id; of a record that is not good, what could be read of it, or None.
        kind: of what kind it is.
        fate: what became of it.
        reason: why it was not stored as it came.
        code: of the error, where the store refused it; of a record that is not good, the rule.
        new_id: under which it was stored, if it was renamed.
        problem: of a record that is not good, what is wrong with it first, and where in it.
    """

    pointer: str
    id: str | None
    kind: str
    fate: Fate
    reason: Reason | None = None
    code: str | None = None
    new_id: str | None = None
    problem: Problem | None = None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values; what is not known is left out."""
        told = {name: value for name, value in self._asdict().items() if value is not None}
        told.pop("problem", None)
        return told if self.reason is None else told | {"message": REASONS[self.reason]}


@dataclass(frozen=True, slots=True)
class MifReport:
    """What an import did, or would do.

    Attributes:
        format: ``mif2`` or ``mif1``.
        merge_strategy: by which it was decided.
        stored: whether it was done; not after a dry run, nor if it failed.
        failed: whether a record that could not be taken stopped one that is all or nothing.
        records: all records, in the order of the document.
        problems: what is wrong with those that are not good.
        warnings: what was taken although it looks wrong, and what could not be kept.
    """

    format: str
    merge_strategy: str
    stored: bool
    records: tuple[RecordReport, ...]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    failed: bool = False

    __repr__ = counted

    @property
    def counts(self) -> dict[tuple[str, Fate], int]:
        """How many records of each kind met which fate."""
        return dict(Counter((one.kind, one.fate) for one in self.records))

    @property
    def errors(self) -> tuple[RecordReport, ...]:
        """The records that were not taken."""
        return tuple(one for one in self.records if one.fate in _LEFT)

    def count(self, *fates: Fate, kind: str | None = None) -> int:
        """How many records met one of some fates.

        Args:
            *fates: those.
            kind: of this kind only.
        """
        return sum(one.fate in fates and kind in (None, one.kind) for one in self.records)

    def to_dict(self) -> dict[str, Any]:
        """The report under the names of the formats' reference, and what that leaves out.

        ``duplicates_skipped`` has all that is stored already; ``errors`` what was not taken.
        """
        kinds = dict.fromkeys((*_ALWAYS, *(one.kind for one in self.records)))
        told: dict[str, Any] = {
            "format": self.format,
            "merge_strategy": self.merge_strategy,
            "stored": self.stored,
            "failed": self.failed,
        }
        for kind in kinds:
            name = PLURALS.get(kind, kind)
            told[f"{name}_imported"] = self.count(*_TAKEN, kind=kind)
            if updated := self.count("updated", kind=kind):
                told[f"{name}_updated"] = updated
            if older := self.count("older", kind=kind):
                told[f"{name}_older"] = older
        told["duplicates_skipped"] = self.count("duplicate", "unchanged")
        told["unchanged"] = self.count("unchanged")
        told["renamed"] = self.count("renamed")
        told["errors"] = [
            one.to_dict() | ({} if one.problem is None else one.problem.to_dict())
            for one in self.errors
        ]
        told["warnings"] = [one.to_dict() for one in self.warnings]
        return told

    def audited(self) -> dict[str, int | str]:
        """The numbers for the audit trail: no names and no content."""
        fates = Counter(one.fate for one in self.records)
        told: dict[str, int | str] = dict(sorted(fates.items()))
        return {"merge_strategy": self.merge_strategy, **told}
