# SPDX-License-Identifier: Apache-2.0
"""Converts grains of any origin to a document, and a document's carried grains back.

An unchanged document gives back the grains that it carries. In a changed document, only the
unchanged records become their original grains.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omsgrain.errors import OmsError, SchemaError
from omsgrain.formats import source as raw
from omsgrain.formats.aimem.records import NO_TEXT
from omsgrain.formats.base import Format, Records, Spelling
from omsgrain.formats.convert import build
from omsgrain.formats.convert.base import GENERATOR, NOT_ASKED, BuildOptions
from omsgrain.formats.convert.gather import Born, Heap, bare, heap, parts_of
from omsgrain.formats.convert.mif_ld import SHAPE
from omsgrain.formats.document import (
    Added,
    Dump,
    Import,
    Loss,
    Manifest,
    Vector,
    manifest,
    open_manifest,
    parted,
)
from omsgrain.formats.document import bare as plain
from omsgrain.formats.mif_ld.document import without_local
from omsgrain.formats.mif_ld.records import Shape
from omsgrain.formats.records import Record, is_equal, object_of
from omsgrain.formats.table import FORMATS
from omsgrain.grain import Grain


def dump(
    grains: Iterable[Grain],
    vectors: Mapping[str, Vector],
    to: Format,
    *,
    local: bool = False,
    exact: bool = False,
    layout: str | None = None,
    passphrase: str | None = None,
    key: bytes | None = None,
    embeddings: bool | None = None,
    strict: bool = False,
    producer: str | None = None,
    user_id: str | None = None,
    exported_at: str | None = None,
    shape: Shape | None = None,
) -> Dump:
    to.refuse(layout=layout, shape=shape, passphrase=passphrase, key=key, producer=producer)
    options = build_options(to, embeddings=embeddings, strict=strict, producer=producer,
                            user_id=user_id, exported_at=exported_at, shape=shape,
                            beside=layout in (None, "corpus"))  # fmt: skip
    with raw.checking():
        found, stay = leaving(grains, to, local=local)
        own = _own(found, to)
        if own is not None and (user_id, exported_at) != (None, None):
            says = "a document of its own format keeps its user and its time"
            raise SchemaError(says, field="/user_id", expected="neither")
        document, losses = DocumentWriter(to, vectors, options).tree(found)
        document = document if own is None else to.current(document)
        how = Spelling(layout, shape, exact, local, raw.getter(found.grains))
        data, lost = to.spelled(document, own, how)
    if passphrase is not None or key is not None:
        data = to.seal(data, passphrase, key)
    return Dump(data, *parted([*stay, *losses, *lost]))


def build_options(
    to: Format,
    *,
    embeddings: bool | None = None,
    user_id: str | None = None,
    **given: Any,
) -> BuildOptions:
    """The options of a document; those that are None are the usual ones."""
    wanted = to.embeddings if embeddings is None else embeddings
    return BuildOptions(wanted, **_said(user=user_id, **given))


def leaving(grains: Iterable[Grain], to: Format, *, local: bool) -> tuple[Heap, list[Loss]]:
    """Sort grains, without memories of the namespace ``_local`` unless these leave too.

    A format that leaves them out of its own documents does so itself.
    """
    found = heap(grains)
    if local or (to.leaves_local and _own(found, to) is not None):
        return found, []
    kept, stay = without_local(found.grains.values())
    return (heap(kept) if stay else found), stay


def shell(
    grains: Mapping[str, Grain], to: Format, options: BuildOptions, pointers: Iterable[str]
) -> dict[str, Any]:
    """Make the frame of a MIF document; the caller adds records of its own format."""
    made = build.build(Heap(dict(grains), [], {}, [], []), to, {}, options)
    arrays: Records = {pointer: [] for pointer in (*made.arrays, *pointers)}
    return to.assembled(made.envelope, arrays, summed=options.checksum)


@dataclass(frozen=True, slots=True)
class DocumentWriter:
    """Makes documents of a format of grains of any."""

    to: Format
    vectors: Mapping[str, Vector]  # the embeddings of grains, by address
    options: BuildOptions

    def tree(self, found: Heap) -> tuple[dict[str, Any], list[Loss]]:
        to, options, losses = self.to, self.options, list[Loss]()
        own = _own(found, to)
        if not options.embeddings:
            found, losses = bare(found, None if own is None else to.name)
            own = _own(found, to)
        if own is not None:
            return self._refilled(found, own, losses), losses
        made = self.remade(found, own)
        losses = losses + made.losses
        # A layout without room beside the memories can drop carried grains, so losses count.
        if not options.strict and (options.beside or not build.has_beside(made.envelope)):
            losses = [one for one in losses
                      if isinstance(one, Added) or one.reason in (NOT_ASKED, NO_TEXT)]  # fmt: skip
        arrays = {at: [record for record, _ in array] for at, array in made.arrays.items()}
        pointers = {kind: pointer for pointer, kind in to.arrays.items()}
        for one in found.records.get(to.name, ()):
            if (pointer := pointers.get(one.kind)) is not None:
                arrays.setdefault(pointer, []).append(self.with_vector(one))
        return to.assembled(made.envelope, arrays, summed=options.checksum), losses

    def remade(self, found: Heap, own: Manifest | None) -> build.Made:
        """The records of other formats and natives, as those of the format."""
        to, options = self.to, self.options
        if own is not None:
            said = to.hub.read([], own.envelope).document
            kept = to.kept_options(own.envelope) | _said(
                shape=options.shape, user=said.user, exported_at=said.exported_at
            )
            options = replace(options, **kept)
        made = build.build(found, to, self.vectors, options)
        if not options.strict:
            build.load_up(made, found, to, self.vectors if options.embeddings else {})
        return made

    def with_vector(self, one: Born) -> Record:
        """A record of the format, with its embedding if that is wanted."""
        if not self.options.embeddings or one.address not in self.vectors:
            return one.record
        return self.to.with_vector(one.record, self.vectors[one.address].data)

    def _refilled(self, found: Heap, own: Manifest, losses: list[Loss]) -> dict[str, Any]:
        """The document of a manifest: its own records, and those made of other grains in it."""
        known = {one.address: one for one in found.records.get(self.to.name, ())}
        get = raw.getter(found.grains)
        every = (one for array in own.arrays.values() for one in array)
        foreign = {get(one).address for one in every if one not in known}
        made: dict[str, list[tuple[Record, str]]] = {}
        if foreign:
            whole = self.remade(found, own)
            losses += whole.losses
            made = whole.arrays
        arrays: Records = {}
        for pointer, listed in own.arrays.items():
            at: dict[str, list[Record]] = {}  # one record for each time an address appears
            for record, address in reversed(made.get(pointer, ())):
                at.setdefault(address, []).append(record)
            if lost := next((one for one in listed if one in foreign and one not in at), None):
                says = "the manifest lists a grain that is not a record of this format"
                raise SchemaError(says, field=f"/{lost}")
            arrays[pointer] = [
                _next(at[one]) if one in foreign else self._kept(known[one], losses)
                for one in listed
            ]
        return self.to.together(own.envelope, arrays)

    def _kept(self, one: Born, losses: list[Loss]) -> Any:
        """A record of a document as it is written again."""
        record = one.record
        if self.options.embeddings:
            record = self.with_vector(one)
        elif one.address in self.vectors and (
            self.to.with_vector(record, self.vectors[one.address].data) is not record
        ):
            losses.append(Loss(one.address, "embedding", NOT_ASKED))
        else:
            record, lost = self.to.without_embedding(record)
            losses += lost
        return plain(one.kind, record)


def _said(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _own(found: Heap, to: Format) -> Manifest | None:
    return next((one for one in found.manifests if one.format == to.name), None)


def _next(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the next record of an address; the last one again and again."""
    return records.pop() if len(records) > 1 else records[0]


