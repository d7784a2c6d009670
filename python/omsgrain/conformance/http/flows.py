# SPDX-License-Identifier: Apache-2.0
"""Cases of several requests: importing again, conflicts, exports, NDJSON, erasure.

A case checks an import by an export: the stored records count, not only the response.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from omsgrain.conformance import aimem
from omsgrain.conformance.aimem import Basis, Document, chunk, sample, sealed, spelled
from omsgrain.conformance.http.probe import (
    BUNDLE,
    EXPORT,
    IMPORT,
    LINES,
    STREAM,
    Mismatch,
    Probe,
    ProbeResponse,
    as_kind,
    expect,
    fail,
    must,
)
from omsgrain.conformance.rule import edited
from omsgrain.formats.aimem.document import checksum_of
from omsgrain.formats.aimem.fields import ARRAYS, DNA, ENVELOPE

_BRAIN: Final = "/v1/brain"


class Flow(NamedTuple):
    """One case: its name, the draft's section, its basis, and its requests."""

    name: str
    section: str
    basis: Basis
    run: Callable[[Probe], None]


FLOWS: Final[list[Flow]] = []
"""All flows, in order."""


def _flow(
    name: str, section: str, basis: Basis = "draft"
) -> Callable[[Callable[[Probe], None]], Callable[[Probe], None]]:
    """Decorator: add a function to the flows."""

    def add(run: Callable[[Probe], None]) -> Callable[[Probe], None]:
        FLOWS.append(Flow(name, section, basis, run))
        return run

    return add


def one_chunk(probe: Probe, **more: Any) -> Document:
    """Make a new bundle of one chunk."""
    return probe.fresh(aimem.one_chunk(**more))


def with_content(document: Document, content: str, **more: Any) -> Document:
    """Return the bundle with another content in its chunk."""
    new = chunk("c1", content) | more
    names = ("content", "content_hash", *more)
    return _with(document, {f"/chunks/0/{name}": new[name] for name in names})


def _with(document: Document, places: dict[str, Any]) -> Document:
    return edited(document, {"set": places})


def kept_of(probe: Probe, document: Document, **query: str) -> dict[str, Document]:
    """Return the chunks of a document that the server has, by id."""
    ids = {one["id"] for one in document["chunks"]}
    found = {one["id"]: one for one in chunks_of(probe.exported(**query)) if one["id"] in ids}
    if found:
        return found
    # A server can keep producers apart, so request this producer.
    try:
        whole = probe.exported(**query, producer=document["producer"])
    except Mismatch:
        return {}
    return {one["id"]: one for one in chunks_of(whole) if one["id"] in ids}


def chunks_of(document: Document) -> list[Document]:
    """Return the chunks of a document that have an id."""
    chunks = document.get("chunks", [])
    must(isinstance(chunks, list), "an array of chunks", as_kind(chunks))
    return [one for one in chunks if isinstance(one, dict) and isinstance(one.get("id"), str)]


def content_of(probe: Probe, document: Document) -> str:
    """Return the server's content for the only chunk of a document."""
    kept = kept_of(probe, document)
    must(len(kept) == 1, "the chunk in an export", f"{len(kept)} of it")
    return str(next(iter(kept.values())).get("content"))


# -- importing again ----------------------------------------------------------------------------


@_flow("imported records are exported", "3.1")
def _imported(probe: Probe) -> None:
    document = probe.fresh(sample())
    probe.taken(document)
    kept = kept_of(probe, document)
    must(len(kept) == 3, "three chunks", str(len(kept)))
    for one in document["chunks"]:
        for name in ("content", "memory_type"):
            must(kept[one["id"]].get(name) == one[name], f"the {name} as it was", "another")


@_flow("the summary counts what is new", "3.2", "recommendation")
def _counted(probe: Probe) -> None:
    new = {"chunks_inserted": 3, "edges_inserted": 1, "entities_inserted": 1}
    more = {"chunks_skipped_idempotent": 0, "chunks_rejected_conflict": []}
    probe.taken(probe.fresh(sample()), chunk_entities_inserted=1, **new, **more)


