# SPDX-License-Identifier: Apache-2.0
"""Read documents for an import: the signature, then the records, each with its place and grain.

A document is read, and its signature checked, before the store is opened: a bad document creates
no store. A document of any version of MIF becomes a list of records. Each version's format object
has what the others do not have.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from omsgrain import _core
from omsgrain.crypto.detached import SUFFIX, beside
from omsgrain.crypto.trust import Trust, look
from omsgrain.errors import FormatError, OmsError, SchemaError, UnsupportedError
from omsgrain.formats.aimem import document as bundles
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.aimem.records import text_of
from omsgrain.formats.base import Format
from omsgrain.formats.convert.gather import parts_of
from omsgrain.formats.document import KIND, Import, Manifest, open_manifest
from omsgrain.formats.mif import Mif
from omsgrain.formats.mif_ld.directory import shape_of_name
from omsgrain.formats.mif_ld.document import document_of
from omsgrain.formats.problems import Problem
from omsgrain.formats.records import Record, is_duplicate, text_hash
from omsgrain.formats.source import Source, kind_of_ours
from omsgrain.formats.table import (
    DOCUMENTS,
    FORMATS,
    VERSIONS,
    load,
    sniff,
    sniff_directory,
    sniff_file,
    version,
)
from omsgrain.grain import Grain
from omsgrain.interchange.outcome import RecordReport
from omsgrain.interchange.signed_files import signed_data, signed_text
from omsgrain.store.source_tombstones import TEXT

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.trust import Checked
    from omsgrain.formats.aimem.document import Bundle

LARGEST: Final = 100 << 20
"""Bytes of a document that is read."""
_DANGLING = frozenset(("unknown_reference", "unknown_entity", "unknown_end"))
"""Warnings of what is not in a document; it may be in the store."""


@dataclass(frozen=True, slots=True)
class Trusted:
    """The signers whose signatures beside files are trusted."""

    keys: Sequence[str] = ()  # files of public keys, and DIDs
    resolver: Resolver | None = None  # finds the keys of other signers
    required: bool = False  # whether a file without a trusted signature is refused

    def look(
        self, file: Path, *, source: IO[bytes] | None = None, data: bytes | None = None
    ) -> Checked:
        """Check the signature in FILE.sig before FILE is imported, whatever FILE is."""
        # Most files have no signature, and most imports need none.
        if not (self.keys or self.required or os.path.lexists(f"{file}{SUFFIX}")):
            return "missing"
        known = Trust.load(self.keys, self.resolver)
        mark = beside(file)
        if mark is None:
            return look(None, b"", known, required=self.required)
        if source is not None:
            data = signed_text(source)
        with signed_data(file) if data is None else nullcontext(data) as signed:
            return look(mark, signed, known, required=self.required, resolver=self.resolver)


@contextmanager
def open_bundle(
    file: Path, trusted: Trusted, *, scan: bool = False
) -> Iterator[tuple[Bundle | IO[bytes], Checked]]:
    """Open an AIMEM bundle; one by lines as a stream, which ``scan`` checks whole before."""
    sniff_file(file)  # refuses a pipe, and a file of no known format
    with file.open("rb") as source:
        lines = AIMEM.by_lines(source)
        bundle: Bundle | IO[bytes] = (
            source if lines else bundles.read_bundle(bundles.whole(source))
        )
        checked = trusted.look(file, source=source)
        if lines and scan:
            source.seek(0)
            bundles.scan(source)
        source.seek(0)
        yield bundle, checked


def read_document(
    file: Path,
    user_id: str | None,
    trusted: Trusted,
    *,
    most: int = LARGEST,
    **options: Any,
) -> ParsedDocument:
    """Read a document in a file, or the memories in the files of a directory.

    The options are those of ``formats.load``.
    """
    format = options.get("format", "auto")
    if file.is_dir():
        of = FORMATS[sniff_directory(file) if format == "auto" else format]
        for one in of.files_in(file):
            trusted.look(one)
        mode = {name: options[name] for name in ("mode",) if name in options}
        return arrived(of.load_directory(file, user_id=user_id, **mode), user_id)
    if format in FORMATS and FORMATS[format].opens_files:
        trusted.look(file)
        return arrived(FORMATS[format].load_file(file, user_id=user_id), user_id)
    with file.open("rb") as source:
        data = source.read(most + 1)  # one more, so that it is refused
    if len(data) <= most:
        trusted.look(file, data=data)
    if file.name.lower().endswith(".md"):
        options["shape"] = shape_of_name(file.name)
    return arrived(read(data, user_id=user_id, most=most, **options), user_id)


def read(
    data: bytes,
    *,
    format: str = "auto",
    user_id: str | None = None,
    most: int | None = None,
    passphrase: str | None = None,
    **options: Any,
) -> Import:
    if format == "auto":
        format = sniff(data)
        if format not in DOCUMENTS:
            expected = ", ".join(DOCUMENTS)
            raise UnsupportedError("no document of memories", expected=expected, found=format)
    if (known := DOCUMENTS.get(format)) is not None:
        known.refuse(passphrase=passphrase)
        if passphrase is not None:
            options["passphrase"] = passphrase
        if most is not None:
            options["limits"] = replace(known.limits, document=most)
    if user_id is not None:
        return load(data, format=format, user_id=user_id, **options)
    found = load(data, format=format, **options)
    owner = found.grains[-1].get("user_id") if found.grains else None
    # A grain caches its fields; copies keep the memory small.
    if all(Grain(grain.blob).get("user_id") == owner for grain in found.grains):
        return found
    # A grain that the document carries is accepted as it is for its own user only.
    return load(data, format=format, user_id=owner, **options)


# -- the records of a document --------------------------------------------------------------------


def hash_of(grain: Grain, format: Format, owner: str) -> str | None:
    """SHA-256 of the text of a grain that no index finds by it, in hex; None if it has none."""
    return text_hash(_said(grain, format, owner))


def _said(grain: Grain, format: Format, owner: str) -> str | None:
    source = Source.of(grain)
    if source is not None and (source.hash is not None or source.format in VERSIONS):
        return None
    if grain.type == "state" and kind_of_ours(grain) is not None:
        return None
    return text_of(grain, owner, format.said_by_type)[0] or None


_MARK = "\ufeff"
"""No text of a grain begins with it, so nothing is found by an id that does."""
NATIVE = "native"
"""The kind of a record that carries a grain which never was a record of this format."""


class RecordPlace(NamedTuple):
    """The place of a record: the pointer of its array, and its number among the valid ones."""

    array: str
    at: int


class Arrived(NamedTuple):
    place: RecordPlace  # its place among the valid records
    pointer: str  # its place in the document
    format: str  # of the record; a document can carry grains of another version
    kind: str  # its kind; NATIVE if its grain is of no version of MIF
    id: str | None  # its id; None if it has none by which a grain is found
    hash: str | None  # SHA-256 of its text, if duplicates of it are found by that
    grain: Grain  # the record as a grain
    parts: tuple[Grain, ...]  # grains that belong to it
    vector: tuple[str, bytes] | None = None  # its embedding, to be searched by
    is_duplicate: bool = False  # whether an earlier record of the document has the same text
    old_id: str | None = None  # its id before it was renamed
    # the record as it came, if its references were changed
    original: tuple[Grain, tuple[Grain, ...]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which it is looked up."""
        return tuple(name for name in (self.id, self.hashed, self.old_id) if name)

    @property
    def erasable(self) -> list[tuple[str, str]]:
        """The kinds and names under which it may have been erased: its ids, and its text."""
        if self.kind == NATIVE:
            return []
        found = ((self.kind, self.id), (self.kind, self.old_id), (TEXT, self.hash))
        return [(kind, name) for kind, name in found if name]

    @property
    def kept_id(self) -> str | None:
        """Its id in the document that is kept."""
        return self.id if self.original is None or self.old_id is None else self.old_id

    @property
    def hashed(self) -> str | None:
        """The name of its text, if duplicates are found by that."""
        return None if self.hash is None else f"sha256:{self.hash}"


