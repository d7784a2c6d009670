# SPDX-License-Identifier: Apache-2.0
"""DIDs: names of signers, and the public keys behind them. Spec: OMS §9.

    did:key:z6Mk...          z, then base58btc of: varint multicodec, public key
    did:web:example.com      looked up by a resolver that the caller passes

A did:key contains its public key. For any other DID the resolver is called; nothing here opens a
socket.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from omsgrain.errors import DidError, OmsError

__all__ = [
    "Did",
    "PublicKey",
    "Resolver",
    "from_key",
    "from_multibase",
    "parse",
    "resolve",
]

PublicKey = Ed25519PublicKey | EllipticCurvePublicKey
#: Returns the public key of a DID, as an object of `cryptography` or as a did:key. Its argument is
#: the signer's text, with the fragment that selects one of several keys.
Resolver = Callable[[str], PublicKey | str]

MAX_LENGTH = 512
_MAX_KEY = 64  # characters of a multibase key; 35 bytes take 49
_REMEMBERED = 1024  # cached public keys of did:keys

_DID = re.compile(r"did:([a-z0-9]+):([A-Za-z0-9._:%-]*[A-Za-z0-9._-])(?:#([A-Za-z0-9._:%-]+))?")
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGITS = {letter: digit for digit, letter in enumerate(_ALPHABET)}

_ED25519, _P256 = b"\xed\x01", b"\x80\x24"  # varints of multicodec 0xed and 0x1200

# The field and the curve of Ed25519: -x² + y² = 1 + d x² y². Spec: RFC 8032 §5.1
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P


@dataclass(frozen=True, slots=True)
class Did:
    """The parts of a DID.

    Attributes:
        method: "key", "web", or another.
        id: The part after the method.
        fragment: Selects one of several keys, if present.
    """

    method: str
    id: str
    fragment: str | None = None

    def __str__(self) -> str:
        """Return the DID itself, without fragment."""
        return f"did:{self.method}:{self.id}"


def parse(text: str) -> Did:
    """Split a DID into its parts."""
    if len(text) > MAX_LENGTH:
        raise DidError("a DID is too long", expected=f"at most {MAX_LENGTH} characters")
    match = _DID.fullmatch(text)
    if match is None:
        raise DidError("not a DID", expected="did:method:id")
    method, name, fragment = match.groups()
    if method == "key" and fragment not in (None, name):
        raise DidError("a did:key has one key, and its fragment must repeat it")
    return Did(method, name, fragment)


def from_key(key: PublicKey) -> str:
    """Return the did:key of a public key."""
    if isinstance(key, Ed25519PublicKey):
        raw = key.public_bytes_raw()
        _refuse_weak(raw)
        return "did:key:z" + _base58(_ED25519 + raw)
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        point = key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        return "did:key:z" + _base58(_P256 + point)
    raise DidError("no did:key for a key of this kind", expected="Ed25519 or P-256")


def resolve(text: str, resolver: Resolver | None = None) -> PublicKey:
    """Return the public key of a DID."""
    did = parse(text)
    if did.method == "key":
        return from_multibase(did.id)
    if resolver is None:
        raise DidError("a resolver is needed for this DID", expected="did:key without one")
    try:
        key = resolver(text)
    except OmsError:
        raise
    except Exception as error:  # any error of a caller's code means that the DID was not resolved
        raise DidError("the resolver failed", found=type(error).__name__) from error
    if isinstance(key, str):
        named = parse(key)
        if named.method != "key":
            raise DidError("the resolver returned another DID", expected="a key or a did:key")
        return from_multibase(named.id)
    from_key(key)  # refuses a key of another kind
    return key


@lru_cache(_REMEMBERED)
def from_multibase(text: str) -> PublicKey:
    """Return the public key in the text after ``did:key:``, which is also a Multikey."""
    if text[:1] != "z" or len(text) > _MAX_KEY:
        raise DidError("not a key in base58btc", expected=f"z and up to {_MAX_KEY - 1} characters")
    data = _unbase58(text[1:])
    code, key = data[:2], data[2:]
    if code == _ED25519 and len(key) == 32:
        _refuse_weak(key)
        return Ed25519PublicKey.from_public_bytes(key)
    if code == _P256 and len(key) == 33:
        try:
            return EllipticCurvePublicKey.from_encoded_point(SECP256R1(), key)
        except ValueError:
            raise DidError("not a point of P-256") from None
    raise DidError("a key of another kind", expected="ed01 and 32 bytes, or 8024 and 33")


def _refuse_weak(key: bytes) -> None:
    """Refuse a key that is not a point of Ed25519, or that has a small order.

    OpenSSL accepts y modulo p, and any sign. But two spellings of a key would be two DIDs of it.
    And under a point of small order, signatures can be made without a private key.
    """
    y = int.from_bytes(key, "little") & (1 << 255) - 1
    y2 = y * y % _P
    # x² = (y² - 1) / (d y² + 1) has a root; a product is a square exactly when the quotient is.
    root = pow((y2 - 1) * (_D * y2 + 1), (_P - 1) // 2, _P) != _P - 1
    if y >= _P or not root:
        raise DidError("not a point of Ed25519")
    # Order 1 and 2: y = ±1. Order 4: y = 0. Order 8: doubling gives y = 0, so d y⁴ + 2 y² = 1.
    if y2 in (0, 1) or (_D * y2 * y2 + 2 * y2 - 1) % _P == 0:
        raise DidError("a key of small order, which verifies forged signatures")


def _base58(data: bytes) -> str:
    """Encode data, which begin with no zero byte, in base58btc."""
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = _ALPHABET[digit] + text
    return text


def _unbase58(text: str) -> bytes:
    number = 0
    for letter in text:
        digit = _DIGITS.get(letter)
        # A leading 1 is a zero byte, and none of our multicodecs begins with one.
        if digit is None or (digit == 0 and number == 0):
            raise DidError("not a key in base58btc", expected="its 58 letters and digits")
        number = number * 58 + digit
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def __dir__() -> list[str]:
    return __all__
