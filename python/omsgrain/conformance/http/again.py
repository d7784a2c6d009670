# SPDX-License-Identifier: Apache-2.0
"""Stories of importing again, of conflicts, and of what is checked first."""

from __future__ import annotations

from typing import Final

from omsgrain.conformance.edits import edited
from omsgrain.conformance.http.probe import Probe, expect, must
from omsgrain.conformance.http.sample import bundle, sealed
from omsgrain.conformance.http.story import (
    Flow,
    Gathering,
    content_of,
    kept_of,
    one_chunk,
    with_content,
)

_flow: Final = Gathering()
FLOWS: Final[list[Flow]] = _flow.flows

# -- importing again ----------------------------------------------------------------------------


@_flow("what was imported is exported", "3.1")
def _imported(probe: Probe) -> None:
    document = probe.fresh(bundle())
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
    probe.taken(probe.fresh(bundle()), chunk_entities_inserted=1, **new, **more)


@_flow("importing again is a no-op", "2.9")
def _again(probe: Probe) -> None:
    document = probe.fresh(bundle())
    probe.taken(document)
    before = kept_of(probe, document)
    probe.taken(document)
    must(kept_of(probe, document) == before, "the same chunks as before", "others")


@_flow("importing again is counted as skipped", "2.9", "recommendation")
def _skipped(probe: Probe) -> None:
    document = probe.fresh(bundle())
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


@_flow("a conflict is told inside a 200, with its reason", "2.9", "recommendation")
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
    probe.taken(
        edited(with_content(document, "It is off."), {"/chunks/-": new}), chunks_inserted=1
    )


@_flow("other fields at the same time are rejected", "5.4")
def _fields(probe: Probe) -> None:
    document = one_chunk(probe, zone="critical")
    probe.taken(document)
    expect(probe.put(edited(document, {"/chunks/0/zone": "standard"})), 200, 409, 422)
    zone = next(iter(kept_of(probe, document).values()), {}).get("zone")
    must(zone == "critical", "the zone as it was", "another")


@_flow("which fields were in conflict is told", "5.4", "recommendation")
def _named(probe: Probe) -> None:
    document = one_chunk(probe, zone="critical")
    probe.taken(document)
    summary = probe.taken(edited(document, {"/chunks/0/zone": "standard"}), chunks_inserted=0)
    told = [(one.get("reason"), one.get("fields")) for one in summary.get("conflicts", ())]
    must(told == [("field_conflict", ["zone"])], "field_conflict of zone", str(told))


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
    again = edited(document, {"/chunks/0/created_at": "2026-04-01T09:30:00.000+00:00"})
    probe.taken(again, chunks_rejected_conflict=[])


@_flow("of a bad bundle nothing is kept", "3.2")
def _nothing(probe: Probe) -> None:
    document = probe.fresh(bundle())
    expect(probe.put(edited(document, {"/chunks/2/memory_type": "rumour"})), 422)
    must(not kept_of(probe, document), "no chunk of it", "some")


# -- the order of checks ------------------------------------------------------------------------


@_flow("the envelope is checked before the checksum", "3.2", "recommendation")
def _envelope_first(probe: Probe) -> None:
    bad = sealed(probe.fresh(bundle())) | {"version": "2", "checksum": "sha256:" + "0" * 64}
    expect(probe.put(bad, seal=False), 422)


@_flow("the checksum is checked before the records", "3.2", "recommendation")
def _checksum_first(probe: Probe) -> None:
    bad = sealed(edited(probe.fresh(bundle()), {"/chunks/0/memory_type": "rumour"}))
    expect(probe.put(bad | {"checksum": "sha256:" + "0" * 64}, seal=False), 409)


@_flow("errors are problem details", "3.2", "recommendation")
def _problem(probe: Probe) -> None:
    answer = probe.put(edited(probe.fresh(bundle()), {"/scope": "ALL"}))
    expect(answer, 422)
    problem = answer.problem()
    for name in ("type", "title", "status"):
        must(name in problem, f"a member {name}", "none")
