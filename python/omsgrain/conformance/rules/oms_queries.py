# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 2: what a store finds, at any time, and what consents allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.oms_store import DAY, belief, found
from omsgrain.conformance.rules.people import ADA, BEN
from omsgrain.query.envelope import envelope

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules


@_rule("store.current", "28.1", "current leaves out superseded, retracted and restricted grains")
def _current(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    stays, contested = store.put(belief("a")), store.put(belief("b"))
    old, retracted, kept = (store.put(belief(what)) for what in "cde")
    new = store.supersede(old, belief("f"))
    store.contest(contested)
    store.retract(retracted)
    store.restrict(kept, reason_code="disputed")
    yield Tried("current", sorted([stays, contested, new]), sorted(found(store)))
    yield Tried("all of them", 6, len(found(store, current=None)))
    yield Tried("past", sorted([old, retracted, kept]), sorted(found(store, current=False)))


@_rule("store.order", "28.1", "The newest created_at first, then by address")
def _order(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    same = sorted(store.put(belief(what)) for what in "abcdef")
    late = store.put(belief("z", 1))
    yield Tried("six of one time and a later one", [late, *same], found(store))
    yield Tried("the oldest first", [*reversed(same), late], found(store, order="oldest"))


@_rule("store.envelope", "28.1", "A result has grain, score 0 to 1, matched_fields, its address")
def _envelope(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    for at in range(3):
        store.put(belief(str(at), at * 1000))
    page = store.query(subject="lamp", limit=2, count=True)
    hit = page.results[0]
    yield Tried("scores", [1.0, 0.0], [row["score"] for row in envelope(page)["results"]])
    yield Tried("matched_fields", ("subject",), tuple(hit.matched_fields))
    yield Tried("content_address", hit.grain.address, hit.content_address)
    yield Tried("total", 3, page.total)
    rest = store.query(subject="lamp", limit=2, cursor=page.next_cursor)
    yield Tried("the rest by next_cursor", (1, None), (len(rest.results), rest.next_cursor))


@_rule("store.query", "28.1", "Any of subject, relation, object; type, namespace, user, tag, time")
def _query(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    one = store.put(belief("on", namespace="home", user_id="u-1", structural_tags=["x"]))
    two = store.put(belief("off", 5000, subject="door", session_id="s-1"))
    event = store.put({"type": "event", "content": "hello", "created_at": NOW + 9000})
    for what, filters, expected in (
        ("subject", {"subject": "lamp"}, [one]),
        ("relation", {"relation": "is"}, [two, one]),
        ("object", {"object": "off"}, [two]),
        ("subject and relation", {"subject": "lamp", "relation": "is"}, [one]),
        ("relation and object", {"relation": "is", "object": "on"}, [one]),
        ("subject and object", {"subject": "door", "object": "off"}, [two]),
        ("all three", {"subject": "door", "relation": "is", "object": "on"}, []),
        ("none of them", {}, [event, two, one]),
        ("type", {"type": "event"}, [event]),
        ("namespace", {"namespace": "home"}, [one]),
        ("user", {"user_id": "u-1"}, [one]),
        ("session", {"session_id": "s-1"}, [two]),
        ("tag", {"tag": "x"}, [one]),
        ("created after", {"created_after": NOW + 5000}, [event, two]),
        ("created before", {"created_before": NOW + 5000}, [one]),
    ):
        yield Tried(what, expected, found(store, **filters))
    yield Tried("an unknown filter", "SchemaError", _raised(lambda: store.query(colour="red")))  # type: ignore[call-arg]


def _raised(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "nothing"


@_rule("store.search", "28.1", "search finds grains by words")
def _search(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief("the lighthouse keeper"))
    store.put(belief("the gardener"))
    hits = store.search("lighthouse").results
    yield Tried('"lighthouse"', [address], [hit.content_address for hit in hits])


@_rule("time.valid", "5.6", "True at a time: valid_from <= time <= valid_to, absent ends open")
def _valid(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    one = store.put(belief("a", valid_from=NOW + 1000, valid_to=NOW + 3000))
    open_end = store.put(belief("b", valid_from=NOW + 2000))
    always = store.put(belief("c"))
    for at, expected in (
        (0, [always]),
        (1000, [one, always]),
        (3000, [one, open_end, always]),
        (3001, [open_end, always]),
    ):
        yield Tried(
            f"{at} ms on", sorted(expected), sorted(found(store, valid_at=NOW + at, relation="is"))
        )


@_rule(
    "time.known",
    "5.6",
    "Known at a time: from system_valid_from, else created_at, until before system_valid_to",
)
def _known(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief("on", 1000))
    new = store.supersede(old, belief("off", 5000))
    late = store.put(belief("x", 1000, system_valid_from=NOW + 8000))
    for at, expected in (
        (999, []),
        (1000, [old]),
        (4999, [old]),
        (5000, [new]),
        (8000, [new, late]),
    ):
        yield Tried(
            f"{at} ms on", sorted(expected), sorted(found(store, known_at=NOW + at, relation="is"))
        )


@_rule("store.history", "5.6", "The chain of supersessions is told, the oldest first")
def _history(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    chain = [store.put(belief("0"))]
    for n in range(1, 4):
        chain.append(store.supersede(chain[-1], belief(str(n), n)))
    yield Tried("from the middle", chain, [g.address for g in store.history(chain[1])])


@_rule("store.provenance", "5.6", "derived_from leads to what a grain was made from, and back")
def _provenance(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    root = store.put(belief("a"))
    child = store.put(belief("b", derived_from=[root]))
    up = {node.address for node in store.provenance(child).nodes}
    down = {node.address for node in store.descendants(root).nodes}
    yield Tried("from the child", True, {root} <= up)
    yield Tried("from the root", True, {child} <= down)


@_rule("store.counters", "5.6", "Reads by users are counted beside the grain, not in it")
def _counters(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    for _ in range(3):
        store.get(address)
    state = store.state(address)
    yield Tried("three reads", (3, NOW), (state.access_count, state.last_accessed_at))


def consent(at: int = 0, **more: Any) -> dict[str, Any]:
    """A consent of Ada's to Ben."""
    return {
        "type": "consent",
        "subject_did": ADA,
        "grantee_did": BEN,
        "scope": ["store"],
        "is_withdrawal": False,
        "created_at": NOW - DAY + at,
        **more,
    }


@_rule("consent.withdrawal", "8.10", "A withdrawal is a grain beside the grant; both stay")
def _withdrawal(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    grant = store.put(consent())
    report = store.withdraw_consent(grant)
    said = store.get(report.withdrawal)
    yield Tried("is_withdrawal", True, said["is_withdrawal"])
    yield Tried("prior_consent", grant, said["prior_consent"])
    yield Tried("the grant is there", True, store.exists(grant))
    yield Tried("withdrawn again", report.withdrawal, store.withdraw_consent(grant).withdrawal)


@_rule("consent.basis", "8.10", "What stands on a consent is not stored once that was withdrawn")
def _basis(bench: Bench) -> Iterator[Tried]:
    from omsgrain.policy.presets import load

    store = bench.store(preset=load("gdpr"), keys=bench.keys())
    grant = store.put(consent(user_id="u-1"))

    def wanted(what: str) -> dict[str, Any]:
        return belief(
            what,
            user_id="u-1",
            processing_basis=grant,
            structural_tags=["pii:name"],
            source_type="user_explicit",
            identity_state="authenticated",
        )

    yield takes("while it stands", lambda: store.put(wanted("a")))
    store.withdraw_consent(grant)
    yield refuses("after it", "consent", lambda: store.put(wanted("b")))


@_rule(
    "consent.cascade", "8.10", "consent_cascade: erasure is due within 30 days of the withdrawal"
)
def _cascade(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    grant = store.put(consent())
    based = store.put(
        belief(processing_basis=grant, invalidation_policy={"mode": "consent_cascade"})
    )
    free = store.put(belief("x", processing_basis=grant))
    report = store.withdraw_consent(grant)
    yield Tried("queued", (based,), tuple(report.queued))
    yield Tried("named", (free,), tuple(report.others))
    yield Tried("due", NOW + 30 * DAY, report.deadline)
    yield refuses("31 days", "ERR_RANGE", lambda: store.withdraw_consent(grant, sla_days=31))
    bench.clock += 31 * DAY
    store.run_due_erasures()
    yield Tried("there after that", (False, True), (store.exists(based), store.exists(free)))
