# SPDX-License-Identifier: Apache-2.0
"""The outcome of each record of an import: the table that decides it, and the reports.

A row of the table is what is stored, a column is a strategy.

    what is stored under its id                   skip_duplicates  overwrite         rename
    nothing                                       imported         imported          imported
    nothing; a native grain has the text          duplicate        updates that one  duplicate
    the same record                               unchanged        unchanged         unchanged
    the same text, other fields                   duplicate        updated           duplicate
    another text                                  updated          updated           renamed
    another text, that is newer by what both say  older            updated           renamed
    another text; the same one under another id   duplicate        updated           duplicate
    a newer version, and this one in its history  unchanged        unchanged         unchanged
    only what was withdrawn here                  refused          refused           refused

With `overwrite`, a record whose text is stored under another id, and whose own id is not stored,
is imported under that other id.

The newer one has the later ``updated_at``, or else the higher ``version``. The older one joins the
history before the stored one, which stays current. Kinds of records without a text, such as todos,
have no duplicates: for them, other fields count as another text.
Spec: MIF 1.0 §8, MIF 2.0 §6

AIMEM has one strategy, `NEWEST`: by ``created_at`` a newer record supersedes an older one. All
other differences are conflicts, and the import leaves those records out. Spec: AIMEM §3.2, §5.1
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from omsgrain.counts import counted
from omsgrain.errors import SchemaError
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from omsgrain.formats.mif import PLURALS
from omsgrain.formats.problems import Problem

MifStrategy: TypeAlias = Literal["skip_duplicates", "overwrite", "rename"]
STRATEGIES: Final[tuple[MifStrategy, ...]] = get_args(MifStrategy)
"""The strategies for MIF."""

Fate: TypeAlias = Literal[
    "imported",
    "inserted",
    "unchanged",
    "updated",
    "older",
    "duplicate",
    "renamed",
    "refused",
    "erased",
    "conflict",
]
Reason: TypeAlias = Literal[
    "invalid",
    "same_text",
    "same_text_here",
    "newer_here",
    "newer_stored",
    "another_user",
    "created_at_conflict",
    "field_conflict",
    "older",
    "dna_conflict",
    "withdrawn",
    "erased",
    "refused",
]
REASONS: Final[dict[Reason, str]] = {
    "invalid": "it breaks a rule of its format",
    "same_text": "a record with the same text is stored",
    "same_text_here": "an earlier record of the document has the same text",
    "newer_here": "it was superseded here by a newer version",
    "newer_stored": "what is stored under its id is newer, and stays; it joins the history",
    "another_user": "it carries a grain of another user",
    "created_at_conflict": "other content, and the same created_at",
    "field_conflict": "other fields, and no newer created_at",
    "older": "other content or fields than what is stored, and an older created_at",
    "dna_conflict": "DNA-class or pinned: superseded only when that is allowed",
    "withdrawn": "what is stored was superseded, retracted or restricted here",
    "erased": "it was erased, and comes back only when that is allowed",
    "refused": "a policy of the store or of a grain in it refuses",
}
"""Why a record is not stored as it came, or is left out. The other records are not touched."""

Own: TypeAlias = Literal[
    "nothing", "same", "fields", "text", "newer", "older", "superseded", "withdrawn", "protected"
]
"""The state under the id of a record: nothing; the same; the same text with other fields;
another text, which can be newer or older; a newer version with the record in its history; only
what was withdrawn; what must not be superseded silently."""
Target: TypeAlias = Literal["own", "twin"]


class Decision(NamedTuple):
    fate: Fate  # what is done with it
    reason: Reason | None = None  # why it is not stored as it came
    target: Target | None = None  # what it supersedes: what has its id, or what has its text
    fields: tuple[str, ...] = ()  # those that differ, of a ``field_conflict``; the first twenty


IMPORTED: Final = Decision("imported")
INSERTED: Final = Decision("inserted")
UNCHANGED: Final = Decision("unchanged")
UPDATED: Final = Decision("updated", None, "own")
_TWIN_UPDATED = Decision("updated", None, "twin")
_DUPLICATE = Decision("duplicate", "same_text")
_SUPERSEDED = Decision("unchanged", "newer_here")
_RENAMED = Decision("renamed")
_BEHIND = Decision("older", "newer_stored")
_WITHDRAWN = Decision("refused", "withdrawn")

_TABLE: Final[dict[tuple[Own, bool], tuple[Decision, Decision, Decision]]] = {
    ("nothing", False): (IMPORTED, IMPORTED, IMPORTED),
    ("nothing", True): (_DUPLICATE, _TWIN_UPDATED, _DUPLICATE),
    ("same", False): (UNCHANGED, UNCHANGED, UNCHANGED),
    ("fields", False): (_DUPLICATE, UPDATED, _DUPLICATE),
    ("text", False): (UPDATED, UPDATED, _RENAMED),
    ("text", True): (_DUPLICATE, UPDATED, _DUPLICATE),
    ("newer", False): (_BEHIND, UPDATED, _RENAMED),
    ("newer", True): (_DUPLICATE, UPDATED, _DUPLICATE),
    ("superseded", False): (_SUPERSEDED, _SUPERSEDED, _SUPERSEDED),
    ("withdrawn", False): (_WITHDRAWN, _WITHDRAWN, _WITHDRAWN),
}
"""By what is stored under the id, and whether the same text is current under another."""
NEWEST: Final[dict[Own, Decision]] = {
    "nothing": INSERTED,
    "same": UNCHANGED,
    "older": UPDATED,
    "text": Decision("conflict", "created_at_conflict"),
    "fields": Decision("conflict", "field_conflict"),
    "newer": Decision("conflict", "older"),
    "withdrawn": Decision("conflict", "withdrawn"),
    "protected": Decision("conflict", "dna_conflict"),
}
"""The outcome of a record of AIMEM, by what is stored under its id; another text, or other fields,
have the same ``created_at``."""


def decide(strategy: MifStrategy, own: Own, twin: bool = False) -> Decision:
    """Decide the outcome of a record of MIF that was checked."""
    row = _TABLE.get((own, twin)) or _TABLE[own, False]
    return row[STRATEGIES.index(strategy)]


def strategy_of(name: str) -> MifStrategy:
    for known in STRATEGIES:
        if known == name:
            return known
    raise SchemaError(
        "not a way to merge", field="/merge_strategy", expected=", ".join(STRATEGIES)
    )


# -- the report of an import of MIF ---------------------------------------------------------------


_ALWAYS: Final = ("memory", "entity", "relationship")
_TAKEN: Final[tuple[Fate, ...]] = ("imported", "renamed")
_IF_ANY: Final[tuple[Fate, ...]] = ("updated", "older")
_LEFT: Final[tuple[Fate, ...]] = ("refused", "erased")


class RecordReport(NamedTuple):
    pointer: str  # its place in the document, a JSON pointer
    id: str | None  # its id; None if it is invalid and the id could not be read
    kind: str
    fate: Fate
    reason: Reason | None = None  # why it was not stored as it came
    code: str | None = None  # the error code, if the store refused it; the rule, if it is invalid
    new_id: str | None = None  # the id under which it is stored, if that is another one
    problem: Problem | None = None  # the first problem of an invalid record, and its place

    def to_dict(self) -> dict[str, Any]:
        told = {name: value for name, value in self._asdict().items() if value is not None}
        told.pop("problem", None)
        return told if self.reason is None else told | {"message": REASONS[self.reason]}


@dataclass(frozen=True, slots=True)
class MifReport:
    format: str  # ``mif2``, ``mif1`` or ``mif-ld``
    merge_strategy: str
    stored: bool  # whether anything was stored: not after a dry run, nor after a failure
    records: tuple[RecordReport, ...]  # all records, in the order of the document
    problems: tuple[Problem, ...] = ()  # what is wrong with the invalid ones
    # what was accepted although it looks wrong, and what could not be kept
    warnings: tuple[Problem, ...] = ()
    failed: bool = False  # whether a record that could not be imported stopped an atomic import

    __repr__ = counted

    @property
    def errors(self) -> tuple[RecordReport, ...]:
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
            for fate in _IF_ANY:
                if number := self.count(fate, kind=kind):
                    told[f"{name}_{fate}"] = number
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


# -- the report of an import of AIMEM. Spec: AIMEM §3.2 -------------------------------------------


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
    """A record that was not imported."""

    kind: Kind
    id: str  # its URN; of an edge or a link, what it joins
    decision: Decision
    code: str | None = None  # the error code, if the store refused it

    def to_dict(self) -> dict[str, Any]:
        reason = self.decision.reason
        found: dict[str, Any] = {"id": self.id, "kind": self.kind, "reason": reason}
        if reason is not None:
            found["message"] = REASONS[reason]
        if self.decision.fields:
            found["fields"] = list(self.decision.fields)
        return found if self.code is None else found | {"code": self.code}


@dataclass(slots=True)
class ImportSummary:
    """The report of an import of a bundle."""

    # how many records of each kind had which outcome
    counts: Counter[tuple[Kind, Fate]] = field(default_factory=Counter)
    # the first ten thousand records that were not imported
    conflicts: list[Conflict] = field(default_factory=list)
    # what was accepted although it looks wrong, and what could not be kept
    warnings: tuple[Problem, ...] = ()

    __repr__ = counted

    def add(self, kind: Kind, name: str, decision: Decision, code: str | None = None) -> None:
        """Count one record."""
        self.counts[kind, decision.fate] += 1
        if decision.fate == "conflict" and len(self.conflicts) < MOST:
            self.conflicts.append(Conflict(kind, name, decision, code))

    def count(self, kind: Kind, fate: Fate) -> int:
        return self.counts[kind, fate]

    @property
    def total_conflicts(self) -> int:
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
