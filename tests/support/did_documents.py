# SPDX-License-Identifier: Apache-2.0
"""DID documents of did:web, as a site would serve them."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from omsgrain.crypto import PublicKey
from support.signers import ALICE

NAME = "did:web:example.com"


def base64url(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32, "big")).rstrip(b"=").decode()


def method(key: str = "#a", signer: Any = ALICE, **more: Any) -> dict[str, Any]:
    multikey = signer.did.removeprefix("did:key:")
    return {"id": key, "type": "Multikey", "publicKeyMultibase": multikey, **more}


def jwk(key: PublicKey) -> dict[str, str]:
    assert isinstance(key, EllipticCurvePublicKey)
    at = key.public_numbers()
    return {"kty": "EC", "crv": "P-256", "x": base64url(at.x), "y": base64url(at.y)}


def document(*methods: Any, uses: Any = None, **more: Any) -> bytes:
    listed = [m["id"] for m in methods] if uses is None else uses
    values = {"id": NAME, "verificationMethod": methods, "assertionMethod": listed}
    return json.dumps(values | more).encode()
