# SPDX-License-Identifier: Apache-2.0
"""Containers as files: several for one export, full disks, memory, a million grains."""

from __future__ import annotations

import resource
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from random import Random
from stat import S_IMODE
from typing import Any

import pytest

import omsgrain as og
from containers import CODECS, address, belief, blob, pool, sealed
from omsgrain import container, errors
from omsgrain.container import layout

GRAINS = pool(60, "files")


def contents(paths: list[Path]) -> list[bytes]:
    found = []
    for path in paths:
        with container.read(path) as opened:
            assert opened.verify().verified == len(opened)
            found += list(opened)
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sort", [False, True])
def test_several_files(tmp_path: Path, codec: layout.Codec, sort: bool) -> None:
    largest = max(map(len, GRAINS))
    states = {address(grain): {"access_count": 2**60} for grain in GRAINS[::3]}
    for limit in (largest + 500, 3 * largest + 1000):
        path = tmp_path / "out" / f"split {limit}.mg"
        path.parent.mkdir(exist_ok=True)
        written = container.write(
            path, GRAINS, codec=codec, sort=sort, manifest=states, max_bytes=limit
        )
        paths = container.parts(path)
        assert list(written.paths) == paths
        assert len(paths) > 2
        assert paths[1].name == f"split {limit}-0002.mg"
        assert not path.exists()
        sizes = [part.stat().st_size for part in paths]
        assert max(sizes) <= limit
        assert sum(sizes) == written.bytes
        found = contents(paths)
        assert sorted(found) == sorted(GRAINS) if sort else found == GRAINS
        told: dict[str, Any] = {}
        for part in paths:
            with container.read(part) as opened:
                assert opened.manifest.keys() <= set(map(address, opened))
                told.update(opened.manifest)
        assert told == states


def test_limits_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "file.mg"
    size = container.write(path, GRAINS).bytes + layout.ENTRY_SIZE + 1
    assert container.write(path, GRAINS, max_bytes=size).paths == (path,)
    assert len(container.write(path, GRAINS, max_bytes=size - 10).paths) == 2
    with pytest.raises(errors.TooLargeError):
        container.write(path, [blob(1)], max_bytes=100)
    path = tmp_path / "empty.mg"
    assert container.write(path, [], max_bytes=100).grains == 0
    assert container.parts(path) == [path]


def test_replacing_several_files(tmp_path: Path) -> None:
    """Parts of an older export would seem to belong to the new one, so they are not overlooked."""
    path, limit = tmp_path / "file.mg", max(map(len, GRAINS)) + 200
    container.write(path, GRAINS[:2])
    before = container.write(path, GRAINS, max_bytes=limit).paths
    assert not path.exists()
    old = {part: part.read_bytes() for part in before}
    with pytest.raises(errors.StoreError):
        container.write(path, GRAINS[:20], max_bytes=limit)
    assert {part: part.read_bytes() for part in tmp_path.iterdir()} == old
    for part in before:
        part.unlink()
    assert contents(list(container.write(path, GRAINS[:20], max_bytes=limit).paths)) == GRAINS[:20]


def test_one_file_over_several(tmp_path: Path) -> None:
    path = tmp_path / "file.mg"
    before = container.write(path, GRAINS, max_bytes=max(map(len, GRAINS)) + 200).paths
    with pytest.raises(errors.StoreError):
        container.write(path, GRAINS[:2])
    assert sorted(tmp_path.iterdir()) == sorted(before)
    for part in before:
        part.unlink()
    assert container.write(path, GRAINS[:2]).paths == (path,)


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_file_that_replaces_another_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path, limit = tmp_path / "file.mg", max(map(len, GRAINS)) + 200
    container.write(path, GRAINS[:2])
    path.chmod(mode)
    assert container.write(path, GRAINS).paths == (path,)
    assert S_IMODE(path.stat().st_mode) == mode
    for _ in range(2):  # over one file, and over several
        paths = container.write(path, GRAINS, max_bytes=limit).paths
        assert {S_IMODE(one.stat().st_mode) for one in paths} == {mode}


