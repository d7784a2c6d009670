# SPDX-License-Identifier: Apache-2.0
"""Signatures of bundles: what they cover, whose count, and that others read and write the same."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from pycose.algorithms import EdDSA, Es256
from pycose.headers import KID, Algorithm
from pycose.keys.cosekey import CoseKey
from pycose.messages.sign1message import Sign1Message

from omsgrain.crypto import Ed25519Signer, ES256Signer, KeySigner
from omsgrain.crypto import signers as keyfile
from omsgrain.crypto import signers as publicfile
from omsgrain.crypto.trust import Trust, check
from omsgrain.errors import DidError, KeyMissingError, SignatureError
from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.aimem import signature
from omsgrain.formats.aimem.check import RULES
from omsgrain.formats.aimem.document import checksum_of
from omsgrain.formats.aimem.fields import ARRAYS
from support.aimem_strategies import TENANT, documents
from support.signers import ALICE, BOB, by_hand

SIGNERS = [ALICE, BOB]
URL = "https://memory.example.org/.well-known/aimem-pubkey"
CHUNK = {
    "id": "urn:aimem:robots:1",
    "content": "Ada likes tea",
    "memory_type": "preference",
    "created_at": "2026-04-01T09:30:00Z",
}
ENVELOPE = {
    "format": "aimem-bundle",
    "version": "1",
    "producer": "robots",
    "tenant_id": TENANT,
    "exported_at": "2026-06-12T10:00:00Z",
    "scope": "FULL",
}


def written(**more: Any) -> bytes:
    return bundle.write_bundle(bundle.Bundle(ENVELOPE | more, {"chunk": [dict(CHUNK)]}))


TEXT = signature.canonical(written())


def trust(*signers: KeySigner, kid: str | None = None) -> Trust:
    keys = [
        publicfile.loads_public(publicfile.dumps_public(one.public_key, kid)) for one in signers
    ]
    return Trust(tuple(key for some in keys for key in some))


def rule(made: bytes | None, text: bytes, known: Trust, *, required: bool = False) -> str | None:
    """The rule that a signature is refused by; None if it is taken."""
    try:
        check(made, text, known, required=required)
    except SignatureError as error:
        assert error.rule in RULES
        return error.rule
    return None


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
@pytest.mark.parametrize("kid", [None, URL])
def test_a_signature_holds(signer: KeySigner, kid: str | None) -> None:
    made = signature.sign_bundle(TEXT, signer, kid=kid, iat=5)
    for known in (trust(signer), trust(signer, kid=URL), trust(ALICE, BOB)):
        proof = check(made, TEXT, known)
        assert proof is not None
        assert (proof.signer, proof.iat) == (signer.did, 5)


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
def test_the_time_of_a_signature_is_signed(signer: KeySigner) -> None:
    """A detached signature covers its time as a CWT claim. Spec: RFC 9597 §2"""
    made = signature.sign_bundle(TEXT, signer, iat=1_768_471_200)
    protected, unprotected, _, _ = cbor2.loads(made[1:])
    assert cbor2.loads(protected)[15] == {6: 1_768_471_200}
    assert unprotected == {}
    later = made.replace(cbor2.dumps(1_768_471_200), cbor2.dumps(1_768_471_201))
    assert later != made
    assert rule(later, TEXT, trust(signer)) == "signature_invalid"
    named = {1: signer.alg, 4: signer.did.encode()}
    at = 1_768_471_200
    beside = by_hand(named, None, signer, {"iat": at}, detached=TEXT)
    fraction = by_hand({**named, 15: {6: at + 0.5}}, None, signer, detached=TEXT)
    for other in (beside, fraction):
        proof = check(other, TEXT, trust(signer))
        assert proof is not None
        assert proof.iat == at
    no_time = by_hand({**named, 15: {6: "now"}}, None, signer, detached=TEXT)
    assert rule(no_time, TEXT, trust(signer)) == "signature_invalid"


def test_signature_and_checksum_cover_the_same_bytes() -> None:
    """Another spelling of the bundle has the same signature, another bundle has not."""
    made = signature.sign_bundle(TEXT, ALICE)
    other = json.dumps(json.loads(written()), indent=1, sort_keys=True).encode()
    assert checksum_of(other) == checksum_of(written())
    assert rule(made, signature.canonical(other), trust(ALICE)) is None
    changed = written(scope="DNA_ONLY")
    assert rule(made, signature.canonical(changed), trust(ALICE)) == "signature_invalid"


@given(documents())
def test_by_lines_the_same_is_signed(document: dict[str, Any]) -> None:
    records = {kind: document.pop(name, []) for name, kind in ARRAYS.items()}
    whole = bundle.write_bundle(bundle.Bundle(document, records))
    lines = stream.write_lines(document, records.__getitem__)
    source = io.BytesIO(b"".join(lines))
    assert signature.canonical_of_lines(source) == signature.canonical(whole)


def test_which_signatures_count() -> None:
    by_did, by_url = (signature.sign_bundle(TEXT, ALICE, kid=kid) for kid in (None, URL))
    for made in (by_did, by_url):
        assert rule(made, TEXT, trust(BOB)) == "signature_untrusted"
        assert rule(made, TEXT, Trust()) == "signature_untrusted"
        flipped = made[:-1] + bytes((made[-1] ^ 1,))
        known = trust(ALICE, kid=URL)
        assert rule(flipped, TEXT, known) == "signature_invalid"
        assert rule(made, TEXT + b" ", known) == "signature_invalid"
    assert rule(by_did, TEXT + b" ", trust(BOB)) == "signature_invalid"
    assert rule(None, TEXT, trust(ALICE), required=True) == "signature_missing"
    assert rule(None, TEXT, trust(ALICE)) is None
    assert check(None, TEXT, trust(ALICE)) is None


def test_a_name_that_is_not_his() -> None:
    """A signature in the name of a trusted signer is refused, though its own key is valid."""
    made = signature.sign_bundle(TEXT, BOB, kid=ALICE.did)
    assert rule(made, TEXT, trust(ALICE)) == "signature_invalid"
    assert rule(made, TEXT, trust(ALICE, BOB)) == "signature_invalid"


@pytest.mark.parametrize(
    "made",
    [
        b"",
        b"\xd2",
        b"nothing of the kind",
        b"\xd2" + cbor2.dumps([b"", {}, None, bytes(64)]),
        b"\xd2" + cbor2.dumps([b"\xa1\x01\x27", {}, TEXT, bytes(64)]),
        b"\xd2" + cbor2.dumps([b"\xa1\x01\x26", {}, None, bytes(3)]),
        b"\xd2" + cbor2.dumps([b"\xa1\x01\x27", {"iat": -1}, None, bytes(64)]),
        signature.sign_bundle(TEXT, ALICE) + b"\0",
    ],
)
def test_invalid_signatures(made: bytes) -> None:
    assert rule(made, TEXT, trust(ALICE)) in ("signature_invalid", "signature_untrusted")


def pycose_key(signer: KeySigner) -> Any:
    return CoseKey.decode(keyfile.dumps_private(signer._key, "cose"))


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
@pytest.mark.parametrize("tag", [True, False])
@pytest.mark.parametrize("kid", [None, URL, b"\xff\x00"])
def test_pycose_makes(signer: KeySigner, tag: bool, kid: str | bytes | None) -> None:
    name = kid.encode() if isinstance(kid, str) else kid
    headers: dict[Any, Any] = {Algorithm: Es256 if signer is BOB else EdDSA}
    uhdr = {} if name is None else {KID: name}
    message = Sign1Message(phdr=headers, uhdr=uhdr)
    message.key = pycose_key(signer)
    made = message.encode(tag=tag, detached_payload=TEXT)
    proof = check(made, TEXT, trust(ALICE, BOB))
    assert proof is not None
    assert proof.signer == signer.did


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
def test_pycose_reads(signer: KeySigner) -> None:
    """The signature, and the public key as it is shown to the world."""
    made = signature.sign_bundle(TEXT, signer, kid=URL)
    protected, unprotected, payload, mark = cbor2.loads(made[1:])
    assert payload is None
    message = Sign1Message.from_cose_obj([protected, dict(unprotected), None, mark], True)
    message.key = CoseKey.decode(publicfile.dumps_public(signer.public_key, URL))
    assert message.verify_signature(detached_payload=TEXT)
    assert message.phdr[KID] == URL.encode()


def test_the_header() -> None:
    made = signature.sign_bundle(TEXT, ALICE)
    value = signature.to_header(made)
    assert "=" not in value
    assert signature.from_header(value) == made
    assert signature.from_header(base64.urlsafe_b64encode(made).decode()) == made
    for bad in ("?", "a", "é", "a+/b", "A" * 400_000):
        with pytest.raises(SignatureError) as caught:
            signature.from_header(bad)
        assert caught.value.rule == "signature_invalid"
    assert rule(signature.from_header(""), TEXT, trust(ALICE)) == "signature_invalid"


def public_files(signer: KeySigner) -> dict[str, bytes]:
    """One public key, in every form that is read."""
    key = signer.public_key
    own = json.loads(keyfile.dumps_private(signer._key, "jwk"))
    cose = publicfile.dumps_public(key)
    return {
        "cose": cose,
        "set": cbor2.dumps([cbor2.loads(cose)]),
        "pem": key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps({name: value for name, value in own.items() if name != "d"}).encode(),
        "did": f"{signer.did}\n{ALICE.did}\n".encode(),
        "private": keyfile.dumps_private(signer._key, "pem"),
    }


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
@pytest.mark.parametrize("kind", ["cose", "set", "pem", "jwk", "did", "private"])
def test_files_of_public_keys(signer: KeySigner, kind: str, tmp_path: Path) -> None:
    (path := tmp_path / "key").write_bytes(public_files(signer)[kind])
    known = Trust.load([path])
    assert known.keys[0].did == signer.did
    assert rule(signature.sign_bundle(TEXT, signer), TEXT, known) is None


@pytest.mark.parametrize("kind", ["did", "set"])
def test_a_file_of_more_keys_than_are_looked_at_is_refused(kind: str) -> None:
    """The last of them would be missing among the trusted keys without a reason."""
    signers = [Ed25519Signer.generate() for _ in range(65)]
    keys = [cbor2.loads(publicfile.dumps_public(one.public_key)) for one in signers]

    def file(count: int) -> bytes:
        dids = "\n".join(one.did for one in signers[:count]).encode()
        return dids if kind == "did" else cbor2.dumps(keys[:count])

    assert [one.did for one in publicfile.loads_public(file(64))] == [
        one.did for one in signers[:64]
    ]
    with pytest.raises(KeyMissingError):
        publicfile.loads_public(file(65))


def test_a_point_of_which_half_is_given() -> None:
    """RFC 9053 lets y be its lowest bit."""
    for signer in (BOB, *(ES256Signer.generate() for _ in range(4))):
        values = cbor2.loads(publicfile.dumps_public(signer.public_key))
        values[-3] = bool(values[-3][-1] & 1)
        (found,) = publicfile.loads_public(cbor2.dumps(values))
        assert found.did == signer.did


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32, b"short", 7], ids=repr)
def test_a_private_half_that_is_none_hides_no_public_one(secret: object) -> None:
    keys = [cbor2.loads(publicfile.dumps_public(one.public_key)) for one in (ALICE, BOB)]
    keys[1][-4] = secret
    assert [one.did for one in publicfile.loads_public(cbor2.dumps(keys))] == [ALICE.did, BOB.did]


def test_a_private_key_without_its_public_half() -> None:
    for signer in (Ed25519Signer.generate(), ES256Signer.generate()):
        whole = cbor2.loads(keyfile.dumps_private(signer._key, "cose"))
        for left_out in ({-2}, {-3}, {-2, -3}):
            values = {name: value for name, value in whole.items() if name not in left_out}
            (found,) = publicfile.loads_public(cbor2.dumps(values))
            assert found.did == signer.did


def test_dids_that_are_trusted() -> None:
    web = "did:web:robots.example"
    known = Trust.load([BOB.did, web], lambda name: {web: ALICE.did}[name])
    proof = check(signature.sign_bundle(TEXT, ALICE), TEXT, known)
    assert proof is not None
    assert proof.signer == web
    with pytest.raises(DidError):
        Trust.load([web])


@pytest.mark.parametrize(
    "data",
    [b"", b"\xa0", b"{}", b"{", b"[]", b"\x80", b"-----BEGIN PUBLIC KEY-----\n", b"x" * 70_000,
     cbor2.dumps({1: 2, -1: 1, -2: bytes(32), -3: bytes(32)}), cbor2.dumps({1: 1, -1: 6})],
)  # fmt: skip
def test_invalid_public_keys(data: bytes, tmp_path: Path) -> None:
    (path := tmp_path / "key").write_bytes(data)
    with pytest.raises(KeyMissingError):
        Trust.load([path])
