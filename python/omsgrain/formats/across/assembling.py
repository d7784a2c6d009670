# SPDX-License-Identifier: Apache-2.0
"""Records and what stands around them, put together to a document of one format."""

from __future__ import annotations

import json
from typing import Any

from omsgrain.formats.across import mif_ld
from omsgrain.formats.across.build import ARRAYS
from omsgrain.formats.across.names import AIMEM, MIF1, MIF2, MIF_LD
from omsgrain.formats.aimem import bundle
from omsgrain.formats.arrays import fill

__all__ = ["Records", "assembled", "together"]

Records = dict[str, list[dict[str, Any]]]
"""By pointer of their array."""


def assembled(
    envelope: dict[str, Any], arrays: Records, to: str, *, summed: bool
) -> dict[str, Any]:
    """A document that is made anew.

    Args:
        envelope: what stands around its records.
        arrays: the records, by pointer.
        to: its format.
        summed: of MIF: with its checksum.
    """
    if to in (AIMEM, MIF_LD):
        return together(envelope, arrays, to)
    for pointer in arrays:
        envelope = _with_room(envelope, pointer)
    if to == MIF2:
        from omsgrain.formats.mif2.checksum import current, sealed

        whole = together(envelope, arrays, to)
        return sealed(whole) if summed else current(whole)
    from omsgrain.formats.mif1 import checksum

    whole = together(_counted(envelope, arrays), arrays, to)
    return checksum.sealed(whole) if summed else checksum.current(whole)


def together(envelope: dict[str, Any], arrays: Records, to: str) -> dict[str, Any]:
    """The records of a document in their places; arguments are those of `assembled`."""
    if to == AIMEM:
        records: dict[Any, Any] = {ARRAYS[to][name]: array for name, array in arrays.items()}
        data = bundle.write(bundle.Bundle(envelope, records), arrays)
        document: dict[str, Any] = json.loads(data)
        return document
    if to == MIF2:
        return fill(envelope, arrays)
    if to == MIF_LD:
        return mif_ld.tree(envelope, arrays)
    from omsgrain.formats.mif1.document import together as together1

    return together1(envelope, arrays)


def _with_room(envelope: dict[str, Any], pointer: str) -> dict[str, Any]:
    """The envelope with a place for an array."""
    *way, last = pointer.split("/")[1:]
    if not way:
        return envelope if last in envelope else envelope | {last: []}
    inner = envelope.get(way[0]) or {}
    return envelope | {way[0]: inner if last in inner else inner | {last: []}}


def _counted(envelope: dict[str, Any], arrays: Records) -> dict[str, Any]:
    """What a document of MIF 1.0 says of itself, counted anew."""
    from omsgrain.formats.mif1.metadata import Metadata

    counted = Metadata()
    for pointer, array in arrays.items():
        for record in array:
            counted.add(ARRAYS[MIF1][pointer], record)
    metadata = counted.metadata() | {"privacy": envelope["metadata"].get("privacy")}
    if metadata["privacy"] is None:
        del metadata["privacy"]
    if "graph" in envelope:
        envelope = envelope | {"graph": envelope["graph"] | counted.graph()}
    return envelope | {"metadata": metadata}
