# SPDX-License-Identifier: Apache-2.0
"""Many grains: .mg files, streams, and streams packed for a network."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from containers import pool, reclosed
from fuzz import seeds
from fuzz.target import Run, Target
from omsgrain import container
from omsgrain.container.stream import Unpacked, pack_stream
from omsgrain.errors import OmsError

_MOST = 4 << 20  # bytes that a packed stream may unpack to


@contextmanager
def _file(room: Path) -> Iterator[Run]:
    path, again = room / "in.mg", room / "again.mg"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        report = container.verify(path, errors="collect")
        with container.read(path) as found:
            try:
                grains = list(found)
                single = [found[n] for n in range(min(len(found), 50))]
                states = dict(found.manifest)
            except OmsError:
                assert report.problems, "a file that is good, and cannot be read"
                raise
            assert single == grains[: len(single)]
            if report.problems:
                raise report.problems[0].error
            codec = found.codec
        container.write(again, grains, manifest=states, codec=codec)
        with container.read(again) as second:
            assert list(second) == grains
            assert dict(second.manifest) == states

    yield run


@contextmanager
def _stream(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        grains = list(container.read_stream(io.BytesIO(data)))
        written = io.BytesIO()
        for grain in grains:
            written.write(len(grain).to_bytes(4, "big") + grain)
        assert data.startswith(written.getvalue() + bytes(4))

    yield run


@contextmanager
def _packed(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        grains = list(Unpacked(data, _MOST).grains())
        assert list(Unpacked(b"".join(pack_stream(grains)), _MOST).grains()) == grains

    yield run


def _streams() -> list[bytes]:
    found = []
    for size in (0, 1, 2, 9):
        file = io.BytesIO()
        container.write_stream(file, pool(20, f"stream {size}")[:size])
        found.append(file.getvalue())
    return found


def _packed_streams() -> list[bytes]:
    return [b"".join(pack_stream(pool(20, f"packed {size}")[:size])) for size in (0, 1, 2, 15)]


TARGETS = {
    "container": Target(_file, seeds.containers, mend=lambda data: reclosed(data)),
    "stream": Target(_stream, _streams),
    "packed stream": Target(_packed, _packed_streams),
}
