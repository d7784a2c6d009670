# SPDX-License-Identifier: Apache-2.0
"""Bundles in files: what is wrong with them, and who signed them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from omsgrain.errors import FormatError, OmsError, SignatureError, UnsupportedError
from omsgrain.formats.aimem import bundle, stream
from omsgrain.formats.aimem.fields import ARRAYS
from omsgrain.formats.aimem.limits import LIMITS
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.sniff import sniff_file
from omsgrain.ops.opening import resolver_in_use
from omsgrain.ops.signed import SignedBy

if TYPE_CHECKING:
    from omsgrain.crypto.envelope import Proof
    from omsgrain.formats.aimem.bundle import Bundle
    from omsgrain.formats.aimem.signature import Checked, Trust
    from omsgrain.formats.sniff import Sniffed

__all__ = [
    "SUFFIXES",
    "Document",
    "check_signature",
    "is_bundle",
    "load_trust",
    "read_bundle",
    "signed_text",
    "signed_text_of",
    "signer_of",
    "sniffed",
    "verify_bundle",
]

SUFFIXES = (".aimem.json", ".aimem.ndjson")
"""How bundles are called, in one document and by lines."""


@dataclass(frozen=True, slots=True)
class Document:
    """What was found of a bundle, or of a document of another format.

    Attributes:
        name: of the file.
        records: how many there are of each kind, by the name of its array.
        problems: what is wrong with it, at most a thousand; empty if it is good.
        total: how many problems there are.
        warnings: what is taken although it looks wrong.
        signed: who signed it, if the signature beside it holds.
        unsigned: why the signature beside it does not hold.
        format: what it is.
    """

    name: str
    records: dict[str, int]
    problems: tuple[Problem, ...] = ()
    total: int = 0
    warnings: tuple[Problem, ...] = ()
    signed: SignedBy | None = None
    unsigned: OmsError | None = None
    format: str = "aimem"

    @property
    def errors(self) -> list[OmsError]:
        """All that is wrong, as errors."""
        found: list[OmsError] = [_error(one) for one in self.problems]
        return found if self.unsigned is None else [*found, self.unsigned]

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON-ready values; what is wrong with it stands elsewhere."""
        warnings = [one.to_dict() for one in self.warnings]
        return {"name": self.name, "format": self.format, "records": self.records, "problems":
                self.total, "warnings": warnings}  # fmt: skip


def _error(found: Problem) -> FormatError:
    return FormatError(
        found.message,
        field=found.pointer or None,
        line=found.line,
        expected=found.expected,
        found=found.found,
        rule=found.rule,
    )


def sniffed(file: Path) -> Sniffed | None:
    """Say what a file is; None if it is nothing that is known, or not there."""
    with suppress(UnsupportedError, FileNotFoundError, IsADirectoryError):
        return sniff_file(file)
    return None


def is_bundle(file: Path) -> bool:
    """Whether a file is a bundle, good or bad."""
    found = sniffed(file)
    return found is not None and found.format == "aimem"


def read_bundle(source: IO[bytes]) -> Bundle:
    """Read a bundle in one document.

    Raises:
        DocumentError: it breaks a rule of its format.
    """
    return bundle.read(_whole(source))


def _whole(source: IO[bytes]) -> bytes:
    source.seek(0)
    return source.read(LIMITS.document + 1)  # one more, so that it is refused


def signed_text(source: IO[bytes], lines: bool) -> bytes:
    """What a signature of a bundle is made over.

    Args:
        source: the bundle.
        lines: whether it comes by lines.

    Raises:
        DocumentError: it breaks a rule of its format.
    """
    from omsgrain.formats.aimem import signature

    if not lines:
        data = _whole(source)
        bundle.read(data)
        return signature.canonical(data)
    source.seek(0)
    stream.scan(source)
    source.seek(0)
    return signature.canonical_of_lines(source)


def signed_text_of(file: Path) -> bytes:
    """What a signature of the bundle in a file is made over; errors as for `signed_text`."""
    lines = sniff_file(file).lines
    with file.open("rb") as source:
        return signed_text(source, lines)


def load_trust(trust: Sequence[str]) -> Trust:
    """Gather the keys whose signatures count; arguments and errors are those of ``Trust.load``."""
    from omsgrain.formats.aimem.signature import Trust

    return Trust.load(trust, resolver_in_use())


