# SPDX-License-Identifier: Apache-2.0
"""The signatures of stored grains, each in its own row.

    key of signatures-0   = number of the grain, u64 ++ SHA-256 of the signer's DID, first 16 bytes
    value                 = proven, 1 byte ++ length of the head, u16 ++ head ++ tail
    envelope              = head ++ blob of the grain ++ tail

For a grain that was signed and then encrypted, the signer is encrypted too:

    key of signatures-0   = number of the grain, u64 ++ token of the signer, 16 bytes
    value                 = 2, 1 byte ++ the value as above, encrypted under the user's key

The blob is stored once in blobs-0 with its signed bit set; envelopes are returned byte for byte.
Only a signature that was verified here may replace one of the same signer with an unresolved DID,
or one of any signer if there is no room left.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.errors import DidError, IntegrityError, OmsError, RangeError, SignedMismatchError
from omsgrain.header import SIGNED_BIT
from omsgrain.storage.tables import SEQUENCE, SIGNATURES

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.storage.base import Reader, Writer

MOST = 64
"""Maximum number of signatures of a grain; each must be verified wherever the grain goes."""

SEALED = b"\2"
"""Prefix of the value of an encrypted signature."""

_HEAD = struct.Struct(">BH")
_SIGNER = 16


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature of a grain.

    Attributes:
        envelope: the COSE_Sign1 with the blob, as received.
        signer: the DID of the signer.
        iat: the time in epoch seconds, as the signer states it. Nothing proves it.
        proven: whether it was verified here; if not, the DID could not be resolved.
    """

    envelope: bytes
    signer: str
    iat: int | None
    proven: bool


Examined = tuple[bytes, Signature]
"""The blob in an envelope, and its signature."""


def examine(envelope: bytes, resolver: Resolver | None = None) -> Examined:
    """Verify the signature of an envelope, but only the header of its blob. Spec: OMS §9."""
    (found,) = examine_many([envelope], resolver)
    if isinstance(found, OmsError):
        raise found
    return found


def examine_many(
    envelopes: Sequence[bytes], resolver: Resolver | None = None
) -> list[Examined | OmsError]:
    """Verify many envelopes, in order; an error replaces its envelope."""
    from omsgrain.crypto.cose import prove_many

    found: list[Examined | OmsError] = []
    for envelope, proved in zip(envelopes, prove_many(envelopes, resolver=resolver), strict=True):
        if isinstance(proved, OmsError):
            found.append(unproven(envelope, proved) or proved)
        else:
            blob, proof = proved
            found.append((blob, Signature(envelope, proof.signer, proof.iat, True)))
    return found


def unproven(envelope: bytes, error: OmsError) -> Examined | None:
    """Parse an envelope whose signer's DID could not be resolved."""
    from omsgrain.crypto import cose

    if not isinstance(error, DidError):
        return None
    try:
        message = cose.read(envelope)
    except OmsError:
        return None
    if message.payload is None or message.did.method == "key":
        return None
    return message.payload, Signature(envelope, str(message.did), message.iat, False)


def add(
    writer: Writer, seq: int, blob: bytes, signature: Signature, keys: UserKeys | None = None
) -> bool:
    """Store a signature beside its grain.

    For a grain that was signed and then encrypted, ``blob`` is the plain blob, and ``keys``
    encrypt the signature too.
    """
    row = _row(blob, signature)
    sealer = None
    if keys is not None:
        from omsgrain.crypto.seal import Sealer

        sealer = Sealer(keys.content)

    def opened(key: bytes, row: bytes) -> bytes:
        return row if sealer is None else sealer.unseal_vector(row[1:], key)

    key = SEQUENCE.pack(seq) + _name(signature.signer, keys)
    before = writer.row(SIGNATURES, key)
    if before is None:
        _make_room(writer, key, signature.proven, opened)
    elif opened(key, before)[:1] == b"\1" or not signature.proven:
        return False
    writer.set_row(
        SIGNATURES, key, row if sealer is None else SEALED + sealer.seal_vector(row, key)
    )
    return True


