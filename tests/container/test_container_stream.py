# SPDX-License-Identifier: Apache-2.0
"""Streams of grains: whole, cut, and made to harm.  Spec: OMS §11.6"""

from __future__ import annotations

import io
import os
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO, cast

import pytest

import omsgrain as og
from containers import blob, pool, sealed, signed
from omsgrain import container, errors

GRAINS = [*pool(20, "stream"), sealed(1), signed(blob(1))]


def framed(*grains: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(grain)) + grain for grain in grains)


def test_round_trip() -> None:
    file = io.BytesIO()
    assert container.write_stream(file, iter(GRAINS)) == len(GRAINS)
    assert file.getvalue() == framed(*GRAINS) + bytes(4)
    file.write(b"what follows is not read")
    file.seek(0)
    assert list(container.read_stream(file)) == GRAINS
    assert file.read(4) == b"what"


def test_items() -> None:
    file = io.BytesIO()
    container.write_stream(file, [og.decode(blob(1)), bytearray(blob(2)), memoryview(blob(3))])
    assert file.getvalue() == framed(blob(1), blob(2), blob(3)) + bytes(4)
    empty = io.BytesIO()
    assert container.write_stream(empty, []) == 0
    assert empty.getvalue() == bytes(4)
    with pytest.raises(TypeError):
        container.write_stream(io.BytesIO(), ["text"])  # type: ignore[list-item]


def test_a_bad_item_ends_the_stream_without_its_mark() -> None:
    file = io.BytesIO()
    with pytest.raises(errors.CorruptError):
        container.write_stream(file, [blob(1), blob(2) + b"\x00"])
    assert file.getvalue() == framed(blob(1))


class Trickle(io.RawIOBase):
    """Gives and takes at most three bytes at once, as a pipe may."""

    def __init__(self, data: bytes = b"") -> None:
        self._file = io.BytesIO(data)
        self.taken = b""

    def read(self, size: int = -1) -> bytes:
        return self._file.read(min(size, 3))

    def write(self, data: object) -> int:
        piece = bytes(cast(memoryview, data)[:3])
        self.taken += piece
        return len(piece)


def test_little_at_once() -> None:
    file = Trickle()
    container.write_stream(cast(BinaryIO, file), GRAINS)
    assert file.taken == framed(*GRAINS) + bytes(4)
    assert list(container.read_stream(cast(BinaryIO, Trickle(file.taken)))) == GRAINS


def test_each_grain_goes_out_as_it_comes() -> None:
    reader, writer = os.pipe()
    got = []
    asked = threading.Semaphore(0)

    def source() -> Iterator[bytes]:
        for grain in GRAINS[:3]:
            yield grain
            assert asked.acquire(timeout=60)

    def write() -> None:
        with open(writer, "wb", buffering=0) as file:
            container.write_stream(cast(BinaryIO, file), source())

    thread = threading.Thread(target=write)
    thread.start()
    with open(reader, "rb", buffering=0) as file:
        for grain in container.read_stream(cast(BinaryIO, file)):
            got.append(grain)
            asked.release()
    thread.join()
    assert got == GRAINS[:3]


def test_cut() -> None:
    whole = framed(blob(1), blob(2)) + bytes(4)
    first = len(framed(blob(1)))
    for size in range(len(whole)):
        got = []
        with pytest.raises(errors.CorruptError) as caught:
            got += list(container.read_stream(io.BytesIO(whole[:size])))
        assert caught.value.offset == size
        assert not got
    found = container.read_stream(io.BytesIO(whole[: first + 9]))
    assert next(found) == blob(1)
    with pytest.raises(errors.CorruptError):
        next(found)


FIRST = len(framed(blob(1)))


@pytest.mark.parametrize(
    ("follows", "code", "offset"),
    [
        (b"\xff\xff\xff\xff", "ERR_TOO_LARGE", FIRST),
        (struct.pack(">I", 9) + bytes(9), "ERR_TOO_SHORT", FIRST),
        (framed(blob(2) + b"\x00"), "ERR_CORRUPT", FIRST + 4 + len(blob(2))),
        (framed(blob(2)[:-1]), "ERR_CORRUPT", None),
        (framed(b"\x07" + blob(2)), "ERR_VERSION", FIRST + 4),
        (framed(signed(blob(2))[:-1]), "ERR_CORRUPT", None),
    ],
)
def test_hostile(follows: bytes, code: str, offset: int | None) -> None:
    found = container.read_stream(io.BytesIO(framed(blob(1)) + follows + bytes(4)))
    assert next(found) == blob(1)
    with pytest.raises(errors.OmsError) as caught:
        next(found)
    assert caught.value.code == code
    assert caught.value.offset is not None
    assert caught.value.offset == offset or (offset is None and caught.value.offset >= FIRST + 4)


def test_the_longest_grain() -> None:
    data = framed(blob(1)) + bytes(4)
    size = len(blob(1))
    assert list(container.read_stream(io.BytesIO(data), max_grain=size)) == [blob(1)]
    with pytest.raises(errors.TooLargeError):
        list(container.read_stream(io.BytesIO(data), max_grain=size - 1))
