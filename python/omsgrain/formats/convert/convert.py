# SPDX-License-Identifier: Apache-2.0
"""Grains of any origin as a document of one format; and what went along in a document, back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from omsgrain.errors import SchemaError
from omsgrain.formats.aimem.records import NO_TEXT
from omsgrain.formats.base import Format, Records
from omsgrain.formats.convert.base import NOT_ASKED, BuildOptions
from omsgrain.formats.convert.build import Made, build
from omsgrain.formats.convert.carry import has_beside, load_up
from omsgrain.formats.convert.gather import Born, Heap, bare, heap
from omsgrain.formats.document import (
    KIND,
    Added,
    Dump,
    Loss,
    Manifest,
    Vector,
    open_manifest,
    parted,
)
from omsgrain.formats.mif_ld.finding import Shape
from omsgrain.formats.records import Record
from omsgrain.formats.source import KEY, checking, getter
from omsgrain.grain import Grain

_DOCUMENT: Final = f'"k":"{KIND}"'.encode()


def is_foreign(grains: Iterable[Grain], to: Format) -> bool:
    """Whether a format's own writer does not know all of these grains.

    It knows a document of its own; some also know records without one, and natives.
    """
    by_address = {grain.address: grain for grain in grains}
    get = getter(by_address)
    own: Manifest | None = None
    for grain in by_address.values():
        said = grain.get(KEY)
        if not isinstance(said, bytes) or _DOCUMENT not in said[:64]:
            continue
        whole = open_manifest(grain, get)
        if whole is not None and whole.format == to.name:
            own = whole
    of = b'{"f":"%b"' % to.name.encode()
    if own is not None:
        listed = (one for array in own.arrays.values() for one in array)
        return any(not get(one).get(KEY, b"").startswith(of) for one in listed)
    if not to.takes_natives:
        return True
    return any(not grain.get(KEY, of).startswith(of) for grain in by_address.values())


def dump(
    grains: Iterable[Grain],
    vectors: Mapping[str, Vector],
    to: Format,
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
    to.refuse(layout=layout, shape=shape, passphrase=passphrase, key=key, producer=producer)
    given = BuildOptions(to.embeddings if embeddings is None else embeddings, strict,
                    **_said(producer=producer, user=user_id, exported_at=exported_at,
                            shape=shape), beside=layout in (None, "corpus"))  # fmt: skip
    with checking():
        found = heap(grains)
        document, losses = tree(found, to, vectors, given)
    own = _own(found, to)
    if exact and (own is None or (own.style is None and not own.text)):
        raise SchemaError("how the document was spelled was not kept when it was loaded")
    with checking():
        data, lost = to.spelled(document, own, layout=layout, shape=shape, exact=exact,
                                get=getter(found.grains))  # fmt: skip
    if passphrase is not None or key is not None:
        data = to.seal(data, passphrase, key)
    return Dump(data, *parted([*losses, *lost]))


def tree(
    found: Heap, to: Format, vectors: Mapping[str, Vector], options: BuildOptions
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
    _add(arrays, found.records.get(to.name, ()), to, vectors, options)
    return to.assembled(made.envelope, arrays, summed=options.checksum), losses


def shell(
    grains: Mapping[str, Grain], to: Format, options: BuildOptions, pointers: Iterable[str]
) -> dict[str, Any]:
    """A document of MIF whose records are all of its own format, and are put there since."""
    made = build(Heap(dict(grains), [], {}, [], []), to, {}, options)
    arrays: Records = {pointer: [] for pointer in (*made.arrays, *pointers)}
    return to.assembled(made.envelope, arrays, summed=options.checksum)


def remade(
    found: Heap,
    own: Manifest | None,
    to: Format,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> Made:
    """Make records of grains, as they were made for a document that is here if one is."""
    if own is not None:
        document = to.hub.read([], own.envelope).document
        kept = to.kept_options(own.envelope) | _said(shape=options.shape)
        options = replace(options, **kept, **_said(user=document.user,
                                                   exported_at=document.exported_at))  # fmt: skip
    made = build(found, to, vectors, options)
    if not options.strict:
        load_up(made, found, to, vectors if options.embeddings else {})
    return made


def _said(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _own(found: Heap, to: Format) -> Manifest | None:
    return next((one for one in found.manifests if one.format == to.name), None)


def _refilled(
    found: Heap,
    own: Manifest,
    made: Made,
    to: Format,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> dict[str, Any]:
    """A document that is here, with records that were made for what is not of its format."""
    known = {one.address: one.record for one in found.records.get(to.name, ())}
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
    return to.together(own.envelope, arrays)


def _next(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The next of what stands in several places; the last of it, however often it is asked for."""
    return records.pop() if len(records) > 1 else records[0]


def _add(
    arrays: Records,
    records: Iterable[Born],
    to: Format,
    vectors: Mapping[str, Vector],
    options: BuildOptions,
) -> None:
    """Records that are of the format already."""
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
    """A record with its embedding, where that stands in no grain."""
    if not options.embeddings or address not in vectors:
        return record
    return to.with_vector(record, vectors[address].data)
