# SPDX-License-Identifier: Apache-2.0
"""Grains to items: records of any format, in the order of their document, and grains of none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Final, NamedTuple

from omsgrain.errors import SchemaError
from omsgrain.formats import model, raw
from omsgrain.formats.across import aimem, mif1, mif2, mif_ld, native
from omsgrain.formats.across.content import Content
from omsgrain.formats.across.names import AIMEM, MIF1, MIF2, MIF_LD
from omsgrain.formats.aimem.records import from_grain as _aimem
from omsgrain.formats.document import Manifest, Vector, open_manifest
from omsgrain.formats.records import Record
from omsgrain.formats.source import Source
from omsgrain.grain import Grain

__all__ = ["HUBS", "NATIVE", "Born", "Heap", "Held", "born", "heap", "parts_of"]

NATIVE: Final = "omsgrain"
"""The format of what never was a record."""
HUBS: Final[dict[str, ModuleType]] = {
    AIMEM: aimem, MIF2: mif2, MIF1: mif1, MIF_LD: mif_ld,
}  # fmt: skip
_OURS: Final = "omsgrain:"


@dataclass(frozen=True, slots=True)
class Held:
    """An item, and where it was.

    Attributes:
        item: what it says.
        format: of which format it was.
        address: of its grain; empty for what is only a part of another record.
    """

    item: model.Item
    format: str
    address: str


class Born(NamedTuple):
    """A record, of which kind it is, and the address of its grain."""

    address: str
    kind: str
    record: Record


@dataclass(slots=True)
class Heap:
    """Grains, looked through.

    Attributes:
        grains: by address.
        manifests: the documents that are among them.
        records: those of each format, in the order of their document; what stands twice is twice.
        natives: the addresses of those that never were a record.
        beside: the addresses of what belongs to the others.
        said: by format, what other documents of it say around their records; these are not here.
    """

    grains: dict[str, Grain]
    manifests: list[Manifest]
    records: dict[str, list[Born]]
    natives: list[str]
    beside: list[str]
    said: dict[str, dict[str, Any]] = field(default_factory=dict)

    def only_user(self) -> str | None:
        """Whose all grains are, if they are one's."""
        users = {grain.get("user_id") for grain in self.grains.values()}
        return users.pop() if len(users) == 1 else None

    def envelope(self, format: str) -> dict[str, Any]:
        """What stood around the records of a format; nothing if no document of it is here."""
        found = [one for one in self.manifests if one.format == format]
        return found[0].envelope if found else {}

    def content(self, format: str, vectors: Mapping[str, Vector]) -> tuple[Content, list[Held]]:
        """What the records of a format say."""
        records = self.records.get(format, [])
        bare = [(one.kind, one.record) for one in records]
        around = self.envelope(format) or self.said.get(format, {})
        said: Content = HUBS[format].read(bare, around)
        held = []
        for item, at in said.found:
            address = records[at].address if at >= 0 else ""
            rest = {name: value for name, value in item.rest.items() if name != _CARRIED}
            item = replace(item, rest=rest)
            if isinstance(item, model.Memory) and item.embedding is None and address in vectors:
                vector = vectors[address]
                item = replace(item, embedding=aimem.vector_of(vector.data, vector.model))
            held.append(Held(item, format, address))
        return said, held

    def held(
        self, vectors: Mapping[str, Vector], *, to: str, owner: str | None
    ) -> tuple[model.Document, str, list[Held]]:
        """What all say that are not of one format: what stands around it, of which format, items.

        Args:
            vectors: embeddings by address.
            to: the format: what is of it already is left out. AIMEM has its own way to say what
                never was a record.
            owner: whose the document is to be.
        """
        document, of, found = model.Document(), NATIVE, []
        for format in HUBS:
            if format != to and (self.records.get(format) or self.envelope(format)):
                said, held = self.content(format, vectors)
                if of == NATIVE or self.envelope(format):
                    document, of = said.document, format
                found += held
        for address in self.natives if to != AIMEM else ():
            found.append(Held(native.item(self.grains[address], to, owner), NATIVE, address))
        return document, of, found


_CARRIED = "x_omsgrain"


def heap(grains: Iterable[Grain]) -> Heap:
    """Look through grains.

    Raises:
        SchemaError: there are several documents of one format among them.
        FormatError: a grain is not what it must be.
        NotFoundError: one that another one names is not among them.
    """
    by_address = {grain.address: grain for grain in grains}
    get = raw.getter(by_address)
    found = Heap(by_address, [], {}, [], [])
    for address, grain in by_address.items():
        source = Source.of(grain)
        if source is not None and (opened := open_manifest(grain, get)) is not None:
            found.manifests.append(opened)
            found.beside.append(address)
        elif source is not None and (record := born(grain, source.format, get)) is not None:
            found.records.setdefault(source.format, []).append(Born(address, *record))
        elif _is_ours(grain):
            found.beside.append(address)
        else:
            found.natives.append(address)
    formats = [one.format for one in found.manifests]
    if len(set(formats)) != len(formats):
        raise SchemaError("a document is one", found=f"{len(formats)} documents")
    for manifest in found.manifests:
        _in_order(found, manifest)
    return found


def parts_of(grain: Grain) -> tuple[str, ...]:
    """The addresses of the grains in which a record stands that was too large for its own."""
    source = Source.of(grain)
    return () if source is None else source.parts


def born(grain: Grain, format: str, get: raw.Get) -> tuple[str, Record] | None:
    """The record of a format that a grain was; None if it was none."""
    reader = _READERS.get(format)
    return None if reader is None else reader(grain, get)


def _in_order(found: Heap, manifest: Manifest) -> None:
    """The records of a document in its order, before those of none."""
    records = found.records.get(manifest.format, [])
    known = {one.address: one for one in records}
    order = [known[one] for listed in manifest.arrays.values() for one in listed if one in known]
    listed = {one.address for one in order}
    found.records[manifest.format] = order + [one for one in records if one.address not in listed]


def _is_ours(grain: Grain) -> bool:
    context = grain.get("context")
    kind = context.get("kind") if isinstance(context, Mapping) else None
    return grain["type"] == "state" and isinstance(kind, str) and kind.startswith(_OURS)


def _of_mif2(grain: Grain, get: raw.Get) -> tuple[str, Record] | None:
    from omsgrain.formats.mif2.records import from_grain

    return from_grain(grain, get)


def _of_mif1(grain: Grain, get: raw.Get) -> tuple[str, Record] | None:
    from omsgrain.formats.mif1.records import from_grain

    return from_grain(grain, get)


def _of_mif_ld(grain: Grain, get: raw.Get) -> tuple[str, Record] | None:
    from omsgrain.formats.mif_ld.records import TABLE

    return TABLE.from_grain(grain, get)


_READERS: Final[dict[str, Callable[[Grain, raw.Get], tuple[str, Record] | None]]] = {
    AIMEM: _aimem,
    MIF2: _of_mif2,
    MIF1: _of_mif1,
    MIF_LD: _of_mif_ld,
}
