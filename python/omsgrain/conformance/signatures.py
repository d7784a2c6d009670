# SPDX-License-Identifier: Apache-2.0
"""Rules about identities and signatures, views that hide fields, and encrypted grains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import ADA, BEN, CAT, MSGPACK, Bench, ada, ben, by_hand
from omsgrain.conformance.rule import Entry, Tried, refuses, takes
from omsgrain.conformance.vectors import blob, data, vector
from omsgrain.crypto import seal, signers

_AT: Final = 1_768_471_200


def _signed(name: str) -> bytes:
    found = next(one for one in data("cose_sign1")["vectors"] if one["name"] == name)
    return bytes.fromhex(found["cose"])


def _grain() -> og.Grain:
    """Return the unsigned grain of the signed vectors."""
    blob = cbor2.loads(_signed("ours, Ed25519")).value[2]
    return og.Grain(blob[:1] + bytes([blob[1] & 0xFE]) + blob[2:])


def _flagged() -> bytes:
    blob: bytes = cbor2.loads(_signed("ours, Ed25519")).value[2]
    return blob


def _protected(**changes: Any) -> dict[Any, Any]:
    named = {"alg": 1, "content": 3, "kid": 4}
    whole = {1: -8, 3: MSGPACK, 4: ADA.encode()} | {named[k]: v for k, v in changes.items()}
    return {label: value for label, value in whole.items() if value is not None}


def did_key(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A did:key contains its key: multibase z, multicodec ed01 or 1200."""
    for name, raw in entry["keys"].items():
        key = crypto.did.resolve(f"did:key:{name}")
        found = key.public_bytes_raw().hex() if isinstance(key, Ed25519PublicKey) else "no Ed25519"
        yield Tried(f"did:key:{name}", raw, found)
    yield Tried("the P-256 key of 01 02 .. 20", BEN, ben().did)
    yield Tried("the Ed25519 key of 00 01 .. 1f", ADA, ada().did)


def did_malformed(_: Bench, entry: Entry) -> Iterator[Tried]:
    """An invalid DID, or one with another kind of key, is refused."""
    for name in entry["keys"]:
        yield refuses(f"did:key:{name}", "ERR_DID", crypto.did.resolve, f"did:key:{name}")
    for text in entry["dids"]:
        yield refuses(repr(text), "ERR_DID", crypto.did.parse, text)


