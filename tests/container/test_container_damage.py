# SPDX-License-Identifier: Apache-2.0
"""Containers that are damaged or cut: it is noticed, and what is wrong is named."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pytest

from containers import CODECS, address, blob, closed, make, reclosed, saved, sealed, signed
from omsgrain import container
from omsgrain.container.layout import is_sealed
from support.container_problems import problems

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
def test_every_flipped_byte(
    tmp_path: Path, codec: str, options: dict[str, Any], long: bool
) -> None:
    data = made(tmp_path, codec, **options)
    assert problems(tmp_path, data) == []
    grains = list(container.read(tmp_path / "made.mg"))
    rng = Random("flips")
    for at in range(len(data)):
        for bits in (1 << rng.randrange(8), rng.randrange(1, 256))[: 1 + long]:
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
    """A changed letter makes another valid grain; its number is unknown and not reported."""
    data = make(GRAINS)
    at = data.index(b"shelf 3")
    (found,) = problems(tmp_path, data[:at] + b"S" + data[at + 1 :])
    assert (found.part, found.error.code) == ("footer", "ERR_INTEGRITY")
    assert found.error.offset == len(data) - 32
    (footer,) = problems(tmp_path, data[:-1] + bytes([data[-1] ^ 1]))
    assert footer.to_dict()["part"] == "footer"


def test_a_manifest_names_the_changed_grain(tmp_path: Path) -> None:
    data = made(tmp_path, "none", manifest=STATES)
    at = data.index(b"shelf 5")
    first, second = problems(tmp_path, data[:at] + b"S" + data[at + 1 :])
    assert (first.part, first.address) == ("manifest", address(GRAINS[4]))
    assert (second.part, second.error.code) == ("footer", "ERR_INTEGRITY")


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
