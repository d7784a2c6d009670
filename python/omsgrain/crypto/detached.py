# SPDX-License-Identifier: Apache-2.0
"""Signatures apart from what they sign: of files, and of those who agree to a supersession.

The payload of the COSE_Sign1 is nil; whoever verifies brings the data. Spec: RFC 9052 §4.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from omsgrain import _core
from omsgrain.crypto import cose
from omsgrain.crypto.did import Resolver, from_key
from omsgrain.crypto.envelope import Proof, issued
from omsgrain.crypto.keys import Signer
from omsgrain.errors import CorruptError, DidError, OmsError, RangeError
from omsgrain.grain import Grain
from omsgrain.header import as_bytes

#: Entries of supersession_auth that are looked at; each costs a verification.
MAX_ENTRIES = 256


def sign_detached(
    data: bytes | memoryview,
    signer: Signer,
    external_aad: bytes = b"",
    *,
    iat: int | None = None,
) -> bytes:
    """Sign data that stay where they are.

    Args:
        data: what is signed. It is copied once, since a signature is made over one piece.
        signer: who signs.
        external_aad: signed too; who verifies must bring the same.
        iat: when, in epoch seconds; left out, if not given.

    Returns:
        A COSE_Sign1 without payload.

    Raises:
        SignatureError: the signer gave no signature that holds.
        RangeError: iat is not a time.
    """
    iat = issued(iat, None)
    return cose.write(signer, data, detached=True, iat=iat, external_aad=external_aad)


def verify_detached(
    signature: bytes,
    data: bytes | memoryview,
    external_aad: bytes = b"",
    *,
    resolver: Resolver | None = None,
) -> Proof:
    """Verify a signature over data that stand elsewhere.

    Args:
        signature: a COSE_Sign1 without payload.
        data: what was signed.
        external_aad: as when it was signed.
        resolver: finds the key of a DID that is no did:key.

    Returns:
        Who signed.

    Raises:
        SignatureError: the signature does not hold.
        DidError: the signer's DID is malformed, or no key was found for it.
        CorruptError: no COSE_Sign1, or one with a payload.
    """
    message = _read(as_bytes(signature))
    message.check(data, external_aad, resolver)
    return Proof(str(message.did), message.iat)


def _read(signature: bytes) -> cose.Sign1:
    message = cose.read(signature)
    if message.payload is not None:
        raise CorruptError("the signature has a payload of its own", expected="nil")
    return message


def co_sign(claim: bytes, old_address: str, signer: Signer) -> bytes:
    """An entry of ``supersession_auth``: leave for one supersession. Spec: OMS §23.2.

    Args:
        claim: what the superseding grain claims, from `omsgrain.index.policy.claim`.
        old_address: of the grain that is to be superseded.
        signer: who agrees.

    Raises:
        HashFormatError, HashLengthError: the address is none.
        SignatureError: the signer gave no signature that holds.
    """
    return sign_detached(claim, signer, external_aad=_core.parse_address(old_address))


@dataclass(frozen=True, slots=True)
class CoSigners:
    """Who agrees to a supersession.

    Attributes:
        keys: of each DID of which an entry holds, the key that verified it, as a did:key.
        refused: position and refusal of the entries that do not hold.
    """

    keys: Mapping[str, str]
    refused: tuple[tuple[int, OmsError], ...]

    @property
    def dids(self) -> frozenset[str]:
        """DIDs of which an entry holds, each once."""
        return frozenset(self.keys)


def check_co_signers(
    new: Grain,
    claim: bytes,
    old_address: str,
    resolver: Resolver | None = None,
    *,
    authorized: Collection[str] | None = None,
) -> CoSigners:
    """Verify every entry of a grain's ``supersession_auth``. Spec: OMS §23.2.

    Args:
        new: the superseding grain.
        claim: what it claims, from `omsgrain.index.policy.claim`.
        old_address: of the grain that is to be superseded.
        resolver: finds the key of a DID that is no did:key.
        authorized: whose entries count. Others are refused unread, and the resolver is not asked
            for them: who wrote the grain could send it anywhere.

    Returns:
        The distinct DIDs of the entries that hold, and why others do not.

    Raises:
        HashFormatError, HashLengthError: the address is none.
        RangeError: more entries than anyone needs.
    """
    digest = _core.parse_address(old_address)
    entries = new.get("supersession_auth")
    if not isinstance(entries, list):  # absent; an opaque grain can have anything there
        entries = []
    if len(entries) > MAX_ENTRIES:
        raise RangeError(
            "too many signatures to look at",
            field="/supersession_auth",
            expected=f"at most {MAX_ENTRIES}",
            found=str(len(entries)),
        )
    keys: dict[str, str] = {}
    refused: list[tuple[int, OmsError]] = []
    for i, entry in enumerate(entries):
        try:
            if not isinstance(entry, bytes):
                raise CorruptError("not a signature", expected="bytes")
            message = _read(entry)
            did = str(message.did)
            if authorized is not None and did not in authorized:
                raise DidError("the signer is not among those who may agree")
            if did not in keys:
                keys[did] = from_key(message.check(claim, digest, resolver))
        except OmsError as error:
            error.field = f"/supersession_auth/{i}"
            refused.append((i, error))
    return CoSigners(MappingProxyType(keys), tuple(refused))


def co_signers(
    new: Grain,
    claim: bytes,
    old_address: str,
    resolver: Resolver | None = None,
    *,
    authorized: Collection[str] | None = None,
) -> frozenset[str]:
    """The distinct DIDs that agree to a supersession; entries that do not hold do not count.

    `check_co_signers` also says why.
    """
    return check_co_signers(new, claim, old_address, resolver, authorized=authorized).dids