@_flow("importing again is a no-op", "2.9")
def _again(probe: Probe) -> None:
    document = probe.fresh(sample())
    probe.taken(document)
    before = kept_of(probe, document)
    probe.taken(document)
    must(kept_of(probe, document) == before, "the same chunks as before", "others")


@_flow("importing again is counted as skipped", "2.9", "recommendation")
def _skipped(probe: Probe) -> None:
    document = probe.fresh(sample())
    probe.taken(document)
    nothing = {"chunks_inserted": 0, "edges_inserted": 0, "entities_inserted": 0}
    probe.taken(document, chunks_skipped_idempotent=3, edges_skipped_idempotent=1, **nothing)


@_flow("another content at the same time is rejected", "2.9")
def _conflict(probe: Probe) -> None:
    document = one_chunk(probe)
    probe.taken(document)
    answer = probe.put(with_content(document, "The lamp is off."))
    expect(answer, 200, 409, 422)
    must(content_of(probe, document) == "The lamp is on.", "the content as it was", "another")


@_flow("a 200 reports a conflict and its reason", "2.9", "recommendation")
def _told(probe: Probe) -> None:
    document = one_chunk(probe)
    probe.taken(document)
    name = document["chunks"][0]["id"]
    other = with_content(document, "The lamp is off.")
    summary = probe.taken(other, chunks_inserted=0, chunks_rejected_conflict=[name])
    reasons = [one.get("reason") for one in summary.get("conflicts", ())]
    must(reasons == ["created_at_conflict"], "the reason created_at_conflict", str(reasons))


@_flow("a conflict does not hold up the other chunks", "2.9", "recommendation")
def _beside(probe: Probe) -> None:
    document = one_chunk(probe)
    probe.taken(document)
    new = {**document["chunks"][0], "id": document["chunks"][0]["id"] + "-2"}
    probe.taken(_with(with_content(document, "It is off."), {"/chunks/-": new}), chunks_inserted=1)


@_flow("other fields at the same time are rejected", "5.4")
def _fields(probe: Probe) -> None:
    document = one_chunk(probe, zone="critical")
    probe.taken(document)
    expect(probe.put(_with(document, {"/chunks/0/zone": "standard"})), 200, 409, 422)
    zone = next(iter(kept_of(probe, document).values()), {}).get("zone")
    must(zone == "critical", "the zone as it was", "another")


@_flow("the summary names the fields in conflict", "5.4", "recommendation")
def _named(probe: Probe) -> None:
    document = one_chunk(probe, zone="critical")
    probe.taken(document)
    summary = probe.taken(_with(document, {"/chunks/0/zone": "standard"}), chunks_inserted=0)
    conflicts = [(one.get("reason"), one.get("fields")) for one in summary.get("conflicts", ())]
    must(conflicts == [("field_conflict", ["zone"])], "field_conflict of zone", str(conflicts))


@_flow("a newer content is taken or rejected, never both", "2.9")
def _newer(probe: Probe) -> None:
    document = one_chunk(probe)
    probe.taken(document)
    newer = with_content(document, "The lamp is off.", created_at="2026-05-01T00:00:00Z")
    expect(probe.put(newer), 200, 409, 422)
    content_of(probe, document)


@_flow("a newer content updates", "2.9", "recommendation")
def _updated(probe: Probe) -> None:
    document = one_chunk(probe)
    probe.taken(document)
    newer = with_content(document, "The lamp is off.", created_at="2026-05-01T00:00:00Z")
    probe.taken(newer, chunks_updated=1, chunks_inserted=0)
    must(content_of(probe, document) == "The lamp is off.", "the newer content", "another")


@_flow("a newer content of the DNA class is a conflict", "5.1", "recommendation")
def _dna(probe: Probe) -> None:
    document = one_chunk(probe, memory_type="decision")
    probe.taken(document)
    newer = with_content(document, "The lamp is off.", created_at="2026-05-01T00:00:00Z")
    probe.taken(newer, chunks_updated=0, chunks_rejected_conflict=[document["chunks"][0]["id"]])
    must(content_of(probe, document) == "The lamp is on.", "the content as it was", "another")


