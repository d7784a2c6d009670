# SPDX-License-Identifier: Apache-2.0
"""Private keys in files: PEM (PKCS#8), JWK and COSE_Key.

    pem     -----BEGIN PRIVATE KEY-----              RFC 5958
    jwk     {"kty": "OKP", "crv": "Ed25519", ...}    RFC 7517, RFC 8037
    cose    {1: 1, -1: 6, -2: x, -4: d}              RFC 9052 §7, RFC 9053 §7

Only its owner may read a key file. An error describes the problem of a file, never its content. An
error must not chain another one with content, so parsers return None and the caller raises.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Protocol, TypeAlias

import cbor2
from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import (
    Prehashed,
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from omsgrain import _core
from omsgrain.crypto import private_file
from omsgrain.crypto.did import PublicKey, Resolver, from_key, parse, resolve
from omsgrain.errors import (
    KeyMissingError,
    OmsError,
    SchemaError,
    SignatureError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from typing_extensions import Self

PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey
Format = Literal["pem", "jwk", "cose"]

#: The errors of key parsers; OpenSSL's errors appear as InternalError.
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


def load_private(path: str | Path) -> PrivateKey:
    """Read a private key in the format that the file's beginning shows."""
    return loads_private(private_file.read_key(path, _LIMIT))


def loads_private(data: bytes) -> PrivateKey:
    """Read a private key from the bytes of a key file."""
    key = _parse_private(data)
    if key is None:
        raise KeyMissingError(
            "not a supported private key",
            expected="Ed25519 or P-256, without password: PEM, JWK, COSE",
        )
    return key


def save_private(key: PrivateKey, path: str | Path, format: Format = "pem") -> None:
    """Write a private key to a new file, mode 0600; it is on the disk when this returns."""
    data = dumps_private(key, format)
    private_file.write_new(Path(path), data)  # its name too: the DID is used from now on


def dumps_private(key: PrivateKey, format: Format = "pem") -> bytes:
    if format == "pem":
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if format not in ("jwk", "cose"):
        raise UnsupportedError("unknown key format", expected="pem, jwk or cose")
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
    """Return the public key in a JWK; None if it is not supported. Spec: RFC 7517, RFC 8037."""
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


def _parse_private(data: bytes) -> PrivateKey | None:
    start = data.lstrip()
    try:
        if start.startswith(b"-----BEGIN"):
            return _from_pem(data)
        if start.startswith(b"{"):
            return _from_jwk(data)
        return from_cose(cbor2.loads(data))
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


def from_cose(values: object) -> PrivateKey | None:
    """Return the private key in a COSE_Key; None if it is not supported. Spec: RFC 9052 §7."""
    if not isinstance(values, Mapping):
        return None
    kind, secret = (values.get(1), values.get(-1)), values.get(-4)
    if kind not in ((1, 6), (2, 1)) or not isinstance(secret, bytes):
        return None
    key = _private(kind == (1, 6), secret)
    if key is None:
        return None
    # The public half may be left out, and y may be only its lowest bit.
    own = cbor2.loads(dumps_private(key, "cose"))
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
    except ValueError:  # the number is out of range for the curve
        return None


def _to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _from_base64(text: object) -> bytes | None:
    """Return the 32 bytes of a text in canonical base64; None otherwise."""
    if not isinstance(text, str) or len(text) > _SIZE * 2:
        return None
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if len(data) == _SIZE and _to_base64(data) == text else None


#: Numbers of COSE algorithms. Spec: RFC 9053 §2, RFC 9864
EDDSA, ES256, ED25519 = -8, -7, -19
SIGNATURE = 64
_HALF = SIGNATURE // 2
_ECDSA, _ECDSA_OF_DIGEST = ECDSA(SHA256()), ECDSA(Prehashed(SHA256()))

Pieces: TypeAlias = Callable[[], Iterable[bytes]]
"""Data too large for the memory: each call yields its pieces from the beginning."""


class Signer(Protocol):
    """A signer: a key here, a hardware key, a key service.

    A signer whose `did` is not a did:key also has an attribute ``alg``, -8 (EdDSA) or -7 (ES256).
    """

    @property
    def did(self) -> str:
        """The DID of the signatures."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Sign the data, not a hash of them.

        Returns:
            64 bytes: the signature of Ed25519, or r and s of ECDSA with SHA-256, 32 bytes each.
        """
        ...


