# SPDX-License-Identifier: Apache-2.0
"""Detached signatures: of files, and of co-signers of a supersession.

The payload of the COSE_Sign1 is nil; the verifier supplies the data. Spec: RFC 9052 §4.1.
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

#: The most entries of supersession_auth; each costs a verification.
MAX_ENTRIES = 256


def sign_detached(
    data: bytes | memoryview,
    signer: Signer,
    external_aad: bytes = b"",
    *,
    iat: int | None = None,
) -> bytes:
    """Sign data with a detached signature.

    Args:
        data: The data. It is copied once, since a signature covers one piece.
        signer: The signer.
        external_aad: Further signed bytes; the verifier must supply the same.
        iat: The time in epoch seconds; by default left out.

    Returns:
        A COSE_Sign1 without payload.

    Raises:
        SignatureError: The signer returned no valid signature.
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
    """Verify a detached signature.

    Args:
        signature: A COSE_Sign1 without payload.
        data: The signed data.
        external_aad: As for signing.
        resolver: Finds the key of a DID other than did:key.

    Returns:
        The signer, and its claim of the time.

    Raises:
        SignatureError: The signature is not valid.
        DidError: The signer's DID is malformed, or no key was found for it.
        CorruptError: Not a COSE_Sign1, or one with a payload.
    """
    message = _read(as_bytes(signature))
    message.check(data, external_aad, resolver)
    return Proof(str(message.did), message.iat)


def _read(signature: bytes) -> cose.Sign1:
    message = cose.read(signature)
    if message.payload is not None:
        raise CorruptError("the signature is not detached: it has a payload", expected="nil")
    return message


def co_sign(claim: bytes, old_address: str, signer: Signer) -> bytes:
    """Make an entry of ``supersession_auth``: consent to one supersession. Spec: OMS §23.2.

    Args:
        claim: The claim of the superseding grain, from `omsgrain.policy.claim`.
        old_address: The address of the grain to supersede.
        signer: The co-signer.

    Raises:
        HashFormatError, HashLengthError: The address is malformed. SignatureError: The signer
        returned no valid signature.
    """
    return sign_detached(claim, signer, external_aad=_core.parse_address(old_address))


@dataclass(frozen=True, slots=True)
class CoSigners:
    """The co-signers of a supersession.

    Attributes:
        keys: For each DID with a valid entry, the key that verified it, as a did:key.
        refused: Position and refusal of each invalid entry.
    """

    keys: Mapping[str, str]
    refused: tuple[tuple[int, OmsError], ...]

    @property
    def dids(self) -> frozenset[str]:
        """DIDs with a valid entry, each once."""
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
        new: The superseding grain.
        claim: Its claim, from `omsgrain.policy.claim`.
        old_address: The address of the grain to supersede.
        resolver: Finds the key of a DID other than did:key.
        authorized: The DIDs whose entries count. Other entries are refused without a call of the
            resolver: the author of the grain could choose the host to look up.

    Returns:
        The distinct DIDs of the valid entries, and the refusals of the others.

    Raises:
        HashFormatError, HashLengthError: The address is malformed. RangeError: There are too many
        entries.
    """
    digest = _core.parse_address(old_address)
    entries = new.get("supersession_auth")
    if not isinstance(entries, list):  # absent; an opaque grain can have any value there
        entries = []
    if len(entries) > MAX_ENTRIES:
        raise RangeError(
            "too many signatures",
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
                raise DidError("the signer is not one of the authorized co-signers")
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
    """Return the distinct DIDs that agree to a supersession; invalid entries do not count.

    `check_co_signers` also returns the refusals.
    """
    return check_co_signers(new, claim, old_address, resolver, authorized=authorized).dids


SUFFIX = ".sig"


def signature_path(path: str | Path) -> Path:
    path = Path(path)
    return path.with_name(path.name + SUFFIX)


def beside(path: str | Path) -> bytes | None:
    """Return the signature in FILE.sig, or the beginning of a file that is too large.

    None if there is none.
    """
    found = signature_path(path)
    if not os.path.lexists(found):
        return None
    if found.exists() and not found.is_file():  # a pipe may never end
        raise SignatureError("not a signature", rule="signature_invalid", expected="a file")
    with found.open("rb") as stream:
        return stream.read(MAX_OVERHEAD + 1)


def sign_file(path: str | Path, signer: Signer, *, iat: int | None = None) -> bytes:
    """Sign all bytes of a file: a container, a bundle, anything.

    The whole file is read into memory, since Ed25519 signs one piece.

    Args:
        path: The file.
        signer: The signer.
        iat: The time in epoch seconds; by default left out.

    Returns:
        A detached COSE_Sign1.

    Raises:
        SignatureError: The signer returned no valid signature.
        OSError: The file cannot be read.
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
        path: The file.
        signature: A detached COSE_Sign1; by default that in ``NAME.sig``.
        signer: The DID that must have signed it; by default any.
        resolver: Finds the key of a DID other than did:key.

    Returns:
        The signer, and its claim of the time.

    Raises:
        SignatureError: The signature is not valid, or another key made it.
        OmsError: As for `verify_detached`.
        OSError: A file cannot be read.
    """
    if signature is None:
        signature = signature_path(path).read_bytes()
    with mapped(path) as data:
        proof = verify_detached(signature, data, resolver=resolver)
    if signer not in (None, proof.signer):
        raise SignatureError(
            "the file is signed by another DID",
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
    """Return the common signer of all bytes of some files, by the signatures next to them."""
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
    """Yield the bytes of a file, read on demand."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # nothing to map; a pipe is read instead
            yield memoryview(file.read())
            return
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages,
            memoryview(pages) as data,
        ):
            yield data
