# SPDX-License-Identifier: Apache-2.0
"""A whole document as grains: its records, and a manifest of what stood around them.

The manifest is a State grain. Its side channel holds the envelope; pages beside it, State grains
too, list the addresses of the records of each array in their order, those that stand twice twice.

An array is known by its JSON pointer in the envelope, where it stands empty, as `arrays` leaves
it; those of AIMEM by their names alone.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats import source as raw
from omsgrain.formats.json_text import (
    COMPACT,
    JsonTexts,
    Style,
    drained,
    spell,
    steps_of,
    value_at,
)
from omsgrain.formats.problems import Problem
from omsgrain.formats.records import NAME, BuiltGrain, RecordTable
from omsgrain.formats.source import KEY, NOT_CHECKED, Source, apply, float32, same
from omsgrain.formats.source import spell as spell_plain
from omsgrain.grain import Grain, make

KIND: Final = "document"
_MANIFEST: Final = "omsgrain:document"
_PAGE: Final = "omsgrain:document-page"
_ADDRESSES = "x_addresses"
_PAGES = "x_pages"
_STYLE = "x_style"
_TEXT = "x_text"
_LAYOUT = "x_layout"
_KEYED = "x_keyed"
_KEYED_IN = "x_keyed_in"
_DIGEST = 32
CHANGED: Final = "the document was changed, so its exact text is gone"
NOT_EXACT: Final = "the document was loaded without its exact text; load it with exact=True"
_A_PAGE = 25_000  # addresses, 800 KB
_LARGEST = 600_000  # characters of an envelope in the manifest itself
_LISTED = 100_000  # characters of ids in it


class Vector(NamedTuple):
    """The embedding of a record: its model, and float32, little-endian, as they came."""

    model: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that the other format cannot hold.

    Attributes:
        record: the id of the record, or the address of the grain.
        field: what is lost.
        reason: why, in one sentence.
    """

    record: str
    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Added(Loss):
    """A value that the other format needs and nothing said; arguments are those of `Loss`."""


def parted(found: Iterable[Loss]) -> tuple[list[Loss], list[Added]]:
    lost: list[Loss] = []
    added: list[Added] = []
    for one in found:
        if isinstance(one, Added):
            added.append(one)
        else:
            lost.append(one)
    return lost, added


