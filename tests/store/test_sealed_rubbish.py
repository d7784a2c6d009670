# SPDX-License-Identifier: Apache-2.0
"""Blobs sealed with a key of this store without a grain inside: only they are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain import container, crypto
from omsgrain.crypto.keyring import KeyRing
from omsgrain.crypto.seal import KEY, NONCE, Sealer
from omsgrain.errors import OmsError
from omsgrain.storage.base import Storage
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings
from support.sealed_stores import USERS, belief
from support.signers import ALICE
from support.sync_stores import addresses, memory, together

OTHERS = [og.encode(belief(user_id=USERS[1], note=note)) for note in ("before", "after")]


def no_map(sealer: Sealer, header: bytes) -> bytes:
    """A map with a key that is a number, sealed under a right header."""
    nonce = os.urandom(NONCE)
    return header + nonce + sealer._cipher.encrypt(nonce, b"\x81\x01\x01", header)


def broken_envelope(sealer: Sealer, header: bytes) -> bytes:
    """An envelope of which the last byte of the signature is another."""
    grain = og.Grain(og.encode(belief(user_id=USERS[0])))
    envelope = crypto.sign(grain, ALICE)
    return sealer.seal(envelope[:-1] + bytes([envelope[-1] ^ 1]), whole=True)


BAD: dict[Callable[[Sealer, bytes], bytes], str] = {
    no_map: "ERR_CORRUPT",
    broken_envelope: "ERR_SIGNATURE",
}


@pytest.fixture
def store(below: Storage, ring: KeyRing) -> GrainStore:
    return GrainStore(below, Settings(keys=ring))


@pytest.fixture(params=BAD, ids=lambda make: make.__name__)
def bad(request: pytest.FixtureRequest, ring: KeyRing) -> tuple[bytes, str]:
    ring.ensure([USERS[0]])
    keys = ring.of_user(USERS[0])
    assert keys is not None and len(keys.content) == KEY
    sealer = Sealer(keys.content)
    header = sealer.seal(og.encode(belief(user_id=USERS[0])), whole=False)[:9]
    return request.param(sealer, header), BAD[request.param]


def test_alone(store: GrainStore, bad: tuple[bytes, str]) -> None:
    old = store.put(belief(user_id=USERS[0]))
    for take in (
        lambda: store.put(bad[0]),
        lambda: store.put(bad[0], allow_erased=True),
        lambda: store.put_many([OTHERS[0], bad[0], OTHERS[1]]),
        lambda: store.supersede(old, bad[0], justification="x"),
    ):
        with pytest.raises(OmsError) as refusal:
            take()
        assert refusal.value.code == bad[1]
    assert len(store) == 1


def test_among_others(store: GrainStore, bad: tuple[bytes, str], tmp_path: Path) -> None:
    items = [OTHERS[0], bad[0], OTHERS[1]]
    report = store.put_many(items, errors="collect")
    assert (report.stored, len(store)) == (2, 2)
    assert [one is None for one in report.addresses] == [False, True, False]
    assert [(one.index, one.error.code) for one in report.errors] == [(1, bad[1])]
    container.write(tmp_path / "file.mg", items, check=False)
    found = store.import_mg(tmp_path / "file.mg", errors="collect")
    assert (found.stored, found.duplicates) == (0, 2)
    assert [one.error.code for one in found.errors] == [bad[1]]


def test_from_a_peer_that_could_not_look(bad: tuple[bytes, str], ring: KeyRing) -> None:
    hub, reader = memory(), memory(keys=ring)
    hub.put_many([OTHERS[0], bad[0], OTHERS[1]])
    report = together(hub, reader)
    assert len(hub) == 3
    assert len(addresses(reader)) == 2
    assert [one.code for one in report.refused] == [bad[1]]
    again = together(hub, reader)
    assert len(addresses(reader)) == 2 and not again.changed
