# SPDX-License-Identifier: Apache-2.0
"""AIMEM, level 1: a store as producer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.http.sample import TENANT, chunk, sealed, spelled
from omsgrain.conformance.http.sample import bundle as sample
from omsgrain.conformance.rule import Table, Tried
from omsgrain.formats.aimem import document as bundle
from omsgrain.interchange import aimem as gateway

_rule: Final = Table("aimem", 1)
RULES: Final = _rule.rules


def read(document: dict[str, Any]) -> bundle.Bundle:
    """The bundle that a document is, with its checksum."""
    return bundle.read_bundle(spelled(sealed(document)))


def filled(bench: Bench) -> og.GrainStore:
    """A store that has the sample."""
    store = bench.store()
    gateway.import_bundle(store, read(sample()))
    return store


def exported(store: og.GrainStore, **options: Any) -> dict[str, Any]:
    """What leaves a store for the tenant of the sample."""
    (found,) = gateway.export_bundle(store, TENANT, only_producer="probe", now=NOW, **options)
    whole: dict[str, Any] = json.loads(bundle.write_bundle(found))
    return whole


def one_chunk(**more: Any) -> dict[str, Any]:
    """A bundle of one chunk."""
    nothing: dict[str, Any] = {n: [] for n in ("edges", "entities", "chunk_entities")}
    return sample() | nothing | {"chunks": [chunk("c1", "The lamp is on.", **more)]}


@_rule("export.records", "4", "What was imported is exported as it was")
def _records(bench: Bench) -> Iterator[Tried]:
    given, found = sample(), exported(filled(bench), include_embeddings=True)
    for name in ("edges", "entities", "chunk_entities"):
        yield Tried(name, given[name], found[name])
    for expected, one in zip(given["chunks"], found["chunks"], strict=False):
        yield Tried(f"chunk {expected['id'][-2:]}", expected, one)


@_rule("export.envelope", "2.1", "An export has every member that an envelope must have")
def _envelope(bench: Bench) -> Iterator[Tried]:
    found = exported(filled(bench))
    for name, value in (
        ("format", "aimem-bundle"),
        ("version", "1"),
        ("producer", "probe"),
        ("tenant_id", TENANT),
        ("exported_at", "2026-01-15T10:00:00Z"),
        ("scope", "FULL"),
    ):
        yield Tried(name, value, found.get(name))


@_rule("export.checksum", "2.8", "An export has the checksum that anybody makes of it")
def _checksum(bench: Bench) -> Iterator[Tried]:
    from hashlib import sha256

    # No number of the sample but 0.42 and 2, no key beyond ASCII: json spells it as RFC 8785 does.
    found = exported(filled(bench), include_embeddings=True)
    rest = {name: value for name, value in found.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    yield Tried(
        "the sample exported", "sha256:" + sha256(text.encode()).hexdigest(), found["checksum"]
    )


@_rule("export.native", "4", "Grains that never were AIMEM leave as chunks that are taken")
def _native(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    store.put(
        {
            "type": "belief",
            "subject": "lamp",
            "relation": "is",
            "object": "on",
            "confidence": 0.5,
            "created_at": NOW,
            "user_id": TENANT,
        }
    )
    (found,) = gateway.export_bundle(store, TENANT, now=NOW)
    text = bundle.write_bundle(found)
    yield Tried("problems of the export", [], [p.rule for p in bundle.validate(text).problems])
    yield Tried("its chunks", 1, len(json.loads(text)["chunks"]))


@_rule("export.dna-only", "2.1", "DNA_ONLY has the five types of the DNA class, and pinned chunks")
def _dna(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    names = "fact preference decision identity pitfall procedure episodic goal".split()
    chunks = [chunk(name, f"A {name}.", memory_type=name) for name in names]
    chunks.append(chunk("pinned", "A pinned fact.", is_pinned=True))
    gateway.import_bundle(store, read(one_chunk() | {"chunks": chunks}))
    found = exported(store, scope="DNA_ONLY")
    yield Tried(
        "of eight types and a pinned fact",
        ["decision", "identity", "pinned", "pitfall", "preference", "procedure"],
        sorted(one["id"].rpartition(":")[2] for one in found["chunks"]),
    )


@_rule("export.since", "2.1", "SINCE has what was created then or later, and says since when")
def _since(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    times = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z")
    chunks = [chunk(str(n), f"Note {n}.", created_at=at) for n, at in enumerate(times)]
    gateway.import_bundle(store, read(one_chunk() | {"chunks": chunks}))
    found = exported(store, scope="SINCE", since=times[1])
    yield Tried(
        "three months from the second on",
        ["1", "2"],
        [one["id"].rpartition(":")[2] for one in found["chunks"]],
    )
    yield Tried("since", times[1], found.get("since"))


@_rule("export.embeddings", "5.5", "Embeddings do not leave unless they are asked for", must=False)
def _embeddings(bench: Bench) -> Iterator[Tried]:
    store = filled(bench)
    kept = [one.get("embedding") for one in exported(store)["chunks"]]
    yield Tried("by default", [None] * 3, kept)
    asked = exported(store, include_embeddings=True)
    yield Tried("asked for", "AACAPwAAAEA=", asked["chunks"][1].get("embedding"))
    yield Tried(
        "their model and length",
        ("probe-2", 2),
        (asked.get("embedding_model"), asked.get("embedding_dim")),
    )
