# SPDX-License-Identifier: Apache-2.0
"""Containers made to harm, all with the footer that belongs to them: the first fault is named."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest
from test_container_files import peak

from containers import (
    address,
    blob,
    looked_at,
    lz4_frame,
    make,
    pool,
    reclosed,
    saved,
    sealed,
    signed,
    zstd_frame,
)
from omsgrain import _core, container
from omsgrain.container.layout import MAX_GRAIN
from omsgrain.errors import CorruptError
from support.container_problems import problems
from support.scale import Scale

TWO = [blob(1), blob(2)]
BASE = 16 + 8
SIZE = len(TWO[0])
LONG = [sealed(n, 1 << 20) for n in range(9)]
#: Of a frame that does not state its content size.
LZ4_HEAD = b"\x04\x22\x4d\x18\x60\x40\x82"
ALWAYS = struct.pack(">I", 0)


def no_manifest(data: bytes) -> bytes:
    return make(TWO, manifest=data)


HOSTILE: dict[str, tuple[bytes, str, int | None, str]] = {
    "empty file": (b"", "header", None, "ERR_TOO_SHORT"),
    "header alone": (make([])[:16], "header", None, "ERR_TOO_SHORT"),
    "magic": (make(TWO, magic=b"GM"), "header", None, "ERR_CORRUPT"),
    "version": (make(TWO, version=2), "header", None, "ERR_VERSION"),
    "field map version": (make(TWO, field_map=2), "header", None, "ERR_UNSUPPORTED"),
    "field map": (make(TWO, flags=8), "header", None, "ERR_UNSUPPORTED"),
    "unknown flag": (make(TWO, flags=32), "header", None, "ERR_UNSUPPORTED"),
    "unknown codec": (make(TWO, flags=4, codec_byte=3), "header", None, "ERR_UNSUPPORTED"),
    "codec without flag": (make(TWO, codec_byte=1), "header", None, "ERR_CORRUPT"),
    "flag without codec": (make(TWO, flags=4), "header", None, "ERR_CORRUPT"),
    "reserved": (make(TWO, reserved=1), "header", None, "ERR_CORRUPT"),
    "count": (make(TWO, count=2**32 - 1), "header", None, "ERR_TOO_SHORT"),
    "count, packed": (make(TWO, codec=1, count=2**32 - 1), "header", None, "ERR_TOO_SHORT"),
    "no grains, but bytes": (make([], region=blob(1)), "header", None, "ERR_CORRUPT"),
    "no grains, but a frame": (
        make([], codec=1, region=zstd_frame(blob(1))),
        "header",
        None,
        "ERR_CORRUPT",
    ),
    "no grains, but a manifest": (make([], manifest=b"\x80"), "header", None, "ERR_CORRUPT"),
    "manifest offset, no manifest": (make(TWO, manifest_at=40), "header", None, "ERR_CORRUPT"),
    "manifest offset, not sealed": (
        make(TWO, manifest=b"\x81", manifest_at=BASE + 2 * SIZE),
        "header",
        None,
        "ERR_CORRUPT",
    ),
    "manifest offset missing": (
        make([sealed(1)], manifest=b"\x81", manifest_at=0),
        "header",
        None,
        "ERR_CORRUPT",
    ),
    "manifest offset behind the end": (
        make([sealed(1)], manifest=b"\x81", manifest_at=10**6),
        "header",
        None,
        "ERR_CORRUPT",
    ),
    "manifest offset in the index": (
        make([sealed(1)], manifest=b"\x81", manifest_at=18),
        "header",
        None,
        "ERR_CORRUPT",
    ),
    "first offset": (make(TWO, offsets=[BASE + 1, BASE + SIZE]), "index", 0, "ERR_CORRUPT"),
    "first offset, packed": (make(TWO, codec=1, offsets=[1, SIZE]), "index", 0, "ERR_CORRUPT"),
    "offset in the header": (make(TWO, offsets=[0, BASE + SIZE]), "index", 0, "ERR_CORRUPT"),
    "offsets decrease": (make(TWO, offsets=[BASE, BASE - 1]), "index", 1, "ERR_CORRUPT"),
    "offsets equal": (make(TWO, offsets=[BASE, BASE]), "index", 1, "ERR_CORRUPT"),
    "offset behind the end": (make(TWO, offsets=[BASE, 10**9]), "index", 1, "ERR_CORRUPT"),
    "offset behind the end, packed": (
        make(TWO, codec=2, offsets=[0, 2**32 - 1]),
        "index",
        1,
        "ERR_CORRUPT",
    ),
    "offset too late": (make(TWO, offsets=[BASE, BASE + SIZE + 3]), "index", 1, "ERR_CORRUPT"),
    "offset too early": (make(TWO, offsets=[BASE, BASE + SIZE - 3]), "index", 1, "ERR_CORRUPT"),
    "offset too late, packed": (
        make(TWO, codec=1, offsets=[0, SIZE + 3]),
        "index",
        1,
        "ERR_CORRUPT",
    ),
    "grain too large": (
        make([sealed(1, MAX_GRAIN), blob(1)]),
        "index",
        0,
        "ERR_CORRUPT",
    ),
    "bytes before the grains": (
        make(TWO, region=b"\x00" + b"".join(TWO)),
        "grain",
        0,
        "ERR_VERSION",
    ),
    "bytes behind the grains": (
        make(TWO, region=b"".join(TWO) + b"\x00"),
        "grain",
        1,
        "ERR_CORRUPT",
    ),
    "bytes behind a frame": (
        make(TWO, codec=1, region=zstd_frame(b"".join(TWO)) + b"\x00"),
        "frame",
        1,
        "ERR_CORRUPT",
    ),
    "frame of another codec": (
        make(TWO, codec=1, region=lz4_frame(b"".join(TWO))),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "skippable frame": (
        make(TWO, codec=1, region=b"\x50\x2a\x4d\x18" + ALWAYS + zstd_frame(b"".join(TWO))),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "empty frame": (
        make(TWO, codec=1, region=zstd_frame(b"") + zstd_frame(b"".join(TWO))),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "frame cut": (
        make(TWO, codec=2, region=lz4_frame(b"".join(TWO))[:-5]),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "frame of 9 MiB": (
        make(TWO, codec=1, region=zstd_frame(bytes(9 << 20))),
        "grain",
        0,
        "ERR_VERSION",
    ),
    "long frame cut": (
        make(TWO, codec=1, region=zstd_frame(bytes(9 << 20))[:-1]),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "long frame, bytes behind it": (
        make(LONG, codec=1, region=zstd_frame(b"".join(LONG)) + b"\x00"),
        "frame",
        1,
        "ERR_CORRUPT",
    ),
    "window of 256 MiB": (
        make(TWO, codec=1, region=b"\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00"),
        "frame",
        0,
        "ERR_TOO_LARGE",
    ),
    "lz4 block larger than its frame says": (
        make(TWO, codec=2, region=LZ4_HEAD + struct.pack("<I", (64 << 10) + 1) + bytes(70_000)),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "lz4 block that is cut": (
        make(TWO, codec=2, region=LZ4_HEAD + struct.pack("<I", 1 << 31 | 100) + bytes(99)),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "lz4 frame without end mark": (
        make(TWO, codec=2, region=LZ4_HEAD + struct.pack("<I", 1 << 31 | 9) + bytes(9)),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "lz4 frame with a dictionary": (
        make(TWO, codec=2, region=b"\x04\x22\x4d\x18\x61\x40" + bytes(20)),
        "frame",
        0,
        "ERR_CORRUPT",
    ),
    "frame that claims 4 GiB": (
        make(TWO, codec=1, region=b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\xff\x01\x00\x00"),
        "frame",
        0,
        "ERR_TOO_LARGE",
    ),
    "sorted, but is not": (make(TWO[::-1], flags=1), "grain", 1, "ERR_CORRUPT"),
    "deduplicated, but is not": (make([*TWO, TWO[0]], flags=2), "grain", 2, "ERR_CORRUPT"),
    "deduplicated, but signed twice": (
        make([signed(blob(1)), blob(2), signed(blob(1), b"t" * 64)], flags=2),
        "grain",
        2,
        "ERR_CORRUPT",
    ),
    "no manifest": (make(TWO, flags=16), "manifest", None, "ERR_CORRUPT"),
    "manifest: empty": (no_manifest(b"\x80"), "manifest", None, "ERR_CORRUPT"),
    "manifest: array": (no_manifest(b"\x91\x80"), "manifest", None, "ERR_CORRUPT"),
    "manifest: string": (no_manifest(b"\xa1x"), "manifest", None, "ERR_NOT_MAP"),
    "manifest: huge map": (no_manifest(b"\xdf\xff\xff\xff\xff"), "manifest", None, "ERR_CORRUPT"),
    "manifest: huge string": (
        no_manifest(b"\xdb\xff\xff\xff\xff"),
        "manifest",
        None,
        "ERR_CORRUPT",
    ),
    "manifest: deep": (no_manifest(b"\x81\xa0" * 200 + b"\xc0"), "manifest", None, "ERR_SCHEMA"),
    "manifest: timestamp": (
        no_manifest(b"\x81\xa1a\xd6\xff" + bytes(4)),
        "manifest",
        None,
        "ERR_CORRUPT",
    ),
    "manifest: too large": (no_manifest(bytes(10_000)), "manifest", None, "ERR_CORRUPT"),
}


def states(key: bytes, state: bytes, key_head: bytes = b"\xd9\x40") -> bytes:
    return b"\x81" + key_head + key + state


HERE = address(TWO[0]).encode()
MANIFESTS: dict[str, tuple[bytes, str]] = {
    "upper case": (states(HERE.upper(), b"\x81\xa2ac\x01"), "ERR_HASH_FORMAT"),
    "short": (states(HERE[:-1], b"\x81\xa2ac\x01", b"\xd9\x3f"), "ERR_HASH_LENGTH"),
    "long head": (states(HERE, b"\x81\xa2ac\x01", b"\xda\x00\x40"), "ERR_CORRUPT"),
    "long number": (states(HERE, b"\x81\xa2ac\xcc\x01"), "ERR_CORRUPT"),
    "default": (states(HERE, b"\x81\xa2ac\x00"), "ERR_CORRUPT"),
    "default status": (states(HERE, b"\x81\xa7vstatus\xaaunverified"), "ERR_CORRUPT"),
    "null": (states(HERE, b"\x81\xa2sb\xc0"), "ERR_CORRUPT"),
    "nothing": (states(HERE, b"\x80"), "ERR_CORRUPT"),
    "order": (states(HERE, b"\x82\xa3svt\x01\xa2ac\x01"), "ERR_CORRUPT"),
    "twice": (states(HERE, b"\x82\xa2ac\x01\xa2ac\x01"), "ERR_CORRUPT"),
    "unknown key": (states(HERE, b"\x81\xa2xx\x01"), "ERR_SCHEMA"),
    "full name": (states(HERE, b"\x81\xacaccess_count\x01"), "ERR_SCHEMA"),
    "no map": (states(HERE, b"\x01"), "ERR_SCHEMA"),
    "bool": (states(HERE, b"\x81\xa2ac\xc3"), "ERR_SCHEMA"),
    "negative": (states(HERE, b"\x81\xa2ac\xff"), "ERR_RANGE"),
    "2^63": (states(HERE, b"\x81\xa3laa\xcf\x80" + bytes(7)), "ERR_RANGE"),
    "status": (states(HERE, b"\x81\xa7vstatus\xa1x"), "ERR_SCHEMA"),
    "successor": (states(HERE, b"\x81\xa2sb\xa1x"), "ERR_HASH_LENGTH"),
    "not UTF-8": (states(HERE, b"\x81\xa2ac\xa1\xff"), "ERR_CORRUPT"),
    "followed": (states(HERE, b"\x81\xa2ac\x01") + b"\x00", "ERR_CORRUPT"),
    "cut": (states(HERE, b"\x81\xa2ac"), "ERR_CORRUPT"),
    "of another grain": (states(b"ab" * 32, b"\x81\xa2ac\x01"), "ERR_CORRUPT"),
}
HOSTILE |= {
    f"state: {name}": (make(TWO, manifest=data), "manifest", None, code)
    for name, (data, code) in MANIFESTS.items()
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(tmp_path: Path, name: str) -> None:
    """All of these have the footer that belongs to them."""
    data, part, number, code = HOSTILE[name]
    found = problems(tmp_path, data)
    first = found[0]  # others may follow from it
    assert (first.part, first.number, first.error.code) == (part, number, code)


def test_entries_that_go_back_and_forth_cost_no_memory(tmp_path: Path) -> None:
    """A file of some kilobytes, packed: the end of a block is looked for among its entries."""
    size, count = 1 << 20, 65
    offsets = [n * size for n in range(count)]
    offsets[count // 2 + 1] = 0
    frames = _core.pack_frame(1, bytes(size)) * count
    data = make([blob(1)] * count, codec=1, offsets=offsets, region=frames)
    assert len(data) < 20_000

    def read() -> None:
        with container.read(saved(tmp_path, data)) as opened, pytest.raises(CorruptError):
            sum(map(len, opened))

    assert peak(read) < 12 << 20  # some frames are kept


def test_tiny_frames_are_not_looked_for_in_large_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grains = [sealed(n) for n in range(3_000)]
    looked = looked_at(monkeypatch)
    data = make(grains, codec=1, region=b"".join(zstd_frame(grain) for grain in grains))
    assert container.verify(saved(tmp_path, data)).ok
    assert sum(looked) < 100 * len(data)


def test_noise(tmp_path: Path, scale: Scale) -> None:
    """An accepted file has the bytes that the writer would have written."""
    rng = Random("container noise")
    seeds = [make(pool(6, f"noise {n}"), codec=n) for n in range(3)]
    seeds += [make([sealed(4), blob(1), signed(blob(2))], flags=3)]
    seeds += [make(TWO, manifest=states(HERE, b"\x81\xa2ac\x01"))]
    accepted = 0
    for _ in range(scale.grains // 2):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(rng.choice((16, 64, len(data) - 32)))
            data[at] = rng.choice((data[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        mutant = reclosed(bytes(data))
        if problems(tmp_path, mutant):
            continue
        accepted += 1
        with container.read(tmp_path / "file.mg") as found:
            if found.codec == "none":
                header = found.header
                options: dict[str, Any] = {"sort": header.sorted, "dedupe": header.deduplicated}
                again = tmp_path / "again.mg"
                container.write(again, found, manifest=found.manifest, **options)
                assert again.read_bytes() == mutant
    assert accepted
