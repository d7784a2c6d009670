# SPDX-License-Identifier: Apache-2.0
"""Is this a whole grain, and what is its address: for blobs, envelopes and sealed grains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from omsgrain import _core
from omsgrain.container.block import DIGEST, Block
from omsgrain.container.layout import BATCH, MAX_GRAIN, MIN_GRAIN
from omsgrain.container.problem import problem
from omsgrain.errors import (
    CorruptError,
    OmsError,
    SignedMismatchError,
    TooLargeError,
    TooShortError,
    UnknownTypeError,
)
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT, SIGNED_BIT, as_bytes

Item = bytes | bytearray | memoryview | Grain

#: First byte of a COSE_Sign1 envelope. A blob begins with its version, 1.
ENVELOPE = b"\xd2"


def gather(items: Iterable[Item], before: int = 0) -> Iterator[Block]:
    """The bytes of the items, in blocks of about `BATCH` bytes.

    Args:
        items: blobs, grains, or envelopes.
        before: how many came before them.

    Raises:
        TooShortError, TooLargeError: an item has not the size of a grain.
    """
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
    """The bytes of an item."""
    return item.blob if isinstance(item, Grain) else as_bytes(item)


def _wrong_size(grain: bytes) -> OmsError:
    kind = TooShortError if len(grain) < MIN_GRAIN else TooLargeError
    expected, found = f"{MIN_GRAIN} to {MAX_GRAIN} bytes", f"{len(grain)} bytes"
    return kind("not the size of a grain", expected=expected, found=found)


def blob_of(grain: bytes) -> bytes:
    """What the address is computed of: the blob, if the grain stands in its envelope."""
    return _core.envelope_blob(grain) if grain[:1] == ENVELOPE else grain


def created_at(grain: bytes) -> int:
    """The time in the header of a grain, in seconds; 0 in most sealed ones."""
    return int.from_bytes(blob_of(grain)[5:9], "big")


def address(grain: bytes) -> str:
    """The address of a grain.

    Raises:
        CorruptError: its envelope is broken.
    """
    return _core.address(blob_of(grain))


def addressed(block: Block) -> bytes:
    """The addresses of grains, 32 bytes each.

    Raises:
        CorruptError: an envelope is broken.
    """
    if block.digests is not None:
        return block.digests
    found = _core.address_many([blob_of(grain) for grain in block.grains()])
    return bytes.fromhex("".join(found))


def check_grain(grain: bytes) -> bytes:
    """Check one grain, as `examine` does, and give its blob."""
    if not MIN_GRAIN <= len(grain) <= MAX_GRAIN:
        raise _wrong_size(grain)
    if grain[:1] != ENVELOPE:
        _check_blob(grain)
        return grain
    blob, length = _core.envelope_blob(grain), _core.extent(grain)
    if length != len(grain):
        raise CorruptError("bytes follow the envelope", offset=length)
    if len(blob) > 1 and not blob[1] & SIGNED_BIT:
        raise SignedMismatchError("an envelope around an unsigned blob", offset=grain.find(blob))
    try:
        # The bit says only that there is an envelope; the rest is checked as if there were none.
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
        raise UnknownTypeError("type byte 0 means nothing", expected="1 to 255", offset=2)


def examine(block: Block) -> tuple[bytes, list[tuple[int, OmsError]]]:
    """Check grains in full, as far as that is possible without keys.

    Of a sealed grain that is the header. Signatures are not verified here.

    Returns:
        The addresses of the grains, 32 bytes each (of what cannot be opened, that of the bytes as
        they stand), and position and error of those that are not good.
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
