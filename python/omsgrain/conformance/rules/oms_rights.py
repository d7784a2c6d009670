# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 3: a person's keys are destroyed, and what is theirs is erased."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.oms_store import DAY, belief, found
from omsgrain.conformance.rules.people import ADA

_rule: Final = Table("oms", 3)
RULES: Final = _rule.rules

_ANN: Final[dict[str, Any]] = {"user_id": "ann-17"}


@_rule("erase.key", "20", "Destroying a user's record makes his grains unreadable for good")
def _erased(bench: Bench) -> Iterator[Tried]:
    root = bench.directory()
    path = root / "people.keys"
    with (
        og.crypto.KeyRing.create(path, master=bytes(32)) as keys,
        og.open(root / "s.omsg", keys=keys) as store,
    ):
        address = store.put(belief(user_id="ann"))
        before = path.read_bytes()
        yield Tried("his grain before it", "on", store.get(address)["object"])
        yield Tried("records destroyed", 1, keys.erase(["ann"]))
        yield Tried("keys after it", None, keys.of_user("ann"))
        yield refuses("his grain after it", "ERR_ERASED", lambda: store.get(address))
    yield Tried(
        "the file is overwritten in place",
        (len(before), True),
        (path.stat().st_size, path.read_bytes() != before),
    )
    with og.crypto.KeyRing.open(path, master=bytes(32)) as keys:
        yield Tried("opened again", None, keys.of_user("ann"))


@_rule(
    "erase.subject",
    "Compliance",
    "Erasing a person removes what is theirs, sealed or in the clear",
)
def _subject(bench: Bench) -> Iterator[Tried]:
    for what, store in (("clear", bench.store()), ("sealed", bench.store(keys=bench.keys()))):
        own = [
            store.put(belief("a", **_ANN)),
            store.put(belief("b", author_did=ADA)),
            store.put(belief("c", subject_did=ADA)),
        ]
        other = store.put(belief("d", user_id="ann-170"))
        report = store.erase_subject(["ann-17", ADA], reason_code="gdpr17")
        yield Tried(f"{what}: complete", True, report.complete)
        yield Tried(f"{what}: readable after", [False] * 3, [_is_there(store, one) for one in own])
        yield Tried(f"{what}: of another name", True, _is_there(store, other))
        yield Tried(f"{what}: found", [other], found(store))


def _is_there(store: og.GrainStore, address: str) -> bool:
    try:
        store.get(address)
    except og.errors.OmsError:
        return False
    return True


@_rule(
    "erase.mentions",
    "Compliance",
    "Grains that only bear the name are listed, and erased if asked",
)
def _mentions(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    named = store.put(belief(subject="ann-17"))
    report = store.erase_subject(["ann-17"], reason_code="gdpr17")
    yield Tried("listed", ((named, ("subject",)),), tuple(report.named))
    yield Tried("there", True, store.exists(named))
    store.erase_subject(["ann-17"], reason_code="gdpr17", mentions="erase")
    yield Tried('after mentions="erase"', False, store.exists(named))


@_rule(
    "erase.kept",
    "Compliance",
    "What a hold or a retention keeps is restricted, and never called done",
)
def _kept(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    held = store.put(belief("a", **_ANN))
    years = store.put(belief("b", **_ANN, retention_policy={"minimum_retention_years": 2}))
    store.hold(held, authority="court", reason_code="case-7")
    report = store.erase_subject(["ann-17"], reason_code="gdpr17")
    yield Tried("kept", {held, years}, {address for address, _ in report.kept})
    yield Tried("complete", False, report.complete)
    yield Tried("found", [], found(store))
    store.release(held, authority="court", reason_code="settled")
    bench.clock += 3 * 366 * DAY
    yield Tried(
        "done once nothing keeps it", True, store.run_due_erasures(everything=True).complete
    )
    yield Tried("there", (False, False), (store.exists(held), store.exists(years)))


@_rule("erase.again", "20", "What was erased is not taken in again, unless that is asked for")
def _again(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    fields = belief("a", **_ANN)
    store.put(fields)
    store.erase_subject(["ann-17"], reason_code="gdpr17")
    yield refuses("the same grain", "ERR_ERASED", lambda: store.put(fields))
    yield takes("a new one of the same person", lambda: store.put(belief("b", **_ANN)))
    yield takes("the same with allow_erased", lambda: store.put(fields, allow_erased=True))


@_rule("erase.tombstones", "20", "A tombstone shows neither the address nor the name")
def _tombstones(bench: Bench) -> Iterator[Tried]:
    root = bench.directory()
    with og.open(root / "s.omsg") as store:
        address = store.put(belief("lighthouse", **_ANN))
        store.erase_subject(["ann-17"], reason_code="gdpr17")
    raw = b"".join(file.read_bytes() for file in root.rglob("*") if file.is_file())
    for what, text in (
        ("the address", bytes.fromhex(address)),
        ("it in hex", address.encode()),
        ("the name", b"ann-17"),
        ("the content", b"lighthouse"),
    ):
        yield Tried(f"{what} in the files", False, text in raw)


@_rule("subject.report", "Compliance", "A person is shown all that is held about them")
def _report(bench: Bench) -> Iterator[Tried]:
    store = bench.store(keys=bench.keys())
    own = {store.put(belief("a", **_ANN)), store.put(belief("b", subject_did=ADA))}
    named = store.put(belief("c", subject="ann-17"))
    store.put(belief("d", user_id="bob-3"))
    report = store.subject_report(["ann-17", ADA])
    yield Tried("grains", own | {named}, {one.grain.address for one in report.grains()})
    yield Tried("theirs, named", (2, 1), (report.own, report.named))


@_rule("restrict", "Compliance", "A restricted grain is kept and left out of all use")
def _restricted(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief("lighthouse"))
    store.restrict(address, reason_code="disputed")
    yield Tried(
        "queried, searched",
        ([], []),
        (found(store), [hit.content_address for hit in store.search("lighthouse").results]),
    )
    left = store.export_mg(bench.directory() / "x.mg")
    yield Tried("exported to others", 0, left.grains)
    yield Tried("its bytes", True, store.exists(address))
