# SPDX-License-Identifier: Apache-2.0
"""A bundle in one JSON document. Spec: AIMEM §2."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from omsgrain.formats.aimem import checksum
from omsgrain.formats.aimem.check import CHECKSUM, Checker
from omsgrain.formats.aimem.fields import ARRAYS, ENVELOPE, FORMAT, Kind
from omsgrain.formats.aimem.limits import LIMITS, Limits
from omsgrain.formats.aimem.rules import RULES
from omsgrain.formats.exact import spell
from omsgrain.formats.problems import DocumentError, Problem, Problems
from omsgrain.formats.reading import kind_of, parse_canonical

__all__ = ["Bundle", "Verdict", "is_other", "problem", "read", "validate", "write"]


@dataclass(slots=True)
class Bundle:
    """A bundle that was found good, or is to be written.

    Attributes:
        envelope: its members but for the four arrays.
        records: the records of each kind, in their order.
        warnings: what was taken although it looks wrong.
    """

    envelope: dict[str, Any]
    records: dict[Kind, list[dict[str, Any]]] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The whole document, with an array for every kind of record."""
        return self.envelope | {name: self.records.get(kind, []) for name, kind in ARRAYS.items()}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a document; the first problem is what it is refused for.

    Attributes:
        problems: the first thousand, envelope before checksum before records.
        warnings: what is taken, and told.
        total: how many problems were found: the check ends at a thousand.
        document: what was read, if it was JSON.
    """

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    total: int
    document: dict[str, Any] | None = None


def _nothing() -> None:
    """Nobody stops it."""


def validate(
    data: bytes, limits: Limits = LIMITS, *, alive: Callable[[], None] = _nothing
) -> Verdict:
    """Say all that is wrong with a bundle; never raises for what the bytes are.

    Args:
        data: the bundle.
        limits: how large it may be.
        alive: called before each record; what it raises ends the check.
    """
    found = Problems()
    try:
        document, total = _parse(data, limits, alive)
    except DocumentError as error:
        return Verdict(error.problems, (), error.total)
    checker = Checker(limits)
    checker.envelope(document)
    arrays = {}
    for name, kind in ARRAYS.items():
        array = document.get(name, [])
        if isinstance(array, list):
            arrays[kind] = array
        else:
            checker.faults.add(problem("invalid_type", f"/{name}", "an array", kind_of(array)))
    found.extend(checker.faults)
    if is_other(document.get(checksum.MEMBER), total):
        found.add(problem("checksum_mismatch", f"/{checksum.MEMBER}"))
    # Edges and links last, when all that they can name was seen.
    for name, kind in sorted(ARRAYS.items(), key=lambda item: item[1] not in ("chunk", "entity")):
        for i, record in enumerate(arrays.get(kind, ())):
            alive()
            if checker.is_full:
                break
            checker.record(kind, record, f"/{name}/{i}")
    found.extend(checker.problems)
    return Verdict(tuple(found.found), tuple(checker.warnings.found), found.total, document)


def read(data: bytes, limits: Limits = LIMITS, *, alive: Callable[[], None] = _nothing) -> Bundle:
    """Read a bundle.

    Args:
        data: the bundle.
        limits: how large it may be.
        alive: called before each record; what it raises ends the check.

    Raises:
        DocumentError: it breaks a rule; ``problems`` has all that is wrong.
    """
    verdict = validate(data, limits, alive=alive)
    if verdict.document is None or verdict.problems:
        raise DocumentError(list(verdict.problems), verdict.total)
    envelope = {name: value for name, value in verdict.document.items() if name not in ARRAYS}
    records = {
        kind: verdict.document[name] for name, kind in ARRAYS.items() if name in verdict.document
    }
    return Bundle(envelope, records, verdict.warnings)


def write(bundle: Bundle, arrays: Collection[str] = tuple(ARRAYS)) -> bytes:
    """Write a bundle, in UTF-8; the checksum is made anew, and the format has today's name.

    Args:
        bundle: what it holds.
        arrays: which arrays are written; one that is not was not there either.
    """
    whole = bundle.to_dict() | {"format": FORMAT}
    left_out = {checksum.MEMBER, *ARRAYS} - set(arrays)
    document = {name: value for name, value in whole.items() if name not in left_out}
    document = document | {checksum.MEMBER: checksum.of_document(spell(document))}
    first = [field.name for field in ENVELOPE if field.name in document]
    order = [*first, *(name for name in document if name not in first)]
    return spell({name: document[name] for name in order})


def problem(
    rule: str,
    pointer: str,
    expected: str | None = None,
    found: str | None = None,
    line: int | None = None,
) -> Problem:
    """A breach of one of the rules."""
    return Problem(rule, pointer, RULES[rule].says, expected, found, line)


def is_other(given: Any, total: str) -> bool:
    """Whether a checksum is one, and not this. What is none is a fault of the envelope."""
    return isinstance(given, str) and given.startswith(CHECKSUM) and given != total


def _parse(data: bytes, limits: Limits, alive: Callable[[], None]) -> tuple[dict[str, Any], str]:
    """The document and its checksum.

    Raises:
        DocumentError: it is none.
    """
    document, canonical = parse_canonical(
        data,
        most=limits.document,
        depth=limits.depth,
        without=checksum.MEMBER,
        values=limits.values,
        alive=alive,
    )
    if not isinstance(document, dict):
        raise DocumentError([problem("not_object", "", "an object", kind_of(document))])
    return document, checksum.of_canonical(canonical)