@_flow("an older content is a conflict", "2.9", "recommendation")
def _older(probe: Probe) -> None:
    document = one_chunk(probe)
    probe.taken(document)
    older = with_content(document, "The lamp is off.", created_at="2025-05-01T00:00:00Z")
    probe.taken(older, chunks_rejected_conflict=[document["chunks"][0]["id"]])


@_flow("the same instant in another spelling is the same", "2.9", "recommendation")
def _instant(probe: Probe) -> None:
    document = one_chunk(probe)
    probe.taken(document)
    again = _with(document, {"/chunks/0/created_at": "2026-04-01T09:30:00.000+00:00"})
    probe.taken(again, chunks_rejected_conflict=[])


@_flow("nothing of a bad bundle is kept", "3.2")
def _nothing(probe: Probe) -> None:
    document = probe.fresh(sample())
    expect(probe.put(_with(document, {"/chunks/2/memory_type": "rumour"})), 422)
    must(not kept_of(probe, document), "no chunk of it", "some")


# -- the order of checks ------------------------------------------------------------------------


@_flow("the envelope is checked before the checksum", "3.2", "recommendation")
def _envelope_first(probe: Probe) -> None:
    bad = sealed(probe.fresh(sample())) | {"version": "2", "checksum": "sha256:" + "0" * 64}
    expect(probe.put(bad, seal=False), 422)


@_flow("the checksum is checked before the records", "3.2", "recommendation")
def _checksum_first(probe: Probe) -> None:
    bad = sealed(_with(probe.fresh(sample()), {"/chunks/0/memory_type": "rumour"}))
    expect(probe.put(bad | {"checksum": "sha256:" + "0" * 64}, seal=False), 409)


@_flow("errors are problem details", "3.2", "recommendation")
def _problem(probe: Probe) -> None:
    answer = probe.put(_with(probe.fresh(sample()), {"/scope": "ALL"}))
    expect(answer, 422)
    problem = answer.problem()
    for name in ("type", "title", "status"):
        must(name in problem, f"a member {name}", "none")


# -- exports ------------------------------------------------------------------------------------


@_flow("an export is a bundle with the right checksum", "2.1")
def _export(probe: Probe) -> None:
    probe.taken(probe.fresh(sample()))
    document = probe.exported()
    for field in ENVELOPE:
        must(not field.required or field.name in document, f"a member {field.name}", "none")
    for name in ARRAYS:
        must(isinstance(document.get(name), list), f"an array {name}", "none")
    must(document["format"] == "aimem-bundle", "aimem-bundle", str(document["format"]))
    own = checksum_of(spelled(document))
    must(document["checksum"] == own, "the checksum of the bundle", "another")


@_flow("an export imported again is a no-op", "4")
def _round(probe: Probe) -> None:
    document = probe.fresh(sample())
    probe.taken(document)
    before = probe.send("GET", EXPORT)
    expect(before, 200)
    whole = before.json()
    expect(probe.send("POST", IMPORT, body=before.body, media=BUNDLE), 200)
    after = probe.exported()
    for name in ARRAYS:
        must(after.get(name) == whole.get(name), f"the same {name} as before", "others")


@_flow("embeddings are exported only on request", "5.5", "recommendation")
def _embeddings(probe: Probe) -> None:
    document = probe.fresh(sample())
    probe.taken(document)
    kept = kept_of(probe, document)
    must(bool(kept), "the chunks", "none")
    shown = [one for one in kept.values() if one.get("embedding") is not None]
    must(not shown, "no embedding", str(len(shown)))


@_flow("DNA_ONLY has only DNA class and pinned memory", "2.1")
def _dna_only(probe: Probe) -> None:
    document = probe.fresh(sample())
    probe.taken(document)
    whole = probe.exported(scope="DNA_ONLY")
    must(whole.get("scope") == "DNA_ONLY", "the scope DNA_ONLY", str(whole.get("scope")))
    odd = [
        c for c in chunks_of(whole) if c.get("memory_type") not in DNA and not c.get("is_pinned")
    ]
    must(not odd, "no other chunk", f"{len(odd)} others")
    kept = kept_of(probe, document, scope="DNA_ONLY")
    must(len(kept) == 1, "one chunk of the bundle", str(len(kept)))


