# SPDX-License-Identifier: Apache-2.0
"""Supersede, refuse, search, delete and audit."""

from __future__ import annotations

import time
from pathlib import Path

from story import Story, has_text, refusal, since

import omsgrain as og
from omsgrain import Grain, GrainStore

GAUGE = "gauge g2"
SECRET = "the door code is 4711"


def tell_life(story: Story, directory: Path) -> None:
    """Supersede, refuse, search, delete and audit in the store in a directory."""
    with og.open(directory, actor="demo") as store:
        _supersede(story, store)
        _refuse(story, store)
        _search(story, store)
        _delete_and_compact(story, store, directory)
        _audit(story, store)


def _after(grain: Grain, **changed: object) -> dict[str, object]:
    """Return the fields of a grain one minute later, with changes."""
    fields = {name: value for name, value in grain.to_dict().items() if name != "derived_from"}
    return {**fields, "created_at": grain["created_at"] + 60_000, **changed}


def _supersede(story: Story, store: GrainStore) -> None:
    story.step("The robot checks gauge g2 again and changes its belief")
    old = store.query(type="belief", subject=GAUGE, limit=1).results[0].grain
    before = old.blob
    new = store.supersede(old.address, _after(old, confidence=0.99))
    answer = store.query(type="belief", subject=GAUGE)
    current = [hit.address for hit in answer.results]
    story.check(
        "the new belief is current, the old one is not",
        new in current and old.address not in current,
    )
    story.check("no byte of the old one changed", store.get(old.address).blob == before)
    versions = [grain.address for grain in store.history(new)]
    story.check("its history has both", versions[-2:] == [old.address, new])
    then = store.query(type="belief", subject=GAUGE, known_at=old["created_at"])
    story.check(
        "a known_at query returns the old one",
        old.address in {hit.address for hit in then.results},
    )


def _refuse(story: Story, store: GrainStore) -> None:
    story.step("A locked rule")
    rule = og.Belief(
        subject="robot",
        relation="mg:prohibits",
        object="entering the lab at night",
        invalidation_policy={"mode": "locked"},
    )
    address = store.put(rule)
    refused = [
        refusal(lambda: store.supersede(address, _after(rule, object="nothing"))),
        refusal(lambda: store.retract(address)),
        refusal(lambda: store.delete(address)),
    ]
    story.say(f"Superseding, retracting, deleting: {', '.join(refused)}.")
    story.check("all three are refused", refused == ["ERR_INVALIDATION_DENIED"] * 3)


def _search(story: Story, store: GrainStore) -> None:
    story.step("Search by words")
    start = time.perf_counter()
    found = store.search("+lab night", limit=3).results
    for hit in found:
        story.say(f"{hit.score:.2f}  {hit.snippet}")
    story.say(f"All grains indexed and searched {since(start)}.")
    story.check("the rule comes first", found[0].grain["relation"] == "mg:prohibits")


def _delete_and_compact(story: Story, store: GrainStore, directory: Path) -> None:
    story.step("Delete a grain, and compact the store")
    address = store.put(og.Event(content=SECRET))
    there = has_text(directory, SECRET)
    store.delete(address, reason="it should not be kept")
    report = store.maintenance.compact()
    story.say(f"{report.before} bytes before, {report.after} after.")
    story.check(
        "its words were in the files, and no file has them now",
        there and not has_text(directory, SECRET),
    )


def _audit(story: Story, store: GrainStore) -> None:
    story.step("Audit trail")
    *_, last = store.audit.entries()
    done = [entry.operation for entry in store.audit.entries() if entry.actor == "demo"]
    story.say(f"By the demo: {', '.join(done)}.")
    story.check(
        "the audit trail lists it", done == ["supersede", "put", "put", "delete", "compact"]
    )
    report = store.audit.verify()
    story.check(f"{last.number} entries, chained by their hashes, are verified", report.ok)
    story.check("the store has no problems", store.maintenance.check().ok)
