# SPDX-License-Identifier: Apache-2.0
"""Sealed grains: against AES written out, there and back, and what is refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from itertools import product
from random import Random
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

import omsgrain as og
import oracle_seal as oracle
from omsgrain.crypto import prove, sign, verify_signed
from omsgrain.crypto.seal import OVERHEAD, Sealer, derive_user_key, mask, open_plain, seal, unseal
from omsgrain.errors import (
    CorruptError,
    HashLengthError,
    IntegrityError,
    KeyMissingError,
    OmsError,
    RangeError,
    SensitivityMismatchError,
    SignedMismatchError,
    TooShortError,
    UnsupportedError,
    VersionError,
)
from omsgrain.header import read_header
from support.random_grains import random_grain
from support.scale import Scale
from support.signers import ALICE, GRAIN

VECTORS: dict[str, Any] = json.loads(oracle.DATA.read_text(encoding="utf-8"))
KEY, OTHER = bytes(range(32)), bytes(32)
PLAIN = oracle.plain_grains()
BELIEF = PLAIN["belief"][0]
WAYS = [
    {"whole": w, "hide_header": h, "signed": s} for w, h, s in product((False, True), repeat=3)
]


def test_the_oracle() -> None:
    """FIPS 197 appendix C.3, and the other implementation that we use."""
    block = bytes(0x11 * i for i in range(16))
    assert oracle.aes(bytes(range(32)), block).hex() == "8ea2b7ca516745bfeafc49904b496089"
    for size in (0, 1, 15, 16, 17, 33):
        expected = AESGCM(KEY).encrypt(bytes(12), bytes(range(size)), b"header")
        assert oracle.gcm(KEY, bytes(12), bytes(range(size)), b"header") == expected


def test_vectors() -> None:
    assert oracle.vectors() == VECTORS
    key = bytes.fromhex(VECTORS["key"])
    sealer = Sealer(key)
    for grain in VECTORS["grains"]:
        plain = bytes.fromhex(grain["plain"])
        for case in grain["sealed"]:
            how = (case["whole"], case["hide_header"], case["signed"])
            sealed = sealer._seal_with(bytes.fromhex(case["nonce"]), plain, *how)
            assert sealed.hex() == case["sealed"], grain["name"]
            assert og.address(sealed) == case["address"]
            assert unseal(sealed, key, address=case["address"], check=True) == plain
    places = bytes.fromhex(VECTORS["places"])
    assert mask(bytes.fromhex(VECTORS["place_key"]), places).hex() == VECTORS["masked"]
    for user in VECTORS["user_keys"]:
        salt = user["salt"] and bytes.fromhex(user["salt"])
        root, generation = bytes.fromhex(VECTORS["root"]), user["generation"]
        found = derive_user_key(root, user["user_id"], salt=salt, generation=generation)
        assert found.hex() == user["key"]


def test_there_and_back(scale: Scale) -> None:
    rng = Random(30)
    for _ in range(scale.grains // 4):
        fields = random_grain(rng)
        blob = og.encode(
            fields,
            encoding=rng.choice(("msgpack", "cbor")),
            compress=rng.random() < 0.3,
            sensitivity=rng.choice((0, 3)),
            keep_type_name=rng.random() < 0.5,
        )
        how = rng.choice(WAYS)
        sealed = seal(blob, KEY, **how)
        assert unseal(sealed, KEY, address=og.address(sealed), check=True) == blob
        assert open_plain(blob) == blob
        assert len(sealed) == OVERHEAD + len(blob) - (0 if how["whole"] else 9)
        shown = {name: value for name, value in how.items() if name != "whole"}
        assert sealed[:9] == oracle.outer(blob, by_payload=not how["whole"], **shown)
        assert read_header(sealed).encrypted and read_header(sealed).signed == how["signed"]


def test_what_is_shown() -> None:
    plain = read_header(PLAIN["references, cbor"][0])
    assert plain.has_content_refs and plain.ns_hash and plain.created_at
    for how in WAYS:
        header = read_header(seal(PLAIN["references, cbor"][0], KEY, **how))
        assert (header.type_byte, header.sensitivity) == (plain.type_byte, plain.sensitivity)
        shown = (header.ns_hash, header.created_at, header.has_content_refs)
        if how["hide_header"]:
            assert shown == (0, 0, False)
        else:
            assert shown == (plain.ns_hash, plain.created_at, True)
        assert header.encoding == ("msgpack" if how["whole"] else "cbor")
    packed = PLAIN["compressed"][0]
    assert read_header(seal(packed, KEY, whole=False)).compressed
    assert not read_header(seal(packed, KEY, whole=True)).compressed


def test_only_what_can_be_remade_is_sealed_by_its_payload() -> None:
    for plain, enough in PLAIN.values():
        saved = 9 if enough else 0
        assert len(seal(plain, KEY, whole=False)) == OVERHEAD + len(plain) - saved
        assert len(seal(plain, KEY, whole=True)) == OVERHEAD + len(plain)


def test_envelopes() -> None:
    envelope = sign(GRAIN, ALICE, iat=1)
    for how in WAYS:
        sealed = seal(envelope, KEY, **how)
        inner = unseal(sealed, KEY, check=True)
        assert inner == envelope
        assert open_plain(inner)[1] & 1
        assert og.address(open_plain(inner)) == verify_signed(inner).address
    with pytest.raises(CorruptError):
        open_plain(b"\xd2\x84")


def test_a_sealed_grain_is_signed_after() -> None:
    sealed = seal(BELIEF, KEY, whole=False, signed=True)
    envelope = sign(sealed, ALICE, iat=1)
    assert prove(envelope)[0] == sealed
    assert unseal(sealed, KEY, check=True) == BELIEF


def test_nonces_never_repeat() -> None:
    sealer, event = Sealer(KEY), PLAIN["no namespace"][0]
    nonces = {sealer.seal(event, whole=False)[9:21] for _ in range(5_000)}
    nonces |= {sealer.seal_vector(b"", b"")[:12] for _ in range(5_000)}
    assert len(nonces) == 10_000


def changed(blob: bytes, at: int, by: int = 1) -> bytes:
    return blob[:at] + bytes((blob[at] ^ by,)) + blob[at + 1 :]


@pytest.mark.parametrize("whole", [False, True])
def test_any_changed_byte(whole: bool) -> None:
    sealed = seal(BELIEF, KEY, whole=whole)
    address = og.address(sealed)
    for at in range(len(sealed)):
        other = changed(sealed, at)
        with pytest.raises(IntegrityError):
            unseal(other, KEY, address=address)
        with pytest.raises(VersionError if at == 0 else KeyMissingError):
            unseal(other, KEY)
    for bit in range(8):
        with pytest.raises(CorruptError if bit == 1 else KeyMissingError):
            unseal(changed(sealed, 1, 1 << bit), KEY)


def test_truncated_or_extended_blobs() -> None:
    sealed = seal(BELIEF, KEY, whole=False)
    for end in range(len(sealed)):
        with pytest.raises(TooShortError if end <= OVERHEAD else KeyMissingError):
            unseal(sealed[:end], KEY)
        with pytest.raises(IntegrityError):
            unseal(sealed[:end], KEY, address=og.address(sealed))
    with pytest.raises(KeyMissingError):
        unseal(sealed + b"\x00", KEY)


def test_swapped() -> None:
    """Header and body of another grain under the same key are refused."""
    other = PLAIN["no namespace"][0]
    for how in WAYS:
        a, b = seal(BELIEF, KEY, **how), seal(other, KEY, **how)
        assert a[:9] != b[:9]
        for mixed in (a[:9] + b[9:], a[:21] + b[21:], a[:-16] + b[-16:]):
            with pytest.raises(KeyMissingError):
                unseal(mixed, KEY)
            with pytest.raises(IntegrityError):
                unseal(mixed, KEY, address=og.address(a))


def test_wrong_keys() -> None:
    sealed = seal(BELIEF, KEY, whole=False)
    for address in (None, og.address(sealed)):
        with pytest.raises(KeyMissingError):
            unseal(sealed, OTHER, address=address)
    for key in (b"", KEY[:16], KEY[:24], KEY + b"\x00"):  # AES would take the second and third
        refused: list[Callable[[], object]] = [
            partial(seal, BELIEF, key, whole=False),
            partial(unseal, sealed, key),
            partial(Sealer, key),
            partial(mask, key, bytes(16)),
            partial(derive_user_key, key, "ann", salt=KEY, generation=1),
            partial(derive_user_key, KEY, "ann", salt=key, generation=1),
        ]
        for work in refused:
            with pytest.raises(KeyMissingError):
                work()
    with pytest.raises(HashLengthError):
        unseal(sealed, KEY, address="00")


def test_blobs_that_are_not_sealed() -> None:
    signed = changed(BELIEF, 1)
    for blob, error in (
        (signed, SignedMismatchError),
        (cbor2.dumps(cbor2.CBORTag(18, [b"\xa0", {}, BELIEF, b""])), SignedMismatchError),
        (seal(BELIEF, KEY, whole=False), UnsupportedError),
        (sign(seal(BELIEF, KEY, whole=False, signed=True), ALICE), UnsupportedError),
        (sign(GRAIN, ALICE) + b"\x00", CorruptError),
        (BELIEF[:-1], CorruptError),
        (b"", TooShortError),
        (b"\x02" + BELIEF[1:], VersionError),
    ):
        with pytest.raises(error):
            seal(blob, KEY, whole=False)
    with pytest.raises(CorruptError):
        unseal(BELIEF, KEY)


def by_hand(header: bytes, inner: bytes) -> bytes:
    return header + bytes(12) + AESGCM(KEY).encrypt(bytes(12), inner, header)


def test_the_header_cannot_contradict_the_content() -> None:
    """The header outside is that of the grain inside, or both are refused."""
    payload = BELIEF[9:]
    good = oracle.outer(BELIEF, by_payload=True, hide_header=True, signed=False)
    whole = oracle.outer(BELIEF, by_payload=False, hide_header=True, signed=False)
    shown = oracle.outer(BELIEF, by_payload=True, hide_header=False, signed=False)
    for header, inner in ((good, payload), (shown, payload), (whole, BELIEF)):
        assert unseal(by_hand(header, inner), KEY, check=True) == BELIEF
    lies: list[tuple[bytes, bytes, type[OmsError]]] = [
        (changed(whole, 2, 3), BELIEF, CorruptError),
        (changed(whole, 1, 0x40), BELIEF, CorruptError),
        (changed(whole, 1, 0x04), BELIEF, CorruptError),
        (changed(good, 1, 0x08), payload, CorruptError),
        (changed(good, 4), payload, CorruptError),
        (changed(shown, 8), payload, CorruptError),
        (good, payload + b"\x00", CorruptError),
        (good, payload[:-1], CorruptError),
        (good, changed(payload, 0), CorruptError),
        (good, b"\x07" + payload, CorruptError),
        (whole, changed(BELIEF, 1), SignedMismatchError),
        (whole, seal(BELIEF, KEY, whole=False), CorruptError),
        (whole, b"\x01", TooShortError),
    ]
    for header, inner, error in lies:
        with pytest.raises(error):
            unseal(by_hand(header, inner), KEY)


def test_any_content_decrypts_or_is_refused() -> None:
    """Nothing but an error of ours comes of it, and what is given is what was sealed."""
    rng = Random(35)
    plain = [blob for blob, _ in PLAIN.values()]
    for _ in range(3_000):
        blob = rng.choice(plain)
        by_payload = rng.random() < 0.5 and blob[0] == 1
        inner = bytearray(blob[9:] if by_payload else blob)
        for _ in range(rng.randint(0, 3)):
            inner[rng.randrange(len(inner))] = rng.randrange(256)
        del inner[len(inner) - rng.choice((0, 0, 0, 1, 5)) :]
        header = oracle.outer(blob, by_payload=by_payload, hide_header=True, signed=False)
        for check in (False, True):
            try:
                found = unseal(by_hand(header, bytes(inner)), KEY, check=check)
            except OmsError:
                continue
            assert found.endswith(inner)


def test_a_sealer_serves_many_threads() -> None:
    sealer = Sealer(KEY)

    def work(number: int) -> bool:
        blob = og.encode({"type": "event", "content": f"{number}", "created_at": number})
        return sealer.unseal(sealer.seal(blob, whole=False), check=True) == blob

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(2_000)))


def test_a_check_reads_all_of_it() -> None:
    public = og.encode({"type": "event", "content": "x", "created_at": 1})
    tagged = og.encode({"type": "event", "content": "x", "created_at": 1, "tags_x": 1})
    low = changed(BELIEF, 1, 0x80)  # says public, and its tags pii
    crooked = public[:9] + public[9:].replace(b"\xa1t\xa5event", b"\xa1t\xd9\x05event")
    for plain, error in ((low, SensitivityMismatchError), (crooked, CorruptError)):
        sealed = seal(plain, KEY, whole=True)
        assert unseal(sealed, KEY) == plain
        with pytest.raises(error):
            unseal(sealed, KEY, check=True)
    assert unseal(seal(tagged, KEY, whole=False), KEY, check=True) == tagged


def test_sealed_vectors() -> None:
    data, aad = bytes(range(256)) * 6, b"\x00\x00\x00\x01" + bytes(8)
    sealed = Sealer(KEY).seal_vector(data, aad)
    assert len(sealed) == len(data) + 28
    assert sealed == sealed[:12] + oracle.gcm(KEY, sealed[:12], data, aad)
    assert Sealer(KEY).unseal_vector(sealed, aad) == data
    wrong: list[Callable[[], bytes]] = [
        lambda: Sealer(OTHER).unseal_vector(sealed, aad),
        lambda: Sealer(KEY).unseal_vector(sealed, aad[1:] + b"\x02"),
        lambda: Sealer(KEY).unseal_vector(sealed[:-1], aad),
        lambda: Sealer(KEY).unseal_vector(changed(sealed, 3), aad),
    ]
    for work in wrong:
        with pytest.raises(KeyMissingError):
            work()
    with pytest.raises(CorruptError):
        Sealer(KEY).unseal_vector(sealed[:27], aad)


def test_masks() -> None:
    rng = Random(31)
    for count in (0, 1, 2, 100):
        places = rng.randbytes(16 * count)
        hidden = mask(KEY, places)
        assert hidden == oracle.mask(KEY, places)
        assert mask(KEY, hidden) == places
    many = rng.randbytes(16 * 20_000)
    hidden = mask(KEY, many)
    assert mask(KEY, hidden) == many
    assert hidden[-16 * 50 :] == oracle.mask(KEY, many[-16 * 50 :])
    with pytest.raises(CorruptError):
        mask(KEY, many[1:])


def test_user_keys() -> None:
    """Against another library's HKDF."""
    seen = set()
    for user, salt, generation in product(("ann", "", "Amélie"), (KEY, OTHER, None), (1, 2)):
        info = b"omsgrain/1 user" + generation.to_bytes(4, "big") + user.encode()
        expected = HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(KEY)
        assert derive_user_key(KEY, user, salt=salt, generation=generation) == expected
        seen.add(expected)
    assert len(seen) == 12  # thirty-two zeros are what HKDF takes for no salt
    composed, apart = "Am\u00e9lie", "Ame\u0301lie"
    found = {derive_user_key(KEY, user, salt=KEY, generation=1) for user in (composed, apart)}
    assert len(found) == 1
    for generation in (-1, 1 << 32):
        with pytest.raises(RangeError):
            derive_user_key(KEY, "ann", salt=KEY, generation=generation)


def test_no_repr_or_error_shows_the_key() -> None:
    sealer = Sealer(KEY)
    sealed = sealer.seal(BELIEF, whole=False)
    told = [repr(sealer), str(sealer)]
    for blob, key in ((sealed, OTHER), (changed(sealed, 30), KEY)):
        with pytest.raises(OmsError) as refused:
            unseal(blob, key)
        told += [str(refused.value), repr(refused.value.to_dict())]
    for text in told:
        for secret in (KEY, OTHER, sha256(KEY).digest()):
            assert secret.hex() not in text and repr(secret)[2:-1] not in text
    with pytest.raises(TypeError):
        pickle.dumps(sealer)
