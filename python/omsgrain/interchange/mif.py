# SPDX-License-Identifier: Apache-2.0
"""MIF documents of either version into a store, and out of it. Spec: MIF 2.0 §6, MIF 1.0 §8."""

from __future__ import annotations

from omsgrain.interchange.export import ExportReport
from omsgrain.interchange.kept import KeptDocument, documents, export_kept
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from omsgrain.interchange.outcome import STRATEGIES, MifReport, RecordReport

__all__ = [
    "STRATEGIES",
    "ExportReport",
    "KeptDocument",
    "MifReport",
    "RecordReport",
    "documents",
    "export_document",
    "export_kept",
    "import_document",
]
