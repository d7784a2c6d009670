# SPDX-License-Identifier: Apache-2.0
"""The records of a document that was read: their places, their grains, what they are known by.

A document of either version is the same here: a list of records. What the two do not have in
common stands in `versions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats.across.gather import parts_of
from omsgrain.formats.document import KIND, Import, Manifest, open_manifest
from omsgrain.formats.mif_ld.fields import FORMAT
from omsgrain.formats.mif_ld.taking import document_of
from omsgrain.formats.problems import Problem
from omsgrain.formats.records import Record, is_duplicate
from omsgrain.formats.source import Source
from omsgrain.gateways.mif.natives import hash_of
from omsgrain.gateways.mif.report import RecordReport
from omsgrain.gateways.mif.versions import NAMES, Version, version
from omsgrain.grain import Grain

__all__ = ["NATIVE", "Arrived", "Document", "Place", "arrived", "rebuilt"]

_MARK = "\ufeff"
"""No text of a grain begins with it, so nothing is found by an id that does."""
NATIVE = "native"
"""The kind of a record that carries a grain which never was a record of this format."""


class Place(NamedTuple):
    """Where a record stands: the pointer of its array, and its number among those taken."""

    array: str
    at: int


class Arrived(NamedTuple):
    """A record that arrived.

    Attributes:
        place: where it stands among the records that are good.
        pointer: where it stands in the document.
        format: of the record: grains of the other version can go along in a document.
        kind: of what kind it is; NATIVE if its grain is of no version of MIF.
        id: its id; None if it has none, or none that anything is found by.
        hash: SHA-256 of its text, if duplicates of it are found by that.
        grain: what it is as a grain.
        parts: grains that belong to it.
        vector: its embedding, to be searched by.
        is_duplicate: whether an earlier record of the document has the same text.
        old_id: its id before it was renamed.
        original: the record as it came, where its references lead elsewhere by now.
    """

    place: Place
    pointer: str
    format: str
    kind: str
    id: str | None
    hash: str | None
    grain: Grain
    parts: tuple[Grain, ...]
    vector: tuple[str, bytes] | None = None
    is_duplicate: bool = False
    old_id: str | None = None
    original: tuple[Grain, tuple[Grain, ...]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """By what it is looked up."""
        return tuple(name for name in (self.id, self.hashed, self.old_id) if name)

    @property
    def hashed(self) -> str | None:
        """The name that its text has, if duplicates are found by that."""
        return None if self.hash is None else f"sha256:{self.hash}"


@dataclass(slots=True)
class Document:
    """A document that arrived.

    Attributes:
        version: of the format.
        owner: whose memory it becomes.
        manifest: what stood around the records, with their addresses.
        created_at: of the manifest, ms since 1970.
        text: the document as it came, where that is kept.
        records: in the order of the document; an import that is not all or nothing takes them out
            as it goes, so that what is stored is not in memory as well.
        bad: records that are not good, as they are reported, each by a key of its own.
        problems: what is wrong with these.
        warnings: what was taken although it looks wrong.
    """

    version: Version
    owner: str
    manifest: Manifest
    created_at: int
    text: tuple[Grain, ...]
    records: list[Arrived]
    bad: dict[str, RecordReport]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    def record_of(self, one: Arrived) -> Record:
        """The record as it stands in the document."""
        by_address = {part.address: part for part in one.parts}
        found = version(one.format).table.from_grain(one.grain, by_address.__getitem__)
        if found is None:
            raise FormatError("a grain is not the record that it was", field=one.pointer)
        return found[1]


def arrived(read: Import, user_id: str | None = None) -> Document:
    """Take what was read of a document.

    Args:
        read: as ``formats.load`` gave it.
        user_id: whose memory it becomes; by default whose the document says it is.

    Raises:
        SchemaError: it is no MIF document, or nobody says whose it is.
    """
    by_address = {grain.address: grain for grain in read.grains}
    whole, manifest = _manifest(read, by_address)
    found = version(read.format if manifest is None else manifest.format)
    of: Any = read.grains[-1].get("user_id") if read.grains else None
    owner = user_id if user_id is not None else of
    if not isinstance(owner, str) or not owner:
        raise SchemaError("nobody says whose memory it becomes", field="/user_id")
    bad = _bad(read.problems, version(read.format))
    if manifest is None or whole is None:
        # All of it is grains that went along: what they are is not listed anywhere.
        parts = {part for grain in read.grains for part in parts_of(grain)}
        alone = [address for address in by_address if address not in parts]
        manifest, created_at = Manifest(found.name, "", {}, {"": alone}), 0
    else:
        created_at = whole["created_at"]
    places = _places(manifest, bad)
    records = [
        _one(found, Place(array, at), places, by_address[address], by_address, read, owner)
        for array, addresses in manifest.arrays.items()
        for at, address in enumerate(addresses)
    ]
    text = tuple(by_address[address] for address in manifest.text)
    document = Document(
        found,
        owner,
        manifest,
        created_at,
        text,
        records,
        bad,
        read.problems,
        (*read.warnings, *read.dropped),
    )
    if owner != of:
        document.records = [_owned(document, one) for one in records]
    return document


def _manifest(
    read: Import, by_address: Mapping[str, Grain]
) -> tuple[Grain | None, Manifest | None]:
    """What lists the records: of several that went along the last one is the document's own."""
    version(read.format)  # or it is told here that it is no MIF document
    for grain in reversed(read.grains):
        manifest = open_manifest(grain, by_address.__getitem__)
        if manifest is not None and manifest.format in NAMES:
            return grain, manifest
    return None, None


