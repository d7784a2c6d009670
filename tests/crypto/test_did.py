# SPDX-License-Identifier: Apache-2.0
"""DIDs: made, taken apart, resolved, refused."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    EllipticCurvePublicNumbers,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from omsgrain.crypto import KeySigner, PublicKey, did
from omsgrain.errors import DidError, SignatureError
from support.did_keys import multikey
from support.known_grains import DID
from support.signers import ALICE, BOB, SMALL

P256_X = "7f235830dd3defa722ef1aa249d6a0ddbba4f990b0817538933f573640653542"
P256_Y = "856da88d335f1fb25b8bcfbe089528dce09b1f7cb99fdd60f88300f4c2cc6d35"


def ed25519(key: str) -> PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))


def p256(x: str, y: str) -> PublicKey:
    return EllipticCurvePublicNumbers(int(x, 16), int(y, 16), SECP256R1()).public_key()


#: From RFC 8032 §7.1, the OMS vectors, and the examples of the did:key method.
VECTORS = {
    "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw": ed25519(
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    ),
    DID: ed25519("2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6"),
    "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169": p256(P256_X, P256_Y),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name: str) -> None:
    assert did.from_key(VECTORS[name]) == name
    assert did.resolve(name) == VECTORS[name]


@pytest.mark.parametrize("signer", [ALICE, BOB], ids=repr)
def test_keys_of_ours(signer: KeySigner) -> None:
    assert did.resolve(signer.did) == signer.public_key
    fragment = signer.did.removeprefix("did:key:")
    assert did.resolve(f"{signer.did}#{fragment}") == signer.public_key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "did",
        "did:",
        "did:key",
        "did:key:",
        "did:key:z",
        "DID:key:" + DID[8:],
        "did:KEY:" + DID[8:],
        DID + "\n",
        " " + DID,
        DID + "#",
        DID + "#other",
        DID + "/path",
        DID + "?query",
        "did:web:exämple.com",
        "did:web:example.com:",
        "did:web:" + "a" * 600,
        "did:key:z" + "2" * 100,
    ],
    ids=range(18),
)
def test_malformed(text: str) -> None:
    with pytest.raises(DidError):
        did.resolve(text, lambda _: ALICE.public_key)


_POINT = bytes.fromhex(P256_X)
_KEY = bytes(range(1, 33))
BAD_KEYS = {
    "base64": "mAAAA",
    "no base": DID.removeprefix("did:key:z"),
    "letter outside of the alphabet": "z6Mk0" + DID[13:],
    "leading zero": multikey(b"\0\xed\x01" + _KEY),
    "nothing": "z",
    "secp256k1": multikey(b"\xe7\x01\x02" + _POINT),
    "x25519": multikey(b"\xec\x01" + _KEY),
    "p384": multikey(b"\x81\x24\x02" + bytes(48)),
    "varint longer than needed": multikey(b"\xed\x81\x00" + _KEY[:31]),
    "varint of one byte": multikey(b"\x6d" + _KEY),
    "a byte less": multikey(b"\xed\x01" + _KEY[:31]),
    "a byte more": multikey(b"\xed\x01" + _KEY + b"\1"),
    "ed25519 off the curve": multikey(b"\xed\x01\x02" + bytes(31)),
    "p256 uncompressed": multikey(b"\x80\x24\x04" + _POINT + bytes.fromhex(P256_Y)),
    "p256 with a sign that is none": multikey(b"\x80\x24\x05" + _POINT),
    "p256 off the curve": multikey(b"\x80\x24\x02" + (1).to_bytes(32, "big")),
    "p256 beyond the field": multikey(b"\x80\x24\x02" + b"\xff" * 32),
    "p256, the point at infinity": multikey(b"\x80\x24\x00" + bytes(32)),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_bad_keys(name: str) -> None:
    with pytest.raises(DidError):
        did.resolve(f"did:key:{BAD_KEYS[name]}")


@pytest.mark.parametrize("key", SMALL)
def test_keys_of_small_order_are_refused(key: str) -> None:
    """Anybody can sign under them: the equation holds for the signature (R, 0)."""
    name = "did:key:" + multikey(b"\xed\x01" + bytes.fromhex(key))
    with pytest.raises(DidError):
        did.resolve(name)
    for found in (name, ed25519(key)):
        with pytest.raises(DidError):
            did.resolve("did:web:example.com", {"did:web:example.com": found}.__getitem__)


def test_a_key_has_one_spelling() -> None:
    """OpenSSL takes y modulo p, so that one key would have two names."""
    spelled = (2**255 - 19 + 3).to_bytes(32, "little")
    assert did.resolve("did:key:" + multikey(b"\xed\x01\x03" + bytes(31)))
    with pytest.raises(DidError):
        did.resolve("did:key:" + multikey(b"\xed\x01" + spelled))


def test_parts() -> None:
    parts = did.parse("did:web:example.com%3A8443:robots:r2#key-1")
    assert (parts.method, parts.id, parts.fragment) == (
        "web",
        "example.com%3A8443:robots:r2",
        "key-1",
    )
    assert str(parts) == "did:web:example.com%3A8443:robots:r2"


def test_resolver_is_asked_for_all_but_did_key() -> None:
    asked = []

    def resolver(text: str) -> PublicKey:
        asked.append(text)
        return BOB.public_key

    assert did.resolve(ALICE.did, resolver) == ALICE.public_key
    assert did.resolve("did:web:example.com#key-1", resolver) == BOB.public_key
    assert did.resolve("did:example:robot", resolver) == BOB.public_key
    assert asked == ["did:web:example.com#key-1", "did:example:robot"]


def test_a_dict_is_a_resolver() -> None:
    known = {"did:web:example.com": ALICE.did}
    assert did.resolve("did:web:example.com", known.__getitem__) == ALICE.public_key
    with pytest.raises(DidError):
        did.resolve("did:web:example.org", known.__getitem__)


def test_without_a_resolver() -> None:
    with pytest.raises(DidError):
        did.resolve("did:web:example.com")


@pytest.mark.parametrize(
    "answer",
    [None, "", "did:web:example.org", 7, generate_private_key(SECP384R1()).public_key()],
    ids=["none", "empty", "another name", "number", "p384"],
)
def test_resolver_that_gives_no_key(answer: object) -> None:
    with pytest.raises(DidError):
        did.resolve("did:web:example.com", lambda _: answer)  # type: ignore[arg-type,return-value]


def test_resolver_that_fails() -> None:
    def timeout(text: str) -> PublicKey:
        raise TimeoutError

    def refuse(text: str) -> PublicKey:
        raise SignatureError("its own refusal passes")

    with pytest.raises(DidError) as caught:
        did.resolve("did:web:example.com", timeout)
    assert isinstance(caught.value.__cause__, TimeoutError)
    with pytest.raises(SignatureError):
        did.resolve("did:web:example.com", refuse)