class KeySigner(ABC):
    """A private key in this process."""

    __slots__ = ("_did", "_key")

    alg: ClassVar[int]

    def __init__(self, key: PrivateKey, did: str | None = None) -> None:
        """Sign with a key.

        Args:
            key: A private key of `cryptography`.
            did: The DID of the signatures; its document has the key, and a fragment selects one of
                several. By default the did:key.

        Raises:
            KeyMissingError: The key is of another kind.
            DidError: Invalid DID.
        """
        self._check(key)
        own = from_key(key.public_key())
        if did is not None and parse(did).method == "key" and did != own:
            raise KeyMissingError("the did:key belongs to another key")
        self._key = key
        self._did = own if did is None else did

    @classmethod
    @abstractmethod
    def _check(cls, key: PrivateKey) -> None: ...

    @classmethod
    @abstractmethod
    def _new(cls) -> PrivateKey: ...

    @classmethod
    def generate(cls) -> Self:
        """Make a new key. It exists only in memory until ``save``."""
        return cls(cls._new())

    @classmethod
    def load(cls, path: str | Path, did: str | None = None) -> Self:
        """Read a key file.

        Args:
            path: PEM, JWK or COSE_Key.
            did: As for the class.

        Raises:
            KeyMissingError: The file has no key of this kind, or others may read it.
            OSError: The file cannot be read.
        """
        return cls(load_private(path), did)

    @property
    def did(self) -> str:
        """The DID of the signatures."""
        return self._did

    @property
    def public_key(self) -> PublicKey:
        """The public half."""
        return self._key.public_key()

    @abstractmethod
    def sign(self, data: bytes) -> bytes:
        """Sign the data: 64 bytes."""

    def save(self, path: str | Path, format: Format = "pem") -> None:
        """Write the key to a new file that only its owner may read.

        Args:
            path: the file; it must not exist.
            format: "pem", "jwk" or "cose".

        Raises:
            OSError: The file exists (FileExistsError), or cannot be written.
        """
        save_private(self._key, path, format)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._did}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signer contains a private key and cannot be pickled")


class Ed25519Signer(KeySigner):
    """Signs with Ed25519."""

    __slots__ = ()
    _key: Ed25519PrivateKey

    alg = EDDSA

    @classmethod
    def _check(cls, key: PrivateKey) -> None:
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyMissingError("a key of another kind", expected="Ed25519", found="P-256")

    @classmethod
    def _new(cls) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.generate()

    def sign(self, data: bytes) -> bytes:
        """Sign the data: 64 bytes, always the same for the same data. Spec: RFC 8032."""
        return self._key.sign(data)


class ES256Signer(KeySigner):
    """Signs with ECDSA over P-256 with SHA-256."""

    __slots__ = ()
    _key: EllipticCurvePrivateKey

    alg = ES256

    @classmethod
    def _check(cls, key: PrivateKey) -> None:
        if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
            raise KeyMissingError("a key of another kind", expected="P-256")

    @classmethod
    def _new(cls) -> EllipticCurvePrivateKey:
        return generate_private_key(SECP256R1())

    def sign(self, data: bytes) -> bytes:
        """Sign the data: r and s, 32 bytes each. Spec: RFC 9053 §2.1."""
        r, s = decode_dss_signature(self._key.sign(data, _ECDSA))
        return r.to_bytes(_HALF, "big") + s.to_bytes(_HALF, "big")


SIGNERS: dict[Literal["ed25519", "p256"], type[KeySigner]] = {
    "ed25519": Ed25519Signer,
    "p256": ES256Signer,
}


def load_signer(path: str | Path, did: str | None = None) -> KeySigner:
    """Read a key file of either kind.

    Raises:
        KeyMissingError: The file has no key, or others may read it.
        OSError: The file cannot be read.
    """
    key = load_private(path)
    kind = Ed25519Signer if isinstance(key, Ed25519PrivateKey) else ES256Signer
    return kind(key, did)


