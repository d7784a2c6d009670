# SPDX-License-Identifier: Apache-2.0
"""Private keys that sign, and what a signature is checked with.

A `Signer` is a name and a function, so a hardware key or a key service can be one. No key is ever
part of an error, a repr or a pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Literal, NoReturn, Protocol, TypeAlias, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.utils import (
    Prehashed,
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256

from omsgrain import _core
from omsgrain.crypto import keyfile
from omsgrain.crypto.did import PublicKey, from_key, parse, resolve
from omsgrain.errors import KeyMissingError, SignatureError, UnsupportedError

#: Numbers of COSE algorithms. Spec: RFC 9053 §2, RFC 9864
EDDSA, ES256, ED25519 = -8, -7, -19
SIGNATURE = 64
_HALF = SIGNATURE // 2
_ECDSA, _ECDSA_OF_DIGEST = ECDSA(SHA256()), ECDSA(Prehashed(SHA256()))

S = TypeVar("S", bound="KeySigner")

Pieces: TypeAlias = Callable[[], Iterable[bytes]]
"""Data too large for the memory: gives them piece by piece, each time from the beginning."""


class Signer(Protocol):
    """Whoever can sign: a key here, a hardware key, a key service.

    A signer whose `did` is no did:key also has an attribute ``alg``, -8 (EdDSA) or -7 (ES256).
    """

    @property
    def did(self) -> str:
        """The DID that signatures are made in the name of."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Sign the data themselves, not a hash of them.

        Returns:
            64 bytes: the signature of Ed25519, or r and s of ECDSA with SHA-256, 32 bytes each.
        """
        ...


class KeySigner:
    """A private key in this process."""

    __slots__ = ("_did", "_key")

    alg: ClassVar[int]

    def __init__(self, key: keyfile.PrivateKey, did: str | None = None) -> None:
        """Sign with a key.

        Args:
            key: a private key of `cryptography`.
            did: sign in this name, whose document has the key; a fragment says which of several.
                Without it the name is the did:key.

        Raises:
            KeyMissingError: the key is of another kind.
            DidError: no such DID.
        """
        self._check(key)
        own = from_key(key.public_key())
        if did is not None and parse(did).method == "key" and did != own:
            raise KeyMissingError("another key belongs to this did:key")
        self._key = key
        self._did = own if did is None else did

    @classmethod
    def _check(cls, key: keyfile.PrivateKey) -> None:
        raise NotImplementedError

    @classmethod
    def _new(cls) -> keyfile.PrivateKey:
        raise NotImplementedError

    @classmethod
    def generate(cls: type[S]) -> S:
        """Make a new key. It is nowhere but in memory until `save`."""
        return cls(cls._new())

    @classmethod
    def load(cls: type[S], path: str | Path, did: str | None = None) -> S:
        """Read a key file, as `keyfile.load` does.

        Args:
            path: PEM, JWK or COSE_Key.
            did: as for the class.

        Raises:
            KeyMissingError: no key of this kind is in the file, or others may read it.
            OSError: the file cannot be read.
        """
        return cls(keyfile.load(path), did)

    @property
    def did(self) -> str:
        """The DID that signatures are made in the name of."""
        return self._did

    @property
    def public_key(self) -> PublicKey:
        """The public half."""
        return self._key.public_key()

    def sign(self, data: bytes) -> bytes:
        """Sign the data: 64 bytes."""
        raise NotImplementedError

    def save(self, path: str | Path, format: keyfile.Format = "pem") -> None:
        """Write the key to a new file that only its owner may read, as `keyfile.save` does.

        Raises:
            OSError: the file is there (FileExistsError), or cannot be written.
        """
        keyfile.save(self._key, path, format)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._did}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signer holds a private key and is not pickled")


class Ed25519Signer(KeySigner):
    """Signs with Ed25519."""

    __slots__ = ()
    _key: Ed25519PrivateKey

    alg = EDDSA

    @classmethod
    def _check(cls, key: keyfile.PrivateKey) -> None:
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
    def _check(cls, key: keyfile.PrivateKey) -> None:
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
        KeyMissingError: no key is in the file, or others may read it.
        OSError: the file cannot be read.
    """
    key = keyfile.load(path)
    kind = Ed25519Signer if isinstance(key, Ed25519PrivateKey) else ES256Signer
    return kind(key, did)


def algorithm(signer: Signer) -> int:
    """The COSE algorithm of a signer: its ``alg``, else what its did:key asks for.

    Raises:
        UnsupportedError: it is none of ours.
        DidError: there is no ``alg``, and the DID does not tell.
    """
    alg = getattr(signer, "alg", None)
    if alg is None:
        return EDDSA if isinstance(resolve(signer.did), Ed25519PublicKey) else ES256
    if alg not in (EDDSA, ES256):
        raise UnsupportedError("no such algorithm of a signer", expected="-8 or -7")
    return int(alg)


def verify(key: PublicKey, alg: int, signature: bytes, data: bytes | Pieces) -> None:
    """Check one signature, as OpenSSL does: Ed25519 by the equation without cofactor.

    Args:
        key: the public key.
        alg: the COSE algorithm: -8 or -19 for Ed25519, -7 for ES256.
        signature: 64 bytes.
        data: what was signed. Pieces are hashed one by one, Ed25519 by the core.

    Raises:
        SignatureError: it does not hold, or the key is not one of the algorithm.
        UnsupportedError: another algorithm.

    Spec: OMS §9, RFC 8032 §5.1.7
    """
    if alg not in (EDDSA, ED25519, ES256):
        raise UnsupportedError("no such signature algorithm", expected="-8, -19 or -7")
    if isinstance(key, Ed25519PublicKey) == (alg == ES256):
        raise SignatureError("the algorithm is not one of the signer's key")
    if len(signature) != SIGNATURE:
        text = f"{SIGNATURE} bytes"
        raise SignatureError("a signature of the wrong size", expected=text)
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
        raise SignatureError("the signature does not hold") from None


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
