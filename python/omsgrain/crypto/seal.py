# SPDX-License-Identifier: Apache-2.0
"""Sealed grains: AES-256-GCM around a payload, a blob or an envelope. Spec: OMS §20.

    header, 9    encrypted bit set; shows type and sensitivity, the rest on request
    nonce, 12    random
    cipher text  of the payload, or of the whole blob or envelope
    tag, 16      covers the header too

A key is 32 bytes of the caller; nothing of it is kept after a call. Only the payload is sealed if
the plain blob can be restored from it, and else the whole. Unsealing returns the sealed bytes
exactly.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import unicodedata
from collections.abc import Sequence
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

from omsgrain import _core
from omsgrain.errors import (
    CorruptError,
    IntegrityError,
    KeyMissingError,
    RangeError,
    TooShortError,
)
from omsgrain.grain import bare
from omsgrain.header import ENVELOPE_BYTE, as_bytes, read_header

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

KEY_SIZE = 32
#: The most bytes of UTF-8 of a user id.
LONGEST = 1024
_NO_SALT = bytes(KEY_SIZE)
_USER = b"omsgrain/1 user"
_NAMES = ("content", "address", "token", "vector", "place")
_PURPOSES = tuple(f"omsgrain/1 {name}\x01".encode() for name in _NAMES)


class UserKeys:
    """The keys of one user. They are not in its repr and cannot be pickled.

    Attributes:
        number: The number of the user's record, 8 random bytes; public.
        content: Seals grains.
        address: Hides plain addresses.
        token: Hides the terms that find grains.
        vector: Seals vectors.
        place: Hides times in blind rows.
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
        raise TypeError("a user's keys cannot be pickled")


def user_key(root: bytes, name: bytes, *, salt: bytes, generation: int) -> bytes:
    """Return the key of a user, from which all the user's keys are made."""
    return hkdf(root, _USER + generation.to_bytes(4, "big") + name, salt)


def hkdf(key: bytes, info: bytes, salt: bytes = _NO_SALT) -> bytes:
    """HKDF with SHA-256, for 32 bytes. Spec: RFC 5869."""
    first = hmac.digest(salt, key, "sha256")
    return hmac.digest(first, info + b"\x01", "sha256")


def name_bytes(user_id: str) -> bytes:
    """Return a user id as bytes for key derivation: NFC, UTF-8."""
    if not isinstance(user_id, str):
        raise RangeError("an empty user id", expected="text", found=type(user_id).__name__)
    try:
        name = unicodedata.normalize("NFC", user_id).encode()
    except UnicodeEncodeError:
        name = None
    if name is None:
        raise RangeError(
            "the user id is not valid Unicode", expected="text without lone surrogates"
        )
    if len(name) > LONGEST:
        raise RangeError(
            "the user id is too long", expected=f"at most {LONGEST} bytes", found=f"{len(name)}"
        )
    return name


KEY, NONCE, TAG = 32, 12, 16
_HEADER = 9
_START = _HEADER + NONCE
#: The bytes that sealing adds to a grain.
OVERHEAD = _START + TAG
_PIECE = 64 << 10  # masked at once: new memory for all places would cost more than the work


