# SPDX-License-Identifier: Apache-2.0
"""Signatures over whole files, kept beside them as ``NAME.sig``."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omsgrain.crypto.detached import sign_detached, verify_detached
from omsgrain.crypto.did import Resolver
from omsgrain.crypto.envelope import Proof
from omsgrain.crypto.keys import Signer
from omsgrain.errors import SignatureError

SUFFIX = ".sig"


def signature_path(path: str | Path) -> Path:
    """Where the signature of a file is looked for."""
    path = Path(path)
    return path.with_name(path.name + SUFFIX)


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
