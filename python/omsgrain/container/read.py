# SPDX-License-Identifier: Apache-2.0
"""Read a .mg file without loading it. Spec: OMS §11."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from omsgrain import _core
from omsgrain.batch import OnError
from omsgrain.container.layout import (
    BATCH,
    HEADER_SIZE,
    MAX_GRAIN,
    MIN_GRAIN,
    BrokenContainer,
    Codec,
    ContainerHeader,
    located,
    os_errors,
    plain_errors,
    problem,
)
from omsgrain.container.region import DIGEST, Block, Inside
from omsgrain.durable import file_path
from omsgrain.errors import (
    CorruptError,
    OmsError,
    SignedMismatchError,
    TooLargeError,
    TooShortError,
    UnknownTypeError,
    UnsupportedError,
)
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT, ENVELOPE_BYTE, SIGNED_BIT, as_bytes

if TYPE_CHECKING:
    from omsgrain.container.verify import ContainerReport

Item = bytes | bytearray | memoryview | Grain


def gather(items: Iterable[Item], before: int = 0) -> Iterator[Block]:
    """Yield the bytes of the items, in blocks of about `BATCH` bytes."""
    batch: list[bytes] = []
    size = 0
    for item in items:
        grain = item if type(item) is bytes else grain_bytes(item)
        if not MIN_GRAIN <= len(grain) <= MAX_GRAIN:
            raise problem("grain", before + len(batch), _wrong_size(grain)).error
        batch.append(grain)
        size += len(grain)
        if size >= BATCH:
            yield Block.of(batch)
            before += len(batch)
            batch, size = [], 0
    if batch:
        yield Block.of(batch)


def grain_bytes(item: Item) -> bytes:
    """Return the bytes of an item."""
    return item.blob if isinstance(item, Grain) else as_bytes(item)


def _wrong_size(grain: bytes) -> OmsError:
    kind = TooShortError if len(grain) < MIN_GRAIN else TooLargeError
    expected, found = f"{MIN_GRAIN} to {MAX_GRAIN} bytes", f"{len(grain)} bytes"
    return kind("a grain cannot have this size", expected=expected, found=found)


def blob_of(grain: bytes) -> bytes:
    """Return the bytes to hash for the address: the blob, without its envelope."""
    return _core.envelope_blob(grain) if grain[:1] == ENVELOPE_BYTE else grain


def created_at(grain: bytes) -> int:
    """Return the time in the header of a grain, in seconds; 0 in most sealed ones."""
    return int.from_bytes(blob_of(grain)[5:9], "big")


def address(grain: bytes) -> str:
    """Return the address of a grain."""
    return _core.address(blob_of(grain))


def addressed(block: Block) -> bytes:
    """Return the addresses of grains, 32 bytes each."""
    if block.digests is not None:
        return block.digests
    found = _core.address_many([blob_of(grain) for grain in block.grains()])
    return bytes.fromhex("".join(found))


def check_grain(grain: bytes) -> bytes:
    """Check one grain, as `examine` does, and return its blob."""
    if not MIN_GRAIN <= len(grain) <= MAX_GRAIN:
        raise _wrong_size(grain)
    if grain[:1] != ENVELOPE_BYTE:
        _check_blob(grain)
        return grain
    blob, length = _core.envelope_blob(grain), _core.extent(grain)
    if length != len(grain):
        raise CorruptError("bytes follow the envelope", offset=length)
    if len(blob) > 1 and not blob[1] & SIGNED_BIT:
        raise SignedMismatchError("an envelope around an unsigned blob", offset=grain.find(blob))
    try:
        # The bit shows only that there is an envelope; the rest is checked without it.
        flags = bytes(flag & ~SIGNED_BIT for flag in blob[1:2])
        _check_blob(blob[:1] + flags + blob[2:])
    except OmsError as error:
        error.offset = grain.find(blob) + (error.offset or 0)
        raise
    return blob


def _check_blob(blob: bytes) -> None:
    _, flags, type_byte, _, _ = _core.header(blob)
    if flags & SIGNED_BIT:
        raise SignedMismatchError("the signed bit is set, but there is no envelope", offset=1)
    if not flags & ENCRYPTED_BIT:
        _core.verify(blob)
    elif not type_byte:
        raise UnknownTypeError("type byte 0 is not a type", expected="1 to 255", offset=2)


def examine(block: Block) -> tuple[bytes, list[tuple[int, OmsError]]]:
    """Check grains in full, as far as that is possible without keys.

    Of a sealed grain only the header is checked. Signatures are not verified here.
    """
    digests, special, bad = _core.check_block(block.data, block.sizes.tobytes())
    if not special:
        return digests, bad
    starts = list(accumulate(block.sizes, initial=0))
    inside: dict[int, bytes] = {}
    for i in special:
        grain = block.data[starts[i] : starts[i + 1]]
        try:
            inside[i] = check_grain(grain)
        except OmsError as error:
            bad.append((i, error))
    found = bytearray(digests)
    for i, name in zip(inside, _core.address_many(list(inside.values())), strict=True):
        found[i * DIGEST : (i + 1) * DIGEST] = bytes.fromhex(name)
    return bytes(found), sorted(bad, key=lambda pair: pair[0])


class Container:
    """An open .mg file: a sequence of grains' bytes, read from the file on demand.

    Reading does not verify (`verify` does), but it refuses impossible values, with the part and
    the byte offset. Several threads may read. The file is memory-mapped: if another program
    shortens it while it is open, the process is killed. `write` never shortens a file, it replaces
    it.

    Attributes:
        path: The file.
        header: Its first 16 bytes.
        inside: For this package.
    """

    __slots__ = ("header", "inside", "path")

    def __init__(self, path: Path, inside: Inside) -> None:
        self.path = path
        self.header = inside.header
        self.inside = inside

    def close(self) -> None:
        """Close the file."""
        self.inside.close()

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Container {str(self.path)!r} of {len(self)}, codec {self.codec}>"

    @property
    def flags(self) -> int:
        """The flag bits."""
        return self.header.flags

    @property
    def codec(self) -> Codec:
        """How the grains are packed."""
        return self.header.codec

    def __len__(self) -> int:
        return self.header.count

    def __getitem__(self, number: int) -> bytes:
        """Return the bytes of one grain: its blob, or its envelope if it is signed.

        Raises:
            IndexError: There is no grain with that number.
            OmsError: It cannot be read.
        """
        count = self.header.count
        place = number + count if number < 0 else number
        if not 0 <= place < count:
            raise IndexError("the container has no grain with this number")
        try:  # not `plain_errors`, which takes longer than the grain
            return self.inside.get(place)
        except BrokenContainer as broken:
            raise broken.problem.error from None

    def __iter__(self) -> Iterator[bytes]:
        for grains in self.together():
            yield from grains

    def together(self) -> Iterator[list[bytes]]:
        """Yield the grains in order, several at a time; for this package."""
        with plain_errors():
            for _, _, block in self.inside.blocks():
                yield block.grains()

    def grain(self, number: int) -> Grain:
        """Return one grain, checked.

        Raises:
            UnsupportedError: It is signed; verify its signature first.
            OmsError: Any refusal of the format; ERR_KEY if it is sealed.
        """
        data = self[number]
        if data[:1] == ENVELOPE_BYTE:
            raise UnsupportedError("a signed grain is opened by verifying its signature")
        return Grain(data)

    def address(self, number: int) -> str:
        """Return the address of one grain, computed from its bytes."""
        return address(self[number])

    @property
    def manifest(self) -> Mapping[str, Mapping[str, Any]]:
        """State by address: the claims of the file's writer about its grains.

        Raises:
            OmsError: It cannot be found, or is not canonical.
        """
        with plain_errors():
            return MappingProxyType(self.inside.states)

    def verify(self, *, errors: OnError = "raise") -> ContainerReport:
        """Check every byte of the file; see `omsgrain.container.verify`.

        Args:
            errors: "raise" stops at the first problem; "collect" lists all.

        Raises:
            OmsError: The first problem, with errors="raise".
        """
        from omsgrain.container.verify import verify_open

        return verify_open(self, errors)


def read(path: str | os.PathLike[str]) -> Container:
    """Open a .mg file; read only its header, at any size. Spec: OMS §11.

    Raises:
        StoreError: The file cannot be opened (NotFoundError: it does not exist).
        TooShortError, CorruptError, VersionError, UnsupportedError: Not a container, or not a
            supported one.
    """
    with plain_errors():
        return open_file(file_path(path))


def open_file(path: Path) -> Container:
    """Open a file as `read` does, but raise `BrokenContainer` if the header is invalid."""
    with os_errors("open", path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        with located("header", None):
            header = ContainerHeader.parse(file.read(HEADER_SIZE), size)
        mapped = mmap(file.fileno(), size, access=ACCESS_READ)
    return Container(path, Inside(mapped, header))
