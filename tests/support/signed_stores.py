# SPDX-License-Identifier: Apache-2.0
"""Stores of both kinds whose grains are signed, and DIDs that need a resolver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import omsgrain as og
from omsgrain.crypto import Ed25519Signer, PublicKey, Signer, sign
from omsgrain.crypto.did import resolve
from omsgrain.errors import DidError
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings
from support.signers import ALICE, FIELDS, IAT
from support.store_kinds import POSTGRES, made

KINDS = ("memory", "lmdb")
EVERYWHERE = (*KINDS, POSTGRES)
WEB = "did:web:robots.example"
#: Alice under a name that does not hold her key.
WEB_ALICE = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))), WEB)


def make(kind: str, path: Path, **settings: Any) -> GrainStore:
    return GrainStore(made(kind, path / "signed.omsg"), Settings(actor="tester", **settings))


def find_web(did: str) -> PublicKey:
    """A resolver that knows one DID."""
    if did != WEB:
        raise DidError("nobody by that name")
    return resolve(ALICE.did)


def belief(what: str, **fields: Any) -> dict[str, Any]:
    return {**FIELDS, "object": what, **fields}


def signed(fields: dict[str, Any], *signers: Signer) -> list[bytes]:
    """The envelopes of a grain, one for each signer."""
    return [sign(og.Grain(og.encode(fields)), one, iat=IAT) for one in signers]


def signed_by(signer: Signer, fields: dict[str, Any]) -> bytes:
    """The envelope of a grain."""
    return signed(fields, signer)[0]
