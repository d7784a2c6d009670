# SPDX-License-Identifier: Apache-2.0
"""Grains of any origin as a document of one format; and what went along in a document, back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from omsgrain.errors import SchemaError
from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem import fields
from omsgrain.formats.aimem.records import NO_TEXT
from omsgrain.formats.convert import mif_ld
from omsgrain.formats.convert.base import AIMEM, MIF1, MIF2, MIF_LD
from omsgrain.formats.convert.build import ARRAYS, BuildOptions, Made, build
from omsgrain.formats.convert.carry import has_beside, load_up
from omsgrain.formats.convert.gather import HUBS, NOT_ASKED, Born, Heap, bare, heap
from omsgrain.formats.document import (
    KIND,
    Added,
    Dump,
    Loss,
    Manifest,
    Vector,
    fill,
    open_manifest,
    parted,
    spelled,
)
from omsgrain.formats.json_text import spell
from omsgrain.formats.mif_ld.finding import Shape
from omsgrain.formats.source import KEY, Get, checking, getter
from omsgrain.grain import Grain

Records = dict[str, list[dict[str, Any]]]
"""By pointer of their array."""


def assembled(
    envelope: dict[str, Any], arrays: Records, to: str, *, summed: bool
) -> dict[str, Any]:
    """A document that is made anew."""
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
        data = bundle.write_bundle(bundle.Bundle(envelope, records), arrays)
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
    from omsgrain.formats.mif1.document import Metadata

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


SHAPE: Final = "shape"
"""In the envelope of MIF in JSON-LD: the shape of what was made of grains that went along."""
_DOCUMENT: Final = f'"k":"{KIND}"'.encode()


def is_foreign(grains: Iterable[Grain], to: str) -> bool:
    """Whether a format's own writer does not know all of these grains.

    It knows a document of its own; that of AIMEM also records without one, and natives.
    """
    by_address = {grain.address: grain for grain in grains}
    get = getter(by_address)
    own: Manifest | None = None
    for grain in by_address.values():
        said = grain.get(KEY)
        if not isinstance(said, bytes) or _DOCUMENT not in said[:64]:
            continue
        whole = open_manifest(grain, get)
        if whole is not None and whole.format == to:
            own = whole
    of = b'{"f":"%b"' % to.encode()
    if own is not None:
        listed = (one for array in own.arrays.values() for one in array)
        return any(not get(one).get(KEY, b"").startswith(of) for one in listed)
    if to != AIMEM:
        return True
    return any(not grain.get(KEY, of).startswith(of) for grain in by_address.values())


def dump(
    grains: Iterable[Grain],
    vectors: Mapping[str, Vector],
    to: str,
    *,
    embeddings: bool | None = None,
    strict: bool = False,
    producer: str | None = None,
    user_id: str | None = None,
    exported_at: str | None = None,
    exact: bool = False,
    layout: str | None = None,
    shape: Shape | None = None,
    passphrase: str | None = None,
    key: bytes | None = None,
) -> Dump:
    """Make a document of grains of any origin."""
    if to not in (MIF1, MIF_LD) and layout is not None:
        raise SchemaError("only MIF 1.0 and JSON-LD have layouts", field="/format", found=to)
    if to != MIF_LD and shape is not None:
        raise SchemaError("only MIF in JSON-LD has shapes", field="/shape", found=to)
    if to != MIF1 and (passphrase, key) != (None, None):
        raise SchemaError("only MIF 1.0 has encryption", field="/format", found=to)
    if to != AIMEM and producer is not None:
        raise SchemaError("only AIMEM has producers", field="/producer", found=to)
    given = BuildOptions(to != AIMEM if embeddings is None else embeddings, strict,
                    **_said(producer=producer, user=user_id, exported_at=exported_at,
                            shape=shape), beside=layout in (None, "corpus"))  # fmt: skip
    with checking():
        found = heap(grains)
        document, losses = tree(found, to, vectors, given)
    own = _own(found, to)
    if exact and (own is None or (own.style is None and not own.text)):
        raise SchemaError("how the document was spelled was not kept when it was loaded")
    with checking():
        data, lost = _spelled(document, own, to, layout, shape, exact, getter(found.grains))
    if passphrase is not None or key is not None:
        from omsgrain.formats.mif1.envelope import seal_document

        data = seal_document(data, passphrase, key=key)
    return Dump(data, *parted([*losses, *lost]))


def _spelled(
    document: dict[str, Any],
    own: Manifest | None,
    to: str,
    layout: Any,
    shape: Shape | None,
    exact: bool,
    get: Get,
) -> tuple[bytes, list[Loss]]:
    """The bytes of a document, and what its layout or its shape does not hold."""
    if to == MIF1:
        return _mif1(document, own, layout, exact, get), []
    if to == MIF_LD:
        from omsgrain.formats.mif_ld.convert import in_shape, written

        losses: list[Loss] = []
        document["memories"] = in_shape(document["memories"], shape, losses)
        data, lost = written(document, own, layout, get, exact=exact)
        return data, [*losses, *lost]
    if own is not None and to == MIF2:
        return spelled(own, document, get, exact=exact), []
    return spell(document), []


def tree(
    found: Heap, to: str, vectors: Mapping[str, Vector], options: BuildOptions
) -> tuple[dict[str, Any], list[Loss]]:
    """Make a document, before it is spelled, and say what it does not hold."""
    losses: list[Loss] = []
    if not options.embeddings:
        found, losses = bare(found)
    own = _own(found, to)
    made = remade(found, own, to, vectors, options)
    losses = losses + made.losses
    if own is not None:
        return _refilled(found, own, made, to, vectors, options), losses
    # Without what goes along beside memories, those that stand in them may be of no use.
    if not options.strict and (options.beside or not has_beside(made.envelope)):
        losses = [one for one in losses
                  if isinstance(one, Added) or one.reason in (NOT_ASKED, NO_TEXT)]  # fmt: skip
    arrays = {pointer: [record for record, _ in array] for pointer, array in made.arrays.items()}
    _add(arrays, found.records.get(to, ()), to, vectors, options)
    return assembled(made.envelope, arrays, to, summed=options.checksum), losses


def shell(
    grains: Mapping[str, Grain], to: str, options: BuildOptions, pointers: Iterable[str]
) -> dict[str, Any]:
    """A document of MIF whose records are all of its own format, and are put there since."""
    made = build(Heap(dict(grains), [], {}, [], []), to, {}, options)
    arrays: Records = {pointer: [] for pointer in (*made.arrays, *pointers)}
    return assembled(made.envelope, arrays, to, summed=options.checksum)


def remade(
    found: Heap,
    own: Manifest | None,
    to: str,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> Made:
    """Make records of grains, as they were made for a document that is here if one is."""
    if own is not None:
        document = HUBS[to].read([], own.envelope).document
        producer = own.envelope.get("producer") if to == AIMEM else None
        shape = options.shape or (own.envelope.get(SHAPE) if to == MIF_LD else None)
        options = replace(options, **_said(producer=producer, user=document.user, shape=shape,
                                           exported_at=document.exported_at))  # fmt: skip
    made = build(found, to, vectors, options)
    if not options.strict:
        load_up(made, found, to, vectors if options.embeddings else {})
    return made


def _said(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _own(found: Heap, to: str) -> Manifest | None:
    return next((one for one in found.manifests if one.format == to), None)


def _refilled(
    found: Heap,
    own: Manifest,
    made: Made,
    to: str,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> dict[str, Any]:
    """A document that is here, with records that were made for what is not of its format."""
    known = {one.address: one.record for one in found.records.get(to, ())}
    arrays: Records = {}
    for pointer, listed in own.arrays.items():
        at: dict[str, list[dict[str, Any]]] = {}  # of what stands twice, one for each place
        for record, address in reversed(made.arrays.get(pointer, ())):
            at.setdefault(address, []).append(record)
        try:
            arrays[pointer] = [
                with_vector(known[one], one, to, vectors, options)
                if one in known
                else _next(at[one])
                for one in listed
            ]
        except KeyError:
            raise SchemaError("a record of the document is none", field=pointer) from None
    return together(own.envelope, arrays, to)


def _next(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The next of what stands in several places; the last of it, however often it is asked for."""
    return records.pop() if len(records) > 1 else records[0]


def _add(
    arrays: Records,
    records: Iterable[Born],
    to: str,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> None:
    """Records that are of the format already."""
    pointers = {kind: pointer for pointer, kind in ARRAYS[to].items()}
    for one in records:
        if (pointer := pointers.get(one.kind)) is not None:
            record = with_vector(one.record, one.address, to, vectors, options)
            arrays.setdefault(pointer, []).append(record)


def with_vector(
    record: dict[str, Any],
    address: str,
    to: str,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> dict[str, Any]:
    """A chunk with its embedding, which stands in no grain."""
    if to != AIMEM or not options.embeddings or address not in vectors:
        return record
    return record | {"embedding": fields.encode(vectors[address].data)}


def _mif1(
    document: dict[str, Any], own: Manifest | None, layout: Any, exact: bool, get: Get
) -> bytes:
    from omsgrain.formats.mif1 import document as layouts
    from omsgrain.formats.mif1.convert import spelled as as_it_was

    if own is not None and layout in (None, own.layout or "json"):
        return as_it_was(own, document, get, exact=exact)
    return layouts.spell(document, layout or "json")
