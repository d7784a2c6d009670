# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0 into a store and out of it: merging, privacy, and the tools of agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.edits import GONE, edited
from omsgrain.conformance.rule import Table, Tried
from omsgrain.conformance.rules.documents import MIF1, spelled
from omsgrain.conformance.rules.mif1 import judge
from omsgrain.interchange import mif

_rule: Final = Table("mif1")
RULES: Final = _rule.rules

M = "/memories/0"
_MOVED: Final = {f"{M}/content": "The notes moved."}


def _fates(report: mif.MifReport) -> list[str]:
    return [one.fate for one in report.records if one.kind == "memory"]


def _exported(store: og.GrainStore, **options: Any) -> dict[str, Any]:
    dump, _ = mif.export_document(store, "user-42", format="mif1", now=NOW, **options)
    whole: dict[str, Any] = json.loads(dump.data)
    return whole


def _free() -> dict[str, Any]:
    """Without the consent, which forbids to pass it on."""
    return edited(MIF1, {"/consent": GONE})


def _imported(bench: Bench, **edits: Any) -> og.GrainStore:
    store = bench.store()
    mif.import_document(store, spelled(_free()))
    return store


@_rule("merge.skip", "8", "skip_duplicates: what is there with the same text stays as it is")
def _skip(bench: Bench) -> Iterator[Tried]:
    store = _imported(bench)
    before = store.stats().last_seq
    again = mif.import_document(store, spelled(_free()))
    yield Tried("the same again", ["unchanged"] * 2, _fates(again))
    yield Tried("by default", "skip_duplicates", again.merge_strategy)
    yield Tried("what the store did", True, store.stats().last_seq - before <= 1)


@_rule("merge.overwrite", "8", "overwrite: the record takes the place of what has its id")
def _overwrite(bench: Bench) -> Iterator[Tried]:
    store = _imported(bench)
    mif.import_document(store, spelled(edited(_free(), _MOVED)), merge_strategy="overwrite")
    told = {one["id"]: one["content"] for one in _exported(store)["memories"]}
    yield Tried("the content under its id", "The notes moved.", told[MIF1["memories"][0]["id"]])
    yield Tried("memories", 2, len(told))


@_rule(
    "merge.rename",
    "8",
    "rename: a record whose id is taken gets a fresh one, and references follow",
)
def _rename(bench: Bench) -> Iterator[Tried]:
    store = _imported(bench)
    report = mif.import_document(store, spelled(edited(_free(), _MOVED)), merge_strategy="rename")
    new = [one.new_id for one in report.records if one.fate == "renamed"]
    told = {one["id"]: one["content"] for one in _exported(store)["memories"]}
    yield Tried("renamed", 1, len(new))
    yield Tried("memories", 3, len(told))
    yield Tried("under the fresh id", "The notes moved.", told.get(new[0] or ""))
    ends = {one["source"] for one in _exported(store)["graph"]["edges"]}
    yield Tried("an edge of the record", True, new[0] in ends)


