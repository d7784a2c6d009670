# SPDX-License-Identifier: Apache-2.0
"""Rules about views that hide fields, and about encrypted grains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.packed_vectors import blob, data
from omsgrain.conformance.people import ada
from omsgrain.conformance.rule import Entry, Tried, refuses, takes
from omsgrain.crypto import seal


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
    """A view is proved to be one of the whole grain."""
    for one in _views("address"):
        view = og.Grain(bytes.fromhex(one["view_hex"])) if "signed" not in one["id"] else None
        if view is not None:
            yield takes(one["description"], crypto.check_disclosure, view, _original(one))


def forged(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A view with a value, a hash or an address that is not the original's is refused."""
    for one in _views("expect_error"):
        whole, view = (bytes.fromhex(one[name]) for name in ("original_hex", "view_hex"))
        yield refuses(
            one["description"],
            one["expect_error"],
            crypto.check_disclosure,
            view,
            whole,
        )


def revealed(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A hidden value is shown only by what hashes to its hash."""
    one = data("disclosure")[0]
    view = og.Grain(bytes.fromhex(one["view_hex"]))
    yield Tried(
        "both values",
        one["original_hex"],
        crypto.reveal(view, {"user_id": "alice-123", "namespace": "hr"}).blob.hex(),
    )
    yield refuses(
        "another value", "ERR_INTEGRITY", lambda: crypto.reveal(view, {"user_id": "bob"})
    )


def shown(_: Bench, entry: Entry) -> Iterator[Tried]:
    """What others decide by is never hidden."""
    for name, value in entry["fields"].items():
        grain = og.Grain(og.encode(entry["grain"] | {name: value}))
        yield refuses(name, "ERR_SCHEMA", crypto.disclose, grain, [name])


def guessable(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A hidden value that can be guessed is warned of."""
    view = crypto.disclose(_original(data("disclosure")[0]), ["user_id"])
    yield Tried("a user id of nine letters", 1, len(view.warnings))


def stored(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A view is no grain of a store's own."""
    view = og.Grain(bytes.fromhex(data("disclosure")[0]["view_hex"]))
    yield refuses("put into a store", "ERR_SCHEMA", lambda: bench.store().put(view))


def _seals() -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    for grain in data("sealed")["grains"]:
        for one in grain["sealed"]:
            yield grain["name"], bytes.fromhex(grain["plain"]), one


def _key() -> bytes:
    return bytes.fromhex(data("sealed")["key"])


def opened(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Sealed grains are opened byte for byte, and have their address."""
    for name, plain, one in _seals():
        sealed = bytes.fromhex(one["sealed"])
        yield Tried(
            f"{name}, {'whole' if one['whole'] else 'its payload'}",
            plain,
            seal.unseal(sealed, _key(), check=True),
        )
        yield Tried("its address", one["address"], og.address(sealed))


def layout(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Header with bit 1, a nonce of 12 bytes, AES-256-GCM, a tag of 16; the header is bound."""
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


def hidden(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The header shows type and sensitivity; namespace and time are zero."""
    belief = blob("oms", 7)
    yield Tried(
        "hidden", "010201000000000000", seal.seal(belief, bytes(32), whole=False)[:9].hex()
    )
    shown = seal.seal(belief, bytes(32), whole=False, hide_header=False)[:9].hex()
    yield Tried("shown, if that is asked", "010201a4d26968baa0", shown)


def nonces(_: Bench, entry: Entry) -> Iterator[Tried]:
    """No two seals have the same nonce."""
    belief = blob("oms", 7)
    nonces = {seal.seal(belief, bytes(32), whole=False)[9:21] for _ in range(1000)}
    yield Tried("a thousand seals of one grain", 1000, len(nonces))


def wrong(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A wrong key, or any byte changed, opens nothing."""
    name, _plain, one = next(_seals())
    sealed = bytes.fromhex(one["sealed"])
    yield refuses("another key", "ERR_KEY", lambda: seal.unseal(sealed, bytes(32)))
    passed = []
    for at in range(len(sealed)):
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        try:
            seal.unseal(changed, _key())
        except og.errors.OmsError:
            continue
        passed.append(at)
    yield Tried(f"each of {len(sealed)} bytes of {name} flipped", [], passed)


def user_keys(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A user's key is HKDF-SHA256 of the root under the salt of his record."""
    root = bytes.fromhex(data("sealed")["root"])
    for one in data("sealed")["user_keys"]:
        salt = one["salt"] and bytes.fromhex(one["salt"])
        found = seal.derive_user_key(root, one["user_id"], salt=salt, generation=one["generation"])
        what = f"user {one['user_id']!r}, generation {one['generation']}"
        yield Tried(f"{what}, {'salted' if salt else 'without salt'}", one["key"], found.hex())


def sign_order(_: Bench, entry: Entry) -> Iterator[Tried]:
    """What is sealed gets its signed bit first, and is signed after."""
    belief = blob("oms", 7)
    plain = seal.seal(belief, bytes(32), whole=False)
    yield refuses(
        "sealed without the bit", "ERR_SIGNED_MISMATCH", lambda: crypto.sign(plain, ada())
    )
    sealed = seal.seal(belief, bytes(32), whole=False, signed=True)
    envelope = crypto.sign(sealed, ada())
    yield Tried("signed as it is sealed", sealed, crypto.prove(envelope)[0])
