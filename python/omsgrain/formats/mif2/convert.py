# SPDX-License-Identifier: Apache-2.0
"""A document as grains, and grains as a document, without a store."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from omsgrain.errors import NotFoundError, SchemaError
from omsgrain.formats import reading, times
from omsgrain.formats.document import (
    Dump,
    Import,
    Loss,
    Manifest,
    Vector,
    fill,
    manifest,
    open_manifest,
    spelled,
)
from omsgrain.formats.exact import style_of
from omsgrain.formats.mif2 import document as documents
from omsgrain.formats.mif2.document import Document
from omsgrain.formats.mif2.fields import FORMAT
from omsgrain.formats.mif2.limits import LIMITS, NAME, Limits
from omsgrain.formats.mif2.records import TABLE
from omsgrain.formats.mif2.rules import WARNINGS
from omsgrain.formats.mif2.values import name
from omsgrain.formats.packed import float32
from omsgrain.formats.problems import Problem
from omsgrain.formats.records import Built
from omsgrain.formats.texts import drained
from omsgrain.grain import Grain

__all__ = ["dump", "load"]


def load(
    data: bytes, *, user_id: str | None = None, limits: Limits = LIMITS, exact: bool = False
) -> Import:
    """Make grains of a document; a bad record is left out, and told in ``problems``.

    Args:
        data: the document.
        user_id: whose memories they are; by default whom ``export_meta`` names.
        limits: what is taken.
        exact: keep how the document is spelled too, so that it can be given back to the byte.

    Raises:
        DocumentError: it is none, or what stands around its records breaks a rule.
    """
    read = reading.parse(data, most=limits.document, depth=limits.depth)
    style = style_of(data, read) if exact else None
    found = documents.of_dict(read)
    del read  # or all of it would stay until the end
    owner, warnings = _owner(found, user_id)
    grains: dict[str, Grain] = {}
    arrays: dict[str, list[str]] = {}
    vectors: dict[str, Vector] = {}
    for pointer, records in found.records.items():
        listed = arrays[pointer] = []
        for page in drained(records):
            for item, one in zip(page, _built(page, owner), strict=True):
                listed.append(one.grain.address)
                grains.update((part.address, part) for part in one.parts)
                grains[one.grain.address] = one.grain
                if item.kind == "memory" and item.of is None:
                    if (vector := _vector(item.value)) is not None:
                        vectors[one.grain.address] = vector
    meta = found.envelope.get("export_meta", {})
    made = times.parse(meta.get("created_at", ""), floating=True)
    known = name(meta.get("id")) or f"sha256:{sha256(data).hexdigest()}"
    whole = Manifest(FORMAT, known, found.envelope, arrays, style)
    text = data if exact and style is None else None
    more = manifest(whole, created_at=times.of_grain(made), user_id=owner, text=text)
    return Import(FORMAT, [*grains.values(), *more], vectors, warnings, found.problems)


def dump(
    grains: Iterable[Grain],
    vectors: Mapping[str, Vector] | None = None,
    *,
    embeddings: bool = True,
    exact: bool = False,
) -> Dump:
    """Make a document of grains that were one; it comes back as it was.

    Args:
        grains: what ``load`` gave; the manifest must be among them.
        vectors: not asked: a record's own vector is in its grain, to the last digit.
        embeddings: whether vectors leave.
        exact: refuse to write it in another spelling than it had.

    Raises:
        SchemaError: no document is among the grains, or several; or how it was spelled was not
            kept.
        FormatError: a grain is not what it must be.
        NotFoundError: a grain that the document is made of is not among these.
    """
    by_address = {grain.address: grain for grain in grains}

    def get(address: str) -> Grain:
        if address not in by_address:
            raise NotFoundError("a grain of the document is missing", field=f"/{address}")
        return by_address[address]

    opened = (open_manifest(grain, get) for grain in by_address.values())
    found = [one for one in opened if one is not None and one.format == FORMAT]
    if len(found) != 1:
        raise SchemaError("a document is one", expected="1", found=f"{len(found)} documents")
    if exact and found[0].style is None and not found[0].text:
        raise SchemaError("how the document was spelled was not kept when it was loaded")
    losses: list[Loss] = []

    def record(address: str) -> Any:
        born = TABLE.from_grain(get(address), get)
        if born is None:
            raise SchemaError("a record of the document is none", field=f"/{address}")
        kind, value = born
        if kind == "memory" and "embeddings" in value and not embeddings:
            losses.append(Loss(value["id"], "embeddings", "embeddings were not asked for"))
            return {key: one for key, one in value.items() if key != "embeddings"}
        return documents.bare(kind, value)

    arrays = {place: [record(one) for one in listed] for place, listed in found[0].arrays.items()}
    return Dump(spelled(found[0], fill(found[0].envelope, arrays), get), losses)


def _built(records: list[documents.Item], owner: str | None) -> list[Built]:
    """The grains of an array. A memory whose content stood before is kept without being one."""
    plain = ((one.kind, one.value) for one in records if one.of is None)
    made = iter(TABLE.to_grains(plain, owner=owner))
    return [
        next(made)
        if one.of is None
        else TABLE.to_duplicate(one.kind, one.value, of=_taken(one.of) or "-", owner=owner)
        for one in records
    ]


def _vector(record: Mapping[str, Any]) -> Vector | None:
    """What is searched of an embedding; None if there is none, or not one of its own length."""
    told = record.get("embeddings")
    if told is None or told["dimensions"] != len(told["vector"]):
        return None
    data = float32(told["vector"])
    return None if data is None else Vector(told["model"], data)


def _owner(found: Document, user_id: str | None) -> tuple[str | None, tuple[Problem, ...]]:
    """Whose the grains are, and the warnings."""
    said = found.envelope.get("export_meta", {}).get("user_id") or None
    if user_id is not None or said is None:
        return user_id, found.warnings
    if len(said) <= NAME and not said.startswith("\ufeff"):
        return unicodedata.normalize("NFC", said), found.warnings
    says, where = WARNINGS["owner_not_kept"].says, "/export_meta/user_id"
    return None, (*found.warnings, Problem("owner_not_kept", where, says))


def _taken(text: str) -> str:
    """A name as a grain takes it."""
    return unicodedata.normalize("NFC", text.lstrip("\ufeff")[:NAME])
