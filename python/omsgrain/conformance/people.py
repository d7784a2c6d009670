# SPDX-License-Identifier: Apache-2.0
"""Who acts where rules are tried: keys that everybody knows, and what they sign by hand."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import cbor2
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from omsgrain.crypto.signers import Ed25519Signer, ES256Signer, KeySigner

ADA: Final = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
"""Of the private key 00 01 .. 1f, Ed25519."""
BEN: Final = "did:key:zDnaeVuZeVRqvscGkiEoR9PFFra2xZUMp97ZPuGFK1VLU7iYN"
"""Of the private key 01 02 .. 20, P-256."""
CAT: Final = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
"""Of a private key of zeros, Ed25519."""
MSGPACK: Final = "application/vnd.mg+msgpack"


@cache
def ada() -> KeySigner:
    """Signs with Ed25519."""
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


@cache
def ben() -> KeySigner:
    """Signs with ES256."""
    return ES256Signer(derive_private_key(int.from_bytes(bytes(range(1, 33)), "big"), SECP256R1()))


@cache
def cat() -> KeySigner:
    """Signs with Ed25519, too."""
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(32)))


def by_hand(
    protected: dict[Any, Any],
    payload: bytes | None,
    signer: KeySigner,
    *,
    detached: bytes = b"",
    aad: bytes = b"",
) -> bytes:
    """A COSE_Sign1 whose signature holds, whatever is in it. Spec: RFC 9052 §4.2, §4.4."""
    head = cbor2.dumps(protected)
    what = detached if payload is None else payload
    signature = signer.sign(cbor2.dumps(["Signature1", head, aad, what]))
    return cbor2.dumps(cbor2.CBORTag(18, [head, {}, payload, signature]))
