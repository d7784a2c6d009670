# SPDX-License-Identifier: Apache-2.0
"""The rules, a table for each part of a specification."""

from __future__ import annotations

from typing import Final

from omsgrain.conformance.rule import SPECS, Rule
from omsgrain.conformance.rules import (
    aimem_bundle,
    aimem_checksum,
    aimem_export,
    aimem_http,
    aimem_store,
    mif1,
    mif1_layouts,
    mif1_store,
    mif2,
    mif2_store,
    mif_ld,
    mif_ld_full,
    mif_ld_ontology,
    mif_ld_whole,
    oms_audit,
    oms_containers,
    oms_fields,
    oms_goals,
    oms_policy,
    oms_production,
    oms_queries,
    oms_reach,
    oms_reading,
    oms_rights,
    oms_sealing,
    oms_signing,
    oms_store,
    oms_types,
    oms_writing,
)

__all__ = ["RULES"]

_TABLES: Final = (
    oms_reading,
    oms_writing,
    oms_types,
    oms_fields,
    oms_signing,
    oms_sealing,
    oms_containers,
    oms_store,
    oms_queries,
    oms_policy,
    oms_reach,
    oms_goals,
    oms_production,
    oms_audit,
    oms_rights,
    aimem_bundle,
    aimem_checksum,
    aimem_export,
    aimem_store,
    aimem_http,
    mif2,
    mif2_store,
    mif1,
    mif1_layouts,
    mif1_store,
    mif_ld,
    mif_ld_full,
    mif_ld_ontology,
    mif_ld_whole,
)
RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (rule for table in _TABLES for rule in table.RULES),
        key=lambda rule: (list(SPECS).index(rule.spec), rule.level),
    )
)
"""All of them, by specification and level."""
