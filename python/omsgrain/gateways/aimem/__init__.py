# SPDX-License-Identifier: Apache-2.0
"""AIMEM bundles into a store, and out of it: a tenant is a ``user_id``. Spec: AIMEM §3, §5."""

from __future__ import annotations

from omsgrain.gateways.aimem.asking import Asked, ExportReport
from omsgrain.gateways.aimem.erasing import erase_tenant
from omsgrain.gateways.aimem.exporting import Export, export_bundle
from omsgrain.gateways.aimem.importing import import_bundle
from omsgrain.gateways.aimem.report import Conflict, ImportSummary
from omsgrain.gateways.aimem.streaming import export_stream

__all__ = [
    "Asked",
    "Conflict",
    "Export",
    "ExportReport",
    "ImportSummary",
    "erase_tenant",
    "export_bundle",
    "export_stream",
    "import_bundle",
]
