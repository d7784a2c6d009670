# SPDX-License-Identifier: Apache-2.0
"""Signatures in files: envelopes, one or many in a row, and signatures beside what they sign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from omsgrain import _core
from omsgrain.errors import (
    IntegrityError,
    KeyMissingError,
    NotFoundError,
    OmsError,
    UnsupportedError,
)
from omsgrain.formats.sniff import sniff_file
from omsgrain.ops.opening import resolver_in_use

if TYPE_CHECKING:
    from omsgrain.crypto.trust import Checked, Trust

SIGNATURE = ".sig"
"""How a signature is called that lies beside what it signs."""


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


def is_detached(data: bytes) -> bool:
    """Whether it is one signature, without what it signs. Spec: RFC 9052 §4.1."""
    from omsgrain.crypto import cose

    try:
        return cose.read(data).payload is None
    except OmsError:
        return False


def opened(
    data: bytes, name: str, address: str | None = None, trust: Trust | None = None
) -> list[SignedBy | OmsError]:
    """Verify envelopes in a row: signature, canonical form, schema, address.

    Of a sealed grain the signature is verified, and what is inside stays as it is.
    """
    from omsgrain.crypto.cose import envelopes, open_many, prove_many

    given = list(envelopes(data))
    resolver = resolver_in_use() if trust is None else trust.resolver(resolver_in_use())
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
        try:
            if address is not None and has != address:
                text = "the grain has another address"
                raise IntegrityError(text, expected=address, found=has)
            if trust is not None:
                trust.confirm(signer, resolver)
        except OmsError as error:
            found.append(error)
            continue
        found.append(SignedBy(one, signer, iat, has))
    return found


def load_trust(trust: Sequence[str]) -> Trust | None:
    """Gather the keys whose signatures count; None if none is named."""
    from omsgrain.crypto.trust import Trust

    return Trust.load(trust, resolver_in_use()) if trust else None


def signed_text(source: IO[bytes], lines: bool) -> bytes:
    """What a signature of a bundle is made over: what it says, not how it is spelled."""
    from omsgrain.formats.aimem import document, signature
    from omsgrain.formats.aimem.fields import LIMITS

    source.seek(0)
    if not lines:
        data = source.read(LIMITS.document + 1)  # one more, so that it is refused
        document.read_bundle(data)
        return signature.canonical(data)
    document.scan(source)
    source.seek(0)
    return signature.canonical_of_lines(source)


def signed_text_of(file: Path) -> bytes:
    """What a signature of the bundle in a file is made over; errors as for `signed_text`."""
    lines = sniff_file(file).lines
    with file.open("rb") as source:
        return signed_text(source, lines)


@contextmanager
def _signed_data(file: Path) -> Iterator[bytes | memoryview]:
    """What a signature beside a file is made over: all its bytes, or of a bundle what it says."""
    from omsgrain.crypto.detached import mapped

    try:
        bundle = sniff_file(file).format == "aimem"
    except UnsupportedError:
        bundle = False
    if bundle:
        yield signed_text_of(file)
        return
    with mapped(file) as data:
        yield data


def _signer(signature: bytes, file: Path, trust: Trust | None) -> SignedBy:
    from omsgrain.crypto.trust import check

    with _signed_data(file) as data:
        proof = check(signature, data, trust, required=True, resolver=resolver_in_use())
    assert proof is not None  # it was required
    return SignedBy(str(file), proof.signer, proof.iat)


def verify_beside(file: Path, trust: Trust | None, *, required: bool) -> SignedBy | None:
    """Verify the signature in FILE.sig over FILE, whatever FILE is."""
    from omsgrain.crypto.detached import beside
    from omsgrain.crypto.trust import missing

    signature = beside(file)
    if signature is not None:
        return _signer(signature, file, trust)
    if required:
        raise missing()
    return None


def look_beside(
    file: Path,
    trust: Sequence[str] = (),
    *,
    required: bool = False,
    source: IO[bytes] | None = None,
    data: bytes | None = None,
) -> Checked:
    """Look at the signature in FILE.sig before FILE is imported, whatever FILE is."""
    from omsgrain.crypto.detached import beside
    from omsgrain.crypto.trust import Trust, look

    known, resolver = load_trust(trust) or Trust(), resolver_in_use()
    signature = beside(file)
    if signature is None:
        return look(None, b"", known, required=required)
    if source is not None:
        data = signed_text(source, sniff_file(file).lines)
    with _signed_data(file) if data is None else nullcontext(data) as signed:
        return look(signature, signed, known, required=required, resolver=resolver)


def detached(
    signature: bytes, file: Path, of: Path | None, trust: Trust | None = None
) -> SignedBy:
    """Verify a signature that lies beside what it signs."""
    if of is None:
        of = file.with_name(file.name.removesuffix(SIGNATURE))
        if of == file or not of.is_file():
            text = f"signed file not found: expected FILE next to FILE{SIGNATURE}"
            raise NotFoundError(text, found=str(file))
    return _signer(signature, of, trust)
