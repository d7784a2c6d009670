# SPDX-License-Identifier: Apache-2.0
"""The memtable of a process beyond the watermark, filled by a commit of its own or by the
snapshot of a reader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from hashlib import sha256

import pytest

import omsgrain as og
from omsgrain import _core
from omsgrain.storage.lmdb.memtable import RUN, Appended, Memtable, run_in

ALL = _core.term("all", None)


class Committed:
    """A snapshot of blobs whose numbers begin at 1."""

    def __init__(self, blobs: list[bytes]) -> None:
        self.blobs = blobs

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        rows = enumerate(self.blobs[after : after + 7], start=after + 1)
        return [(seq, blob, sha256(blob).digest()) for seq, blob in rows]

    def blob_at(self, seq: int) -> bytes | None:
        return self.blobs[seq - 1]


def make_blobs(count: int) -> list[bytes]:
    base = {"type": "belief", "relation": "r", "object": "o", "confidence": 1.0}
    times = range(1_768_471_200_000, 1_768_471_200_000 + count)
    return [
        og.encode(base | {"subject": f"s{n % 5}", "created_at": time})
        for n, time in enumerate(times)
    ]


def appended(blobs: list[bytes], start: int, end: int) -> Appended:
    part = blobs[start:end]
    return Appended.of(start + 1, [sha256(blob).digest() for blob in part], part)


def walked(recent: Memtable) -> list[tuple[bytes, bytes]]:
    """All rows, as a flush writes them: in small parts, each walked twice."""

    def parts() -> Iterator[tuple[bytes, bytes]]:
        key: bytes | None = None
        while part := recent.tail.part(key, 50, frozenset(), False):
            rows, key = part
            found = list(rows)
            assert list(rows) == found
            yield from found

    return list(parts())


@pytest.mark.parametrize("size", [1, 20, 300])
@pytest.mark.parametrize("seed", range(4))
def test_each_grain_has_its_rows_once(size: int, seed: int) -> None:
    """Commits of this process, readers who take numbers or rows before them, in any order."""
    rng = random.Random(seed)
    blobs = make_blobs(5 * size)
    plain = Memtable(0)
    plain.load(Committed(blobs), len(blobs))
    plain.load_rows(Committed(blobs), len(blobs))
    recent = Memtable(0)
    for start in range(0, len(blobs), size):
        end = start + size
        reader = Committed(blobs[:end])
        faster = rng.choice(["nobody", "numbers", "rows"])
        if faster != "nobody":
            recent.load(reader, end)
        if faster == "rows":
            recent.load_rows(reader, end)
        recent.extend([appended(blobs, start, end)], end)
        if rng.random() < 0.5:
            recent.load_rows(reader, end)
            assert recent.tail.count(ALL) == end
    recent.load_rows(Committed(blobs), len(blobs))
    assert recent.numbers == plain.numbers
    assert recent.digests == plain.digests
    assert walked(recent) == walked(plain)
    assert walked(recent) == sorted(walked(recent))


def test_rows_of_some_grains_are_separated() -> None:
    blobs = make_blobs(400)
    recent = Memtable(0)
    recent.extend([appended(blobs, 0, 400)], 400)
    recent.load_rows(Committed(blobs), 400)
    apart = {1, 7, 400}
    inside, outside = (
        list(found[0])
        for side in (True, False)
        if (found := recent.tail.part(None, 9999, apart, side))
    )
    assert {int.from_bytes(place[12:], "big") for _, place in inside} == apart
    assert sorted(inside + outside) == walked(recent)


def test_rows_for_tables() -> None:
    digests = [sha256(bytes([n])).digest() for n in range(9)]
    rows = list(_core.address_rows(digests, list(range(9))))
    assert rows == sorted((d[:1], d[1:7] + n.to_bytes(4, "big")) for n, d in enumerate(digests))
    blobs = [bytes([n]) * n for n in range(9)]
    found = list(_core.blob_rows(5, digests, blobs, 8))
    assert found == [
        ((5 + n).to_bytes(8, "big"), digest[:8] + blob)
        for n, (digest, blob) in enumerate(zip(digests, blobs, strict=True))
    ]


def test_runs_are_shorter_in_large_stores() -> None:
    sizes = (0, 399_999, 400_000, 1_500_000, 2**32)
    wanted = [65_536, 65_536, 32_768, 16_384, 16_384]
    assert [run_in(RUN, size) for size in sizes] == wanted
