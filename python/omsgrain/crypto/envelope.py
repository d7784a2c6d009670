# SPDX-License-Identifier: Apache-2.0
"""Signed grains: a COSE_Sign1 envelope around the whole blob. Spec: OMS §9.

The signed bit stands in the header, which the address covers. So a grain that is to be signed gets
the bit first, and with it another address; in or out of its envelope that stays the same.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass

from omsgrain import _core
from omsgrain.crypto import cose
from omsgrain.crypto.did import Resolver
from omsgrain.crypto.keys import Signer
from omsgrain.errors import (
    CorruptError,
    IntegrityError,
    OmsError,
    RangeError,
    SignedMismatchError,
)
from omsgrain.grain import Grain
from omsgrain.header import SIGNED_BIT, as_bytes, read_header

_MAX_TIME = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Proof:
    """A signature that holds.

    Attributes:
        signer: the DID whose key made it.
        iat: when, in epoch seconds, as the signer says. Nothing proves it.
    """

    signer: str
    iat: int | None


@dataclass(frozen=True, slots=True)
class Signed:
    """A grain whose signature holds.

    Attributes:
        grain: with the signed bit set.
        signer: the DID whose key signed it.
        iat: when, in epoch seconds, as the signer says. Nothing proves it.
        author_matches: whether the signer is the grain's ``author_did``; None if it names none.
        envelope: the bytes that were verified.
    """

    grain: Grain
    signer: str
    iat: int | None
    author_matches: bool | None
    envelope: bytes


def with_signed_bit(grain: Grain) -> Grain:
    """The grain as it is signed: the signed bit set, and so with another address.

    Raises:
        OmsError: the blob is not one that the writer would write.
    """
    flagged = _flagged(grain.blob, 0)
    return grain if flagged == grain else flagged


def sign(grain: Grain | bytes, signer: Signer, *, iat: int | None = None) -> bytes:
    """Sign a grain. Spec: OMS §9.

    Args:
        grain: the grain, or its blob. The signed bit is set first; the address of what is signed
            is that of ``with_signed_bit(grain)``. A sealed blob must have the bit already, since
            its key covers the header.
        signer: who signs.
        iat: when, in epoch seconds; now, if not given.

    Returns:
        The envelope: COSE_Sign1 with the blob in it.

    Raises:
        SignatureError: the signer gave no signature that holds.
        SignedMismatchError: a sealed blob without the signed bit.
        OmsError: any refusal of the format.
    """
    blob = grain.blob if isinstance(grain, Grain) else as_bytes(grain)
    header = read_header(blob)
    if header.encrypted:
        if not header.signed:
            raise SignedMismatchError("a grain gets its signed bit before it is sealed", offset=1)
    else:
        blob = _flagged(blob, 0).blob
    return cose.write(
        signer, blob, content_type=_content_type(blob), iat=issued(iat, int(time.time()))
    )


def issued(iat: int | None, default: int | None) -> int | None:
    """The time of a signature, checked.

    Raises:
        RangeError: it is no number of seconds since 1970.
    """
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
        envelope: COSE_Sign1 with a blob in it.
        resolver: finds the key of a DID that is no did:key. Without one, such DIDs are refused.
        address: what the grain's address must be, if that is known.

    Returns:
        The grain. Who signed it is told by `open_signed`.

    Raises:
        SignatureError: the signature does not hold.
        DidError: the signer's DID is malformed, or no key was found for it.
        SignedMismatchError: no envelope around a signed blob, or one around an unsigned blob.
        IntegrityError: the grain has another address.
        CorruptError: the envelope is none, or not as the grain within says.
        OmsError: any refusal of the format.
    """
    return open_signed(envelope, resolver=resolver, address=address).grain


def open_signed(
    envelope: bytes, *, resolver: Resolver | None = None, address: str | None = None
) -> Signed:
    """Verify a signed grain as `verify_signed` does, and tell who signed it."""
    envelope = as_bytes(envelope)
    blob, proof = prove(envelope, resolver=resolver)
    if address is not None:
        _same_address(blob, address)
    grain = _flagged(blob, envelope.find(blob))
    author = grain.get("author_did")
    matches = None if author is None else author == proof.signer
    return Signed(grain, proof.signer, proof.iat, matches, envelope)


def prove(envelope: bytes, *, resolver: Resolver | None = None) -> tuple[bytes, Proof]:
    """Verify the signature of an envelope, and look no further than the blob's header.

    For sealed grains, whose signature can be checked by those who cannot open them.

    Returns:
        The blob, and whose signature it has.

    Raises:
        OmsError: as for `verify_signed`.
    """
    envelope = as_bytes(envelope)
    if envelope[:1] == b"\x01" and len(envelope) > 1 and envelope[1] & SIGNED_BIT:
        raise SignedMismatchError("the signed bit is set, but there is no envelope", offset=1)
    message = cose.read(envelope)
    blob = message.payload
    if blob is None:
        raise CorruptError("the envelope is empty", expected="a blob in it")
    if not read_header(blob).signed:
        at = envelope.find(blob)
        raise SignedMismatchError("an envelope around an unsigned blob", offset=at)
    # Without it a signature over a file could pass for one over the grain in that file.
    if message.content_type != (expected := _content_type(blob)):
        raise CorruptError("the content type is not that of the blob", expected=expected)
    message.check(blob, b"", resolver)
    return blob, Proof(str(message.did), message.iat)


def _content_type(blob: bytes) -> str:
    return f"application/vnd.mg+{read_header(blob).encoding}"


def _same_address(blob: bytes, address: str) -> None:
    found = hashlib.sha256(blob)
    if not hmac.compare_digest(found.digest(), _core.parse_address(address)):
        raise IntegrityError(
            "the blob has another address", expected=address, found=found.hexdigest()
        )


def _flagged(blob: bytes, at: int) -> Grain:
    """A grain with the signed bit set, read and checked as if the bit were not there."""
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
    return Grain._of(blob, header, name, notes, fields)
