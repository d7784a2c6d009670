# SPDX-License-Identifier: Apache-2.0
"""A document: read, checked, taken apart and put together. Spec: MIF 2.0 §1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from omsgrain.formats import json_text
from omsgrain.formats.checksums import Checksums, of_bytes
from omsgrain.formats.document import RecordItem, bare, fill, lift
from omsgrain.formats.json_text import spell
from omsgrain.formats.mif2.check import ARRAYS, LIMITS, RULES, Mif2Checker, Mif2Limits
from omsgrain.formats.problems import FIRSTS, DocumentError, Problem, Verdict

_COUNTED: Final = ("memories", "todos", "projects", "reminders")


def of_counts(document: Mapping[str, Any]) -> str:
    """The checksum that the reference implementation writes: of how many records there are."""
    arrays = [document.get(name) for name in _COUNTED]
    counts = (len(array) if isinstance(array, list) else 0 for array in arrays)
    return of_bytes(":".join(map(str, counts)).encode("ascii"))


CHECKSUM: Final = Checksums("export_meta", lambda document: (of_counts(document),))
"""Ours, and those of the reference implementation."""


@dataclass(slots=True)
class Mif2Document:
    """A document that was found good, or is to be written.

    Attributes:
        envelope: the document with its arrays of records emptied.
        records: what stood in each array, by its pointer, in order; what was bad is left out.
        problems: what is wrong with records that were left out.
        warnings: what was taken although it looks wrong.
    """

    envelope: dict[str, Any]
    records: dict[str, list[RecordItem]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The whole document."""
        arrays = {
            pointer: [bare(one.kind, one.value) for one in records]
            for pointer, records in self.records.items()
        }
        return fill(self.envelope, arrays)


def validate(data: bytes, limits: Mif2Limits = LIMITS) -> Verdict:
    """Say all that is wrong with a document; never raises for what the bytes are."""
    try:
        document = parsed(data, limits)
    except DocumentError as error:
        return Verdict(error.problems, (), (), error.total)
    checker = Mif2Checker()
    _apart(document, checker)
    faults, problems = checker.faults, checker.problems
    return Verdict(
        tuple(faults.found),
        tuple(problems.found),
        tuple(checker.warnings.found),
        faults.total + problems.total,
        document,
    )


def read(data: bytes, limits: Mif2Limits = LIMITS) -> Mif2Document:
    """Read a document; a bad record of it is left out and told."""
    return of_dict(parsed(data, limits))


def parsed(data: bytes, limits: Mif2Limits) -> Any:
    """A document as JSON."""
    return json_text.parse(data, most=limits.document, depth=limits.depth, values=limits.values)


def of_dict(document: Any) -> Mif2Document:
    """Take apart what was parsed."""
    checker = Mif2Checker(FIRSTS)
    found = _apart(document, checker)
    checker.refuse()
    found.problems = tuple(checker.problems.found)
    found.warnings = tuple(checker.warnings.found)
    return found


def write(document: Mif2Document) -> bytes:
    """Write a document, in UTF-8, as it stands: a checksum that was read is kept."""
    return spell(document.to_dict())


def _apart(document: Any, checker: Mif2Checker) -> Mif2Document:
    checker.document(document)
    if not isinstance(document, dict):
        return Mif2Document({})
    if CHECKSUM.own(document) and CHECKSUM.verify(document) != "matched-jcs":
        says = RULES["checksum_mismatch"].says
        checker.faults.add(Problem("checksum_mismatch", "/export_meta/checksum", says))
    envelope, arrays = lift(document, ARRAYS)
    found = Mif2Document(envelope)
    for pointer, array in arrays.items():
        kind, records = ARRAYS[pointer], []
        for i, value in enumerate(array):
            fate = checker.record(kind, value, f"{pointer}/{i}")
            if fate.taken and fate.known:
                records.append(RecordItem(kind, value, fate.of))
            elif fate.taken:
                records.append(RecordItem("other", {"value": value}))
        found.records[pointer] = records
    for pointer, array in arrays.items():
        taken = {id(one.value) for one in found.records[pointer] if one.kind != "other"}
        for i, value in enumerate(array):
            if id(value) in taken:
                checker.refers(ARRAYS[pointer], value, f"{pointer}/{i}")
    return found
