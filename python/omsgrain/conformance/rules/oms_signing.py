# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 2: identities and signatures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.people import ADA, BEN, CAT, MSGPACK, ada, ben, by_hand
from omsgrain.conformance.rules.vectors import data, vector
from omsgrain.crypto import signers

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules

_AT = 1_768_471_200
_FACT = vector("oms", 1)
# Public keys of Ed25519 and P-256 as the W3C's did:key method writes them in its examples.
_KEYS = {
    "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK":
        "2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6",
    "z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp":
        "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29",
}  # fmt: skip


def _signed(name: str) -> bytes:
    found = next(one for one in data("cose_sign1")["vectors"] if one["name"] == name)
    return bytes.fromhex(found["cose"])


def _grain() -> og.Grain:
    """What the signed vectors hold, unsigned."""
    blob = cbor2.loads(_signed("ours, Ed25519")).value[2]
    return og.Grain(blob[:1] + bytes([blob[1] & 0xFE]) + blob[2:])


def _flagged() -> bytes:
    blob: bytes = cbor2.loads(_signed("ours, Ed25519")).value[2]
    return blob


def _protected(**changes: Any) -> dict[Any, Any]:
    named = {"alg": 1, "content": 3, "kid": 4}
    whole = {1: -8, 3: MSGPACK, 4: ADA.encode()} | {named[k]: v for k, v in changes.items()}
    return {label: value for label, value in whole.items() if value is not None}


@_rule("did.key", "9", "The key of a did:key is in it: multibase z, multicodec ed01 or 1200")
def _did_key(_: Bench) -> Iterator[Tried]:
    for name, raw in _KEYS.items():
        key = crypto.did.resolve(f"did:key:{name}")
        found = key.public_bytes_raw().hex() if isinstance(key, Ed25519PublicKey) else "no Ed25519"
        yield Tried(f"did:key:{name}", raw, found)
    yield Tried("the P-256 key of 01 02 .. 20", BEN, ben().did)
    yield Tried("the Ed25519 key of 00 01 .. 1f", ADA, ada().did)


@_rule("did.malformed", "9", "A DID that is none, or holds another kind of key, is refused")
def _did_bad(_: Bench) -> Iterator[Tried]:
    for name in (
        "z6Mk",
        "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2do0",
        "zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
        "u7QGeLg",
    ):
        yield refuses(f"did:key:{name}", "ERR_DID", crypto.did.resolve, f"did:key:{name}")
    for text in ("did", "did:key", "DID:key:z6Mk", "key:z6Mk", ""):
        yield refuses(repr(text), "ERR_DID", crypto.did.parse, text)


@_rule("did.web", "9", "A did:web is resolved by the caller's resolver, never by a hidden call")
def _did_web(_: Bench) -> Iterator[Tried]:
    name = "did:web:example.org"
    yield refuses("without a resolver", "ERR_DID", lambda: crypto.did.resolve(name))
    asked: list[str] = []

    def resolver(did: str) -> str:
        asked.append(did)
        return ADA

    yield takes("with one", lambda: crypto.did.resolve(name, resolver))
    yield Tried("what it was asked", [name], asked)


@_rule("sign.envelope", "9", "A signed grain stands in a COSE_Sign1 with tag 18")
def _envelope(_: Bench) -> Iterator[Tried]:
    found = cbor2.loads(crypto.sign(_grain(), ada(), iat=_AT))
    yield Tried("the tag", 18, found.tag)
    yield Tried("its four parts", 4, len(found.value))


@_rule("sign.protected", "9", "Protected: alg, the kid as bytes, and the content type")
def _headers(_: Bench) -> Iterator[Tried]:
    for signer, alg, did in ((ada(), -8, ADA), (ben(), -7, BEN)):
        found = cbor2.loads(cbor2.loads(crypto.sign(_grain(), signer, iat=_AT)).value[0])
        yield Tried(f"of algorithm {alg}", {1: alg, 3: MSGPACK, 4: did.encode()}, dict(found))
    in_cbor = og.Grain(og.encode(_FACT["input"], encoding="cbor"))
    found = cbor2.loads(cbor2.loads(crypto.sign(in_cbor, ada(), iat=_AT)).value[0])
    yield Tried("of a grain in CBOR", "application/vnd.mg+cbor", found[3])


@_rule("sign.iat", "9", 'Unprotected: the time of signing as "iat", epoch seconds')
def _iat(_: Bench) -> Iterator[Tried]:
    found = cbor2.loads(crypto.sign(_grain(), ada(), iat=_AT)).value[1]
    yield Tried("iat 1768471200", {"iat": _AT}, dict(found))


@_rule("sign.payload", "9", "What is signed is the whole blob, with its signed bit set")
def _payload(_: Bench) -> Iterator[Tried]:
    found = cbor2.loads(crypto.sign(_grain(), ada(), iat=_AT)).value[2]
    yield Tried("the blob in the envelope", _flagged(), bytes(found))


@_rule("sign.bytes", "9", "Ed25519 gives these bytes; another library checked them")
def _bytes(_: Bench) -> Iterator[Tried]:
    yield Tried(
        "vector 1 as a belief, signed by 00 .. 1f",
        _signed("ours, Ed25519"),
        crypto.sign(_grain(), ada(), iat=_AT),
    )


