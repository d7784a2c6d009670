# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 2: the operations of a store, time, verification, consent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Table, Tried, refuses, result, takes
from omsgrain.conformance.rules.people import ADA, BEN, ada, ben, by_hand
from omsgrain.conformance.rules.vectors import vector

__all__ = ["RULES", "belief", "found"]

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules

_FACT = vector("oms", 1)
_BELIEF_AT = "f06c02f500fe38fd2c77458315b651d4b84542df635b8722c502944286d40cc5"
_NOBODY = "ab" * 32
DAY: Final = 86_400_000


def belief(what: str = "on", at: int = 0, **more: Any) -> dict[str, Any]:
    """A grain to put."""
    return {"type": "belief", "subject": "lamp", "relation": "is", "object": what,
            "confidence": 0.5, "created_at": NOW + at, **more}


def found(store: og.GrainStore, **filters: Any) -> list[str]:
    """The addresses that a query gives, in its order."""
    return [hit.content_address for hit in store.query(**filters).results]


@_rule("store.put", "28.1", "put gives the content address, and get the very bytes")
def _put(bench: Bench) -> Iterator[Tried]:
    for store in (bench.store(), bench.on_disk()):
        given = {**_FACT["input"], "type": "belief"}
        yield Tried("vector 1 as a belief", _BELIEF_AT, store.put(given))
        blob = vector("oms", 7)["stages"]["blob_hex"]
        yield Tried("its bytes", blob, store.get(_BELIEF_AT).blob.hex())


