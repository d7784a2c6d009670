# SPDX-License-Identifier: Apache-2.0
"""Make keys, and sign grains and files with them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from omsgrain import _core
from omsgrain.durable import write_new
from omsgrain.errors import SignedMismatchError
from omsgrain.header import SIGNED_BIT
from omsgrain.ops.bundles import is_bundle
from omsgrain.ops.lookup import BLOB_LIMIT
from omsgrain.ops.opening import writable
from omsgrain.ops.signed import signed_text_of
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.crypto.signers import Format

_BLOB = b"\x01"
ENVELOPE = ".cose"


@dataclass(frozen=True, slots=True)
class SignedFile:
    """What was signed.

    Attributes:
        path: of the new file, an envelope or a detached signature.
        did: who signed.
        address: of the grain in the envelope; None of a detached signature.
    """

    path: Path
    did: str
    address: str | None


def keygen(
    file: Path, *, kind: Literal["ed25519", "p256"] = "ed25519", format: Format = "pem"
) -> str:
    """Make a key in a new file that only its owner may read."""
    from omsgrain.crypto.signers import SIGNERS

    signer = SIGNERS[kind].generate()
    signer.save(file, format)
    return signer.did


def sign(
    file: Path,
    key: Path,
    *,
    did: str | None = None,
    target: Path | None = None,
    detached: bool = False,
) -> SignedFile:
    """Sign a blob into an envelope, or any other file into a signature beside it.

    Of a bundle, what it says is signed, and not how it is spelled.
    """
    from omsgrain import crypto
    from omsgrain.crypto.detached import sign_file, signature_path

    signer = crypto.load_signer(key, did)
    now = int(time.time())
    address = None
    with file.open("rb") as stream:
        start = stream.read(1)
        blob = start + stream.read(BLOB_LIMIT) if start == _BLOB and not detached else None
    if blob is None:
        target = target or signature_path(file)
        if is_bundle(file):
            data = crypto.sign_detached(signed_text_of(file), signer, iat=now)
        else:
            data = sign_file(file, signer, iat=now)
    else:
        target = target or file.with_name(file.name + ENVELOPE)
        if len(blob) > 1 and blob[1] & SIGNED_BIT:
            text = "the signed bit is set, but there is no envelope"
            raise SignedMismatchError(text, offset=1)
        data = crypto.sign(blob, signer, iat=now)
        address = _core.address(_core.envelope_blob(data))
    write_new(target, data)
    return SignedFile(target, signer.did, address)


def sign_stored(
    store: Where,
    address: str,
    key: Path,
    *,
    did: str | None = None,
    justification: str | None = None,
    actor: str | None = None,
) -> tuple[str, str]:
    """Sign a grain of a store; errors are those of ``load_signer`` and ``GrainStore.sign``."""
    from omsgrain import crypto

    signer = crypto.load_signer(key, did)
    with writable(store, actor) as grains:
        return grains.sign(address, signer, justification=justification), signer.did
