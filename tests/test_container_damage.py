# SPDX-License-Identifier: Apache-2.0
"""Containers that are damaged, cut or made to harm: what is wrong is found and named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conftest import Scale
from containers import (
    CODECS,
    address,
    blob,
    closed,
    lz4_frame,
    make,
    pool,
    reclosed,
    saved,
    sealed,
    signed,
    zstd_frame,
)
from omsgrain import container
from omsgrain.container import Problem
from omsgrain.container.layout import MAX_GRAIN, is_sealed
from omsgrain.errors import OmsError

GRAINS = [blob(1), signed(blob(2)), blob(3, namespace="lab"), sealed(4), blob(5)]
STATES = {
    address(GRAINS[0]): {"access_count": 3},
    address(GRAINS[4]): {"superseded_by": "ab" * 32},
}
SEALED_LAST = [blob(1), sealed(2)]


def made(room: Path, codec: Any, grains: list[bytes] = GRAINS, **options: Any) -> bytes:
    path = room / "made.mg"
    container.write(path, grains, codec=codec, **options)
    return path.read_bytes()


def problems(room: Path, data: bytes) -> list[Problem]:
    """What `verify` finds. Raising gives the first of it, and reading gives nothing but errors."""
    path = saved(room, data)
    found = container.verify(path, errors="collect").problems
    if found:
        with pytest.raises(OmsError) as caught:
            container.verify(path)
        assert (caught.value.code, str(caught.value)) == (found[0].error.code, str(found[0]))
        assert all(0 <= (p.error.offset or 0) for p in found)
    try:
        with container.read(path) as opened:
            for number in range(min(len(opened), 20)):
                attempt(partial(opened.__getitem__, number))
            attempt(lambda: list(opened))
            attempt(lambda: opened.manifest)
    except OmsError:
        pass
    return found


def attempt(use: Callable[[], object]) -> None:
    try:
        use()
    except OmsError as error:
        assert error.offset is not None


def part_at(data: bytes, at: int, grains: list[bytes]) -> tuple[str, int]:
    """The part in which a byte of an uncompressed container is."""
    if at < 16:
        return "header", -1
    base = 16 + 4 * len(grains)
    if at < base:
        return "index", (at - 16) // 4
    for number, end in enumerate(accumulate(map(len, grains), initial=base)):
        if at < end:
            return "grain", number - 1
    return ("footer" if at >= len(data) - 32 else "manifest"), -1


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"manifest": STATES},
        {"sort": True, "dedupe": True},
        {"grains": SEALED_LAST, "manifest": {address(SEALED_LAST[1]): {"access_count": 1}}},
    ],
    ids=["plain", "manifest", "flags", "sealed last"],
)
def test_every_flipped_byte(tmp_path: Path, codec: str, options: dict[str, Any]) -> None:
    data = made(tmp_path, codec, **options)
    assert problems(tmp_path, data) == []
    grains = list(container.read(tmp_path / "made.mg"))
    rng = Random("flips")
    for at in range(len(data)):
        for bits in (1 << rng.randrange(8), rng.randrange(1, 256)):
            flipped = data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]
            found = problems(tmp_path, flipped)
            assert found, at
            named = (found[0].part, found[0].number)
            if codec != "none" or named[0] in ("header", "footer"):
                continue  # a footer alone: the part is well-formed, and only the hash tells
            part, number = part_at(data, at, grains)
            if part == "index":
                # A sealed grain before it does not say where it ends.
                opaque = is_sealed(grains[number - 1])
                assert named in (
                    (part, number),
                    (part, number - 1),
                    ("grain", number if opaque else number - 1),
                )
            elif part == "grain":
                # All that shows may be a state without its grain, or a time later than the next.
                assert named in ((part, number), (part, number + 1), ("manifest", None))
            elif part != "header":
                assert named == (part, None)


def test_only_the_footer(tmp_path: Path) -> None:
    """A changed letter makes another good grain. Its number cannot be known, and that is said."""
    data = make(GRAINS)
    at = data.index(b"shelf 3")
    (found,) = problems(tmp_path, data[:at] + b"S" + data[at + 1 :])
    assert (found.part, found.error.code) == ("footer", "ERR_INTEGRITY")
    assert found.error.offset == len(data) - 32
    assert "well-formed" in found.error.message
    (footer,) = problems(tmp_path, data[:-1] + bytes([data[-1] ^ 1]))
    assert footer.to_dict()["part"] == "footer"


def test_a_manifest_names_the_changed_grain(tmp_path: Path) -> None:
    data = made(tmp_path, "none", manifest=STATES)
    at = data.index(b"shelf 5")
    first, second = problems(tmp_path, data[:at] + b"S" + data[at + 1 :])
    assert (first.part, first.address) == ("manifest", address(GRAINS[4]))
    assert second.part == "footer"
    assert "well-formed" not in second.error.message


def test_several_problems_are_listed_in_order(tmp_path: Path) -> None:
    data = bytearray(make([blob(n) for n in range(9)]))
    for n in (2, 5):
        data[data.index(f"robot-{n}".encode()) + 2] = 0xFF
    found = problems(tmp_path, bytes(data))
    assert [(p.part, p.number) for p in found] == [("grain", 2), ("grain", 5), ("footer", None)]
    assert container.verify(tmp_path / "file.mg", errors="collect").verified == 7


@pytest.mark.parametrize("codec", [1, 2])
def test_a_broken_frame_takes_no_other_along(tmp_path: Path, codec: int) -> None:
    grains = [blob(n) for n in range(9)]
    ends = list(accumulate(map(len, grains)))
    data = bytearray(make(grains, codec=codec, cuts=(ends[2], ends[5])))
    at = data.index(b"robot-4")
    if codec == 1:
        data[data.rindex(b"\x28\xb5\x2f\xfd", 0, at) + 9] |= 4  # as if the block were packed
    else:
        data[data.rindex(b"\x04\x22\x4d\x18", 0, at) + 14] ^= 1
    found = problems(tmp_path, reclosed(bytes(data)))
    assert [(p.part, p.number) for p in found] == [("frame", 1)]
    assert container.verify(tmp_path / "file.mg", errors="collect").verified == 6
    with container.read(tmp_path / "file.mg") as opened:
        assert (opened[0], opened[8]) == (grains[0], grains[8])


def test_too_many_problems(tmp_path: Path) -> None:
    path = saved(tmp_path, make([b"\x01" * 12] * 3000))
    report = container.verify(path, errors="collect")
    assert (report.complete, report.ok, len(report.problems)) == (False, False, 1000)
    assert report.to_dict()["problems"][7]["number"] == 7


@pytest.mark.parametrize("codec", CODECS)
def test_every_length(tmp_path: Path, codec: str) -> None:
    data = made(tmp_path, codec, manifest=STATES)
    for size in range(len(data)):
        assert problems(tmp_path, data[:size])
        if size >= 48:
            problems(tmp_path, closed(data[:size]))
    assert problems(tmp_path, data + b"\x00")
    assert problems(tmp_path, closed(data))


TWO = [blob(1), blob(2)]
BASE = 16 + 8
SIZE = len(TWO[0])
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
        "frame",
        0,
        "ERR_TOO_LARGE",
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


def test_noise(tmp_path: Path, scale: Scale) -> None:
    """What is accepted is what the writer would have written, byte for byte."""
    rng = Random("container noise")
    seeds = [made(tmp_path, c, pool(6, f"noise {n}")) for n, c in enumerate(CODECS)]
    seeds += [make(GRAINS, flags=3), make(TWO, manifest=states(HERE, b"\x81\xa2ac\x01"))]
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
