# SPDX-License-Identifier: Apache-2.0
"""Signatures of bundles: a detached COSE_Sign1 over the text that the checksum is made of.

So a signature is one of what a bundle says, not of how it is spelled or sent: the same one holds
for a bundle in one document and for the same bundle by lines. Beside a file it is ``NAME.sig``, in
HTTP the header ``AIMEM-Signature``, in base64url without padding. Spec: AIMEM §5.3
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

from omsgrain import _core
from omsgrain.crypto import cose, publicfile
from omsgrain.crypto.did import PublicKey, Resolver
from omsgrain.crypto.envelope import Proof, issued
from omsgrain.crypto.keys import Signer, verify
from omsgrain.crypto.publicfile import NamedKey
from omsgrain.errors import OmsError, SignatureError
from omsgrain.formats.aimem.checksum import MEMBER, Sum
from omsgrain.formats.aimem.limits import LIMITS, Limits
from omsgrain.formats.aimem.rules import RULES
from omsgrain.formats.aimem.stream import records

__all__ = [
    "HEADER",
    "WELL_KNOWN",
    "Checked",
    "Trust",
    "canonical",
    "canonical_of_lines",
    "check",
    "from_header",
    "sign_bundle",
    "to_header",
]

HEADER: Final = "AIMEM-Signature"
WELL_KNOWN: Final = "/.well-known/aimem-pubkey"
"""Where a producer shows its key, as COSE_Key. Spec: AIMEM §5.3"""

Checked: TypeAlias = Literal["verified", "skipped", "missing"]
"""What was done about a signature before an import; the audit trail tells of it."""


_BASE64 = re.compile("[A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose signatures count.

    Attributes:
        keys: their public keys.
    """

    keys: tuple[NamedKey, ...] = ()

    @classmethod
    def load(cls, sources: Iterable[str | Path], resolver: Resolver | None = None) -> Trust:
        """Gather keys.

        Args:
            sources: files of public keys, as `omsgrain.crypto.publicfile` reads them, or DIDs.
            resolver: finds the key of a DID that is no did:key.

        Raises:
            KeyMissingError: no public key that we know is in a file.
            DidError: no key was found for a DID.
            OSError: a file cannot be read.
        """
        keys: list[NamedKey] = []
        for source in sources:
            if isinstance(source, str) and source.startswith("did:"):
                keys += publicfile.loads(source.encode(), resolver)
            else:
                keys += publicfile.load(source, resolver)
        return cls(tuple(keys))


def canonical(data: bytes, limits: Limits = LIMITS) -> bytes:
    """What is signed of a bundle in one document.

    Raises:
        FormatError: it is no JSON, or JSON whose meaning is not certain.
        CorruptError: nested too deep.
    """
    return _core.canonical_json(data, MEMBER, limits.depth)


def canonical_of_lines(source: IO[bytes]) -> bytes:
    """What is signed of a bundle by lines that was scanned, from where the source stands.

    It is made in memory, whole: a signature is made over one piece.
    """
    start = source.tell()
    envelope = json.loads(source.readline())
    source.seek(start)
    with Sum() as total:
        for kind, record in records(source):
            total.add(kind, _core.canonical_json(json.dumps(record).encode("ascii")))
        return b"".join(total.pieces(envelope))


def sign_bundle(
    text: bytes, signer: Signer, *, kid: str | None = None, iat: int | None = None
) -> bytes:
    """Sign a bundle.

    Args:
        text: its canonical text, from `canonical`.
        signer: who signs.
        kid: the URL of the signer's key; by default his DID.
        iat: when, in epoch seconds; left out, if not given.

    Returns:
        A COSE_Sign1 without payload.

    Raises:
        SignatureError: the signer gave no signature that holds.
        RangeError: iat is not a time.
    """
    return cose.write(signer, text, detached=True, iat=issued(iat, None), kid=kid)


def to_header(signature: bytes) -> str:
    """A signature as the value of the header."""
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode("ascii")


def from_header(value: str) -> bytes:
    """The signature in a header.

    Raises:
        SignatureError: ``signature_invalid``: it is not base64url.
    """
    text = value.strip().rstrip("=")
    if len(text) <= 2 * cose.MAX_OVERHEAD and _BASE64.fullmatch(text) and len(text) % 4 != 1:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    raise _refused("signature_invalid", "base64url, without padding")


def check(
    signature: bytes | None, text: bytes, trust: Trust, *, required: bool = False
) -> Proof | None:
    """See that somebody who is trusted has signed a bundle.

    The name of the key in the signature is a hint: where none of the trusted keys has it, each is
    tried.

    Args:
        signature: a COSE_Sign1 without payload, tagged or not; None if there is none.
        text: the canonical text of the bundle.
        trust: whose signatures count.
        required: whether there must be one.

    Returns:
        Who signed; None if nobody did, and nobody must.

    Raises:
        SignatureError: with the rule ``signature_missing``, ``signature_untrusted``: no trusted
            key made it; or ``signature_invalid``: it is none of this bundle.
    """
    if signature is None:
        if required:
            raise _refused("signature_missing")
        return None
    try:
        parts = cose.take_apart(signature if signature[:1] == cose.TAG else cose.TAG + signature)
        alg, iat = cose.algorithm_of(parts.signed), cose.issued_at(parts.unprotected)
    except OmsError as error:
        raise _refused("signature_invalid", found=error.message) from None
    if parts.payload is not None:
        raise _refused("signature_invalid", "no payload in it")
    data = cose.to_be_signed(parts.protected, b"", text)
    kid = _bytes(parts.signed.get(cose.KID, parts.unprotected.get(cose.KID)))
    named = [one for one in trust.keys if kid in one.names]
    for one in named or trust.keys:
        if _holds(one.key, alg, parts.signature, data):
            return Proof(one.did, iat)
    own = _own(kid)
    if named or (own is not None and not _holds(own, alg, parts.signature, data)):
        raise _refused("signature_invalid")
    raise _refused("signature_untrusted", "a signature of a key that is trusted")


def _holds(key: PublicKey, alg: int, signature: bytes, data: bytes) -> bool:
    try:
        verify(key, alg, signature, data)
    except OmsError:
        return False
    return True


def _bytes(kid: object) -> bytes | None:
    if isinstance(kid, str):
        return kid.encode()
    return kid if isinstance(kid, bytes) else None


def _own(kid: bytes | None) -> PublicKey | None:
    """The key that a did:key is."""
    if kid is None or not kid.startswith(b"did:key:"):
        return None
    try:
        return publicfile.loads(kid)[0].key
    except OmsError:
        return None


def _refused(rule: str, expected: str | None = None, found: str | None = None) -> SignatureError:
    return SignatureError(RULES[rule].says, rule=rule, expected=expected, found=found)
