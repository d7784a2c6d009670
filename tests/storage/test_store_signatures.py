# SPDX-License-Identifier: Apache-2.0
"""Signatures in a store: envelopes come back byte for byte, and none replaces another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto import Ed25519Signer, sign, with_signed_bit
from omsgrain.storage import signatures
from omsgrain.storage.base import Writer
from omsgrain.storage.check import check
from omsgrain.storage.signatures import MOST, Signature, examine, examine_many
from omsgrain.storage.tables import SEQUENCE, SIGNATURES
from omsgrain.store import GrainStore
from omsgrain.store.context import context_of
from omsgrain.store.policy_context import PolicyContext
from support.signed_stores import EVERYWHERE, WEB, WEB_ALICE, belief, find_web, make, signed
from support.signers import ALICE, BOB, CAROL, CBOR, FIELDS, GRAIN, IAT, by_hand, headers

FLAGGED = with_signed_bit(GRAIN)
ENVELOPES = {who.did: sign(GRAIN, who, iat=IAT) for who in (ALICE, BOB, CAROL)}
TRIO = sorted(ENVELOPES)


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GrainStore]:
    with make(request.param, tmp_path) as opened:
        yield opened


def flip(data: bytes, at: int, mask: int = 1) -> bytes:
    at %= len(data)
    return data[:at] + bytes((data[at] ^ mask,)) + data[at + 1 :]


def rows(store: GrainStore) -> dict[bytes, bytes]:
    with context_of(store).storage.read() as reader:
        return dict(reader.rows(SIGNATURES))


def set_row(store: GrainStore, key: bytes, row: bytes | None) -> None:
    context_of(store).storage.write(lambda writer: writer.set_row(SIGNATURES, key, row))


def add(store: GrainStore, signature: Signature, blob: bytes = FLAGGED.blob) -> bool:
    """What ``put`` does, one floor below."""

    def work(writer: Writer) -> bool:
        writer.put([(bytes.fromhex(og.address(blob)), blob)])
        (seq,) = writer.find([bytes.fromhex(og.address(blob))])
        assert seq is not None
        return signatures.add(writer, seq, blob, signature)

    return context_of(store).storage.write(work)


def keyed(number: int, did: str | None = None) -> Ed25519Signer:
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big")), did)


# --- there and back ------------------------------------------------------------------------------


def test_envelopes_come_back_byte_for_byte(store: GrainStore) -> None:
    for envelope in ENVELOPES.values():
        assert store.put(envelope) == FLAGGED.address
    found = store.trust.signatures(FLAGGED.address)
    assert [(one.signer, one.envelope) for one in found] == [(d, ENVELOPES[d]) for d in TRIO]
    assert {(one.iat, one.proven) for one in found} == {(IAT, True)}
    grain = store.get(FLAGGED.address)
    assert grain == FLAGGED and dict(grain) == FIELDS and grain.header.signed
    assert len(store) == 1 and store.audit.verify(grains=True).ok


@pytest.mark.parametrize("fields", [{}, {"subject": "ünder", "object": "x" * 70_000}])
@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
@pytest.mark.parametrize("compress", [False, True])
def test_all_forms_of_blobs(
    store: GrainStore, fields: dict[str, Any], encoding: Any, compress: bool
) -> None:
    grain = og.Grain(og.encode(FIELDS | fields, encoding=encoding, compress=compress))
    envelope = sign(grain, BOB)
    address = store.put(envelope)
    assert store.trust.envelope(address) == envelope
    assert store.get(address) == with_signed_bit(grain)
    assert [hit.address for hit in store.query(relation="prefers").results] == [address]


def test_foreign_envelopes(store: GrainStore) -> None:
    """Other headers, a kid of text, a fragment, the other number of Ed25519: kept as they came."""
    blob = FLAGGED.blob
    did = f"{ALICE.did}#{ALICE.did.removeprefix('did:key:')}"
    some = {
        "text": by_hand(headers(kid=ALICE.did), blob),
        "fragment": by_hand(headers(kid=did.encode()), blob),
        "number": by_hand(headers(alg=-19), blob),
        "more": by_hand(headers() | {"x5": b"\0" * 60_000}, blob),
        "payload in the headers": by_hand(headers(), blob, unprotected={"a": blob}),
    }
    for n, envelope in enumerate(some.values()):
        other = make("memory", Path())
        other.put(envelope)
        (found,) = other.trust.signatures(FLAGGED.address)
        assert (found.signer, found.envelope) == (ALICE.did, envelope), n
    store.put(some["more"])
    assert store.trust.envelope(FLAGGED.address) == some["more"]


def test_which_envelope_represents_all(store: GrainStore) -> None:
    unproven = sign(GRAIN, keyed(5, "did:a:lowest"), iat=IAT)
    add(store, examine(unproven)[1])
    assert store.trust.envelope(FLAGGED.address) == unproven
    for did in TRIO[::-1]:
        store.put(ENVELOPES[did])
        assert store.trust.envelope(FLAGGED.address) == ENVELOPES[did]
    for did in TRIO:
        assert store.trust.envelope(FLAGGED.address, did) == ENVELOPES[did]
    assert store.trust.envelope(FLAGGED.address, "did:a:lowest") == unproven
    with pytest.raises(err.NotFoundError):
        store.trust.envelope(FLAGGED.address, WEB)


def test_what_is_not_there(store: GrainStore) -> None:
    plain = store.put(FIELDS)
    assert store.trust.signatures(plain) == []
    for call in (store.trust.signatures, store.trust.envelope):
        with pytest.raises(err.NotFoundError):
            call("ab" * 32)
        with pytest.raises(err.HashLengthError):
            call("ab")
    with pytest.raises(err.NotFoundError):
        store.trust.envelope(plain)


# --- one row a signer ----------------------------------------------------------------------------


def test_the_same_signer_adds_nothing(store: GrainStore) -> None:
    assert add(store, examine(ENVELOPES[ALICE.did])[1])
    before = rows(store)
    later = sign(GRAIN, ALICE, iat=IAT + 1)
    assert not add(store, examine(ENVELOPES[ALICE.did])[1])
    assert not add(store, examine(later)[1])
    assert store.put(later) == FLAGGED.address
    assert rows(store) == before


def test_an_address_cannot_be_occupied(store: GrainStore) -> None:
    """Signed and unsigned are two grains, and each signer has a row of his own."""
    plain = store.put(FIELDS)
    for did in TRIO:
        store.put(ENVELOPES[did])
    assert store.put(FIELDS) == plain == GRAIN.address != FLAGGED.address
    assert not store.get(plain).header.signed
    assert [one.signer for one in store.trust.signatures(FLAGGED.address)] == TRIO
    assert store.trust.signatures(plain) == []


def test_an_unproven_signature_gives_way_to_a_proven_one(store: GrainStore) -> None:
    """Anybody can write a name that cannot be resolved here; it must not keep its owner out."""
    forged = keyed(9, WEB)
    assert add(store, examine(sign(GRAIN, forged, iat=IAT))[1])
    genuine = sign(GRAIN, WEB_ALICE, iat=IAT)
    assert not add(store, examine(genuine)[1])
    assert [one.proven for one in store.trust.signatures(FLAGGED.address)] == [False]
    proven = examine(genuine, find_web)[1]
    assert proven.proven and add(store, proven)
    assert not add(store, examine(genuine)[1])
    (found,) = store.trust.signatures(FLAGGED.address)
    assert (found.envelope, found.signer, found.proven) == (genuine, WEB, True)


def test_only_proven_signers_count(store: GrainStore) -> None:
    add(store, examine(sign(GRAIN, WEB_ALICE))[1])
    add(store, examine(ENVELOPES[CAROL.did])[1])
    with context_of(store).storage.read() as reader:
        world = PolicyContext(reader, signed={FLAGGED.address: (BOB.did,)})
        assert world.signers(FLAGGED.address) == tuple(sorted((BOB.did, CAROL.did)))
        assert PolicyContext(reader).signers(FLAGGED.address) == (CAROL.did,)
        assert PolicyContext(reader).signers("ab" * 32) == ()
        assert PolicyContext(reader, signed={"ab" * 32: ("x",)}).signers("ab" * 32) == ("x",)


def test_a_grain_has_so_many_signatures(store: GrainStore) -> None:
    found = [examine(sign(GRAIN, keyed(n + 1), iat=IAT))[1] for n in range(MOST + 1)]
    assert all([add(store, one) for one in found[:MOST]])
    with pytest.raises(err.RangeError):
        add(store, found[MOST])
    assert not add(store, found[0])
    assert len(store.trust.signatures(FLAGGED.address)) == MOST


def test_deleting_takes_them_along(store: GrainStore) -> None:
    other = store.put(signed(belief("other"), ALICE)[0])
    store.put(ENVELOPES[ALICE.did])
    store.put(ENVELOPES[BOB.did])
    assert len(rows(store)) == 3
    store.delete(FLAGGED.address)
    assert [key[:8] for key in rows(store)] == [SEQUENCE.pack(1)]
    assert [one.signer for one in store.trust.signatures(other)] == [ALICE.did]
    store.put(ENVELOPES[CAROL.did])
    assert [one.signer for one in store.trust.signatures(FLAGGED.address)] == [CAROL.did]


# --- what is refused -----------------------------------------------------------------------------

_ENVELOPE = ENVELOPES[ALICE.did]
_OTHER = with_signed_bit(og.Grain(og.encode(belief("other")))).blob

REFUSED: dict[str, tuple[bytes, type[err.OmsError]]] = {
    "a flipped signature": (flip(_ENVELOPE, -1), err.SignatureError),
    "a flipped grain": (flip(_ENVELOPE, _ENVELOPE.find(b"dark"), 2), err.SignatureError),
    "another grain in it": (
        by_hand(headers(), _OTHER)[:-64] + _ENVELOPE[-64:],
        err.SignatureError,
    ),
    "signed again by another": (
        by_hand(headers(kid=ALICE.did.encode()), FLAGGED.blob, CAROL),
        err.SignatureError,
    ),
    "an envelope around an unsigned blob": (
        by_hand(headers(), GRAIN.blob),
        err.SignedMismatchError,
    ),
    "a signed blob without envelope": (FLAGGED.blob, err.SignedMismatchError),
    "nothing in it": (by_hand(headers(), None, detached=FLAGGED.blob), err.CorruptError),
    "another content type": (by_hand(headers(content_type=CBOR), FLAGGED.blob), err.CorruptError),
    "no DID": (by_hand(headers(kid=b"alice"), FLAGGED.blob), err.DidError),
    "no key in the DID": (by_hand(headers(kid=b"did:key:z6Mk"), FLAGGED.blob), err.DidError),
    "a header that must be understood": (
        by_hand(headers(crit=["x"]) | {"x": 1}, FLAGGED.blob),
        err.UnsupportedError,
    ),
    "bytes behind it": (_ENVELOPE + b"\0", err.CorruptError),
    "a cut": (_ENVELOPE[:-1], err.CorruptError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(store: GrainStore, name: str) -> None:
    envelope, kind = REFUSED[name]
    with pytest.raises(kind) as refused:
        store.put(envelope)
    if envelope[:1] == b"\xd2":
        (found,) = examine_many([envelope], find_web)
        assert isinstance(found, err.OmsError) and found.code == refused.value.code
        with pytest.raises(kind):
            examine(envelope)
    assert len(store) == 0 and rows(store) == {}


def test_a_signature_over_another_grain_is_not_added(store: GrainStore) -> None:
    foreign = examine(sign(GRAIN, ALICE))[1]
    with pytest.raises(err.IntegrityError):
        add(store, foreign, _OTHER)
    with pytest.raises(err.SignedMismatchError):
        add(store, foreign, GRAIN.blob)
    assert len(store) == 0


def test_unresolvable_is_not_refused() -> None:
    envelope = sign(GRAIN, WEB_ALICE, iat=IAT)
    assert examine(envelope) == (FLAGGED.blob, Signature(envelope, WEB, IAT, False))
    assert examine(envelope, find_web) == (FLAGGED.blob, Signature(envelope, WEB, IAT, True))
    assert examine_many([envelope]) == [examine(envelope)]
    with pytest.raises(err.SignatureError):
        examine(flip(envelope, -1), find_web)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(_ENVELOPE) - 1), st.integers(1, 255))
def test_no_flipped_byte_is_kept(at: int, mask: int) -> None:
    """But by headers that are not signed, such as iat, and by names that nothing proves."""
    store = make("memory", Path())
    try:
        address = store.put(flip(_ENVELOPE, at, mask))
    except err.OmsError:
        assert len(store) == 0
    else:
        (found,) = store.trust.signatures(address)
        if found.proven:
            assert (address, found.signer) == (FLAGGED.address, ALICE.did)
        else:  # the name of somebody whom nobody here knows
            assert not found.signer.startswith("did:key:")


# --- damage --------------------------------------------------------------------------------------


def test_a_damaged_row_is_reported(store: GrainStore) -> None:
    store.put(_ENVELOPE)
    ((key, row),) = rows(store).items()
    for bad in (b"", row[:2], row[:40], flip(row, 0, 4), flip(row, 2), row + b"\0", row[:3]):
        set_row(store, key, bad)
        with pytest.raises(err.IntegrityError):
            store.trust.signatures(FLAGGED.address)
    set_row(store, key, None)
    set_row(store, flip(key, -1), row)
    with pytest.raises(err.IntegrityError):
        store.trust.envelope(FLAGGED.address)


def _damage(store: GrainStore, name: str) -> None:
    (key, row), (_, other), *_ = rows(store).items()
    if name == "a signature":
        set_row(store, key, flip(row, -1))
    elif name == "a row":
        set_row(store, key, row[:20])
    elif name == "a key":
        set_row(store, key + b"\0", row)
    elif name == "of another signer":
        set_row(store, key, other)
    elif name == "of no grain":
        set_row(store, SEQUENCE.pack(77) + key[8:], row)
    else:
        for one in rows(store):
            set_row(store, one, None)


DAMAGES = {
    "a signature": 1, "a row": 1, "a key": None, "of another signer": 1, "of no grain": 77,
    "none left": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_the_check_finds_it(tmp_path: Path, name: str) -> None:
    with make("lmdb", tmp_path) as store:
        store.put(ENVELOPES[ALICE.did])
        store.put(ENVELOPES[BOB.did])
        store.put(FIELDS)
        path = tmp_path / "signed.omsg"
        assert check(path).ok
        _damage(store, name)
        assert DAMAGES[name] in _found(path)


def _found(path: Path) -> list[int | None]:
    return [one.seq for one in check(path).problems if one.where == "signature"]


def test_the_check_resolves_nothing(tmp_path: Path) -> None:
    with make("lmdb", tmp_path, resolver=find_web) as store:
        store.put(sign(GRAIN, WEB_ALICE))
        assert _found(tmp_path / "signed.omsg") == []


def test_signatures_outlive_compaction_and_rebuild(tmp_path: Path) -> None:
    with make("lmdb", tmp_path) as store:
        for envelope in ENVELOPES.values():
            store.put(envelope)
        store.maintenance.rebuild()
        store.maintenance.compact()
        store.maintenance.backup(tmp_path / "copy.omsg")
        assert store.trust.envelope(FLAGGED.address, BOB.did) == ENVELOPES[BOB.did]
    og.restore(tmp_path / "copy.omsg", tmp_path / "back.omsg")
    with og.open(tmp_path / "back.omsg") as back, context_of(back).storage.read() as reader:
        assert len(signatures.signatures(reader, 1)) == 3