def check_signature(
    file: Path, source: IO[bytes], lines: bool, trust: Sequence[str], *, required: bool = False
) -> tuple[Proof | None, Checked]:
    """Look at the signature beside a bundle, before it is taken in.

    Args:
        file: the bundle; its signature is ``FILE.sig``.
        source: the same, open: what is checked is what is taken in.
        lines: whether it comes by lines.
        trust: files of public keys, or DIDs; without any the signature is not checked.
        required: whether there must be one.

    Returns:
        Who signed, and what was done.

    Raises:
        SignatureError: it does not hold, is of nobody who is trusted, or is missing.
        DocumentError: the bundle breaks a rule of its format.
        KeyMissingError, DidError: there is no public key where one should be.
        OSError: a file cannot be read.
    """
    from omsgrain.crypto.files import signature_path
    from omsgrain.formats.aimem import signature

    known = load_trust(trust)
    beside = signature_path(file)
    found = _signature(beside) if beside.is_file() else None
    if not trust and not required:
        return None, "missing" if found is None else "skipped"
    text = b"" if found is None else signed_text(source, lines)
    proof = signature.check(found, text, known, required=required)
    return proof, "missing" if proof is None else "verified"


def verify_bundle(file: Path, trust: Sequence[str] = (), *, beside: bool = True) -> Document:
    """Say all that is wrong with a bundle, and who signed it.

    Args:
        file: in one document or by lines.
        trust: files of public keys, or DIDs, one of which must have signed it, if it is signed.
        beside: whether to look for its signature, ``FILE.sig``.

    Raises:
        KeyMissingError, DidError: there is no public key where one should be.
        OSError: a file cannot be read.
    """
    from omsgrain.crypto.files import signature_path

    lines = sniff_file(file).lines
    with file.open("rb") as source:
        found = _scanned(str(file), source) if lines else _validated(str(file), source)
        if found.problems or not beside or not signature_path(file).is_file():
            return found
        try:
            text = signed_text(source, lines)
            proof = signer_of(_signature(signature_path(file)), text, trust)
        except SignatureError as error:
            return replace(found, unsigned=error)
    return replace(found, signed=SignedBy(str(file), proof.signer, proof.iat))


def _validated(name: str, source: IO[bytes]) -> Document:
    verdict = bundle.validate(_whole(source))
    whole = verdict.document or {}
    arrays = {array: whole.get(array) for array in ARRAYS}
    counts = {array: len(a) if isinstance(a, list) else 0 for array, a in arrays.items()}
    return Document(name, counts, verdict.problems, verdict.total, verdict.warnings)


def _scanned(name: str, source: IO[bytes]) -> Document:
    try:
        scanned = stream.scan(source)
    except DocumentError as error:
        return Document(name, dict.fromkeys(ARRAYS, 0), error.problems, error.total)
    counts = {array: scanned.counts[kind] for array, kind in ARRAYS.items()}
    return Document(name, counts, warnings=scanned.warnings)


def _signature(path: Path) -> bytes:
    """A signature in a file, or the beginning of what is too large for one."""
    from omsgrain.crypto.cose import MAX_OVERHEAD

    with path.open("rb") as file:
        return file.read(MAX_OVERHEAD + 1)


def signer_of(signature: bytes, text: bytes, trust: Sequence[str]) -> Proof:
    """Say who made the signature of a bundle.

    Without anybody to trust, the signature is shown to be of the key that it names, no more.

    Args:
        signature: a COSE_Sign1 without payload.
        text: what it must be made over, from `signed_text`.
        trust: files of public keys, or DIDs, one of which must have made it.

    Raises:
        SignatureError: it does not hold, or is of nobody who is trusted.
        KeyMissingError, DidError: there is no public key where one should be.
    """
    from omsgrain.crypto import verify_detached
    from omsgrain.formats.aimem import signature as signatures

    if trust:
        proof = signatures.check(signature, text, load_trust(trust), required=True)
        assert proof is not None  # it was required
        return proof
    try:
        return verify_detached(signature, text, resolver=resolver_in_use())
    except SignatureError:
        raise
    except OmsError as error:
        reason = "the signature names no key that can be found; say whom you trust"
        raise SignatureError(reason, rule="signature_untrusted", found=error.code) from None
