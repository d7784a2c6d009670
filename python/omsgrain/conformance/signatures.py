# SPDX-License-Identifier: Apache-2.0
"""Rules about identities and signatures, views that hide fields, and encrypted grains."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import ADA, Bench
from omsgrain.conformance.rule import Entry, Tried, refuses, takes
from omsgrain.conformance.vectors import blob, data
from omsgrain.crypto import seal, signers


def did_web(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Only the caller's resolver resolves a did:web."""
    name = "did:web:example.org"
    yield refuses("without a resolver", "ERR_DID", lambda: crypto.did.resolve(name))
    asked: list[str] = []

    def resolver(did: str) -> str:
        asked.append(did)
        return ADA

    yield takes("with one", lambda: crypto.did.resolve(name, resolver))
    yield Tried("its requests", [name], asked)


def strict(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Ed25519 uses the strict equation, as OpenSSL does."""
    for one in data("ed25519_edges")["cases"]:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(one["key"]))
        found = True
        try:
            signers.verify(key, -8, bytes.fromhex(one["signature"]), bytes.fromhex(one["message"]))
        except og.errors.OmsError:
            found = False
        yield Tried(one["name"], one["holds"], found)


def layout(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Header with bit 1, 12-byte nonce, AES-256-GCM, 16-byte tag; the header is authenticated."""
    belief = blob("oms/7")
    sealed = seal.seal(belief, bytes(32), whole=False)
    yield Tried("the size", len(belief) + 12 + 16, len(sealed))
    yield Tried("bit 1", 2, sealed[1] & 2)
    found = AESGCM(bytes(32)).decrypt(sealed[9:21], sealed[21:], sealed[:9])
    yield Tried("opened by AES-GCM alone", belief[9:], found)
    whole = seal.seal(belief, bytes(32), whole=True)
    yield Tried(
        "sealed whole", belief, AESGCM(bytes(32)).decrypt(whole[9:21], whole[21:], whole[:9])
    )


def nonces(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Each encryption uses a new nonce."""
    belief = blob("oms/7")
    nonces = {seal.seal(belief, bytes(32), whole=False)[9:21] for _ in range(1000)}
    yield Tried("a thousand seals of one grain", 1000, len(nonces))


def user_keys(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A user's key is HKDF-SHA256 of the root, with the salt of the user's record."""
    root = bytes.fromhex(data("sealed")["root"])
    for one in data("sealed")["user_keys"]:
        salt = one["salt"] and bytes.fromhex(one["salt"])
        found = seal.derive_user_key(root, one["user_id"], salt=salt, generation=one["generation"])
        what = f"user {one['user_id']!r}, generation {one['generation']}"
        yield Tried(f"{what}, {'salted' if salt else 'without salt'}", one["key"], found.hex())
