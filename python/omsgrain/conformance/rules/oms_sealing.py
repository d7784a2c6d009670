# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2: views that hide fields (level 2), and sealed grains (level 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.vectors import data, vector, write
from omsgrain.crypto import seal

_view: Final = Table("oms", 2)
_rule: Final = Table("oms", 3)

# selective disclosure


def _original(one: dict[str, Any]) -> og.Grain:
    blob = bytes.fromhex(one["original_hex"])
    if blob[1] & 1:
        return crypto.with_signed_bit(og.Grain(blob[:1] + bytes([blob[1] & 0xFE]) + blob[2:]))
    return og.Grain(blob)


def _views(word: str) -> list[dict[str, Any]]:
    return [one for one in data("disclosure") if word in one]


@_view(
    "disclosure.view",
    "10.1",
    "A view has _elided, the SHA-256 of each hidden value, and _disclosure_of, the address",
)
def _made(_: Bench) -> Iterator[Tried]:
    for one in _views("address"):
        view = crypto.disclose(_original(one), one["hide"])
        yield Tried(one["description"], one["view_hex"], view.blob.hex())
        yield Tried("its address", one["address"], view.address)


@_view("disclosure.proved", "10.1", "A view is proved to be one of the whole grain")
def _proved(_: Bench) -> Iterator[Tried]:
    for one in _views("address"):
        view = og.Grain(bytes.fromhex(one["view_hex"])) if "signed" not in one["id"] else None
        if view is not None:
            yield takes(one["description"], crypto.check_disclosure, view, _original(one))


@_view(
    "disclosure.forged",
    "10.1",
    "A view with a value, a hash or an address that is not the original's is refused",
)
def _forged(_: Bench) -> Iterator[Tried]:
    for one in _views("expect_error"):
        whole, view = (bytes.fromhex(one[name]) for name in ("original_hex", "view_hex"))
        yield refuses(
            one["description"],
            one["expect_error"],
            crypto.check_disclosure,
            view,
            whole,
        )


@_view("disclosure.reveal", "10.1", "A hidden value is shown only by what hashes to its hash")
def _revealed(_: Bench) -> Iterator[Tried]:
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


@_view("disclosure.shown", "10.2", "What others decide by is never hidden")
def _shown(_: Bench) -> Iterator[Tried]:
    names = (
        "type relation confidence created_at goal_state source_type priority observer_type "
        "observation_mode observation_scope compression_ratio invalidation_policy"
    ).split()
    base = {
        "type": "belief",
        "subject": "a",
        "relation": "b",
        "object": "c",
        "confidence": 0.5,
        "created_at": 1000,
    }
    values: dict[str, Any] = {
        "priority": 1,
        "goal_state": "active",
        "observation_mode": "active",
        "observation_scope": "point",
        "compression_ratio": 0.5,
        "invalidation_policy": {"mode": "open"},
    }
    for name in names:
        grain = og.Grain(
            og.encode(base | {name: values.get(name, base.get(name, "user_explicit"))})
        )
        yield refuses(name, "ERR_SCHEMA", crypto.disclose, grain, [name])


_view.add(
    "disclosure.required",
    "10.2",
    "A required field that is hidden counts as present",
    write(136, 137),
)


@_view(
    "disclosure.guessable", "10.1", "A hidden value that can be guessed is warned of", must=False
)
def _guessed(_: Bench) -> Iterator[Tried]:
    view = crypto.disclose(_original(data("disclosure")[0]), ["user_id"])
    yield Tried("a user id of nine letters", 1, len(view.warnings))


@_view("disclosure.store", "10.1", "A view is no grain of a store's own")
def _kept(bench: Bench) -> Iterator[Tried]:
    view = og.Grain(bytes.fromhex(data("disclosure")[0]["view_hex"]))
    yield refuses("put into a store", "ERR_SCHEMA", lambda: bench.store().put(view))


# sealed grains


def _seals() -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    for grain in data("sealed")["grains"]:
        for one in grain["sealed"]:
            yield grain["name"], bytes.fromhex(grain["plain"]), one


