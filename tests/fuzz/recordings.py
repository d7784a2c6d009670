# SPDX-License-Identifier: Apache-2.0
"""Recordings of robots: MCAP files into a store; schemas and messages of ROS 2 and protobuf."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mcap.writer import CompressionType

from fuzz.target import Run, Target
from omsgrain.formats.bag import protobuf
from omsgrain.formats.bag.cdr import decoder
from omsgrain.formats.bag.mcap import MAGIC
from omsgrain.interchange.bag import BagReport
from omsgrain.interchange.bag_import import import_bag
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import GrainStore
from support.bag_files import SCAN, SCAN_TYPE, scan, write_mcap
from support.protobuf_files import message, schema

_HEAD: Final = struct.Struct("<BQ")
#: Where the checksum of a record is, by its opcode: from the start of its content.
_SUMS: Final = {0x06: 24, 0x0F: 0, 0x02: 16}


@contextmanager
def _recording(room: Path) -> Iterator[Run]:
    path = room / "in.mcap"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        with GrainStore(MemoryStorage()) as store:
            report = BagReport()
            steps = list(import_bag(store, path, report=report, errors="collect"))
            observed = sum(one.observed for one in report.topics.values())
            assert observed == sum(step.stored + step.duplicates for step in steps)
            for one in report.topics.values():
                parts = one.observed + one.skipped + one.left_out + one.rejected
                assert one.messages == parts, "a message that no count has"
            events = [change.seq for change in store.changes()]
            list(import_bag(store, path, errors="collect"))
            assert [change.seq for change in store.changes()] == events, "it changes again"
            for step in steps:
                for error in step.rejected[:1]:
                    raise error

    yield run


@contextmanager
def _message(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        definition, _, message = data.partition(b"\0\0\0\0")
        decode = decoder(SCAN_TYPE, definition.decode("utf-8", "replace"))
        assert repr(decode(message)) == repr(decode(message))

    yield run


@contextmanager
def _protobuf(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        size = int.from_bytes(data[:2], "big")
        decode = protobuf.decoder("acme.Reading", data[2 : 2 + size])
        assert repr(decode(data[2 + size :])) == repr(decode(data[2 + size :]))

    yield run


def _protobuf_messages() -> list[bytes]:
    types = bytes(schema().SerializeToString())
    sent = message(volts=1, note="a", values=[1, 2], tags={3: "c"}, inner=[{"zig": 1}], mode=1)
    return [len(types).to_bytes(2, "big") + types + one.SerializeToString()
            for one in (sent, message())]  # fmt: skip


def _files() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.mcap")
        return [
            write_mcap(path, compression=compression, chunks=chunks, count=3).read_bytes()
            for compression in CompressionType
            for chunks in (True, False)
        ]


def without_sums(data: bytes) -> bytes:
    """Set the checksums of an MCAP file to zero, so that no reader compares them."""
    changed, at = bytearray(data), len(MAGIC)
    while at + _HEAD.size <= len(data):
        code, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if code in _SUMS and at + _SUMS[code] + 4 <= len(data):
            changed[at + _SUMS[code] : at + _SUMS[code] + 4] = bytes(4)
        at += length
    return bytes(changed)


def _messages() -> list[bytes]:
    return [SCAN.encode() + bytes(4) + scan(n, big=big) for n in (0, 1) for big in (False, True)]


TARGETS = {
    "recording": Target(_recording, _files, mend=without_sums),
    "ros message": Target(_message, _messages),
    "protobuf message": Target(_protobuf, _protobuf_messages),
}
