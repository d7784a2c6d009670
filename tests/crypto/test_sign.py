# SPDX-License-Identifier: Apache-2.0
"""Signed grains: what is made, what holds, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import cbor2
import pytest

import omsgrain as og
from omsgrain import container, crypto
from omsgrain.crypto import (
    KeySigner,
    Resolver,
    cose,
    open_signed,
    prove,
    sign,
    sign_detached,
    verify_detached,
    verify_signed,
    with_signed_bit,
)
from omsgrain.crypto.did import from_multibase
from omsgrain.crypto.signers import verify
from omsgrain.errors import (
    AddressError,
    CorruptError,
    DidError,
    IntegrityError,
    KeyMissingError,
    OmsError,
    RangeError,
    SignatureError,
    SignedMismatchError,
    TooLargeError,
    TooShortError,
    UnsupportedError,
    VersionError,
)
from omsgrain.grain import Encoding
from support.did_keys import multikey
from support.known_grains import VECTORS
from support.paths import TEST_DATA
from support.random_grains import random_grain
from support.signers import ALICE, BOB, CAROL, CBOR, FIELDS, GRAIN, IAT, SMALL, by_hand, headers

SIGNERS = [ALICE, BOB]
BLOB = with_signed_bit(GRAIN).blob
ENVELOPE = sign(GRAIN, ALICE, iat=IAT)
WEB = "did:web:example.com"


def knows(**keys: KeySigner) -> Resolver:
    names = {f"did:web:{name}.example": signer.public_key for name, signer in keys.items()}
    return names.__getitem__


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
@pytest.mark.parametrize("compress", [False, True])
def test_sign_and_verify(signer: KeySigner, encoding: Encoding, compress: bool) -> None:
    plain = og.Grain(og.encode(FIELDS, encoding=encoding, compress=compress))
    envelope = sign(plain, signer, iat=IAT)
    signed = open_signed(envelope)
    assert (signed.signer, signed.iat, signed.envelope) == (signer.did, IAT, envelope)
    assert signed.author_matches is (signer is ALICE)
    grain = signed.grain
    assert grain == verify_signed(envelope) == with_signed_bit(plain)
    assert verify_signed(envelope, address=grain.address) == grain
    assert grain.header.signed
    assert not plain.header.signed
    assert grain.blob[2:] == plain.blob[2:]
    assert grain.address != plain.address
    assert (grain.type, grain.fields, grain.warnings) == (plain.type, plain.fields, plain.warnings)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)
def test_vectors_keep_their_names(vector: Any) -> None:
    blob = og.encode(vector.fields, keep_type_name=True)
    grain = verify_signed(sign(blob, CAROL))
    assert grain["type"] == vector.fields["type"]
    assert bytes([1, grain.header.flags & ~1]) + grain.blob[2:] == blob


def test_random_grains() -> None:
    rng = Random(5)
    for _ in range(30):
        plain = og.Grain(og.encode(random_grain(rng), keep_type_name=True))
        signed = open_signed(sign(plain, ALICE, iat=0))
        assert signed.grain.to_dict() == plain.to_dict()
        author = plain.get("author_did")
        assert signed.author_matches is (None if author is None else author == ALICE.did)


def test_an_opaque_grain_is_signed() -> None:
    plain = og.Grain(og.encode({"type": "x:y", "created_at": 1, "k": 2}, type_byte=0xF0))
    assert verify_signed(sign(plain, ALICE))["k"] == 2


def test_a_second_signer_leaves_the_address() -> None:
    first = verify_signed(ENVELOPE)
    second = open_signed(sign(first, BOB))
    assert second.grain == first
    assert second.signer == BOB.did


def test_the_signed_bit_is_set_once() -> None:
    grain = with_signed_bit(GRAIN)
    assert with_signed_bit(grain) is grain
    assert sign(grain, ALICE, iat=IAT) == sign(GRAIN, ALICE, iat=IAT) == ENVELOPE


def test_a_time_is_written_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1234.5)
    assert open_signed(sign(GRAIN, ALICE)).iat == 1234
    assert verify_detached(sign_detached(b"data", ALICE), b"data").iat is None
    for wrong in (-1, 2**63, 1.5, True, "now"):
        with pytest.raises(RangeError):
            sign(GRAIN, ALICE, iat=wrong)  # type: ignore[arg-type]
        with pytest.raises(RangeError):
            sign_detached(b"data", ALICE, iat=wrong)  # type: ignore[arg-type]


def test_only_grains_are_signed() -> None:
    for blob, error in (
        (BLOB[:-1], CorruptError),
        (b"", TooShortError),
        (b"\x02" + BLOB[1:], VersionError),
        (BLOB[:2] + b"\x02" + BLOB[3:], CorruptError),
    ):
        with pytest.raises(error):
            sign(blob, ALICE)


def test_a_leniently_read_grain_is_not_signed() -> None:
    for plain in (BLOB, GRAIN.blob):
        blob = plain[:9] + b"\xde\0" + bytes([plain[9] & 15]) + plain[10:]  # a longer map head
        grain = og.decode(blob, strict=False)
        for refuse in (with_signed_bit, lambda g: sign(g, ALICE)):
            with pytest.raises(CorruptError):
                refuse(grain)


def test_a_container_takes_and_gives_envelopes(tmp_path: Path) -> None:
    container.write(tmp_path / "signed.mg", [GRAIN, ENVELOPE])
    with container.read(tmp_path / "signed.mg") as source:
        assert source[1] == ENVELOPE
        assert source.address(1) == verify_signed(source[1]).address


HEAD = 2 + 2  # tag and array, head of the protected headers
PROTECTED = cbor2.loads(ENVELOPE[1:])[0]
IAT_AT = HEAD + len(PROTECTED)


def test_every_flipped_bit_is_refused_or_is_the_time() -> None:
    times = range(IAT_AT, IAT_AT + len(cbor2.dumps({"iat": IAT})))
    told: set[type[OmsError]] = set()
    for at in range(len(ENVELOPE)):
        for bit in range(8):
            forged = bytearray(ENVELOPE)
            forged[at] ^= 1 << bit
            try:
                signed = open_signed(bytes(forged))
            except OmsError as error:
                told.add(type(error))
            else:
                assert at in times
                assert (signed.grain.blob, signed.signer) == (BLOB, ALICE.did)
    assert {SignatureError, DidError, SignedMismatchError, CorruptError} <= told


def test_every_cut_is_refused() -> None:
    for end in range(len(ENVELOPE)):
        with pytest.raises(CorruptError) as caught:
            verify_signed(ENVELOPE[:end])
        assert caught.value.offset is not None
    for more in (b"\0", ENVELOPE):
        with pytest.raises(CorruptError) as caught:
            verify_signed(ENVELOPE + more)
        assert caught.value.offset == len(ENVELOPE)


def parts(**changes: Any) -> bytes:
    """An envelope of Alice, the signature made over what it says."""
    return by_hand(headers(**changes), BLOB)


def renamed(signer: KeySigner, key: KeySigner) -> bytes:
    """In the name of one, with the key of another."""
    return by_hand(headers(signer, alg=key.alg), BLOB, key)


def plus(extra: bytes, count: int = 1) -> bytes:
    """The protected headers with more of them, packed by hand."""
    packed = cbor2.dumps(headers())
    return bytes([packed[0] + count]) + packed[1:] + extra


OTHER_BLOB = with_signed_bit(og.Grain(og.encode(FIELDS | {"object": "dark noon"}))).blob
PACKED = cbor2.dumps(headers())
MANY = b"".join(cbor2.dumps(100 + n) + b"\0" for n in range(21))
REFUSED: dict[str, tuple[bytes, type[OmsError]]] = {
    # the signature
    "signed by another": (renamed(BOB, ALICE), SignatureError),
    "signed by another of the same kind": (renamed(CAROL, ALICE), SignatureError),
    "of another grain": (ENVELOPE.replace(BLOB, OTHER_BLOB), SignatureError),
    "with other data": (by_hand(headers(), BLOB, aad=b"aad"), SignatureError),
    "none": (ENVELOPE[:-66] + b"\x40", SignatureError),
    "short": (ENVELOPE[:-66] + b"\x58\x3f" + ENVELOPE[-64:-1], SignatureError),
    "of the other algorithm": (parts(alg=-7), SignatureError),
    # the algorithm
    "unknown algorithm": (parts(alg=-35), UnsupportedError),
    "HMAC": (parts(alg=5), UnsupportedError),
    "algorithm by name": (parts(alg="EdDSA"), UnsupportedError),
    "no algorithm": (parts(alg=None), CorruptError),
    "algorithm not signed": (
        by_hand(headers(alg=None), BLOB, unprotected={1: -8}),
        CorruptError,
    ),
    # the signer
    "no kid": (parts(kid=None), CorruptError),
    "kid not signed": (
        by_hand(headers(kid=None), BLOB, unprotected={4: ALICE.did.encode()}),
        CorruptError,
    ),
    "kid is a number": (parts(kid=7), CorruptError),
    "kid is no DID": (parts(kid=b"alice"), DidError),
    "kid is no text": (parts(kid=b"did:key:z\xff"), DidError),
    "kid has no key": (parts(kid=b"did:key:z6Mk"), DidError),
    "kid needs a resolver": (parts(kid=WEB.encode()), DidError),
    # the content type
    "no content type": (parts(content_type=None), CorruptError),
    "of the other encoding": (parts(content_type=CBOR), CorruptError),
    "of another kind": (parts(content_type="text/plain"), CorruptError),
    "by number": (parts(content_type=42), CorruptError),
    "no type at all": (parts(content_type=b"text"), CorruptError),
    # the headers
    "headers that must be understood": (parts(crit=[4]), UnsupportedError),
    "and not signed": (by_hand(headers(), BLOB, unprotected={2: [4]}), UnsupportedError),
    "twice in one map": (by_hand(plus(b"\x01\x27"), BLOB), CorruptError),
    "twice, of equal value": (by_hand(plus(b"\xf5\x27"), BLOB), CorruptError),
    "in both maps": (by_hand(headers(), BLOB, unprotected={1: -8}), CorruptError),
    "not signed, twice": (by_hand(headers(), BLOB, unprotected=b"\xa2\x05\1\x05\1"), CorruptError),
    "label that is none": (by_hand(plus(b"\x40\x01"), BLOB), CorruptError),
    "label true": (by_hand(plus(b"\xf4\x01"), BLOB), CorruptError),
    "too many": (by_hand(plus(MANY, 21), BLOB), CorruptError),
    "no headers": (by_hand(b"", BLOB), CorruptError),
    "no map": (by_hand(b"\x80", BLOB), CorruptError),
    "more behind the map": (by_hand(PACKED + b"\0", BLOB), CorruptError),
    "fewer than it says": (by_hand(PACKED[:-1], BLOB), CorruptError),
    "a tag": (by_hand(plus(b"\x18\x64\xc1\x00", 1), BLOB), CorruptError),
    "a wide number": (by_hand(plus(b"\x18\x64\x18\x01"), BLOB), CorruptError),
    "an open array": (by_hand(plus(b"\x18\x64\x9f\xff"), BLOB), CorruptError),
    "undefined": (by_hand(plus(b"\x18\x64\xf7"), BLOB), CorruptError),
    "text that is none": (by_hand(plus(b"\x18\x64\x61\xff"), BLOB), CorruptError),
    "a tag, not signed": (by_hand(headers(), BLOB, unprotected=b"\xa1\x05\xc1\0"), CorruptError),
    "nested without end": (
        by_hand(headers(), BLOB, unprotected=b"\xa1\x05" + b"\x81" * 5000 + b"\0"),
        CorruptError,
    ),
    "too large": (by_hand(headers(), BLOB, unprotected={5: bytes(65 << 10)}), TooLargeError),
    # the time
    "time is text": (by_hand(headers(), BLOB, unprotected={"iat": "now"}), CorruptError),
    "time is true": (by_hand(headers(), BLOB, unprotected={"iat": True}), CorruptError),
    "time is before all": (by_hand(headers(), BLOB, unprotected={"iat": -1}), CorruptError),
    # the envelope
    "nothing": (b"", CorruptError),
    "tag in two bytes": (b"\xd8\x12" + ENVELOPE[1:], CorruptError),
    "another tag": (b"\xd1" + ENVELOPE[1:], CorruptError),
    "without tag": (ENVELOPE[1:], CorruptError),
    "tag twice": (b"\xd2" + ENVELOPE, CorruptError),
    "open array": (b"\xd2\x9f" + ENVELOPE[2:] + b"\xff", CorruptError),
    "three parts": (b"\xd2\x83" + ENVELOPE[2:-66], CorruptError),
    "five parts": (b"\xd2\x85" + ENVELOPE[2:] + b"\0", CorruptError),
    "a map": (b"\xd2\xa0", CorruptError),
    "headers not packed": (b"\xd2" + cbor2.dumps([{}, {}, BLOB, b""]), CorruptError),
    "list of headers": (b"\xd2" + cbor2.dumps([PACKED, [], BLOB, b""]), CorruptError),
    "payload is text": (b"\xd2" + cbor2.dumps([PACKED, {}, "text", b""]), CorruptError),
    "signature is text": (b"\xd2" + cbor2.dumps([PACKED, {}, BLOB, "text"]), CorruptError),
    "empty": (sign_detached(BLOB, ALICE), CorruptError),
    "beyond all sizes": (b"\xd2" + bytes(3 << 20), TooLargeError),
    # the grain
    "around an unsigned blob": (by_hand(headers(), GRAIN.blob), SignedMismatchError),
    "a blob without envelope": (BLOB, SignedMismatchError),
    "an unsigned blob": (GRAIN.blob, CorruptError),
    "around an envelope": (by_hand(headers(), ENVELOPE), VersionError),
    "around nothing": (by_hand(headers(), b""), TooShortError),
    "around a blob that is not canonical": (by_hand(headers(), BLOB + b"\0"), CorruptError),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    envelope, error = REFUSED[name]
    with pytest.raises(error) as caught:
        verify_signed(envelope)
    assert caught.value.code == error.code
    assert (caught.value.offset or 0) <= len(envelope)


ACCEPTED: dict[str, bytes] = {
    "by hand": parts(),
    "algorithm -19": parts(alg=-19),
    "kid as text": parts(kid=ALICE.did),
    "kid with its fragment": parts(kid=f"{ALICE.did}#{ALICE.did[8:]}".encode()),
    "headers in another order": by_hand(dict(reversed(headers().items())), BLOB),
    "headers that nobody knows": by_hand(
        headers() | {-70001: [1, {"a": None}], "x": True}, BLOB, unprotected={33: [b"cert"]}
    ),
    "another time": by_hand(headers(), BLOB, unprotected={"iat": 0}),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    signed = open_signed(ACCEPTED[name])
    assert (signed.grain.blob, signed.signer) == (BLOB, ALICE.did)


def test_the_address_is_compared() -> None:
    assert verify_signed(ENVELOPE, address=og.address(BLOB)).blob == BLOB
    with pytest.raises(IntegrityError):
        verify_signed(ENVELOPE, address=GRAIN.address)
    with pytest.raises(AddressError):
        verify_signed(ENVELOPE, address="ab")
    with pytest.raises(SignatureError):  # what was not signed has no address to speak of
        verify_signed(ENVELOPE[:-1] + bytes([ENVELOPE[-1] ^ 1]), address=GRAIN.address)


def test_a_broken_blob_is_shown_in_its_place() -> None:
    at = ENVELOPE.find(BLOB) + len(BLOB)
    with pytest.raises(CorruptError) as caught:
        verify_signed(by_hand(headers(), BLOB + b"\0", unprotected={"iat": IAT}))
    assert caught.value.offset == at


def test_names_that_are_looked_up() -> None:
    resolver = knows(robot=ALICE)
    envelope = parts(kid=b"did:web:robot.example#key-1")
    with pytest.raises(DidError):
        open_signed(envelope, resolver=resolver)
    known = {"did:web:robot.example#key-1": ALICE.did}
    assert open_signed(envelope, resolver=known.__getitem__).signer == "did:web:robot.example"
    with pytest.raises(SignatureError):
        open_signed(parts(kid=b"did:web:robot.example"), resolver=knows(robot=CAROL))


def test_a_sealed_grain_is_proved_without_its_key() -> None:
    sealed = bytes([1, 3, 1, *bytes(6)]) + bytes(40)
    envelope = sign(sealed, ALICE)
    blob, proof = prove(envelope)
    assert (blob, proof.signer) == (sealed, ALICE.did)
    with pytest.raises(KeyMissingError):
        verify_signed(envelope)
    with pytest.raises(SignedMismatchError):  # its key covers the header, and so the bit
        sign(bytes([1, 2]) + sealed[2:], ALICE)


class Service:
    """A signer with nothing but a name and a function."""

    def __init__(self, key: KeySigner, did: str | None = None, end: bytes = b"") -> None:
        self._key, self.did, self._end = key, did or key.did, end

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data) + self._end


def test_any_signer_will_do() -> None:
    for signer in SIGNERS:
        assert open_signed(sign(GRAIN, Service(signer))).signer == signer.did
    named = Service(BOB, "did:web:robot.example")
    with pytest.raises(DidError):
        sign(GRAIN, named)
    named.alg = -7  # type: ignore[attr-defined]
    envelope = sign(GRAIN, named)
    assert open_signed(envelope, resolver=knows(robot=BOB)).signer == named.did


def test_a_signer_that_fails_is_found_out() -> None:
    for broken in (Service(ALICE, end=b"\0"), Service(ALICE, CAROL.did), Service(ALICE, BOB.did)):
        with pytest.raises(SignatureError):
            sign(GRAIN, broken)
        with pytest.raises(SignatureError):
            sign_detached(b"data", broken)
    named = Service(BOB, WEB, end=b"DER")  # whose key is not at hand here
    named.alg = -7  # type: ignore[attr-defined]
    with pytest.raises(SignatureError):
        sign(GRAIN, named)


EDGES = json.loads(TEST_DATA.joinpath("ed25519_edges.json").read_text())


@pytest.mark.parametrize("case", EDGES["cases"], ids=lambda case: case["name"])
def test_edges_of_ed25519(case: dict[str, Any]) -> None:
    """One by one and without cofactor: the verdict is OpenSSL's, but for keys of small order."""
    key, message, signature = (bytes.fromhex(case[n]) for n in ("key", "message", "signature"))
    if key.hex() in SMALL:  # whatever the equation says: anybody can make it hold
        with pytest.raises(DidError):
            from_multibase(multikey(b"\xed\x01" + key))
        return
    public = from_multibase(multikey(b"\xed\x01" + key))
    try:
        verify(public, -8, signature, message)
    except SignatureError:
        assert not case["holds"]
    else:
        assert case["holds"]


def test_nothing_but_declared_errors() -> None:
    rng = Random(7)
    for _ in range(2000):
        data = bytearray(ENVELOPE)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        for read in (cose.read, lambda b: verify_detached(b, BLOB)):
            try:
                read(bytes(data))
            except OmsError as error:
                assert str(ALICE.did) not in str(error)


def test_exports() -> None:
    assert crypto.__all__ == sorted(crypto.__all__)
    assert all(hasattr(crypto, name) for name in crypto.__all__)
