# SPDX-License-Identifier: Apache-2.0
"""Grains of any origin as a document of one format; and what went along in a document, back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats.across import mif_ld
from omsgrain.formats.across.bare import NOT_ASKED, bare
from omsgrain.formats.across.build import ARRAYS, Made, Options, build
from omsgrain.formats.across.carry import has_beside, load_up
from omsgrain.formats.across.gather import HUBS, Born, Heap, heap
from omsgrain.formats.across.names import AIMEM, MIF1, MIF2, MIF_LD
from omsgrain.formats.aimem import bundle, embedding
from omsgrain.formats.document import (
    KIND,
    Dump,
    Loss,
    Manifest,
    Vector,
    fill,
    open_manifest,
    spelled,
)
from omsgrain.formats.exact import spell
from omsgrain.formats.mif_ld.shape import Shape
from omsgrain.formats.raw import Get
from omsgrain.formats.source import KEY
from omsgrain.grain import Grain

__all__ = ["NOT_CHECKED", "SHAPE", "dump", "is_foreign", "remade", "tree", "with_vector"]

Records = dict[str, list[dict[str, Any]]]
NOT_CHECKED: Final = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError,
)  # fmt: skip
"""What a record raises that stands in a grain, and that nobody has checked as one."""
SHAPE: Final = "shape"
"""In the envelope of MIF in JSON-LD: the shape of what was made of grains that went along."""
_DOCUMENT: Final = f'"k":"{KIND}"'.encode()


def is_foreign(grains: Iterable[Grain], to: str) -> bool:
    """Whether a format's own writer does not know all of these grains.

    It knows a document of its own; that of AIMEM also records without one, and natives.
    """
    by_address = {grain.address: grain for grain in grains}
    own: Manifest | None = None
    for grain in by_address.values():
        said = grain.get(KEY)
        if not isinstance(said, bytes) or _DOCUMENT not in said[:64]:
            continue
        whole = open_manifest(grain, by_address.__getitem__)
        if whole is not None and whole.format == to:
            own = whole
    of = b'{"f":"%b"' % to.encode()
    if own is not None:
        listed = (one for array in own.arrays.values() for one in array)
        return any(not by_address[one].get(KEY, b"").startswith(of) for one in listed)
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
    """Make a document of grains of any origin.

    Args:
        grains: all that the document is to hold.
        vectors: embeddings by address.
        to: the format.
        embeddings: whether vectors leave; from AIMEM's bundles only when asked for.
        strict: nothing that the format does not name: the grains do not go along.
        producer: of AIMEM: the namespace of what gets an identifier.
        user_id: whose it is, if nothing says so, or something else does.
        exported_at: when it was made.
        exact: refuse to write it in another spelling than it had.
        layout: of MIF 1.0: ``json``, ``yaml`` or ``jsonl``; of MIF in JSON-LD ``document``,
            ``array``, ``lines``, ``corpus`` or ``markdown``.
        shape: of MIF in JSON-LD: that memories are to have; by default 0.1, and their own for
            those that are of this format already.
        passphrase: of MIF 1.0: encrypt it, so that this opens it.
        key: instead, 32 bytes as they are.

    Raises:
        SchemaError: there are several documents of one format, or a bundle is nobody's, or an
            option is of no use for the format.
        FormatError: a grain is not what it must be.
    """
    if to not in (MIF1, MIF_LD) and layout is not None:
        raise SchemaError("only MIF 1.0 and JSON-LD have layouts", field="/format", found=to)
    if to != MIF_LD and shape is not None:
        raise SchemaError("only MIF in JSON-LD has shapes", field="/shape", found=to)
    if to != MIF1 and (passphrase, key) != (None, None):
        raise SchemaError("only MIF 1.0 has encryption", field="/format", found=to)
    if to != AIMEM and producer is not None:
        raise SchemaError("only AIMEM has producers", field="/producer", found=to)
    given = Options(to != AIMEM if embeddings is None else embeddings, strict,
                    **_said(producer=producer, user=user_id, exported_at=exported_at,
                            shape=shape), beside=layout in (None, "corpus"))  # fmt: skip
    try:
        found = heap(grains)
        document, losses = tree(found, to, vectors, given)
    except NOT_CHECKED:
        raise FormatError("a grain is of a record that is none", rule="residual") from None
    own = _own(found, to)
    if exact and (own is None or (own.style is None and not own.text)):
        raise SchemaError("how the document was spelled was not kept when it was loaded")
    if to == MIF1:
        data = _mif1(document, own, layout, found.grains.__getitem__)
        if passphrase is not None or key is not None:
            from omsgrain.formats.mif1.envelope import seal_document

            data = seal_document(data, passphrase, key=key)
    elif to == MIF_LD:
        from omsgrain.formats.mif_ld.convert import in_shape, written

        losses = list(losses)
        document["memories"] = in_shape(document["memories"], shape, losses)
        form: Any = layout
        data, lost = written(document, own, form, found.grains.__getitem__)
        losses = [*losses, *lost]
    elif own is not None and to == MIF2:
        data = spelled(own, document, found.grains.__getitem__)
    else:
        data = spell(document)
    return Dump(data, losses)


def tree(
    found: Heap, to: str, vectors: Mapping[str, Vector], options: Options
) -> tuple[dict[str, Any], list[Loss]]:
    """Make a document, before it is spelled, and say what it does not hold.

    Args:
        found: the grains.
        to: the format.
        vectors: embeddings by address.
        options: how.
    """
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
        losses = [one for one in losses if one.reason == NOT_ASKED]
    arrays = {pointer: [record for record, _ in array] for pointer, array in made.arrays.items()}
    _add(arrays, found.records.get(to, ()), to, vectors, options)
    return _assembled(made.envelope, arrays, to), losses


def remade(
    found: Heap, own: Manifest | None, to: str, vectors: Mapping[str, Vector], options: Options
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
    options: Options,
) -> dict[str, Any]:
    """A document that is here, with records that were made for what is not of its format."""
    known = {one.address: one.record for one in found.records.get(to, ())}
    arrays: Records = {}
    for pointer, listed in own.arrays.items():
        at = {address: record for record, address in made.arrays.get(pointer, ()) if address}
        try:
            arrays[pointer] = [
                with_vector(known[one], one, to, vectors, options) if one in known else at[one]
                for one in listed
            ]
        except KeyError:
            raise SchemaError("a record of the document is none", field=pointer) from None
    return _together(own.envelope, arrays, to)


def _add(
    arrays: Records,
    records: Iterable[Born],
    to: str,
    vectors: Mapping[str, Vector],
    options: Options,
) -> None:
    """Records that are of the format already."""
    pointers = {kind: pointer for pointer, kind in ARRAYS[to].items()}
    for one in records:
        if (pointer := pointers.get(one.kind)) is not None:
            record = with_vector(one.record, one.address, to, vectors, options)
            arrays.setdefault(pointer, []).append(record)


def with_vector(
    record: dict[str, Any], address: str, to: str, vectors: Mapping[str, Vector], options: Options
) -> dict[str, Any]:
    """A chunk with its embedding, which stands in no grain."""
    if to != AIMEM or not options.embeddings or address not in vectors:
        return record
    return record | {"embedding": embedding.encode(vectors[address].data)}


# -- documents ------------------------------------------------------------------------------------


def _assembled(envelope: dict[str, Any], arrays: Records, to: str) -> dict[str, Any]:
    """A document of ours, with its checksum."""
    if to == AIMEM:
        return _together(envelope, arrays, to)
    if to == MIF_LD:
        return _together(envelope, arrays, to)
    for pointer in arrays:
        envelope = _with_room(envelope, pointer)
    if to == MIF2:
        from omsgrain.formats.mif2.document import sealed

        return sealed(_together(envelope, arrays, to))
    from omsgrain.formats.mif1 import checksum

    return checksum.sealed(_together(_counted(envelope, arrays), arrays, to))


def _together(envelope: dict[str, Any], arrays: Records, to: str) -> dict[str, Any]:
    if to == AIMEM:
        records: dict[Any, Any] = {ARRAYS[to][name]: array for name, array in arrays.items()}
        data = bundle.write(bundle.Bundle(envelope, records), arrays)
        document: dict[str, Any] = json.loads(data)
        return document
    if to == MIF2:
        return fill(envelope, arrays)
    if to == MIF_LD:
        return mif_ld.tree(envelope, arrays)
    from omsgrain.formats.mif1.document import together

    return together(envelope, arrays)


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


def _mif1(document: dict[str, Any], own: Manifest | None, layout: Any, get: Get) -> bytes:
    from omsgrain.formats.mif1 import layouts
    from omsgrain.formats.mif1.convert import spelled as as_it_was

    if own is not None and layout in (None, own.layout or "json"):
        return as_it_was(own, document, get)
    return layouts.spell(document, layout or "json")
