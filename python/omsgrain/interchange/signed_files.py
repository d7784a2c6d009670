# SPDX-License-Identifier: Apache-2.0
"""Signed files: envelopes, signatures beside a file, and JSON with a signature in it.

The last are checkpoints of the audit trail and certificates of erasures.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from omsgrain import _core, crypto
from omsgrain.crypto import cose, detached
from omsgrain.crypto.trust import Trust, check, missing
from omsgrain.durable import write_new
from omsgrain.errors import (
    IntegrityError,
    KeyMissingError,
    NotFoundError,
    OmsError,
    SignedMismatchError,
)
from omsgrain.formats.aimem import document, signature
from omsgrain.formats.aimem.fields import LIMITS
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.table import FORMATS, sniffed
from omsgrain.header import SIGNED_BIT
from omsgrain.interchange.ingest import BLOB_LIMIT
from omsgrain.storage.audit.verify import Checkpoint
from omsgrain.store.privacy.certificate import KIND, Certificate

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.signers import Signer

STATEMENT_LIMIT: Final = 64 << 10
"""Bytes of a checkpoint or a certificate at the most."""
_ENVELOPE = ".cose"
_STATEMENT = re.compile(
    rb'\s*\{[^{}]*"kind"\s*:\s*"omsgrain (?:audit checkpoint|erasure certificate) '
)


@dataclass(frozen=True, slots=True)
class SignedBy:
    name: str  # the signed file, or one of the grains in it
    signer: str  # the DID of the signer
    # the time of signing in epoch seconds, as the signer claims; nothing proves it
    iat: int | None
    address: str | None = None  # of the grain; None if a whole file was signed

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "iat_proven": False}


def is_detached(data: bytes) -> bool:
    """Whether it is one detached signature. Spec: RFC 9052 §4.1."""
    try:
        return cose.read(data).payload is None
    except OmsError:
        return False


def verify_envelopes(
    data: bytes, name: str, address: str | None, trust: Trust | None, resolver: Resolver | None
) -> list[SignedBy | OmsError]:
    """Verify envelopes in a row: signature, canonical form, schema, address.

    Of an encrypted grain only the signature is verified.
    """
    given = list(cose.envelopes(data))
    resolver = resolver if trust is None else trust.resolver(resolver)
    verdicts = cose.open_many(given, resolver=resolver, errors="collect")
    found: list[SignedBy | OmsError] = []
    for number, (envelope, verdict) in enumerate(zip(given, verdicts, strict=True)):
        one = name if len(given) == 1 else f"{name}, envelope {number}"
        try:
            if isinstance(verdict, KeyMissingError):  # sealed
                blob, proof = cose.prove(envelope, resolver=resolver)
                signer, iat = proof.signer, proof.iat
            elif isinstance(verdict, OmsError):
                raise verdict
            else:
                blob, signer, iat = verdict.grain.blob, verdict.signer, verdict.iat
            has = _core.address(blob)
            if address is not None and has != address:
                text = "the grain has another address"
                raise IntegrityError(text, expected=address, found=has)
            if trust is not None:
                trust.confirm(signer, resolver)
            found.append(SignedBy(one, signer, iat, has))
        except OmsError as error:
            found.append(error)
    return found


def signed_text(source: IO[bytes]) -> bytes:
    """The signed bytes of a bundle: its canonical content."""
    lines = AIMEM.by_lines(source)
    source.seek(0)
    if not lines:
        data = source.read(LIMITS.document + 1)  # one more, so that it is refused
        document.read_bundle(data)
        return signature.canonical(data)
    document.scan(source)
    source.seek(0)
    return signature.canonical_of_lines(source)


def signed_text_of(file: Path) -> bytes:
    """The signed bytes of the bundle in a file; errors as for `signed_text`."""
    with file.open("rb") as source:
        return signed_text(source)


@contextmanager
def signed_data(file: Path) -> Iterator[bytes | memoryview]:
    """The signed bytes of a file: all of them, or the canonical content of a bundle."""
    if is_bundle(file):
        yield signed_text_of(file)
        return
    with detached.mapped(file) as data:
        yield data


def is_bundle(file: Path) -> bool:
    """Whether a file is an AIMEM bundle, good or bad."""
    found = sniffed(file)
    return found in FORMATS and FORMATS[found].signed_as_text


def _signer(mark: bytes, file: Path, trust: Trust | None, resolver: Resolver | None) -> SignedBy:
    with signed_data(file) as data:
        proof = check(mark, data, trust, required=True, resolver=resolver)
    assert proof is not None  # it was required
    return SignedBy(str(file), proof.signer, proof.iat)


def verify_beside(
    file: Path, trust: Trust | None, resolver: Resolver | None, *, required: bool
) -> SignedBy | None:
    """Verify the signature in FILE.sig over FILE, whatever FILE is."""
    mark = detached.beside(file)
    if mark is not None:
        return _signer(mark, file, trust, resolver)
    if required:
        raise missing()
    return None


def verify_detached(
    mark: bytes, file: Path, of: Path | None, trust: Trust | None, resolver: Resolver | None
) -> SignedBy:
    """Verify a detached signature with the file that it signs."""
    if of is None:
        of = file.with_name(file.name.removesuffix(detached.SUFFIX))
        if of == file or not of.is_file():
            text = f"signed file not found: expected FILE next to FILE{detached.SUFFIX}"
            raise NotFoundError(text, found=str(file))
    return _signer(mark, of, trust, resolver)


def is_statement(head: bytes) -> bool:
    """Whether a file that begins so is a checkpoint or a certificate."""
    return _STATEMENT.match(head) is not None


def verify_statement(
    data: bytes, file: Path, trust: Trust | None, resolver: Resolver | None
) -> SignedBy | None:
    """Verify the form of a checkpoint or a certificate, and its signature."""
    certifies = KIND.encode() in data
    kept = Certificate.from_json(data) if certifies else Checkpoint.from_json(data)
    signed = kept.signed_bytes()
    proof = check(kept.signature, signed, trust, required=certifies, resolver=resolver)
    return None if proof is None else SignedBy(str(file), proof.signer, proof.iat)


@dataclass(frozen=True, slots=True)
class SignedFile:
    path: Path  # of the new file, an envelope or a detached signature
    did: str
    address: str | None  # of the grain in the envelope; None of a detached signature


def sign_file(
    file: Path, signer: Signer, *, target: Path | None = None, in_full: bool = False
) -> SignedFile:
    """Sign a blob into an envelope, or with ``in_full`` and any other file, into FILE.sig.

    Of a bundle, the canonical content is signed.
    """
    now, address = int(time.time()), None
    with file.open("rb") as stream:
        start = stream.read(1)
        is_blob = start == b"\x01" and not in_full
        blob = start + stream.read(BLOB_LIMIT) if is_blob else b""
    if is_blob:
        target = target or file.with_name(file.name + _ENVELOPE)
        if len(blob) > 1 and blob[1] & SIGNED_BIT:
            text = "the signed bit is set, but there is no envelope"
            raise SignedMismatchError(text, offset=1)
        data = crypto.sign(blob, signer, iat=now)
        address = _core.address(_core.envelope_blob(data))
    else:
        target = target or detached.signature_path(file)
        if is_bundle(file):
            data = crypto.sign_detached(signed_text_of(file), signer, iat=now)
        else:
            data = detached.sign_file(file, signer, iat=now)
    write_new(target, data)
    return SignedFile(target, signer.did, address)
