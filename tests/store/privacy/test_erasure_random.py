# SPDX-License-Identifier: Apache-2.0
"""After any past of the grains, an erasure removes the right ones."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.storage.tables import TABLES, Life
from omsgrain.store.context import Settings, context_of
from support.invented_people import ANN, NAMES, SHOP, Clock, belief, opened

WHO: tuple[dict[str, Any], ...] = (
    {},
    {"user_id": "ann-17"},
    {"user_id": "ben"},
    {"author_did": ANN},
    {"author_did": SHOP},
    {"user_id": "ben", "subject_did": ANN},
    {"subject": "ann-17"},
    {"owner": {"name": "Shelf Inc.", "email": "ann@example.org"}, "user_id": "ben"},
)
OWN = (1, 3, 5)
NAMED = (6, 7)


class Past:
    """A store with a past, and what a reader of it would expect of an erasure."""

    def __init__(self, store: og.GrainStore, seed: int) -> None:
        self.store = store
        self.random = Random(seed)
        self.who: dict[str, int] = {}
        self.held: set[str] = set()
        self.blobs: dict[str, bytes] = {}

    def put(self, n: int, **more: Any) -> str:
        who = self.random.randrange(len(WHO))
        blob = og.encode(belief(f"state {n}", **{**WHO[who], **more}))
        address = self.store.put(blob)
        self.who[address], self.blobs[address] = who, blob
        return address

    def live(self, steps: int) -> None:
        for n in range(steps):
            there = sorted(self.who)
            address = self.random.choice(there) if there else self.put(n)
            match self.random.randrange(9):
                case 0 | 1:
                    self.put(n)
                case 2:
                    self.put(n, derived_from=[address])
                case 3:
                    self.supersede(address, n)
                case 4 if address not in self.held:
                    self.store.contest(address, reason=f"reason {n}")
                case 5 if address not in self.held:
                    self.store.retract(address)
                case 6:
                    self.store.vectors.add(address, [1.0, float(n)], model="m")
                case 7 if address not in self.held and self.random.random() < 0.3:
                    self.store.holds.add(address, authority="court", reason_code="x")
                    self.held.add(address)
                case 8 if address not in self.held:
                    self.store.delete(address)
                    blob, who = self.blobs.pop(address), self.who.pop(address)
                    if self.random.random() < 0.7:  # another life under the same address
                        again = self.store.put(blob)
                        self.who[again], self.blobs[again] = who, blob

    def supersede(self, address: str, n: int) -> None:
        who = self.random.randrange(len(WHO))
        blob = og.encode(belief(f"next {n}", **WHO[who]))
        try:
            new = self.store.supersede(address, blob)
        except err.InvalidationDeniedError:
            return
        self.who[new], self.blobs[new] = who, blob

    def gone(self, mentions: bool) -> set[str]:
        wanted = (*OWN, *NAMED) if mentions else OWN
        return {a for a, who in self.who.items() if who in wanted and a not in self.held}


#: What a past can be does not depend on where it is kept: there, two of them.
PASTS = [
    *product(("memory", "sealed memory"), range(6)),
    *product(("lmdb", "sealed lmdb"), range(2)),
    *(
        pytest.param(kind, seed, marks=pytest.mark.services)
        for kind, seed in product(("postgres", "sealed postgres"), range(2))
    ),
]


@pytest.mark.parametrize(("kind", "seed"), PASTS)
def test_any_past(tmp_path: Path, kind: str, seed: int) -> None:
    with opened(kind, tmp_path, Settings(actor="tester", clock=Clock())) as store:
        life = Past(store, seed)
        life.live(120)
        mentions = bool(seed % 2)
        gone = life.gone(mentions)
        stays = set(life.who) - gone
        report = store.privacy.erase(
            NAMES,
            reason_code="gdpr17",
            mentions="erase" if mentions else "list",
            ciphertext=seed % 3 == 0,
            scrub="now" if seed < 4 else "queued",
        )
        for address in gone:
            with pytest.raises((err.NotFoundError, err.ErasedError)):
                store.get(address)
            with pytest.raises(err.ErasedError):
                store.put(life.blobs[address])
        for address in stays:
            assert store.get(address).blob == life.blobs[address]
        wanted = (*OWN, *NAMED) if mentions else OWN
        assert {a for a, _ in report.kept} == {a for a in life.held if life.who[a] in wanted}
        named = {a for a, who in life.who.items() if who in NAMED}
        assert {a for a, _ in report.named} == (set() if mentions else named)
        assert all(store.status(a).restricted for a, _ in report.kept)
        assert report.erased + report.sealed == len(gone)
        assert store.audit.verify().ok
        assert store.audit.verify(grains=True).ok
        assert list(store.verify().errors) == []
        with context_of(store).storage.read() as reader:
            tables = [t for t in TABLES if not t.places and t.life is not Life.BLOBS]
            kept = b"".join(key + row for table in tables for key, row in reader.rows(table))
        for address in gone:
            plain = og.Grain(life.blobs[address]).address
            assert bytes.fromhex(plain) not in kept
            assert plain.encode() not in kept
        if "lmdb" in kind:
            assert store.maintenance.check().problems == ()
        for address in life.held & {a for a, _ in report.kept}:
            store.holds.release(address, authority="court", reason_code="x")
        assert store.privacy.run_due(everything=True).complete
        assert store.privacy.run_due(everything=True).complete
        assert store.privacy.due() == []
        for address, _ in report.kept:
            with pytest.raises((err.NotFoundError, err.ErasedError)):
                store.get(address)
        assert store.audit.verify(grains=True).ok
