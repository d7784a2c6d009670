# SPDX-License-Identifier: Apache-2.0
"""The bytes of a .mg file around its grains. Spec: OMS §11.

All integers are big-endian.

    header | index: count x u32 | grains | [manifest] | SHA-256 of all bytes before

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
| 2 | packed: the grains are in one frame of the codec, or in several |
| 3 | field map included: not read, its place is undefined |
| 4 | a manifest follows the grains |

Entry i of the index is the offset of grain i: in the file, or if the grains are packed, in the
decompressed grains. A grain ends where the next begins, and the last grain ends where the grains
end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from struct import Struct
from typing import IO, Any, Literal

import msgpack

from omsgrain import _core, registry
from omsgrain.durable import file_path, store_error
from omsgrain.errors import (
    CorruptError,
    NotFoundError,
    NotMapError,
    OmsError,
    RangeError,
    SchemaError,
    StoreError,
    TooLargeError,
    TooShortError,
    UnsupportedError,
    VersionError,
)

Codec = Literal["none", "zstd", "lz4"]

CODECS: tuple[Codec, ...] = ("none", "zstd", "lz4")
MAGIC, VERSION, FIELD_MAP_VERSION = b"MG", 1, 1
SORTED, DEDUPLICATED, PACKED, FIELD_MAP, MANIFEST = 1, 2, 4, 8, 16

_HEADER = Struct(">2sBBIBBIH")
HEADER_SIZE = _HEADER.size
ENTRY_SIZE = 4
FOOTER_SIZE = 32

MIN_GRAIN = 10
#: A blob has at most 1 MiB; envelopes and sealing add to it. Readers allocate no more for one
#: grain.
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
        flags: The flag bits.
        count: The number of grains.
        codec: The codec of the grains.
        manifest_at: The offset of the manifest, if the last grain is sealed and does not show its
            end; else 0.
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
        """Whether the grains are compressed, in one frame or several."""
        return bool(self.flags & PACKED)

    @property
    def has_manifest(self) -> bool:
        """Whether a manifest follows the grains."""
        return bool(self.flags & MANIFEST)

    @property
    def grains_at(self) -> int:
        """The offset of the grains, or of their frames, in the file."""
        return HEADER_SIZE + ENTRY_SIZE * self.count

    @property
    def first_offset(self) -> int:
        """The index entry of the first grain."""
        return 0 if self.packed else self.grains_at

    def pack(self) -> bytes:
        """Return the 16 bytes."""
        codec = CODECS.index(self.codec)
        fields = (self.flags, self.count, FIELD_MAP_VERSION, codec, self.manifest_at, 0)
        return _HEADER.pack(MAGIC, VERSION, *fields)

    @classmethod
    def parse(cls, head: bytes, size: int) -> ContainerHeader:
        """Read the header of a file of that many bytes; refuse impossible values.

        Raises:
            TooShortError: The file is smaller than header, index, grains and footer.
            CorruptError: Not a container, or parts of the header contradict each other.
            VersionError: Another version.
            UnsupportedError: A field map, or an unknown flag or codec.
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
            raise CorruptError("the manifest cannot begin at this offset", offset=AT_MANIFEST)
        return header


def is_sealed(grain: bytes) -> bool:
    """Whether a grain is encrypted and without envelope, and so does not show its end."""
    return grain[:1] == b"\x01" and bool(int.from_bytes(grain[1:2], "big") & 2)


@contextmanager
def os_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn errors of the system into a StoreError: full, not allowed, not found, or other."""
    try:
        yield
    except OSError as error:
        kind = NotFoundError if isinstance(error, FileNotFoundError) else StoreError
        raise store_error(path, doing, error, kind) from error


def target_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file to write."""
    path = file_path(path)
    if not path.name:
        raise StoreError(f"could not write {str(path)!r}", expected="the name of a file")
    return path


def part(path: Path, number: int) -> Path:
    """Return the name of file n, from 1, of an export in several files. Spec: OMS §11."""
    return path.with_name(f"{path.stem}-{number:04d}{path.suffix}")


