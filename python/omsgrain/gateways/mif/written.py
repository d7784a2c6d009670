# SPDX-License-Identifier: Apache-2.0
"""A document of either version as bytes, in the layout that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omsgrain.formats.texts import pieces, whole

__all__ = ["spell"]


def spell(document: dict[str, Any], format: str, layout: str) -> Iterator[bytes]:
    """Write a document, in UTF-8, by pieces.

    Args:
        document: the whole of it; its arrays of records may be `Texts`.
        format: its name.
        layout: ``json``; of MIF 1.0 also ``yaml`` and ``jsonl``.
    """
    if format != "mif1" or layout == "json":
        return pieces(document)
    from omsgrain.formats.mif1 import layouts

    if layout == "jsonl":
        return layouts.spell_lines(document)
    return iter((layouts.spell(whole(document), "yaml"),))
