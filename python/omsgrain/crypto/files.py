# SPDX-License-Identifier: Apache-2.0
"""Signatures over whole files, kept beside them as ``NAME.sig``."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from omsgrain.crypto.cose import MAX_OVERHEAD
from omsgrain.crypto.detached import sign_detached, verify_detached
from omsgrain.crypto.did import Resolver
from omsgrain.crypto.envelope import Proof
from omsgrain.crypto.keys import Signer
from omsgrain.crypto.trust import Trust, check
from omsgrain.errors import SignatureError

SUFFIX = ".sig"


def signature_path(path: str | Path) -> Path:
    """Where the signature of a file is looked for."""
    path = Path(path)
    return path.with_name(path.name + SUFFIX)


def beside(path: str | Path) -> bytes | None:
    """The signature in FILE.sig, or the beginning of what is too large for one; None without one.

    Raises:
        SignatureError: what lies there is no file.
        OSError: it cannot be read.
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
    """Return who has signed every byte of some files, by the signatures beside them.

    Args:
        parts: the files of one export, or of one sync: what is verified is what is used.
        trust: keys; who has one of them goes by the name that it was given with.
        resolver: finds the key of a DID that is no did:key.

    Returns:
        A DID; None if a part is not signed, or they are signed by several, or by somebody whose
        key cannot be found.

    Raises:
        SignatureError: a signature does not hold.
        OSError: one cannot be read.
    """
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