@_rule("import.partial", "9", "One bad memory does not hold up the others", must=False)
def _partial(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    report = mif.import_document(store, spelled(edited(_free(), {f"{M}/content": GONE})))
    yield Tried("what became of them", ["refused", "imported"], _fates(report))


@_rule("import.dry-run", "8", "A dry run says what would be done, and does nothing", must=False)
def _dry(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    report = mif.import_document(store, spelled(_free()), dry_run=True)
    yield Tried("told", ["imported"] * 2, _fates(report))
    yield Tried("in the store", 0, len(store))


@_rule("export.round", "8", "What was imported is exported with its fields")
def _round(bench: Bench) -> Iterator[Tried]:
    found = _exported(_imported(bench), include_embeddings=True)
    by_id = {one["id"]: one for one in found["memories"]}
    for one in MIF1["memories"]:
        yield Tried(one["id"][:12], one, by_id[one["id"]])
    yield Tried("todos", MIF1["todos"], found["todos"])
    yield Tried("edges", MIF1["graph"]["edges"], found["graph"]["edges"])


@_rule("export.metadata", "7", "Totals, types and dates of an export are those of what it has")
def _metadata(bench: Bench) -> Iterator[Tried]:
    found = _exported(_imported(bench))["metadata"]
    for name in ("total_memories", "total_todos", "date_range", "memory_types"):
        yield Tried(name, MIF1["metadata"][name], found[name])


@_rule("export.good", "2", "An export is a good document, and nothing is to be told of it")
def _good(bench: Bench) -> Iterator[Tried]:
    store = _imported(bench)
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
    yield Tried("problems", [], [s for s in judge(spelled(_exported(store))) if s[0] != "~"])


@_rule("export.since", "8", "since: what was created then or later")
def _since(bench: Bench) -> Iterator[Tried]:
    found = _exported(_imported(bench), since="2026-02-02T15:00:00Z")
    yield Tried(
        "the second memory alone",
        [MIF1["memories"][1]["id"]],
        [one["id"] for one in found["memories"]],
    )


@_rule("export.embeddings", "8", "include_embeddings false: no vector leaves")
def _embeddings(bench: Bench) -> Iterator[Tried]:
    store = _imported(bench)
    found = _exported(store, include_embeddings=False)
    yield Tried("left out", False, any("embedding" in one for one in found["memories"]))
    found = _exported(store, include_embeddings=True)
    yield Tried("along", True, any("embedding" in one for one in found["memories"]))


@_rule("export.graph", "8", "include_graph false: no graph leaves")
def _graph(bench: Bench) -> Iterator[Tried]:
    found = _exported(_imported(bench), include_graph=False)
    yield Tried("edges", 0, len(found.get("graph", {}).get("edges", ())))


_SECRETS: Final = (
    ("api_key", "The api_key = sk_live_0123456789abcdef01 works.", "sk_live_0123456789abcdef01"),
    ("email", "Write to ada@example.org.", "ada@example.org"),
    ("phone", "Call 212-555-0143.", "212-555-0143"),
    ("credit_card", "Pay with 4111 1111 1111 1111.", "4111 1111 1111 1111"),
    ("ssn", "The number is 536-22-8145.", "536-22-8145"),
    ("api_key", "password: correct-horse-battery-9", "correct-horse-battery-9"),
)


def _redacted(kind: str, text: str, secret: str, n: int) -> None:
    def check(bench: Bench) -> Iterator[Tried]:
        store = bench.store()
        mif.import_document(store, spelled(edited(_free(), {f"{M}/content": text})))
        found = _exported(store, redact_pii=True)
        one = next(m for m in found["memories"] if m["id"] == MIF1["memories"][0]["id"])
        yield Tried("the secret in the whole export", False, secret in json.dumps(found))
        yield Tried("its marker", True, "[REDACTED:" in one["content"])
        yield Tried("the types of its redactions", True, bool(one.get("redactions")))
        spans = [
            (r["original_length"], r["position"][1] - r["position"][0])
            for r in one.get("redactions", ())
        ]
        yield Tried("length and position agree", True, all(a == b for a, b in spans))
        yield Tried(
            "told",
            True,
            found["metadata"]["privacy"]["pii_detected"]
            or found["metadata"]["privacy"]["secrets_detected"],
        )

    names = {"api_key": "API keys, tokens, secrets"}
    what = names.get(kind, kind) if n != 5 else "passwords"
    _rule.add(
        f"redact.{'password' if n == 5 else kind}",
        "6.1",
        f"Before an export is passed on, {what} can be taken out",
        check,
        must=False,
    )


for _n, (_kind, _text, _secret) in enumerate(_SECRETS):
    _redacted(_kind, _text, _secret, _n)


@_rule(
    "consent.retention", "6.3", "What a consent allows for some days is erased when they are over"
)
def _retention(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    begins = {"/consent/sharing_allowed": True, "/consent/timestamp": "2026-01-15T10:00:00Z"}
    mif.import_document(store, spelled(edited(MIF1, begins)))
    for days, left in ((29, 2), (31, 0)):
        bench.clock = NOW + days * 86_400_000
        store.run_due_erasures()
        yield Tried(f"memories after {days} days", left, len(_exported(store)["memories"]))


@_rule("consent.sharing", "6.3", "What is not to be shared does not leave")
def _sharing(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    mif.import_document(store, spelled(MIF1))
    found = "left"
    try:
        left = _exported(store)["memories"]
    except og.errors.OmsError as error:
        found = error.code
    else:
        found = "nothing" if not left else "left"
    yield Tried("sharing_allowed false", True, found != "left")


# §8: the tools of agents


@_rule(
    "mcp.export-memory",
    "8",
    "export_memory takes format, include_embeddings, include_graph, since, "
    "redact_pii, with these defaults",
)
def _export_tool(bench: Bench) -> Iterator[Tried]:
    told = bench.tools["export_memory"]["properties"]
    for name, kind, default in (
        ("format", "string", "json"),
        ("include_embeddings", "boolean", True),
        ("include_graph", "boolean", True),
        ("since", "string", None),
        ("redact_pii", "boolean", True),
    ):
        found = told.get(name, {})
        yield Tried(name, (kind, default), (found.get("type"), found.get("default")))
    yield Tried("formats", ["json", "yaml", "jsonl"], list(told["format"].get("enum", ())))
    yield Tried("since is a", "date-time", told["since"].get("format"))


@_rule("mcp.import-memory", "8", "import_memory takes data, which is required, and merge_strategy")
def _import_tool(bench: Bench) -> Iterator[Tried]:
    schema = bench.tools["import_memory"]
    told = schema["properties"]
    yield Tried("required", ["data"], list(schema.get("required", ())))
    yield Tried("data", "string", told["data"].get("type"))
    yield Tried(
        "strategies",
        ["skip_duplicates", "overwrite", "rename"],
        list(told["merge_strategy"].get("enum", ())),
    )
    yield Tried("by default", "skip_duplicates", told["merge_strategy"].get("default"))
