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

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules

_FACT = vector("oms", 1)
_BELIEF_AT = "f06c02f500fe38fd2c77458315b651d4b84542df635b8722c502944286d40cc5"
_NOBODY = "ab" * 32
DAY: Final = 86_400_000


def belief(what: str = "on", at: int = 0, **more: Any) -> dict[str, Any]:
    """A grain to put."""
    return {
        "type": "belief",
        "subject": "lamp",
        "relation": "is",
        "object": what,
        "confidence": 0.5,
        "created_at": NOW + at,
        **more,
    }


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
    yield refuses(
        "two good ones and a bad one",
        "ERR_RANGE",
        lambda: store.put_many([belief("a"), bad, belief("b")]),
    )
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


@_rule(
    "store.supersede.time",
    "5.6",
    "system_valid_to of the old is the new one's system_valid_from, else its created_at",
)
def _time(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old, other = store.put(belief()), store.put(belief("x"))
    bench.clock += DAY
    store.supersede(old, belief("off", 5000))
    store.supersede(other, belief("y", 5000, system_valid_from=NOW + 7000))
    yield Tried(
        "created_at of the new one, not the clock", NOW + 5000, store.state(old).system_valid_to
    )
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
    yield refuses(
        "of a locked grain", "ERR_INVALIDATION_DENIED", lambda: store.supersede(old, belief("off"))
    )
    yield Tried("grains in the store", 1, len(store))
    yield refuses(
        "of a grain that is not there",
        "ERR_NOT_FOUND",
        lambda: store.supersede(_NOBODY, belief("off")),
    )
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
        yield refuses(name, "ERR_SCHEMA", store.put, belief(**{name: value}))
    old = store.put(belief())
    yield takes(
        "through supersede",
        lambda: store.supersede(old, belief("off", invalidation_reason="wrong")),
    )


@_rule(
    "store.sealed-in", "28.1", "A blob that is not canonical, or not of its address, is not put"
)
def _strict(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    for number in (101, 133, 139, 201, 205):
        one = vector("refusals/read", number)
        yield refuses(
            one["description"],
            one["expect_error"],
            store.put,
            bytes.fromhex(one["blob_hex"]),
        )
    yield Tried("grains in the store", 0, len(store))


@_rule("store.index-fields", "5.6", "State changes touch no blob and no address")
def _outside(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    before = store.get(address).blob
    store.contest(address)
    store.supersede(address, belief("off"))
    yield Tried("the blob after both", before, store.get(address).blob)
    yield Tried("its verification", "contested", store.state(address).verification_status)


@_rule("store.verification", "28.1", "unverified, verified, contested, retracted; no other state")
def _verification(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    told = [store.state(address).verification_status]
    for status in ("verified", "contested", "unverified", "retracted"):
        store.set_verification(address, status)
        told.append(store.state(address).verification_status)
    yield Tried(
        "one after the other",
        ["unverified", "verified", "contested", "unverified", "retracted"],
        told,
    )
    yield refuses("another word", "ERR_SCHEMA", store.set_verification, address, "doubted")


@_rule("store.signatures", "9", "A grain keeps the envelopes of all its signers")
def _signatures(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    grain = og.Grain(og.encode(belief()))
    envelopes = [crypto.sign(grain, one, iat=NOW // 1000) for one in (ada(), ben())]
    addresses = {store.put(one) for one in envelopes}
    yield Tried("addresses", 1, len(addresses))
    address = addresses.pop()
    yield Tried("signers", sorted([ADA, BEN]), sorted(s.signer for s in store.signatures(address)))
    yield Tried("Ada's envelope", envelopes[0], store.envelope(address, ADA))
    forged = by_hand(
        {1: -8, 3: "application/vnd.mg+msgpack", 4: ADA.encode()},
        crypto.with_signed_bit(og.Grain(og.encode(belief("off")))).blob,
        ben(),
    )
    yield Tried("one that does not hold", True, result(lambda: store.put(forged)) != "taken")


@_rule(
    "store.sign", "9", "Signing an unsigned grain writes another, derived from it, in its place"
)
def _sign(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief())
    new = store.sign(old, ada(), iat=NOW // 1000)
    yield Tried("superseded_by", new, store.state(old).superseded_by)
    yield Tried("derived_from", [old], store.get(new)["derived_from"])
    yield Tried("its signed bit", 1, store.get(new).blob[1] & 1)
