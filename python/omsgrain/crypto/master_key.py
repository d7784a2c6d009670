# SPDX-License-Identifier: Apache-2.0
"""The master key, which only wraps the secrets of a key file.

    an object   with ``wrap`` and ``unwrap``: a KMS or a TPM, which keeps its key
    a path      of a file with 32 bytes, as they are, in hex or in base64
    a function  that returns the 32 bytes
    bytes       the 32 bytes themselves

For each use a path is read again, and a function called again; only bytes stay in memory.
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
#: The most bytes of a wrapped secret.
LONGEST = 2048
_LIMIT = 1 << 10  # the most bytes of a file with the key
_AAD = b"omsgrain/1 master"


@runtime_checkable
class Master(Protocol):
    """The holder of the master key. `unwrap` accepts only results of `wrap`."""

    def wrap(self, secret: bytes) -> bytes:
        """Encrypt 64 bytes, into at most 2,048."""
        ...

    def unwrap(self, wrapped: bytes) -> bytes:
        """Decrypt them; refuse changed bytes, and those of another key."""
        ...


MasterKey: TypeAlias = "Master | bytes | str | os.PathLike[str] | Callable[[], bytes]"


class LocalMaster:
    """A master key in this process: AES-256-GCM under a fresh nonce."""

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != KEY:
            raise KeyMissingError("not a master key", expected=f"{KEY} bytes")
        self._cipher = AESGCM(key)

    def wrap(self, secret: bytes) -> bytes:
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, secret, _AAD)

    def unwrap(self, wrapped: bytes) -> bytes:
        """Decrypt a secret; refuse one that another key wrapped, or that was changed."""
        secret = None
        if len(wrapped) > NONCE:
            try:
                secret = self._cipher.decrypt(wrapped[:NONCE], wrapped[NONCE:], _AAD)
            except InvalidTag:
                secret = None
        if secret is None:
            raise KeyMissingError("the key file has another master key")
        return secret

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a master key cannot be pickled")


def load_master(master: MasterKey) -> Master:
    """Return the holder of a given master key."""
    if isinstance(master, Master):
        return master
    if isinstance(master, bytes):
        return LocalMaster(master)
    if isinstance(master, (str, os.PathLike)):
        return LocalMaster(_read(Path(master)))
    if callable(master):
        return LocalMaster(master())
    raise KeyMissingError(
        "not a master key",
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
            "the file contains no master key", expected=f"{KEY} bytes, raw, in hex or in base64"
        )
    return key


def parse_key(data: bytes) -> bytes | None:
    """Read 32 bytes, raw, in hex or in base64; None if it is none of these."""
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
    """Read a master key in hex or base64."""
    # A text as long as the key is a password, not a key.
    data = b"" if text is None else text.encode(errors="replace")
    key = None if len(data) == KEY else parse_key(data)
    if key is None:
        found = "nothing" if text is None else None
        raise KeyMissingError(
            "not a master key", expected=f"{KEY} bytes in hex or base64", found=found
        )
    return key


def wrap(master: Master, secret: bytes) -> bytes:
    """Wrap a secret, and check that it unwraps: a lost key file cannot be restored."""
    wrapped = _ask(master.wrap, secret)
    if not isinstance(wrapped, bytes) or not 0 < len(wrapped) <= LONGEST:
        raise KeyMissingError(
            "the master key does not wrap", expected=f"at most {LONGEST} bytes from wrap"
        )
    if unwrap(master, wrapped) != secret:
        raise KeyMissingError("the master key does not unwrap what it wrapped")
    return wrapped


def unwrap(master: Master, wrapped: bytes) -> bytes:
    return _ask(master.unwrap, wrapped)


def _ask(call: Callable[[bytes], bytes], data: bytes) -> bytes:
    """Call a master key; keep only the class of its errors, whose text may contain secrets."""
    try:
        return call(data)
    except (OmsError, OSError):
        raise
    except Exception as error:
        kind = type(error).__name__
    raise KeyMissingError("the holder of the master key refused", found=kind)
