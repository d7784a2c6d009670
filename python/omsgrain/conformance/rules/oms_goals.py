# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 2: goals, what is handed to others, and what profiles keep from leaving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.oms_store import belief
from omsgrain.conformance.rules.people import ADA, BEN

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules

_DENIED = "ERR_INVALIDATION_DENIED"
_EVIDENCE = "ERR_EVIDENCE_REQUIRED"
_LOCKED = {"mode": "locked"}


def _goal(state: str = "active", at: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "type": "goal",
        "description": "tidy the room",
        "goal_state": state,
        "created_at": NOW + at,
        **more,
    }


@_rule("goal.evidence", "23.5", "satisfied needs as much evidence as evidence_required says")
def _evidence(bench: Bench) -> Iterator[Tried]:
    for what, count, proofs, enough in (
        ("none of one", 1, 0, False),
        ("one of one", 1, 1, True),
        ("one of two", 2, 1, False),
        ("two of two", 2, 2, True),
    ):
        store = bench.store()
        shown = [store.put(belief(str(n))) for n in range(proofs)]
        old = store.put(_goal(evidence_required=count))
        new = _goal("satisfied", 1, evidence_required=count, satisfaction_evidence=shown)
        act = _step(store, old, new)
        yield takes(what, act) if enough else refuses(what, _EVIDENCE, act)
    store = bench.store()
    old = store.put(_goal(evidence_required=1))
    gone = _goal("satisfied", 1, evidence_required=1, satisfaction_evidence=["ab" * 32])
    yield refuses("one that is not there", _EVIDENCE, _step(store, old, gone))
    forgets = _goal("satisfied", 1)
    yield refuses("by a grain that forgets the demand", _EVIDENCE, _step(store, old, forgets))


def _step(store: og.GrainStore, old: str, new: Any) -> Any:
    return lambda: store.supersede(old, new)