@_rule("store.put.again", "28.1", "put of what is there changes nothing")
def _again(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    first = store.put(belief())
    yield Tried("the address again", first, store.put(belief()))
    yield Tried("how many there are", 1, len(store))


@_rule("store.get", "28.1", "get and exists say what is not there")
def _get(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    yield refuses("an address of nothing", "ERR_NOT_FOUND", lambda: store.get(_NOBODY))
    yield refuses("no address", "ERR_HASH_LENGTH", lambda: store.get("ab"))
    yield Tried("exists", (True, False), (store.exists(address), store.exists(_NOBODY)))


@_rule("store.batch", "28.1", "put_batch is all or nothing, get_batch keeps the order")
def _batch(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    bad = {**belief("x"), "confidence": 7}
    yield refuses("two good ones and a bad one", "ERR_RANGE",
                  lambda: store.put_many([belief("a"), bad, belief("b")]))
    yield Tried("grains after that", 0, len(store))
    addresses = [one or "" for one in store.put_many([belief("a"), belief("b")]).addresses]
    turned = list(reversed(addresses))
    yield Tried("got in the other order", turned, [g.address for g in store.get_many(turned)])


@_rule("store.delete", "28.1", "delete takes a grain out")
def _delete(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    store.delete(address)
    yield refuses("got after", "ERR_NOT_FOUND", lambda: store.get(address))
    yield Tried("found after", [], found(store))


@_rule("store.supersede", "5.6", "supersede writes the new grain and marks the old in one step")
def _supersede(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief())
    new = store.supersede(old, belief("off", 5000))
    state = store.state(old)
    yield Tried("superseded_by", new, state.superseded_by)
    yield Tried("what is current", [new], found(store))
    yield Tried("the old grain's bytes", old, store.get(old).address)


@_rule("store.supersede.time", "5.6",
       "system_valid_to of the old is the new one's system_valid_from, else its created_at")
def _time(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old, other = store.put(belief()), store.put(belief("x"))
    bench.clock += DAY
    store.supersede(old, belief("off", 5000))
    store.supersede(other, belief("y", 5000, system_valid_from=NOW + 7000))
    yield Tried("created_at of the new one, not the clock", NOW + 5000,
                store.state(old).system_valid_to)
    yield Tried("its system_valid_from", NOW + 7000, store.state(other).system_valid_to)


@_rule("store.supersede.fork", "5.6", "A fork keeps all heads; superseded_by names the lowest")
def _fork(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief())
    heads = sorted(store.supersede(old, belief(what, 1000)) for what in ("a", "b", "c"))
    yield Tried("superseded_by", heads[0], store.state(old).superseded_by)
    yield Tried("all heads are current", heads, sorted(found(store)))


@_rule("store.supersede.failed", "5.6", "A supersession that is refused leaves nothing behind")
def _failed(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief(invalidation_policy={"mode": "locked"}))
    yield refuses("of a locked grain", "ERR_INVALIDATION_DENIED",
                  lambda: store.supersede(old, belief("off")))
    yield Tried("grains in the store", 1, len(store))
    yield refuses("of a grain that is not there", "ERR_NOT_FOUND",
                  lambda: store.supersede(_NOBODY, belief("off")))
    yield Tried("grains in the store", 1, len(store))


@_rule("store.supersede.circle", "5.6", "No grain supersedes itself or an ancestor of it")
def _circle(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    first = store.put(belief())
    second = store.supersede(first, belief("off"))
    yield refuses("itself", "ERR_SCHEMA", lambda: store.supersede(second, belief("off")))
    yield refuses("its ancestor", "ERR_SCHEMA", lambda: store.supersede(second, belief()))


@_rule("store.put.claims", "5.6", "put refuses a grain that claims to supersede another")
def _claims(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    values: dict[str, Any] = {
        "invalidation_type": "erratum", "invalidation_reason": "wrong",
        "invalidation_initiator": ADA, "supersession_justification": "so",
        "supersession_auth": [b"x"],
    }  # fmt: skip
    for name, value in values.items():
        yield refuses(name, "ERR_SCHEMA", lambda n=name, v=value: store.put(belief(**{n: v})))  # type: ignore[misc]
    old = store.put(belief())
    yield takes("through supersede",
                lambda: store.supersede(old, belief("off", invalidation_reason="wrong")))


@_rule("store.sealed-in", "28.1", "A blob that is not canonical, or not of its address, is not put")
def _strict(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    for number in (101, 133, 139, 201, 205):
        one = vector("refusals/read", number)
        yield refuses(one["description"], one["expect_error"],
                      lambda one=one: store.put(bytes.fromhex(one["blob_hex"])))  # type: ignore[misc]
    yield Tried("grains in the store", 0, len(store))


@_rule("store.index-fields", "13", "State changes touch no blob and no address")
def _outside(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    before = store.get(address).blob
    store.contest(address)
    store.supersede(address, belief("off"))
    yield Tried("the blob after both", before, store.get(address).blob)
    yield Tried("its verification", "contested", store.state(address).verification_status)


@_rule("store.verification", "28.3", "unverified, verified, contested, retracted; no other state")
def _verification(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    told = [store.state(address).verification_status]
    for status in ("verified", "contested", "unverified", "retracted"):
        store.set_verification(address, status)  # type: ignore[arg-type]
        told.append(store.state(address).verification_status)
    yield Tried("one after the other",
                ["unverified", "verified", "contested", "unverified", "retracted"], told)
    yield refuses("another word", "ERR_SCHEMA",
                  lambda: store.set_verification(address, "doubted"))  # type: ignore[arg-type]


@_rule("store.current", "28.4", "current leaves out superseded, retracted and restricted grains")
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


@_rule("store.order", "28.4", "The newest created_at first, then by address")
def _order(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    same = sorted(store.put(belief(what)) for what in "abcdef")
    late = store.put(belief("z", 1))
    yield Tried("six of one time and a later one", [late, *same], found(store))
    yield Tried("the oldest first", [*reversed(same), late], found(store, order="oldest"))


@_rule("store.envelope", "28.4", "A result has grain, score 0 to 1, matched_fields, its address")
def _envelope(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    for at in range(3):
        store.put(belief(str(at), at * 1000))
    page = store.query(subject="lamp", limit=2, count=True)
    hit = page.results[0]
    yield Tried("scores", True, all(0.0 <= one.score <= 1.0 for one in page.results))
    yield Tried("the newest scores 1", 1.0, hit.score)
    yield Tried("matched_fields", ("subject",), tuple(hit.matched_fields))
    yield Tried("content_address", hit.grain.address, hit.content_address)
    yield Tried("total", 3, page.total)
    rest = store.query(subject="lamp", limit=2, cursor=page.next_cursor)
    yield Tried("the rest by next_cursor", (1, None), (len(rest.results), rest.next_cursor))


@_rule("store.query", "28.2", "Any of subject, relation, object; type, namespace, user, tag, time")
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
        yield Tried(what, expected, found(store, **filters))  # type: ignore[arg-type]
    yield Tried("an unknown filter", "TypeError", _raised(lambda: store.query(colour="red")))  # type: ignore[call-arg]


def _raised(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "nothing"


@_rule("store.search", "28.2", "search finds grains by words")
def _search(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief("the lighthouse keeper"))
    store.put(belief("the gardener"))
    hits = store.search("lighthouse").results
    yield Tried("\"lighthouse\"", [address], [hit.content_address for hit in hits])


@_rule("time.valid", "28.5", "True at a time: valid_from <= time <= valid_to, absent ends open")
def _valid(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    one = store.put(belief("a", valid_from=NOW + 1000, valid_to=NOW + 3000))
    open_end = store.put(belief("b", valid_from=NOW + 2000))
    always = store.put(belief("c"))
    for at, expected in ((0, [always]), (1000, [one, always]), (3000, [one, open_end, always]),
                         (3001, [open_end, always])):
        yield Tried(f"{at} ms on", sorted(expected), sorted(found(store, valid_at=NOW + at, relation="is")))


@_rule("time.known", "28.5",
       "Known at a time: from system_valid_from, else created_at, until before system_valid_to")
def _known(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief("on", 1000))
    new = store.supersede(old, belief("off", 5000))
    late = store.put(belief("x", 1000, system_valid_from=NOW + 8000))
    for at, expected in ((999, []), (1000, [old]), (4999, [old]), (5000, [new]),
                         (8000, [new, late])):
        yield Tried(f"{at} ms on", sorted(expected), sorted(found(store, known_at=NOW + at, relation="is")))


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


@_rule("store.signatures", "9.3", "A grain keeps the envelopes of all its signers")
def _signatures(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    grain = og.Grain(og.encode(belief()))
    envelopes = [crypto.sign(grain, one, iat=NOW // 1000) for one in (ada(), ben())]
    addresses = {store.put(one) for one in envelopes}
    yield Tried("addresses", 1, len(addresses))
    address = addresses.pop()
    yield Tried("signers", sorted([ADA, BEN]), sorted(s.signer for s in store.signatures(address)))
    yield Tried("Ada's envelope", envelopes[0], store.envelope(address, ADA))
    forged = by_hand({1: -8, 3: "application/vnd.mg+msgpack", 4: ADA.encode()},
                     crypto.with_signed_bit(og.Grain(og.encode(belief("off")))).blob, ben())
    yield Tried("one that does not hold", True, result(lambda: store.put(forged)) != "taken")


@_rule("store.sign", "9.3", "Signing an unsigned grain writes another, derived from it, in its place")
def _sign(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief())
    new = store.sign(old, ada(), iat=NOW // 1000)
    yield Tried("superseded_by", new, store.state(old).superseded_by)
    yield Tried("derived_from", [old], store.get(new)["derived_from"])
    yield Tried("its signed bit", 1, store.get(new).blob[1] & 1)


@_rule("store.counters", "13", "Reads by users are counted beside the grain, not in it")
def _counters(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    for _ in range(3):
        store.get(address)
    state = store.state(address)
    yield Tried("three reads", (3, NOW), (state.access_count, state.last_accessed_at))


def consent(at: int = 0, **more: Any) -> dict[str, Any]:
    """A consent of Ada's to Ben."""
    return {"type": "consent", "subject_did": ADA, "grantee_did": BEN, "scope": ["store"],
            "is_withdrawal": False, "created_at": NOW - DAY + at, **more}


@_rule("consent.withdrawal", "24", "A withdrawal is a grain beside the grant; both stay")
def _withdrawal(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    grant = store.put(consent())
    report = store.withdraw_consent(grant)
    said = store.get(report.withdrawal)
    yield Tried("is_withdrawal", True, said["is_withdrawal"])
    yield Tried("prior_consent", grant, said["prior_consent"])
    yield Tried("the grant is there", True, store.exists(grant))
    yield Tried("withdrawn again", report.withdrawal, store.withdraw_consent(grant).withdrawal)


@_rule("consent.basis", "24", "What stands on a consent is not stored once that was withdrawn")
def _basis(bench: Bench) -> Iterator[Tried]:
    from omsgrain.privacy import load

    store = bench.store(preset=load("gdpr"), keys=bench.keys())
    grant = store.put(consent(user_id="u-1"))

    def wanted(what: str) -> dict[str, Any]:
        return belief(what, user_id="u-1", processing_basis=grant, structural_tags=["pii:name"],
                      source_type="user_explicit", identity_state="authenticated")

    yield takes("while it stands", lambda: store.put(wanted("a")))
    store.withdraw_consent(grant)
    yield refuses("after it", "consent", lambda: store.put(wanted("b")))


@_rule("consent.cascade", "24", "consent_cascade: erasure is due within 30 days of the withdrawal")
def _cascade(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    grant = store.put(consent())
    based = store.put(belief(processing_basis=grant, invalidation_policy={"mode": "consent_cascade"}))
    free = store.put(belief("x", processing_basis=grant))
    report = store.withdraw_consent(grant)
    yield Tried("queued", (based,), tuple(report.queued))
    yield Tried("named", (free,), tuple(report.others))
    yield Tried("due", NOW + 30 * DAY, report.deadline)
    yield refuses("31 days", "ERR_RANGE", lambda: store.withdraw_consent(grant, sla_days=31))
    bench.clock += 31 * DAY
    store.run_due_erasures()
    yield Tried("there after that", (False, True), (store.exists(based), store.exists(free)))
