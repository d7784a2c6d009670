# SPDX-License-Identifier: Apache-2.0
"""The keys of a user, each an HKDF output of another purpose. Spec: OMS §20, RFC 5869.

    user key   ikm root, salt of the record, info "omsgrain/1 user" ++ generation ++ user id
    its keys   ikm user key, no salt, info "omsgrain/1 content", "... address" and so on

The salt of the record is what makes erasure real: without it the user key cannot be made again.
"""

from __future__ import annotations

import hmac
import unicodedata
from typing import NoReturn

from omsgrain.errors import RangeError

__all__ = ["LONGEST", "UserKeys", "hkdf", "name_bytes", "user_key"]

KEY = 32
#: Bytes of UTF-8 that a user id may have.
LONGEST = 1024
_NO_SALT = bytes(KEY)
_USER = b"omsgrain/1 user"
_NAMES = ("content", "address", "token", "vector", "place")
_PURPOSES = tuple(f"omsgrain/1 {name}\x01".encode() for name in _NAMES)


class UserKeys:
    """The keys of one user. They are no part of its repr and are not pickled.

    Attributes:
        number: what the user's record is known by, 8 random bytes; public.
        content: seals grains.
        address: hides plain addresses.
        token: hides what grains are found by.
        vector: seals vectors.
        place: hides times in blind rows.
    """

    __slots__ = ("address", "content", "number", "place", "token", "vector")

    def __init__(self, number: bytes, user_key: bytes) -> None:
        first = hmac.digest(_NO_SALT, user_key, "sha256")  # HKDF's extraction, the same for all
        self.number = number
        self.content, self.address, self.token, self.vector, self.place = (
            hmac.digest(first, purpose, "sha256") for purpose in _PURPOSES
        )

    def __repr__(self) -> str:
        return f"<UserKeys {self.number.hex()}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a user's keys are not pickled")


def user_key(root: bytes, name: bytes, *, salt: bytes, generation: int) -> bytes:
    """The key of a user, of which all his keys are made.

    Args:
        root: 32 random bytes, from the key file.
        name: the user id, as `name_bytes` gives it.
        salt: the random bytes of the user's record.
        generation: 1, and one more each time after the user was erased.
    """
    return hkdf(root, _USER + generation.to_bytes(4, "big") + name, salt)


def hkdf(key: bytes, info: bytes, salt: bytes = _NO_SALT) -> bytes:
    """HKDF with SHA-256, for 32 bytes. Spec: RFC 5869."""
    first = hmac.digest(salt, key, "sha256")
    return hmac.digest(first, info + b"\x01", "sha256")


def name_bytes(user_id: str) -> bytes:
    """A user id as keys are made of it: NFC, UTF-8.

    Raises:
        RangeError: it is no text, or too long.
    """
    if not isinstance(user_id, str):
        raise RangeError("no user id", expected="text", found=type(user_id).__name__)
    try:
        name = unicodedata.normalize("NFC", user_id).encode()
    except UnicodeEncodeError:
        name = None
    if name is None:
        raise RangeError("a user id that is not Unicode", expected="text without lone surrogates")
    if len(name) > LONGEST:
        raise RangeError(
            "a user id that is too long", expected=f"at most {LONGEST} bytes", found=f"{len(name)}"
        )
    return name
