# SPDX-License-Identifier: Apache-2.0
"""Signatures, views and keys from others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import cbor2

import omsgrain as og
from fuzz import seeds
from fuzz.target import Run, Target
from omsgrain import crypto
from omsgrain.crypto import cose, did, signers
from omsgrain.crypto.did_web import WebResolver
from omsgrain.crypto.disclosure import check_disclosure, disclose, reveal
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import IntegrityError, OmsError
from omsgrain.grain import Grain
from omsgrain.storage.audit import Checkpoint
from omsgrain.store.privacy.certificate import Certificate
from omsgrain.store.privacy.erasure import ErasureReport
from support.did_documents import NAME as DID
from support.did_documents import document, jwk, method
from support.key_rings import MASTER, all_of, keys_of
from support.signers import ALICE, BOB, CBOR, GRAIN, IAT, by_hand, headers

_DATA = b"what was signed"
_FORMATS: tuple[signers.Format, ...] = ("pem", "jwk", "cose")


@contextmanager
def _envelope(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        (alone,) = cose.open_many([data])
        signed = crypto.open_signed(data)
        assert not isinstance(alone, OmsError), "refused among many, and taken alone"
        assert alone == signed
        assert crypto.verify_signed(data, address=signed.grain.address) == signed.grain

    yield run


def _envelopes() -> list[bytes]:
    return [
        crypto.sign(GRAIN, ALICE, iat=IAT),
        crypto.sign(GRAIN, BOB, iat=IAT),
        by_hand(headers(), GRAIN.blob),
        by_hand(headers(content_type=CBOR), GRAIN.blob, unprotected={"iat": 1}),
        by_hand(headers(crit=["iat"]) | {"iat": 1}, GRAIN.blob),
    ]


def _signed_anew(data: bytes) -> bytes:
    """With a valid signature over its current content."""
    try:
        protected, unprotected, payload, _ = cbor2.loads(data).value
        return by_hand(protected, payload, unprotected=unprotected)
    except Exception:  # of the mutation, not of what is tried
        return data


@contextmanager
def _detached(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        proof = crypto.verify_detached(data, _DATA)
        assert proof.signer in (ALICE.did, BOB.did)
        try:
            crypto.verify_detached(data, _DATA + b"x")
        except OmsError:
            return
        raise AssertionError("a signature of other data holds")

    yield run


def _signatures() -> list[bytes]:
    return [
        crypto.sign_detached(_DATA, ALICE),
        crypto.sign_detached(_DATA, BOB, iat=IAT),
        by_hand(headers(content_type=None), None, detached=_DATA),
    ]


_WHOLE = Grain(og.encode({"type": "belief", "subject": "a", "relation": "is", "object": {"b": 1},
                          "confidence": 0.5, "user_id": "u",
                          "created_at": 1_768_471_200_000}))  # fmt: skip


@contextmanager
def _view(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        found = check_disclosure(data)
        assert not found.verified
        try:
            check_disclosure(data, _WHOLE)
        except OmsError:
            pass
        try:
            reveal(data, {name: _WHOLE[name] for name in found.hidden if name in _WHOLE})
        except IntegrityError:
            pass

    yield run


def _views() -> list[bytes]:
    told = json.loads((seeds.TESTS / "data" / "disclosure.json").read_bytes())
    own = [disclose(_WHOLE, [name]).blob for name in ("object", "user_id")]
    return own + [bytes.fromhex(one["view_hex"]) for one in told if "view_hex" in one]


@contextmanager
def _key_file(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        try:
            named = signers.loads_public(data)
        except OmsError:
            named = []
        for one in named:
            (again,) = signers.loads_public(signers.dumps_public(one.key))
            assert again.key == one.key
        key = signers.loads_private(data)
        for format in _FORMATS:
            assert (
                signers.loads_private(signers.dumps_private(key, format)).public_key()
                == key.public_key()
            )
        assert key.public_key() in [one.key for one in named]

    yield run


def _key_files() -> list[bytes]:
    found: list[bytes] = [b"did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK\n"]
    for signer in (ALICE, BOB):
        found += [signers.dumps_private(signer._key, form) for form in _FORMATS]
        found.append(signers.dumps_public(signer.public_key))
    return found


@contextmanager
def _did_document(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        for name in (DID, DID + "#a"):
            key = WebResolver(lambda url: data)(name)
            assert did.resolve(did.from_key(key)) == key

    yield run


def _did_documents() -> list[bytes]:
    return [
        document(method()),
        document(method("#b"), method(signer=BOB), uses=["#a"]),
        document({"id": "#a", "publicKeyJwk": jwk(BOB.public_key)}),
        document(uses=[method(DID + "#a", controller=DID)]),
    ]


@contextmanager
def _checkpoint(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        found = Checkpoint.from_json(data)
        assert Checkpoint.from_json(found.to_json()) == found
        found.proof()

    yield run


def _checkpoints() -> list[bytes]:
    end = Checkpoint(7, "0a" * 32, 1_768_471_200_000)
    return [one.to_json().encode() for one in (end, end.signed(ALICE, iat=IAT), end.signed(BOB))]


@contextmanager
def _certificate(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        found = Certificate.from_json(data)
        assert Certificate.from_json(found.to_json().encode()) == found
        if found.signature is not None:
            crypto.verify_detached(found.signature, found.signed_bytes())

    yield run


def _certificates() -> list[bytes]:
    end = Checkpoint(7, "0a" * 32, 1_768_471_200_000)
    kept = (("0b" * 32, "hold"), ("0c" * 32, "hold"))
    done = ErasureReport(1, 2, 3, (("0d" * 32, ("subject",)),), kept, False, 5, False, ("kept",))
    made = Certificate.of_report(done, end, reason_code="gdpr17", of="person", time=IAT)
    return [one.to_json().encode() for one in (made, made.signed(ALICE, iat=IAT))]


@cache
def _ring(room: Path) -> bytes:
    path = room / "first.omsk"
    with KeyRing.create(path, master=MASTER) as ring:
        ring.ensure(["ada", "grace", "edith"])
        ring.erase(["grace"])
    data = path.read_bytes()
    path.unlink()
    return data


@contextmanager
def _key_ring(room: Path) -> Iterator[Run]:
    """A file with random keys: so an input is what is done to it, not the file itself."""
    whole, path = _ring(room), room / "keys.omsk"
    with _opened(path, whole) as ring:
        good = keys_of(ring, "ada", "edith")

    def run(data: bytes) -> None:
        edits = [data[at : at + 7] for at in range(0, len(data), 7)]
        changed = bytearray(whole)
        for edit in edits:
            at = int.from_bytes(edit[:4], "big") % len(changed)
            if edit[4:5] == b"c":
                del changed[at:]
                changed += bytes(not changed)
            else:
                changed[at : at + len(edit[5:])] = edit[5:]
        with _opened(path, bytes(changed)) as ring:
            for user, keys in good.items():
                found = all_of(ring.of_user(user))
                assert found is None or found == keys, "other keys"
            list(ring.users())
            ring.stats()

    yield run


@contextmanager
def _opened(path: Path, data: bytes) -> Iterator[KeyRing]:
    path.write_bytes(data)
    path.chmod(0o600)
    try:
        with KeyRing.open(path, master=MASTER) as ring:
            yield ring
    finally:
        for left in path.parent.glob(path.name + "*"):
            left.unlink()


def _edits() -> list[bytes]:
    places = (*range(0, 64, 8), 4096, 4100, 8192, 12288, 16384, 20480, 20500, 20600, 24576)
    found = [at.to_bytes(4, "big") + b"w" + bytes([at % 251, 255]) for at in places]
    return [*found, (20500).to_bytes(4, "big") + b"c\x00\x00", b"".join(found[:3])]


TARGETS = {
    "envelope": Target(_envelope, _envelopes, "cbor", _signed_anew),
    "detached": Target(_detached, _signatures, "cbor"),
    "view": Target(_view, _views),
    "did document": Target(_did_document, _did_documents, "json"),
    "checkpoint": Target(_checkpoint, _checkpoints, "json"),
    "certificate": Target(_certificate, _certificates, "json"),
    "key file": Target(_key_file, _key_files, "json"),
    "key ring": Target(_key_ring, _edits),
}
