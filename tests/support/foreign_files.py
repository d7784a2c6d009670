# SPDX-License-Identifier: Apache-2.0
"""The files of other systems among the data of the tests, and what a store has of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import omsgrain as og
from omsgrain.formats.source import is_beside
from omsgrain.formats.table import sniff_directory, sniff_file
from omsgrain.interchange.mif_import import import_document
from omsgrain.interchange.outcome import MifReport
from omsgrain.interchange.parse import Trusted, read_document

DATA: Final = Path(__file__).parents[1] / "formats" / "foreign" / "data"
USER: Final = "ada"
FILES: Final = [
    ("okf", DATA / "okf"),
    ("letta", DATA / "letta.af"),
    ("claude-memory", DATA / "memories"),
    ("langgraph", DATA / "langgraph.sqlite"),
    ("mcp-memory", DATA / "memory.jsonl"),
    ("mem0", DATA / "mem0.json"),
]
IDS: Final = [name for name, _ in FILES]


def imported(store: og.GrainStore, path: Path, **options: Any) -> MifReport:
    """Import a file or a directory, as the command line does."""
    format = sniff_directory(path) if path.is_dir() else sniff_file(path)
    document = read_document(path, USER, Trusted(), format=format)
    return import_document(store, document, **options)


def fates(report: MifReport) -> list[str]:
    return [one.fate for one in report.records]


def texts(store: og.GrainStore) -> list[str]:
    """The texts of the current memories."""
    found = [hit.grain for hit in store.query(limit=1_000).results if not is_beside(hit.grain)]
    said = (one.get("object", one.get("content")) for one in found)
    return sorted(one for one in said if isinstance(one, str))