def did_web(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Only the caller's resolver resolves a did:web."""
    name = "did:web:example.org"
    yield refuses("without a resolver", "ERR_DID", lambda: crypto.did.resolve(name))
    asked: list[str] = []

    def resolver(did: str) -> str:
        asked.append(did)
        return ADA

    yield takes("with one", lambda: crypto.did.resolve(name, resolver))
    yield Tried("its requests", [name], asked)


def tag(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The envelope of a signed grain is a COSE_Sign1 with tag 18."""
    found = cbor2.loads(crypto.sign(_grain(), ada(), iat=_AT))
    yield Tried("the tag", 18, found.tag)
    yield Tried("its four parts", 4, len(found.value))


def protected(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Protected: alg, the kid as bytes, and the content type."""
    for signer, alg, did in ((ada(), -8, ADA), (ben(), -7, BEN)):
        found = cbor2.loads(cbor2.loads(crypto.sign(_grain(), signer, iat=_AT)).value[0])
        yield Tried(f"of algorithm {alg}", {1: alg, 3: MSGPACK, 4: did.encode()}, dict(found))
    in_cbor = og.Grain(og.encode(vector("oms", 1)["input"], encoding="cbor"))
    found = cbor2.loads(cbor2.loads(crypto.sign(in_cbor, ada(), iat=_AT)).value[0])
    yield Tried("of a grain in CBOR", "application/vnd.mg+cbor", found[3])


def iat(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Unprotected: the signing time as "iat", in epoch seconds."""
    found = cbor2.loads(crypto.sign(_grain(), ada(), iat=_AT)).value[1]
    yield Tried("iat 1768471200", {"iat": _AT}, dict(found))


def payload(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The signature covers the whole blob, with its signed bit set."""
    found = cbor2.loads(crypto.sign(_grain(), ada(), iat=_AT)).value[2]
    yield Tried("the blob in the envelope", _flagged(), bytes(found))


def same_bytes(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Ed25519 gives these bytes, which another library has verified."""
    yield Tried(
        "vector 1 as a belief, signed by 00 .. 1f",
        _signed("ours, Ed25519"),
        crypto.sign(_grain(), ada(), iat=_AT),
    )


def others(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Envelopes made by python-cwt verify: Ed25519 and ES256."""
    for name, did in (("python-cwt, Ed25519", ADA), ("python-cwt, ES256", BEN)):
        found = crypto.open_signed(_signed(name))
        yield Tried(
            name,
            (did, "b3e67f30276251291199a8a5c0fda98ab8389f2ebf88da9c959194014ee645e9"),
            (found.signer, found.grain.address),
        )


def algorithms(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Algorithm -19 is also accepted as Ed25519; others are refused."""
    yield takes(
        "-19", lambda: crypto.verify_signed(by_hand(_protected(alg=-19), _flagged(), ada()))
    )
    for alg in (-7, -37, -35, 5, None):
        made = by_hand(_protected(alg=alg), _flagged(), ada())
        yield Tried(f"alg {alg} over an Ed25519 key", True, _is_refused(made))


def kid(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The kid can be bytes or text; an envelope without a kid is refused."""
    for kid in (ADA.encode(), ADA):
        made = by_hand(_protected(kid=kid), _flagged(), ada())
        yield takes(type(kid).__name__, crypto.verify_signed, made)
    yield Tried("no kid", True, _is_refused(by_hand(_protected(kid=None), _flagged(), ada())))


def unsigned(_: Bench, entry: Entry) -> Iterator[Tried]:
    """An envelope around a blob without the signed bit is refused."""
    made = by_hand(_protected(), _grain().blob, ada())
    yield refuses("the bit is not set", "ERR_SIGNED_MISMATCH", lambda: crypto.verify_signed(made))


def content_type(_: Bench, entry: Entry) -> Iterator[Tried]:
    """An envelope whose content type differs from the blob's encoding is refused."""
    made = by_hand(_protected(content="application/vnd.mg+cbor"), _flagged(), ada())
    yield Tried("MessagePack called CBOR", True, _is_refused(made))


def address(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The address of a signed grain is the hash of the blob with the signed bit."""
    address = "b3e67f30276251291199a8a5c0fda98ab8389f2ebf88da9c959194014ee645e9"
    yield Tried("before it is in an envelope", address, crypto.with_signed_bit(_grain()).address)
    yield Tried("in one", address, crypto.verify_signed(_signed("ours, Ed25519")).address)
    yield refuses(
        "one asks for another address",
        "ERR_INTEGRITY",
        lambda: crypto.verify_signed(_signed("ours, Ed25519"), address="00" * 32),
    )


def every_byte(_: Bench, entry: Entry) -> Iterator[Tried]:
    """An envelope with a changed byte in blob or signature is refused."""
    whole = _signed("ours, Ed25519")
    start = whole.index(_flagged())
    passed = [
        at
        for at in range(start, len(whole))
        if not _is_refused(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    ]
    yield Tried(f"each of {len(whole) - start} bytes flipped", [], passed)


def other_kid(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A signature under another signer's kid is invalid."""
    made = by_hand(_protected(kid=CAT.encode()), _flagged(), ada())
    yield refuses(
        "Ada's signature under Cat's name", "ERR_SIGNATURE", lambda: crypto.verify_signed(made)
    )


def author(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A result says whether the signer is the author."""
    for signer, same in ((ada(), True), (ben(), False)):
        found = crypto.open_signed(crypto.sign(_grain(), signer, iat=_AT))
        yield Tried(f"signed by {signer.did[:16]}", same, found.author_matches)


def strict(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Ed25519 uses the strict equation, as OpenSSL does."""
    for one in data("ed25519_edges")["cases"]:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(one["key"]))
        found = True
        try:
            signers.verify(key, -8, bytes.fromhex(one["signature"]), bytes.fromhex(one["message"]))
        except og.errors.OmsError:
            found = False
        yield Tried(one["name"], one["holds"], found)


def many(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Envelopes in a batch are verified one by one, with the same verdicts."""
    good, bad = _signed("python-cwt, Ed25519"), _signed("ours, Ed25519")[:-1] + b"\x00"
    found = crypto.prove_many([good, bad, _signed("python-cwt, ES256")])
    results = [one.code if isinstance(one, og.errors.OmsError) else one[1].signer for one in found]
    yield Tried("a good one, a changed one, one of ES256", [ADA, "ERR_SIGNATURE", BEN], results)


def detached(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A detached signature covers the data and the external_aad."""
    for name, did in (("ours, detached, Ed25519", ADA), ("ours, detached, ES256", BEN)):
        found = crypto.verify_detached(_signed(name), b"the file", b"aad")
        yield Tried(name, did, found.signer)
        for what, given, aad in (
            ("other data", b"the File", b"aad"),
            ("another aad", b"the file", b""),
        ):
            yield refuses(
                f"{name}, {what}",
                "ERR_SIGNATURE",
                crypto.verify_detached,
                _signed(name),
                given,
                aad,
            )


def _is_refused(envelope: bytes) -> bool:
    try:
        crypto.verify_signed(envelope)
    except og.errors.OmsError:
        return True
    return False


# views and encrypted grains


def _original(one: dict[str, Any]) -> og.Grain:
    blob = bytes.fromhex(one["original_hex"])
    if blob[1] & 1:
        return crypto.with_signed_bit(og.Grain(blob[:1] + bytes([blob[1] & 0xFE]) + blob[2:]))
    return og.Grain(blob)


def _views(word: str) -> list[dict[str, Any]]:
    return [one for one in data("disclosure") if word in one]


def views(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A view has _elided, the SHA-256 of each hidden value, and _disclosure_of, the address."""
    for one in _views("address"):
        view = crypto.disclose(_original(one), one["hide"])
        yield Tried(one["description"], one["view_hex"], view.blob.hex())
        yield Tried("its address", one["address"], view.address)


def proved(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A view can be verified against the whole grain."""
    for one in _views("address"):
        view = og.Grain(bytes.fromhex(one["view_hex"])) if "signed" not in one["id"] else None
        if view is not None:
            yield takes(one["description"], crypto.check_disclosure, view, _original(one))


def forged(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A view with another value, hash or address than the original is refused."""
    for one in _views("expect_error"):
        whole, view = (bytes.fromhex(one[name]) for name in ("original_hex", "view_hex"))
        yield refuses(
            one["description"],
            one["expect_error"],
            crypto.check_disclosure,
            view,
            whole,
        )


def revealed(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A hidden value can only be revealed by a value with its hash."""
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


def shown(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Fields that access decisions need are never hidden."""
    for name, value in entry["fields"].items():
        grain = og.Grain(og.encode(entry["grain"] | {name: value}))
        yield refuses(name, "ERR_SCHEMA", crypto.disclose, grain, [name])


def guessable(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A hidden value that is easy to guess gives a warning."""
    view = crypto.disclose(_original(data("disclosure")[0]), ["user_id"])
    yield Tried("a user id of nine letters", 1, len(view.warnings))


def stored(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A store does not accept a view as a grain."""
    view = og.Grain(bytes.fromhex(data("disclosure")[0]["view_hex"]))
    yield refuses("put into a store", "ERR_SCHEMA", lambda: bench.store().put(view))


def _seals() -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    for grain in data("sealed")["grains"]:
        for one in grain["sealed"]:
            yield grain["name"], bytes.fromhex(grain["plain"]), one


def _key() -> bytes:
    return bytes.fromhex(data("sealed")["key"])


def opened(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Encrypted grains decrypt byte for byte and keep their address."""
    for name, plain, one in _seals():
        sealed = bytes.fromhex(one["sealed"])
        yield Tried(
            f"{name}, {'whole' if one['whole'] else 'its payload'}",
            plain,
            seal.unseal(sealed, _key(), check=True),
        )
        yield Tried("its address", one["address"], og.address(sealed))


def layout(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Header with bit 1, 12-byte nonce, AES-256-GCM, 16-byte tag; the header is authenticated."""
    belief = blob("oms", 7)
    sealed = seal.seal(belief, bytes(32), whole=False)
    yield Tried("the size", len(belief) + 12 + 16, len(sealed))
    yield Tried("bit 1", 2, sealed[1] & 2)
    found = AESGCM(bytes(32)).decrypt(sealed[9:21], sealed[21:], sealed[:9])
    yield Tried("opened by AES-GCM alone", belief[9:], found)
    whole = seal.seal(belief, bytes(32), whole=True)
    yield Tried(
        "sealed whole", belief, AESGCM(bytes(32)).decrypt(whole[9:21], whole[21:], whole[:9])
    )


def hidden(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The header of an encrypted grain shows type and sensitivity; namespace and time are zero."""
    belief = blob("oms", 7)
    yield Tried(
        "hidden", "010201000000000000", seal.seal(belief, bytes(32), whole=False)[:9].hex()
    )
    shown = seal.seal(belief, bytes(32), whole=False, hide_header=False)[:9].hex()
    yield Tried("shown, if that is asked", "010201a4d26968baa0", shown)


def nonces(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Each encryption uses a new nonce."""
    belief = blob("oms", 7)
    nonces = {seal.seal(belief, bytes(32), whole=False)[9:21] for _ in range(1000)}
    yield Tried("a thousand seals of one grain", 1000, len(nonces))


def wrong(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Decryption fails with a wrong key or a changed byte."""
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


def user_keys(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A user's key is HKDF-SHA256 of the root, with the salt of the user's record."""
    root = bytes.fromhex(data("sealed")["root"])
    for one in data("sealed")["user_keys"]:
        salt = one["salt"] and bytes.fromhex(one["salt"])
        found = seal.derive_user_key(root, one["user_id"], salt=salt, generation=one["generation"])
        what = f"user {one['user_id']!r}, generation {one['generation']}"
        yield Tried(f"{what}, {'salted' if salt else 'without salt'}", one["key"], found.hex())


def sign_order(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Encryption sets the signed bit; the signature covers the encrypted blob."""
    belief = blob("oms", 7)
    plain = seal.seal(belief, bytes(32), whole=False)
    yield refuses(
        "sealed without the bit", "ERR_SIGNED_MISMATCH", lambda: crypto.sign(plain, ada())
    )
    sealed = seal.seal(belief, bytes(32), whole=False, signed=True)
    envelope = crypto.sign(sealed, ada())
    yield Tried("signed as it is sealed", sealed, crypto.prove(envelope)[0])
