# SPDX-License-Identifier: Apache-2.0
"""AIMEM: a store as consumer (level 2), and as both (3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.edits import edited
from omsgrain.conformance.http.sample import TENANT, spelled
from omsgrain.conformance.http.sample import bundle as sample
from omsgrain.conformance.rule import Table, Tried
from omsgrain.conformance.rules.aimem_export import exported, filled, one_chunk, read
from omsgrain.conformance.rules.oms_store import DAY
from omsgrain.formats.aimem import document
from omsgrain.interchange import aimem as gateway
from omsgrain.storage.tables import AUDIT

_rule: Final = Table("aimem", 2)
_both: Final = Table("aimem", 3)


@_rule("import.again", "2.9", "Importing again is a no-op")
def _again(bench: Bench) -> Iterator[Tried]:
    store = filled(bench)
    before = store.stats().last_seq
    summary = gateway.import_bundle(store, read(sample())).to_dict()
    yield Tried(
        "inserted, skipped",
        (0, 3),
        (summary["chunks_inserted"], summary["chunks_skipped_idempotent"]),
    )
    yield Tried("what the store did", before, store.stats().last_seq)


def _conflict(
    id: str,
    section: str,
    text: str,
    first: dict[str, Any],
    then: dict[str, Any],
    expected: tuple[str | None, str],
    must: bool = True,
    **options: Any,
) -> None:
    def check(bench: Bench) -> Iterator[Tried]:
        store = bench.store()
        gateway.import_bundle(store, read(one_chunk(**first)))
        other = edited(
            one_chunk(**first), {f"/chunks/0/{name}": value for name, value in then.items()}
        )
        other["chunks"][0].pop("content_hash")
        summary = gateway.import_bundle(store, read(other), **options).to_dict()
        reasons = [one["reason"] for one in summary["conflicts"]]
        yield Tried("told", [] if expected[0] is None else [expected[0]], reasons)
        yield Tried("kept", expected[1], exported(store)["chunks"][0]["content"])

    _rule.add(id, section, text, check, must=must)


_ON, _OFF = "The lamp is on.", "The lamp is off."
_conflict(
    "import.conflict",
    "2.9",
    "Another content at the same created_at is rejected, and told",
    {},
    {"content": _OFF},
    ("created_at_conflict", _ON),
)
_conflict(
    "import.fields",
    "5.4",
    "Another field at the same created_at is rejected, and told",
    {"zone": "critical"},
    {"zone": "standard"},
    ("field_conflict", _ON),
)
_conflict(
    "import.newer",
    "2.9",
    "A newer content updates: that is how we have chosen, and say",
    {},
    {"content": _OFF, "created_at": "2026-05-01T00:00:00Z"},
    (None, _OFF),
    must=False,
)
_conflict(
    "import.older",
    "2.9",
    "An older content is a conflict",
    {},
    {"content": _OFF, "created_at": "2025-05-01T00:00:00Z"},
    ("older", _ON),
    must=False,
)
for _type in ("preference", "decision", "identity", "pitfall", "procedure"):
    _conflict(
        f"dna.{_type}",
        "5.1",
        f"A {_type} is not silently superseded by a newer content",
        {"memory_type": _type},
        {"content": _OFF, "created_at": "2026-05-01T00:00:00Z"},
        ("dna_conflict", _ON),
    )
_conflict(
    "dna.pinned",
    "2.2",
    "A pinned chunk is not silently superseded either",
    {"is_pinned": True},
    {"content": _OFF, "created_at": "2026-05-01T00:00:00Z"},
    ("dna_conflict", _ON),
)
_conflict(
    "dna.asked",
    "5.1",
    "What a user asks for is done to the DNA class, too",
    {"memory_type": "decision"},
    {"content": _OFF, "created_at": "2026-05-01T00:00:00Z"},
    (None, _OFF),
    allow_dna_updates=True,
)


@_rule("dna.decay", "5.1", "Chunks of the DNA class do not decay by themselves")
def _decay(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    gateway.import_bundle(store, read(one_chunk(memory_type="identity")))
    bench.clock += 40_000 * DAY
    store.run_due_erasures()
    yield Tried("after a hundred years", 1, len(exported(store)["chunks"]))


@_rule("models.dropped", "2.7", "Embeddings of a model that is not kept are dropped, and told")
def _models(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    summary = gateway.import_bundle(store, read(sample()), models=["other"])
    yield Tried("told", ["unsupported_model"], [one.rule for one in summary.warnings])
    found = exported(store, include_embeddings=True)
    yield Tried("kept, or made anew", [None] * 3, [c.get("embedding") for c in found["chunks"]])


@_rule("erase.tenant", "5.2", "Erasing a tenant leaves nothing of it to be exported, or to return")
def _erased(bench: Bench) -> Iterator[Tried]:
    store = filled(bench)
    other = "22222222-2222-4222-8222-222222222222"
    gateway.import_bundle(store, read(sample()), tenant=other)
    gateway.erase_tenant(store, TENANT, reason_code="gdpr17")
    found = gateway.export_bundle(store, TENANT, now=NOW)
    yield Tried("exported", [0], [len(one.records.get("chunk", [])) for one in found])
    summary = gateway.import_bundle(store, read(sample())).to_dict()
    yield Tried(
        "imported again",
        (0, {"erased"}),
        (summary["chunks_inserted"], {one["reason"] for one in summary["conflicts"]}),
    )
    left = gateway.export_bundle(store, other, now=NOW)
    yield Tried("of another tenant", [3], [len(one.records["chunk"]) for one in left])


@_rule(
    "erase.audit", "5.2", "The erasure is in the audit trail, without what was erased", must=False
)
def _audited(bench: Bench) -> Iterator[Tried]:
    store = filled(bench)
    gateway.erase_tenant(store, TENANT, reason_code="gdpr17")
    told = [e for e in store.audit.entries() if e.operation == "erase"]
    yield Tried("entries", {"gdpr17"}, {e.reason_code for e in told})
    yield Tried("the trail", True, store.audit.verify().ok)
    with store._store.read() as reader:
        raw = b"".join(key + row for key, row in reader.rows(AUDIT))
    for what, text in (("the tenant", TENANT), ("a content", sample()["chunks"][0]["content"])):
        yield Tried(f"{what} in all rows of the trail", False, text.encode() in raw)


# both


@_both("round", "4", "An export imported into the same store is a no-op")
def _round(bench: Bench) -> Iterator[Tried]:
    store = filled(bench)
    whole = exported(store, include_embeddings=True)
    before = store.stats().last_seq
    summary = gateway.import_bundle(store, document.read_bundle(spelled(whole))).to_dict()
    yield Tried(
        "inserted, in conflict", (0, 0), (summary["chunks_inserted"], summary["conflicts_total"])
    )
    yield Tried("what the store did", before, store.stats().last_seq)
    again = exported(store, include_embeddings=True)
    yield Tried("exported again", whole["checksum"], again["checksum"])


@_both(
    "round.documents", "4", "A bundle becomes grains and comes back equal, unknown members and all"
)
def _documents(_: Bench) -> Iterator[Tried]:
    from omsgrain import formats
    from omsgrain.conformance.rules.vectors import data

    for one in data("bundles"):
        if "legacy_format" in one["warnings"]:
            continue  # it leaves under the name of today
        found = formats.load(one["bundle"].encode(), format="aimem")
        again = formats.dump(found, format="aimem", embeddings=True)
        yield Tried(one["description"], json.loads(one["bundle"]), json.loads(again.data))


RULES: Final = [*_rule.rules, *_both.rules]
