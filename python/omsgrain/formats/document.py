# SPDX-License-Identifier: Apache-2.0
"""A whole document as grains: its records, and a manifest of what stood around them.

The manifest is a State grain. Its side channel holds the envelope; pages beside it, State grains
too, list the addresses of the records of each array in their order, those that stand twice twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from omsgrain.errors import FormatError
from omsgrain.formats import raw
from omsgrain.formats.problems import Problem
from omsgrain.formats.source import KEY, Source, apply
from omsgrain.grain import Grain, make

__all__ = ["KIND", "Dump", "Import", "Loss", "Manifest", "Vector", "manifest", "open_manifest"]

KIND: Final = "document"
_MANIFEST: Final = "omsgrain:document"
_PAGE: Final = "omsgrain:document-page"
_ADDRESSES = "x_addresses"
_PAGES = "x_pages"
_DIGEST = 32
_A_PAGE = 25_000  # addresses, 800 KB
_LARGEST = 600_000  # characters of an envelope in the manifest itself


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
class Import:
    """A document as grains.

    Attributes:
        format: what it was.
        grains: the records, what belongs to them, and at the end the manifest.
        vectors: the embeddings, by address of the record's grain.
        warnings: what was taken although it looks wrong.
    """

    format: str
    grains: list[Grain]
    vectors: dict[str, Vector] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Dump:
    """A document that was written.

    Attributes:
        data: its bytes.
        losses: what it cannot hold of the grains.
    """

    data: bytes
    losses: list[Loss]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What stood around the records of a document.

    Attributes:
        format: what it was.
        id: by what the document is known.
        envelope: all of it but the arrays.
        arrays: the addresses of the records, by name of the array, in order.
    """

    format: str
    id: str
    envelope: dict[str, Any]
    arrays: dict[str, list[str]]


def manifest(found: Manifest, *, created_at: int, user_id: str | None) -> list[Grain]:
    """Make the grains of a manifest: what it names first, the manifest itself last.

    Args:
        found: what it says.
        created_at: ms since 1970.
        user_id: whose document it is.
    """
    base: dict[str, Any] = {"type": "state", "created_at": created_at, "namespace": found.format}
    if user_id is not None:
        base["user_id"] = user_id
    pages = [
        make(base | {"context": context, _ADDRESSES: digests})
        for context, digests in _paged(found.arrays)
    ]
    text = json.dumps(found.envelope, separators=(",", ":")).encode("ascii")
    parts: list[Grain] = []
    if len(text) > _LARGEST:
        parts = raw.split(text, created_at=created_at, user_id=user_id)
    residual = None if parts else {"=": found.envelope}
    addresses = tuple(part.address for part in parts)
    source = Source(found.format, KIND, found.id, residual, addresses)
    listed = b"".join(bytes.fromhex(page.address) for page in pages)
    context = {"kind": _MANIFEST, "format": found.format}
    whole = make(base | {"context": context, KEY: source.to_bytes(), _PAGES: listed})
    return [*parts, *pages, whole]


def open_manifest(grain: Grain, get: raw.Get) -> Manifest | None:
    """Read a manifest; None if this grain is none.

    Args:
        grain: any.
        get: gives the grains that it names.

    Raises:
        FormatError: one of them is not what it must be.
        NotFoundError: one is not there.
    """
    source = Source.of(grain)
    listed = grain.get(_PAGES)
    if source is None or source.kind != KIND or not isinstance(listed, bytes):
        return None
    if source.parts:
        envelope = json.loads(raw.gather(source.parts, get))
    else:
        envelope = apply({}, source.residual)
    arrays: dict[str, list[str]] = {}
    for address in _addresses(listed):
        page = get(address)
        context, digests = page.get("context"), page.get(_ADDRESSES)
        if not isinstance(context, Mapping) or not isinstance(digests, bytes):
            raise FormatError("a page of a document lists nothing", rule="manifest")
        arrays.setdefault(str(context.get("array")), []).extend(_addresses(digests))
    return Manifest(source.format, source.id, envelope, arrays)


def _paged(arrays: Mapping[str, list[str]]) -> Iterator[tuple[dict[str, Any], bytes]]:
    for name, addresses in arrays.items():
        for at in range(0, max(len(addresses), 1), _A_PAGE):
            digests = b"".join(map(bytes.fromhex, addresses[at : at + _A_PAGE]))
            yield {"kind": _PAGE, "array": name, "page": at // _A_PAGE}, digests


def _addresses(digests: bytes) -> list[str]:
    if len(digests) % _DIGEST:
        raise FormatError("a list of addresses ends in the middle of one", rule="manifest")
    return [digests[at : at + _DIGEST].hex() for at in range(0, len(digests), _DIGEST)]
