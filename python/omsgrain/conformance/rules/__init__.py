# SPDX-License-Identifier: Apache-2.0
"""The rules, a table for each part of a specification."""

from __future__ import annotations

from typing import Final

from omsgrain.conformance.rule import Rule
from omsgrain.conformance.rules import oms_fields, oms_reading, oms_writing

__all__ = ["RULES"]

_TABLES = (oms_reading, oms_writing, oms_fields)
RULES: Final[tuple[Rule, ...]] = tuple(
    sorted((rule for table in _TABLES for rule in table.RULES), key=lambda r: (r.spec, r.level))
)
