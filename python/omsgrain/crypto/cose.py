# SPDX-License-Identifier: Apache-2.0
"""COSE_Sign1 as bytes: what is written, and all that is refused when it is read.

    0xd2 [ protected: bytes, unprotected: map, payload: bytes | nil, signature: bytes ]

pycose writes. It does not read: it refuses a kid of text and algorithm -19, checks neither form
nor duplicates, and cannot take apart what cbor2 6 gives for a tagged array. Spec: RFC 9052 §4.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import cbor2

from omsgrain import _core
from omsgrain.crypto.did import Did, PublicKey, Resolver, parse, resolve
from omsgrain.crypto.keys import SIGNATURE, KeySigner, Pieces, Signer, algorithm, verify
from omsgrain.errors import (
    CorruptError,
    DidError,
    OmsError,
    SignatureError,
    TooLargeError,
    UnsupportedError,
)

TAG = b"\xd2"
IAT = "iat"
ALG, CRIT, CONTENT_TYPE, KID = 1, 2, 3, 4
CWT_CLAIMS, CWT_IAT = 15, 6  # RFC 9597 §2, RFC 8392 §4

#: Bytes of headers and signature together; a chain of certificates fits.
MAX_OVERHEAD = 64 << 10
#: Bytes of an embedded payload: what a container takes for one grain.
MAX_PAYLOAD = 2 << 20
_MAX_ENTRIES = 23  # of a header map: as many as its first byte can say
_MAP = 0xA0
# A header of a CBOR blob: behind it the core measures any value in deterministic encoding.
_CBOR_BLOB = bytes((1, 0x20, 1, 0, 0, 0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Sign1:
    """A COSE_Sign1 taken apart; nothing is verified.

    Attributes:
        protected: the signed headers, as their bytes stand.
        payload: what is signed, or None if it is kept elsewhere.
        signature: as it stands.
        alg: number of the algorithm.
        kid: who signed, as he wrote it.
        did: the same, taken apart.
        content_type: of the payload.
        iat: when it was signed, in epoch seconds. Nothing proves it.
    """

    protected: bytes
    payload: bytes | None
    signature: bytes
    alg: int
    kid: str
    did: Did
    content_type: str | int | None
    iat: int | None

    def check(
        self, payload: bytes | memoryview, external_aad: bytes, resolver: Resolver | None
    ) -> PublicKey:
        """Verify the signature over a payload.

        Returns:
            The key that it was verified with.

        Raises:
            DidError: no key was found for the DID.
            SignatureError: it does not hold.
            UnsupportedError: the algorithm is none of ours.
        """
        key = resolve(self.kid, resolver)
        data = to_be_signed(self.protected, external_aad, payload)
        verify(key, self.alg, self.signature, data)
        return key


def to_be_signed(protected: bytes, external_aad: bytes, payload: bytes | memoryview) -> bytes:
    """The Sig_structure: what the signature is made over. Spec: RFC 9052 §4.4."""
    # The payload can be large, and is copied once.
    return b"".join((_before(protected, external_aad, len(payload)), payload))


def pieces_to_be_signed(protected: bytes, external_aad: bytes, payload: Pieces) -> Pieces:
    """The same of a payload in pieces, which are asked for once more to count them."""
    head = _before(protected, external_aad, sum(map(len, payload())))
    return lambda: chain((head,), payload())


def _before(protected: bytes, external_aad: bytes, size: int) -> bytes:
    """The Sig_structure up to the payload."""
    parts = (_head(len(protected)), protected, _head(len(external_aad)), external_aad, _head(size))
    return b"\x84\x6aSignature1" + b"".join(parts)


def _head(size: int) -> bytes:
    """The head of a byte string."""
    if size < 24:
        return bytes((0x40 | size,))
    width = next(n for n in (1, 2, 4, 8) if size < 1 << 8 * n)
    return bytes((0x58 | width.bit_length() - 1,)) + size.to_bytes(width, "big")


def write(
    signer: Signer,
    payload: bytes | memoryview,
    *,
    detached: bool = False,
    content_type: str | None = None,
    iat: int | None = None,
    external_aad: bytes = b"",
    kid: str | None = None,
) -> bytes:
    """Sign a payload.

    Args:
        signer: who signs.
        payload: what is signed.
        detached: leave it out of the envelope.
        content_type: of the payload.
        iat: when, in epoch seconds. A detached signature covers it (RFC 9597); the envelope of a
            grain does not, as OMS §9 has it.
        external_aad: signed too, and in no envelope.
        kid: another name of the key than the DID; `read` takes only DIDs, `take_apart` any.

    Returns:
        The envelope, without the payload if that is detached.

    Raises:
        SignatureError: the signer gave no signature that holds.
        UnsupportedError, DidError: the signer's algorithm or DID is none of ours.
    """
    from pycose import headers
    from pycose.algorithms import EdDSA, Es256
    from pycose.messages.sign1message import Sign1Message

    alg, did = algorithm(signer), parse(signer.did)
    phdr: dict[Any, Any] = {headers.Algorithm: {-8: EdDSA, -7: Es256}[alg]}
    if content_type is not None:
        phdr[headers.ContentType] = content_type
    phdr[headers.KID] = (signer.did if kid is None else kid).encode("ascii")
    if iat is not None and detached:
        phdr[CWT_CLAIMS] = {CWT_IAT: iat}
    message = Sign1Message(
        phdr=phdr,
        uhdr={} if iat is None or detached else {IAT: iat},
        payload=None if detached else bytes(payload),
    )
    data = to_be_signed(message.phdr_encoded, external_aad, payload)
    signature = signer.sign(data)
    if not isinstance(signature, bytes) or len(signature) != SIGNATURE:
        raise SignatureError("the signer gave no signature", expected=f"{SIGNATURE} bytes")
    if did.method == "key" and not isinstance(signer, KeySigner):
        # A service that signs with another key, or a hash of the data, is found out here.
        verify(resolve(signer.did), alg, signature, data)
    message.signature = signature
    encoded: bytes = message.encode(sign=False)
    return encoded


class Parts(NamedTuple):
    """A COSE_Sign1 as it stands.

    Attributes:
        protected: the signed headers, as their bytes stand.
        signed: the same, read.
        unprotected: the others.
        payload: what is signed, or None if it is kept elsewhere.
        signature: as it stands.
        at: where the signed headers begin.
    """

    protected: bytes
    signed: Mapping[Any, Any]
    unprotected: Mapping[Any, Any]
    payload: bytes | None
    signature: bytes
    at: int


def read(cose: bytes) -> Sign1:
    """Read a COSE_Sign1 whose key is named by a DID; nothing is verified.

    Raises:
        CorruptError: it is no COSE_Sign1, or lacks algorithm or kid, or says something twice.
        DidError: kid is no DID.
        TooLargeError: larger than any of ours.
        UnsupportedError: it has headers that must be understood.
    """
    return _sign1(take_apart(cose))


def take_apart(cose: bytes) -> Parts:
    """Take a COSE_Sign1 apart, whatever names its key; nothing is verified.

    Accepted is the shortest form of every head (RFC 8949 §4.2.1) in any order of the headers, with
    headers that we do not know.

    Raises:
        CorruptError: it is no COSE_Sign1, or says something twice.
        TooLargeError: larger than any of ours.
        UnsupportedError: it has headers that must be understood.
    """
    if cose[:1] != TAG:
        raise _broken("not a COSE_Sign1 envelope", 0)
    if len(cose) > MAX_PAYLOAD + MAX_OVERHEAD:
        raise TooLargeError("an envelope is too large", found=f"{len(cose)} bytes")
    parts = _decode(cose[1:], 1)
    if not isinstance(parts, list | tuple) or len(parts) != 4:
        raise _broken("not a COSE_Sign1 envelope", 1)
    protected, unprotected, payload, signature = parts
    fits = isinstance(protected, bytes) and isinstance(unprotected, Mapping)
    if not fits or not isinstance(signature, bytes) or not isinstance(payload, bytes | None):
        raise _broken("not a COSE_Sign1 envelope", 1)
    if len(cose) - len(payload or b"") > MAX_OVERHEAD:
        raise TooLargeError("headers are too large", expected=f"at most {MAX_OVERHEAD} bytes")
    start = 2 + len(_head(len(protected)))  # tag, array, head
    signed = _decode(protected, start)
    _labels(signed, protected, start)
    _labels(unprotected, cose[start + len(protected) :], start + len(protected))
    if not signed.keys().isdisjoint(unprotected):
        raise _broken("a header stands in both maps", start)
    if CRIT in signed or CRIT in unprotected:
        raise UnsupportedError("the signature has headers that must be understood", field="/crit")
    return Parts(protected, signed, unprotected, payload, signature, start)


def _sign1(parts: Parts) -> Sign1:
    kid, content, at = parts.signed.get(KID), parts.signed.get(CONTENT_TYPE), parts.at
    alg = algorithm_of(parts.signed, at)
    if not isinstance(kid, bytes | str):
        raise _broken("the signer's DID is not signed", at)
    if not isinstance(content, str | int | None) or isinstance(content, bool):
        raise _broken("the content type is none", at)
    iat = issued_at(parts)
    try:
        text = kid if isinstance(kid, str) else kid.decode("ascii")
    except UnicodeDecodeError:
        raise DidError("not a DID", expected="did:method:id") from None
    return Sign1(
        parts.protected, parts.payload, parts.signature, alg, text, parse(text), content, iat
    )


def algorithm_of(signed: Mapping[Any, Any], at: int = 0) -> int:
    """The number of the algorithm in signed headers.

    Raises:
        CorruptError: there is none.
        UnsupportedError: it is none that has a number.
    """
    alg = signed.get(ALG)
    if alg is None:
        raise _broken("the algorithm is not signed", at)
    if not isinstance(alg, int):
        raise UnsupportedError("no such signature algorithm", expected="-8, -19 or -7")
    return alg


def issued_at(parts: Parts) -> int | None:
    """When it was signed, as the signer says: signed with the rest (RFC 9597), or beside it.

    Raises:
        CorruptError: that is no time.
    """
    claims = parts.signed.get(CWT_CLAIMS)
    if isinstance(claims, Mapping) and CWT_IAT in claims:
        iat, at = claims[CWT_IAT], parts.at
        if isinstance(iat, float) and 0 <= iat < 2**63:  # a NumericDate may have a fraction
            return int(iat)
    else:
        iat, at = parts.unprotected.get(IAT), parts.at + len(parts.protected)
    if iat is not None and (type(iat) is not int or iat < 0):
        raise _broken("iat is not a time", at)
    return iat


def _decode(data: bytes, at: int) -> Any:
    """One value and nothing behind it, in deterministic encoding, without tags."""
    try:
        size = _core.extent(_CBOR_BLOB + data)
    except OmsError as error:
        where = at + max((error.offset or 0) - len(_CBOR_BLOB), 0)
        raise _broken("not CBOR in deterministic encoding", where) from None
    assert size is not None  # only of sealed blobs
    if (size := size - len(_CBOR_BLOB)) != len(data):
        raise _broken("bytes follow the envelope", at + size)
    try:
        return cbor2.loads(data)
    except (ValueError, TypeError, cbor2.CBORDecodeError):
        raise _broken("not CBOR that can be read", at) from None


def _labels(headers: Any, data: bytes, at: int) -> None:
    """Refuse a header map that says a thing twice, or by a name that is no label."""
    if not isinstance(headers, Mapping) or not _MAP <= data[0] <= _MAP + _MAX_ENTRIES:
        raise _broken("not a map of headers", at)
    if len(headers) != data[0] - _MAP:  # of equal keys, cbor2 keeps the last
        raise _broken("a header stands twice", at)
    if not all(type(label) in (int, str) for label in headers):
        raise _broken("a header without a label", at)


def _broken(message: str, at: int) -> CorruptError:
    return CorruptError(message, offset=at)