def algorithm(signer: Signer) -> int:
    """Return the COSE algorithm of a signer: its ``alg``, else that of its did:key."""
    alg = getattr(signer, "alg", None)
    if alg is None:
        return EDDSA if isinstance(resolve(signer.did), Ed25519PublicKey) else ES256
    if alg not in (EDDSA, ES256):
        raise UnsupportedError("unknown algorithm of a signer", expected="-8 or -7")
    return int(alg)


def verify(key: PublicKey, alg: int, signature: bytes, data: bytes | Pieces) -> None:
    """Check one signature, as OpenSSL does: Ed25519 by the equation without cofactor.

    Spec: OMS §9, RFC 8032 §5.1.7
    """
    if alg not in (EDDSA, ED25519, ES256):
        raise UnsupportedError("unknown signature algorithm", expected="-8, -19 or -7")
    if isinstance(key, Ed25519PublicKey) == (alg == ES256):
        raise SignatureError("the algorithm does not match the signer's key")
    if len(signature) != SIGNATURE:
        text = f"{SIGNATURE} bytes"
        raise SignatureError("the signature has the wrong size", expected=text)
    try:
        if isinstance(key, Ed25519PublicKey):
            if not callable(data):
                key.verify(signature, data)
            elif not _holds(key.public_bytes_raw(), signature, data()):
                raise InvalidSignature
        else:
            halves = (signature[:_HALF], signature[_HALF:])
            r, s = (int.from_bytes(half, "big") for half in halves)
            if callable(data):
                key.verify(encode_dss_signature(r, s), _digest(data()), _ECDSA_OF_DIGEST)
            else:
                key.verify(encode_dss_signature(r, s), data, _ECDSA)
    except InvalidSignature:
        raise SignatureError("the signature is not valid") from None


def _holds(key: bytes, signature: bytes, pieces: Iterable[bytes]) -> bool:
    begun = _core.SignedPieces(key, signature)
    for piece in pieces:
        begun.update(piece)
    return begun.hold()


def _digest(pieces: Iterable[bytes]) -> bytes:
    found = sha256()
    for piece in pieces:
        found.update(piece)
    return found.digest()


_MOST = 64  # the most keys of a file
_BROKEN = (OmsError, *BROKEN)
_KTY, _KID, _ALG, _CRV, _X, _Y = 1, 2, 3, -1, -2, -3


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A public key, and its names in signatures."""

    key: PublicKey  # a key of Ed25519 or P-256
    did: str  # the given DID, else the did:key
    # the possible values of ``kid``: the did:key, and the name in the file
    names: frozenset[bytes]


def load_public(path: str | Path, resolver: Resolver | None = None) -> list[NamedKey]:
    return loads_public(private_file.read_key(path, _LIMIT, private=False), resolver)


def loads_public(data: bytes, resolver: Resolver | None = None) -> list[NamedKey]:
    """Read public keys from the bytes of a file; arguments and errors are those of `load`."""
    if data.lstrip().startswith(b"did:"):
        names = data.decode("ascii", "replace").split()
        _refuse_many(len(names))
        return [_named(resolve(name, resolver), did=name) for name in names]
    found = _parse_public(data)
    if not found:
        raise KeyMissingError(
            "not a supported public key", expected="Ed25519 or P-256: COSE_Key, JWK, PEM, did:key"
        )
    _refuse_many(len(found))
    return found


def _refuse_many(count: int) -> None:
    """Refuse too many keys: verifying with a part of them would miss signers."""
    if count > _MOST:
        raise KeyMissingError(
            "too many public keys in a file", expected=f"at most {_MOST}", found=str(count)
        )


def dumps_public(key: PublicKey, kid: str | None = None) -> bytes:
    """Return a public key as COSE_Key. Spec: RFC 9052 §7, RFC 9053 §7."""
    if kid is not None and not kid.isascii():
        raise SchemaError("not a valid name of a key", field="/kid", expected="ASCII")
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


def _parse_public(data: bytes) -> list[NamedKey]:
    start = data.lstrip()
    try:
        if start.startswith(b"-----BEGIN PUBLIC"):
            key = load_pem_public_key(data)
            return [_named(key)] if isinstance(key, PublicKey) else []
        if start.startswith(b"-----BEGIN"):
            return [_named(loads_private(data).public_key())]
        if start.startswith(b"{"):
            jwk = json.loads(data)
            public = public_from_jwk(jwk)
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
    private = from_cose(value)  # the public half may be missing or partial
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
