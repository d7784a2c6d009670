# SPDX-License-Identifier: Apache-2.0
"""The bytes of a .mg file around its grains. Spec: OMS §11.

All integers are big-endian.

    header | index: count x u32 | grains | [manifest] | SHA-256 of all before it

| offset | size | header field | holds |
|---|---|---|---|
| 0 | 2 | magic | ``MG`` |
| 2 | 1 | version | 1 |
| 3 | 1 | flags | the bits below |
| 4 | 4 | count | how many grains there are |
| 8 | 1 | field map version | 1 |
| 9 | 1 | codec | 0 none, 1 zstd, 2 lz4 |
| 10 | 4 | manifest at | the manifest's offset, if the last grain is sealed; else 0 |
| 14 | 2 | reserved | 0 |

| bit | flag |
|---|---|
| 0 | sorted by the created_at of the grains' headers |
| 1 | deduplicated: no address twice |
| 2 | packed: the grains stand in one frame of the codec, or in several |
| 3 | field map included: not read, its place is undefined |
| 4 | a manifest follows the grains |

Entry i of the index is where grain i begins: in the file, or if it is packed, in the grains as
they are unpacked. A grain ends where the next begins, and the last one where the grains end.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Literal

from omsgrain.errors import CorruptError, TooShortError, UnsupportedError, VersionError

Codec = Literal["none", "zstd", "lz4"]

CODECS: tuple[Codec, ...] = ("none", "zstd", "lz4")
MAGIC, VERSION, FIELD_MAP_VERSION = b"MG", 1, 1
SORTED, DEDUPLICATED, PACKED, FIELD_MAP, MANIFEST = 1, 2, 4, 8, 16

_HEADER = Struct(">2sBBIBBIH")
HEADER_SIZE = _HEADER.size
ENTRY_SIZE = 4
FOOTER_SIZE = 32

MIN_GRAIN = 10
#: A blob has at most 1 MiB; envelopes and sealing add to it. No reader holds more for one grain.
MAX_GRAIN = 2 << 20
#: About how many bytes of grains are read, checked or packed at once.
BATCH = 1 << 20
#: Offsets are u32.
MAX_BYTES = (1 << 32) - 1

_AT_VERSION, _AT_FLAGS, _AT_COUNT, _AT_FIELD_MAP, _AT_CODEC = 2, 3, 4, 8, 9
AT_MANIFEST, _AT_RESERVED = 10, 14


@dataclass(frozen=True, slots=True)
class ContainerHeader:
    """The first 16 bytes of a container. Spec: OMS §11.

    Attributes:
        flags: the flag bits.
        count: how many grains there are.
        codec: how they are packed.
        manifest_at: where the manifest is, if the last grain is sealed and cannot say where it
            ends; else 0.
    """

    flags: int
    count: int
    codec: Codec
    manifest_at: int = 0

    @property
    def sorted(self) -> bool:
        """Whether the grains are in the order of their headers' created_at."""
        return bool(self.flags & SORTED)

    @property
    def deduplicated(self) -> bool:
        """Whether no two grains have the same address."""
        return bool(self.flags & DEDUPLICATED)

    @property
    def packed(self) -> bool:
        """Whether the grains are compressed: in one frame, or in several."""
        return bool(self.flags & PACKED)

    @property
    def has_manifest(self) -> bool:
        """Whether a manifest follows the grains."""
        return bool(self.flags & MANIFEST)

    @property
    def grains_at(self) -> int:
        """Where the grains, or their frames, begin in the file."""
        return HEADER_SIZE + ENTRY_SIZE * self.count

    @property
    def first_offset(self) -> int:
        """What the index must say of the first grain."""
        return 0 if self.packed else self.grains_at

    def pack(self) -> bytes:
        """The 16 bytes."""
        codec = CODECS.index(self.codec)
        fields = (self.flags, self.count, FIELD_MAP_VERSION, codec, self.manifest_at, 0)
        return _HEADER.pack(MAGIC, VERSION, *fields)

    @classmethod
    def parse(cls, head: bytes, size: int) -> ContainerHeader:
        """Read the header of a file of that many bytes; what cannot fit into it is refused.

        Raises:
            TooShortError: smaller than header, index, grains and footer must be.
            CorruptError: not a container, or parts of the header contradict each other.
            VersionError: another version.
            UnsupportedError: a field map, or an unknown flag or codec.
        """
        if len(head) < HEADER_SIZE or size < HEADER_SIZE + FOOTER_SIZE:
            raise TooShortError(
                "not a whole container",
                offset=size,
                expected=f"at least {HEADER_SIZE + FOOTER_SIZE} bytes",
                found=f"{size} bytes",
            )
        magic, version, flags, count, field_map, codec, manifest_at, reserved = _HEADER.unpack(
            head[:HEADER_SIZE]
        )
        if magic != MAGIC:
            raise CorruptError("not a .mg container", offset=0, expected="MG")
        if version != VERSION:
            raise VersionError(
                "another version of the container", offset=_AT_VERSION, found=str(version)
            )
        if field_map != FIELD_MAP_VERSION:
            raise UnsupportedError(
                "unknown field map version", offset=_AT_FIELD_MAP, found=str(field_map)
            )
        if flags & FIELD_MAP:
            raise UnsupportedError("a container with its own field map", offset=_AT_FLAGS)
        if flags > (SORTED | DEDUPLICATED | PACKED | MANIFEST):
            raise UnsupportedError("unknown flags", offset=_AT_FLAGS, found=f"0x{flags:02x}")
        if codec >= len(CODECS):
            raise UnsupportedError("unknown codec", offset=_AT_CODEC, found=str(codec))
        if bool(flags & PACKED) != bool(codec):
            raise CorruptError("flag 2 and the codec contradict each other", offset=_AT_FLAGS)
        if reserved:
            raise CorruptError("reserved bytes are not zero", offset=_AT_RESERVED)
        header = cls(flags, count, CODECS[codec], manifest_at)
        room = size - FOOTER_SIZE - header.grains_at
        if room < (MIN_GRAIN * count if not header.packed else min(count, 1)):
            raise TooShortError(
                "the file is too small for this many grains",
                offset=_AT_COUNT,
                found=f"{count} grains in {size} bytes",
            )
        if header.has_manifest and not count:
            raise CorruptError("a manifest without grains", offset=_AT_FLAGS)
        if manifest_at and not (
            header.has_manifest and header.grains_at < manifest_at < size - FOOTER_SIZE
        ):
            raise CorruptError("there can be no manifest at this offset", offset=AT_MANIFEST)
        return header


def is_sealed(grain: bytes) -> bool:
    """Whether a grain is encrypted and without envelope, and so does not say where it ends."""
    return grain[:1] == b"\x01" and bool(int.from_bytes(grain[1:2], "big") & 2)
