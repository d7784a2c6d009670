# SPDX-License-Identifier: Apache-2.0
"""COSE_Sign1 as bytes: writing, and strict reading.

    0xd2 [ protected: bytes, unprotected: map, payload: bytes | nil, signature: bytes ]

pycose only writes. It cannot read: it refuses a text kid and algorithm -19, checks neither form
nor duplicates, and cannot read the tagged array of cbor2 6. Spec: RFC 9052 §4.2.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, overload

import cbor2

from omsgrain import _core
from omsgrain.crypto.did import Did, PublicKey, Resolver, parse, resolve
from omsgrain.crypto.seal import see_address
from omsgrain.crypto.signers import SIGNATURE, KeySigner, Pieces, Signer, algorithm, verify
from omsgrain.errors import (
    CorruptError,
    DidError,
    OmsError,
    RangeError,
    SchemaError,
    SignatureError,
    SignedMismatchError,
    TooLargeError,
    UnsupportedError,
)
from omsgrain.grain import Grain, bare, checked_grain
from omsgrain.header import ENVELOPE_BYTE, SIGNED_BIT, as_bytes, read_header

IAT = "iat"
ALG, CRIT, CONTENT_TYPE, KID = 1, 2, 3, 4
CWT_CLAIMS, CWT_IAT = 15, 6  # RFC 9597 §2, RFC 8392 §4

#: Bytes of headers and signature together; a certificate chain fits.
MAX_OVERHEAD = 64 << 10
#: Bytes of an embedded payload: the limit of a container for one grain.
MAX_PAYLOAD = 2 << 20
_MAX_ENTRIES = 23  # of a header map: the most that its first byte can encode
_MAP = 0xA0
# The header of a CBOR blob: with it the core measures any value in deterministic encoding.
_CBOR_BLOB = bytes((1, 0x20, 1, 0, 0, 0, 0, 0, 0))
_WINDOW = 4 << 10  # bytes; most envelopes fit
_LONGEST = 4 << 20


@dataclass(frozen=True, slots=True)
class Sign1:
    """A parsed COSE_Sign1; nothing is verified."""

    protected: bytes  # the signed headers, as bytes
    payload: bytes | None  # the signed payload, or None if it is detached
    signature: bytes
    alg: int  # the number of the algorithm
    kid: str  # the signer, as written
    did: Did  # the same, parsed
    content_type: str | int | None  # of the payload
    iat: int | None  # the signer's claim, in epoch seconds; not proven

    def check(
        self, payload: bytes | memoryview, external_aad: bytes, resolver: Resolver | None
    ) -> PublicKey:
        key = resolve(self.kid, resolver)
        data = to_be_signed(self.protected, external_aad, payload)
        verify(key, self.alg, self.signature, data)
        return key


def to_be_signed(protected: bytes, external_aad: bytes, payload: bytes | memoryview) -> bytes:
    """Return the Sig_structure: the bytes to sign. Spec: RFC 9052 §4.4."""
    # The payload can be large, and is copied only once.
    return b"".join((_before(protected, external_aad, len(payload)), payload))


def pieces_to_be_signed(protected: bytes, external_aad: bytes, payload: Pieces) -> Pieces:
    """Yield the same for a payload in pieces, which are iterated twice to count them."""
    head = _before(protected, external_aad, sum(map(len, payload())))
    return lambda: chain((head,), payload())


def _before(protected: bytes, external_aad: bytes, size: int) -> bytes:
    parts = (_head(len(protected)), protected, _head(len(external_aad)), external_aad, _head(size))
    return b"\x84\x6aSignature1" + b"".join(parts)


def _head(size: int) -> bytes:
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
        raise SignatureError(
            "the signer returned no valid signature", expected=f"{SIGNATURE} bytes"
        )
    if did.method == "key" and not isinstance(signer, KeySigner):
        # Detects a service that signs with another key, or signs a hash of the data.
        verify(resolve(signer.did), alg, signature, data)
    message.signature = signature
    encoded: bytes = message.encode(sign=False)
    return encoded


class EnvelopeParts(NamedTuple):
    """The parts of a COSE_Sign1, not yet decoded."""

    protected: bytes  # the signed headers, as bytes
    signed: Mapping[Any, Any]  # the same, decoded
    unprotected: Mapping[Any, Any]  # the unsigned headers
    payload: bytes | None  # the signed payload, or None if it is detached
    signature: bytes
    at: int  # the offset of the signed headers


def read(cose: bytes) -> Sign1:
    """Read a COSE_Sign1 whose kid is a DID; nothing is verified."""
    return _sign1(take_apart(cose))


def take_apart(cose: bytes) -> EnvelopeParts:
    """Split a COSE_Sign1 with any kid into its parts; nothing is verified.

    It accepts the shortest form of every head (RFC 8949 §4.2.1), any order of the headers, and
    unknown headers.
    """
    if cose[:1] != ENVELOPE_BYTE:
        raise _broken("not a COSE_Sign1 envelope", 0)
    if len(cose) > MAX_PAYLOAD + MAX_OVERHEAD:
        raise TooLargeError("the envelope is too large", found=f"{len(cose)} bytes")
    parts = _decode(cose[1:], 1)
    if not isinstance(parts, list | tuple) or len(parts) != 4:
        raise _broken("not a COSE_Sign1 envelope", 1)
    protected, unprotected, payload, signature = parts
    fits = isinstance(protected, bytes) and isinstance(unprotected, Mapping)
    if not fits or not isinstance(signature, bytes) or not isinstance(payload, bytes | None):
        raise _broken("not a COSE_Sign1 envelope", 1)
    if len(cose) - len(payload or b"") > MAX_OVERHEAD:
        raise TooLargeError("the headers are too large", expected=f"at most {MAX_OVERHEAD} bytes")
    start = 2 + len(_head(len(protected)))  # tag, array, head
    signed = _decode(protected, start)
    _labels(signed, protected, start)
    _labels(unprotected, cose[start + len(protected) :], start + len(protected))
    if not signed.keys().isdisjoint(unprotected):
        raise _broken("a header is in both maps", start)
    if CRIT in signed or CRIT in unprotected:
        raise UnsupportedError("the signature has critical headers", field="/crit")
    return EnvelopeParts(protected, signed, unprotected, payload, signature, start)


def _sign1(parts: EnvelopeParts) -> Sign1:
    kid, content, at = parts.signed.get(KID), parts.signed.get(CONTENT_TYPE), parts.at
    alg = algorithm_of(parts.signed, at)
    if not isinstance(kid, bytes | str):
        raise _broken("the signer's DID is not among the signed headers", at)
    if not isinstance(content, str | int | None) or isinstance(content, bool):
        raise _broken("the content type is not valid", at)
    iat = issued_at(parts)
    try:
        text = kid if isinstance(kid, str) else kid.decode("ascii")
    except UnicodeDecodeError:
        raise DidError("not a DID", expected="did:method:id") from None
    return Sign1(
        parts.protected, parts.payload, parts.signature, alg, text, parse(text), content, iat
    )


def algorithm_of(signed: Mapping[Any, Any], at: int = 0) -> int:
    """Return the number of the algorithm in signed headers."""
    alg = signed.get(ALG)
    if alg is None:
        raise _broken("the algorithm is not among the signed headers", at)
    if not isinstance(alg, int):
        raise UnsupportedError("unknown signature algorithm", expected="-8, -19 or -7")
    return alg


def issued_at(parts: EnvelopeParts) -> int | None:
    """Return the time by the signer: a signed header (RFC 9597), or an unsigned one."""
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
    """Decode one value in deterministic encoding, without tags, and no bytes after it."""
    try:
        size = _core.extent(_CBOR_BLOB + data)
    except OmsError as error:
        where = at + max((error.offset or 0) - len(_CBOR_BLOB), 0)
        raise _broken("not CBOR in deterministic encoding", where) from None
    assert size is not None  # sealed blobs only
    if (size := size - len(_CBOR_BLOB)) != len(data):
        raise _broken("bytes follow the envelope", at + size)
    try:
        return cbor2.loads(data)
    except (ValueError, TypeError, cbor2.CBORDecodeError):
        raise _broken("CBOR that cannot be read", at) from None


def _labels(headers: Any, data: bytes, at: int) -> None:
    """Refuse a header map with duplicates or invalid labels."""
    if not isinstance(headers, Mapping) or not _MAP <= data[0] <= _MAP + _MAX_ENTRIES:
        raise _broken("expected a map of headers", at)
    if len(headers) != data[0] - _MAP:  # of equal keys, cbor2 keeps the last
        raise _broken("a header occurs twice", at)
    if not all(type(label) in (int, str) for label in headers):
        raise _broken("a header has no valid label", at)


def _broken(message: str, at: int) -> CorruptError:
    return CorruptError(message, offset=at)


_MAX_TIME = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Proof:
    """A valid signature.

    Attributes:
        signer: The DID whose key made it.
        iat: The signer's claim of the time, in epoch seconds. Nothing proves it.
    """

    signer: str
    iat: int | None


@dataclass(frozen=True, slots=True)
class Signed:
    """A grain with a valid signature.

    Attributes:
        grain: The grain, with the signed bit set.
        signer: The DID whose key signed it.
        iat: The signer's claim of the time, in epoch seconds. Nothing proves it.
        author_matches: Whether the signer is the grain's ``author_did``; None if it names none.
        envelope: The verified bytes.
    """

    grain: Grain
    signer: str
    iat: int | None
    author_matches: bool | None
    envelope: bytes

    @classmethod
    def of(cls, grain: Grain, proof: Proof, envelope: bytes) -> Signed:
        """Make a result of verified parts."""
        author = grain.get("author_did")
        matches = None if author is None else author == proof.signer
        return cls(grain, proof.signer, proof.iat, matches, envelope)


def with_signed_bit(grain: Grain) -> Grain:
    """Return the grain to sign: with the signed bit set, and so with another address.

    Raises:
        OmsError: The blob is not one that the writer would write.
    """
    flagged = _flagged(grain.blob, 0)
    return grain if flagged == grain else flagged


def sign(grain: Grain | bytes, signer: Signer, *, iat: int | None = None) -> bytes:
    """Sign a grain. Spec: OMS §9.

    Args:
        grain: The grain, or its blob. The signed bit is set first; the signed address is that of
            ``with_signed_bit(grain)``. A sealed blob must have the bit already, since its key
            covers the header.
        signer: The signer.
        iat: The time in epoch seconds; by default now.

    Returns:
        The envelope: COSE_Sign1 with the blob in it.

    Raises:
        SignatureError: The signer returned no valid signature.
        SignedMismatchError: A sealed blob has no signed bit.
        OmsError: Any refusal of the format.
    """
    blob = grain.blob if isinstance(grain, Grain) else as_bytes(grain)
    header = read_header(blob)
    if header.encrypted:
        if not header.signed:
            raise SignedMismatchError(
                "a sealed grain without the signed bit cannot be signed; set it before sealing",
                offset=1,
            )
    else:
        blob = _flagged(blob, 0).blob
    return write(signer, blob, content_type=_content_type(blob), iat=issued(iat, int(time.time())))


def issued(iat: int | None, default: int | None) -> int | None:
    if iat is None:
        return default
    if type(iat) is not int or not 0 <= iat <= _MAX_TIME:
        raise RangeError("iat is not a time", field="/iat", expected="seconds since 1970")
    return iat


def verify_signed(
    envelope: bytes, *, resolver: Resolver | None = None, address: str | None = None
) -> Grain:
    """Verify a signed grain: parse, DID, key, signature, then the address. Spec: OMS §9.

    Args:
        envelope: A COSE_Sign1 with a blob as payload.
        resolver: Finds the key of a DID other than did:key. Without one, such DIDs are refused.
        address: The expected address, if it is known.

    Returns:
        The grain; `open_signed` also returns the signer.

    Raises:
        SignatureError: The signature is not valid.
        DidError: The signer's DID is malformed, or no key was found for it.
        SignedMismatchError: No envelope around a signed blob, or one around an unsigned blob.
        IntegrityError: The grain has another address.
        CorruptError: The envelope is malformed, or contradicts its grain.
        OmsError: Any refusal of the format.
    """
    return open_signed(envelope, resolver=resolver, address=address).grain


def open_signed(
    envelope: bytes, *, resolver: Resolver | None = None, address: str | None = None
) -> Signed:
    """Verify a signed grain as `verify_signed` does, and return it with its signer."""
    envelope = as_bytes(envelope)
    blob, proof = prove(envelope, resolver=resolver)
    if address is not None:
        see_address(blob, address)
    grain = _flagged(blob, envelope.find(blob))
    return Signed.of(grain, proof, envelope)


def prove(envelope: bytes, *, resolver: Resolver | None = None) -> tuple[bytes, Proof]:
    """Verify the signature of an envelope, without reading beyond the blob's header.

    For sealed grains: their signature can be checked without the key.

    Returns:
        The blob, and its signature.

    Raises:
        OmsError: As for `verify_signed`.
    """
    envelope = as_bytes(envelope)
    if envelope[:1] == b"\x01" and len(envelope) > 1 and envelope[1] & SIGNED_BIT:
        raise SignedMismatchError("the signed bit is set, but there is no envelope", offset=1)
    message = read(envelope)
    blob = message.payload
    if blob is None:
        raise CorruptError("the envelope is empty", expected="a blob as its payload")
    if not read_header(blob).signed:
        at = envelope.find(blob)
        raise SignedMismatchError("an envelope around an unsigned blob", offset=at)
    # Without it a signature over a file could pass for one over the grain in that file.
    if message.content_type != (expected := _content_type(blob)):
        raise CorruptError("the content type does not match the blob", expected=expected)
    message.check(blob, b"", resolver)
    return blob, Proof(str(message.did), message.iat)


def _content_type(blob: bytes) -> str:
    return f"application/vnd.mg+{read_header(blob).encoding}"


def _flagged(blob: bytes, at: int) -> Grain:
    """Read and check a grain with the signed bit as if the bit were not set."""
    bare = blob[:1] + bytes((blob[1] & ~SIGNED_BIT,)) + blob[2:]
    try:
        (version, flags, *rest), name, notes = _core.check(bare)
        fields = _core.decode(bare)
    except OmsError as error:
        if error.offset is not None:
            error.offset += at
        raise
    blob = blob[:1] + bytes((blob[1] | SIGNED_BIT,)) + blob[2:]
    type_byte, ns_hash, created_at = rest
    header = (version, flags | SIGNED_BIT, type_byte, ns_hash, created_at)
    return checked_grain(blob, header, name, notes, fields)


#: The core's result for a blob: name of the type, warnings, fields.
_Parts = tuple[str | None, Sequence[str], Mapping[str, Any]]


def prove_many(
    envelopes: Iterable[bytes], *, resolver: Resolver | None = None
) -> list[tuple[bytes, Proof] | OmsError]:
    """Verify the signature of each envelope, as `prove` does.

    Args:
        envelopes: COSE_Sign1 with a blob as payload.
        resolver: Finds the key of a DID other than did:key. It is called in this thread, one call
            at a time.

    Returns:
        In their order: the blob and its signature, or the refusal.
    """
    given = [as_bytes(envelope) for envelope in envelopes]
    verdicts = zip(given, _core.prove_many(given), strict=True)
    return [_judged(envelope, verdict, resolver) for envelope, verdict in verdicts]


def _judged(
    envelope: bytes,
    verdict: tuple[bytes, str, int | None] | Literal[False] | None,
    resolver: Resolver | None,
) -> tuple[bytes, Proof] | OmsError:
    if verdict:
        blob, signer, iat = verdict
        return blob, Proof(signer, iat)
    if verdict is False:
        return SignatureError("the signature is not valid")
    try:
        return prove(envelope, resolver=resolver)
    except OmsError as error:
        return error


@overload
def open_many(
    envelopes: Iterable[bytes],
    *,
    resolver: Resolver | None = None,
    errors: Literal["raise"] = "raise",
) -> list[Signed]: ...
@overload
def open_many(
    envelopes: Iterable[bytes],
    *,
    resolver: Resolver | None = None,
    errors: Literal["collect"],
) -> list[Signed | OmsError]: ...
def open_many(
    envelopes: Iterable[bytes],
    *,
    resolver: Resolver | None = None,
    errors: Literal["raise", "collect"] = "raise",
) -> list[Signed] | list[Signed | OmsError]:
    """Verify many signed grains in full, as `open_signed` does.

    Args:
        envelopes: COSE_Sign1 with a blob as payload.
        resolver: Finds the key of a DID other than did:key.
        errors: "raise" stops at the first refusal; "collect" returns each refusal in the place of
            its grain.

    Returns:
        The signed grains, in their order.

    Raises:
        OmsError: The first refusal, with errors="raise"; as for `verify_signed`.

    Spec: OMS §9
    """
    if errors not in ("raise", "collect"):
        raise SchemaError("unknown value of errors", expected='"raise" or "collect"')
    given = [as_bytes(envelope) for envelope in envelopes]
    proved = prove_many(given, resolver=resolver)
    blobs = [bare(one[0]) for one in proved if not isinstance(one, OmsError)]
    fields, known, wrong = _core.decode_many(blobs)
    refused = dict(wrong)
    read: Iterator[_Parts | OmsError] = (
        refused[i] if found is None or said is None else (*said, found)
        for i, (said, found) in enumerate(zip(known, fields, strict=True))
    )
    opened: list[Signed | OmsError] = [
        one if isinstance(one, OmsError) else _opened(envelope, *one, next(read))
        for envelope, one in zip(given, proved, strict=True)
    ]
    for one in opened if errors == "raise" else ():
        if isinstance(one, OmsError):
            raise one
    return opened


def _opened(
    envelope: bytes, blob: bytes, proof: Proof, parts: _Parts | OmsError
) -> Signed | OmsError:
    """Make a proved grain of the core's parts, which were read without its signed bit."""
    if isinstance(parts, OmsError):
        if parts.offset is not None:
            parts.offset += envelope.find(blob)
        return parts
    name, notes, fields = parts
    version, flags, type_byte, ns_hash, created_at = _core.header(blob)
    header = (version, flags | SIGNED_BIT, type_byte, ns_hash, created_at)
    grain = checked_grain(blob, header, name, notes, fields)
    return Signed.of(grain, proof, envelope)


def envelopes(data: bytes) -> Iterator[bytes]:
    """Split concatenated envelopes; an invalid rest is yielded as the last of them."""
    at = 0
    while at < len(data):
        size = _extent(data, at)
        yield data[at : at + size]
        at += size


def _extent(data: bytes, at: int) -> int:
    window = _WINDOW
    while data[at : at + 1] == ENVELOPE_BYTE:
        try:
            size = _core.extent(_CBOR_BLOB + data[at + 1 : at + window])
        except OmsError:
            size = None
        if size is not None:
            return 1 + size - len(_CBOR_BLOB)
        if window >= min(len(data) - at, _LONGEST):
            break
        window *= 8
    return len(data) - at