_EMBEDDINGS = {"embedding", "embeddings"}


def taken_back(found: Import, user_id: str | None = None) -> Import:
    """Replace loaded records by the original grains that the document carries."""
    to = FORMATS[found.format]
    if not to.carries_inside and not _stands_beside(found):
        return found
    looked = heap(found.grains)
    own = next((one for one in looked.manifests if one.format == found.format), None)
    records = [one.record for one in looked.records.get(found.format, ())]
    if own is None:
        return found
    grains = build.carried(own.envelope, records)
    if not grains or (user_id is not None and any(g.get("user_id") != user_id for g in grains)):
        return found
    options = BuildOptions(shape=_shape(records), generator=_generator(own.envelope))
    if options.shape == "1.x":
        own = replace(own, envelope={**own.envelope, SHAPE: options.shape})
    try:
        document, _ = DocumentWriter(to, found.vectors, options).tree(looked)
        back = _Return(found, looked, own, document, heap(grains), to, options)
        # The manifest records how the document is written.
        usual = own.style is None and not own.text and own.layout in (None, "json", "corpus")
        return (back.all() if usual and not found.problems else None) or back.some()
    except (OmsError, *raw.NOT_CHECKED):
        return found  # the carried grains are invalid


def _shape(records: Iterable[Mapping[str, Any]]) -> Shape:
    """Return the shape of MIF JSON-LD memories that carry grains."""
    of_1_x = any("conceptType" in one for one in records if build.member_of(one) is not None)
    return "1.x" if of_1_x else "0.1"


