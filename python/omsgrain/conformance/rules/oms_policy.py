# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 2: grains that protect themselves, and goals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Check, Table, Tried, refuses, takes
from omsgrain.conformance.rules.oms_store import belief
from omsgrain.conformance.rules.people import ADA, BEN, CAT, ada, ben, by_hand, cat
from omsgrain.crypto.signers import KeySigner

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules
_add: Final = _rule.add

DENIED: Final = "ERR_INVALIDATION_DENIED"
_SECOND = NOW // 1000


def _acts(store: og.GrainStore, address: str, why: str | None = None) -> Iterator[tuple[str, Any]]:
    """All that takes a grain from what is current and trusted."""
    yield "superseded", lambda: store.supersede(address, belief("new", 1), why)
    yield "contested", lambda: store.contest(address, reason=why)
    yield "retracted", lambda: store.retract(address, reason=why)
    yield "deleted", lambda: store.delete(address, reason=why)


def denies(policy: Any, *, at: int = 0) -> Check:
    """A policy under which nothing of that may be done, whatever the reason."""

    def check(bench: Bench) -> Iterator[Tried]:
        store = bench.store()
        address = store.put(belief(invalidation_policy=policy))
        bench.clock += at
        for what, act in _acts(store, address, "a reason"):
            yield refuses(f"{_short(policy)}: {what}", DENIED, act)

    return check


def _allows(policy: Any, *, why: str | None = None, at: int = 0) -> Check:
    """A policy under which all of that may be done, each to a grain of its own."""

    def check(bench: Bench) -> Iterator[Tried]:
        store = bench.store()
        names = ("superseded", "contested", "retracted", "deleted")
        grains = [store.put(belief(name, invalidation_policy=policy)) for name in names]
        bench.clock += at
        for n, address in enumerate(grains):
            what, act = list(_acts(store, address, why))[n]
            yield takes(f"{_short(policy)}: {what}", act)

    return check


def _short(policy: Any) -> str:
    if not isinstance(policy, dict):
        return repr(policy)
    return " ".join(f"{k}={v}" if k != "authorized" else "authorized" for k, v in policy.items())


def _soft(bench: Bench) -> Iterator[Tried]:
    for name, why in (("nothing", None), ("blanks", " \n")):
        store = bench.store()
        address = store.put(belief(invalidation_policy={"mode": "soft_locked"}))
        for what, act in _acts(store, address, why):
            yield refuses(f"{what}, with {name} said", DENIED, act)


# fmt: off
_add("policy.open", "23.2", "open, or no policy: what is asked is done", _allows({"mode": "open"}))
_add("policy.locked", "23.2", "locked: superseding, contesting, retracting, deleting are denied",
     denies({"mode": "locked"}))
_add("policy.unknown", "23.2", "A mode that nobody knows is as locked",
     denies({"mode": "frozen"}), denies({"mode": "OPEN"}), denies({"mode": "open "}))
_add("policy.malformed", "23.2", "A policy that cannot be understood is as locked",
     denies({}), denies({"scope": "grain"}), denies({"mode": 1}), denies({"mode": ["open"]}))
_add("policy.soft.without", "23.2", "soft_locked: denied without a justification",
     _soft)
_add("policy.soft.with", "23.2", "soft_locked: done with a justification",
     _allows({"mode": "soft_locked"}, why="it broke"))
# fmt: on


@_rule("policy.soft.review", "23.2", "soft_locked: what is done is flagged for review")
def _review(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief(invalidation_policy={"mode": "soft_locked"}))
    new = store.supersede(old, belief("off", 1), "it broke")
    yield Tried("reviews", 1, len(list(store.reviews())))
    yield Tried(
        "the reason in the new grain", "it broke", store.get(new)["supersession_justification"]
    )


def quorum(threshold: Any = 2, authorized: Any = (ADA, BEN, CAT)) -> dict[str, Any]:
    """A policy that asks for several."""
    named = list(authorized) if isinstance(authorized, tuple) else authorized
    return {"mode": "quorum", "authorized": named, "threshold": threshold}


def agreed(
    old: str, *signers: KeySigner, what: str = "off", about: str | None = None
) -> dict[str, Any]:
    """A grain that others agree to, each entry made by hand over its payload without entries."""
    payload = og.encode(belief(what, 1))[9:]
    entries = [
        by_hand(
            {1: signer.alg, 4: signer.did.encode()},
            None,
            signer,
            detached=payload,
            aad=bytes.fromhex(about or old),
        )
        for signer in signers
    ]
    return belief("off", 1, supersession_auth=entries)


@_rule("policy.quorum", "23.2", "quorum: valid signatures of threshold distinct authorized DIDs")
def _quorums(bench: Bench) -> Iterator[Tried]:
    for what, policy, signers, holds in (
        ("nobody of two", quorum(), (), False),
        ("one of two", quorum(), (ada(),), False),
        ("the same one twice", quorum(), (ada(), ada()), False),
        ("two of two", quorum(), (ada(), ben()), True),
        ("one of one", quorum(1), (cat(),), True),
        ("one who is not named", quorum(1, (ADA,)), (cat(),), False),
        ("named twice, two wanted", quorum(2, (ADA, ADA)), (ada(),), False),
    ):
        store = bench.store()
        old = store.put(belief(invalidation_policy=policy))
        act = supersede(store, old, agreed(old, *signers))
        yield takes(what, act) if holds else refuses(what, DENIED, act)


def supersede(store: og.GrainStore, old: str, new: Any) -> Any:
    """What would put a grain in the place of another."""
    return lambda: store.supersede(old, new)


