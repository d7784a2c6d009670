# SPDX-License-Identifier: Apache-2.0
"""Is this a whole grain, and what is its address: for blobs, envelopes and sealed grains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omsgrain import _core
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
from omsgrain.header import as_bytes

Item = bytes | bytearray | memoryview | Grain

_SIGNED, _ENCRYPTED = 1, 2
#: First byte of a COSE_Sign1 envelope. A blob begins with its version, 1.
ENVELOPE = b"\xd2"


def gather(items: Iterable[Item]) -> Iterator[list[bytes]]:
    """The bytes of the items, in batches of about `BATCH` bytes.

    Raises:
        TooShortError, TooLargeError: an item has not the size of a grain.
    """
    batch: list[bytes] = []
    size = before = 0
    for item in items:
        grain = item if type(item) is bytes else grain_bytes(item)
        if not MIN_GRAIN <= len(grain) <= MAX_GRAIN:
            raise problem("grain", before + len(batch), _wrong_size(grain)).error
        batch.append(grain)
        size += len(grain)
        if size >= BATCH:
            yield batch
            before += len(batch)
            batch, size = [], 0
    if batch:
        yield batch


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


def addresses(grains: list[bytes]) -> list[str]:
    """The address of each grain.

    Raises:
        CorruptError: an envelope is broken.
    """
    return _core.address_many([blob_of(grain) for grain in grains])


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
    if len(blob) > 1 and not blob[1] & _SIGNED:
        raise SignedMismatchError("an envelope around an unsigned blob", offset=grain.find(blob))
    try:
        # The bit says only that there is an envelope; the rest is checked as if there were none.
        flags = bytes(flag & ~_SIGNED for flag in blob[1:2])
        _check_blob(blob[:1] + flags + blob[2:])
    except OmsError as error:
        error.offset = grain.find(blob) + (error.offset or 0)
        raise
    return blob


def _check_blob(blob: bytes) -> None:
    _, flags, type_byte, _, _ = _core.header(blob)
    if flags & _SIGNED:
        raise SignedMismatchError("the signed bit is set, but there is no envelope", offset=1)
    if not flags & _ENCRYPTED:
        _core.verify(blob)
    elif not type_byte:
        raise UnknownTypeError("type byte 0 means nothing", expected="1 to 255", offset=2)


def examine(grains: list[bytes]) -> tuple[list[str], list[tuple[int, OmsError]]]:
    """Check grains in full, as far as that is possible without keys.

    Of a sealed grain that is the header. Signatures are not verified here.

    Returns:
        The address of each grain (of what cannot be opened, of the bytes as they stand), and
        position and error of those that are not good.
    """
    special = [i for i, g in enumerate(grains) if len(g) < 2 or g[0] != 1 or g[1] & 3]
    if not special:
        digests, wrong = _core.check_many(grains)
        return [digest.hex() for digest in digests], wrong
    blobs = list(grains)
    bad: list[tuple[int, OmsError]] = []
    for i in special:
        try:
            blobs[i] = check_grain(grains[i])
        except OmsError as error:
            bad.append((i, error))
    found = _core.address_many(blobs)
    left_out = set(special)
    plain = [i for i in range(len(grains)) if i not in left_out]
    bad += [(plain[k], error) for k, error in _core.check_many([blobs[i] for i in plain])[1]]
    return found, sorted(bad, key=lambda pair: pair[0])
