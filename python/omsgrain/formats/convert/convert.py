# SPDX-License-Identifier: Apache-2.0
"""Converts grains of any origin to a document, and a document's carried grains back.

An unchanged document gives back the grains that it carries. In a changed document, only the
unchanged records become their original grains.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from omsgrain.errors import OmsError, SchemaError
from omsgrain.formats import source as raw
from omsgrain.formats.aimem.records import NO_TEXT
from omsgrain.formats.base import Format, Records
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
        document, losses = tree(found, to, vectors, options)
        document = document if own is None else to.current(document)
        data, lost = to.spelled(document, own, layout=layout, shape=shape, exact=exact,
                                local=local, get=raw.getter(found.grains))  # fmt: skip
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


def tree(
    found: Heap, to: Format, vectors: Mapping[str, Vector], options: BuildOptions
) -> tuple[dict[str, Any], list[Loss]]:
    losses: list[Loss] = []
    own = _own(found, to)
    if not options.embeddings:
        found, losses = bare(found, None if own is None else to.name)
        own = _own(found, to)
    if own is not None:
        return _refilled(found, own, to, vectors, options, losses), losses
    made = remade(found, own, to, vectors, options)
    losses = losses + made.losses
    # A layout without room beside the memories can drop carried grains, so losses count.
    if not options.strict and (options.beside or not build.has_beside(made.envelope)):
        losses = [one for one in losses
                  if isinstance(one, Added) or one.reason in (NOT_ASKED, NO_TEXT)]  # fmt: skip
    arrays = {pointer: [record for record, _ in array] for pointer, array in made.arrays.items()}
    _add(arrays, found.records.get(to.name, ()), to, vectors, options)
    return to.assembled(made.envelope, arrays, summed=options.checksum), losses


def shell(
    grains: Mapping[str, Grain], to: Format, options: BuildOptions, pointers: Iterable[str]
) -> dict[str, Any]:
    """Make the frame of a MIF document; the caller adds records of its own format."""
    made = build.build(Heap(dict(grains), [], {}, [], []), to, {}, options)
    arrays: Records = {pointer: [] for pointer in (*made.arrays, *pointers)}
    return to.assembled(made.envelope, arrays, summed=options.checksum)


def remade(
    found: Heap,
    own: Manifest | None,
    to: Format,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> build.Made:
    if own is not None:
        document = to.hub.read([], own.envelope).document
        kept = to.kept_options(own.envelope) | _said(shape=options.shape)
        options = replace(options, **kept, **_said(user=document.user,
                                                   exported_at=document.exported_at))  # fmt: skip
    made = build.build(found, to, vectors, options)
    if not options.strict:
        build.load_up(made, found, to, vectors if options.embeddings else {})
    return made


def _said(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _own(found: Heap, to: Format) -> Manifest | None:
    return next((one for one in found.manifests if one.format == to.name), None)


def _refilled(
    found: Heap,
    own: Manifest,
    to: Format,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
    losses: list[Loss],
) -> dict[str, Any]:
    """The document of a manifest: its own records, and those made of the other grains in it."""
    known = {one.address: one for one in found.records.get(to.name, ())}
    get, every = raw.getter(found.grains), (one for array in own.arrays.values() for one in array)
    foreign = {get(one).address for one in every if one not in known}
    made: dict[str, list[tuple[Record, str]]] = {}
    if foreign:
        whole = remade(found, own, to, vectors, options)
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
            _next(at[one])
            if one in foreign
            else plain(known[one].kind, _kept(known[one], to, vectors, options, losses))
            for one in listed
        ]
    return to.together(own.envelope, arrays)


def _kept(
    one: Born,
    to: Format,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
    losses: list[Loss],
) -> Record:
    """A record of a document as it is written again."""
    whole = one.record
    if one.address in vectors:
        whole = to.with_vector(one.record, vectors[one.address].data)
    if options.embeddings:
        return whole
    if whole is not one.record:
        losses.append(Loss(one.address, "embedding", NOT_ASKED))
        return one.record
    record, lost = to.without_embedding(one.record)
    losses += lost
    return record


def _next(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the next record of an address; the last one again and again."""
    return records.pop() if len(records) > 1 else records[0]