@_rule(
    "policy.quorum.claim",
    "23.2",
    "Each entry signs the new payload without entries, with the old address as external_aad",
)
def _claims(bench: Bench) -> Iterator[Tried]:
    for what, how in (
        ("of another payload", {"what": "dim"}),
        ("about another grain", {"about": "ab" * 32}),
    ):
        store = bench.store()
        old = store.put(belief(invalidation_policy=quorum(1)))
        yield refuses(what, DENIED, supersede(store, old, agreed(old, ada(), **how)))
    old = "5e" * 32
    made = crypto.co_sign(og.encode(belief("off", 1))[9:], old, ada())
    yield Tried("the entry that is written", agreed(old, ada())["supersession_auth"][0], made)


# fmt: off
_add("policy.quorum.malformed", "23.2",
     "A quorum without people, or a threshold that cannot be met, denies",
     *(denies(one) for one in (
         {"mode": "quorum", "threshold": 1}, quorum(1, []), quorum(1, ADA), quorum(0), quorum(-1),
         quorum(True), quorum(1.0), quorum("1"), {"mode": "quorum",
                                                  "authorized": [ADA]})))  # fmt: skip
_add(
    "policy.quorum.others",
    "23.2",
    "quorum: contesting, retracting and deleting are denied",
    lambda bench: list(denies(quorum())(bench))[1:],
)
# fmt: on


@_rule("policy.delegated", "23.2", "delegated: an authorized DID signs this supersession")
def _delegated(bench: Bench) -> Iterator[Tried]:
    policy = {"mode": "delegated", "authorized": [ADA]}
    store = bench.store()
    old = store.put(belief(invalidation_policy=policy))
    other = store.put(belief("dim", invalidation_policy=policy))
    links = [{"hash": old, "relation_type": "replaces"}]
    about = og.Grain(og.encode(belief("off", 1, derived_from=[old])))
    replaces = og.Grain(og.encode(belief("off", 1, related_to=links)))
    unnamed = og.Grain(og.encode(belief("off", 1)))
    elsewhere = og.Grain(og.encode(belief("off", 1, derived_from=[other])))
    signed = crypto.sign
    for what, new in (
        ("signed by nobody", about),
        ("signed by Ben", signed(about, ben())),
        ("signed by Ada, without the old address", signed(unnamed, ada())),
        ("signed by Ada, about another grain", signed(elsewhere, ada())),
        ("agreed to by Ada for another grain", agreed(other, ada())),
        ("agreed to by Ben", agreed(old, ben())),
    ):
        yield refuses(what, DENIED, supersede(store, old, new))
    for what, new in (
        ("signed by Ada, derived from the old grain", signed(about, ada())),
        ("signed by Ada, replacing the old grain", signed(replaces, ada())),
        ("agreed to by Ada", agreed(old, ada())),
    ):
        yield takes(what, supersede(store, old, new))


_WAIT = {"mode": "timed", "locked_until": _SECOND + 10, "fallback_mode": "open"}
# fmt: off
_add("policy.timed", "23.2", "timed: locked until that second, then as fallback_mode says",
     denies(_WAIT), denies(_WAIT, at=9_999), _allows(_WAIT, at=10_000),
     _allows({**_WAIT, "fallback_mode": "soft_locked"}, why="so", at=10_000),
     denies({**_WAIT, "fallback_mode": "locked"}, at=10_000))
_add("policy.timed.malformed", "23.2",
     "timed without a time or a mode after it is locked for ever",
     *(denies(one, at=10_000) for one in (
         {"mode": "timed", "fallback_mode": "open"}, {"mode": "timed", "locked_until": 0},
         {**_WAIT, "locked_until": "0"}, {**_WAIT, "locked_until": 0.0},
         {**_WAIT, "locked_until": True}, {**_WAIT, "fallback_mode": "timed"},
         {**_WAIT, "fallback_mode": "frozen"})))  # fmt: skip
_add("policy.hold", "23.2", "hold: every invalidation and deletion is denied",
     denies({"mode": "hold"}))
# fmt: on


@_rule("policy.hold.erasure", "23.2", "hold: erasure and retention are denied, too")
def _held(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    held = store.put(belief(user_id="u-1", invalidation_policy={"mode": "hold"}))
    report = store.erase_subject(["u-1"], reason_code="gdpr17")
    yield Tried("kept", ((held, "hold"),), tuple(report.kept))
    yield Tried("complete", False, report.complete)
    yield Tried("restricted", True, store.state(held).restricted)


@_rule(
    "policy.hold.store", "23.2", "A hold of the store binds until it is released; both are audited"
)
def _store_hold(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    address = store.put(belief())
    store.hold(address, authority="court", reason_code="case-7")
    for what, act in _acts(store, address, "a reason"):
        yield refuses(f"{what} while it is held", DENIED, act)
    store.release(address, authority="court", reason_code="settled")
    yield takes("superseded after it", lambda: store.supersede(address, belief("off", 1)))
    told = [e.operation for e in store.audit.entries() if e.operation in ("hold", "release")]
    yield Tried("audited", ["hold", "release"], told)


@_rule(
    "policy.hold.authorities",
    "23.2",
    "Where authorities are configured, a hold inside a grain binds if one of them signed it",
)
def _authorities(bench: Bench) -> Iterator[Tried]:
    grain = og.Grain(og.encode(belief(user_id="u-1", invalidation_policy={"mode": "hold"})))
    for what, item, kept in (
        ("unsigned", grain, False),
        ("by Ben", crypto.sign(grain, ben()), False),
        ("by Ada", crypto.sign(grain, ada()), True),
    ):
        store = bench.store(hold_authorities=frozenset([ADA]))
        address = store.put(item)
        yield refuses(f"{what}: deleted", DENIED, store.delete, address)
        report = store.erase_subject(["u-1"], reason_code="gdpr17")
        yield Tried(f"{what}: kept from erasure", kept, bool(report.kept))
