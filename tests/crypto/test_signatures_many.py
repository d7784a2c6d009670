# SPDX-License-Identifier: Apache-2.0
"""Many signatures at once: in every case the verdict of the reference, `prove`."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sign import ACCEPTED, REFUSED

import omsgrain as og
from omsgrain import _core
from omsgrain.crypto import (
    KeySigner,
    Proof,
    Resolver,
    cose,
    open_many,
    open_signed,
    prove,
    prove_many,
    sign,
    with_signed_bit,
)
from omsgrain.errors import (
    CorruptError,
    DidError,
    KeyMissingError,
    OmsError,
    SchemaError,
    SignatureError,
)
from support.signers import (
    ALICE,
    BLOB,
    BOB,
    CAROL,
    CBOR,
    FIELDS,
    IAT,
    MSGPACK,
    SMALL,
    Fixed,
    by_hand,
    headers,
)

SIGNERS = [ALICE, BOB, CAROL]
OWN = [ALICE, CAROL]  # Ed25519: the core verifies what they sign
BLOBS = [with_signed_bit(og.Grain(og.encode(FIELDS | {"object": f"{n}"}))).blob for n in range(40)]
CBOR_BLOB = with_signed_bit(og.Grain(og.encode(FIELDS, encoding="cbor"))).blob
WEB = "did:web:robot.example"

#: The orders of the groups of Ed25519 and P-256, and the prime of P-256.
L = 2**252 + 27742317777372353535851937790883648493
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
P256 = 2**256 - 2**224 + 2**192 + 2**96 - 1


def reference(envelope: bytes, resolver: Resolver | None = None) -> Any:
    try:
        return prove(envelope, resolver=resolver)
    except OmsError as error:
        return error


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, OmsError) and isinstance(other, OmsError):
        return (type(one), one.to_dict()) == (type(other), other.to_dict())
    return bool(one == other)


def verdicts(envelopes: Sequence[bytes], resolver: Resolver | None = None) -> list[str]:
    """Compare with the reference; return the core's own result for each."""
    found = prove_many(envelopes, resolver=resolver)
    own = _core.prove_many(list(envelopes))
    assert len(found) == len(own) == len(envelopes)
    for envelope, ours, core in zip(envelopes, found, own, strict=True):
        wanted = reference(envelope, resolver)
        assert alike(ours, wanted), (envelope.hex(), ours, wanted)
        if core:
            blob, proof = wanted  # what the core accepts, the reference accepts
            assert core == (blob, proof.signer, proof.iat)
        elif core is False:
            assert type(wanted) is SignatureError
    return ["unknown" if core is None else "holds" if core else "fails" for core in own]


def left_to_the_reference(envelopes: Sequence[bytes]) -> list[str]:
    """Results for envelopes that the core leaves to Python."""
    assert set(verdicts(envelopes)) == {"unknown"}
    found = [one if isinstance(one, OmsError) else None for one in prove_many(envelopes)]
    return ["holds" if error is None else error.code for error in found]


class Twisted:
    """Signs, and then changes the two halves of the signature."""

    def __init__(self, signer: KeySigner, order: Any, change: Any) -> None:
        self.alg, self.did = signer.alg, signer.did
        self._signer, self._order, self._change = signer, order, change

    def sign(self, data: bytes) -> bytes:
        signature = self._signer.sign(data)
        halves = (signature[:32], signature[32:])
        a, b = self._change(*(int.from_bytes(half, self._order) for half in halves))
        twisted: bytes = a.to_bytes(32, self._order) + b.to_bytes(32, self._order)
        return twisted

    def envelope(self, blob: bytes = BLOB) -> bytes:
        return by_hand(headers(self), blob, self)  # type: ignore[arg-type]


