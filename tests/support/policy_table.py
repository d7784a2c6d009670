# SPDX-License-Identifier: Apache-2.0
"""The table of invalidation policies: mode x operation x scope x proof, as rows to read.

A row of outcomes has one letter an operation, in the order of `OPERATIONS`: `.` accepted,
`r` accepted and flagged for review, `D` denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omsgrain.policy import Operation
from support.policy_world import AGENT, ANN, AUTHOR, BEN, CAT, COURT, STRANGER

OPERATIONS: tuple[Operation, ...] = (
    "supersede", "contest", "retract", "delete", "compact",
    "verify", "erase", "retention", "consent",
)  # fmt: skip

NOW = 1_800_000_000_000
SECOND = NOW // 1000


@dataclass(frozen=True, slots=True)
class Case:
    """A policy, and what the store around it knows.

    Attributes:
        policy: the map in the guarding grain; None for no map.
        authorities: DIDs that may write holds; none configured if empty.
        signed: DIDs that signed the guarding grain.
    """

    policy: Mapping[str, Any] | None
    authorities: frozenset[str] = frozenset()
    signed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Proof:
    """The inputs of an act.

    Attributes:
        about: whether the superseding grain names the one that it supersedes.
    """

    justification: str | None = None
    written: str | None = None
    co_signers: frozenset[str] = frozenset()
    signers: frozenset[str] = frozenset()
    writer: str | None = None
    about: bool = True


_NAMED = [ANN, BEN, CAT, AUTHOR]
_COURT = frozenset({COURT})

CASES: dict[str, Case] = {
    "none": Case(None),
    "open": Case({"mode": "open"}),
    "cascade": Case({"mode": "consent_cascade"}),
    "soft_locked": Case({"mode": "soft_locked"}),
    "locked": Case({"mode": "locked", "authorized": _NAMED}),
    "quorum": Case({"mode": "quorum", "authorized": _NAMED, "threshold": 2}),
    "quorum-of-one": Case({"mode": "quorum", "authorized": [ANN, ANN], "threshold": 1}),
    "delegated": Case({"mode": "delegated", "authorized": [ANN, BEN]}),
    "timed": Case({"mode": "timed", "locked_until": SECOND + 1, "fallback_mode": "open"}),
    "timed-on-time": Case({"mode": "timed", "locked_until": SECOND, "fallback_mode": "open"}),
    "timed-to-soft": Case({"mode": "timed", "locked_until": 0, "fallback_mode": "soft_locked"}),
    "timed-to-hold": Case({"mode": "timed", "locked_until": 0, "fallback_mode": "hold"}),
    "timed-to-what": Case({"mode": "timed", "locked_until": 0}),
    "hold": Case({"mode": "hold"}),
    "hold-unsigned": Case({"mode": "hold"}, _COURT),
    "hold-by-another": Case({"mode": "hold"}, _COURT, frozenset({STRANGER})),
    "hold-by-the-court": Case({"mode": "hold"}, _COURT, frozenset({COURT, STRANGER})),
    "unknown": Case({"mode": "frozen"}),
}

PROOFS: dict[str, Proof] = {
    "nothing": Proof(writer=AGENT),
    "blank": Proof(justification=" \n", writer=AGENT),
    "reason": Proof(justification="it broke", writer=AGENT),
    "written": Proof(written="it broke", writer=AGENT),
    "one-of-two": Proof(co_signers=frozenset({ANN, STRANGER}), writer=AGENT),
    "two-of-two": Proof(co_signers=frozenset({ANN, BEN}), writer=AGENT),
    "with-author": Proof(co_signers=frozenset({ANN, AUTHOR}), writer=AGENT),
    "by-author": Proof(co_signers=frozenset({ANN, BEN}), writer=AUTHOR),
    "signed": Proof(signers=frozenset({ANN}), writer=AGENT),
    "signed-elsewhere": Proof(signers=frozenset({ANN}), writer=AGENT, about=False),
    "stranger": Proof(signers=frozenset({STRANGER}), writer=AGENT),
}

_FREE = "........."
_LOCK = "DDDDD...."
_HOLD = "DDDDDDDDD"

#: What a policy says of its own grain, unless `GIVEN` has another row.
REFUSED: dict[str, str] = {
    "none": _FREE,
    "open": _FREE,
    "cascade": _FREE,
    "soft_locked": _LOCK,
    "locked": _LOCK,
    "quorum": _LOCK,
    "quorum-of-one": _LOCK,
    "delegated": _LOCK,
    "timed": _LOCK,
    "timed-on-time": _FREE,
    "timed-to-soft": _LOCK,
    "timed-to-hold": _HOLD,
    "timed-to-what": _LOCK,
    "hold": _HOLD,
    "hold-unsigned": _LOCK,
    "hold-by-another": _LOCK,
    "hold-by-the-court": _HOLD,
    "unknown": _LOCK,
}

#: Where a proof makes a difference.
GIVEN: dict[tuple[str, str], str] = {
    ("soft_locked", "reason"): "rrrrr....",
    ("soft_locked", "written"): "rDDDD....",  # only a superseding grain can say it itself
    ("timed-to-soft", "reason"): "rrrrr....",
    ("timed-to-soft", "written"): "rDDDD....",
    ("quorum", "two-of-two"): _FREE,
    ("quorum", "by-author"): "D........",  # nobody else says who asks
    ("quorum-of-one", "one-of-two"): _FREE,
    ("quorum-of-one", "two-of-two"): _FREE,
    ("quorum-of-one", "with-author"): _FREE,
    ("quorum-of-one", "by-author"): "D........",
    ("delegated", "signed"): _FREE,
    ("delegated", "signed-elsewhere"): "D........",  # only a new grain can name the old one
    ("delegated", "one-of-two"): _FREE,
    ("delegated", "two-of-two"): _FREE,
    ("delegated", "with-author"): _FREE,
    ("delegated", "by-author"): _FREE,
}

#: How a grain can stand to the one with the policy, and which operations the policy then reaches.
PLACES: dict[tuple[str, str], str] = {
    ("itself", "grain"): "xxxxxxxxx",
    ("itself", "subtree"): "xxxxxxxxx",
    ("itself", "lineage"): "xxxxxxxxx",
    ("itself", "galaxy"): "xxxxxxxxx",
    ("child", "grain"): "x........",  # superseding a derivative goes round no policy
    ("child", "lineage"): "x........",
    ("child", "subtree"): "xxxxxxxxx",
    ("child", "galaxy"): "xxxxxxxxx",  # a scope that nobody knows is the widest
    ("link", "grain"): "x..xx....",  # deleting a link would free what derives from it
    ("16 below", "grain"): "x........",
    ("16 below", "subtree"): "xxxxxxxxx",
    ("17 below", "grain"): ".........",
    ("17 below", "subtree"): ".........",
    ("parent", "grain"): ".........",
    ("parent", "subtree"): ".........",
    ("parent", "lineage"): ".........",
    ("successor", "grain"): ".........",
    ("successor", "subtree"): ".........",
    ("successor", "lineage"): "xxxxxxxxx",
    ("successor", "galaxy"): "xxxxxxxxx",
    ("third successor", "lineage"): "xxxxxxxxx",
    ("predecessor", "grain"): ".........",
    ("predecessor", "lineage"): "xxxxxxxxx",
    ("fork", "grain"): ".........",
    ("fork", "lineage"): "xxxxxxxxx",
    ("new from it", "grain"): "x........",
    ("new replaces it", "lineage"): ".........",  # related_to is no supersession
    ("it replaces", "lineage"): ".........",
    ("apart", "lineage"): ".........",
}


def expected(case: str, proof: str, reach: str = "xxxxxxxxx") -> str:
    """The row of outcomes where a policy reaches so far."""
    row = GIVEN.get((case, proof), REFUSED[case])
    return "".join(letter if mark == "x" else "." for letter, mark in zip(row, reach, strict=True))


#: Policies that cannot be understood, and so are locked whatever comes with the act.
BROKEN: dict[str, Any] = {
    "empty": {},
    "mode of another kind": {"mode": 1},
    "mode in capitals": {"mode": "OPEN"},
    "mode with a space": {"mode": "open "},
    "mode in a list": {"mode": ["open"]},
    "no mode": {"scope": "grain", "authorized": [ANN]},
    "quorum of nobody": {"mode": "quorum", "threshold": 1},
    "quorum of an empty list": {"mode": "quorum", "authorized": [], "threshold": 1},
    "quorum of a name": {"mode": "quorum", "authorized": ANN, "threshold": 1},
    "quorum of numbers": {"mode": "quorum", "authorized": [ANN, 1], "threshold": 1},
    "quorum without threshold": {"mode": "quorum", "authorized": [ANN, BEN]},
    "threshold zero": {"mode": "quorum", "authorized": [ANN, BEN], "threshold": 0},
    "threshold below zero": {"mode": "quorum", "authorized": [ANN, BEN], "threshold": -1},
    "threshold true": {"mode": "quorum", "authorized": [ANN, BEN], "threshold": True},
    "threshold a float": {"mode": "quorum", "authorized": [ANN, BEN], "threshold": 1.0},
    "threshold as text": {"mode": "quorum", "authorized": [ANN, BEN], "threshold": "1"},
    "threshold beyond": {"mode": "quorum", "authorized": [ANN, BEN], "threshold": 3},
    "one twice": {"mode": "quorum", "authorized": [ANN, ANN], "threshold": 2},
    "delegated to nobody": {"mode": "delegated"},
    "delegated to a name": {"mode": "delegated", "authorized": ANN},
    "timed without an end": {"mode": "timed", "fallback_mode": "open"},
    "timed as text": {"mode": "timed", "locked_until": "0", "fallback_mode": "open"},
    "timed as a float": {"mode": "timed", "locked_until": 0.0, "fallback_mode": "open"},
    "timed as true": {"mode": "timed", "locked_until": True, "fallback_mode": "open"},
    "timed before 1970": {"mode": "timed", "locked_until": -1, "fallback_mode": "open"},
    "timed in ms": {"mode": "timed", "locked_until": NOW, "fallback_mode": "open"},
    "timed to nothing": {"mode": "timed", "locked_until": 0},
    "timed to timed": {"mode": "timed", "locked_until": 0, "fallback_mode": "timed"},
    "timed to unknown": {"mode": "timed", "locked_until": 0, "fallback_mode": "frozen"},
    "timed to a map": {"mode": "timed", "locked_until": 0, "fallback_mode": {"mode": "open"}},
}
