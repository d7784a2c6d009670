# SPDX-License-Identifier: Apache-2.0
"""Read a .mg file without loading it. Spec: OMS §11."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from omsgrain.batch import OnError
from omsgrain.container.check import ENVELOPE, address
from omsgrain.container.files import os_errors
from omsgrain.container.inside import Inside
from omsgrain.container.layout import HEADER_SIZE, Codec, ContainerHeader
from omsgrain.container.problem import Broken, problem
from omsgrain.durable import file_path
from omsgrain.errors import OmsError, UnsupportedError
from omsgrain.grain import Grain

if TYPE_CHECKING:
    from omsgrain.container.verify import Report


class Container:
    """An open .mg file: a sequence of grains' bytes, read from the file as they are asked for.

    What is read is not verified (`verify` does that), but what cannot be right is refused, with
    the part and the byte offset. Several threads may read. A file that another program shortens
    while it is open kills the process, as it is memory-mapped; `write` never shortens one, it
    replaces it.

    Attributes:
        path: the file.
        header: its first 16 bytes.
        inside: for this package.
    """

    __slots__ = ("header", "inside", "path")

    def __init__(self, path: Path, inside: Inside) -> None:
        self.path = path
        self.header = inside.header
        self.inside = inside

    def close(self) -> None:
        """Let go of the file."""
        self.inside.close()

    def __enter__(self) -> Container:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """The bytes of one grain: its blob, or its envelope if it is signed.

        Raises:
            IndexError: there is no grain of that number.
            OmsError: it cannot be read.
        """
        count = self.header.count
        place = number + count if number < 0 else number
        if not 0 <= place < count:
            raise IndexError("no grain of that number in the container")
        try:
            return self.inside.get(place)
        except Broken as broken:
            raise broken.problem.error from None

    def __iter__(self) -> Iterator[bytes]:
        for grains in self.together():
            yield from grains

    def together(self) -> Iterator[list[bytes]]:
        """The grains in turn, some at a time; for this package."""
        try:
            for _, _, block in self.inside.blocks():
                yield block.grains()
        except Broken as broken:
            raise broken.problem.error from None

    def grain(self, number: int) -> Grain:
        """One grain, checked.

        Raises:
            UnsupportedError: it is signed; its signature is to be verified first.
            OmsError: any refusal of the format; ERR_KEY if it is sealed.
        """
        data = self[number]
        if data[:1] == ENVELOPE:
            raise UnsupportedError("a signed grain is opened by verifying its signature")
        return Grain(data)

    def address(self, number: int) -> str:
        """The address of one grain, computed from its bytes."""
        return address(self[number])

    @property
    def manifest(self) -> Mapping[str, Mapping[str, Any]]:
        """State by address: what the file's writer claims became of its grains.

        Raises:
            OmsError: it cannot be found, or is not canonical.
        """
        try:
            return MappingProxyType(self.inside.states)
        except Broken as broken:
            raise broken.problem.error from None

    def verify(self, *, errors: OnError = "raise") -> Report:
        """Check every byte of the file; see `omsgrain.container.verify`.

        Args:
            errors: "raise" stops at the first problem; "collect" goes on and lists them.

        Raises:
            OmsError: the first problem, with errors="raise".
        """
        from omsgrain.container.verify import verify_open

        return verify_open(self, errors)


def read(path: str | os.PathLike[str]) -> Container:
    """Open a .mg file. Only its header is looked at, whatever its size. Spec: OMS §11.

    Raises:
        StoreError: it cannot be opened (NotFoundError: there is none).
        TooShortError, CorruptError, VersionError, UnsupportedError: not a container, or not one
            that can be read here.
    """
    try:
        return open_file(file_path(path))
    except Broken as broken:
        raise broken.problem.error from None


def open_file(path: Path) -> Container:
    """As `read`, but raises `Broken` if the header is not right."""
    with os_errors("open", path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            header = ContainerHeader.parse(file.read(HEADER_SIZE), size)
        except OmsError as error:
            raise Broken(problem("header", None, error)) from None
        mapped = mmap(file.fileno(), size, access=ACCESS_READ)
    return Container(path, Inside(mapped, header))
