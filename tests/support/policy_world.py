# SPDX-License-Identifier: Apache-2.0
"""A store for policies to look at, made of dicts, and the grains in it.

Grains stand under labels, not under their own addresses, so that a world can hold what a store
cannot: circles, and parents that name their children.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import omsgrain as og
from omsgrain.policy import covers_lineage

AUTHOR = "did:example:author"
AGENT = "did:example:agent"
STRANGER = "did:example:stranger"
ANN, BEN, CAT = "did:example:ann", "did:example:ben", "did:example:cat"
COURT = "did:example:court"

_LEAST: dict[str, dict[str, Any]] = {
    "belief": {"subject": "arm", "relation": "lifts", "object": "5 kg", "confidence": 1.0},
    "state": {"context": {}},
    "event": {"content": "the arm moved"},
    "goal": {"description": "tidy the room", "goal_state": "active"},
    "action": {"tool_name": "grip", "input": {}, "content": "done", "is_error": False},
    "consent": {
        "subject_did": "did:example:jo",
        "grantee_did": AGENT,
        "scope": ["store"],
        "is_withdrawal": False,
    },
}


@cache
def at(label: str) -> str:
    """Return the address of a label."""
    return hashlib.sha256(label.encode()).hexdigest()


def grain(type: str = "belief", **fields: Any) -> og.Grain:
    """A grain of a type with the least fields, and these; labels in `derived` are its parents."""
    derived = fields.pop("derived", None)
    if derived is not None:
        fields["derived_from"] = [at(label) for label in derived]
    whole = {"type": type, "created_at": 1, **_LEAST[type], **fields}
    return og.Grain(og.encode(whole))


def goal(state: str = "active", **fields: Any) -> og.Grain:
    return grain("goal", goal_state=state, **fields)


def opaque(**fields: Any) -> og.Grain:
    """A grain of a domain type, in which fields hold anything."""
    return og.Grain(og.encode({"type": "x", **fields}, type_byte=0xF0))


def replaces(label: str) -> list[dict[str, str]]:
    """Return the fields of a superseding grain."""
    return [{"hash": at(label), "relation_type": "replaces"}]


@dataclass
class FakeWorld:
    """Grains by label; `superseded` pairs an old label with a new one."""

    grains: dict[str, og.Grain] = field(default_factory=dict)
    superseded: list[tuple[str, str]] = field(default_factory=list)
    on_hold: set[str] = field(default_factory=set)
    signed: dict[str, set[str]] = field(default_factory=dict)
    signers_of: dict[str, set[str]] = field(default_factory=dict)
    reads: int = 0

    def __post_init__(self) -> None:
        self._by_address = {at(label): g for label, g in self.grains.items()}
        self._before: dict[str, list[str]] = {}
        self._after: dict[str, list[str]] = {}
        for old, new in self.superseded:
            self._before.setdefault(at(new), []).append(at(old))
            self._after.setdefault(at(old), []).append(at(new))

    def grain(self, address: str) -> og.Grain | None:
        assert len(bytes.fromhex(address)) == 32
        self.reads += 1
        return self._by_address.get(address)

    def children(self, address: str) -> Iterable[str]:
        for child, g in self._by_address.items():
            if address in g.get("derived_from", ()):
                yield child

    def successors(self, address: str) -> Iterable[str]:
        return self._after.get(address, ())

    def guards(self, address: str) -> Iterable[str]:
        seen, ahead = {address}, [address]
        while ahead:
            here = ahead.pop()
            near = {*self._before.get(here, ()), *self._after.get(here, ())} - seen
            seen |= near
            ahead += near
        return [a for a in seen if (g := self._by_address.get(a)) and covers_lineage(g)]

    def held(self, address: str) -> bool:
        return any(at(label) == address for label in self.on_hold)

    def signers(self, address: str) -> Iterable[str]:
        stored = {at(label): dids for label, dids in self.signed.items()}
        return stored.get(address) or self.signers_of.get(address, set())