def _row(blob: bytes, signature: Signature) -> bytes:
    if not blob[1] & SIGNED_BIT:
        raise SignedMismatchError("the blob in the envelope has no signed bit", offset=1)
    if not over(signature, blob):
        raise IntegrityError("the envelope contains another grain")
    envelope = signature.envelope
    at = envelope.find(blob)
    return _HEAD.pack(signature.proven, at) + envelope[:at] + envelope[at + len(blob) :]


def _make_room(
    writer: Writer, key: bytes, proven: bool, read: Callable[[bytes, bytes], bytes]
) -> None:
    """Remove an unproven signature if there are too many: anyone can make such signatures."""
    rows = list(writer.rows(SIGNATURES, prefix=key[: SEQUENCE.size]))
    if len(rows) < MOST:
        return
    for other, row in rows if proven else ():
        if read(other, row)[:1] == b"\0":
            writer.set_row(SIGNATURES, other, None)
            return
    raise RangeError("the grain has too many signatures", expected=f"at most {MOST}")


def over(signature: Signature, blob: bytes) -> bool:
    return _core.envelope_blob(signature.envelope) == blob


def signatures(reader: Reader, seq: int) -> list[Signature]:
    """Return the signatures of a grain, sorted by signer; none if it is unsigned.

    Signatures from before the encryption need the grain's key.
    """
    rows = list(reader.rows(SIGNATURES, prefix=SEQUENCE.pack(seq)))
    blob = reader.blob_at(seq) if rows else None
    if blob is None:
        return []
    if any(row[:1] == SEALED for _, row in rows):
        found = list(_unsealed(reader, seq, rows))
    else:
        found = [read_row(blob, key, row) for key, row in rows]
    return sorted(found, key=lambda one: one.signer)


def _unsealed(reader: Reader, seq: int, rows: list[tuple[bytes, bytes]]) -> Iterator[Signature]:
    from omsgrain.crypto.seal import Sealer

    grain = reader.grain(seq)
    if grain is None or grain.sealed:
        return
    keys = reader.keys_of(seq)
    if keys is None:
        return
    sealer = Sealer(keys.content)
    for key, row in rows:
        opened = sealer.unseal_vector(row[1:], key)
        yield read_row(grain.blob, key, opened, keys)


def signers(reader: Reader, seq: int) -> tuple[str, ...]:
    return tuple(one.signer for one in signatures(reader, seq) if one.proven)


def by_signer(found: Sequence[Signature], signer: str | None = None) -> Signature | None:
    """Return the signature of a signer, or the representative one.

    That is the verified one with the lowest DID or, without any, the one with the lowest DID.
    """
    chosen = [one for one in found if signer in (None, one.signer)]
    return min(chosen, key=lambda one: (not one.proven, one.signer), default=None)


def read_row(blob: bytes, key: bytes, row: bytes, keys: UserKeys | None = None) -> Signature:
    from omsgrain.crypto import cose

    try:
        proven, size = _HEAD.unpack_from(row)
        at = _HEAD.size + size
        envelope = row[_HEAD.size : at] + blob + row[at:]
        message = cose.read(envelope)
        signer = str(message.did)
        sound = proven in (0, 1) and message.payload == blob
        sound = sound and key[SEQUENCE.size :] == _name(signer, keys)
    except (struct.error, OmsError):
        sound = False
    if not sound:
        raise IntegrityError("a stored signature is damaged")
    return Signature(envelope, signer, message.iat, bool(proven))


def _name(signer: str, keys: UserKeys | None) -> bytes:
    """Return the name of a signer in keys of rows: a hash of the DID, or a token under a key."""
    if keys is None:
        return sha256(signer.encode("utf-8")).digest()[:_SIGNER]
    (token,) = _core.tokens(keys.address, [signer.encode()])
    return token
