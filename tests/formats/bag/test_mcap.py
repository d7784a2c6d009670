# SPDX-License-Identifier: Apache-2.0
"""MCAP files that another library wrote, whole and damaged."""

from __future__ import annotations

import io
import random
import struct
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType

from omsgrain import _core
from omsgrain.errors import FormatError, OmsError, UnsupportedError, library
from omsgrain.formats.bag.base import BagAttachment, BagLimits, BagMessage
from omsgrain.formats.bag.mcap import MAGIC, McapReader, is_mcap
from support.bag_files import write_mcap

HEADER = b"\x01" + struct.pack("<Q", 8) + bytes(8)


def read(data: bytes, **limits: int) -> list[Any]:
    return list(McapReader(io.BytesIO(data), BagLimits(**limits)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_mcap(tmp_path_factory.mktemp("bag") / "a.mcap").read_bytes()


@pytest.mark.parametrize("chunks", [True, False])
@pytest.mark.parametrize("compression", CompressionType)
def test_all_messages(tmp_path: Path, compression: CompressionType, chunks: bool) -> None:
    path = write_mcap(tmp_path / "a.mcap", compression=compression, chunks=chunks)
    assert is_mcap(path)
    with path.open("rb") as stream:
        reader = McapReader(stream)
        entries = list(reader)
        assert reader.profile == "ros2"
        (attached,) = (one for one in entries if isinstance(one, BagAttachment))
        assert b"".join(reader.attachment(attached)) == b"k: 1\n"
    ours = [
        (one.channel.topic, one.channel.schema, one.sequence, one.log_time, one.publish_time,
         one.data)
        for one in entries
        if isinstance(one, BagMessage)
    ]  # fmt: skip
    with path.open("rb") as stream:
        theirs = [
            (channel.topic, schema.name if schema else "", message.sequence, message.log_time,
             message.publish_time, message.data)
            for schema, channel, message in make_reader(stream).iter_messages(log_time_order=False)
        ]  # fmt: skip
    assert ours == theirs and len(ours) == 60
    kinds = Counter(type(one).__name__ for one in entries)
    assert kinds == {"BagChannel": 3, "BagMessage": 60, "BagAttachment": 1, "BagMetadata": 1}


def test_a_message_is_where_its_place_says(whole: bytes) -> None:
    for one in read(whole):
        if isinstance(one, BagMessage):
            assert whole[one.offset or 0] == 6  # a chunk
            break


def test_every_cut_is_refused(whole: bytes) -> None:
    for size in {*range(0, len(whole), 17), *range(len(whole) - 40, len(whole))}:
        with pytest.raises(FormatError) as caught:
            read(whole[:size])
        assert caught.value.offset is not None and caught.value.offset <= size


def test_every_changed_byte_is_refused_or_says_the_same(whole: bytes) -> None:
    """Only the header, the bytes between the data and the footer, and the like may change."""
    seed = random.Random(3)
    good = [one for one in read(whole) if isinstance(one, BagMessage)]
    refused = 0
    for _ in range(300):
        at = seed.randrange(len(whole))
        data = bytearray(whole)
        data[at] ^= 1 << seed.randrange(8)
        try:
            found = [one for one in read(bytes(data)) if isinstance(one, BagMessage)]
        except OmsError as error:
            assert error.code in ("ERR_FORMAT", "ERR_UNSUPPORTED")
            refused += 1
            continue
        assert found == good, f"byte {at}"
    assert refused > 250


def chunk(data: bytes, *, size: int, compression: bytes, crc: int = 0, length: int = -1) -> bytes:
    body = struct.pack("<QQQI", 0, 0, size, crc) + struct.pack("<I", len(compression))
    body += compression + struct.pack("<Q", len(data) if length < 0 else length) + data
    return MAGIC + HEADER + b"\x06" + struct.pack("<Q", len(body)) + body


BOMB = bytes(8 << 20)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", FormatError),
        (b"no recording", FormatError),
        (MAGIC, FormatError),
        (MAGIC + HEADER, FormatError),
        (MAGIC + b"\x05" + HEADER[1:], FormatError),
        (MAGIC + HEADER + b"\x05" + struct.pack("<Q", 2**63) + bytes(99), FormatError),
        (MAGIC + HEADER + b"\x05" + struct.pack("<Q", 3) + bytes(99), FormatError),
        (MAGIC + HEADER + b"\x05" + struct.pack("<Q", 22) + bytes(99), FormatError),
        (MAGIC + HEADER + b"\x03" + struct.pack("<QHI", 6, 1, 2**32 - 1) + bytes(9), FormatError),
        (MAGIC + HEADER + b"\x04" + struct.pack("<QHHIII", 16, 1, 9, 0, 0, 0), FormatError),
        (MAGIC + HEADER + b"\x02" + struct.pack("<Q", 20) + bytes(20), FormatError),
        (MAGIC + HEADER + b"\x09" + struct.pack("<Q", 4) + bytes(40), FormatError),
        (chunk(b"", size=2**62, compression=b""), FormatError),
        (chunk(b"abc", size=3, compression=b"", length=2**63), FormatError),
        (chunk(b"abc", size=3, compression=b"", length=2**64 - 1), FormatError),
        (chunk(b"abc", size=3, compression=b""), FormatError),
        (chunk(b"abc", size=3, compression=b"zstd"), FormatError),
        (chunk(b"abc", size=3, compression=b"lz4"), FormatError),
        (chunk(b"abc", size=3, compression=b"brotli"), UnsupportedError),
        (chunk(bytes(9), size=9, compression=b"", crc=1), FormatError),
        (chunk(_core.pack_frame(1, BOMB), size=100, compression=b"zstd"), FormatError),
        (chunk(_core.pack_frame(2, BOMB), size=100, compression=b"lz4"), FormatError),
        (chunk(HEADER, size=len(HEADER), compression=b""), FormatError),
        (chunk(b"\x06" + bytes(8), size=9, compression=b""), FormatError),
    ],
)
def test_hostile_files(data: bytes, error: type[OmsError]) -> None:
    with pytest.raises(error) as caught:
        read(data)
    assert caught.value.offset is not None and caught.value.offset <= len(data)