def rebuilt(document: Document, one: Arrived, record: Record, **changed: Any) -> Arrived:
    """A record as it arrived, with another content.

    Args:
        document: that it is of.
        one: the record as it arrived.
        record: what it is to be.
        **changed: what else is to be another.
    """
    table, owner = version(one.format).table, document.owner
    if one.is_duplicate:
        of = one.grain["context"]["of"]
        built = table.to_duplicate(one.kind, record, of=of, owner=owner)
    else:
        built = table.to_grain(one.kind, record, owner=owner)
    source = Source.of(built.grain)
    hash_ = None if source is None else source.hash
    name = one.id if source is None or one.id is None else source.id
    return one._replace(
        id=name, hash=hash_, grain=built.grain, parts=tuple(built.parts), **changed
    )


def _owned(document: Document, one: Arrived) -> Arrived:
    """A record that becomes somebody else's than the document says."""
    if one.kind == NATIVE:  # it is refused: a grain of another user is not this one's
        return one
    return rebuilt(document, one, document.record_of(one))


def _one(
    found: Version,
    place: Place,
    places: Mapping[str, list[int]],
    grain: Grain,
    by_address: Mapping[str, Grain],
    read: Import,
    owner: str,
) -> Arrived:
    seen = Grain(grain.blob)  # what is asked of a grain it keeps, and all of them are here
    source = Source.of(seen)
    pointer = place.array
    if place.array in places and place.array not in found.single:
        pointer = f"{place.array}/{places[place.array][place.at]}"
    if len(read.places) == len(places.get(place.array, ())):
        pointer = document_of(read.places[place.at]) or pointer
    vector = read.vectors.get(grain.address)
    kept = None if vector is None else (vector.model, vector.data)
    named = () if source is None else source.parts
    parts = tuple(by_address[address] for address in named if address in by_address)
    if source is None or source.format not in NAMES or source.kind == KIND:
        hash_ = hash_of(seen, found.name, owner)
        return Arrived(place, pointer, found.name, NATIVE, None, hash_, grain, parts, kept)
    return Arrived(
        place,
        pointer,
        source.format,
        source.kind,
        None if place.array in found.single or source.id.startswith(_MARK) else source.id,
        source.hash,
        grain,
        parts,
        kept,
        is_duplicate(seen),
    )


def _bad(problems: Iterable[Problem], found: Version) -> dict[str, RecordReport]:
    """The records that are not good, each once: by pointer, or by line if they have no place."""
    bad: dict[str, RecordReport] = {}
    for one in problems:
        array, at = found.place_of(one.pointer)
        single = at is None or array in found.single
        pointer = array if single else f"{array}/{at}"
        kind = found.arrays.get(array, "record")
        if found.name == FORMAT:  # its memories stand in no array of the document
            pointer, kind = document_of(one.pointer), "memory"
        key = pointer if at is not None else f"{pointer}#{one.line}"
        if key not in bad:
            bad[key] = RecordReport(
                pointer, None, kind, "refused", "invalid", one.rule, problem=one
            )
    return bad


def _places(manifest: Manifest, bad: Mapping[str, RecordReport]) -> dict[str, list[int]]:
    """Of each array where its good records stand in the document."""
    places: dict[str, list[int]] = {}
    for array, addresses in manifest.arrays.items():
        found: list[int] = []
        at = 0
        while len(found) < len(addresses):
            if f"{array}/{at}" not in bad:
                found.append(at)
            at += 1
        places[array] = found
    return places