@_rule("goal.evidence.put", "23.5", "A goal that comes satisfied shows its evidence, too")
def _put(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    yield refuses("without", _EVIDENCE, lambda: store.put(_goal("satisfied", evidence_required=1)))
    yield takes("active", lambda: store.put(_goal(evidence_required=1)))


@_rule("goal.depends", "8.7", "A goal is not active before all that it depends on is satisfied")
def _depends(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    first = store.put(_goal())
    yield refuses(
        "while the other is active", _DENIED, lambda: store.put(_goal(at=1, depends_on=[first]))
    )
    yield refuses(
        "on one that is not there", _DENIED, lambda: store.put(_goal(at=1, depends_on=["ab" * 32]))
    )
    yield takes(
        "suspended meanwhile", lambda: store.put(_goal("suspended", 2, depends_on=[first]))
    )
    store.supersede(first, _goal("satisfied", 3))
    yield takes("once it is satisfied", lambda: store.put(_goal(at=4, depends_on=[first])))


@_rule(
    "goal.transitions", "23.4", "allowed_transitions lets a protected goal move to those states"
)
def _moves(bench: Bench) -> Iterator[Tried]:
    for state, free in (("satisfied", True), ("failed", True), ("suspended", False)):
        store = bench.store()
        guard: dict[str, Any] = {
            "invalidation_policy": _LOCKED,
            "allowed_transitions": ["satisfied", "failed"],
        }
        old = store.put(_goal(**guard))
        act = _step(store, old, _goal(state, 1, **guard))
        yield takes(state, act) if free else refuses(state, _DENIED, act)


@_rule("goal.laundering", "23.4", "What supersedes a protected goal inherits its protection")
def _inherits(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    guard: dict[str, Any] = {"invalidation_policy": _LOCKED, "allowed_transitions": ["satisfied"]}
    old = store.put(_goal(**guard))
    without = og.encode(_goal("satisfied", 1))
    yield refuses("by one without it", _DENIED, _step(store, old, without))
    open_one = _goal("satisfied", 1, **{**guard, "invalidation_policy": {"mode": "open"}})
    yield refuses("by one that is open", _DENIED, _step(store, old, open_one))
    new = store.supersede(old, _goal("satisfied", 1))
    yield Tried("fields without it", _LOCKED, store.get(new)["invalidation_policy"])


@_rule(
    "delegation.bounds",
    "6.11",
    "A delegate stays within the namespaces, types and tools, and before the end it was given",
)
def _delegation(bench: Bench) -> Iterator[Tried]:
    given = _goal(
        delegate_to=BEN,
        delegate_from=ADA,
        authorized_namespaces=["home"],
        authorized_types=[1, 5],
        authorized_tools=["lift"],
        delegation_expiry=NOW + 1000,
    )
    store = bench.store(delegation=True)
    root = store.put(given)

    def work(**more: Any) -> Any:
        fields = belief(
            str(sorted(more)),
            1,
            derived_from=[root],
            author_did=BEN,
            **{"namespace": "home", **more},
        )
        return lambda: store.put(fields)

    yield takes("a belief in the namespace", work())
    yield refuses("another namespace", _DENIED, work(namespace="work"))
    yield refuses(
        "another type",
        _DENIED,
        lambda: store.put(
            {
                "type": "event",
                "content": "x",
                "created_at": NOW + 1,
                "derived_from": [root],
                "author_did": BEN,
                "namespace": "home",
            }
        ),
    )

    def lifts(tool: str) -> Any:
        action = {
            "type": "action",
            "action_phase": "call",
            "tool_name": tool,
            "input": {},
            "created_at": NOW + 1,
            "derived_from": [root],
            "author_did": BEN,
            "namespace": "home",
        }
        return lambda: store.put(action)

    yield takes("a tool that is named", lifts("lift"))
    yield refuses("another tool", _DENIED, lifts("grip"))
    bench.clock += 2000
    yield refuses("after the end", _DENIED, work(importance=0.5))


def _leaves(
    id: str,
    text: str,
    fields: dict[str, Any],
    rule: str,
    good: dict[str, Any],
    purpose: str = "transfer",
) -> None:
    profile = id.split(".")[0]

    def check(bench: Bench) -> Iterator[Tried]:
        for what, more, by in (("as it is", {}, rule), (f"with {', '.join(good)}", good, "")):
            store = bench.store()
            store.put(belief(structural_tags=[f"profile:{profile}"], **{**fields, **more}))
            path = bench.directory() / "x.mg"
            act = _export(store, path, purpose)
            yield refuses(what, by, act) if by else takes(what, act)

    _rule.add(f"domain.{id}", "13", text, check)


def _export(store: og.GrainStore, path: Any, purpose: Any) -> Any:
    return lambda: store.export_mg(path, purpose=purpose)


_leaves(
    "finance.basis",
    "finance: no export of who it is without a processing_basis",
    {"fin:account_id": "1"},
    "finance:processing_basis",
    {"processing_basis": "contract"},
)
_leaves(
    "consumer.basis",
    "consumer: no transfer of who it is without a processing_basis",
    {"user_id": "u-1"},
    "consumer:processing_basis",
    {"processing_basis": "contract"},
)
_leaves(
    "consumer.opted-out",
    "consumer: who has opted out is not in a sale",
    {"processing_basis": "contract", "user_id": "u-1", "con:ccpa_opted_out": True},
    "consumer:opted_out",
    {"con:ccpa_opted_out": False},
    "sale",
)
_leaves(
    "legal.export",
    "legal: what is privileged is held before any export",
    {"legal:privilege": "attorney_client"},
    "legal:privilege",
    {"legal:privilege": "none"},
)


@_rule("domain.tagged", "13", "Fields of a profile are checked where its tag is, and only there")
def _tagged(_: Bench) -> Iterator[Tried]:
    plain = belief() | {"rob:battery_pct": 101}
    tagged = plain | {"structural_tags": ["profile:robotics"]}
    yield refuses("rob:battery_pct 101, tagged", "ERR_RANGE", og.encode, tagged)
    yield takes("without the tag", og.encode, plain)
