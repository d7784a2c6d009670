# SPDX-License-Identifier: Apache-2.0
"""Small bundles to be imported, and all that a store holds afterwards."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import omsgrain as og
from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.aimem.document import Bundle
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.outcome import ImportSummary
from support.aimem_strategies import TENANT, hash_of
from support.origins import find_origins

OLDER, TIME, NEWER = (f"2026-04-0{day}T09:30:00Z" for day in (1, 2, 3))
MODEL = "small"


def urn(local: object, producer: str = "p") -> str:
    return f"urn:aimem:{producer}:{local}"


def chunk(local: object = 1, content: str = "tea at four", **fields: Any) -> dict[str, Any]:
    return {
        "id": urn(local),
        "content": content,
        "content_hash": hash_of(content),
        "memory_type": "fact",
        "created_at": TIME,
    } | fields


def edge(source: object = 1, target: object = 2, **fields: Any) -> dict[str, Any]:
    ends = {"source_id": urn(source), "target_id": urn(target)}
    return ends | {"edge_type": "causal", "weight": 0.5, "created_at": TIME} | fields


def entity(local: object = "e", **fields: Any) -> dict[str, Any]:
    return {"id": urn(local), "name": "Ada", "kind": "person", "created_at": TIME} | fields


def link(chunk: object = 1, entity: object = "e", **fields: Any) -> dict[str, Any]:
    return {"chunk_id": urn(chunk), "entity_id": urn(entity)} | fields


def made(
    *chunks: dict[str, Any],
    edges: list[dict[str, Any]] | None = None,
    entities: list[dict[str, Any]] | None = None,
    links: list[dict[str, Any]] | None = None,
    **envelope: Any,
) -> Bundle:
    """A bundle that was written and read."""
    head = {
        "format": "aimem-bundle",
        "version": "1",
        "producer": "p",
        "tenant_id": TENANT,
        "exported_at": NEWER,
        "scope": "FULL",
        "embedding_dim": 2,
        "embedding_model": MODEL,
    }
    records: dict[Kind, list[dict[str, Any]]] = {
        "chunk": list(chunks),
        "edge": edges or [],
        "entity": entities or [],
        "chunk_entity": links or [],
    }
    return bundle.read_bundle(bundle.write_bundle(Bundle(head | envelope, records)))


def of_document(document: dict[str, Any]) -> Bundle:
    """Return a bundle of the values that hypothesis drew."""
    envelope = {name: value for name, value in document.items() if name not in ARRAYS}
    records = {kind: document[name] for name, kind in ARRAYS.items() if name in document}
    whole = Bundle(envelope, records)
    return bundle.read_bundle(
        bundle.write_bundle(whole, [name for name in ARRAYS if name in document])
    )


def lines(whole: Bundle) -> BytesIO:
    """The same by lines."""
    return BytesIO(
        b"".join(stream.write_lines(whole.envelope, lambda kind: whole.records.get(kind, ())))
    )


def take(store: og.GrainStore, *chunks: dict[str, Any], **more: Any) -> ImportSummary:
    """Import a bundle of some records; what is no record is an option of the import."""
    names = ("edges", "entities", "links")
    given = {name: more.pop(name) for name in names if name in more}
    return import_bundle(store, made(*chunks, **given), **more)


def fates(summary: ImportSummary) -> dict[str, int]:
    """Return the number of records by kind and outcome."""
    return {f"{kind} {fate}": number for (kind, fate), number in summary.counts.items()}


def reasons(summary: ImportSummary) -> list[tuple[str, str | None, tuple[str, ...]]]:
    return [(one.id, one.decision.reason, one.decision.fields) for one in summary.conflicts]


def plain(grain: og.Grain) -> str:
    """The address of a grain before it was sealed."""
    return og.Grain(grain.blob).address


def holdings(store: og.GrainStore) -> dict[str, Any]:
    """Return all grains by their plain addresses, with states and vectors."""
    grains = {grain.address: plain(grain) for grain in store}
    found = {}
    for address, name in grains.items():
        state = store.status(address)
        vectors = {model: list(values) for model, values in store.vectors.get(address).items()}
        after = sorted(grains[one] for one in state.successors)
        found[name] = (after, state.verification_status, state.restricted, vectors)
    return found


def stored(store: og.GrainStore, name: str, tenant: str = TENANT) -> og.Grain:
    """The one current grain of a record."""
    (one,) = [one for one in find_origins(store, [name], user_id=tenant)[name] if one.current]
    return one.grain
