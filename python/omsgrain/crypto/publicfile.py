# SPDX-License-Identifier: Apache-2.0
"""Public keys in files, with the names that go with them: COSE_Key, JWK, PEM, lines of DIDs.

    cose    {1: 1, 2: kid, 3: -8, -1: 6, -2: x}      or an array of such. RFC 9052 §7
    jwk     {"kty": "OKP", "crv": "Ed25519", ...}    RFC 7517, RFC 8037
    pem     -----BEGIN PUBLIC KEY-----               RFC 5280
    did     did:key:z6Mk..., one on a line

A file with a private key is taken too; only its public half is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cbor2
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from omsgrain.crypto import disk, keyfile
from omsgrain.crypto.did import PublicKey, Resolver, from_key, resolve
from omsgrain.errors import KeyMissingError, OmsError, SchemaError

__all__ = ["MEDIA_TYPE", "NamedKey", "dumps", "load", "loads"]

MEDIA_TYPE: Final = "application/cose-key"
_LIMIT = 64 << 10  # bytes; a key takes a few hundred
_MOST = 64  # keys of a file
_SIZE = 32  # bytes of a coordinate
_BROKEN = (OmsError, *keyfile.BROKEN)
_KTY, _KID, _ALG, _CRV, _X, _Y = 1, 2, 3, -1, -2, -3


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A public key, and what signatures may call it.

    Attributes:
        key: of Ed25519 or P-256.
        did: who it is: the DID that was given, else the did:key.
        names: as they stand in ``kid``: the did:key, and what the file calls it.
    """

    key: PublicKey
    did: str
    names: frozenset[bytes]


def load(path: str | Path, resolver: Resolver | None = None) -> list[NamedKey]:
    """Read the public keys of a file.

    Args:
        path: the file.
        resolver: finds the key of a DID that is no did:key.

    Raises:
        KeyMissingError: no public key that we know is in it, or more than 64 are.
        DidError: no key was found for one of its DIDs.
        OSError: it cannot be read.
    """
    return loads(disk.read_key(path, _LIMIT, private=False), resolver)


def loads(data: bytes, resolver: Resolver | None = None) -> list[NamedKey]:
    """Read public keys from the bytes of a file; arguments and errors are those of `load`."""
    if data.lstrip().startswith(b"did:"):
        names = data.decode("ascii", "replace").split()
        _refuse_many(len(names))
        return [_named(resolve(name, resolver), did=name) for name in names]
    found = _parse(data)
    if not found:
        raise KeyMissingError(
            "no public key of ours", expected="Ed25519 or P-256: COSE_Key, JWK, PEM, did:key"
        )
    _refuse_many(len(found))
    return found


def _refuse_many(count: int) -> None:
    """Who verifies with a part of the keys would find that somebody has not signed."""
    if count > _MOST:
        raise KeyMissingError(
            "too many public keys in a file", expected=f"at most {_MOST}", found=str(count)
        )


def dumps(key: PublicKey, kid: str | None = None) -> bytes:
    """A public key as COSE_Key. Spec: RFC 9052 §7, RFC 9053 §7.

    Args:
        key: of Ed25519 or P-256.
        kid: what signatures call it; by default its did:key.

    Raises:
        SchemaError: a name that is not of ASCII, as each DID is.
    """
    if kid is not None and not kid.isascii():
        raise SchemaError("not the name of a key", field="/kid", expected="ASCII")
    name = (from_key(key) if kid is None else kid).encode("ascii")
    if isinstance(key, Ed25519PublicKey):
        return cbor2.dumps({_KTY: 1, _KID: name, _ALG: -8, _CRV: 6, _X: key.public_bytes_raw()})
    point = key.public_numbers()
    x, y = (n.to_bytes(_SIZE, "big") for n in (point.x, point.y))
    return cbor2.dumps({_KTY: 2, _KID: name, _ALG: -7, _CRV: 1, _X: x, _Y: y})


def _named(key: PublicKey, *more: bytes, did: str | None = None) -> NamedKey:
    own = from_key(key)
    names = {own.encode(), *more} | ({did.encode()} if did else set())
    return NamedKey(key, own if did is None else did, frozenset(names))


def _parse(data: bytes) -> list[NamedKey]:
    start = data.lstrip()
    try:
        if start.startswith(b"-----BEGIN PUBLIC"):
            key = load_pem_public_key(data)
            return [_named(key)] if isinstance(key, PublicKey) else []
        if start.startswith(b"-----BEGIN"):
            return [_named(keyfile.loads(data).public_key())]
        if start.startswith(b"{"):
            jwk = json.loads(data)
            public = keyfile.public_from_jwk(jwk)
            kid = jwk.get("kid")
            more = (kid.encode(),) if isinstance(kid, str) else ()
            return [] if public is None else [_named(public, *more)]
        values = cbor2.loads(data)
        many = values if isinstance(values, list | tuple) else [values]
        return [one for value in many if (one := _of_cose(value)) is not None]
    except _BROKEN:
        return []


def _of_cose(value: Any) -> NamedKey | None:
    if not isinstance(value, Mapping):
        return None
    kind, x, y = (value.get(_KTY), value.get(_CRV)), value.get(_X), value.get(_Y)
    private = keyfile.from_cose(value)  # whose public half may be left out, or a part
    key: PublicKey
    if private is not None:
        key = private.public_key()
    elif not isinstance(x, bytes) or len(x) != _SIZE:
        return None
    elif kind == (1, 6):
        key = Ed25519PublicKey.from_public_bytes(x)
    elif kind == (2, 1) and isinstance(y, bool):  # the lowest bit of y
        key = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), bytes((2 | y,)) + x)
    elif kind == (2, 1) and isinstance(y, bytes) and len(y) == _SIZE:
        key = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), b"\x04" + x + y)
    else:
        return None
    kid = value.get(_KID)
    return _named(key, *((kid,) if isinstance(kid, bytes) else ()))
