# SPDX-License-Identifier: Apache-2.0
"""Documents in files: count their records, and find what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from omsgrain.errors import FormatError, OmsError
from omsgrain.formats.aimem import document as bundles
from omsgrain.formats.aimem.fields import ARRAYS, LIMITS
from omsgrain.formats.mif1 import document as mif1
from omsgrain.formats.mif1.check import ARRAYS as MIF1_ARRAYS
from omsgrain.formats.mif1.check import EXTENSIONS
from omsgrain.formats.mif1.check import LIMITS as MIF_LIMITS
from omsgrain.formats.mif1.envelope import open_document
from omsgrain.formats.mif2 import document as mif2
from omsgrain.formats.mif2.check import ARRAYS as MIF2_ARRAYS
from omsgrain.formats.mif_ld import document as layouts
from omsgrain.formats.mif_ld.corpus import layout_of_file, shape_of_name
from omsgrain.formats.mif_ld.document import SUFFIXES as LD_SUFFIXES
from omsgrain.formats.problems import MOST, DocumentError, Problem
from omsgrain.formats.table import sniff_file

if TYPE_CHECKING:
    from omsgrain.formats.aimem.document import Bundle

BUNDLE_SUFFIXES: Final = (".aimem.json", ".aimem.ndjson")
"""The names of bundles end so: in one document, and by lines."""
SUFFIXES: Final = (
    *BUNDLE_SUFFIXES, *EXTENSIONS.values(), *(one for one in LD_SUFFIXES if one != ".md")
)  # fmt: skip
"""The names of documents end so."""
_ARRAYS: Final[dict[str, Mapping[str, str]]] = {"mif1": MIF1_ARRAYS, "mif2": MIF2_ARRAYS}


@dataclass(frozen=True, slots=True)
class DocumentFindings:
    """The records and the defects of a document.

    Attributes:
        name: of the file.
        records: their number, by the name of their array.
        problems: its defects, at most a thousand.
        total: the number of defects.
        warnings: what looks wrong and is accepted.
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
        """The defects as errors."""
        return [_error(one) for one in self.problems]

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON-ready values, without its defects."""
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


def read_bundle(source: IO[bytes]) -> Bundle:
    """Read a bundle in one document."""
    return bundles.read_bundle(_whole(source))


def _whole(source: IO[bytes]) -> bytes:
    source.seek(0)
    return source.read(LIMITS.document + 1)  # one more, so that it is refused


def check_document(file: Path, format: str, passphrase: str | None = None) -> DocumentFindings:
    """Find all defects of a document; its signature is not looked at."""
    if format == "aimem":
        return _bundle(file)
    with file.open("rb") as source:
        data = source.read(MIF_LIMITS.document + 1)  # one more, so that it is refused
    if format == "mif-ld":
        return _memories(data, file)
    verdict = _verdict(data, format, passphrase)
    problems = (*verdict.faults, *verdict.problems)
    records = _counts(verdict.document, format)
    return DocumentFindings(
        str(file), records, problems, verdict.total, verdict.warnings, format=format
    )


def _bundle(file: Path) -> DocumentFindings:
    lines = sniff_file(file).lines
    with file.open("rb") as source:
        return _scanned(str(file), source) if lines else _validated(str(file), source)


def _validated(name: str, source: IO[bytes]) -> DocumentFindings:
    verdict = bundles.validate(_whole(source))
    whole = verdict.document or {}
    arrays = {array: whole.get(array) for array in ARRAYS}
    counts = {array: len(a) if isinstance(a, list) else 0 for array, a in arrays.items()}
    return DocumentFindings(name, counts, verdict.problems, verdict.total, verdict.warnings)


def _scanned(name: str, source: IO[bytes]) -> DocumentFindings:
    try:
        scanned = bundles.scan(source)
    except DocumentError as error:
        return DocumentFindings(name, dict.fromkeys(ARRAYS, 0), error.problems, error.total)
    counts = {array: scanned.counts[kind] for array, kind in ARRAYS.items()}
    return DocumentFindings(name, counts, warnings=scanned.warnings)


def _memories(data: bytes, file: Path) -> DocumentFindings:
    sheet = layouts.read_file(
        data, layout_of_file(file.name, data), shape=shape_of_name(file.name)
    )
    found = layouts.taken(sheet, mode="extra")
    records = {"memories": len(found.values)}
    total, warnings = len(found.problems), (*found.warnings, *layouts.in_order([found]))
    return DocumentFindings(
        str(file), records, found.problems[:MOST], total, warnings[:MOST], format="mif-ld"
    )


def _verdict(data: bytes, format: str, passphrase: str | None) -> Any:
    if format == "mif2":
        return mif2.validate(data)
    return mif1.validate(data if passphrase is None else open_document(data, passphrase))


def _counts(document: Any, format: str) -> dict[str, int]:
    """How many records there are in each array that is there."""
    counts = {}
    for pointer in _ARRAYS[format]:
        value = document
        for name in pointer.split("/")[1:]:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, list):
            counts[name] = len(value)
    return counts
