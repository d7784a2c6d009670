# SPDX-License-Identifier: Apache-2.0
"""A bundle as grains, and grains as a bundle, without a store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats import source
from omsgrain.formats.aimem import (
    document,
    fields,
)
from omsgrain.formats.aimem.document import Bundle
from omsgrain.formats.aimem.fields import ARRAYS, FORMAT, LIMITS, VERSION, AimemLimits, Kind
from omsgrain.formats.aimem.records import FORMAT as SOURCE
from omsgrain.formats.aimem.records import from_grain, native, to_grains
from omsgrain.formats.document import (
    Dump,
    Import,
    Loss,
    Manifest,
    Vector,
    manifest,
    open_manifest,
    parted,
)
from omsgrain.grain import Grain


def load(data: bytes, *, limits: AimemLimits = LIMITS) -> Import:
    """Make grains of a bundle."""
    read = document.read_bundle(data, limits)
    tenant: str = read.envelope["tenant_id"]
    grains: dict[str, Grain] = {}
    arrays: dict[str, list[str]] = {}
    vectors: dict[str, Vector] = {}
    for name, kind in ARRAYS.items():
        if kind not in read.records:
            continue
        built = to_grains(((kind, record) for record in read.records[kind]), tenant=tenant)
        listed: list[str] = []
        arrays[name] = listed
        for grain, parts, vector in built:
            for part in parts:
                grains[part.address] = part
            grains[grain.address] = grain
            listed.append(grain.address)
            if vector is not None:
                vectors[grain.address] = Vector(read.envelope["embedding_model"], vector)
    created_at = fields.of_grain(fields.parse_time(read.envelope["exported_at"]))
    whole = Manifest(SOURCE, read.envelope["checksum"], read.envelope, arrays)
    more = manifest(whole, created_at=created_at, user_id=tenant)
    return Import(SOURCE, [*grains.values(), *more], vectors, read.warnings)


def dump(
    grains: Iterable[Grain],
    vectors: dict[str, Vector],
    *,
    embeddings: bool = False,
    producer: str = "omsgrain",
    tenant_id: str | None = None,
    exported_at: str | None = None,
    strict: bool = False,
) -> Dump:
    """Make a bundle of grains.

    A bundle that was loaded comes back as it was; its manifest must be among the grains. Grains of
    no bundle become chunks.
    """
    by_address = {grain.address: grain for grain in grains}
    get = source.getter(by_address)
    found = [
        one
        for grain in by_address.values()
        if (one := open_manifest(grain, source.own(grain, get))) is not None
    ]
    found = [one for one in found if one.format == SOURCE]
    if len(found) > 1:
        raise SchemaError("a bundle is one document", found=f"{len(found)} documents")
    losses: list[Loss] = []

    def record(address: str) -> dict[str, Any]:
        grain = get(address)
        born = from_grain(grain, source.own(grain, get))
        if born is None:
            raise SchemaError("a record of the document is none", field=f"/{address}")
        if address in vectors:
            if embeddings:
                born[1]["embedding"] = fields.encode(vectors[address].data)
            else:
                losses.append(Loss(address, "embedding", "embeddings leave only when asked for"))
        return born[1]

    if found:
        if not found[0].arrays.keys() <= ARRAYS.keys():
            raise FormatError("a manifest lists what no bundle has", rule="manifest")
        records = {
            ARRAYS[name]: [record(address) for address in listed]
            for name, listed in found[0].arrays.items()
        }
        return Dump(_written(found[0].envelope, records, set(found[0].arrays)), losses)
    if not fields.is_producer(producer):
        raise SchemaError("not a producer namespace", expected="1 to 63 of a-z, 0-9 and -")
    tenants = {grain.get("user_id") for grain in by_address.values()}
    owner = tenants.pop() if len(tenants) == 1 else None
    tenant = tenant_id or owner
    if not isinstance(tenant, str) or not fields.is_tenant(tenant):
        raise SchemaError("whose bundle it is", field="/tenant_id", expected="a UUID or a URI")
    chunks: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in ARRAYS.values()}
    for address, grain in by_address.items():
        if source.is_beside(grain):
            continue
        born = from_grain(grain, source.own(grain, get))
        if born is not None:
            chunks[born[0]].append(record(address))
            continue
        chunk, lost = native(grain, producer=producer, owner=owner, strict=strict)
        losses += lost
        if chunk is not None:
            chunks["chunk"].append(chunk)
    newest = max((grain["created_at"] for grain in by_address.values()), default=0)
    envelope = {
        "format": FORMAT,
        "version": VERSION,
        "producer": producer,
        "tenant_id": tenant,
        "exported_at": exported_at or fields.spell(newest),
        "scope": "FULL",
    }
    return Dump(_written(envelope, chunks, set(ARRAYS)), *parted(losses))


def _written(
    envelope: dict[str, Any], records: dict[Kind, list[dict[str, Any]]], arrays: set[str]
) -> bytes:
    return document.write_bundle(Bundle(envelope, records), arrays)
