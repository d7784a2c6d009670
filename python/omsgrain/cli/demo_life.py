# SPDX-License-Identifier: Apache-2.0
"""The demo's third part: what becomes of a grain, who may change that, and who did."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from omsgrain.cli.story import Story, since

if TYPE_CHECKING:
    from omsgrain import Grain, GrainStore

GAUGE = "gauge g2"
SECRET = "the door code is 4711"


def tell(story: Story, directory: Path) -> None:
    """Tell it, of the store in a directory."""
    import omsgrain as og

    with og.open(directory, actor="demo") as store:
        _supersede(story, store)
        _refuse(story, store)
        _search(story, store)
        _forget(story, store, directory)
        _audit(story, store)


def _after(grain: Grain, **changed: object) -> dict[str, object]:
    """The fields of a grain, said again a minute later with something changed."""
    fields = {name: value for name, value in grain.to_dict().items() if name != "derived_from"}
    return {**fields, "created_at": grain["created_at"] + 60_000, **changed}


def _supersede(story: Story, store: GrainStore) -> None:
    story.step("The robot looks at gauge g2 again, and thinks otherwise")
    old = store.query(type="belief", subject=GAUGE, limit=1).results[0].grain
    before = old.blob
    new = store.supersede(old.address, _after(old, confidence=0.99))
    answer = store.query(type="belief", subject=GAUGE)
    current = [hit.content_address for hit in answer.results]
    story.check(
        "the new belief is current, the old one is not",
        new in current and old.address not in current,
    )
    story.check("not a byte of the old one changed", store.get(old.address).blob == before)
    versions = [grain.address for grain in store.history(new)]
    story.check("both are its history", versions[-2:] == [old.address, new])
    then = store.query(type="belief", subject=GAUGE, known_at=old["created_at"])
    story.check(
        "asked what was known then, the store gives the old one",
        old.address in {hit.content_address for hit in then.results},
    )


def _refuse(story: Story, store: GrainStore) -> None:
    import omsgrain as og

    story.step("A rule that nobody may change")
    rule = og.Belief(
        subject="robot",
        relation="mg:prohibits",
        object="entering the lab at night",
        invalidation_policy={"mode": "locked"},
    )
    address = store.put(rule)
    refused = []
    for act in (
        lambda: store.supersede(address, _after(rule, object="nothing")),
        lambda: store.retract(address),
        lambda: store.delete(address),
    ):
        try:
            act()
        except og.errors.OmsError as error:
            refused.append(error.code)
    story.say(f"Superseding, retracting, deleting: {', '.join(refused)}.")
    story.check("all three are refused", refused == ["ERR_INVALIDATION_DENIED"] * 3)


def _search(story: Story, store: GrainStore) -> None:
    story.step("Search by words")
    start = time.perf_counter()
    found = store.search("+lab night", limit=3).results
    for hit in found:
        story.say(f"{hit.score:.2f}  {hit.snippet}")
    story.say(f"Words of all grains taken in, and found {since(start)}.")
    story.check("the rule comes first", found[0].grain["relation"] == "mg:prohibits")


def _forget(story: Story, store: GrainStore, directory: Path) -> None:
    import omsgrain as og

    story.step("Delete a grain, and compact the store")
    address = store.put(og.Event(content=SECRET))
    there = _is_in_a_file(directory)
    store.delete(address, reason="it was never to be kept")
    report = store.compact()
    story.say(f"{report.before} bytes before, {report.after} after.")
    story.check(
        "its words were in the files, and are in none now", there and not _is_in_a_file(directory)
    )


def _is_in_a_file(directory: Path) -> bool:
    files = (path for path in directory.rglob("*") if path.is_file())
    return any(SECRET.encode() in path.read_bytes() for path in files)


def _audit(story: Story, store: GrainStore) -> None:
    story.step("Who did what")
    *_, last = store.audit.entries()
    done = [entry.operation for entry in store.audit.entries() if entry.actor == "demo"]
    story.say(f"By the demo: {', '.join(done)}.")
    story.check("the trail tells it", done == ["supersede", "put", "put", "delete", "compact"])
    report = store.audit.verify()
    story.check(f"{last.number} entries, bound by their hashes, are whole", report.ok)
    story.check("and so is all of the store", store.check().ok)
