# SPDX-License-Identifier: Apache-2.0
"""Invented people, grains about them, and stores of every sort that hold these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings
from support.signers import ALICE, BOB
from support.store_kinds import POSTGRES, SEALED_POSTGRES, made

NOW = 1_700_000_000_000
DAY = 86_400_000
ANN, SHOP = ALICE.did, BOB.did
NAMES = ("ann-17", ANN, "ann@example.org")
"""What Ann goes by."""
KINDS = ("memory", "lmdb", "sealed memory", "sealed lmdb")
EVERYWHERE = (*KINDS, POSTGRES, SEALED_POSTGRES)
"""For `params`: the kinds of stores, those on a server too."""
EITHER = ("memory", "sealed lmdb", POSTGRES, SEALED_POSTGRES)
"""For what works above any store: one in memory, one on disk, and one of them sealed."""


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@contextmanager
def opened(kind: str, path: Path, settings: Settings) -> Iterator[GrainStore]:
    """Open a store; in a sealed one, grains with a user_id are encrypted."""
    inner = made(kind, path / "memory.omsg")
    if "sealed" not in kind:
        with GrainStore(inner, settings) as store:
            yield store
        return
    ring = KeyRing.create(path / "people.keys", master=bytes(range(32)))
    try:
        with GrainStore(inner, replace(settings, keys=ring)) as store:
            yield store
    finally:
        ring.close()


def belief(what: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": "lamp",
        "relation": "is",
        "object": what,
        "confidence": 0.5,
        "created_at": NOW,
        **fields,
    }


def consent(at: int = 0, **fields: Any) -> dict[str, Any]:
    """A consent of Ann's."""
    return {
        "type": "consent",
        "subject_did": ANN,
        "grantee_did": SHOP,
        "scope": ["store", "process"],
        "is_withdrawal": False,
        "created_at": NOW - DAY + at,
        **fields,
    }


def current(store: og.GrainStore, **filters: Any) -> list[str]:
    return sorted(hit.address for hit in store.query(**filters).results)
