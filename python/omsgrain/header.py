# SPDX-License-Identifier: Apache-2.0
"""The header of a blob: the nine bytes before its payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from omsgrain import _core

__all__ = [
    "Header",
    "read_header",
]

#: Bits of the flags, the second byte of a blob.
SIGNED_BIT, ENCRYPTED_BIT, COMPRESSED_BIT = 1, 2, 4
#: First byte of a signed grain, a COSE_Sign1 envelope. A blob begins with its version, 1.
ENVELOPE_BYTE = b"\xd2"
HEADER_SIZE = 9
_CREATED = slice(5, 9)
SENSITIVITIES = ("public", "internal", "pii", "phi")


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a blob. Spec: OMS §3.

    Attributes:
        version: Always 1.
        flags: The eight flag bits.
        type_byte: 1 to 10 for the ten types; others are opaque.
        ns_hash: a routing hint: the first two bytes of the namespace's SHA-256.
        created_at: a routing hint: whole seconds since 1970.
    """

    version: int
    flags: int
    type_byte: int
    ns_hash: int
    created_at: int

    @property
    def signed(self) -> bool:
        """Whether the blob belongs in a COSE_Sign1 envelope."""
        return bool(self.flags & SIGNED_BIT)

    @property
    def encrypted(self) -> bool:
        """Whether the payload is encrypted."""
        return bool(self.flags & ENCRYPTED_BIT)

    @property
    def compressed(self) -> bool:
        """Whether the payload is a zstd frame."""
        return bool(self.flags & COMPRESSED_BIT)

    @property
    def has_content_refs(self) -> bool:
        """Whether content_refs is present and not empty."""
        return bool(self.flags & 8)

    @property
    def has_embedding_refs(self) -> bool:
        """Whether embedding_refs is present and not empty."""
        return bool(self.flags & 16)

    @property
    def encoding(self) -> Literal["msgpack", "cbor"]:
        """The encoding of the payload: "msgpack" or "cbor"."""
        return "cbor" if self.flags & 32 else "msgpack"

    @property
    def sensitivity(self) -> int:
        """0 public, 1 internal, 2 pii, 3 phi."""
        return self.flags >> 6


def as_bytes(blob: bytes | bytearray | memoryview) -> bytes:
    """Return the bytes of a blob, without a copy if they are bytes already."""
    if isinstance(blob, bytes):
        return blob
    if isinstance(blob, bytearray | memoryview):
        return bytes(blob)
    raise TypeError(f"a blob must be bytes, not {type(blob).__name__}")


def read_header(blob: bytes) -> Header:
    """Read the header of a blob without its payload.

    Args:
        blob: the blob, or at least its first ten bytes.

    Raises:
        TooShortError: there are fewer than ten bytes.
        VersionError: the first byte is not 1.
    """
    return Header(*_core.header(as_bytes(blob)))


def created_seconds(blob: bytes) -> int:
    """Return when a grain was made, in whole seconds, by its header alone."""
    return int.from_bytes(blob[_CREATED], "big")


def __dir__() -> list[str]:
    return __all__
