# SPDX-License-Identifier: Apache-2.0
"""Packed .mg files and the decoders of others: theirs read ours, ours reads theirs.  Spec: OMS §11

The other implementation is that of the packages zstandard and lz4.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from random import Random

import lz4.frame
import pytest
import zstandard
from test_container_files import peak

import omsgrain as og
from containers import PACKED, blob, make, pool, saved, sealed
from omsgrain import _core, container
from omsgrain.container import region
from omsgrain.container.layout import Codec
from support.container_problems import problems

CODEC: dict[str, int] = {"zstd": 1, "lz4": 2}
Pack = Callable[[bytes], bytes]


def noisy(count: int) -> list[bytes]:
    """Grains of 40 KB that hardly pack, between others."""
    rng = Random("others")
    large = [blob(n, x_noise=rng.randbytes(20_000).hex()) for n in range(count)]
    return [*large[: count // 2], *pool(60, "others"), *large[count // 2 :]]


GRAINS = noisy(300)
ALL = b"".join(GRAINS)


def packed_region(path: Path) -> bytes:
    data = path.read_bytes()
    return data[16 + 4 * len(GRAINS) : -32]


def unpacked(codec: str, data: bytes) -> bytes:
    """The output of one call of a decoder that does not know .mg."""
    if codec == "lz4":
        found: bytes = lz4.frame.decompress(data)
        return found
    return zstandard.ZstdDecompressor().decompress(data)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_others_unpack_ours_in_one_call(tmp_path: Path, codec: Codec) -> None:
    assert len(ALL) > 12_000_000
    path = tmp_path / "file.mg"
    container.write(path, GRAINS, codec=codec)
    assert unpacked(codec, packed_region(path)) == ALL
    assert container.verify(path) == container.ContainerReport(len(GRAINS))
    with container.read(path) as found:
        assert list(found) == GRAINS
        for n in (0, 7, 359, 158, 20):
            assert found[n] == GRAINS[n]


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_seekable_file_has_many_frames(tmp_path: Path, codec: Codec) -> None:
    path = tmp_path / "file.mg"
    container.write(path, GRAINS, codec=codec, seekable=True)
    frames = packed_region(path)
    if codec == "zstd":
        with zstandard.ZstdDecompressor().stream_reader(frames, read_across_frames=True) as all_:
            assert all_.read() == ALL
    else:
        with lz4.frame.LZ4FrameFile(saved(tmp_path, frames, "frames")) as every:
            assert every.read() == ALL
    with container.read(path) as found:
        assert list(found) == GRAINS


def zstd_options() -> dict[str, Pack]:
    def stream(data: bytes) -> bytes:
        packer = zstandard.ZstdCompressor(level=1).compressobj()
        pieces = [packer.compress(data[i : i + 100_000]) for i in range(0, len(data), 100_000)]
        return b"".join([*pieces, packer.flush()])

    def options(**chosen: bool | int) -> Pack:
        return zstandard.ZstdCompressor(level=1, **chosen).compress  # type: ignore[arg-type]

    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
    return {
        "usual": options(),
        "without size": options(write_content_size=False),
        "with checksum": options(write_checksum=True),
        "stream": stream,
        "128 MiB window": zstandard.ZstdCompressor(compression_params=wide).compress,
    }


def lz4_options() -> dict[str, Pack]:
    found: dict[str, Pack] = {}
    for size in (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB):
        for linked in (False, True):
            for stated in (False, True):

                def pack(data: bytes, s: int = size, k: bool = linked, t: bool = stated) -> bytes:
                    packed: bytes = lz4.frame.compress(
                        data, block_size=s, block_linked=k, store_size=t, content_checksum=k,
                        block_checksum=t,
                    )  # fmt: skip
                    return packed

                found[f"{size}, {'linked' * linked}, {'stated' * stated}"] = pack
    return found


OPTIONS = [("zstd", name, pack) for name, pack in zstd_options().items()]
OPTIONS += [("lz4", name, pack) for name, pack in lz4_options().items()]


@pytest.mark.parametrize(("codec", "name", "pack"), OPTIONS, ids=lambda one: str(one)[:30])
@pytest.mark.parametrize("frames", [1, 2])
def test_frames_of_others_are_read(
    tmp_path: Path, codec: str, name: str, pack: Pack, frames: int
) -> None:
    cut = -(-len(ALL) // frames)
    theirs = b"".join(pack(ALL[i : i + cut]) for i in range(0, len(ALL), cut))
    number = CODEC[codec]
    data = make(GRAINS, codec=number, region=theirs)
    path = saved(tmp_path, data)
    assert container.verify(path) == container.ContainerReport(len(GRAINS))
    with container.read(path) as found:
        assert list(found) == GRAINS


def test_a_small_frame_without_its_size(tmp_path: Path) -> None:
    grains = [blob(1), sealed(2)]
    state = b"\x81\xd9\x40" + og.address(grains[0]).encode() + b"\x81\xa2ac\x01"
    pack = zstandard.ZstdCompressor(write_content_size=False).compress
    theirs = pack(grains[0]) + pack(grains[1])
    at = 16 + 8 + len(theirs)
    data = make(grains, codec=1, region=theirs, manifest=state, manifest_at=at)
    assert not problems(tmp_path, data)
    with container.read(tmp_path / "file.mg") as found:
        assert list(found) == grains
        assert found.manifest == {og.address(grains[0]): {"access_count": 1}}


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_memory_does_not_grow_with_a_frame(tmp_path: Path, codec: str) -> None:
    grains = [sealed(n, 1_000_000) for n in range(40)]
    path = tmp_path / "file.mg"
    container.write(path, grains, codec=codec)  # type: ignore[arg-type]

    def read() -> None:
        with container.read(path) as found:
            assert sum(map(len, found)) == sum(map(len, grains))

    assert peak(read) < 16 << 20


def test_reading_forwards_unpacks_a_long_frame_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to measure it, once to read it."""
    path = tmp_path / "file.mg"
    container.write(path, GRAINS, codec="zstd")
    begun: list[int] = []

    class Counting:
        def __init__(self, *given: object) -> None:
            begun.append(1)
            self._reader = _core.FrameReader(*given)  # type: ignore[arg-type]

        def read(self, size: int) -> bytes:
            return self._reader.read(size)

        @property
        def taken(self) -> int:
            return self._reader.taken

    monkeypatch.setattr(region, "_core", _Replaced(Counting))
    with container.read(path) as found:
        assert list(found) == GRAINS
        assert len(begun) == 2
        assert [found[n] for n in range(len(found))] == GRAINS
        assert len(begun) == 3


class _Replaced:
    """The core, with another reader of frames."""

    def __init__(self, reader: type) -> None:
        self.FrameReader = reader

    def __getattr__(self, name: str) -> object:
        return getattr(_core, name)


def test_the_limit_of_offsets_is_that_of_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region, "_LONGEST", 20 << 20)
    pack = zstandard.ZstdCompressor(write_content_size=False).compress
    ends = list(accumulate([len(blob(1))] * 2, initial=0))
    data = make([blob(1)] * 2, codec=1, offsets=ends[:-1], region=pack(bytes(21 << 20)))
    assert len(data) < 10_000
    first = problems(tmp_path, data)[0]
    assert (first.part, first.number, first.error.code) == ("frame", 0, "ERR_TOO_LARGE")
    assert str(20 << 20) in str(first.error)


def test_a_closed_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file.mg"
    container.write(path, GRAINS, codec="zstd")
    with container.read(path) as found:
        assert found[3] == GRAINS[3]
    with pytest.raises(og.errors.StoreError):
        found[4]
    assert found.flags == PACKED