@dataclass(slots=True)
class ParsedDocument:
    version: Mif
    owner: str  # the user who gets the memory
    manifest: Manifest  # what stood around the records, with their addresses
    created_at: int  # of the manifest, ms since 1970
    text: tuple[Grain, ...]  # the document as it came, if that is kept
    # in the order of the document; an import that is not atomic removes those that it has stored,
    # to save memory
    records: list[Arrived]
    bad: dict[str, RecordReport]  # the reports of the invalid records, each by a key of its own
    problems: tuple[Problem, ...]  # what is wrong with these
    warnings: tuple[Problem, ...]  # what was accepted although it looks wrong
    origin: str  # the format of the file: that of another system, or else the version's name

    @property
    def dangling(self) -> list[Problem]:
        """The warnings of references to records that the document does not have."""
        return [one for one in self.warnings if one.rule in _DANGLING]

    def record_of(self, one: Arrived) -> Record:
        """The record as the document has it."""
        by_address = {part.address: part for part in one.parts}
        found = version(one.format).table.from_grain(one.grain, by_address.__getitem__)
        if found is None:
            raise FormatError("a grain is not the record that it was", field=one.pointer)
        return found[1]


def arrived(read: Import, user_id: str | None = None) -> ParsedDocument:
    """Make the list of records of a document that was read."""
    by_address = {grain.address: grain for grain in read.grains}
    whole, manifest = _manifest(read, by_address)
    found = version(read.format if manifest is None else manifest.format)
    of: Any = read.grains[-1].get("user_id") if read.grains else None
    owner = user_id if user_id is not None else of
    if not isinstance(owner, str) or not owner:
        raise SchemaError("the user whose memory it becomes is not given", field="/user_id")
    bad = _bad(read.problems, version(read.format))
    if manifest is None or whole is None:
        # The document only carries grains, which no manifest lists.
        parts = {part for grain in read.grains for part in parts_of(grain)}
        alone = [address for address in by_address if address not in parts]
        manifest, created_at = Manifest(found.name, "", {}, {"": alone}), 0
    else:
        created_at = whole["created_at"]
    # The places of a translated document are those of another file.
    places = _places(manifest, bad if read.origin is None else {})
    records = [
        _one(found, RecordPlace(array, at), places, by_address[address], by_address, read, owner)
        for array, addresses in manifest.arrays.items()
        for at, address in enumerate(addresses)
    ]
    text = tuple(by_address[address] for address in manifest.text)
    document = ParsedDocument(
        found,
        owner,
        manifest,
        created_at,
        text,
        records,
        bad,
        read.problems,
        (*read.warnings, *read.dropped),
        read.origin or found.name,
    )
    if owner != of:
        document.records = [
            # A native record is refused later: it carries a grain of another user.
            one if one.kind == NATIVE else rebuilt(document, one, document.record_of(one))
            for one in records
        ]
    return document


