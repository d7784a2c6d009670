# SPDX-License-Identifier: Apache-2.0
"""The master key, which wraps the secrets of a key file and does nothing else.

    an object   with ``wrap`` and ``unwrap``: a KMS, a TPM, which never gives its key
    a path      of a file with 32 bytes, as they are, in hex or in base64
    a function  that returns the 32 bytes
    bytes       the 32 bytes themselves

A path is read, and a function called, each time the key is needed; only bytes stay in memory.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol, TypeAlias, runtime_checkable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from omsgrain.crypto.private_file import read_key, write_new
from omsgrain.errors import KeyMissingError, OmsError

KEY, NONCE = 32, 12
#: Bytes that a wrapped secret may have.
LONGEST = 2048
_LIMIT = 1 << 10  # bytes of a file that has the key
_AAD = b"omsgrain/1 master"


@runtime_checkable
class Master(Protocol):
    """The holder of the master key. Only what `wrap` gave comes out of `unwrap`."""

    def wrap(self, secret: bytes) -> bytes:
        """Encrypt 64 bytes, into at most 2,048."""
        ...

    def unwrap(self, wrapped: bytes) -> bytes:
        """Decrypt them; what was changed, or wrapped by another, is refused."""
        ...


MasterKey: TypeAlias = "Master | bytes | str | os.PathLike[str] | Callable[[], bytes]"


class LocalMaster:
    """A master key in this process: AES-256-GCM under a fresh nonce.

    Raises:
        KeyMissingError: the key has not 32 bytes.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != KEY:
            raise KeyMissingError("no master key", expected=f"{KEY} bytes")
        self._cipher = AESGCM(key)

    def wrap(self, secret: bytes) -> bytes:
        """Encrypt a secret."""
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, secret, _AAD)

    def unwrap(self, wrapped: bytes) -> bytes:
        """Decrypt a secret.

        Raises:
            KeyMissingError: another key wrapped it, or it was changed.
        """
        secret = None
        if len(wrapped) > NONCE:
            try:
                secret = self._cipher.decrypt(wrapped[:NONCE], wrapped[NONCE:], _AAD)
            except InvalidTag:
                secret = None
        if secret is None:
            raise KeyMissingError("the master key is another one than that of the key file")
        return secret

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a master key is not pickled")


def load_master(master: MasterKey) -> Master:
    """Get hold of a master key, as it was given."""
    if isinstance(master, Master):
        return master
    if isinstance(master, bytes):
        return LocalMaster(master)
    if isinstance(master, (str, os.PathLike)):
        return LocalMaster(_read(Path(master)))
    if callable(master):
        return LocalMaster(master())
    raise KeyMissingError(
        "no master key",
        expected="32 bytes, a path, a function, or an object with wrap and unwrap",
        found=type(master).__name__,
    )


def _read(path: Path) -> bytes:
    try:
        data = read_key(path, _LIMIT)
    except FileNotFoundError:
        data = None
    if data is None:
        raise KeyMissingError("the file with the master key is missing")
    key = parse_key(data)
    if key is None:
        raise KeyMissingError(
            "no master key in the file", expected=f"{KEY} bytes, as they are, in hex or in base64"
        )
    return key


def parse_key(data: bytes) -> bytes | None:
    """Read 32 bytes as they are, in hex or in base64; None if it is none of these."""
    if len(data) == KEY:
        return data
    text = data.strip().translate(bytes.maketrans(b"-_", b"+/"))
    try:
        if len(text) == 2 * KEY:
            return bytes.fromhex(text.decode("ascii"))
        padded = text + b"=" * (-len(text) % 4)
        key = base64.b64decode(padded, validate=True)
    except ValueError:
        return None
    return key if len(key) == KEY else None


def make_master(file: Path) -> None:
    """Write a random master key into a new file, in hex, that only its owner may read."""
    write_new(file, os.urandom(KEY).hex().encode() + b"\n")


def key_of_text(text: str | None) -> bytes:
    """Read a master key that is written in hex or base64."""
    # As many letters as a key has bytes are a password, and not a key.
    data = b"" if text is None else text.encode(errors="replace")
    key = None if len(data) == KEY else parse_key(data)
    if key is None:
        found = "nothing" if text is None else None
        raise KeyMissingError(
            "no master key", expected=f"{KEY} bytes in hex or base64", found=found
        )
    return key


def wrap(master: Master, secret: bytes) -> bytes:
    """Wrap a secret, and see that it comes out again: a key file that is lost is lost for good."""
    wrapped = _ask(master.wrap, secret)
    if not isinstance(wrapped, bytes) or not 0 < len(wrapped) <= LONGEST:
        raise KeyMissingError(
            "the master key does not wrap", expected=f"at most {LONGEST} bytes from wrap"
        )
    if unwrap(master, wrapped) != secret:
        raise KeyMissingError("the master key does not unwrap what it wrapped")
    return wrapped


def unwrap(master: Master, wrapped: bytes) -> bytes:
    """Unwrap a secret."""
    return _ask(master.unwrap, wrapped)


def _ask(call: Callable[[bytes], bytes], data: bytes) -> bytes:
    """Call a master; what others raise may hold what they were given, so only its kind is kept."""
    try:
        return call(data)
    except (OmsError, OSError):
        raise
    except Exception as error:
        kind = type(error).__name__
    raise KeyMissingError("the holder of the master key refused", found=kind)