@_rule("sign.others", "9", "Envelopes that python-cwt made are verified: Ed25519 and ES256")
def _others(_: Bench) -> Iterator[Tried]:
    for name, did in (("python-cwt, Ed25519", ADA), ("python-cwt, ES256", BEN)):
        found = crypto.open_signed(_signed(name))
        yield Tried(
            name,
            (did, "b3e67f30276251291199a8a5c0fda98ab8389f2ebf88da9c959194014ee645e9"),
            (found.signer, found.grain.address),
        )


@_rule("sign.alg-19", "9", "Algorithm -19 is taken for Ed25519, too; others are refused")
def _algorithms(_: Bench) -> Iterator[Tried]:
    yield takes(
        "-19", lambda: crypto.verify_signed(by_hand(_protected(alg=-19), _flagged(), ada()))
    )
    for alg in (-7, -37, -35, 5, None):
        made = by_hand(_protected(alg=alg), _flagged(), ada())
        yield Tried(f"alg {alg} over an Ed25519 key", True, _is_refused(made))


@_rule("sign.kid", "9", "The kid is read as bytes and as text; none is refused")
def _kid(_: Bench) -> Iterator[Tried]:
    for kid in (ADA.encode(), ADA):
        made = by_hand(_protected(kid=kid), _flagged(), ada())
        yield takes(type(kid).__name__, crypto.verify_signed, made)
    yield Tried("no kid", True, _is_refused(by_hand(_protected(kid=None), _flagged(), ada())))


@_rule("sign.unsigned", "9", "An envelope around a blob without the signed bit is refused")
def _unsigned(_: Bench) -> Iterator[Tried]:
    made = by_hand(_protected(), _grain().blob, ada())
    yield refuses("the bit is not set", "ERR_SIGNED_MISMATCH", lambda: crypto.verify_signed(made))


@_rule("sign.content-type", "9", "An envelope that calls its blob otherwise packed is refused")
def _content(_: Bench) -> Iterator[Tried]:
    made = by_hand(_protected(content="application/vnd.mg+cbor"), _flagged(), ada())
    yield Tried("MessagePack called CBOR", True, _is_refused(made))


@_rule("sign.address", "9", "The address of a signed grain is that of its flagged blob")
def _address(_: Bench) -> Iterator[Tried]:
    address = "b3e67f30276251291199a8a5c0fda98ab8389f2ebf88da9c959194014ee645e9"
    yield Tried(
        "before it stands in an envelope", address, crypto.with_signed_bit(_grain()).address
    )
    yield Tried("in one", address, crypto.verify_signed(_signed("ours, Ed25519")).address)
    yield refuses(
        "one asks for another address",
        "ERR_INTEGRITY",
        lambda: crypto.verify_signed(_signed("ours, Ed25519"), address="00" * 32),
    )


@_rule("sign.every-byte", "9", "An envelope with any byte of blob or signature changed is refused")
def _changed(_: Bench) -> Iterator[Tried]:
    whole = _signed("ours, Ed25519")
    start = whole.index(_flagged())
    passed = [
        at
        for at in range(start, len(whole))
        if not _is_refused(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    ]
    yield Tried(f"each of {len(whole) - start} bytes flipped", [], passed)


@_rule("sign.kid-of-another", "9", "A signature under somebody else's kid does not hold")
def _another(_: Bench) -> Iterator[Tried]:
    made = by_hand(_protected(kid=CAT.encode()), _flagged(), ada())
    yield refuses(
        "Ada's signature under Cat's name", "ERR_SIGNATURE", lambda: crypto.verify_signed(made)
    )


@_rule("sign.author", "9", "A signer who is not the author is told", must=False)
def _author(_: Bench) -> Iterator[Tried]:
    for signer, same in ((ada(), True), (ben(), False)):
        found = crypto.open_signed(crypto.sign(_grain(), signer, iat=_AT))
        yield Tried(f"signed by {signer.did[:16]}", same, found.author_matches)


@_rule("sign.strict", "9", "Ed25519 is verified by the strict equation, as OpenSSL does")
def _strict(_: Bench) -> Iterator[Tried]:
    for one in data("ed25519_edges")["cases"]:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(one["key"]))
        found = True
        try:
            signers.verify(key, -8, bytes.fromhex(one["signature"]), bytes.fromhex(one["message"]))
        except og.errors.OmsError:
            found = False
        yield Tried(one["name"], one["holds"], found)


@_rule("sign.many", "9", "Envelopes in a batch are verified one by one, with the same verdicts")
def _many(_: Bench) -> Iterator[Tried]:
    good, bad = _signed("python-cwt, Ed25519"), _signed("ours, Ed25519")[:-1] + b"\x00"
    found = crypto.prove_many([good, bad, _signed("python-cwt, ES256")])
    told = [one.code if isinstance(one, og.errors.OmsError) else one[1].signer for one in found]
    yield Tried("a good one, a changed one, one of ES256", [ADA, "ERR_SIGNATURE", BEN], told)


@_rule("sign.detached", "9", "A signature beside its data holds over them and the external_aad")
def _detached(_: Bench) -> Iterator[Tried]:
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
