# SPDX-License-Identifier: Apache-2.0
"""Who says it: identities, keys and signatures. Spec: OMS §9.

    did        DIDs and the public keys behind them
    keys       signers, and the check of one signature
    keyfile    private keys in files
    cose       COSE_Sign1 as bytes
    envelope   signed grains
    detached   signatures apart from what they sign, and of those who agree to a supersession
    files      signatures of files
    web        a resolver for did:web

A signature proves that a key signed these bytes. Whose key it is, and when it signed, it does not.
"""

from omsgrain.crypto import did
from omsgrain.crypto.detached import (
    CoSigners,
    check_co_signers,
    co_sign,
    co_signers,
    sign_detached,
    verify_detached,
)
from omsgrain.crypto.did import PublicKey, Resolver
from omsgrain.crypto.envelope import (
    Proof,
    Signed,
    open_signed,
    prove,
    sign,
    verify_signed,
    with_signed_bit,
)
from omsgrain.crypto.files import sign_file, verify_file
from omsgrain.crypto.keys import Ed25519Signer, ES256Signer, KeySigner, Signer, load_signer

__all__ = [
    "CoSigners",
    "ES256Signer",
    "Ed25519Signer",
    "KeySigner",
    "Proof",
    "PublicKey",
    "Resolver",
    "Signed",
    "Signer",
    "check_co_signers",
    "co_sign",
    "co_signers",
    "did",
    "load_signer",
    "open_signed",
    "prove",
    "sign",
    "sign_detached",
    "sign_file",
    "verify_detached",
    "verify_file",
    "verify_signed",
    "with_signed_bit",
]
