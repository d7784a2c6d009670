# SPDX-License-Identifier: Apache-2.0
"""A document: read, checked, taken apart and put together. Spec: MIF 1.0 §2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from omsgrain.formats.arrays import fill, lift
from omsgrain.formats.listed import Item
from omsgrain.formats.mif1 import checksum, layouts
from omsgrain.formats.mif1.check import Checker
from omsgrain.formats.mif1.fields import ARRAYS, CONSENT, Layout
from omsgrain.formats.mif1.limits import LIMITS, Limits
from omsgrain.formats.mif1.rules import RULES, WARNINGS
from omsgrain.formats.problems import FIRSTS, MOST, DocumentError, Problem, Verdict

__all__ = ["Document", "Verdict", "apart", "read", "together", "validate", "write"]

_CONSENT: Final = CONSENT.removeprefix("/")


@dataclass(slots=True)
class Document:
    """A document that was found good, or is to be written.

    Attributes:
        envelope: the document with its arrays of records, and its consent, emptied.
        records: what stood in each array, by its pointer, in order; what was bad is left out.
        layout: how it was laid out.
        problems: what is wrong with records that were left out.
        warnings: what was taken although it looks wrong.
        left_out: how many records were left out.
    """

    envelope: dict[str, Any]
    records: dict[str, list[Item]] = field(default_factory=dict)
    layout: Layout = "json"
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    left_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The whole document."""
        arrays = {at: [item.value for item in items] for at, items in self.records.items()}
        return together(self.envelope, arrays)


def validate(data: bytes, limits: Limits = LIMITS, *, layout: Layout | None = None) -> Verdict:
    """Say all that is wrong with a document; never raises for what the bytes are."""
    try:
        parsed = layouts.parse(data, layout, limits)
    except DocumentError as error:
        return Verdict(error.problems, (), (), error.total)
    checker = Checker()
    found = _checked(parsed, checker)
    faults = tuple(checker.faults.found)
    total = checker.faults.total + checker.problems.total + parsed.left_out
    return Verdict(faults, found.problems[:MOST], found.warnings, total, parsed.document)


def read(data: bytes, limits: Limits = LIMITS, *, layout: Layout | None = None) -> Document:
    """Read a document; a bad record of it is left out and told.

    Raises:
        DocumentError: it is none, or what stands around its records breaks a rule.
    """
    checker = Checker(FIRSTS)
    found = _checked(layouts.parse(data, layout, limits), checker)
    checker.refuse()
    return found


def write(document: Document, layout: Layout | None = None) -> bytes:
    """Write a document, in UTF-8, as it stands: a checksum that was read is kept."""
    return layouts.spell(document.to_dict(), layout or document.layout)


def apart(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Take the records out of a document; the other way of `together`."""
    envelope, arrays = lift(document, ARRAYS)
    consent = document.get(_CONSENT)
    if isinstance(consent, dict):
        envelope = {**envelope, _CONSENT: {}}
        arrays[CONSENT] = [consent]
    return envelope, arrays


def together(envelope: dict[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Put the records back into a document; keys keep their order.

    Raises:
        FormatError: the envelope has no place for them.
    """
    inner = {pointer: array for pointer, array in arrays.items() if pointer != CONSENT}
    document = fill(envelope, inner)
    if consent := arrays.get(CONSENT):
        document = {**document, _CONSENT: consent[0]}
    return document


def _checked(parsed: layouts.Parsed, checker: Checker) -> Document:
    document = parsed.document
    checker.document(document, 1 if parsed.layout == "jsonl" else None)
    if checker.faults or not isinstance(document, dict):
        return Document({}, {}, parsed.layout)
    envelope, arrays = apart(document)
    found = Document(envelope, {}, parsed.layout, left_out=parsed.left_out)
    for pointer, array in arrays.items():
        if pointer == CONSENT:
            found.records[pointer] = [Item("consent", array[0])]
            continue
        kind, items = ARRAYS[pointer], []
        for i, record in enumerate(array):
            line = parsed.line(pointer, i)
            if not checker.record(kind, record, f"{pointer}/{i}", line):
                found.left_out += 1
                continue
            of = checker.first_with(record, f"{pointer}/{i}") if kind == "memory" else None
            items.append(Item(kind, record, of))
        found.records[pointer] = items
    for pointer, items in found.records.items():
        taken = {id(one.value) for one in items}
        for i, record in enumerate(arrays[pointer]):
            if id(record) in taken:
                checker.refers(items[0].kind, record, f"{pointer}/{i}")
    if not parsed.left_out:
        checker.counts(document)
    verdict = checksum.verify_checksum(document)
    if checksum.own(document) and verdict != "matched-jcs" and not parsed.left_out:
        says = RULES["checksum_mismatch"].says
        checker.faults.add(Problem("checksum_mismatch", "/export/checksum", says))
    elif verdict == "unknown":
        says = WARNINGS["unknown_checksum"].says
        checker.warnings.add(Problem("unknown_checksum", "/export/checksum", says))
    found.problems = (*parsed.problems, *checker.problems.found)
    found.warnings = (*parsed.warnings, *checker.warnings.found)
    return found