def parts(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of an export: the path itself, or ``name-0001.mg`` and so on.

    Raises:
        NotFoundError: Neither exists.
        StoreError: The path is not valid.
    """
    path = file_path(path)
    found: list[Path] = []
    with os_errors("open", path):
        if path.exists():
            return [path]
        while (next_part := part(path, len(found) + 1)).exists():
            found.append(next_part)
    if not found:
        raise NotFoundError(f"neither {str(path)!r} nor {str(part(path, 1))!r} exists")
    return found


@contextmanager
def spool(directory: Path) -> Iterator[IO[bytes]]:
    """Yield an unnamed file on the disk of the result."""
    with os_errors("write to", directory):
        from tempfile import TemporaryFile  # slow to import, and rarely needed

        file = TemporaryFile(dir=directory)
    try:
        yield file
    finally:
        # On a full disk closing fails too, and would hide the first error.
        with suppress(OSError):
            file.close()


#: No frame of up to 8 MiB takes more.
_LONGEST = 9 << 20
_LEAST = 4 << 10


def likely_after(length: int, most: int) -> int:
    """Return how many bytes to read for the next frame, after a frame of some length.

    Frames are mostly alike. Without this, each of many tiny frames would cost as much as a large
    one.
    """
    return min(max(2 * length, _LEAST), most)


def measure(
    codec: int, data: bytes | mmap, start: int, end: int, *, likely: int
) -> tuple[int, int] | None:
    window = likely
    while True:
        window = min(window, _LONGEST)
        piece = data[start : min(start + window, end)]
        try:
            return _core.measure_frame(codec, piece)
        except CorruptError:
            if len(piece) < window:
                raise
        if window == _LONGEST:
            raise TooLargeError("a frame does not end")
        window *= 8


Manifest = Mapping[str, Mapping[str, Any]]

#: Field -> default. Defaults are not written, and not accepted.
_DEFAULTS: dict[str, Any] = {
    "superseded_by": None,
    "system_valid_to": None,
    "verification_status": "unverified",
    "access_count": 0,
    "last_accessed_at": None,
}
#: The first byte of a manifest; no frame begins with it.
MAP_HEADS = (*range(0x81, 0x90), 0xDE, 0xDF)
_INT64 = range(-(1 << 63), 1 << 63)
_ADDRESS_LEN = 64
#: An address and all five fields at their longest, packed.
_LONGEST_ENTRY = 220


def pack_states(states: Manifest) -> dict[str, bytes]:
    """Return each address's state as packed bytes, without default states."""
    packed = {}
    for address, state in states.items():
        _check_address(address)
        if not isinstance(state, Mapping):
            raise SchemaError("the state of a grain is not a map")
        if unknown := state.keys() - _DEFAULTS.keys():
            raise SchemaError("unknown state field", expected=_names(), found=str(min(unknown)))
        said = {
            registry.short_key(name): value
            for name, value in state.items()
            if value is not None and _checked(name, value) != _DEFAULTS[name]
        }
        if said:
            packed[address] = msgpack.packb(dict(sorted(said.items())))
    return packed


def pack_manifest(entries: Mapping[str, bytes]) -> bytes:
    """Return the manifest of these packed states; empty without states."""
    if not entries:
        return b""
    head: bytes = msgpack.Packer().pack_map_header(len(entries))
    return head + b"".join(msgpack.packb(key) + entries[key] for key in sorted(entries))


def entry_size(state: bytes) -> int:
    """Return how many bytes a packed state takes in a manifest, with its address."""
    return 2 + _ADDRESS_LEN + len(state)


#: The most bytes of the head of a manifest.
HEAD_SIZE = 5


def check_size(size: int, count: int) -> None:
    """Refuse an impossible size of a manifest for that many grains, before it is read."""
    longest = HEAD_SIZE + _LONGEST_ENTRY * count
    if not 1 < size <= longest:
        expected, found = f"2 to {longest} bytes", f"{size} bytes"
        raise CorruptError("the manifest cannot have this size", expected=expected, found=found)


def unpack_manifest(data: bytes, count: int) -> dict[str, dict[str, Any]]:
    """Read a manifest strictly: accept only bytes that `pack_manifest` writes."""
    try:
        raw = msgpack.unpackb(
            data,
            strict_map_key=True,
            max_str_len=_ADDRESS_LEN,
            max_map_len=max(count, len(_DEFAULTS)),
            max_bin_len=0,
            max_array_len=0,
            max_ext_len=0,
        )
    except (ValueError, TypeError) as error:
        raise CorruptError("not canonical MessagePack") from error
    if not isinstance(raw, dict):
        raise NotMapError("not a map")
    full = {registry.short_key(name): name for name in _DEFAULTS}
    states: dict[str, dict[str, Any]] = {}
    for address, state in raw.items():
        if not isinstance(state, dict) or not state.keys() <= full.keys():
            raise SchemaError("an entry is not the state of a grain", expected=_names())
        states[address] = {full[key]: value for key, value in state.items()}
    if pack_manifest(pack_states(states)) != data:
        raise CorruptError("not canonical", expected="sorted, shortest forms, no defaults")
    return states


def _names() -> str:
    return ", ".join(_DEFAULTS)


def _check_address(address: object) -> None:
    if not isinstance(address, str):
        raise SchemaError("an address must be text", found=type(address).__name__)
    _core.parse_address(address)


def _checked(name: str, value: Any) -> Any:
    if name == "superseded_by":
        _check_address(value)
    elif name == "verification_status":
        allowed = registry.field(name).enum
        if value not in allowed:
            raise SchemaError("not one of the allowed values", field=f"/{name}")
    elif not isinstance(value, int) or isinstance(value, bool):
        raise SchemaError("not an integer", field=f"/{name}", found=type(value).__name__)
    elif value not in _INT64 or (name == "access_count" and value < 0):
        raise RangeError("out of range", field=f"/{name}")
    return value


Part = Literal["header", "index", "frame", "grain", "manifest", "footer"]


@dataclass(frozen=True, slots=True)
class ContainerProblem:
    """A problem of a container.

    Attributes:
        part: The part of the file.
        number: The number of the index entry, frame or grain, from 0; None for other parts.
        address: For a grain, the hash of its present bytes; for a manifest, the address of a
            missing grain.
        error: The error. Its offset counts from the start of the file; for packed grains, as if
            they were decompressed in place.
    """

    part: Part
    number: int | None
    address: str | None
    error: OmsError

    def __str__(self) -> str:
        return str(self.error)

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON-ready values."""
        return {
            "part": self.part,
            "number": self.number,
            "address": self.address,
            "error": self.error.to_dict(),
        }


def problem(
    part: Part,
    number: int | None,
    error: OmsError,
    *,
    start: int = 0,
    address: str | None = None,
) -> ContainerProblem:
    """Make a problem: its message names the part, its offset counts from `start`."""
    name = part if number is None else f"{part} {number}"
    placed = type(error)(
        f"{name}: {error.message}",
        field=error.field,
        offset=start + (error.offset or 0),
        expected=error.expected,
        found=error.found,
    )
    return ContainerProblem(part, number, address, placed)


class BrokenContainer(Exception):
    """Stops reading at a problem. Only this package sees it; callers get its error."""

    def __init__(self, problem: ContainerProblem) -> None:
        super().__init__(problem)
        self.problem = problem


@contextmanager
def located(part: Part, number: int | None, start: int = 0) -> Iterator[None]:
    """Stop reading at an error in a part that begins at `start`."""
    try:
        yield
    except OmsError as error:
        raise BrokenContainer(problem(part, number, error, start=start)) from None


@contextmanager
def plain_errors() -> Iterator[None]:
    try:
        yield
    except BrokenContainer as broken:
        raise broken.problem.error from None
