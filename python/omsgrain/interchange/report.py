# SPDX-License-Identifier: Apache-2.0
"""The reports of imports and exports. Spec: AIMEM §3.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from omsgrain.counts import counted
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from omsgrain.formats.aimem.records import FORMAT
from omsgrain.formats.document import Added, Loss
from omsgrain.formats.problems import Problem
from omsgrain.interchange.merge import REASONS, Decision, Fate, Reason

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
    """A record that was not imported.

    Attributes:
        kind: its kind.
        id: its URN; of an edge or a link, what it joins.
        decision: why.
        code: the error code, if the store refused it.
    """

    kind: Kind
    id: str
    decision: Decision
    code: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The conflict as JSON-ready values, without unknown ones."""
        reason = self.decision.reason
        found: dict[str, Any] = {"id": self.id, "kind": self.kind, "reason": reason}
        if reason is not None:
            found["message"] = REASONS[reason]
        if self.decision.fields:
            found["fields"] = list(self.decision.fields)
        return found if self.code is None else found | {"code": self.code}


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """The report of an import of a bundle.

    Attributes:
        counts: how many records of each kind had which outcome.
        conflicts: the first ten thousand records that were not imported.
        warnings: what was accepted although it looks wrong, and what could not be kept.
    """

    counts: dict[tuple[Kind, Fate], int]
    conflicts: tuple[Conflict, ...]
    warnings: tuple[Problem, ...]

    __repr__ = counted

    def count(self, kind: Kind, fate: Fate) -> int:
        """How many records of a kind had an outcome."""
        return self.counts.get((kind, fate), 0)

    @property
    def total_conflicts(self) -> int:
        """How many records were not imported."""
        return sum(number for (_, fate), number in self.counts.items() if fate == "conflict")

    def to_dict(self) -> dict[str, Any]:
        """The summary as the format's reference has it, with more members.

        ``chunks_rejected_conflict`` is a list of URNs; those of the other kinds are numbers.
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


class ImportTally:
    """Counts records during an import."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Kind, Fate]] = Counter()
        self._conflicts: list[Conflict] = []

    def add(self, kind: Kind, name: str, decision: Decision, code: str | None = None) -> None:
        """Count one record."""
        self._counts[kind, decision.fate] += 1
        if decision.fate == "conflict" and len(self._conflicts) < MOST:
            self._conflicts.append(Conflict(kind, name, decision, code))

    def summary(self, warnings: Sequence[Problem]) -> ImportSummary:
        """The report."""
        return ImportSummary(dict(self._counts), tuple(self._conflicts), tuple(warnings))


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
"""The plural of each kind of record."""
_ALWAYS: Final = ("memory", "entity", "relationship")
_TAKEN: Final[tuple[Fate, ...]] = ("imported", "renamed")
_LEFT: Final[tuple[Fate, ...]] = ("refused", "erased")


class RecordReport(NamedTuple):
    """The outcome of one record.

    Attributes:
        pointer: its place in the document, a JSON pointer.
        id: its id; None if it is invalid and the id could not be read.
        kind: its kind.
        fate: the outcome.
        reason: why it was not stored as it came.
        code: the error code, if the store refused it; the rule, if it is invalid.
        new_id: the id under which it is stored, if that is another one.
        problem: the first problem of an invalid record, and its place.
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
        """The outcome as JSON-ready values, without unknown ones."""
        told = {name: value for name, value in self._asdict().items() if value is not None}
        told.pop("problem", None)
        return told if self.reason is None else told | {"message": REASONS[self.reason]}


@dataclass(frozen=True, slots=True)
class MifReport:
    """The report of an import of MIF.

    Attributes:
        format: ``mif2``, ``mif1`` or ``mif-ld``.
        merge_strategy: the strategy.
        stored: whether anything was stored: not after a dry run, nor after a failure.
        failed: whether a record that could not be imported stopped an atomic import.
        records: all records, in the order of the document.
        problems: what is wrong with the invalid ones.
        warnings: what was accepted although it looks wrong, and what could not be kept.
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
        """How many records of each kind had which outcome."""
        return dict(Counter((one.kind, one.fate) for one in self.records))

    @property
    def errors(self) -> tuple[RecordReport, ...]:
        """The records that were not imported."""
        return tuple(one for one in self.records if one.fate in _LEFT)

    def count(self, *fates: Fate, kind: str | None = None) -> int:
        """How many records had one of some outcomes."""
        return sum(one.fate in fates and kind in (None, one.kind) for one in self.records)

    def to_dict(self) -> dict[str, Any]:
        """The report with the names of the formats' reference, and more members.

        ``duplicates_skipped`` counts all that was stored already; ``errors`` lists what was not
        imported.
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


MOST_LOSSES: Final = 1_000
"""Losses that are listed; all are counted."""


@dataclass(slots=True)
class ExportReport:
    """What an export wrote, and what it did not.

    Attributes:
        format: the name of the format.
        counts: how many records of each kind left.
        losses: what the format cannot hold of what left, or what stays for another reason; the
            first thousand.
        lost: how many losses there are.
        added: what the format needs and the memory does not say; the first thousand.
        passed_over: grains that are no memory of their own: parts of records, duplicates, lists.
        withheld: how many memories a restriction or the end of their retention keeps back, by
            reason; none for ``access``.
        privacy: the flags that the document has: whether something was found, and what was taken
            out. None if the document was not searched.
        warnings: one if a scan found personal data or secrets that left, with kinds and counts and
            no text (``personal_data``), or if a library for it is missing (``not_scanned``).
        document: the id of the document that left as it was imported; None for all memory.
    """

    format: str
    counts: dict[str, int] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    lost: int = 0
    added: list[Added] = field(default_factory=list)
    passed_over: int = 0
    privacy: dict[str, Any] | None = None
    withheld: dict[str, int] = field(default_factory=dict)
    warnings: list[Problem] = field(default_factory=list)
    document: str | None = None

    __repr__ = counted

    def lose(self, losses: Iterable[Loss]) -> None:
        """Report more losses, and values that were added."""
        for loss in losses:
            if isinstance(loss, Added):
                if len(self.added) < MOST_LOSSES:
                    self.added.append(loss)
                continue
            self.lost += 1
            if len(self.losses) < MOST_LOSSES:
                self.losses.append(loss)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        lost = {"losses": [asdict(one) for one in self.losses], "lost": self.lost}
        if self.document is not None:
            return {"document": self.document, **lost}
        told: dict[str, Any] = {"format": self.format}
        for kind, number in self.counts.items():
            told[f"{PLURALS.get(kind, kind)}_exported"] = number
        told |= lost
        told["added"] = [asdict(one) for one in self.added]
        told["withheld"] = self.withheld
        told["warnings"] = [one.to_dict() for one in self.warnings]
        return told if self.privacy is None else told | {"privacy": self.privacy}


@dataclass(slots=True)
class AimemExportReport(ExportReport):
    """What an export of bundles wrote; give an empty one to be filled.

    Attributes:
        producers: of the bundles.
        named: who has named what leaves; of bundles that are not together the same.
        lost_fields: how often each field is lost; of all losses.
        added_fields: how often each field was added.
    """

    format: str = FORMAT
    producers: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    lost_fields: Counter[str] = field(default_factory=Counter)
    added_fields: Counter[str] = field(default_factory=Counter)

    __repr__ = counted

    def lose(self, losses: Iterable[Loss]) -> None:
        """Report more losses, and values that were added."""
        losses = list(losses)
        for loss in losses:
            fields = self.added_fields if isinstance(loss, Added) else self.lost_fields
            fields[loss.field] += 1
        ExportReport.lose(self, losses)
