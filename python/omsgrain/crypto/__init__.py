# SPDX-License-Identifier: Apache-2.0
"""Identities, keys and signatures. Spec: OMS §9.

    did          DIDs and the public keys behind them
    did_web      a resolver for did:web
    signers      signers, the check of one signature, key files
    cose         COSE_Sign1 as bytes; signed grains
    detached     detached signatures: of files, and for supersessions
    trust        trusted keys
    disclosure   views of grains without some of their fields
    seal         sealed grains
    keyring      the keys of all users, in a file that can destroy each
    master_key   the master key, which opens that file
    private_file files that only their owner may read

A signature proves that a key signed these bytes. It does not prove the owner of the key, nor the
time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omsgrain.crypto import did
from omsgrain.crypto.cose import (
    Proof,
    Signed,
    open_many,
    open_signed,
    prove,
    prove_many,
    sign,
    verify_signed,
    with_signed_bit,
)
from omsgrain.crypto.detached import (
    CoSigners,
    check_co_signers,
    co_sign,
    co_signers,
    sign_detached,
    sign_file,
    verify_detached,
    verify_file,
)
from omsgrain.crypto.did import PublicKey, Resolver
from omsgrain.crypto.signers import Ed25519Signer, ES256Signer, KeySigner, Signer, load_signer

if TYPE_CHECKING:
    from omsgrain.crypto.disclosure import Disclosed, check_disclosure, disclose, reveal
    from omsgrain.crypto.keyring import KeyRing, KeyStats
    from omsgrain.crypto.master_key import Master

__all__ = [
    "CoSigners",
    "Disclosed",
    "ES256Signer",
    "Ed25519Signer",
    "KeyRing",
    "KeySigner",
    "KeyStats",
    "Master",
    "Proof",
    "PublicKey",
    "Resolver",
    "Signed",
    "Signer",
    "check_co_signers",
    "check_disclosure",
    "co_sign",
    "co_signers",
    "did",
    "disclose",
    "load_signer",
    "open_many",
    "open_signed",
    "prove",
    "prove_many",
    "reveal",
    "sign",
    "sign_detached",
    "sign_file",
    "verify_detached",
    "verify_file",
    "verify_signed",
    "with_signed_bit",
]

_LATER = {
    "Disclosed": "disclosure",
    "KeyRing": "keyring",
    "KeyStats": "keyring",
    "Master": "master_key",
    "check_disclosure": "disclosure",
    "disclose": "disclosure",
    "reveal": "disclosure",
}


def __getattr__(name: str) -> Any:
    """Import modules that most signing programs do not use on first access."""
    if name not in _LATER:
        raise AttributeError(f"module 'omsgrain.crypto' has no attribute {name!r}")
    return getattr(import_module(f"omsgrain.crypto.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return __all__
