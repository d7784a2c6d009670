# SPDX-License-Identifier: Apache-2.0
"""Rows C: signatures, sealed grains, erasure.

The peer takes each envelope apart with cbor2, as `omsgrain.crypto` does, since its own reader
cannot with cbor2 6. It is given the bytes of the public key; of the signer's DID it reads nothing.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pycose.keys.curves import Ed25519
from pycose.keys.okp import OKPKey
from pycose.messages.sign1message import Sign1Message

import omsgrain as og
from benches.bulk import BATCH
from benches.measure import Case, Plan, Row, check, timed, timed_on
from omsgrain.crypto import Ed25519Signer, sign
from omsgrain.crypto.cose import prove_many
from omsgrain.crypto.did import resolve
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import SignatureError

IAT = 1_768_471_200


def verify(plan: Plan) -> Case:
    signer = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
    blobs = og.encode_many(plan.grains()).blobs
    envelopes = [sign(blob, signer, iat=IAT) for blob in blobs]
    public: Any = resolve(signer.did)
    x = public.public_bytes_raw()
    read: Any = Sign1Message.from_cose_obj

    def peer(envelope: bytes) -> bool:
        message = read(cbor2.loads(envelope[1:]), True)
        message.key = OKPKey(crv=Ed25519, x=x)
        return bool(message.verify_signature())

    proved = prove_many(envelopes)
    check(
        [(one[0][2:], one[1].signer) for one in proved if isinstance(one, tuple)]
        == [(blob[2:], signer.did) for blob in blobs],
        "all hold, and have the blobs in them",
    )
    check(all(map(peer, envelopes)), "the peer says so too")
    forged = envelopes[0][:-1] + bytes([envelopes[0][-1] ^ 1])
    check(isinstance(prove_many([forged])[0], SignatureError), "a forged one is refused")
    check(not peer(forged), "by the peer too")
    return Case(
        timed(lambda: prove_many(envelopes)),
        timed(lambda: [peer(envelope) for envelope in envelopes]),
        len(envelopes),
    )


def put_sealed(plan: Plan) -> Case:
    """Each sample writes a new store; its time runs until the store is closed, as in row S1."""
    grains = plan.grains()
    ring = KeyRing.create(plan.directory / "keys.omsk", master=bytes(range(32)))
    ring.ensure({str(fields["user_id"]) for fields in grains})  # a user is new only once
    paths = (plan.directory / f"{n}.omsg" for n in count())

    def write(path: Path, keys: KeyRing | None) -> None:
        with og.open(path, keys=keys) as store:
            store.put_many(grains, errors="collect", batch_size=BATCH)

    write(first := next(paths), ring)
    with og.open(first, keys=ring) as store:
        found = store.query(user_id=str(grains[0]["user_id"]), order="oldest", limit=1).results
        check(found[0].grain.blob == og.encode(grains[0]), "what was put is found, and comes back")
        check(len(store) == len(grains), "all are there")
    return Case(
        timed_on(lambda: next(paths), lambda path: write(path, ring)),
        timed_on(lambda: next(paths), lambda path: write(path, None)),
        len(grains),
    )


def erase(plan: Plan) -> Case:
    """Persons with many grains each, and as many with one: one of them at a time."""
    ring = KeyRing.create(plan.directory / "keys.omsk", master=bytes(range(32)))
    store = og.open(plan.directory / "memory.omsg", keys=ring)
    rounds, fields = plan.rounds + 2, plan.grains()
    for n in range(rounds):
        many = [{**one, "user_id": f"many {n}"} for one in fields]
        store.put_many(many, errors="collect")
        store.put({**fields[0], "user_id": f"one {n}"})
    for user in ("many 0", "one 0"):
        until_gone(store, user)
        check(ring.of_user(user) is None, "the key was destroyed")
    check(store.query(user_id="many 0").results == [], "nothing is found")
    users = iter(range(1, rounds)), iter(range(1, rounds))
    return Case(
        lambda: until_gone(store, f"many {next(users[0])}"),
        lambda: until_gone(store, f"one {next(users[1])}"),
    )


class Gone(Exception):
    """The key is destroyed: what an erasure does after that is not measured here."""


def until_gone(store: og.GrainStore, user: str) -> float:
    """Seconds from the order to erase a person until the key is gone."""
    destroy = KeyRing.erase

    def watched(ring: KeyRing, users: Any) -> int:
        destroy(ring, users)
        raise Gone

    os.sync()  # what the sample before has left to the disk is not waited for in this one
    with patch.object(KeyRing, "erase", watched), suppress(Gone):
        start = time.perf_counter()
        store.privacy.erase([user], reason_code="bench", scrub="queued")
    return time.perf_counter() - start


ROWS = (
    Row(
        "C1",
        "verify the signatures of grains, Ed25519 of one signer",
        "pycose verify_signature in a loop, a new key object each",
        6.0,
        verify,
        count=10_000,
    ),
    Row(
        "C2",
        "put_many of grains of 100 users, each sealed, with its blind rows",
        "put_many of the same in the clear",
        0.35,
        put_sealed,
        count=20_000,
    ),
    Row(
        "C3",
        "destroy the key of a person with many grains",
        "that of a person with one",
        0.9,
        erase,
        count=100_000,
        unit="ms",
    ),
)
