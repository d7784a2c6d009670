# SPDX-License-Identifier: Apache-2.0
"""Rows C: signatures.

The peer takes each envelope apart with cbor2, as `omsgrain.crypto` does, since its own reader
cannot with cbor2 6. It is given the bytes of the public key; of the signer's DID it reads nothing.
"""

from __future__ import annotations

from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pycose.keys.curves import Ed25519
from pycose.keys.okp import OKPKey
from pycose.messages.sign1message import Sign1Message

import omsgrain as og
from benches.measure import Case, Plan, Row, check, timed
from omsgrain.crypto import Ed25519Signer, sign
from omsgrain.crypto.did import resolve
from omsgrain.crypto.many import prove_many
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


ROWS = (
    Row(
        "C1",
        "verify the signatures of grains, Ed25519 of one signer",
        "pycose verify_signature in a loop, a new key object each",
        4.0,
        verify,
        count=10_000,
    ),
)