def test_a_frame_of_a_seekable_file_has_about_one_mebibyte(tmp_path: Path) -> None:
    grains = [sealed(n, 100_000) for n in range(45)]
    for dedupe in (False, True):
        path = tmp_path / "file.mg"
        container.write(path, [*grains, *grains], codec="lz4", seekable=True, dedupe=dedupe)
        with container.read(path) as opened:
            sizes = [len(block.data) for _, _, block in opened.inside.blocks()]
            assert len(sizes) == (5 if dedupe else 9)
            assert all(layout.BATCH <= size < layout.BATCH + 100_040 for size in sizes[:-1])
            assert opened[44] == grains[44]


@contextmanager
def no_more_than(size: int) -> Iterator[None]:
    """As on a full disk: files cannot grow beyond a size.

    No module is compiled meanwhile: half of one would stay in its cache.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiled, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = compiled


@pytest.mark.parametrize("size", [0, 100, 5_000, 2_000_000])
@pytest.mark.parametrize("sort", [False, True])
def test_a_full_disk(tmp_path: Path, size: int, sort: bool) -> None:
    path = tmp_path / "file.mg"
    container.write(path, GRAINS[:3])
    before = path.read_bytes()
    with no_more_than(size), pytest.raises(errors.StoreError):
        container.write(path, (sealed(n, 9000) for n in range(400)), sort=sort)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert container.write(path, GRAINS).grains == len(GRAINS)


def peak(use: Callable[[], object]) -> int:
    """The most Python memory that the call has at once, besides what there was."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        use()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_memory_does_not_grow_with_the_file(tmp_path: Path, codec: layout.Codec) -> None:
    """Of 24 MiB. A batch of 1 MiB, its joined copy and one or two frames are in memory at once."""
    path, count = tmp_path / "file.mg", 6000
    noise = Random("memory").randbytes(4096)

    def source() -> Iterator[bytes]:
        return (sealed(n)[:9] + n.to_bytes(4, "big") + noise for n in range(count))

    def write(**options: Any) -> None:
        container.write(path, source(), codec=codec, **options)

    assert peak(write) < 6 << 20
    assert peak(lambda: write(sort=True)) < 6 << 20
    assert peak(lambda: write(dedupe=True)) < (6 << 20) + 200 * count
    with container.read(path) as found:
        assert peak(lambda: sum(map(len, found))) < 12 << 20
        assert peak(found.verify) < 12 << 20
        assert peak(lambda: [len(found[n]) for n in range(0, count, 97)]) < 12 << 20
    assert peak(lambda: container.read(path).close()) < 64 << 10


def grains(count: int) -> Iterator[bytes]:
    """Made by the thousand, in bounded memory."""
    numbers = iter(range(count))
    while some := list(islice(numbers, 10_000)):
        yield from og.encode_many(belief(n) for n in some).blobs


@pytest.mark.long
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("options", [{}, {"sort": True, "dedupe": True}], ids=["plain", "flags"])
def test_a_million_grains(tmp_path: Path, codec: layout.Codec, options: dict[str, Any]) -> None:
    count, path = 1_000_000, tmp_path / "file.mg"
    written = container.write(path, grains(count), codec=codec, **options)
    assert (written.grains, written.duplicates) == (count, 0)
    rng = Random("million")
    with container.read(path) as found:
        assert found.verify().verified == count
        for number in rng.sample(range(count), 10_000 if codec == "none" else 300):
            assert found.grain(number).fields["subject"] == f"robot-{number}"
    with path.open("r+b") as file:
        at = rng.randrange(16, written.bytes)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))
    assert not container.verify(path, errors="collect").ok


@pytest.mark.long
def test_over_four_gibibytes(tmp_path: Path) -> None:
    """Of zeros, so that the disk holds it; offsets count what is unpacked."""
    path, count = tmp_path / "file.mg", 2200
    zeros = bytes(layout.MAX_GRAIN - 13)
    written = container.write(
        path, (sealed(0)[:9] + n.to_bytes(4, "big") + zeros for n in range(count)), codec="zstd"
    )
    assert [path.name for path in written.paths] == ["file-0001.mg", "file-0002.mg"]
    numbers: list[int] = []
    for part in written.paths:
        with container.read(part) as found:
            assert found.verify().verified == len(found)
            assert len(found[-1]) == layout.MAX_GRAIN
            numbers += [int.from_bytes(grain[9:13], "big") for grain in found]
    assert numbers == list(range(count))
