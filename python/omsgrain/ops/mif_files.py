# SPDX-License-Identifier: Apache-2.0
"""MIF documents in files: what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from omsgrain.formats.mif1.check import ARRAYS as MIF1_ARRAYS
from omsgrain.formats.mif1.check import EXTENSIONS, LIMITS
from omsgrain.formats.mif2.check import ARRAYS as MIF2_ARRAYS
from omsgrain.formats.mif_ld.corpus import SUFFIXES as LD_SUFFIXES
from omsgrain.formats.mif_ld.corpus import layout_of_file, shape_of_name
from omsgrain.formats.problems import MOST
from omsgrain.ops.bundles import DocumentFindings

FORMATS: Final = ("mif1", "mif2", "mif-ld")
SUFFIXES: Final = (*EXTENSIONS.values(), *(one for one in LD_SUFFIXES if one != ".md"))
"""How the files are called."""
_ARRAYS: Final[dict[str, Mapping[str, str]]] = {"mif1": MIF1_ARRAYS, "mif2": MIF2_ARRAYS}


def verify_mif(file: Path, format: str, passphrase: str | None = None) -> DocumentFindings:
    """Say all that is wrong with a document, around its records and in them."""
    with file.open("rb") as source:
        data = source.read(LIMITS.document + 1)  # one more, so that it is refused
    if format == "mif-ld":
        return _memories(data, file)
    verdict = _verdict(data, format, passphrase)
    problems = (*verdict.faults, *verdict.problems)
    records = _counts(verdict.document, format)
    return DocumentFindings(
        str(file), records, problems, verdict.total, verdict.warnings, format=format
    )


def _memories(data: bytes, file: Path) -> DocumentFindings:
    """What is wrong with memories of MIF in JSON-LD."""
    from omsgrain.formats.mif_ld import document as layouts
    from omsgrain.formats.mif_ld.document import in_order, taken

    sheet = layouts.read_file(
        data, layout_of_file(file.name, data), shape=shape_of_name(file.name)
    )
    found = taken(sheet, mode="extra")
    records = {"memories": len(found.values)}
    total, warnings = len(found.problems), (*found.warnings, *in_order([found]))
    return DocumentFindings(str(file), records, found.problems[:MOST], total, warnings[:MOST],
                    format="mif-ld")  # fmt: skip


def _verdict(data: bytes, format: str, passphrase: str | None) -> Any:
    if format == "mif2":
        from omsgrain.formats.mif2 import document as mif2

        return mif2.validate(data)
    from omsgrain.formats.mif1 import document as mif1
    from omsgrain.formats.mif1.envelope import open_document

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
