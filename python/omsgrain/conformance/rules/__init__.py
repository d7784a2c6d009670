# SPDX-License-Identifier: Apache-2.0
"""The rules, a table for each part of a specification."""

from __future__ import annotations

from typing import Final

from omsgrain.conformance.rule import Rule
from omsgrain.conformance.rules import (
    aimem_bundle,
    aimem_store,
    mif1,
    mif1_store,
    mif2,
    mif_ld,
    mif_ld_full,
    mif_ld_whole,
    oms_containers,
    oms_fields,
    oms_goals,
    oms_policy,
    oms_production,
    oms_reading,
    oms_sealing,
    oms_signing,
    oms_store,
    oms_writing,
)

__all__ = ["RULES"]

_TABLES = (oms_reading, oms_writing, oms_fields, oms_signing, oms_sealing,
           oms_containers, oms_store, oms_policy, oms_goals,
           oms_production, aimem_bundle, aimem_store,
           mif2, mif1, mif1_store, mif_ld, mif_ld_full,
           mif_ld_whole)  # fmt: skip
RULES: Final[tuple[Rule, ...]] = tuple(
    sorted((rule for table in _TABLES for rule in table.RULES), key=lambda r: (r.spec, r.level))
)
