# SPDX-License-Identifier: Apache-2.0
"""Temporary files of what is memory: on the disk they are ciphertext, and the key is here alone.

Bodies of requests and texts that are summed up have to wait somewhere, and the disk must not keep
what a store keeps sealed: files that were removed leave their bytes behind.
"""

from __future__ import annotations

import io
import os
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

__all__ = ["spool"]

_BLOCK = 16
_BUFFER = 1 << 16


def spool(in_memory: int) -> IO[bytes]:
    """Make a file without a name, to be written once from its beginning and read at will.

    Args:
        in_memory: bytes that need no file.
    """
    return cast("IO[bytes]", io.BufferedRandom(_Veiled(in_memory), _BUFFER))


class _Veiled(io.RawIOBase):
    """AES-256 in counter mode: any byte can be read alone. No byte is written twice."""

    def __init__(self, in_memory: int) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(max_size=in_memory)
        self._key = os.urandom(32)

    def _cipher(self, at: int) -> CipherContext:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CTR

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