def test_limits(whole: bytes) -> None:
    for limit in ({"record": 100}, {"chunk": 100}, {"schemas": 20}):
        with pytest.raises(FormatError) as caught:
            read(whole, **limit)
        assert caught.value.expected is not None and "at most" in caught.value.expected


def record(code: int, body: bytes) -> bytes:
    return bytes([code]) + struct.pack("<Q", len(body)) + body


def text(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


def test_numbers_are_given_once() -> None:
    schema = record(3, struct.pack("<H", 1) + text(b"a") + text(b"") + text(b""))
    other = record(3, struct.pack("<H", 1) + text(b"b") + text(b"") + text(b""))
    channel = record(4, struct.pack("<HH", 1, 1) + text(b"/a") + text(b"json") + text(b""))
    twin = record(4, struct.pack("<HH", 1, 1) + text(b"/b") + text(b"json") + text(b""))
    for body in (schema + other, schema + channel + twin):
        with pytest.raises(FormatError):
            read(MAGIC + HEADER + body)
    end = record(15, bytes(4))
    footer = record(2, bytes(20)) + MAGIC
    assert len(read(MAGIC + HEADER + schema + schema + channel + channel + end + footer)) == 1


def test_checksums_of_the_data_and_the_summary() -> None:
    start = MAGIC + HEADER
    for data_crc, summary_crc, good in ((0, 0, True), (zlib.crc32(start), 0, True),
                                        (1, 0, False), (0, 1, False)):  # fmt: skip
        file = start + record(15, struct.pack("<I", data_crc))
        file += record(2, struct.pack("<QQI", len(file) if summary_crc else 0, 0, summary_crc))
        if good:
            assert read(file + MAGIC) == []
            continue
        with pytest.raises(FormatError) as caught:
            read(file + MAGIC)
        assert caught.value.rule == "crc"


@pytest.mark.parametrize(
    ("extra", "missing", "module"),
    [
        ("mcap", "mcap", "mcap.records"),
        ("protobuf", "google.protobuf", "google.protobuf.message"),  # google may be there
        ("rosbags", "rosbags", "rosbags.typesys"),
    ],
)
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, extra: str, missing: str, module: str
) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == missing.split(".")[0]]:
        if name == missing or name.startswith(f"{missing}."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UnsupportedError) as caught:
        library(extra, module, "recordings")
    assert f"{extra!r}" in (caught.value.expected or "")
