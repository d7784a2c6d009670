# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 2: how far policies reach, and who may not go round them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.oms_policy import DENIED, agreed, denies, quorum, supersede
from omsgrain.conformance.rules.oms_store import belief
from omsgrain.conformance.rules.people import ADA, BEN, ben, by_hand

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules
_add: Final = _rule.add


@_rule("policy.author", "23.8", "A locked or quorum grain is not superseded by its own author")
def _author(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief(author_did=ADA, invalidation_policy=quorum(1, (ADA, BEN))))
    payload = og.encode(belief("off", 1, author_did=ADA))[9:]
    entry = by_hand(
        {1: -7, 4: BEN.encode()}, None, ben(), detached=payload, aad=bytes.fromhex(old)
    )
    new = belief("off", 1, author_did=ADA, supersession_auth=[entry])
    yield refuses("by the author, with Ben's leave", DENIED, supersede(store, old, new))
    yield takes("by somebody else with it", supersede(store, old, agreed(old, ben())))


def _scoped(scope: str) -> dict[str, Any]:
    return {"mode": "locked", "scope": scope}


@_rule("policy.scope.subtree", "23.6", "subtree: what derives from the grain, up to 16 steps")
def _subtree(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    chain = [store.put(belief("0", invalidation_policy=_scoped("subtree")))]
    for n in range(1, 18):
        chain.append(store.put(belief(str(n), n, derived_from=[chain[-1]])))
    for n in (1, 16):
        yield refuses(f"retracted, {n} below", DENIED, store.retract, chain[n])
    yield takes("retracted, 17 below", lambda: store.retract(chain[17]))


@_rule("policy.scope.lineage", "23.6", "lineage: all versions of the grain")
def _lineage(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    first = store.put(belief("0"))
    last = store.supersede(first, belief("1", 1, invalidation_policy=_scoped("lineage")))
    yield refuses("an earlier version retracted", DENIED, lambda: store.retract(first))
    yield refuses("the version itself", DENIED, lambda: store.retract(last))


@_rule("policy.scope.grain", "23.6", "grain: the grain alone, but no supersession of what derives")
def _grain(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    root = store.put(belief("0", invalidation_policy=_scoped("grain")))
    child = store.put(belief("1", derived_from=[root]))
    yield refuses("a derivative superseded", DENIED, supersede(store, child, belief("off", 1)))
    yield takes("a derivative retracted", lambda: store.retract(child))


_add(
    "policy.scope.unknown",
    "23.6",
    "A scope that nobody knows reaches furthest",
    denies(_scoped("galaxy")),
)


@_rule("policy.replaces", "23.7", 'related_to "replaces" supersedes nothing')
def _replaces(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    old = store.put(belief(invalidation_policy={"mode": "locked"}))
    store.put(belief("off", 1, related_to=[{"hash": old, "relation_type": "replaces"}]))
    yield Tried("superseded_by", None, store.state(old).superseded_by)
