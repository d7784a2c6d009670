# SPDX-License-Identifier: Apache-2.0
"""COSE among others: pycose, python-cwt, `cryptography` alone; cbor2 5 and 6."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256
from pycose.algorithms import EdDSA, Es256
from pycose.headers import KID, Algorithm, ContentType
from pycose.keys.cosekey import CoseKey
from pycose.messages.sign1message import Sign1Message

from omsgrain.crypto import (
    KeySigner,
    open_signed,
    sign,
    sign_detached,
    signers,
    verify_detached,
    verify_signed,
    with_signed_bit,
)
from support.paths import TEST_DATA
from support.signers import ALICE, BOB, GRAIN, IAT, MSGPACK

BLOB = with_signed_bit(GRAIN).blob
SIGNERS = [ALICE, BOB]
VECTORS = json.loads(TEST_DATA.joinpath("cose_sign1.json").read_text())
ALGORITHMS = {-8: EdDSA, -7: Es256}


def pycose_key(signer: KeySigner) -> Any:
    return CoseKey.decode(signers.dumps_private(signer._key, "cose"))


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: v["name"])
def test_vectors(vector: dict[str, Any]) -> None:
    """Made once and for all, by others and by us; what we made was checked by others."""
    data = bytes.fromhex(vector["cose"])
    if "detached" in vector:
        proof = verify_detached(data, vector["detached"].encode(), vector["aad"].encode())
        assert proof.signer == vector["signer"]
        return
    signed = open_signed(data)
    assert (signed.signer, signed.iat) == (vector["signer"], vector["iat"])
    assert signed.grain.address == vector["address"]


def test_our_bytes_stay() -> None:
    """Ed25519 is deterministic, so the same grain, key and time give the same envelope."""
    pinned = next(v for v in VECTORS["vectors"] if v["name"] == "ours, Ed25519")
    assert sign(GRAIN, ALICE, iat=IAT).hex() == pinned["cose"]


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
@pytest.mark.parametrize("order", [(Algorithm, KID, ContentType), (ContentType, Algorithm, KID)])
def test_pycose_makes(signer: KeySigner, order: tuple[Any, ...]) -> None:
    values = {Algorithm: ALGORITHMS[signer.alg], KID: signer.did.encode(), ContentType: MSGPACK}
    message = Sign1Message(
        phdr={label: values[label] for label in order}, uhdr={"iat": IAT}, payload=BLOB
    )
    message.key = pycose_key(signer)
    signed = open_signed(message.encode())
    assert (signed.grain.blob, signed.signer, signed.iat) == (BLOB, signer.did, IAT)


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
def test_pycose_makes_detached(signer: KeySigner) -> None:
    message = Sign1Message(
        phdr={Algorithm: ALGORITHMS[signer.alg], KID: signer.did.encode()}, external_aad=b"aad"
    )
    message.key = pycose_key(signer)
    signature = message.encode(detached_payload=b"data")
    assert verify_detached(signature, b"data", b"aad").signer == signer.did


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
def test_pycose_checks(signer: KeySigner) -> None:
    # Its own decode() cannot read a tagged array that cbor2 6 gives.
    read: Any = Sign1Message.from_cose_obj
    message = read(cbor2.loads(sign(GRAIN, signer, iat=IAT)[1:]), True)
    message.key = pycose_key(signer)
    assert message.verify_signature()
    assert message.phdr[ContentType] == MSGPACK
    detached = sign_detached(b"data", signer, b"aad")
    message = read(cbor2.loads(detached[1:]), True)
    message.key, message.external_aad = pycose_key(signer), b"aad"
    assert message.verify_signature(detached_payload=b"data")


def structure(protected: bytes, payload: bytes, aad: bytes = b"") -> bytes:
    """The Sig_structure, byte by byte. Spec: RFC 9052 §4.4."""

    def string(data: bytes) -> bytes:
        size = len(data)
        head = bytes([0x40 + size]) if size < 24 else bytes([0x58, size])
        return head + data

    assert max(len(protected), len(payload), len(aad)) < 256
    return b"\x84\x6aSignature1" + string(protected) + string(aad) + string(payload)


def test_cryptography_alone_checks() -> None:
    for signer in SIGNERS:
        protected, unprotected, payload, signature = cbor2.loads(sign(GRAIN, signer, iat=IAT)[1:])
        assert (unprotected, payload) == ({"iat": IAT}, BLOB)
        key, data = signer.public_key, structure(protected, payload)
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, data)
        else:
            assert isinstance(key, EllipticCurvePublicKey)
            r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
            key.verify(encode_dss_signature(r, s), data, ECDSA(SHA256()))


def test_cryptography_alone_makes() -> None:
    for signer in SIGNERS:
        did = signer.did.encode()
        protected = (
            b"\xa3\x01" + cbor2.dumps(signer.alg) + b"\x04\x58" + bytes([len(did)]) + did
            + b"\x03\x78\x1a" + MSGPACK.encode()
        )  # fmt: skip
        data = structure(protected, BLOB)
        if signer is ALICE:
            signature = signer._key.sign(data)
        else:
            r, s = decode_dss_signature(signer._key.sign(data, ECDSA(SHA256())))  # type: ignore[call-arg]
            signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        envelope = (
            b"\xd2\x84\x58" + bytes([len(protected)]) + protected + b"\xa0"
            + b"\x58" + bytes([len(BLOB)]) + BLOB + b"\x58\x40" + signature
        )  # fmt: skip
        assert open_signed(envelope).signer == signer.did


def frozen(value: Any) -> Any:
    """Arrays and maps within a tag, as cbor2 6 returns them."""
    if isinstance(value, list):
        return tuple(frozen(item) for item in value)
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(item) for key, item in value.items()})
    return value


def test_what_cbor2_6_gives_within_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = cbor2.loads
    envelopes = [sign(GRAIN, signer, iat=IAT) for signer in SIGNERS]
    detached = sign_detached(b"data", ALICE)
    monkeypatch.setattr(cbor2, "loads", lambda data: frozen(loads(data)))
    for envelope, signer in zip(envelopes, SIGNERS, strict=True):
        assert open_signed(envelope).signer == signer.did
        assert verify_signed(envelope).blob == BLOB
    assert verify_detached(detached, b"data").signer == ALICE.did
