# SPDX-License-Identifier: Apache-2.0
"""What is told of a document: each defect, its place and its mending; all of them as a verdict."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from omsgrain.formats.mif_ld.codes import CODES
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.reading import kind_of, shown_key

__all__ = ["SHOWN", "Finding", "Verdict", "Way", "finding", "place_of", "pointer_to"]

SHOWN: Final = 60
"""Characters of a value that are shown."""
Way = tuple[str | int, ...]
"""The keys that lead to a place, from the document on."""


@dataclass(frozen=True, slots=True)
class Finding(Problem):
    """A problem, and how it is mended.

    Attributes:
        hint: what to do.
        severity: ``error`` or ``warning``.
        value: what stands there, cut; content, so only for whoever owns the document. It is not in
            `to_dict`, nor in the text of the object.
    """

    hint: str = ""
    severity: str = "error"
    value: str | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON-ready values, without the value that was found."""
        return {**Problem.to_dict(self), "hint": self.hint, "severity": self.severity}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in a document.

    Attributes:
        findings: the errors, by place; at most a thousand.
        warnings: what is taken, and told; at most a thousand.
        total: how many errors there are.
        dropped: in mode lenient, errors of citations that are left out; the memory stands.
    """

    findings: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    total: int = 0
    dropped: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the document can be taken."""
        return self.total == 0

    def raise_any(self) -> None:
        """Refuse the document if there is an error.

        Raises:
            DocumentError: with all of them.
        """
        if self.findings:
            raise DocumentError(list(self.findings), self.total)


def finding(
    code: str,
    way: Way,
    says: str,
    value: Any,
    hint: str | None = None,
    *,
    severity: str = "error",
) -> Finding:
    """One finding.

    Args:
        code: one of the table.
        way: where.
        says: what is to be said of what stands there.
        value: that; None if there is nothing to show.
        hint: how it is mended; by default as the table has it.
        severity: ``error`` or ``warning``.
    """
    shown = [key if isinstance(key, int) else shown_key(key) for key in way]
    return Finding(
        code,
        pointer_to(shown),
        f"{_name(shown)} {says}",
        found=None if value is None else kind_of(value),
        hint=CODES[code].hint if hint is None else hint,
        severity=severity,
        value=None if value is None else _shown(value),
    )


def pointer_to(way: Sequence[str | int]) -> str:
    """The JSON pointer of a way of keys."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in way)


def place_of(problem: Problem) -> tuple[int, list[tuple[int, str]], str, str]:
    """Where a problem stands among others: numbers come as numbers do."""
    keys = [(len(key) if key.isdecimal() else 0, key) for key in problem.pointer.split("/")]
    return problem.line or 0, keys, problem.rule, problem.message


def _name(way: Sequence[str | int]) -> str:
    """What a person calls the place."""
    if not way:
        return "document"
    if isinstance(way[-1], int) and len(way) > 1:
        return f"{way[-2]}/{way[-1]}"
    return str(way[-1])


class _Short(reprlib.Repr):
    """Shows little of large values, and takes no time for it."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = SHOWN
        self.maxlong = SHOWN


_REPR: Final = _Short()


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{kind_of(value)} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 4 * SHOWN:
        return kind_of(value)  # Python refuses to spell the largest ones
    return _REPR.repr(value)[:SHOWN]
