# SPDX-License-Identifier: Apache-2.0
"""Keys that everybody knows, a grain to sign, and envelopes put together by hand."""

from __future__ import annotations

from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import omsgrain as og
from omsgrain.crypto import Ed25519Signer, ES256Signer, KeySigner, with_signed_bit
from support.did_keys import multikey
from support.known_grains import VECTORS

ALICE = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
BOB = ES256Signer(derive_private_key(int.from_bytes(bytes(range(1, 33)), "big"), SECP256R1()))
CAROL = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(32)))

#: Points of Ed25519 of small order, the last six in other spellings: a sign of zero, y beyond p.
SMALL = [
    "01" + "00" * 31,
    "ec" + "ff" * 30 + "7f",
    "00" * 32,
    "00" * 31 + "80",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "01" + "00" * 30 + "80",
    "ec" + "ff" * 31,
    "ed" + "ff" * 30 + "7f",
    "ed" + "ff" * 31,
    "ee" + "ff" * 30 + "7f",
    "ee" + "ff" * 31,
]

IAT = 1768471200
MSGPACK, CBOR = "application/vnd.mg+msgpack", "application/vnd.mg+cbor"
FIELDS = {**VECTORS[0].fields, "type": "belief", "author_did": ALICE.did}
GRAIN = og.Grain(og.encode(FIELDS))


def headers(signer: KeySigner = ALICE, **changes: Any) -> dict[Any, Any]:
    """The protected headers as we write them, some of them changed or left out (None)."""
    named = {"alg": 1, "crit": 2, "content_type": 3, "kid": 4}
    values = {1: signer.alg, 3: MSGPACK, 4: signer.did.encode()}
    values |= {named[name]: value for name, value in changes.items()}
    return {label: value for label, value in values.items() if value is not None}


def by_hand(
    protected: bytes | dict[Any, Any],
    payload: bytes | None,
    signer: KeySigner = ALICE,
    unprotected: bytes | dict[Any, Any] = b"\xa0",
    *,
    detached: bytes = b"",
    aad: bytes = b"",
) -> bytes:
    """A COSE_Sign1 whose signature holds, whatever is in it. Spec: RFC 9052 §4.2, §4.4."""
    p = protected if isinstance(protected, bytes) else cbor2.dumps(protected)
    u = unprotected if isinstance(unprotected, bytes) else cbor2.dumps(unprotected)
    what = detached if payload is None else payload
    structure = cbor2.dumps(["Signature1", p, aad, what])
    parts = (cbor2.dumps(p), u, cbor2.dumps(payload), cbor2.dumps(signer.sign(structure)))
    return b"\xd2\x84" + b"".join(parts)


BLOB = with_signed_bit(GRAIN).blob


class Fixed:
    """Signs everything with the same bytes."""

    def __init__(self, alg: int, key: bytes, signature: bytes) -> None:
        code = b"\x80\x24" if alg == -7 else b"\xed\x01"
        self.alg, self.did, self._signature = alg, f"did:key:{multikey(code + key)}", signature

    def sign(self, data: bytes) -> bytes:
        return self._signature

    def envelope(self, blob: bytes = BLOB) -> bytes:
        return by_hand(headers(self), blob, self)  # type: ignore[arg-type]

    def detached(self, data: bytes, aad: bytes) -> bytes:
        head = headers(self, content_type=None)  # type: ignore[arg-type]
        return by_hand(head, None, self, detached=data, aad=aad)  # type: ignore[arg-type]
