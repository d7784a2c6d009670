# SPDX-License-Identifier: Apache-2.0
"""Trusted keys, and the check that one of them has signed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from omsgrain.crypto import cose, signers
from omsgrain.crypto.cose import Proof
from omsgrain.crypto.did import PublicKey, Resolver, from_key, parse, resolve
from omsgrain.crypto.signers import NamedKey, Pieces, verify
from omsgrain.errors import DidError, OmsError, SignatureError
from omsgrain.header import ENVELOPE_BYTE

Checked: TypeAlias = Literal["verified", "skipped", "missing"]
"""The result of checking a signature before an import; the audit trail contains it."""

_SAYS: Final = {
    "signature_invalid": "the signature is not valid",
    "signature_untrusted": "no trusted key has signed it",
    "signature_missing": "it is not signed",
}


@dataclass(frozen=True, slots=True)
class Trust:
    """A set of trusted keys."""

    keys: tuple[NamedKey, ...] = ()

    @classmethod
    def load(cls, sources: Iterable[str | Path], resolver: Resolver | None = None) -> Trust:
        """Load keys from files and DIDs."""
        keys: list[NamedKey] = []
        for source in sources:
            if isinstance(source, str) and source.startswith("did:"):
                keys += signers.loads_public(source.encode(), resolver)
            else:
                keys += signers.load_public(source, resolver)
        return cls(tuple(keys))

    def resolver(self, other: Resolver | None = None) -> Resolver:
        """Return a resolver of the trusted keys by name, which calls another for the rest."""

        def find(did: str) -> PublicKey | str:
            for one in self.keys:
                if did.encode() in one.names:
                    return one.key
            if other is None:
                raise DidError("a resolver is needed for this DID", expected="did:key without one")
            return other(did)

        return find

    def confirm(self, signer: str, resolver: Resolver | None = None) -> None:
        """Check that the key of a signer with a valid signature is a trusted key."""
        try:
            found = from_key(resolve(signer, resolver))
        except DidError:
            found = None
        if found not in {from_key(one.key) for one in self.keys}:
            raise _refused("signature_untrusted", "a trusted key's signature", signer)


def missing() -> SignatureError:
    """Return the error for a missing required signature."""
    return _refused("signature_missing")


def check(
    signature: bytes | None,
    data: bytes | memoryview | Pieces,
    trust: Trust | None,
    *,
    required: bool = False,
    resolver: Resolver | None = None,
) -> Proof | None:
    """Check that a trusted key has signed detached data.

    The name of the key in the signature is a hint: if no trusted key has it, each is tried.
    """
    if signature is None:
        if required:
            raise missing()
        return None
    parts = read(signature)
    alg, iat = cose.algorithm_of(parts.signed), cose.issued_at(parts)
    signed: bytes | Pieces
    if callable(data):
        signed = cose.pieces_to_be_signed(parts.protected, b"", data)
    else:
        signed = cose.to_be_signed(parts.protected, b"", data)
    kid = _bytes(parts.signed.get(cose.KID, parts.unprotected.get(cose.KID)))
    own = _own(kid, resolver)
    if trust is None:
        if own is None:
            raise _refused("signature_untrusted", "a DID whose key can be found, or a trusted key")
        if kid is None or not _holds(own, alg, parts.signature, signed):
            raise _refused("signature_invalid")
        return Proof(str(parse(kid.decode("ascii"))), iat)
    named = [one for one in trust.keys if kid in one.names]
    for one in named or trust.keys:
        if _holds(one.key, alg, parts.signature, signed):
            return Proof(one.did, iat)
    if named or (own is not None and not _holds(own, alg, parts.signature, signed)):
        raise _refused("signature_invalid")
    raise _refused("signature_untrusted", "a trusted key's signature")


def read(signature: bytes) -> cose.EnvelopeParts:
    """Split a signature into its parts; nothing is verified."""
    try:
        parts = cose.take_apart(
            signature if signature[:1] == ENVELOPE_BYTE else ENVELOPE_BYTE + signature
        )
        cose.algorithm_of(parts.signed)
        cose.issued_at(parts)
    except OmsError as error:
        raise _refused("signature_invalid", found=error.message) from None
    if parts.payload is not None:
        raise _refused("signature_invalid", "a detached signature")
    return parts


def look(
    signature: bytes | None,
    data: bytes | memoryview | Pieces,
    trust: Trust,
    *,
    required: bool = False,
    resolver: Resolver | None = None,
) -> Checked:
    """Check a signature before an import; arguments and errors are those of `check`.

    Without trusted keys, and if no signature is required, a signature whose key is unknown is
    ``skipped``. A malformed or invalid one is refused even then.
    """
    try:
        proof = check(signature, data, trust, required=required, resolver=resolver)
    except SignatureError as error:
        if error.rule == "signature_untrusted" and not trust.keys and not required:
            return "skipped"
        raise
    return "missing" if proof is None else "verified"


def _holds(key: PublicKey, alg: int, signature: bytes, data: bytes | Pieces) -> bool:
    try:
        verify(key, alg, signature, data)
    except OmsError:
        return False
    return True


def _bytes(kid: object) -> bytes | None:
    if isinstance(kid, str):
        return kid.encode()
    return kid if isinstance(kid, bytes) else None


def _own(kid: bytes | None, resolver: Resolver | None) -> PublicKey | None:
    """Return the key of a DID; None if it cannot be found, or the name is not a DID."""
    if kid is None:
        return None
    try:
        return resolve(kid.decode("ascii"), resolver)
    except (UnicodeDecodeError, OmsError):
        return None


def _refused(rule: str, expected: str | None = None, found: str | None = None) -> SignatureError:
    return SignatureError(_SAYS[rule], rule=rule, expected=expected, found=found)