@dataclass(frozen=True, slots=True)
class Import:
    """A document as grains.

    Attributes:
        format: what it was.
        grains: the records, what belongs to them, and at the end the manifest.
        vectors: the embeddings, by address of the record's grain.
        warnings: what was accepted although it looks wrong.
        problems: the records that were not taken, each with its pointer, and why.
        dropped: what was left out of the records that were taken.
        places: where a format has no arrays of its own, of each record its pointer in the file or
            directory; an empty one is that of the whole file.
        origin: the format of another system that was translated into ``format``.
        pointers: where it was translated, the place of each record in the file, by its pointer.
    """

    format: str
    grains: list[Grain]
    vectors: dict[str, Vector] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()
    dropped: tuple[Problem, ...] = ()
    places: tuple[str, ...] = ()
    origin: str | None = None
    pointers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dump:
    """A document that was written.

    Attributes:
        data: its bytes.
        losses: what it cannot hold of the grains.
        added: what it needs and the grains do not say.
    """

    data: bytes
    losses: list[Loss]
    added: list[Added] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A document without its records."""

    format: str  # what it was
    id: str  # by what the document is known
    envelope: dict[str, Any]  # all of it but the records
    arrays: dict[str, list[str]]  # the addresses of the records, by pointer of the array, in order
    # how its text was spelled, if that was asked for and can be said so
    style: Style | None = None
    # addresses of the grains that hold its text, if that was asked for and cannot
    text: tuple[str, ...] = ()
    layout: str | None = None  # how it was laid out, where its format has several layouts


def manifest(
    found: Manifest,
    *,
    created_at: int,
    user_id: str | None,
    text: bytes | None = None,
    keyed: Iterable[str] = (),
) -> list[Grain]:
    """Make the grains of a manifest: what it names first, the manifest itself last."""
    base: dict[str, Any] = {"type": "state", "created_at": created_at, "namespace": found.format}
    if user_id is not None:
        base["user_id"] = user_id
    pages = [
        make(base | {"context": context, _ADDRESSES: digests})
        for context, digests in _paged(found.arrays)
    ]
    envelope = spell_plain(found.envelope)
    parts: list[Grain] = []
    if len(envelope) > _LARGEST:
        parts = raw.split(envelope, created_at=created_at, user_id=user_id)
    residual = None if parts else {"=": found.envelope}
    addresses = tuple(part.address for part in parts)
    source = Source(found.format, KIND, found.id, residual, addresses)
    context = {"kind": _MANIFEST, "format": found.format}
    whole = base | {"context": context, KEY: source.to_bytes(), _PAGES: _digests(pages)}
    if found.style is not None:
        whole[_STYLE] = json.dumps(found.style).encode("ascii")
    if found.layout is not None:
        whole[_LAYOUT] = found.layout
    kept: list[Grain] = []
    if text is not None:
        kept = raw.split(text, created_at=created_at, user_id=user_id)
        whole[_TEXT] = _digests(kept)
    if ids := sorted(keyed):
        spelled_ids = spell_plain(ids)
        if len(spelled_ids) <= _LISTED:
            whole[_KEYED] = spelled_ids
        else:
            more = raw.split(spelled_ids, created_at=created_at, user_id=user_id)
            whole[_KEYED_IN] = _digests(more)
            kept += more
    return [*parts, *pages, *kept, make(whole)]


def open_manifest(grain: Grain, get: raw.Get) -> Manifest | None:
    listed = grain.get(_PAGES)
    if not isinstance(listed, bytes):  # as of nearly every grain
        return None
    source = Source.of(grain)
    if source is None or source.kind != KIND:
        return None
    if source.parts:
        envelope = _read(raw.gather(source.parts, get))
    else:
        envelope = apply({}, source.residual)
    if not isinstance(envelope, dict):
        raise FormatError("the envelope in the manifest is not an object", rule="manifest")
    arrays: dict[str, list[str]] = {}
    for address in _addresses(listed):
        page = get(address)
        context, digests = page.get("context"), page.get(_ADDRESSES)
        if not isinstance(context, Mapping) or not isinstance(digests, bytes):
            raise FormatError("a page of the manifest lists no addresses", rule="manifest")
        arrays.setdefault(str(context.get("array")), []).extend(_addresses(digests))
    style, text, layout = grain.get(_STYLE), grain.get(_TEXT), grain.get(_LAYOUT)
    return Manifest(
        source.format,
        source.id,
        envelope,
        arrays,
        Style.of(_read(style)) if isinstance(style, bytes) else None,
        tuple(_addresses(text)) if isinstance(text, bytes) else (),
        layout if isinstance(layout, str) else None,
    )


def keyed(grain: Grain, get: raw.Get) -> frozenset[str]:
    """The ids of a document's records under which other systems say something in its envelope."""
    said, apart = grain.get(_KEYED), grain.get(_KEYED_IN)
    if isinstance(apart, bytes):
        said = raw.gather(_addresses(apart), get)
    ids = _read(said) if isinstance(said, bytes) else []
    if not isinstance(ids, list):
        raise FormatError("the list of ids in the manifest is malformed", rule="manifest")
    return frozenset(one for one in ids if isinstance(one, str))


def beside(grain: Grain) -> list[str]:
    """The addresses of what a manifest holds in other grains and lists nowhere else."""
    source = Source.of(grain)
    apart = [grain.get(name) for name in (_TEXT, _KEYED_IN)]
    own = [one for said in apart if isinstance(said, bytes) for one in _addresses(said)]
    return [*(() if source is None else source.parts), *own]


def check_exact(found: Manifest | None, *, exact: bool, changed: bool = False) -> None:
    """Refuse to write a document as it was spelled, if that was not kept or is not wanted."""
    if exact and (found is None or changed or (found.style is None and not found.text)):
        raise SchemaError(NOT_EXACT)


def spelled(
    found: Manifest,
    document: Any,
    get: raw.Get,
    *,
    exact: bool = False,
    read: Callable[[bytes], Any] | None = None,
    write: Callable[[Any], bytes] | None = None,
) -> bytes:
    """Write a document as the one that was imported was written, as far as that was kept.

    One that is not laid out as JSON has functions of its own.
    """
    if found.text:
        text = raw.gather(found.text, get)
        # A document that was changed since has a new text.
        if same((read or _read)(text), document):
            return text
        if exact:
            raise SchemaError(CHANGED, field="/exact")
    return spell(document, found.style or COMPACT) if write is None else write(document)


def _read(data: bytes) -> Any:
    """JSON that a manifest holds; anyone may have written it."""
    try:
        return json.loads(data)
    except NOT_CHECKED:
        raise FormatError("a part of a manifest is not JSON", rule="manifest") from None


