# SPDX-License-Identifier: Apache-2.0
"""A document as grains, and grains as a document, without a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omsgrain.errors import SchemaError
from omsgrain.formats import json_text, times
from omsgrain.formats.checksums import of_bytes
from omsgrain.formats.document import (
    Dump,
    Import,
    Loss,
    Manifest,
    RecordItem,
    Vector,
    bare,
    fill,
    gathered,
    manifest,
    owner_of,
    spelled,
    the_one,
    vector_of,
)
from omsgrain.formats.json_text import style_of
from omsgrain.formats.mif2 import document as documents
from omsgrain.formats.mif2.check import FORMAT, LIMITS, WARNINGS, Mif2Limits, name
from omsgrain.formats.mif2.checksum import current
from omsgrain.formats.mif2.records import TABLE
from omsgrain.formats.problems import Problem
from omsgrain.formats.source import getter
from omsgrain.grain import Grain


def load(
    data: bytes, *, user_id: str | None = None, limits: Mif2Limits = LIMITS, exact: bool = False
) -> Import:
    """Make grains of a document; a bad record is left out, and told in ``problems``."""
    read = json_text.parse(data, most=limits.document, depth=limits.depth, values=limits.values)
    style = style_of(data, read) if exact else None
    found = documents.of_dict(read)
    del read  # or all of it would stay until the end
    meta, warnings = found.envelope.get("export_meta", {}), found.warnings
    owner, unnamed = owner_of(meta.get("user_id"), user_id)
    if unnamed:
        says, where = WARNINGS["owner_not_kept"].says, "/export_meta/user_id"
        warnings = (*warnings, Problem("owner_not_kept", where, says))
    made = gathered(TABLE, found.records, owner, _vector)
    when = times.parse(meta.get("created_at", ""), floating=True)
    known = name(meta.get("id")) or of_bytes(data)
    whole = Manifest(FORMAT, known, found.envelope, made.arrays, style)
    text = data if exact and style is None else None
    more = manifest(whole, created_at=times.of_grain(when), user_id=owner, text=text)
    return Import(FORMAT, [*made.grains.values(), *more], made.vectors, warnings, found.problems)


def dump(
    grains: Iterable[Grain],
    vectors: Mapping[str, Vector] | None = None,
    *,
    embeddings: bool = True,
    exact: bool = False,
) -> Dump:
    """Make a document of grains that were one; it comes back as it was."""
    by_address = {grain.address: grain for grain in grains}
    get = getter(by_address)
    found = the_one(by_address.values(), FORMAT, get)
    if exact and found.style is None and not found.text:
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
        return bare(kind, value)

    arrays = {place: [record(one) for one in listed] for place, listed in found.arrays.items()}
    return Dump(spelled(found, current(fill(found.envelope, arrays)), get, exact=exact), losses)


def _vector(item: RecordItem) -> Vector | None:
    if item.kind != "memory" or item.of is not None:
        return None
    told = item.value.get("embeddings")
    return None if told is None else vector_of(told)
