# SPDX-License-Identifier: Apache-2.0
"""MIF 2.0: what becomes of a document, in grains and in a store, and the tools of agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain import formats
from omsgrain.conformance.bench import NOW, Bench, MissingError
from omsgrain.conformance.edits import GONE, edited
from omsgrain.conformance.rule import Table, Tried
from omsgrain.conformance.rules.documents import MIF2, spelled
from omsgrain.conformance.rules.mif2 import MINIMAL, UUID, judge
from omsgrain.errors import packages_of
from omsgrain.formats.mif2 import check
from omsgrain.interchange import mif

_rule: Final = Table("mif2")
RULES: Final = _rule.rules

M = "/memories/0"
E = "/knowledge_graph/entities/0"


@_rule("round", "6", "A document comes back from its grains equal, with the order of its keys")
def _round(_: Bench) -> Iterator[Tried]:
    for what, whole in (("all that the format draws", MIF2), ("the least", MINIMAL)):
        again = formats.dump(formats.load(spelled(whole)), format="mif2").data
        yield Tried(what, json.dumps(whole), json.dumps(json.loads(again)))


@_rule("round.types", "2.1", "Types that nobody knows are preserved")
def _types(_: Bench) -> Iterator[Tried]:
    yield _kept(f"{M}/memory_type", "dream", lambda d: d["memories"][0]["memory_type"])


@_rule("round.vendors", "4", "Extensions of other systems are preserved")
def _vendors(_: Bench) -> Iterator[Tried]:
    given = {"shodh-memory": {"memory_metadata": {UUID: {"importance": 0.85}}}, "x": {"n": None}}
    yield _kept("/vendor_extensions", given, lambda d: d["vendor_extensions"])


@_rule("round.unknown", "6", "Members that nobody knows are preserved", must=False)
def _unknown(_: Bench) -> Iterator[Tried]:
    yield _kept("/x_new", {"a": [1, 1.0, None]}, lambda d: d["x_new"])
    yield _kept(f"{M}/x_new", "e\u0301", lambda d: d["memories"][0]["x_new"])
    yield _kept(f"{E}/x_new", [[]], lambda d: d["knowledge_graph"]["entities"][0]["x_new"])


@_rule(
    "round.spelling", "6", "Nulls, empty lists, times and numbers come back as they were spelled"
)
def _spelling(_: Bench) -> Iterator[Tried]:
    for pointer, value in (
        (f"{M}/parent_id", None),
        (f"{M}/tags", []),
        ("/knowledge_graph", None),
        (f"{M}/created_at", "2026-02-20T11:15:00.123456+02:00"),
        (f"{M}/metadata", {"n": 1, "f": 1.0, "big": 2**60}),
    ):
        name = pointer.rpartition("/")[2]
        yield _kept(pointer, value, lambda d, n=name: d[n] if n in d else d["memories"][0][n])


def _kept(pointer: str, value: Any, at: Any) -> Tried:
    whole = edited(MIF2, {pointer: value})
    again = json.loads(formats.dump(formats.load(spelled(whole)), format="mif2").data)
    return Tried(f"{pointer}: {json.dumps(value)[:40]}", json.dumps(value), json.dumps(at(again)))


def _fates(report: mif.MifReport) -> list[str]:
    return [one.fate for one in report.records if one.kind == "memory"]


def _exported(store: og.GrainStore, **options: Any) -> dict[str, Any]:
    dump, _ = mif.export_document(store, "user-42", now=NOW, **options)
    whole: dict[str, Any] = json.loads(dump.data)
    return whole


@_rule("import.ids", "6", "Imported memories keep their ids", must=False)
def _ids(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    mif.import_document(store, spelled(MIF2))
    yield Tried(
        "two memories",
        sorted(one["id"] for one in MIF2["memories"]),
        sorted(one["id"] for one in _exported(store)["memories"]),
    )


@_rule("import.duplicates", "6", "Duplicates are told by the SHA-256 of content, not by id")
def _duplicates(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    mif.import_document(store, spelled(MIF2))
    yield Tried(
        "the same again", ["unchanged"] * 2, _fates(mif.import_document(store, spelled(MIF2)))
    )
    other = edited(MIF2, {f"{M}/id": UUID})
    yield Tried(
        "the same content under another id",
        "duplicate",
        _fates(mif.import_document(store, spelled(other)))[0],
    )
    new = edited(MIF2, {f"{M}/content": "The roses were moved."})
    yield Tried(
        "another content under the same id",
        "updated",
        _fates(mif.import_document(store, spelled(new)))[0],
    )


@_rule("import.partial", "6", "One bad memory does not hold up the others")
def _partial(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    bad = edited(MIF2, {f"{M}/content": GONE})
    report = mif.import_document(store, spelled(bad))
    yield Tried("what became of them", ["refused", "imported"], _fates(report))
    yield Tried(
        "kept",
        ["The roses stay where they are."],
        [one["content"] for one in _exported(store)["memories"]],
    )


@_rule("import.vendors", "4", "Extensions of other systems are in an export of the store, too")
def _stored(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    mif.import_document(store, spelled(MIF2))
    found = _exported(store).get("vendor_extensions", {})
    yield Tried("mem0", MIF2["vendor_extensions"]["mem0"], found.get("mem0"))


@_rule("export.schema", "9", "What is exported fits the published schema")
def _schema(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    store.put(
        {
            "type": "belief",
            "subject": "lamp",
            "relation": "is",
            "object": "on",
            "confidence": 0.5,
            "created_at": NOW,
            "user_id": "user-42",
        }
    )
    mif.import_document(store, spelled(MIF2))
    found = _exported(store, include_embeddings=True)
    yield Tried("problems", [], [s for s in judge(spelled(found)) if not s.startswith("~")])
    try:
        from jsonschema_rs import Draft202012Validator
    except ImportError:
        raise MissingError(f"no jsonschema_rs: needs {packages_of('formats')}") from None
    fits = Draft202012Validator(json.loads(check.text()))
    yield Tried("by a validator of JSON Schema", [], [e.message for e in fits.iter_errors(found)])
    for name in ("memories", "mif_version"):
        yield Tried(f"without {name}", False, fits.is_valid(edited(found, {f"/{name}": GONE})))


@_rule(
    "export.redacted", "5", "What is redacted leaves as [REDACTED:type], and is told", must=False
)
def _redacted(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    text = "Write to ada@example.org or call 212-555-0143."
    mif.import_document(store, spelled(edited(MIF2, {f"{M}/content": text})))
    found = _exported(store, redact_pii=True)
    said = [one["content"] for one in found["memories"] if one["content"].startswith("Write")]
    yield Tried(
        "an address and a number", ["Write to [REDACTED:email] or call [REDACTED:phone]."], said
    )
    told = found["export_meta"]["privacy"]
    yield Tried("pii_detected", True, told["pii_detected"])
    yield Tried("redacted_fields", True, {"email", "phone"} <= set(told["redacted_fields"]))


@_rule("mcp.tools", "7", "A memory server offers export_memories and import_memories", must=False)
def _tools(bench: Bench) -> Iterator[Tried]:
    for name in ("export_memories", "import_memories"):
        yield Tried(name, True, name in bench.tools)
