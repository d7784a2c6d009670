# SPDX-License-Identifier: Apache-2.0
"""Rules about policies of grains: modes, quorums, delegates and authorities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import ADA, BEN, Bench, ada, ben, by_hand, cat
from omsgrain.conformance.rule import Entry, Tried, refuses, takes
from omsgrain.conformance.steps import Scene
from omsgrain.conformance.stores import belief
from omsgrain.crypto.signers import KeySigner

DENIED: Final = "ERR_INVALIDATION_DENIED"
_SIGNERS: Final = {"ada": ada, "ben": ben, "cat": cat}
_ACTS: Final = ("superseded", "contested", "retracted", "deleted")
"""The operations that invalidate a grain."""


def _act(store: og.GrainStore, what: str, address: str, why: str | None) -> Callable[[], Any]:
    acts: dict[str, Callable[[], Any]] = {
        "superseded": partial(store.supersede, address, belief("new", 1), why),
        "contested": partial(store.contest, address, reason=why),
        "retracted": partial(store.retract, address, reason=why),
        "deleted": partial(store.delete, address, reason=why),
    }
    return acts[what]


def _short(policy: Any) -> str:
    if not isinstance(policy, dict):
        return repr(policy)
    return " ".join(f"{k}={v}" if k != "authorized" else "authorized" for k, v in policy.items())


def tried(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``policy``: a policy that allows all operations or denies all.

    Denied acts are tried with a reason, on one grain; each allowed act has a grain of its own.
    """
    acts = entry.get("acts", _ACTS)
    for case in entry["cases"]:
        store, policy = bench.store(), Scene(bench, "oms").value(case["policy"])
        names = acts if case["allowed"] else ["on"]
        grains = [store.put(belief(name, invalidation_policy=policy)) for name in names]
        bench.clock += case.get("after_ms", 0)
        for number, name in enumerate(acts):
            what = f"{_short(policy)}: {name}"
            if case["allowed"]:
                yield takes(what, _act(store, name, grains[number], case.get("reason")))
            else:
                yield refuses(what, DENIED, _act(store, name, grains[0], "a reason"))


def soft(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A soft lock without a reason or with a blank reason."""
    for case in entry["cases"]:
        store = bench.store()
        address = store.put(belief(invalidation_policy={"mode": "soft_locked"}))
        for name in _ACTS:
            act = _act(store, name, address, case.get("reason"))
            yield refuses(f"{name}, with {case['try']} said", DENIED, act)


def _agreed(
    old: str, *signers: KeySigner, what: str = "off", about: str | None = None
) -> dict[str, Any]:
    """Make a grain with quorum entries, each signed by hand over the payload without entries."""
    payload = og.encode(belief(what, 1))[9:]
    aad = bytes.fromhex(about or old)
    entries = [
        by_hand({1: one.alg, 4: one.did.encode()}, None, one, detached=payload, aad=aad)
        for one in signers
    ]
    return belief("off", 1, supersession_auth=entries)


def quorum(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Signatures that reach the threshold of a quorum, and too few."""
    for case in entry["cases"]:
        store, policy = bench.store(), Scene(bench, "oms").value(case["policy"])
        old = store.put(belief(invalidation_policy=policy))
        new = _agreed(old, *(_SIGNERS[name]() for name in case["signers"]))
        if case["allowed"]:
            yield takes(case["try"], store.supersede, old, new)
        else:
            yield refuses(case["try"], DENIED, store.supersede, old, new)


def claims(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A signature counts only for one payload and one grain."""
    policy = Scene(bench, "oms").value(entry["policy"])
    for case in entry["cases"]:
        store = bench.store()
        old = store.put(belief(invalidation_policy=policy))
        new = _agreed(old, ada(), what=case.get("object", "off"), about=case.get("about"))
        yield refuses(case["try"], DENIED, store.supersede, old, new)
    old = "5e" * 32
    made = crypto.co_sign(og.encode(belief("off", 1))[9:], old, ada())
    yield Tried("the entry that is written", _agreed(old, ada())["supersession_auth"][0], made)


def delegated(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """An authorized signer, and others."""
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
    refused: dict[str, Any] = {
        "unsigned": about,
        "signed by Ben": signed(about, ben()),
        "signed by Ada, without the old address": signed(unnamed, ada()),
        "signed by Ada, about another grain": signed(elsewhere, ada()),
        "agreed to by Ada for another grain": _agreed(other, ada()),
        "agreed to by Ben": _agreed(old, ben()),
    }
    allowed: dict[str, Any] = {
        "signed by Ada, derived from the old grain": signed(about, ada()),
        "signed by Ada, replacing the old grain": signed(replaces, ada()),
        "agreed to by Ada": _agreed(old, ada()),
    }
    for what, new in refused.items():
        yield refuses(what, DENIED, store.supersede, old, new)
    for what, new in allowed.items():
        yield takes(what, store.supersede, old, new)


def authorities(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A hold inside a grain binds erasure if an authority signed it."""
    grain = og.Grain(og.encode(belief(user_id="u-1", invalidation_policy={"mode": "hold"})))
    for case in entry["cases"]:
        what, signer = case["try"], case.get("signer")
        item = grain if signer is None else crypto.sign(grain, _SIGNERS[signer]())
        store = bench.store(hold_authorities=frozenset([ADA]))
        address = store.put(item)
        yield refuses(f"{what}: deleted", DENIED, store.delete, address)
        report = store.privacy.erase(["u-1"], reason_code="gdpr17")
        yield Tried(f"{what}: kept from erasure", case["kept"], bool(report.kept))


def author(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """The author of a grain cannot do what another user with the same rights can."""
    store = bench.store()
    policy = {"mode": "quorum", "authorized": [ADA, BEN], "threshold": 1}
    old = store.put(belief(author_did=ADA, invalidation_policy=policy))
    payload = og.encode(belief("off", 1, author_did=ADA))[9:]
    aad = bytes.fromhex(old)
    leave = by_hand({1: -7, 4: BEN.encode()}, None, ben(), detached=payload, aad=aad)
    new = belief("off", 1, author_did=ADA, supersession_auth=[leave])
    yield refuses("by the author, with Ben's leave", DENIED, store.supersede, old, new)
    yield takes("by somebody else with it", store.supersede, old, _agreed(old, ben()))


def subtree(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Grains that derive from a protected grain, step by step."""
    store = bench.store()
    policy = {"mode": "locked", "scope": "subtree"}
    chain = [store.put(belief("0", invalidation_policy=policy))]
    for n in range(1, 18):
        chain.append(store.put(belief(str(n), n, derived_from=[chain[-1]])))
    for n in (1, 16):
        yield refuses(f"retracted, {n} below", DENIED, store.retract, chain[n])
    yield takes("retracted, 17 below", store.retract, chain[17])
