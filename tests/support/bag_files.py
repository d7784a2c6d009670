# SPDX-License-Identifier: Apache-2.0
"""Recordings made by other libraries: MCAP by ``mcap``, rosbag2 by ``rosbags``."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Final

from mcap.writer import CompressionType, IndexType, Writer

#: The time of the first message, nanoseconds since 1970.
START: Final = 1_768_471_200_000_000_000
MS: Final = 1_000_000

SCAN: Final = """
std_msgs/Header header
float32[] ranges   # metres
uint8[] raw
bool[2] valid
string<=20 note
Point[<=3] corners
uint8 MODE_FAST=1
string LABEL='a # b'
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: acme_msgs/Point
float64 x
int16 y
"""
SCAN_TYPE: Final = "acme_msgs/msg/Scan"


class CdrBytes:
    """Values in CDR, little or big endian, written one by one."""

    def __init__(self, big: bool = False) -> None:
        self._order = ">" if big else "<"
        self._data = bytearray()
        self._head = bytes([0, not big, 0, 0])

    def add(self, code: str, *values: Any) -> CdrBytes:
        if values:
            self._data += bytes(-len(self._data) % struct.calcsize(f"<{code}"))
            self._data += struct.pack(f"{self._order}{len(values)}{code}", *values)
        return self

    def text(self, value: str) -> CdrBytes:
        data = value.encode() + b"\0"
        self.add("I", len(data))
        self._data += data
        return self

    def octets(self, value: bytes) -> CdrBytes:
        self.add("I", len(value))
        self._data += value
        return self

    def done(self) -> bytes:
        return self._head + bytes(self._data)


def scan(
    n: int, *, ranges: list[float] | None = None, raw: bytes = b"\1\2", big: bool = False
) -> bytes:
    """A message of the type `SCAN`."""
    ranges = [1.5, 2.5] if ranges is None else ranges
    message = CdrBytes(big).add("i", 1_768_471_200).add("I", n * MS).text("lidar_link")
    message.add("I", len(ranges)).add("f", *ranges).octets(raw).add("B", 1, 0)
    message.text(f"scan {n}").add("I", 1).add("d", 0.25).add("h", -3)
    return message.done()


def write_mcap(
    path: Path,
    *,
    compression: CompressionType = CompressionType.ZSTD,
    chunks: bool = True,
    count: int = 20,
    profile: str = "ros2",
) -> Path:
    """Write an MCAP file of JSON, ROS 2 and FlatBuffers channels, an attachment and metadata."""
    with path.open("wb") as file:
        writer = Writer(
            file,
            chunk_size=1_000,
            compression=compression,
            use_chunking=chunks,
            index_types=IndexType.ALL if chunks else IndexType.NONE,
            enable_data_crcs=True,
        )
        writer.start(profile, "a recorder")
        power = writer.register_schema("Power", "jsonschema", b'{"type": "object"}')
        ros = writer.register_schema(SCAN_TYPE, "ros2msg", SCAN.encode())
        pose = writer.register_schema("acme.Pose", "flatbuffer", b"\x0a\x02hi")
        channels = {
            "/power": writer.register_channel("/power", "json", power),
            "/scan": writer.register_channel("/scan", "cdr", ros),
            "/pose": writer.register_channel("/pose", "flatbuffer", pose),
        }
        writer.add_attachment(START, START, "calibration.yaml", "text/yaml", b"k: 1\n")
        writer.add_metadata("robot", {"name": "robot-7"})
        for n in range(count):
            time = START + n * 50 * MS
            values = {"volts": 24 + n / 10, "cell": {"hot": n % 2 == 0, "none": None}}
            for topic, data in {
                "/power": json.dumps(values).encode(),
                "/scan": scan(n),
                "/pose": b"\x08\x01",
            }.items():
                writer.add_message(channels[topic], time, data, time + 1, n)
        writer.finish()  # type: ignore[no-untyped-call]
    return path
