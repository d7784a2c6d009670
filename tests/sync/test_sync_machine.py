# SPDX-License-Identifier: Apache-2.0
"""Two, then five stores that are written to apart and synced at random come to be the same."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto import Signer
from omsgrain.crypto.keyring import KeyRing
from omsgrain.store.context import context_of
from omsgrain.sync import LocalPeer, sync
from support.signed_stores import signed_by
from support.signers import ALICE, BOB
from support.sync_stores import Cut, Watched, addresses, belief, heads, memory, settle, told

numbers = st.integers(0, 1_000)
AUTHORITIES = ("court", "tax office")
PEOPLE = ("ann", "ben")
SIGNERS = (ALICE, BOB)


class Fleet(RuleBasedStateMachine):
    """Stores with writers, and a model of the grains that must be erased.

    Args:
        count: how many stores.
        ring: their keys.
        keyless: how many of them have none.
        holds: there are holds. Without, nothing is refused, and no store has to offer it again.
    """

    def __init__(
        self, count: int, ring: KeyRing | None, keyless: int, *, holds: bool = True
    ) -> None:
        super().__init__()
        self.holds = holds
        self.stores = [memory(keys=None if n < keyless else ring) for n in range(count)]
        self.sealing = ring is not None
        self.grains: dict[str, dict[str, Any]] = {}
        self.erased: set[str] = set()
        self.made = 0

    def at(self, number: int) -> og.GrainStore:
        return self.stores[number % len(self.stores)]

    def some(self, store: og.GrainStore, number: int) -> str | None:
        names = sorted(addresses(store))
        return names[number % len(names)] if names else None

    def fields(self, store: og.GrainStore, number: int) -> dict[str, Any]:
        self.made += 1
        open_to_all = self.sealing and context_of(store).settings.keys is None
        own = number % 3 == 0 and not open_to_all
        more: dict[str, Any] = {"user_id": PEOPLE[number % 2]} if own else {}
        if number % 5:
            more["namespace"] = "rooms" if number % 2 else "robots:7"
        return belief(f"{self.made}", self.made, **more)

    def later(self, old: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Fields with a higher address than the superseded grain: so no circle closes."""
        while not self.sealing and og.Grain(og.encode(fields)).address < old:
            self.made += 1
            fields["created_at"] += 1
        return fields

    @rule(where=numbers, number=numbers)
    def put(self, where: int, number: int) -> None:
        store = self.at(where)
        fields = self.fields(store, number)
        self.grains[store.put(fields)] = fields

    @rule(where=numbers, number=numbers, who=st.sampled_from(SIGNERS))
    def sign(self, where: int, number: int, who: Signer) -> None:
        """One of a few grains comes, with a signature more perhaps."""
        with suppress(err.ErasedError):
            self.at(where).put(signed_by(who, belief(f"signed {number % 4}")))

    @rule(where=numbers, number=numbers, why=st.booleans())
    def supersede(self, where: int, number: int, why: bool) -> None:
        store = self.at(where)
        if (old := self.some(store, number)) is not None:
            more = {"supersession_justification": "it was seen"} if why else {}
            fields = self.later(old, {**self.fields(store, number), **more})
            try:
                new = store.supersede(old, fields)
            except (err.InvalidationDeniedError, err.KeyMissingError, err.ErasedError):
                return  # held, or sealed and no key
            self.grains[new] = fields

    @rule(where=numbers, old=numbers, new=numbers)
    def join(self, where: int, old: int, new: int) -> None:
        """Supersede one that is there by another; always a lower address, so without circles."""
        store = self.at(where)
        if self.sealing:
            return
        one, other = self.some(store, old), self.some(store, new)
        if one is None or other is None or one == other or store.trust.signatures(max(one, other)):
            return
        try:
            store.supersede(min(one, other), store.get(max(one, other)))
        except err.InvalidationDeniedError:
            return  # held

    @rule(where=numbers, number=numbers, status=st.sampled_from(["contested", "retracted"]))
    def doubt(self, where: int, number: int, status: Any) -> None:
        store = self.at(where)
        if (address := self.some(store, number)) is not None:
            if store.status(address).verification_status == "retracted":
                return  # taking it back is for each store to do
            try:
                store.trust.set_verification(address, status)
            except (err.InvalidationDeniedError, err.KeyMissingError, err.ErasedError):
                pass

    @rule(where=numbers, number=numbers, who=st.sampled_from(AUTHORITIES))
    def hold(self, where: int, number: int, who: str) -> None:
        store = self.at(where)
        if self.holds and (address := self.some(store, number)) is not None:
            if any(one.authority == who for one in store.holds.of(address)):
                store.holds.release(address, authority=who, reason_code="settled")
            else:
                store.holds.add(address, authority=who, reason_code="litigation")

    @rule(where=numbers, number=numbers)
    def restrict(self, where: int, number: int) -> None:
        store = self.at(where)
        if (address := self.some(store, number)) is not None:
            if store.status(address).restricted:
                store.privacy.unrestrict(address, reason_code="settled")
            else:
                store.privacy.restrict(address, reason_code="dispute")

    @rule(where=numbers, number=numbers)
    def erase(self, where: int, number: int) -> None:
        store = self.at(where)
        if (address := self.some(store, number)) is not None:
            try:
                store.delete_many([address], erased="gdpr17")
            except (err.InvalidationDeniedError, err.KeyMissingError, err.ErasedError):
                return  # held, or sealed and no key
            self.erased.add(address)

    @rule(where=numbers, who=st.sampled_from(PEOPLE))
    def forget(self, where: int, who: str) -> None:
        store = self.at(where)
        before = addresses(store)
        store.privacy.erase([who], reason_code="gdpr17", scrub="queued")
        self.erased |= before - addresses(store)

    @rule(where=numbers, number=numbers)
    def bring_back(self, where: int, number: int) -> None:
        """A writer puts a copy of an erased grain again."""
        gone = sorted(self.erased & self.grains.keys())
        if gone:
            try:
                self.at(where).put(self.grains[gone[number % len(gone)]])
            except (err.ErasedError, err.SchemaError):
                pass

    @rule(
        left=numbers,
        right=numbers,
        direction=st.sampled_from(["both", "push", "pull"]),
        full=st.booleans(),
        calls=st.none() | st.integers(0, 12),
        late=st.booleans(),
        names=st.none() | st.sampled_from([("rooms",), ("robots:*",), ("robots:7", "rooms")]),
    )
    def sync(
        self,
        left: int,
        right: int,
        direction: Any,
        full: bool,
        calls: int | None,
        late: bool,
        names: tuple[str, ...] | None,
    ) -> None:
        one, other = self.at(left), self.at(right)
        if one is not other:
            cut: Any = Watched(LocalPeer(other), calls, late=late)
            try:
                sync(LocalPeer(one), cut, namespaces=names, direction=direction, full=full)
            except Cut:
                pass

    def teardown(self) -> None:
        """All can reach one another again, and no hold is left."""
        settle(self.stores, full=self.holds)
        for store in self.stores:
            for address in addresses(store):
                for hold in store.holds.of(address):
                    store.holds.release(address, authority=hold.authority, reason_code="settled")
        for store in self.stores:
            store.privacy.run_due()
        settle(self.stores, full=self.holds)
        first, *others = self.stores
        for store in others:
            assert addresses(store) == addresses(first)
            assert told(store) == told(first)
            assert signers(store) == signers(first)
            if context_of(store).settings.keys is context_of(first).settings.keys:
                assert heads(store) == heads(first)
        assert self.erased.isdisjoint(addresses(first))


def signers(store: og.GrainStore) -> dict[str, list[str]]:
    """The signers of its grains."""
    return {one: [by.signer for by in store.trust.signatures(one)] for one in addresses(store)}


@pytest.mark.parametrize(
    ("count", "examples", "steps", "holds"),
    [(2, 30, 30, True), (5, 12, 40, True), (3, 15, 40, False)],
)
def test_stores_converge(count: int, examples: int, steps: int, holds: bool, long: bool) -> None:
    run_state_machine_as_test(
        lambda: Fleet(count, None, count, holds=holds),  # type: ignore[arg-type]  # makes one
        settings=settings(max_examples=examples * (50 if long else 1), stateful_step_count=steps),
    )


@pytest.mark.parametrize("keyless", [0, 1])
def test_sealed_stores_converge(keyless: int, ring: KeyRing, long: bool) -> None:
    """Some have the keys, and some carry what they cannot read."""
    run_state_machine_as_test(
        lambda: Fleet(3, ring, keyless),  # type: ignore[arg-type]  # makes one
        settings=settings(max_examples=200 if long else 5, stateful_step_count=30),
    )
