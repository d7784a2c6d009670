# SPDX-License-Identifier: Apache-2.0
"""Grains that go along whole in a document of another format, and are taken back from it.

Where a record can have members of its own, the grain that it was made of goes along in it; all
others, and in MIF 2.0 every one, stand beside the records, by their addresses.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from omsgrain.errors import OmsError
from omsgrain.formats.across import aimem, mif2
from omsgrain.formats.across.build import Made
from omsgrain.formats.across.gather import Heap
from omsgrain.formats.across.names import MIF2
from omsgrain.grain import Grain

__all__ = ["carried", "load_up"]

MEMBER: Final = aimem.CARRIED
_GRAINS: Final = "grains"
_VENDORS: Final = "vendor_extensions"


def load_up(made: Made, heap: Heap, to: str) -> None:
    """Put the grains into a document that was made of them.

    Args:
        made: the document.
        heap: the grains; what is of the document's own format needs not go along.
        to: its format.
    """
    own = {one.address for one in heap.records.get(to, ())}
    left = dict.fromkeys(address for address in heap.grains if address not in own)
    if to != MIF2:
        for array in made.arrays.values():
            for record, address in array:
                if address in left:
                    blob = _text(heap.grains[address])
                    record[MEMBER] = {"address": address, "blob": blob}
                    del left[address]
        if left:
            made.envelope[MEMBER] = {_GRAINS: {one: _text(heap.grains[one]) for one in left}}
        return
    if not left:
        return
    vendors = made.envelope.setdefault(_VENDORS, {})
    place = vendors.setdefault(mif2.CARRIED, {})
    place[_GRAINS] = {address: _text(heap.grains[address]) for address in left}


def carried(envelope: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> list[Grain]:
    """The grains that went along; of those that are not whole nothing is told.

    Args:
        envelope: what stands around the records of a document.
        records: them.
    """
    found: dict[str, Grain] = {}
    for address, blob in _members(envelope, records):
        try:
            grain = Grain(base64.b64decode(blob, validate=True))
        except (OmsError, binascii.Error, ValueError):
            continue
        if grain.address == address:
            found[address] = grain
    return list(found.values())


def _members(
    envelope: Mapping[str, Any], records: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    for record in records:
        member = record.get(MEMBER)
        if isinstance(member, dict):
            yield from _pair(member.get("address"), member.get("blob"))
    vendors = envelope.get(_VENDORS)
    beside = vendors.get(mif2.CARRIED) if isinstance(vendors, dict) else envelope.get(MEMBER)
    grains = beside.get(_GRAINS) if isinstance(beside, dict) else None
    for address, blob in grains.items() if isinstance(grains, dict) else ():
        yield from _pair(address, blob)


def _pair(address: Any, blob: Any) -> Iterator[tuple[str, str]]:
    if isinstance(address, str) and isinstance(blob, str):
        yield address, blob


def _text(grain: Grain) -> str:
    return base64.b64encode(grain.blob).decode("ascii")