def _manifest(
    read: Import, by_address: Mapping[str, Grain]
) -> tuple[Grain | None, Manifest | None]:
    """The manifest; if the document carries others, its own is the last one."""
    version(read.format)  # raises if it is no MIF document
    for grain in reversed(read.grains):
        manifest = open_manifest(grain, by_address.__getitem__)
        if manifest is not None and manifest.format in VERSIONS:
            return grain, manifest
    return None, None


def rebuilt(document: ParsedDocument, one: Arrived, record: Record, **changed: Any) -> Arrived:
    """A record with another content."""
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


def _one(
    found: Mif,
    place: RecordPlace,
    places: Mapping[str, list[int]],
    grain: Grain,
    by_address: Mapping[str, Grain],
    read: Import,
    owner: str,
) -> Arrived:
    seen = Grain(grain.blob)  # a grain caches its fields, and all grains are in memory
    source = Source.of(seen)
    pointer = place.array
    if place.array in places and place.array not in found.single:
        pointer = f"{place.array}/{places[place.array][place.at]}"
    if len(read.places) == len(places.get(place.array, ())):
        pointer = document_of(read.places[place.at]) or pointer
    pointer = read.pointers.get(pointer, pointer)
    vector = read.vectors.get(grain.address)
    kept = None if vector is None else (vector.model, vector.data)
    named = () if source is None else source.parts
    parts = tuple(by_address[address] for address in named if address in by_address)
    if source is None or source.format not in VERSIONS or source.kind == KIND:
        hash_ = hash_of(seen, found, owner)
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


def _bad(problems: Iterable[Problem], found: Mif) -> dict[str, RecordReport]:
    """The invalid records, each once: by pointer, or by line if they have no place."""
    bad: dict[str, RecordReport] = {}
    for one in problems:
        _, at = found.place_of(one.pointer)
        pointer, kind = found.record_at(one.pointer)
        key = pointer if at is not None else f"{pointer}#{one.line}"
        if key not in bad:
            bad[key] = RecordReport(
                pointer, None, kind, "refused", "invalid", one.rule, problem=one
            )
    return bad


def _places(manifest: Manifest, bad: Mapping[str, RecordReport]) -> dict[str, list[int]]:
    """The places of the valid records in each array of the document."""
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


def canonical(record: Record) -> bytes:
    """A record as canonical JSON: the same bytes for equal records."""
    text = json.dumps(record, sort_keys=True).encode("ascii")
    try:
        return _core.canonical_json(text)
    except OmsError:
        return text
