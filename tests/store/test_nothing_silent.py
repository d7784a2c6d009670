# SPDX-License-Identifier: Apache-2.0
"""Into a store and out again: each member of a full document is there, or named as lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from omsgrain.formats import Loss
from omsgrain.formats.aimem.document import read_bundle
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.export import AimemExportReport
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from support import mif1_documents, mif2_documents, mif_ld_documents
from support.conversion_pairs import BUNDLE, corpus, id_of, records, sealed
from support.mif_imports import USER, opened

UNKNOWN = {"x_unknown": {"a": [1, None, "b"]}}
GENERATOR = {"generator": {"name": "other", "version": "1"}}
#: Made anew for each export: counts, sums, times and the ids of the export itself.
ANEW = {
    "aimem": {"exported_at", "checksum", "tenant_id", "embedding_model", "embedding_dim",
              "format", "version", "scope"},
    "mif1": {"$schema", "mif_version", "export/id", "export/created_at", "export/checksum",
             "export/user_id",
             "metadata/total_memories", "metadata/total_todos", "metadata/date_range",
             "metadata/memory_types", "metadata/top_entities", "metadata/projects",
             "metadata/privacy/pii_detected", "metadata/privacy/secrets_detected",
             "graph/format", "graph/node_count", "graph/edge_count"},
    "mif2": {"export_meta/privacy/pii_detected", "export_meta/privacy/secrets_detected",
             "mif_version", "export_meta/id", "export_meta/created_at", "export_meta/checksum",
             "export_meta/user_id"},
    "mif-ld": set[str](),
}  # fmt: skip
#: Objects that stand around records, of which each member is asked for alone.
INSIDE = ("export", "export_meta", "metadata", "metadata/privacy", "export_meta/privacy", "graph",
          "knowledge_graph", "vendor_extensions", "consent")  # fmt: skip


def full(format: str) -> list[dict[str, Any]]:
    """Documents with every kind of record, and with unknown members."""
    if format == "aimem":
        bundle = json.loads(BUNDLE.read_bytes())
        assert all(bundle[name] for name in ("chunks", "edges", "entities", "chunk_entities"))
        return [widened(bundle, format)]
    if format == "mif-ld":
        examples = mif_ld_documents.FULL, mif_ld_documents.FULL_1X
        return [widened(corpus([json.loads(json.dumps(one))]), format) for one in examples]
    found = {
        "mif1": [mif1_documents.SEP, mif1_documents.PUBLISHED],
        "mif2": [mif2_documents.FULL, mif2_documents.DIALECT],
    }
    return [widened(json.loads(json.dumps(one)), format) for one in found[format]]


def widened(document: dict[str, Any], format: str) -> dict[str, Any]:
    for _, record in records(document):
        record |= UNKNOWN
    document |= UNKNOWN
    if format.startswith("mif"):
        document |= GENERATOR if format != "mif-ld" else {}
        for name in ("export", "export_meta", "graph", "knowledge_graph"):
            if name in document:
                document[name] |= UNKNOWN
    document.pop("consent", {}).pop("retention_days", None)
    return sealed(document) if format == "aimem" else document


def through(document: dict[str, Any], format: str, to: str) -> tuple[dict[str, Any], list[Loss]]:
    """A document into an empty store, and what comes out of it."""
    with opened() as store:
        data = json.dumps(document).encode()
        if format == "aimem":
            import_bundle(store, read_bundle(data), tenant=USER, keep_document=True)
        else:
            assert not import_document(store, data, user_id=USER).errors
        if to == "aimem":
            report = AimemExportReport()
            tenant = document.get("tenant_id", "urn:example:ada")
            (made,) = export_bundle(store, USER, report=report, tenant_id=tenant,
                                    include_embeddings=True, together=True)  # fmt: skip
            return made.to_dict(), report.losses
        dump, told = export_document(
            store, USER, format=to, include_embeddings=True, local=True, purpose="access"
        )
        return json.loads(dump.data), told.losses


def around(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """The values around the records of a document, by format."""
    for name, inner in value.items():
        way = f"{at}{name}"
        if way in INSIDE and isinstance(inner, dict):
            yield from around(inner, f"{way}/")
        elif not (isinstance(inner, list) and any(isinstance(one, dict) for one in inner)):
            yield way, inner


def key(name: str, record: dict[str, Any]) -> str:
    ends = ("source", "target", "source_id", "target_id", "chunk_id", "entity_id", "edge_type")
    return json.dumps([name, id_of(record), *(record.get(end) for end in ends)])


def says(value: Any) -> bool:
    return value is not None and value not in ([], {})


def silent(document: dict[str, Any], format: str, to: str) -> list[tuple[str, str]]:
    """The members that are neither there nor named."""
    made, losses = through(document, format, to)
    named = {loss.field for loss in losses}
    there = dict(around(made))
    missing = [
        ("", way) for way, value in around(document)
        if says(value) and way not in ANEW[format] and way not in named
        and not any(way.startswith(f"{one}/") for one in named)
        and there.get(way) != value and not way.startswith(("consent/", "@"))
    ]  # fmt: skip
    if format != to:
        return missing
    lost = {(loss.record, loss.field.split("/")[0]) for loss in losses}
    found = {key(name, record): record for name, record in records(made)}
    for name, record in records(document):
        again = found.get(key(name, record), {})
        missing += [
            (f"{name} {id_of(record)}", member) for member, value in record.items()
            if again.get(member) != value and (id_of(record), member) not in lost
        ]  # fmt: skip
    return missing


@pytest.mark.parametrize("to", ["aimem", "mif1", "mif2", "mif-ld"])
@pytest.mark.parametrize("format", ["aimem", "mif1", "mif2", "mif-ld"])
def test_everything_is_exported_or_reported(format: str, to: str) -> None:
    for document in full(format):
        assert silent(document, format, to) == []


def test_counters_of_memories_leave_with_them() -> None:
    document = corpus([json.loads(json.dumps(mif_ld_documents.FULL))])
    made, losses = through(document, "mif-ld", "mif-ld")
    assert losses == []
    came, left = (one["records"][0]["payload"]["temporal"] for one in (document, made))
    assert left == came
    assert "currentStrength" in left["decay"]