class Sealer:
    """Seals and unseals under one key.

    For callers that keep the key: making the cipher costs as much as using it. It has no copy of
    the key that could be shown.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(_key(key))

    def seal(
        self, blob: bytes, *, whole: bool, hide_header: bool = True, signed: bool = False
    ) -> bytes:
        """Seal a grain, as the function `seal` does."""
        # Random nonces are safe for 2^32 grains a key, the most that a store can have.
        return self._seal_with(os.urandom(NONCE), blob, whole, hide_header, signed)

    def _seal_with(
        self, nonce: bytes, blob: bytes, whole: bool, hide_header: bool, signed: bool
    ) -> bytes:
        header, start = _core.sealed_header(blob, whole, hide_header, signed)
        inner = blob[start:] if start else blob
        return b"".join((header, nonce, self._cipher.encrypt(nonce, inner, header)))

    def unseal(self, sealed: bytes, *, address: str | None = None, check: bool = False) -> bytes:
        """Unseal a grain, as the function `unseal` does."""
        sealed = as_bytes(sealed)
        if address is not None:
            see_address(sealed, address)
        if not read_header(sealed).encrypted:
            raise CorruptError("the grain is not sealed", offset=1)
        if len(sealed) <= OVERHEAD:
            raise TooShortError(
                "too short for a sealed grain",
                expected=f"at least {OVERHEAD + 1} bytes",
                found=f"{len(sealed)}",
            )
        header, nonce = sealed[:_HEADER], sealed[_HEADER:_START]
        try:
            inner = self._cipher.decrypt(nonce, sealed[_START:], header)
        except InvalidTag:
            raise _not_opened("grain", known=address is not None) from None
        plain = _core.plain_header(sealed, inner) + inner
        if check:
            _core.check(bare(open_plain(plain)))
        return plain

    def seal_vector(self, data: bytes, aad: bytes) -> bytes:
        """Seal a vector; unsealing needs the same ``aad``."""
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, data, aad)

    def unseal_vector(self, data: bytes, aad: bytes) -> bytes:
        if len(data) < NONCE + TAG:
            raise CorruptError(
                "too short for a sealed vector",
                expected=f"at least {NONCE + TAG} bytes",
                found=f"{len(data)}",
            )
        try:
            return self._cipher.decrypt(data[:NONCE], data[NONCE:], aad)
        except InvalidTag:
            raise _not_opened("vector", known=False) from None


def seal_many(
    sealers: Sequence[Sealer], grains: list[tuple[bytes, bool]], *, signed: bool = False
) -> list[tuple[bytes, bytes]]:
    """Seal many grains, each by its sealer, as a whole or not; return digests and sealed grains.

    The nonces come from one call of the system: a call for each costs as much as the cipher.
    """
    parts = _core.seal_parts(grains, os.urandom(NONCE * len(grains)), signed)
    ciphers = [
        sealer._cipher.encrypt(nonce, inner, header)
        for sealer, (nonce, inner, header) in zip(sealers, parts, strict=True)
    ]
    return _core.joined_seals(parts, ciphers)


def seal(
    blob: bytes, key: bytes, *, whole: bool, hide_header: bool = True, signed: bool = False
) -> bytes:
    """Seal a grain. Spec: OMS §20."""
    return Sealer(key).seal(blob, whole=whole, hide_header=hide_header, signed=signed)


def unseal(sealed: bytes, key: bytes, *, address: str | None = None, check: bool = False) -> bytes:
    """Unseal a grain. Spec: OMS §20."""
    return Sealer(key).unseal(sealed, address=address, check=check)


def open_plain(inner: bytes) -> bytes:
    """Return the blob in the result of `unseal`: without its envelope, with the signed bit."""
    return _core.envelope_blob(inner) if inner[:1] == ENVELOPE_BYTE else inner


def derive_user_key(root: bytes, user_id: str, *, salt: bytes | None, generation: int) -> bytes:
    """Return the key of a user, from which the other keys are made. Spec: OMS §20."""
    if not 0 <= generation < 1 << 32:
        raise RangeError("generation is out of range", expected="0 to 2^32 - 1")
    name = name_bytes(user_id)
    salt = _NO_SALT if salt is None else _key(salt)
    return user_key(_key(root), name, salt=salt, generation=generation)


def mask(place_key: bytes, places: bytes) -> bytes:
    """Hide the times in places of blind rows, or show them again: it is its own inverse.

    The time of each place, its first six bytes, is XORed with the first six bytes of AES-256-ECB
    over its other ten, which differ from place to place, and six zeros.
    """
    pieces = (places[at : at + _PIECE] for at in range(0, len(places), _PIECE))
    return b"".join(
        _core.mask_times(piece, mask_stream(place_key, _core.place_blocks(piece)))
        for piece in pieces
    )


def mask_stream(place_key: bytes, blocks: bytes) -> bytes:
    """Encrypt the blocks of places, which mask their times."""
    return Cipher(AES(_key(place_key)), ECB()).encryptor().update(blocks)


def _key(key: bytes) -> bytes:
    """Check the length of a key; AES would accept shorter ones too."""
    if len(key) != KEY:
        raise KeyMissingError("not a key", expected=f"{KEY} bytes", found=f"{len(key)}")
    return key


def see_address(blob: bytes, address: str) -> None:
    found = hashlib.sha256(blob)
    if not hmac.compare_digest(found.digest(), _core.parse_address(address)):
        raise IntegrityError(
            "the blob has another address", expected=address, found=found.hexdigest()
        )


def _not_opened(what: str, *, known: bool) -> KeyMissingError:
    """Return the error for a wrong tag. If the bytes are known to be good, the key is wrong."""
    why = "the key is wrong" if known else "the key is wrong, or bytes were changed"
    return KeyMissingError(f"a sealed {what} cannot be opened: {why}")


_BLOCK = 16
_BUFFER = 1 << 16


def spool(in_memory: int) -> IO[bytes]:
    """Make an unnamed file, to be written once in order and read at any offset."""
    return cast("IO[bytes]", io.BufferedRandom(_EncryptedSpool(in_memory), _BUFFER))


class _EncryptedSpool(io.RawIOBase):
    """AES-256 in counter mode: any byte can be read alone. No byte is written twice."""

    def __init__(self, in_memory: int) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(max_size=in_memory)
        self._key = os.urandom(32)

    def _cipher(self, at: int) -> CipherContext:
        counter = (at // _BLOCK).to_bytes(_BLOCK, "big")
        cipher = Cipher(AES(self._key), CTR(counter)).encryptor()
        cipher.update(bytes(at % _BLOCK))
        return cipher

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        cipher = self._cipher(self._file.tell())
        data = cipher.update(self._file.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        cipher = self._cipher(self._file.tell())
        return cipher.update(self._file.read())

    def write(self, data: Any) -> int:
        self._file.write(self._cipher(self._file.tell()).update(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