@_flow("SINCE has the records created at or after that time", "2.1")
def _since(probe: Probe) -> None:
    later = {"/chunks/2/created_at": "2026-05-01T00:00:00Z"}
    document = _with(probe.fresh(sample()), later)
    document = _with(document, {"/chunks/1/created_at": "2026-05-02T00:00:00Z"})
    probe.taken(document)
    query = {"scope": "SINCE", "since": "2026-05-01T00:00:00Z"}
    must(probe.exported(**query).get("since") is not None, "a member since", "none")
    kept = kept_of(probe, document, **query)
    must(len(kept) == 2, "two chunks of the bundle", str(len(kept)))


# -- by lines -----------------------------------------------------------------------------------


def _lines(answer: ProbeResponse) -> tuple[Document, dict[str, list[Document]]]:
    expect(answer, 200)
    must(answer.media == LINES, LINES, answer.media)
    try:
        envelope, *rest = [json.loads(line) for line in answer.body.splitlines() if line.strip()]
    except ValueError:
        fail("a JSON document a line", "something else")
    must(isinstance(envelope, dict) and not set(ARRAYS) & set(envelope), "an envelope", "arrays")
    arrays: dict[str, list[Document]] = {name: [] for name in ARRAYS}
    names: dict[Any, str] = {kind: name for name, kind in ARRAYS.items()}
    for record in rest:
        kind = record.pop("_kind", None) if isinstance(record, dict) else None
        must(kind in names, "a known _kind", "another, or none")
        arrays[names[kind]].append(record)
    return envelope, arrays


@_flow("the stream is an envelope, then a record a line", "3.1")
def _stream(probe: Probe) -> None:
    probe.taken(probe.fresh(sample()))
    envelope, arrays = _lines(probe.send("GET", STREAM))
    own = checksum_of(spelled(envelope | arrays))
    must(envelope.get("checksum") == own, "the checksum of the whole", "another")


def _by_lines(document: Document) -> bytes:
    whole = sealed(document)
    envelope = {name: value for name, value in whole.items() if name not in ARRAYS}
    records = [{"_kind": kind} | one for name, kind in ARRAYS.items() for one in whole[name]]
    return b"".join(spelled(one) + b"\n" for one in [envelope, *records])


@_flow("an NDJSON bundle is imported", "3.1", "recommendation")
def _import_lines(probe: Probe) -> None:
    document = probe.fresh(sample())
    answer = probe.send("POST", IMPORT, body=_by_lines(document), media=LINES)
    expect(answer, 200)
    must(len(kept_of(probe, document)) == 3, "three chunks", "others")


@_flow("a truncated NDJSON bundle is refused", "2.8", "recommendation")
def _cut(probe: Probe) -> None:
    document = probe.fresh(sample())
    text = _by_lines(document)
    for end in (text.rindex(b"\n", 0, -1) + 1, len(text) - 9):
        expect(probe.send("POST", IMPORT, body=text[:end], media=LINES), 409)
    must(not kept_of(probe, document), "nothing of it", "some")


# -- erasure ------------------------------------------------------------------------------------


def erased(probe: Probe) -> None:
    """Erase the tenant; check that nothing is exported and nothing returns."""
    document = probe.fresh(sample())
    probe.taken(document)
    expect(probe.send("DELETE", _BRAIN, token=probe.tokens.admin), 200, 202, 204)
    for query in ({}, {"producer": document["producer"]}):
        answer = probe.send("GET", EXPORT, query=query)
        expect(answer, 200)
        left = answer.json().get("chunks", [])
        must(left == [], "no chunk", f"{len(left)} chunks")
    summary = probe.taken(document, chunks_inserted=0)
    reasons = {one.get("reason") for one in summary.get("conflicts", ())}
    must(reasons == {"erased"}, "the reason erased", str(sorted(map(str, reasons))))
