# SPDX-License-Identifier: Apache-2.0
"""Signatures in files: envelopes, one or many in a row, and signatures beside what they sign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omsgrain import _core
from omsgrain.errors import IntegrityError, KeyMissingError, NotFoundError, OmsError
from omsgrain.ops.opening import resolver_in_use

__all__ = ["ENVELOPE", "SIGNATURE", "SignedBy", "detached", "envelopes", "is_detached", "opened"]

ENVELOPE = b"\xd2"
"""What an envelope, and a signature beside a file, begins with."""

SIGNATURE = ".sig"
"""How a signature is called that lies beside what it signs."""

# A header of a CBOR blob: behind it the core measures any value in deterministic encoding.
_CBOR_BLOB = bytes((1, 0x20, 1, 0, 0, 0, 0, 0, 0))
_WINDOW = 4 << 10  # bytes that hold most envelopes
_LONGEST = 4 << 20


@dataclass(frozen=True, slots=True)
class SignedBy:
    """A signature that holds.

    Attributes:
        name: what was signed: a file, or one of the grains in it.
        signer: the DID whose key made it.
        iat: when, in epoch seconds, as the signer says. Nothing proves it.
        address: of the grain; None if a whole file was signed.
    """

    name: str
    signer: str
    iat: int | None
    address: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The signature as JSON-ready values."""
        return {**asdict(self), "iat_proven": False}


def envelopes(data: bytes) -> Iterator[bytes]:
    """Cut envelopes that stand in a row; what is no envelope is given as the last of them."""
    at = 0
    while at < len(data):
        size = _extent(data, at)
        yield data[at : at + size]
        at += size


def _extent(data: bytes, at: int) -> int:
    window = _WINDOW
    while data[at : at + 1] == ENVELOPE:
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


def is_detached(data: bytes) -> bool:
    """Whether it is one signature, without what it signs. Spec: RFC 9052 §4.1."""
    from omsgrain.crypto import cose

    try:
        return cose.read(data).payload is None
    except OmsError:
        return False


def opened(data: bytes, name: str, address: str | None = None) -> list[SignedBy | OmsError]:
    """Verify envelopes in a row: signature, canonical form, schema, address.

    Of a sealed grain the signature is verified, and what is inside stays as it is.

    Args:
        data: one envelope or more.
        name: of the file.
        address: what the grain in a single one must have.
    """
    from omsgrain.crypto.many import open_many, prove_many

    given = list(envelopes(data))
    resolver = resolver_in_use()
    verdicts = open_many(given, resolver=resolver, errors="collect")
    found: list[SignedBy | OmsError] = []
    for number, (envelope, verdict) in enumerate(zip(given, verdicts, strict=True)):
        one = name if len(given) == 1 else f"{name}, envelope {number}"
        if isinstance(verdict, KeyMissingError):  # sealed
            (proved,) = prove_many([envelope], resolver=resolver)
            if isinstance(proved, OmsError):
                found.append(proved)
                continue
            blob, signer, iat = proved[0], proved[1].signer, proved[1].iat
        elif isinstance(verdict, OmsError):
            found.append(verdict)
            continue
        else:
            blob, signer, iat = verdict.grain.blob, verdict.signer, verdict.iat
        has = _core.address(blob)
        if address is not None and has != address:
            found.append(
                IntegrityError("the grain has another address", expected=address, found=has)
            )
            continue
        found.append(SignedBy(one, signer, iat, has))
    return found


def detached(signature: bytes, file: Path, of: Path | None) -> SignedBy:
    """Verify a signature that lies beside what it signs.

    Args:
        signature: what is in the file.
        file: where it is.
        of: what is signed; FILE, if the signature is called FILE.sig and this is not given.

    Raises:
        NotFoundError: what was signed is not there.
        SignatureError: the signature does not hold.
        DidError: no key was found for the signer.
    """
    from omsgrain.crypto import verify_file

    if of is None:
        of = file.with_name(file.name.removesuffix(SIGNATURE))
        if of == file or not of.is_file():
            text = "what was signed is not beside its signature"
            raise NotFoundError(text, expected=f"FILE beside FILE{SIGNATURE}")
    proof = verify_file(of, signature, resolver=resolver_in_use())
    return SignedBy(str(of), proof.signer, proof.iat)
