# SPDX-License-Identifier: Apache-2.0
"""A document of either version as bytes, in the layout that was asked for."""

from __future__ import annotations

from typing import Any, Literal, cast

from omsgrain.formats.exact import spell as spell_json

__all__ = ["spell"]


def spell(document: dict[str, Any], format: str, layout: str) -> bytes:
    """Write a document, in UTF-8.

    Args:
        document: the whole of it.
        format: its name.
        layout: ``json``; of MIF 1.0 also ``yaml`` and ``jsonl``.
    """
    if format != "mif1" or layout == "json":
        return spell_json(document)
    from omsgrain.formats.mif1 import layouts

    return layouts.spell(document, cast(Literal["yaml", "jsonl"], layout))
