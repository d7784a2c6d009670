# SPDX-License-Identifier: Apache-2.0
"""The defects of a document: all of them, each with its rule and its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omsgrain.errors import FormatError, OmsError

MOST = 1_000
"""Problems that are kept; the rest are counted, or a hostile document would fill the memory."""
FIRSTS = 100_000
"""Bad records that are reported, each with one problem; a document with more is refused."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect, or one warning.

    Attributes:
        rule: the format's own id of the rule, such as ``invalid_urn``.
        pointer: where, as a JSON pointer; empty for the whole document.
        message: one sentence, without content of the document.
        expected: what would have been right.
        found: what was there instead: a kind, a size, never content.
        line: of the input, counted from 1, if it came by lines.
    """

    rule: str
    pointer: str
    message: str
    expected: str | None = None
    found: str | None = None
    line: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The problem as JSON-ready values; what is not known is left out."""
        names = ("rule", "pointer", "message", "expected", "found", "line")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def _of_error(self) -> dict[str, Any]:
        """The arguments of an error, besides its message."""
        values = {name: getattr(self, name) for name in ("line", "expected", "found", "rule")}
        return {"field": self.pointer or None, **values}


class DocumentError(FormatError):
    """A document breaks its format's rules. The error itself is that of the first problem.

    Attributes:
        problems: what is wrong, in the order in which the format checks; at most a thousand.
        total: how many there are.
    """

    def __init__(self, problems: list[Problem], total: int | None = None) -> None:
        super().__init__(problems[0].message, **problems[0]._of_error)
        self.problems = tuple(problems)
        self.total = len(problems) if total is None else total

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with all problems."""
        return (DocumentError, (list(self.problems), self.total))

    def to_dict(self) -> dict[str, Any]:
        """The first problem as an error, and all of them."""
        all_of_them = [problem.to_dict() for problem in self.problems]
        return {**super().to_dict(), "problems": all_of_them, "total": self.total}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The defects of a document whose bad records are left out."""

    faults: tuple[Problem, ...]  # what it is refused for, as a whole
    problems: tuple[Problem, ...]  # what is wrong with single records, which are left out
    warnings: tuple[Problem, ...]
    total: int  # faults and problems; of each only the first thousand are kept
    document: Any = None  # what was read, if it could be


@dataclass(frozen=True, slots=True)
class DocumentFindings:
    """The records and the defects of a document."""

    name: str  # of the file
    format: str
    records: dict[str, int]  # their number, by the name of their array
    problems: tuple[Problem, ...] = ()  # at most a thousand
    total: int = 0
    warnings: tuple[Problem, ...] = ()  # what looks wrong and is accepted

    @property
    def errors(self) -> list[OmsError]:
        """The defects as errors."""
        return [FormatError(one.message, **one._of_error) for one in self.problems]

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON-ready values, without its defects."""
        warnings = [one.to_dict() for one in self.warnings]
        return {"name": self.name, "format": self.format, "records": self.records, "problems":
                self.total, "warnings": warnings}  # fmt: skip