def _paged(arrays: Mapping[str, list[str]]) -> Iterator[tuple[dict[str, Any], bytes]]:
    for name, addresses in arrays.items():
        for at in range(0, max(len(addresses), 1), _A_PAGE):
            digests = b"".join(map(bytes.fromhex, addresses[at : at + _A_PAGE]))
            yield {"kind": _PAGE, "array": name, "page": at // _A_PAGE}, digests


def _digests(grains: Iterable[Grain]) -> bytes:
    return b"".join(bytes.fromhex(grain.address) for grain in grains)


def _addresses(digests: bytes) -> list[str]:
    if len(digests) % _DIGEST:
        raise FormatError("a list of addresses is cut off", rule="manifest")
    return [digests[at : at + _DIGEST].hex() for at in range(0, len(digests), _DIGEST)]


def lift(
    document: dict[str, Any], pointers: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    envelope: dict[str, Any] = document
    arrays: dict[str, Any] = {}
    for pointer in pointers:
        array = value_at(document, pointer)
        if isinstance(array, list | JsonTexts):
            arrays[pointer] = array
            envelope = _with(envelope, pointer, [])
    return envelope, arrays


def fill(envelope: dict[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Put the arrays of records into a document again; the other way of `lift`."""
    document = envelope
    for pointer, array in arrays.items():
        if not isinstance(value_at(envelope, pointer), list):
            raise FormatError(
                "the envelope has no array of records there", field=pointer, rule="manifest"
            )
        document = _with(document, pointer, array)
    return document


def _with(document: dict[str, Any], pointer: str, array: Any) -> dict[str, Any]:
    """The document with another array; only what leads to it is copied."""
    *way, last = steps_of(pointer)
    whole = place = dict(document)
    for key in way:
        place[key] = dict(place[key])
        place = place[key]
    place[last] = array
    return whole


class RecordItem(NamedTuple):
    kind: str  # of what kind it is
    value: dict[str, Any]  # the value there; a value of an unknown kind is ``{"value": it}``
    of: str | None = None  # the id of a memory before this one that has the same content


class GatheredRecords(NamedTuple):
    grains: dict[str, Grain]  # by address, each record's own and its parts
    arrays: dict[str, list[str]]  # the addresses of the records, by pointer of the array, in order
    vectors: dict[str, Vector]  # the embeddings, by address of the record's grain


def gathered(
    table: RecordTable,
    arrays: Mapping[str, list[RecordItem]],
    owner: str | None,
    vector: Callable[[RecordItem], Vector | None],
) -> GatheredRecords:
    """Make grains of the records of a document."""
    found = GatheredRecords({}, {}, {})
    for pointer, items in arrays.items():
        listed: list[str] = []
        found.arrays[pointer] = listed
        for page in drained(items):
            for item, one in zip(page, _built(table, page, owner), strict=True):
                for part in one.parts:
                    found.grains[part.address] = part
                address = one.grain.address
                found.grains[address] = one.grain
                listed.append(address)
                if (searched := vector(item)) is not None:
                    found.vectors[address] = searched
    return found


def _built(table: RecordTable, items: Sequence[RecordItem], owner: str | None) -> list[BuiltGrain]:
    """The grains of an array. A memory whose content stood before is kept without being one."""
    plain = ((one.kind, one.value) for one in items if one.of is None)
    made = iter(table.to_grains(plain, owner=owner))
    return [
        next(made)
        if one.of is None
        else table.to_duplicate(one.kind, one.value, of=_taken(one.of) or "-", owner=owner)
        for one in items
    ]


def vector_of(told: Any) -> Vector | None:
    """The vector of an embedding; None if there is none, or one of another length."""
    if not isinstance(told, dict) or not isinstance(told.get("model"), str):
        return None
    vector = told.get("vector")
    if not isinstance(vector, list) or told.get("dimensions", len(vector)) != len(vector):
        return None
    data = float32(vector)
    return None if data is None else Vector(told["model"], data)


def bare(kind: str, record: dict[str, Any]) -> Any:
    """The value of a record in its document."""
    return record.get("value") if kind == "other" else record


def owner_of(said: Any, user_id: str | None) -> tuple[str | None, bool]:
    """The owner of the grains, and whether no grain can have the name of the document's user."""
    if user_id is not None or not isinstance(said, str) or not said:
        return user_id, False
    if len(said) <= NAME and not said.startswith("\ufeff"):
        return unicodedata.normalize("NFC", said), False
    return None, True


def _taken(name: str) -> str:
    """A name as a grain takes it."""
    return unicodedata.normalize("NFC", name.lstrip("\ufeff")[:NAME])
