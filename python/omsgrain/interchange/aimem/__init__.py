# SPDX-License-Identifier: Apache-2.0
"""AIMEM bundles into a store, and out of it: a tenant is a ``user_id``. Spec: AIMEM §3, §5."""

from __future__ import annotations

from omsgrain.interchange.aimem_erase import erase_tenant
from omsgrain.interchange.aimem_export import (
    AimemExport,
    AimemExportReport,
    BundleOptions,
    export_bundle,
    export_stream,
)
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.report import Conflict, ImportSummary

__all__ = [
    "AimemExport",
    "AimemExportReport",
    "BundleOptions",
    "Conflict",
    "ImportSummary",
    "erase_tenant",
    "export_bundle",
    "export_stream",
    "import_bundle",
]
