# SPDX-License-Identifier: Apache-2.0
"""Private keys in files: PEM (PKCS#8), JWK and COSE_Key.

    pem     -----BEGIN PRIVATE KEY-----              RFC 5958
    jwk     {"kty": "OKP", "crv": "Ed25519", ...}    RFC 7517, RFC 8037
    cose    {1: 1, -1: 6, -2: x, -4: d}              RFC 9052 §7, RFC 9053 §7

Only its owner may read a key file. An error says what is wrong with a file and never what is in
it; nor does it carry an error that does, so parsers answer None and the refusal is raised apart.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import cbor2
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
    derive_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from omsgrain.crypto import disk
from omsgrain.crypto.did import PublicKey
from omsgrain.errors import KeyMissingError, UnsupportedError

PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey
Format = Literal["pem", "jwk", "cose"]

#: What the parsers of keys raise; OpenSSL's errors come as InternalError.
BROKEN = (
    ValueError,
    TypeError,
    RecursionError,
    UnsupportedAlgorithm,
    InternalError,
    cbor2.CBORDecodeError,
)
_LIMIT = 64 << 10  # bytes; a key takes a few hundred
_SIZE = 32  # bytes of a private key, and of a coordinate


def load(path: str | Path) -> PrivateKey:
    """Read a private key; the file's beginning says in which format.

    Args:
        path: a file that only its owner may read. A pipe will do.

    Raises:
        KeyMissingError: no private key that we know is in it, it is a directory or a pipe without
            a writer, or others may read it (Windows is not asked).
        OSError: it cannot be read.
    """
    return loads(disk.read_key(path, _LIMIT))


def loads(data: bytes) -> PrivateKey:
    """Read a private key from the bytes of a key file.

    Raises:
        KeyMissingError: no private key that we know is in them.
    """
    key = _parse(data)
    if key is None:
        raise KeyMissingError(
            "no private key of ours", expected="Ed25519 or P-256, without password: PEM, JWK, COSE"
        )
    return key


def save(key: PrivateKey, path: str | Path, format: Format = "pem") -> None:
    """Write a private key to a new file, mode 0600; it is on the disk when this returns.

    Args:
        key: of Ed25519 or P-256.
        path: of a file that is not there; a key is never overwritten.
        format: "pem", "jwk" or "cose".

    Raises:
        UnsupportedError: no such format.
        OSError: the file is there (FileExistsError), or cannot be written.
    """
    data = dumps(key, format)
    disk.write_new(Path(path), data)  # its name too: the DID is used from now on


def dumps(key: PrivateKey, format: Format = "pem") -> bytes:
    """The bytes of a key file.

    Raises:
        UnsupportedError: no such format.
    """
    if format == "pem":
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if format not in ("jwk", "cose"):
        raise UnsupportedError("no such key format", expected="pem, jwk or cose")
    if isinstance(key, Ed25519PrivateKey):
        x, y = key.public_key().public_bytes_raw(), None
        d = key.private_bytes_raw()
    else:
        numbers = key.private_numbers()
        point = numbers.public_numbers
        x, y, d = (n.to_bytes(_SIZE, "big") for n in (point.x, point.y, numbers.private_value))
    return _jwk(x, y, d) if format == "jwk" else _cose(x, y, d)


def _jwk(x: bytes, y: bytes | None, d: bytes) -> bytes:
    kind = {"kty": "OKP", "crv": "Ed25519"} if y is None else {"kty": "EC", "crv": "P-256"}
    values = {"x": x, "y": y, "d": d}
    text = {name: _to_base64(value) for name, value in values.items() if value is not None}
    return json.dumps(kind | text).encode() + b"\n"


def _cose(x: bytes, y: bytes | None, d: bytes) -> bytes:
    if y is None:
        return cbor2.dumps({1: 1, -1: 6, -2: x, -4: d})
    return cbor2.dumps({1: 2, -1: 1, -2: x, -3: y, -4: d})


def public_from_jwk(jwk: Mapping[str, Any]) -> PublicKey | None:
    """The public key in a JWK; None if it is no key of ours. Spec: RFC 7517, RFC 8037."""
    kind = (jwk.get("kty"), jwk.get("crv"))
    x, y = _from_base64(jwk.get("x")), _from_base64(jwk.get("y"))
    if kind == ("OKP", "Ed25519") and x is not None:
        return Ed25519PublicKey.from_public_bytes(x)
    if kind == ("EC", "P-256") and x is not None and y is not None:
        return _point(x, y)
    return None


def _point(x: bytes, y: bytes) -> EllipticCurvePublicKey | None:
    at_x, at_y = int.from_bytes(x, "big"), int.from_bytes(y, "big")
    try:
        return EllipticCurvePublicNumbers(at_x, at_y, SECP256R1()).public_key()
    except ValueError:
        return None


def _parse(data: bytes) -> PrivateKey | None:
    start = data.lstrip()
    read: Callable[[bytes], PrivateKey | None] = _from_cose
    if start.startswith(b"-----BEGIN"):
        read = _from_pem
    elif start.startswith(b"{"):
        read = _from_jwk
    try:
        return read(data)
    except BROKEN:
        return None


def _from_pem(data: bytes) -> PrivateKey | None:
    key = load_pem_private_key(data, password=None)
    if isinstance(key, EllipticCurvePrivateKey):
        return key if isinstance(key.curve, SECP256R1) else None
    return key if isinstance(key, Ed25519PrivateKey) else None


def _from_jwk(data: bytes) -> PrivateKey | None:
    jwk = json.loads(data)
    public, secret = public_from_jwk(jwk), _from_base64(jwk.get("d"))
    if public is None or secret is None:
        return None
    key = _private(isinstance(public, Ed25519PublicKey), secret)
    return key if key is not None and key.public_key() == public else None


def _from_cose(data: bytes) -> PrivateKey | None:
    return from_cose(cbor2.loads(data))


def from_cose(values: object) -> PrivateKey | None:
    """The private key in a COSE_Key; None if it is no key of ours. Spec: RFC 9052 §7."""
    if not isinstance(values, Mapping):
        return None
    kind, secret = (values.get(1), values.get(-1)), values.get(-4)
    if kind not in ((1, 6), (2, 1)) or not isinstance(secret, bytes):
        return None
    key = _private(kind == (1, 6), secret)
    if key is None:
        return None
    # The public half may be left out, and y may be only its lowest bit.
    own = cbor2.loads(dumps(key, "cose"))
    y = values.get(-3, own.get(-3))
    if isinstance(y, bool):
        y = own[-3] if y == own[-3][-1] & 1 else None
    same = values.get(-2, own[-2]) == own[-2] and y == own.get(-3)
    return key if same else None


def _private(ed25519: bool, secret: bytes) -> PrivateKey | None:
    if len(secret) != _SIZE:
        return None
    if ed25519:
        return Ed25519PrivateKey.from_private_bytes(secret)
    try:
        return derive_private_key(int.from_bytes(secret, "big"), SECP256R1())
    except ValueError:  # it is no number of that curve
        return None


def _to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _from_base64(text: object) -> bytes | None:
    """The 32 bytes that the text stands for, if it is the one text that does."""
    if not isinstance(text, str) or len(text) > _SIZE * 2:
        return None
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if len(data) == _SIZE and _to_base64(data) == text else None
