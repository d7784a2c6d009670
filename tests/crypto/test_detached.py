# SPDX-License-Identifier: Apache-2.0
"""Signatures apart from what they sign: of data, of files, of co-signers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cbor2
import pytest

import omsgrain as og
from omsgrain.crypto import (
    KeySigner,
    check_co_signers,
    co_sign,
    co_signers,
    sign,
    sign_detached,
    sign_file,
    verify_detached,
    verify_file,
    verify_signed,
    with_signed_bit,
)
from omsgrain.crypto.detached import MAX_ENTRIES
from omsgrain.errors import AddressError, CorruptError, RangeError, SignatureError
from omsgrain.policy import claim
from support.shell import belief
from support.signers import ALICE, BOB, CAROL, GRAIN, IAT, by_hand, headers

SIGNERS = [ALICE, BOB]
BLOB = with_signed_bit(GRAIN).blob
ENVELOPE = sign(GRAIN, ALICE, iat=IAT)
WEB = "did:web:example.com"


@pytest.mark.parametrize("signer", SIGNERS, ids=repr)
@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, 65_535, 65_536, 1_000_000])
def test_detached(signer: KeySigner, size: int) -> None:
    data = bytes(size)
    signature = sign_detached(data, signer, b"aad", iat=IAT)
    assert len(signature) < 200
    for same in (data, memoryview(data)):
        proof = verify_detached(signature, same, b"aad")
        assert (proof.signer, proof.iat) == (signer.did, IAT)
    for other, aad in ((data + b"\0", b"aad"), (data, b""), (data, b"aad2")):
        with pytest.raises(SignatureError):
            verify_detached(signature, other, aad)


def test_detached_and_enveloped_are_not_the_same() -> None:
    with pytest.raises(CorruptError):
        verify_detached(ENVELOPE, BLOB)
    # Put the blob into a signature over the file that holds it: that is no signed grain.
    protected, _, _, signature = cbor2.loads(sign_detached(BLOB, ALICE)[1:])
    forged = b"\xd2" + cbor2.dumps([protected, {}, BLOB, signature])
    with pytest.raises(CorruptError):
        verify_signed(forged)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "memory.mg"
    for data in (b"", b"MG and so on", bytes(100_000)):
        path.write_bytes(data)
        signature = sign_file(path, ALICE)
        assert signature == sign_detached(data, ALICE)
        assert verify_file(path, signature).signer == ALICE.did
        path.with_name("memory.mg.sig").write_bytes(signature)
        assert verify_file(path).signer == ALICE.did
        path.write_bytes(data + b"!")
        with pytest.raises(SignatureError):
            verify_file(path)


OLD, OTHER_OLD = GRAIN.address, with_signed_bit(GRAIN).address
NEW = og.Grain(og.encode(belief(2)))
CLAIM = claim(NEW)
AGREED = {s.did: co_sign(CLAIM, OLD, s) for s in (ALICE, BOB, CAROL)}


def superseding(*entries: bytes) -> og.Grain:
    grain = og.Grain(og.encode(belief(2) | {"supersession_auth": list(entries)}))
    assert claim(grain) == CLAIM
    return grain


def test_co_signers() -> None:
    new = superseding(*AGREED.values())
    assert co_signers(new, CLAIM, OLD) == {ALICE.did, BOB.did, CAROL.did}
    assert co_signers(with_signed_bit(new), CLAIM, OLD) == {ALICE.did, BOB.did, CAROL.did}
    assert co_signers(new, CLAIM, OTHER_OLD) == frozenset()
    assert co_signers(NEW, CLAIM, OLD) == frozenset()
    assert co_signers(new, claim(GRAIN), OLD) == frozenset()
    with pytest.raises(AddressError):
        co_signers(new, CLAIM, "ab")


def test_entries_that_do_not_hold_do_not_count() -> None:
    entries = {
        "good": AGREED[ALICE.did],
        "the same again": AGREED[ALICE.did],
        "another form of the same": by_hand(
            headers(kid=f"{ALICE.did}#{ALICE.did[8:]}", content_type=None),
            None,
            detached=CLAIM,
            aad=bytes.fromhex(OLD),
        ),
        "for another grain": co_sign(CLAIM, OTHER_OLD, BOB),
        "without the address": sign_detached(CLAIM, BOB),
        "with the claim in it": by_hand(headers(BOB), CLAIM, BOB, aad=bytes.fromhex(OLD)),
        "noise": b"noise",
        "nothing": b"",
        "in another's name": by_hand(
            headers(CAROL), None, ALICE, detached=CLAIM, aad=bytes.fromhex(OLD)
        ),
        "name that nobody knows": by_hand(
            headers(kid=WEB), None, detached=CLAIM, aad=bytes.fromhex(OLD)
        ),
    }
    found = check_co_signers(superseding(*entries.values()), CLAIM, OLD)
    assert found.dids == {ALICE.did}
    refused = {list(entries)[i]: error for i, error in found.refused}
    assert {name: error.code for name, error in refused.items()} == {
        "for another grain": "ERR_SIGNATURE",
        "without the address": "ERR_SIGNATURE",
        "with the claim in it": "ERR_CORRUPT",
        "noise": "ERR_CORRUPT",
        "nothing": "ERR_CORRUPT",
        "in another's name": "ERR_SIGNATURE",
        "name that nobody knows": "ERR_DID",
    }
    assert refused["noise"].field == "/supersession_auth/6"


def test_only_those_who_may_agree_are_looked_up() -> None:
    asked = []

    def resolver(name: str) -> Any:
        asked.append(name)
        return BOB.public_key

    one, two = "did:web:one.example", "did:web:two.example"
    entries = [
        by_hand(headers(BOB, kid=n), None, BOB, detached=CLAIM, aad=bytes.fromhex(OLD))
        for n in (one, two)
    ]
    found = check_co_signers(
        superseding(*entries), CLAIM, OLD, resolver, authorized=frozenset((two,))
    )
    assert found.dids == {two}
    assert [(i, error.code) for i, error in found.refused] == [(0, "ERR_DID")]
    assert asked == [two]


@pytest.mark.parametrize("value", [7, "text", {"a": 1}, [1, None, "text", [b""]]])
def test_an_opaque_grain_has_anything_there(value: Any) -> None:
    fields = {"type": "x:y", "created_at": 1, "supersession_auth": value}
    new = og.Grain(og.encode(fields, type_byte=0xF0))
    found = check_co_signers(new, CLAIM, OLD)
    assert found.dids == frozenset()
    assert len(found.refused) == (len(value) if isinstance(value, list) else 0)


def test_entries_are_limited() -> None:
    with pytest.raises(RangeError) as caught:
        co_signers(superseding(*[b""] * (MAX_ENTRIES + 1)), CLAIM, OLD)
    assert caught.value.field == "/supersession_auth"
