# SPDX-License-Identifier: Apache-2.0
"""Rules about identities and signatures, views that hide fields, and encrypted grains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import ADA, BEN, Bench
from omsgrain.conformance.rule import Entry, Tried, refuses, takes
from omsgrain.conformance.vectors import blob, data
from omsgrain.crypto import seal, signers

_AT: Final = 1_768_471_200


def _signed(name: str) -> bytes:
    found = next(one for one in data("cose_sign1")["vectors"] if one["name"] == name)
    return bytes.fromhex(found["cose"])


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


def many(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Envelopes in a batch are verified one by one, with the same verdicts."""
    good, bad = _signed("python-cwt, Ed25519"), _signed("ours, Ed25519")[:-1] + b"\x00"
    found = crypto.prove_many([good, bad, _signed("python-cwt, ES256")])
    results = [one.code if isinstance(one, og.errors.OmsError) else one[1].signer for one in found]
    yield Tried("a good one, a changed one, one of ES256", [ADA, "ERR_SIGNATURE", BEN], results)


# views and encrypted grains


def _original(one: dict[str, Any]) -> og.Grain:
    blob = bytes.fromhex(one["original_hex"])
    if blob[1] & 1:
        return crypto.with_signed_bit(og.Grain(blob[:1] + bytes([blob[1] & 0xFE]) + blob[2:]))
    return og.Grain(blob)


def _views(word: str) -> list[dict[str, Any]]:
    return [one for one in data("disclosure") if word in one]


def views(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A view has _elided, the SHA-256 of each hidden value, and _disclosure_of, the address."""
    for one in _views("address"):
        view = crypto.disclose(_original(one), one["hide"])
        yield Tried(one["description"], one["view_hex"], view.blob.hex())
        yield Tried("its address", one["address"], view.address)


def proved(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A view can be verified against the whole grain."""
    for one in _views("address"):
        view = og.Grain(bytes.fromhex(one["view_hex"])) if "signed" not in one["id"] else None
        if view is not None:
            yield takes(one["description"], crypto.check_disclosure, view, _original(one))


def forged(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A view with another value, hash or address than the original is refused."""
    for one in _views("expect_error"):
        whole, view = (bytes.fromhex(one[name]) for name in ("original_hex", "view_hex"))
        yield refuses(
            one["description"],
            one["expect_error"],
            crypto.check_disclosure,
            view,
            whole,
        )


def shown(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Fields that access decisions need are never hidden."""
    for name, value in entry["fields"].items():
        grain = og.Grain(og.encode(entry["grain"] | {name: value}))
        yield refuses(name, "ERR_SCHEMA", crypto.disclose, grain, [name])


def _seals() -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    for grain in data("sealed")["grains"]:
        for one in grain["sealed"]:
            yield grain["name"], bytes.fromhex(grain["plain"]), one


def _key() -> bytes:
    return bytes.fromhex(data("sealed")["key"])


def opened(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Encrypted grains decrypt byte for byte and keep their address."""
    for name, plain, one in _seals():
        sealed = bytes.fromhex(one["sealed"])
        yield Tried(
            f"{name}, {'whole' if one['whole'] else 'its payload'}",
            plain,
            seal.unseal(sealed, _key(), check=True),
        )
        yield Tried("its address", one["address"], og.address(sealed))


def layout(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Header with bit 1, 12-byte nonce, AES-256-GCM, 16-byte tag; the header is authenticated."""
    belief = blob("oms", 7)
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
    belief = blob("oms", 7)
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
