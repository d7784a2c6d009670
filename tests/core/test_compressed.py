# SPDX-License-Identifier: Apache-2.0
"""Compressed grains: one zstd frame, with or without its size, never a bomb.  Spec: OMS §3."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

import omsgrain as og
from support.crafted_blobs import BELIEF, compressed, pairs, payload, zstd_bomb, zstd_frame
from support.refusals import CORRUPT, TOO_LARGE, refused

ENCODINGS = ("msgpack", "cbor")
SKIPPABLE = bytes.fromhex("502a4d18") + (3).to_bytes(4, "little") + b"abc"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_frames(encoding: str) -> None:
    plain = payload(encoding, pairs(encoding, BELIEF))
    frame = zstd_frame(plain)
    assert og.decode(compressed(encoding, frame)).fields["subject"] == "a"
    wrong = [
        frame + b"\x00",
        frame + frame,
        frame + SKIPPABLE,
        SKIPPABLE + frame,
        SKIPPABLE,
        frame[:-1],
        frame[:4] + b"\xe8" + frame[5:],
        zstd_frame(plain, size=None)[:-1],
        zstd_frame(plain, size=None) + b"\x00",
        zstd_frame(plain, size=len(plain) - 1),
        zstd_frame(plain, size=len(plain) + 1),
        zstd_frame(plain, checksum=1) + bytes(4),
        zstd_frame(plain[:-1]),
        zstd_frame(plain + b"\x00"),
        zstd_frame(b""),
        plain,
        bytes(40),
    ]
    for data in wrong:
        refused(compressed(encoding, data), CORRUPT, "ERR_NOT_MAP")
    assert og.decode(compressed(encoding, zstd_frame(plain, size=None))).fields["subject"] == "a"
    for length in range(1, len(frame)):
        refused(compressed(encoding, frame[:length]), CORRUPT)


def test_every_changed_byte_of_a_frame() -> None:
    fields = {"type": "reasoning", "created_at": 0, "conclusion": "again and again " * 40}
    blob = og.encode(fields, compress=True)
    plain = og.encode(fields)
    assert len(blob) < len(plain) // 4
    for offset in range(9, len(blob)):
        for change in (1, 0x80, 0xFF):
            changed = blob[:offset] + bytes([blob[offset] ^ change]) + blob[offset + 1 :]
            try:
                grain = og.decode(changed)
            except og.errors.OmsError:
                continue
            # A spare bit of the frame changed: what is inside must still be canonical.
            inside = og.encode(grain.to_dict())
            assert og.decode(inside).to_dict() == grain.to_dict()


@pytest.mark.parametrize("size", [(1 << 20) + 1, 1 << 32, 1 << 62, (1 << 64) - 3])
def test_a_frame_that_claims_too_much(size: int) -> None:
    refused(compressed("msgpack", zstd_frame(b"\x80", size=size)), TOO_LARGE, CORRUPT)
    refused(compressed("msgpack", zstd_bomb(64, size=size)), TOO_LARGE, CORRUPT)


@pytest.mark.parametrize("blocks", [64, 100_000])
def test_a_frame_that_unpacks_to_more_than_it_says(blocks: int) -> None:
    for size in (0, 1, 100, 128 << 10, 1 << 19):
        refused(compressed("msgpack", zstd_bomb(blocks, size=size)), CORRUPT)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_frames_of_streaming_writers(tmp_path: Path, encoding: str) -> None:
    """Frames of another implementation that do not state their content size."""
    plain = payload(encoding, pairs(encoding, BELIEF))
    for checksum in (False, True):
        packer = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=False)
        blob = compressed(encoding, packer.compress(plain))
        grain = og.decode(blob)
        assert (grain.fields["subject"], grain.blob) == ("a", blob)
        assert og.address(blob) == grain.address
        with og.open(tmp_path / "store.omsg") as store:
            assert store.put(grain) == grain.address
            assert store.get(grain.address).blob == blob


@pytest.mark.parametrize("size", [(1 << 20) + 1, 1 << 26])
def test_a_bomb_that_states_no_size(size: int) -> None:
    packer = zstandard.ZstdCompressor(write_content_size=False)
    refused(compressed("msgpack", packer.compress(bytes(size))), TOO_LARGE)


def test_a_large_grain_that_packs_well() -> None:
    fields = {"type": "reasoning", "created_at": 0, "x_zeros": bytes((1 << 20) - 200)}
    blob = og.encode(fields, compress=True)
    assert len(blob) < 2000
    assert og.decode(blob).fields["x_zeros"] == fields["x_zeros"]


def test_the_written_grain_is_bounded_unpacked() -> None:
    fields = {"type": "reasoning", "created_at": 0, "x_zeros": bytes(1 << 20)}
    for compress in (False, True):
        with pytest.raises(og.errors.TooLargeError):
            og.encode(fields, compress=compress)