def _key() -> bytes:
    return bytes.fromhex(data("sealed")["key"])


@_rule("seal.open", "20", "Sealed grains are opened byte for byte, and have their address")
def _opened(_: Bench) -> Iterator[Tried]:
    for name, plain, one in _seals():
        sealed = bytes.fromhex(one["sealed"])
        yield Tried(
            f"{name}, {'whole' if one['whole'] else 'its payload'}",
            plain,
            seal.unseal(sealed, _key(), check=True),
        )
        yield Tried("its address", one["address"], og.address(sealed))


@_rule(
    "seal.layout",
    "20",
    "Header with bit 1, a nonce of 12 bytes, AES-256-GCM, a tag of 16; the header is bound",
)
def _layout(_: Bench) -> Iterator[Tried]:
    blob = bytes.fromhex(vector("oms", 7)["stages"]["blob_hex"])
    sealed = seal.seal(blob, bytes(32), whole=False)
    yield Tried("the size", len(blob) + 12 + 16, len(sealed))
    yield Tried("bit 1", 2, sealed[1] & 2)
    found = AESGCM(bytes(32)).decrypt(sealed[9:21], sealed[21:], sealed[:9])
    yield Tried("opened by AES-GCM alone", blob[9:], found)
    whole = seal.seal(blob, bytes(32), whole=True)
    yield Tried(
        "sealed whole", blob, AESGCM(bytes(32)).decrypt(whole[9:21], whole[21:], whole[:9])
    )


@_rule("seal.header", "20", "The header shows type and sensitivity; namespace and time are zero")
def _hidden(_: Bench) -> Iterator[Tried]:
    blob = bytes.fromhex(vector("oms", 7)["stages"]["blob_hex"])
    yield Tried("hidden", "010201000000000000", seal.seal(blob, bytes(32), whole=False)[:9].hex())
    shown = seal.seal(blob, bytes(32), whole=False, hide_header=False)[:9].hex()
    yield Tried("shown, if that is asked", "010201a4d26968baa0", shown)


@_rule("seal.nonce", "20", "No two seals have the same nonce")
def _nonces(_: Bench) -> Iterator[Tried]:
    blob = bytes.fromhex(vector("oms", 7)["stages"]["blob_hex"])
    nonces = {seal.seal(blob, bytes(32), whole=False)[9:21] for _ in range(1000)}
    yield Tried("a thousand seals of one grain", 1000, len(nonces))


@_rule("seal.wrong", "20", "A wrong key, or any byte changed, opens nothing")
def _wrong(_: Bench) -> Iterator[Tried]:
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


@_rule("seal.hkdf", "20", "A user's key is HKDF-SHA256 of the root under the salt of his record")
def _hkdf(_: Bench) -> Iterator[Tried]:
    root = bytes.fromhex(data("sealed")["root"])
    for one in data("sealed")["user_keys"]:
        salt = one["salt"] and bytes.fromhex(one["salt"])
        found = seal.derive_user_key(root, one["user_id"], salt=salt, generation=one["generation"])
        what = f"user {one['user_id']!r}, generation {one['generation']}"
        yield Tried(f"{what}, {'salted' if salt else 'without salt'}", one["key"], found.hex())


@_rule("seal.sign-order", "20", "What is sealed gets its signed bit first, and is signed after")
def _order(_: Bench) -> Iterator[Tried]:
    from omsgrain.conformance.rules.people import ada

    blob = bytes.fromhex(vector("oms", 7)["stages"]["blob_hex"])
    plain = seal.seal(blob, bytes(32), whole=False)
    yield refuses(
        "sealed without the bit", "ERR_SIGNED_MISMATCH", lambda: crypto.sign(plain, ada())
    )
    sealed = seal.seal(blob, bytes(32), whole=False, signed=True)
    envelope = crypto.sign(sealed, ada())
    yield Tried("signed as it is sealed", sealed, crypto.prove(envelope)[0])


RULES: Final = [*_view.rules, *_rule.rules]