def _generator(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the generator of a document of any version of ours; of another, our present one."""
    version = object_of(envelope, "generator").get("version")
    ours = {**GENERATOR, "version": version}
    return ours if isinstance(version, str) and envelope["generator"] == ours else GENERATOR


def _stands_beside(found: Import) -> bool:
    """Whether a document carries grains beside its records, as in MIF 2.0."""
    by_address = {grain.address: grain for grain in found.grains}
    own = open_manifest(found.grains[-1], raw.getter(by_address)) if found.grains else None
    return own is None or bool(build.carried(own.envelope, ()))


@dataclass(frozen=True, slots=True)
class _Return:
    """A document whose records give way to the grains that it carries."""

    found: Import
    looked: Heap  # its grains as they were loaded
    own: Manifest
    document: dict[str, Any]  # what it says
    heaped: Heap  # the carried grains
    to: Format
    options: BuildOptions

    def all(self) -> Import | None:
        """The carried grains alone; None if the document is not made of them alone."""
        if not self._has_all():
            return None
        try:
            vectors = self._vectors(None)
            made, _ = DocumentWriter(self.to, vectors, self.options).tree(self.heaped)
        except SchemaError:
            return None  # for example, a document needs a user
        if not is_equal(made, self.document, self.to.ordered):
            return None
        return replace(self.found, grains=list(self.heaped.grains.values()), vectors=vectors)

    def some(self) -> Import:
        """The carried grains of unchanged records in place of these."""
        vectors = self._vectors(self.own)
        made = self._by_name(vectors, self.own)
        usual = DocumentWriter(self.to, self.found.vectors, self.options)
        still: dict[Any, str] = {}
        for one in self.looked.records.get(self.to.name, ()):
            name = _name(one.kind, one.record)
            record, _ = made.get(name, ({}, ""))
            if name in made and is_equal(record, usual.with_vector(one), self.to.ordered):
                still[name] = one.address
        # A grain returns only if all records made of it are unchanged: a memory and its edges, for
        # example. If no grain is missing, the original document's manifest returns too.
        gone = {address for name, (_, address) in made.items() if name not in still}
        instead = {still[name]: address for name, (_, address) in made.items()
                   if address not in gone}  # fmt: skip
        whole = not gone and self._has_all()
        if not instead and not whole:
            return self.found
        mixed = self._mixed(instead)
        mixed[:0] = [one for address, one in self.heaped.grains.items()
                     if address not in gone and (whole or not _is_document(one))]  # fmt: skip
        kept = {at: one for at, one in self.found.vectors.items() if at not in instead}
        vectors = {a: one for a, one in vectors.items() if a not in gone} | kept
        # Another record can have influenced the records of these grains.
        again, _ = DocumentWriter(self.to, vectors, self.options).tree(heap(mixed))
        alike = is_equal(again, self.document, self.to.ordered)
        return replace(self.found, grains=mixed, vectors=vectors) if alike else self.found

    def _has_all(self) -> bool:
        """Whether all grains that a document lists are there: a record can be removed, say."""
        listed = (array for one in self.heaped.manifests for array in one.arrays.values())
        return all(one in self.heaped.grains for array in listed for one in array)

    def _mixed(self, instead: Mapping[str, str]) -> list[Grain]:
        own, looked = self.own, self.looked
        stay = [one for one in self.found.grains
                if one.address not in instead and one.address not in looked.beside]  # fmt: skip
        parts = [looked.grains[part] for one in stay for part in parts_of(one)]
        arrays = {p: [instead.get(one, one) for one in listed] for p, listed in own.arrays.items()}
        last = self.found.grains[-1]  # the manifest
        text = raw.gather(own.text, raw.getter(looked.grains)) if own.text else None
        around = manifest(replace(own, arrays=arrays), created_at=last["created_at"],
                          user_id=last.get("user_id"), text=text)  # fmt: skip
        return [*parts, *stay, *around]

    def _vectors(self, own: Manifest | None) -> dict[str, Vector]:
        said = {
            _name(one.kind, one.record): vector
            for one in self.looked.records.get(self.to.name, ())
            if (vector := self.found.vectors.get(one.address) or _vector(one.record)) is not None
        }
        return {
            address: said[name]
            for name, (record, address) in (self._by_name({}, own) if said else {}).items()
            if name in said and not record.keys() & _EMBEDDINGS
        }

    def _by_name(
        self, vectors: Mapping[str, Vector], own: Manifest | None
    ) -> dict[Any, tuple[Record, str]]:
        """The records that are made of the carried grains, with the address of each one's."""
        made = DocumentWriter(self.to, vectors, self.options).remade(self.heaped, own)
        return {
            _name(self.to.arrays[pointer], record): (record, address)
            for pointer, array in made.arrays.items()
            for record, address in array
            if address
        }


def _vector(record: Mapping[str, Any]) -> Vector | None:
    if (beside := build.vector_of(record)) is not None:
        return beside
    said = next((record[name] for name in _EMBEDDINGS if name in record), None)
    if not isinstance(said, dict) or not isinstance(said.get("model"), str):
        return None
    data = raw.float32(said.get("vector"))
    return None if data is None else Vector(said["model"], data)


def _name(kind: str, record: Mapping[str, Any]) -> Any:
    """Return a key for a record: its kind, with its carried grain, its id, or its content."""
    member = build.member_of(record)
    if isinstance(member, dict):
        return kind, member.get("address")
    name = record.get("id", record.get("@id"))
    return kind, json.dumps(record, sort_keys=True) if name is None else name


def _is_document(grain: Grain) -> bool:
    source = raw.Source.of(grain)
    return source is not None and source.kind == "document"