def test_good_ones_are_proved_by_the_core() -> None:
    envelopes = [sign(blob, signer, iat=IAT) for blob in BLOBS for signer in OWN]
    envelopes += [sign(CBOR_BLOB, signer) for signer in OWN]
    envelopes += [by_hand(headers(s, content_type=CBOR), CBOR_BLOB, s) for s in OWN]
    envelopes += [by_hand(headers(s, alg=-19), BLOB, s) for s in OWN]
    envelopes += [by_hand(headers(s, kid=s.did), BLOB, s) for s in OWN]
    named = [f"{s.did}#{s.did[8:]}".encode() for s in OWN]
    envelopes += [by_hand(headers(s, kid=n), BLOB, s) for s, n in zip(OWN, named, strict=True)]
    envelopes += [by_hand(dict(reversed(headers().items())), BLOB)]
    times = (0, 23, 24, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
    envelopes += [by_hand(headers(), BLOB, unprotected={"iat": iat}) for iat in times]
    sealed = bytes([1, 3, 1, *bytes(6)]) + bytes(40)
    envelopes += [sign(sealed, signer) for signer in OWN]
    Random(1).shuffle(envelopes)
    assert set(verdicts(envelopes)) == {"holds"}


def test_what_the_reference_refuses_and_accepts() -> None:
    verdicts([envelope for envelope, _ in REFUSED.values()])
    assert "fails" not in verdicts(list(ACCEPTED.values()))


@pytest.mark.parametrize(
    ("signer", "expected"),
    [(ALICE, {"holds", "fails", "unknown"}), (BOB, {"unknown"})],  # the time is not signed
    ids=["ed25519", "es256"],
)
def test_every_flipped_byte(signer: KeySigner, expected: set[str]) -> None:
    envelope = sign(BLOB, signer, iat=IAT)
    flipped = []
    for at in range(len(envelope)):
        for bit in (0, 2, 5, 7):
            forged = bytearray(envelope)
            forged[at] ^= 1 << bit
            flipped.append(bytes(forged))
    assert set(verdicts(flipped)) == expected


def test_every_cut() -> None:
    envelope = sign(BLOB, ALICE, iat=IAT)
    cuts = [envelope[:end] for end in range(len(envelope))]
    cuts += [envelope + b"\0", envelope * 2, b"\xd2" + envelope]
    assert set(verdicts(cuts)) == {"unknown"}


def test_swapped_parts() -> None:
    envelopes = [sign(blob, signer, iat=IAT) for blob in BLOBS[:10] for signer in SIGNERS]
    rng = Random(2)
    swapped = []
    for _ in range(200):
        one, other = rng.sample(envelopes, 2)
        blobs = prove(one)[0], prove(other)[0]
        swapped += [one.replace(*blobs), one[:-64] + other[-64:], one]
    assert set(verdicts(swapped)) == {"holds", "fails", "unknown"}


def test_keys_of_small_order_sign_nothing() -> None:
    """OpenSSL would say that many of these hold, which anybody can make."""
    points = [bytes.fromhex(point) for point in SMALL]
    forged = [
        Fixed(-8, key, point + bytes(32)).envelope(blob)
        for key in points
        for point in points
        for blob in BLOBS[:4]
    ]
    assert set(left_to_the_reference(forged)) == {DidError.code}


def test_keys_that_are_no_points() -> None:
    rng = Random(3)
    keys = [rng.randbytes(32) for _ in range(60)]
    keys += [
        bytes([n]) + b"\xff" * 30 + end for n in range(0xEA, 0x100) for end in (b"\x7f", b"\xff")
    ]
    found = verdicts([Fixed(-8, key, rng.randbytes(64)).envelope() for key in keys])
    assert set(found) == {"fails", "unknown"}
    points = [
        bytes([head]) + rng.randbytes(32) for head in (0, 2, 3, 4, 5, 6, 7) for _ in range(10)
    ]
    points += [
        bytes([2]) + x.to_bytes(32, "big") for x in (0, P256 - 1, P256, P256 + 5, 2**256 - 1)
    ]
    points += [b"\0", b"\2" * 32, b"\2" * 34, b"\4" + bytes(64)]
    found = left_to_the_reference([Fixed(-7, key, rng.randbytes(64)).envelope() for key in points])
    assert set(found) == {SignatureError.code, DidError.code}
    good = BOB.public_key.public_numbers()  # type: ignore[union-attr]
    compact = bytes([5]) + good.x.to_bytes(32, "big")  # a form that OpenSSL does not know
    found = left_to_the_reference([Fixed(-7, compact, BOB.sign(b"")).envelope()])
    assert found == [DidError.code]


def test_signatures_of_ed25519_in_another_form() -> None:
    plus = Twisted(ALICE, "little", lambda r, s: (r, s + L))
    changes = [
        lambda r, s: (r, s + 2 * L),
        lambda r, s: (r, L - s),
        lambda r, s: (r, 0),
        lambda r, s: (r, L),
        lambda r, s: (r ^ 1 << 255, s),
        lambda r, s: (0, s),
        lambda r, s: (s, r),
    ]
    others = [Twisted(ALICE, "little", change).envelope() for change in changes]
    assert set(verdicts([plus.envelope(), *others])) == {"fails"}


def test_signatures_of_p256() -> None:
    low = Twisted(BOB, "big", lambda r, s: (r, min(s, N - s)))
    high = Twisted(BOB, "big", lambda r, s: (r, max(s, N - s)))
    good = [by.envelope(blob) for by in (low, high) for blob in BLOBS[:5]]
    good += [
        sign(CBOR_BLOB, BOB),
        by_hand(headers(BOB, kid=f"{BOB.did}#{BOB.did[8:]}"), BLOB, BOB),
    ]
    assert set(left_to_the_reference(good)) == {"holds"}
    changes = [
        lambda r, s: (0, s),
        lambda r, s: (r, 0),
        lambda r, s: (0, 0),
        lambda r, s: (N, s),
        lambda r, s: (r, N),
        lambda r, s: (N - r, s),
        lambda r, s: (N - 1, N - 1),
        lambda r, s: (1, 1),
        lambda r, s: (2**256 - 1, 2**256 - 1),
        lambda r, s: (s, r),
    ]
    forged = [Twisted(BOB, "big", change).envelope() for change in changes]
    assert set(left_to_the_reference(forged)) == {SignatureError.code}
    sizes = [BOB.sign(b"")[:-1], BOB.sign(b"") + b"\0", b""]
    left = left_to_the_reference([Fixed(-7, point(BOB), size).envelope() for size in sizes])
    assert "holds" not in left


def point(signer: KeySigner) -> bytes:
    key = signer.public_key.public_numbers()  # type: ignore[union-attr]
    return bytes([2 + key.y % 2]) + key.x.to_bytes(32, "big")


def test_names_that_are_looked_up() -> None:
    asked: list[str] = []

    def resolver(text: str) -> Any:
        asked.append(text)
        return {WEB: ALICE.public_key, f"{WEB}#2": BOB.did}[text]

    one = by_hand(headers(kid=WEB.encode()), BLOB)
    two = by_hand(headers(BOB, kid=f"{WEB}#2".encode()), BLOB, BOB)
    gone = by_hand(headers(kid=b"did:web:nobody.example"), BLOB)
    own = sign(BLOB, CAROL)
    batch = [one, own, two, gone, own, one[:-1] + bytes([one[-1] ^ 1])]
    found = prove_many(batch, resolver=resolver)
    assert asked == [WEB, f"{WEB}#2", "did:web:nobody.example", WEB]  # in order, no did:key
    signers = [item[1].signer for item in found if not isinstance(item, OmsError)]
    assert signers == [WEB, CAROL.did, WEB, CAROL.did]
    assert isinstance(found[3], DidError) and isinstance(found[5], SignatureError)
    verdicts(batch, resolver)
    assert isinstance(prove_many([one])[0], DidError)


def test_large_ones() -> None:
    """Up to the very byte that the reference takes."""
    most = cose.MAX_PAYLOAD + cose.MAX_OVERHEAD
    overhead = len(by_hand(headers(), BLOB + bytes(1 << 20))) - len(BLOB) - (1 << 20)
    sizes = (most - overhead, most - overhead + 1)
    found = verdicts([by_hand(headers(), BLOB + bytes(n - len(BLOB))) for n in sizes])
    assert found == ["holds", "unknown"]


def test_a_large_batch_keeps_its_order() -> None:
    rng = Random(4)
    named = enumerate(zip(BLOBS, SIGNERS * 14, strict=False))
    good = {sign(blob, s, iat=n): (blob, Proof(s.did, n)) for n, (blob, s) in named}
    batch = [rng.choice(list(good)) for _ in range(5000)]
    assert prove_many(batch) == [good[envelope] for envelope in batch]
    assert prove_many([]) == []


GOOD = [sign(BLOB, signer, iat=IAT) for signer in (ALICE, BOB)]
GOOD += [by_hand(headers(kid=ALICE.did, alg=-19), BLOB), sign(CBOR_BLOB, ALICE)]
PIECES = [b"\xa0", b"\x40", b"\x60", b"\xf6", b"\x18", b"\xd2", b"\x84", b"iat", b"\x26", b"\x27"]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.binary(max_size=3), min_size=1, max_size=4))
def test_random_envelopes(seed: int, cuts: list[bytes]) -> None:
    rng = Random(seed)
    mutants = []
    for _ in range(100):
        data = bytearray(rng.choice(GOOD))
        for piece in rng.sample([*cuts, *PIECES], rng.randrange(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = piece
        mutants.append(bytes(data))
    verdicts(mutants)


def entry(rng: Random, label: Any, value: Any) -> bytes:
    """One header, now and then in a longer spelling."""
    packed = cbor2.dumps(label) + cbor2.dumps(value)
    if rng.random() < 0.05 and packed[0] < 24:
        packed = b"\x18" + packed
    return packed


def random_headers(rng: Random) -> bytes:
    kids = [ALICE.did.encode(), ALICE.did, f"{ALICE.did}#{ALICE.did[8:]}", f"{ALICE.did}#", b"", 4]
    kids += [WEB, ALICE.did + "é", ALICE.did.encode() + b"\xff", ALICE.did.replace(":z", ":z1")]
    chosen: list[tuple[Any, Any]] = [
        (1, rng.choice([-8] * 6 + [-19, -7, 1.0, None, True, "EdDSA", 2**63]))
    ]
    chosen += [(3, rng.choice([MSGPACK] * 6 + [CBOR, 42, None, b"", MSGPACK + " "]))]
    chosen += [(4, rng.choice(kids[:1] * 6 + kids))]
    for label in rng.sample([1, 3, 4, 2, 5, "iat", True, b"", 1.0, -1], rng.choice([0, 0, 1, 2])):
        chosen.append((label, rng.choice([0, "x", None, ALICE.did, -8, [1], {1: 2}])))
    if rng.random() < 0.2:
        del chosen[rng.randrange(len(chosen))]
    rng.shuffle(chosen)
    count = len(chosen) + (rng.random() < 0.03)
    return bytes([0xA0 + count]) + b"".join(entry(rng, *one) for one in chosen)


def test_random_headers_that_are_signed() -> None:
    """The signature holds; what is said and how it is spelled varies."""
    rng = Random(5)
    free = [b"\xa0"] * 8 + [
        b"\xa1\x63iat\0",
        b"\xa1\x63iat\xf6",
        b"\xa1\x63iat\x20",
        b"\xa1\1\x27",
    ]
    free += [
        b"\xa1\x63iat\xf9\0\0",
        b"\xa1\x63iat\x18\1",
        b"\xbf\xff",
        b"\xa2\x63iat\0\5\0",
        b"\x80",
    ]
    made = [by_hand(random_headers(rng), BLOB, unprotected=rng.choice(free)) for _ in range(1500)]
    assert set(verdicts(made)) == {"holds", "unknown"}


def opened(envelope: bytes) -> Any:
    try:
        return open_signed(envelope)
    except OmsError as error:
        return error


def test_many_are_opened() -> None:
    strange = [by_hand(headers(), BLOB + b"\0", unprotected={"iat": IAT})]  # not canonical
    strange += [sign(bytes([1, 3, 1, *bytes(6)]) + bytes(40), ALICE)]  # sealed
    strange += [by_hand(headers(), BLOB[:2] + b"\2" + BLOB[3:])]  # of another type
    plain = {key: value for key, value in FIELDS.items() if key != "author_did"}
    with pytest.warns(og.errors.OmsWarning):
        more = [og.encode(plain, compress=True), og.encode(plain | {"subjet": "a typo"})]
    more += [og.encode({"type": "x:y", "created_at": 1, "k": 2}, type_byte=0xF0)]
    envelopes = [*GOOD, *strange, GOOD[0][:-1], *(sign(blob, BOB) for blob in more), *GOOD]
    found = open_many(envelopes, errors="collect")
    assert len(found) == len(envelopes)
    for envelope, ours in zip(envelopes, found, strict=True):
        wanted = opened(envelope)
        assert alike(ours, wanted)
        if not isinstance(ours, OmsError):
            assert ours.grain.header == wanted.grain.header
            assert ours.grain.to_dict() == wanted.grain.to_dict()
            assert (ours.grain.type, ours.grain.warnings) == (
                wanted.grain.type,
                wanted.grain.warnings,
            )
            assert ours.grain.address == wanted.grain.address
    with pytest.raises(CorruptError):
        open_many(envelopes)
    with pytest.raises(KeyMissingError):
        open_many(strange[1:])
    assert [signed.signer for signed in open_many(GOOD)] == [prove(one)[1].signer for one in GOOD]


def test_arguments() -> None:
    given = [bytearray(GOOD[0]), memoryview(GOOD[0])]
    assert prove_many(given) == [prove(GOOD[0])] * 2  # type: ignore[arg-type]
    assert prove_many(iter(GOOD)) == [prove(one) for one in GOOD]
    with pytest.raises(TypeError):
        prove_many(["text"])  # type: ignore[list-item]
    with pytest.raises(SchemaError):
        open_many([], errors="ignore")  # type: ignore[call-overload]
