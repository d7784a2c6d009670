# SPDX-License-Identifier: Apache-2.0
"""The right to erasure, asked for over HTTP. It takes all of the tenant's memory away."""

from __future__ import annotations

from omsgrain.conformance.http.probe import EXPORT, Probe, expect, must
from omsgrain.conformance.http.sample import bundle

_BRAIN = "/v1/brain"


def erased(probe: Probe) -> None:
    """Erase the tenant, see that nothing is exported, and that it does not come back."""
    document = probe.fresh(bundle())
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
