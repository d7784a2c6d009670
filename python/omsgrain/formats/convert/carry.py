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
from omsgrain.formats.base import Format, Mif
from omsgrain.formats.convert import aimem, mif2, mif_ld
from omsgrain.formats.convert.build import Made
from omsgrain.formats.convert.gather import Heap, parts_of
from omsgrain.formats.document import Vector
from omsgrain.formats.source import Source
from omsgrain.formats.table import FORMATS
from omsgrain.grain import Grain

MEMBER: Final = aimem.CARRIED
_GRAINS: Final = "grains"
_VENDORS: Final = "vendor_extensions"


def load_up(made: Made, heap: Heap, to: Format, vectors: Mapping[str, Vector]) -> None:
    """Put the grains into a document that was made of them."""
    own = {one.address for one in heap.records.get(to.name, ())}
    own |= {part for address in own for part in parts_of(heap.grains[address])}
    left = dict.fromkeys(address for address in heap.grains if address not in own)
    for array in made.arrays.values() if to.carries_inside else ():
        for record, address in array:
            if address in left:
                member: dict[str, Any] = {"address": address, "blob": _text(heap.grains[address])}
                if to.carries_vectors and address in vectors and not _holds(heap.grains[address]):
                    model, data = vectors[address]
                    said = base64.b64encode(data).decode("ascii")
                    member |= {"model": model, "vector": said}
                to.carry(record, member)
                del left[address]
    if left:
        beside = {address: _text(heap.grains[address]) for address in left}
        to.carry_beside(made.envelope, beside)


def vector_of(record: Mapping[str, Any]) -> Vector | None:
    """The embedding that went along in a record beside its grain."""
    member = member_of(record)
    if not isinstance(member, dict) or not isinstance(member.get("model"), str):
        return None
    try:
        data = base64.b64decode(str(member.get("vector")), validate=True)
    except (binascii.Error, ValueError):
        return None
    return Vector(member["model"], data) if data and len(data) % 4 == 0 else None


def _holds(grain: Grain) -> bool:
    """Whether an embedding stands in the grain itself."""
    source = Source.of(grain)
    known = None if source is None else FORMATS.get(source.format)
    return isinstance(known, Mif) and known.embedding_member is not None


def carried(envelope: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> list[Grain]:
    """The grains that went along; of those that are not whole nothing is told."""
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
        member = member_of(record)
        if isinstance(member, dict):
            yield from _pair(member.get("address"), member.get("blob"))
    vendors = envelope.get(_VENDORS) or _extensions(envelope)
    beside = vendors.get(mif2.CARRIED) if isinstance(vendors, dict) else envelope.get(MEMBER)
    grains = beside.get(_GRAINS) if isinstance(beside, dict) else None
    for address, blob in grains.items() if isinstance(grains, dict) else ():
        yield from _pair(address, blob)


def has_beside(envelope: Mapping[str, Any]) -> bool:
    """Whether anything goes along beside the memories of a corpus of MIF in JSON-LD."""
    extensions = _extensions(envelope)
    return isinstance(extensions, dict) and mif_ld.CARRIED in extensions


def member_of(record: Mapping[str, Any]) -> Any:
    """The grain that goes along in a record of any format; None if there is none."""
    return record.get(MEMBER) or mif_ld.member_of(record)


def _extensions(envelope: Mapping[str, Any]) -> Any:
    """What vendors say around a corpus."""
    files = envelope.get("files")
    first = files[0] if isinstance(files, list) and files else None
    whole = first.get("corpus") if isinstance(first, dict) else None
    return whole.get("extensions") if isinstance(whole, dict) else None


def _pair(address: Any, blob: Any) -> Iterator[tuple[str, str]]:
    if isinstance(address, str) and isinstance(blob, str):
        yield address, blob


def _text(grain: Grain) -> str:
    return base64.b64encode(grain.blob).decode("ascii")
