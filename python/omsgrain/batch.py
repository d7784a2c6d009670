# SPDX-License-Identifier: Apache-2.0
"""Functions for many grains at once: on all cores, in input order, with errors by position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from errno import ENAMETOOLONG
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from omsgrain import _core
from omsgrain.counts import counted
from omsgrain.errors import OmsError, SchemaError
from omsgrain.grain import Grain, as_unicode, checked_grains, options
from omsgrain.header import as_bytes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from omsgrain.grain import EncodeOptions

__all__ = [
    "DecodeBatch",
    "GrainBatch",
    "ItemError",
    "ItemWarning",
    "OnError",
    "VerifyReport",
    "address_many",
    "decode_many",
    "encode_jsonl",
    "encode_many",
    "verify_many",
]

OnError = Literal["raise", "collect"]


@dataclass(frozen=True, slots=True)
class ItemError:
    """A rejected item of a batch.

    Attributes:
        index: its position in the input, from 0.
        line: its line, from 1, if the input has lines.
        error: the reason.
    """

    index: int
    line: int | None
    error: OmsError


@dataclass(frozen=True, slots=True)
class ItemWarning:
    """A warning about an item of a batch: position from 0, line from 1, and the message."""

    index: int
    line: int | None
    message: str


class GrainBatch:
    """The valid grains of a batch, and the errors. Iterate for (address, blob) pairs.

    Attributes:
        errors: the rejected items.
        warnings: items that are allowed but look like a mistake.
    """

    __slots__ = ("_batch", "errors", "warnings")

    def __init__(self, batch: _core.Batch) -> None:
        self._batch = batch
        self.errors = [ItemError(*item) for item in batch.errors()]
        self.warnings = [ItemWarning(*item) for item in batch.warnings()]

    def __len__(self) -> int:
        return len(self._batch)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return (self._batch.item(i) for i in range(len(self._batch)))

    @property
    def addresses(self) -> list[str]:
        """The address of each valid grain."""
        return self._batch.addresses()

    @property
    def digests(self) -> list[bytes]:
        """The address of each valid grain as 32 bytes."""
        return self._batch.digests()

    @property
    def blobs(self) -> list[bytes]:
        """The blob of each valid grain."""
        return self._batch.blobs()

    @property
    def indices(self) -> list[int]:
        """The position of each valid grain in the input."""
        return self._batch.indices()

    def __repr__(self) -> str:
        return f"<GrainBatch of {len(self)}, {len(self.errors)} refused>"


@dataclass(frozen=True, slots=True)
class DecodeBatch:
    """The decoded grains, their positions in the input, and the errors."""

    grains: list[Grain]
    indices: list[int]
    errors: list[ItemError]

    __repr__ = counted

    def __len__(self) -> int:
        return len(self.grains)

    def __iter__(self) -> Iterator[Grain]:
        return iter(self.grains)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The number of verified pairs, and the errors."""

    verified: int
    errors: list[ItemError]

    __repr__ = counted


def stops(errors: OnError) -> bool:
    """Whether the first error ends the call."""
    if errors not in ("raise", "collect"):
        raise SchemaError("unknown value for errors", expected='"raise" or "collect"')
    return errors == "raise"


def encode_many(
    dicts: Iterable[Mapping[str, Any]],
    *,
    errors: OnError = "raise",
    **kwargs: Unpack[EncodeOptions],
) -> GrainBatch:
    """Encode many grains on all cores.

    Args:
        dicts: fields by full name.
        errors: "raise" stops at the first error; "collect" keeps the valid grains.
        **kwargs: the options of ``encode``.

    Raises:
        OmsError: the first error, with errors="raise"; its field begins with the item: /17/object.
    """
    stop = stops(errors)
    batch = GrainBatch(_core.encode_many(dicts, options(**kwargs), stop))
    _raise_first(batch.errors, stop)
    return batch


