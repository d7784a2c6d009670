# SPDX-License-Identifier: Apache-2.0
"""Signatures apart from what they sign: of files, and of those who agree to a supersession.

The payload of the COSE_Sign1 is nil; the verifier brings the data. Spec: RFC 9052 §4.1.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from omsgrain import _core
from omsgrain.crypto import cose
from omsgrain.crypto.cose import MAX_OVERHEAD, Proof, issued
from omsgrain.crypto.did import Resolver, from_key
from omsgrain.crypto.signers import Signer
from omsgrain.crypto.trust import Trust, check
from omsgrain.errors import CorruptError, DidError, OmsError, RangeError, SignatureError
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
        external_aad: signed too; the verifier must bring the same.
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
    """Verify a signature over data that are elsewhere.

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
        claim: what the superseding grain claims, from `omsgrain.policy.claim`.
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
        claim: what it claims, from `omsgrain.policy.claim`.
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


SUFFIX = ".sig"


def signature_path(path: str | Path) -> Path:
    """Where the signature of a file is looked for."""
    path = Path(path)
    return path.with_name(path.name + SUFFIX)


def beside(path: str | Path) -> bytes | None:
    """The signature in FILE.sig, or the beginning of what is too large for one.

    None without one.
    """
    found = signature_path(path)
    if not os.path.lexists(found):
        return None
    if found.exists() and not found.is_file():  # a pipe has no end
        raise SignatureError("not a signature", rule="signature_invalid", expected="a file")
    with found.open("rb") as stream:
        return stream.read(MAX_OVERHEAD + 1)


def sign_file(path: str | Path, signer: Signer, *, iat: int | None = None) -> bytes:
    """Sign all bytes of a file: a container, a bundle, anything.

    Memory is needed for the whole file, since Ed25519 signs one piece.

    Args:
        path: the file.
        signer: who signs.
        iat: when, in epoch seconds; left out, if not given.

    Returns:
        A detached COSE_Sign1.

    Raises:
        SignatureError: the signer gave no signature that holds.
        OSError: the file cannot be read.
    """
    with mapped(path) as data:
        return sign_detached(data, signer, iat=iat)


def verify_file(
    path: str | Path,
    signature: bytes | None = None,
    *,
    signer: str | None = None,
    resolver: Resolver | None = None,
) -> Proof:
    """Verify the signature over all bytes of a file.

    Args:
        path: the file.
        signature: a detached COSE_Sign1; that in ``NAME.sig``, if not given.
        signer: the DID that must have signed it; without one, anybody may have.
        resolver: finds the key of a DID that is no did:key.

    Returns:
        Who signed.

    Raises:
        SignatureError: the signature does not hold, or another key made it.
        OmsError: as for `verify_detached`.
        OSError: a file cannot be read.
    """
    if signature is None:
        signature = signature_path(path).read_bytes()
    with mapped(path) as data:
        proof = verify_detached(signature, data, resolver=resolver)
    if signer not in (None, proof.signer):
        raise SignatureError(
            "the file is signed by somebody else",
            rule="signature_untrusted",
            expected=signer,
            found=proof.signer,
        )
    return proof


def signer_of(
    parts: Iterable[tuple[Path, mmap.mmap]],
    trust: Trust | None = None,
    resolver: Resolver | None = None,
) -> str | None:
    """Return the signer of every byte of some files, by the signatures beside them."""
    found = {_signer(path, data, trust, resolver) for path, data in parts}
    return found.pop() if len(found) == 1 else None


def _signer(
    path: Path, whole: mmap.mmap, trust: Trust | None, resolver: Resolver | None
) -> str | None:
    signature = beside(path)
    with memoryview(whole) as data:
        for known in (trust, None) if trust is not None and trust.keys else (None,):
            try:
                proof = check(signature, data, known, resolver=resolver)
            except SignatureError as error:
                if error.rule != "signature_untrusted":
                    raise
            else:
                return None if proof is None else proof.signer
    return None


@contextmanager
def mapped(path: str | Path) -> Iterator[memoryview]:
    """The bytes of a file, read as they are needed."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # nothing to map; a pipe is read instead
            yield memoryview(file.read())
            return
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages,
            memoryview(pages) as data,
        ):
            yield data
