# SPDX-License-Identifier: Apache-2.0
"""Streams of grains in zstd frames: whole, cut anywhere, and made to harm.  Spec: OMS §11.6"""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from containers import blob, looked_at, pool, sealed, signed
from omsgrain import _core, errors
from omsgrain.container import stream
from omsgrain.container.stream import Unpacked, pack_stream

GRAINS = [*pool(20, "packed"), sealed(1), signed(blob(1))]
LIMIT = 1 << 20


def framed(*grains: bytes) -> bytes:
    return b"".join(len(grain).to_bytes(4, "big") + grain for grain in grains)


def frame(data: bytes) -> bytes:
    return _core.pack_frame(1, data)


def came(data: bytes) -> tuple[list[bytes], str | None]:
    """The grains that came, and the code of what was wrong then."""
    found: list[bytes] = []
    try:
        found.extend(Unpacked(data, LIMIT).grains())
    except errors.OmsError as error:
        return found, error.code
    return found, None


def test_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1, 700, 1 << 20):
        monkeypatch.setattr(stream, "_FRAME", size)
        frames = list(pack_stream(iter(GRAINS)))
        assert came(b"".join(frames)) == (GRAINS, None)
        assert (len(frames) > 2) == (size < 1 << 20)
    assert came(b"".join(pack_stream([]))) == ([], None)


def test_grains_are_packed_as_they_come() -> None:
    def endless() -> object:
        while True:
            yield blob(1)

    assert len(list(islice(pack_stream(endless()), 3))) == 3  # type: ignore[arg-type]


def test_tiny_frames_are_not_looked_for_in_large_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = looked_at(monkeypatch)
    data = b"".join(frame(framed(sealed(n))) for n in range(3_000)) + frame(framed(b""))
    found, code = came(data)
    assert (len(found), code) == (3_000, None)
    assert sum(looked) < 100 * len(data)


def test_a_cut_stream_gives_what_came_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_FRAME", 700)
    frames = list(pack_stream(GRAINS))
    whole, ends = b"".join(frames), [0]
    for one in frames:
        ends.append(ends[-1] + len(one))
    rng = Random(5)
    for at in {*rng.sample(range(len(whole)), 60), *ends[:-1], len(whole) - 1}:
        found, code = came(whole[:at])
        assert code == "ERR_CORRUPT"
        inside = b"".join(
            _core.unpack_frame(1, f) for f, end in zip(frames, ends[1:], strict=True) if end <= at
        )
        assert framed(*found) == inside


def test_a_grain_may_span_two_frames() -> None:
    data = framed(*GRAINS[:2]) + bytes(4)
    assert came(frame(data[:50]) + frame(data[50:])) == (GRAINS[:2], None)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "ERR_CORRUPT"),
        (b"MG\x01\x00" + bytes(60), "ERR_CORRUPT"),
        (frame(framed(blob(1))), "ERR_CORRUPT"),  # no end mark
        (frame(bytes(4)) + b"x", "ERR_CORRUPT"),
        (frame(bytes(4)) + frame(bytes(4)), "ERR_CORRUPT"),
        (frame(bytes(8)), "ERR_CORRUPT"),
        (frame(b"") + frame(bytes(4)), "ERR_CORRUPT"),
        (frame(framed(blob(1) + b"\0") + bytes(4)), "ERR_CORRUPT"),
        (frame(b"\xff" * 8), "ERR_TOO_LARGE"),
        (frame(framed(b"\x01" * 9)), "ERR_TOO_SHORT"),
        (frame(bytes(LIMIT + 1)), "ERR_TOO_LARGE"),
        (frame(framed(blob(1))) + frame(bytes(LIMIT)), "ERR_TOO_LARGE"),
        (frame(bytes(9 << 20)), "ERR_TOO_LARGE"),
        (b"\x28\xb5\x2f\xfd\x00" + bytes(20), "ERR_CORRUPT"),  # states no size
        (b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + frame(bytes(4)), "ERR_CORRUPT"),  # to be skipped
    ],
)
def test_refused(data: bytes, code: str) -> None:
    assert came(data)[1] == code


def test_an_error_says_which_frame_it_is_in() -> None:
    first, second = frame(framed(*GRAINS[:9])), bytearray(frame(framed(*GRAINS[9:])))
    second[-9] ^= 1
    for limit, code in ((5_000, "ERR_TOO_LARGE"), (LIMIT, "ERR_CORRUPT")):
        found: list[bytes] = []
        with pytest.raises(errors.OmsError) as refused:
            found.extend(Unpacked(bytes(first + second), limit).grains())
        assert (refused.value.code, refused.value.offset) == (code, len(first))
        assert found == GRAINS[:9]


def test_noise() -> None:
    rng = Random(6)
    whole = b"".join(pack_stream(GRAINS))
    for _ in range(200):
        at = rng.randrange(len(whole))
        bad = whole[:at] + rng.randbytes(rng.randrange(1, 4)) + whole[at + rng.randrange(4) :]
        found, code = came(bad)
        assert code is not None or found == GRAINS