def _add(
    arrays: Records,
    records: Iterable[Born],
    to: Format,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> None:
    pointers = {kind: pointer for pointer, kind in to.arrays.items()}
    for one in records:
        if (pointer := pointers.get(one.kind)) is not None:
            record = with_vector(one.record, one.address, to, vectors, options)
            arrays.setdefault(pointer, []).append(record)


def with_vector(
    record: dict[str, Any],
    address: str,
    to: Format,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> Record:
    if not options.embeddings or address not in vectors:
        return record
    return to.with_vector(record, vectors[address].data)


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
        document, _ = tree(looked, to, found.vectors, options)
        # The manifest records how the document is written.
        plain = own.style is None and not own.text and own.layout in (None, "json", "corpus")
        alone = plain and not found.problems
        whole = _all(found, looked, document, grains, options) if alone else None
        return whole or _some(found, looked, own, document, grains, options)
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


def _all(
    found: Import,
    looked: Heap,
    document: dict[str, Any],
    grains: list[Grain],
    options: BuildOptions,
) -> Import | None:
    heaped, to = heap(grains), FORMATS[found.format]
    if not _has_all(heaped):
        return None
    try:
        vectors = _vectors(found, looked, heaped, None, options)
        made, _ = tree(heaped, to, vectors, options)
    except SchemaError:
        return None  # for example, a document needs a user
    if not is_equal(made, document, to.ordered):
        return None
    return replace(found, grains=grains, vectors=vectors)


def _some(
    found: Import,
    looked: Heap,
    own: Manifest,
    document: dict[str, Any],
    grains: list[Grain],
    options: BuildOptions,
) -> Import:
    heaped, to = heap(grains), FORMATS[found.format]
    vectors = _vectors(found, looked, heaped, own, options)
    made = _by_name(remade(heaped, own, to, vectors, options), to)
    still: dict[Any, str] = {}
    for one in looked.records.get(found.format, ()):
        name = _name(one.kind, one.record)
        record, _ = made.get(name, ({}, ""))
        said = with_vector(one.record, one.address, to, found.vectors, options)
        if name in made and is_equal(record, said, to.ordered):
            still[name] = one.address
    # A grain returns only if all records made of it are unchanged: a memory and its edges, for
    # example. If no grain is missing, the original document's manifest returns too.
    gone = {address for name, (_, address) in made.items() if name not in still}
    instead = {still[name]: address for name, (_, address) in made.items()
               if address not in gone}  # fmt: skip
    whole = not gone and _has_all(heaped)
    if not instead and not whole:
        return found
    mixed = _mixed(found, looked, own, instead)
    mixed[:0] = [one for one in grains
                 if one.address not in gone and (whole or not _is_document(one))]  # fmt: skip
    kept = {address: one for address, one in found.vectors.items() if address not in instead}
    vectors = {a: one for a, one in vectors.items() if a not in gone} | kept
    # Another record can have influenced the records of these grains.
    again, _ = tree(heap(mixed), to, vectors, options)
    alike = is_equal(again, document, to.ordered)
    return replace(found, grains=mixed, vectors=vectors) if alike else found


def _has_all(heaped: Heap) -> bool:
    """Whether all grains that a document lists are present: a record can be removed or damaged."""
    listed = (array for one in heaped.manifests for array in one.arrays.values())
    return all(one in heaped.grains for array in listed for one in array)


def _mixed(found: Import, looked: Heap, own: Manifest, instead: Mapping[str, str]) -> list[Grain]:
    stay = [one for one in found.grains
            if one.address not in instead and one.address not in looked.beside]  # fmt: skip
    parts = [looked.grains[part] for one in stay for part in parts_of(one)]
    arrays = {p: [instead.get(one, one) for one in listed] for p, listed in own.arrays.items()}
    last = found.grains[-1]  # the manifest
    text = raw.gather(own.text, raw.getter(looked.grains)) if own.text else None
    around = manifest(replace(own, arrays=arrays), created_at=last["created_at"],
                      user_id=last.get("user_id"), text=text)  # fmt: skip
    return [*parts, *stay, *around]


def _vectors(
    found: Import, looked: Heap, heaped: Heap, own: Manifest | None, options: BuildOptions
) -> dict[str, Vector]:
    said = {
        _name(one.kind, one.record): vector
        for one in looked.records.get(found.format, ())
        if (vector := found.vectors.get(one.address) or _vector(one.record)) is not None
    }
    if not said:
        return {}
    to = FORMATS[found.format]
    made = _by_name(remade(heaped, own, to, {}, options), to)
    return {
        address: said[name]
        for name, (record, address) in made.items()
        if name in said and not record.keys() & _EMBEDDINGS
    }


def _vector(record: Mapping[str, Any]) -> Vector | None:
    if (beside := build.vector_of(record)) is not None:
        return beside
    said = next((record[name] for name in _EMBEDDINGS if name in record), None)
    if not isinstance(said, dict) or not isinstance(said.get("model"), str):
        return None
    data = raw.float32(said.get("vector"))
    return None if data is None else Vector(said["model"], data)


def _by_name(made: build.Made, format: Format) -> dict[Any, tuple[dict[str, Any], str]]:
    return {
        _name(format.arrays[pointer], record): (record, address)
        for pointer, array in made.arrays.items()
        for record, address in array
        if address
    }


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