def encode_jsonl(
    data_or_path: bytes | bytearray | memoryview | str | PathLike[str],
    *,
    errors: OnError = "raise",
    **kwargs: Unpack[EncodeOptions],
) -> GrainBatch:
    """Encode JSON lines on all cores, without building Python objects.

    Args:
        data_or_path: the lines as bytes, or the path of a file.
        errors: "raise" stops at the first error; "collect" keeps the valid grains.
        **kwargs: the options of ``encode``.

    Raises:
        OmsError: the first error with its line, with errors="raise".
        SchemaError: the path is invalid.
        OSError: the file cannot be read.
    """
    stop = stops(errors)
    if isinstance(data_or_path, bytes | bytearray | memoryview):
        data = bytes(data_or_path)
    else:
        data = read_file(data_or_path)
    batch = GrainBatch(_core.encode_jsonl(data, options(**kwargs)))
    _raise_first(batch.errors, stop)
    return batch


def decode_many(blobs: Iterable[bytes], *, errors: OnError = "raise") -> DecodeBatch:
    """Decode many blobs strictly, on all cores.

    Args:
        blobs: the blobs.
        errors: "raise" stops at the first error; "collect" keeps the valid grains.

    Raises:
        OmsError: the first error, with errors="raise"; its field begins with the item: /17/object.
    """
    stop = stops(errors)
    given = [blob if type(blob) is bytes else as_bytes(blob) for blob in blobs]
    fields, known, wrong = _core.decode_many(given)
    errors_found = [ItemError(i, None, error) for i, error in wrong]
    _raise_first(errors_found, stop)
    grains = checked_grains(given, fields, known)
    if not wrong:
        return DecodeBatch(cast("list[Grain]", grains), list(range(len(grains))), [])
    good = [(i, grain) for i, grain in enumerate(grains) if grain is not None]
    return DecodeBatch([grain for _, grain in good], [i for i, _ in good], errors_found)


def address_many(blobs: Iterable[bytes]) -> list[str]:
    """Return the address of each blob. Spec: OMS §5.

    Args:
        blobs: the blobs, which are not checked.
    """
    # Converting here, and not by a call for each blob, takes a seventh of the time.
    return _core.address_many([b if type(b) is bytes else as_bytes(b) for b in blobs])


def verify_many(pairs: Iterable[tuple[bytes, str]], *, errors: OnError = "raise") -> VerifyReport:
    """Verify (blob, address) pairs: address, canonical form and fields.

    Args:
        pairs: blobs with their addresses.
        errors: "raise" stops at the first error; "collect" reports all.

    Raises:
        OmsError: the first error, with errors="raise"; its field begins with the item: /17/object.
    """
    stop = stops(errors)
    given = list(pairs)
    blobs = [blob if type(blob) is bytes else as_bytes(blob) for blob, _ in given]
    addresses = [address for _, address in given]
    try:
        found = _core.verify_many(blobs, addresses)
    except UnicodeEncodeError:
        found = _core.verify_many(blobs, [as_unicode(address) for address in addresses])
    bad = [ItemError(i, None, error) for i, error in found]
    _raise_first(bad, stop)
    return VerifyReport(len(given) - len(bad), bad)


def read_file(path: str | PathLike[str]) -> bytes:
    """Read a file."""
    try:
        return Path(path).read_bytes()
    except (ValueError, OSError) as error:
        # The system's message would contain the whole text.
        if isinstance(error, OSError) and error.errno != ENAMETOOLONG:
            raise
        raise SchemaError("invalid path", expected="bytes, or a path") from None


def first_error(bad: list[ItemError]) -> OmsError:
    """Return the first error, for a call that stops at it, with its line or its item."""
    error = bad[0].error
    if bad[0].line is None:
        error.field = f"/{bad[0].index}{error.field or ''}"
    return error


def _raise_first(bad: list[ItemError], stop: bool) -> None:
    if stop and bad:
        raise first_error(bad)


def __dir__() -> list[str]:
    return __all__
