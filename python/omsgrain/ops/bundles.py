# SPDX-License-Identifier: Apache-2.0
"""Bundles in files, and what is wrong with them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from omsgrain.errors import FormatError, OmsError, UnsupportedError
from omsgrain.formats.aimem import document
from omsgrain.formats.aimem.fields import ARRAYS, LIMITS
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.sniff import sniff_file

if TYPE_CHECKING:
    from omsgrain.formats.aimem.document import Bundle
    from omsgrain.formats.sniff import Sniffed

SUFFIXES = (".aimem.json", ".aimem.ndjson")
"""How bundles are called, in one document and by lines."""


@dataclass(frozen=True, slots=True)
class DocumentFindings:
    """What was found of a bundle, or of a document of another format.

    Attributes:
        name: of the file.
        records: how many there are of each kind, by the name of its array.
        problems: what is wrong with it, at most a thousand; empty if it is good.
        total: how many problems there are.
        warnings: what is taken although it looks wrong.
        format: what it is.
    """

    name: str
    records: dict[str, int]
    problems: tuple[Problem, ...] = ()
    total: int = 0
    warnings: tuple[Problem, ...] = ()
    format: str = "aimem"

    @property
    def errors(self) -> list[OmsError]:
        """All that is wrong, as errors."""
        return [_error(one) for one in self.problems]

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON-ready values; what is wrong with it stands elsewhere."""
        warnings = [one.to_dict() for one in self.warnings]
        return {"name": self.name, "format": self.format, "records": self.records, "problems":
                self.total, "warnings": warnings}  # fmt: skip


def _error(found: Problem) -> FormatError:
    return FormatError(
        found.message,
        field=found.pointer or None,
        line=found.line,
        expected=found.expected,
        found=found.found,
        rule=found.rule,
    )


def sniffed(file: Path) -> Sniffed | None:
    """Say what a file is; None if it is nothing that is known, or not there."""
    with suppress(UnsupportedError, FileNotFoundError, IsADirectoryError):
        return sniff_file(file)
    return None


def is_bundle(file: Path, *, by_name: bool = False) -> bool:
    """Whether a file is a bundle, good or bad."""
    found = sniffed(file)
    if found is None:
        return by_name and file.name.endswith(SUFFIXES)
    return found.format == "aimem"


def read_bundle(source: IO[bytes]) -> Bundle:
    """Read a bundle in one document."""
    return document.read_bundle(_whole(source))


def _whole(source: IO[bytes]) -> bytes:
    source.seek(0)
    return source.read(LIMITS.document + 1)  # one more, so that it is refused


def verify_bundle(file: Path) -> DocumentFindings:
    """Say all that is wrong with a bundle; its signature is not looked at."""
    lines = sniff_file(file).lines
    with file.open("rb") as source:
        return _scanned(str(file), source) if lines else _validated(str(file), source)


def _validated(name: str, source: IO[bytes]) -> DocumentFindings:
    verdict = document.validate(_whole(source))
    whole = verdict.document or {}
    arrays = {array: whole.get(array) for array in ARRAYS}
    counts = {array: len(a) if isinstance(a, list) else 0 for array, a in arrays.items()}
    return DocumentFindings(name, counts, verdict.problems, verdict.total, verdict.warnings)


def _scanned(name: str, source: IO[bytes]) -> DocumentFindings:
    try:
        scanned = document.scan(source)
    except DocumentError as error:
        return DocumentFindings(name, dict.fromkeys(ARRAYS, 0), error.problems, error.total)
    counts = {array: scanned.counts[kind] for array, kind in ARRAYS.items()}
    return DocumentFindings(name, counts, warnings=scanned.warnings)
