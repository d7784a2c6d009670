# SPDX-License-Identifier: Apache-2.0
"""Whose signatures count, and the check that a trusted key has signed."""

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
"""What was done about a signature before an import; the audit trail says it."""

_SAYS: Final = {
    "signature_invalid": "the signature does not hold",
    "signature_untrusted": "no trusted key has signed it",
    "signature_missing": "it is not signed",
}


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose signatures count.

    Attributes:
        keys: their public keys.
    """

    keys: tuple[NamedKey, ...] = ()

    @classmethod
    def load(cls, sources: Iterable[str | Path], resolver: Resolver | None = None) -> Trust:
        """Gather keys."""
        keys: list[NamedKey] = []
        for source in sources:
            if isinstance(source, str) and source.startswith("did:"):
                keys += signers.loads_public(source.encode(), resolver)
            else:
                keys += signers.load_public(source, resolver)
        return cls(tuple(keys))

    def resolver(self, other: Resolver | None = None) -> Resolver:
        """Return a resolver that knows the trusted keys by name, and asks another for the rest."""

        def find(did: str) -> PublicKey | str:
            for one in self.keys:
                if did.encode() in one.names:
                    return one.key
            if other is None:
                raise DidError("a resolver is needed for this DID", expected="did:key without one")
            return other(did)

        return find

    def confirm(self, signer: str, resolver: Resolver | None = None) -> None:
        """See that the key of a signer, whose signature holds, is a trusted key."""
        try:
            found = from_key(resolve(signer, resolver))
        except DidError:
            found = None
        if found not in {from_key(one.key) for one in self.keys}:
            raise _refused("signature_untrusted", "a trusted key's signature", signer)


def missing() -> SignatureError:
    """The error that a signature is required, and there is none."""
    return _refused("signature_missing")


def check(
    signature: bytes | None,
    data: bytes | memoryview | Pieces,
    trust: Trust | None,
    *,
    required: bool = False,
    resolver: Resolver | None = None,
) -> Proof | None:
    """See that a trusted key has signed data that lie elsewhere.

    The name of the key in the signature is a hint: where none of the trusted keys has it, each is
    tried.
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
            raise _refused(
                "signature_untrusted", "a name whose key can be found, or whom you trust"
            )
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
    """Take a signature apart; nothing is verified."""
    try:
        parts = cose.take_apart(
            signature if signature[:1] == ENVELOPE_BYTE else ENVELOPE_BYTE + signature
        )
        cose.algorithm_of(parts.signed)
        cose.issued_at(parts)
    except OmsError as error:
        raise _refused("signature_invalid", found=error.message) from None
    if parts.payload is not None:
        raise _refused("signature_invalid", "no payload in it")
    return parts


def look(
    signature: bytes | None,
    data: bytes | memoryview | Pieces,
    trust: Trust,
    *,
    required: bool = False,
    resolver: Resolver | None = None,
) -> Checked:
    """Say what a signature is worth before an import; arguments and errors are those of `check`.

    With no key to trust, and no signature required, a signature that may hold is ``skipped``: one
    that is none, or provably false, is refused even so.
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
    """The key that a DID names; None if it cannot be found, or the name is no DID."""
    if kid is None:
        return None
    try:
        return resolve(kid.decode("ascii"), resolver)
    except (UnicodeDecodeError, OmsError):
        return None


def _refused(rule: str, expected: str | None = None, found: str | None = None) -> SignatureError:
    return SignatureError(_SAYS[rule], rule=rule, expected=expected, found=found)
