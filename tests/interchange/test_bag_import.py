# SPDX-License-Identifier: Apache-2.0
"""Recordings into a store: which messages, their fields, their places, and what is left out."""

from __future__ import annotations

import json
import math
import sqlite3
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from mcap.writer import CompressionType, Writer
from rosbags.rosbag2 import Reader, StoragePlugin
from rosbags.rosbag2 import Writer as BagWriter
from rosbags.typesys import Stores, get_typestore

import omsgrain as og
from omsgrain import _core
from omsgrain.errors import (
    FormatError,
    NotFoundError,
    SchemaError,
    TooLargeError,
    UnsupportedError,
)
from omsgrain.formats.bag.base import BagLimits, BagMessage
from omsgrain.formats.bag.cdr import decoder
from omsgrain.formats.bag.mcap import McapReader
from omsgrain.formats.bag.rosbag2 import is_bag, messages
from omsgrain.interchange import bag
from omsgrain.interchange.bag import INLINE, LARGEST, BagReport, BagSelection
from omsgrain.interchange.bag_import import import_bag
from support.bag_files import MS, SCAN, SCAN_TYPE, START, CdrBytes, scan, write_mcap

TYPES = get_typestore(Stores.ROS2_HUMBLE)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with og.open(tmp_path / "m.omsg") as store:
        yield store


def stored(store: Any, path: Path, selection: BagSelection | None = None, **more: Any) -> Any:
    """Import a recording; return the report, new and known grains, and errors."""
    report, steps = BagReport(), []
    steps = list(import_bag(store, path, selection, report=report, **more))
    new, known = (sum(getattr(one, name) for one in steps) for name in ("stored", "duplicates"))
    return report, new, known, [error for step in steps for error in step.rejected]


def numbers(report: BagReport) -> dict[str, tuple[int, int, int, int, int]]:
    return {
        topic: (one.messages, one.observed, one.skipped, one.left_out, one.rejected)
        for (topic, _), one in report.topics.items()
    }


@pytest.mark.parametrize("compression", CompressionType)
def test_each_message_is_an_observation(
    store: Any, tmp_path: Path, compression: CompressionType
) -> None:
    path = write_mcap(tmp_path / "drive.mcap", compression=compression)
    report, new, known, errors = stored(store, path)
    assert (new, known, errors) == (40, 0, [])
    assert numbers(report) == {
        "/power": (20, 20, 0, 0, 0), "/scan": (20, 20, 0, 0, 0), "/pose": (20, 0, 0, 20, 0),
    }  # fmt: skip
    assert report.topics["/pose", "acme.Pose"].reason == "messages in flatbuffer are not decoded"
    assert report.topics["/power", "Power"].nulls == 20
    assert (report.attachments, report.metadata) == (["calibration.yaml"], ["robot"])
    one = next(grain for grain in store if grain["observer_id"] == "/scan")
    assert (one["observer_type"], one["frame_id"]) == ("ros2:acme_msgs/msg/Scan", "lidar_link")
    assert one["created_at"] == START // MS and "timestamp_ms" not in one.fields
    assert one["object"]["raw"] == b"\1\2" and one["object"]["corners"] == [{"x": 0.25, "y": -3}]
    last = [grain for grain in store if grain["observer_id"] == "/scan"][-1]
    assert last["timestamp_ms"] == START // MS + 19 and last["created_at"] == START // MS + 950


def test_a_place_leads_back_to_the_message(store: Any, tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "drive.mcap")
    stored(store, path, BagSelection(topics=("/power",)))
    with path.open("rb") as stream:
        found = {
            (one.offset, one.offset_in_chunk): one
            for one in McapReader(stream)
            if isinstance(one, BagMessage)
        }
    for grain in store:
        place = grain["context"]["bag"]
        assert place["sha256"] == sha256(path.read_bytes()).hexdigest()
        message = found[place["offset"], place["offset_in_chunk"]]
        expected = {
            "volts": grain["object"]["volts"],
            "cell": {**grain["object"]["cell"], "none": None},
        }
        assert json.loads(message.data) == expected
        assert (place["topic"], place["channel"]) == ("/power", message.channel.number)
        assert (place["log_time"], place["sequence"]) == (message.log_time, message.sequence)
        assert place["publish_time"] == message.log_time + 1


def test_a_second_import_changes_nothing(store: Any, tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "drive.mcap")
    stored(store, path)
    again = (path.rename(tmp_path / "renamed.mcap"), None)
    assert stored(store, *again)[1:3] == (0, 40)
    other = write_mcap(tmp_path / "other.mcap", count=21)
    assert stored(store, other)[1] == 42  # another file, other places


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (BagSelection(topics=("/power",)), {"/power": (20, 0), "/scan": (0, 0)}),
        (BagSelection(topics=("/p*",), every="100ms"), {"/power": (10, 10), "/scan": (0, 0)}),
        (BagSelection(every=timedelta(milliseconds=120)), {"/power": (7, 13), "/scan": (7, 13)}),
        (BagSelection(sample=7), {"/power": (3, 17), "/scan": (3, 17)}),
        (BagSelection(every="1ns"), {"/power": (20, 0), "/scan": (20, 0)}),
    ],
)
def test_topics_and_samples(
    store: Any, tmp_path: Path, selection: BagSelection, expected: dict[str, tuple[int, int]]
) -> None:
    report, new, _, _ = stored(store, write_mcap(tmp_path / "drive.mcap"), selection)
    found = {topic: (one[1], one[2]) for topic, one in numbers(report).items()}
    assert found == {**expected, "/pose": (0, 0)} and new == sum(o for o, _ in expected.values())
    assert all(sum(one[1:]) == one[0] == 20 for one in numbers(report).values())


def test_refused_selections(store: Any, tmp_path: Path) -> None:
    for every, sample in (("1s", 2), ("0s", None), ("fast", None), (None, -1)):
        with pytest.raises(SchemaError):
            BagSelection(every=every, sample=sample)
    with pytest.raises(SchemaError) as caught:
        stored(store, write_mcap(tmp_path / "a.mcap"), BagSelection(topics=("/scan", "/imu")))
    assert "/scan" in (caught.value.expected or "")


def write_scans(path: Path, *scans: bytes, schema: str = SCAN, name: str = SCAN_TYPE) -> Path:
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2", "a recorder")
        number = writer.register_schema(name, "ros2msg", schema.encode())
        channel = writer.register_channel("/scan", "cdr", number)
        for n, data in enumerate(scans):
            writer.add_message(channel, START + n * MS, data, START, n)
        writer.finish()  # type: ignore[no-untyped-call]
    return path


def test_numbers_that_are_not_finite_become_text(store: Any, tmp_path: Path) -> None:
    ranges = [math.nan, math.inf, -math.inf, 1.0]
    report, *_ = stored(store, write_scans(tmp_path / "a.mcap", scan(0, ranges=ranges)))
    assert next(iter(store))["object"]["ranges"] == ["NaN", "Infinity", "-Infinity", 1.0]
    assert report.topics["/scan", SCAN_TYPE].not_finite == 3


def test_long_binary_values_are_referenced(store: Any, tmp_path: Path) -> None:
    raw = bytes(range(256)) * 4_000  # more than a grain can hold
    path = write_scans(tmp_path / "a.mcap", scan(0, raw=raw), scan(1, raw=raw[:INLINE]))
    report, new, _, errors = stored(store, path)
    assert (new, errors) == (2, [])
    first, second = store
    assert second["object"]["raw"] == raw[:INLINE] and "content_refs" not in second.fields
    assert first["object"]["raw"] == {"content_ref": 0} and first["frame_id"] == "lidar_link"
    (reference,) = first["content_refs"]
    assert reference["checksum"] == f"sha256:{sha256(raw).hexdigest()}"
    assert (reference["size_bytes"], reference["modality"]) == (len(raw), "binary")
    place = first["context"]["bag"]
    assert reference["uri"] == (
        f"urn:sha256:{place['sha256']}#offset={place['offset']}"
        f"&offset_in_chunk={place['offset_in_chunk']}"
    )
    one = report.topics["/scan", SCAN_TYPE]
    assert (one.referenced, one.referenced_bytes) == (1, len(raw))
    _, new, known, _ = stored(store, path, BagSelection(inline=100))
    assert (new, known) == (1, 1)


def test_large_messages_are_referenced_whole(store: Any, tmp_path: Path) -> None:
    many, more = [0.5] * (LARGEST // 4), [0.5] * ((1 << 20) + 1)
    path = write_scans(tmp_path / "a.mcap", scan(0, ranges=many), scan(1, ranges=more))
    report, new, _, errors = stored(store, path)
    assert (new, errors) == (2, [])
    for n, ranges in enumerate((many, more)):
        grain = list(store)[n]
        data = scan(n, ranges=ranges)
        assert grain["object"] == {"content_ref": 0}
        (reference,) = grain["content_refs"]
        assert reference["size_bytes"] == len(data)
        assert reference["checksum"] == f"sha256:{sha256(data).hexdigest()}"
    assert report.topics["/scan", SCAN_TYPE].referenced == 2


def test_bad_messages(store: Any, tmp_path: Path) -> None:
    good, bad = scan(0), scan(1)[:-3]
    path = write_scans(tmp_path / "a.mcap", good, bad, scan(2))
    with pytest.raises(FormatError) as caught:
        stored(store, path)
    assert len(store) == 0 and caught.value.offset is not None
    report, new, _, errors = stored(store, path, errors="collect")
    assert new == 2 and [error.code for error in errors] == ["ERR_FORMAT"]
    assert "/scan, message 1" in errors[0].message
    assert numbers(report) == {"/scan": (3, 2, 0, 0, 1)}


def test_a_message_that_is_no_grain(store: Any, tmp_path: Path) -> None:
    """Each of many small structures has its names again, so that the grain grows too large."""
    schema = "Entry[] entries\n===\nMSG: a/Entry\nuint8 with_a_long_name\nuint8 and_another_one\n"
    data = CdrBytes().add("I", 60_000).add("B", *bytes(120_000)).done()
    small = CdrBytes().add("I", 1).add("B", 1, 2).done()
    path = write_scans(tmp_path / "a.mcap", small, data, schema=schema, name="a/msg/M")
    report, new, _, errors = stored(store, path, errors="collect")
    assert (new, [type(error) for error in errors]) == (1, [TooLargeError])
    assert numbers(report) == {"/scan": (2, 1, 0, 0, 1)}


def test_a_damaged_file(store: Any, tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FormatError):
        stored(store, path)
    assert len(store) == 0
    report, new, _, (error,) = stored(store, path, errors="collect")
    assert 0 < new < 40 and error.code == "ERR_FORMAT" and error.offset is not None
    assert new == sum(one.observed for one in report.topics.values())


def test_a_chunk_that_is_not_read(store: Any, tmp_path: Path) -> None:
    """The messages before it are stored, and the error is collected."""
    path = write_mcap(tmp_path / "a.mcap")
    data = path.read_bytes()
    with path.open("rb") as stream:
        found = [one for one in McapReader(stream) if isinstance(one, BagMessage)]
    at = data.index(b"zstd", found[30].offset)
    path.write_bytes(data[:at] + b"brot" + data[at + 4 :])
    with pytest.raises(UnsupportedError):
        stored(store, path)
    _, new, _, (error,) = stored(store, path, errors="collect")
    assert 0 < new < 40 and error.code == "ERR_UNSUPPORTED"


def test_files_without_messages(store: Any, tmp_path: Path) -> None:
    _, new, known, errors = stored(store, write_scans(tmp_path / "a.mcap"))
    assert (new, known, errors) == (0, 0, [])
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(FormatError):
        stored(store, tmp_path / "a.jsonl")
    with pytest.raises(NotFoundError):
        stored(store, tmp_path / "none.mcap")


def test_a_definition_is_read_once(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many channels with one large definition cost as much as one."""
    with (path := tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start("ros2", "a recorder")
        for schema in (SCAN, "broken"):
            number = writer.register_schema(SCAN_TYPE, "ros2msg", schema.encode())
            for n in range(50):
                channel = writer.register_channel(f"/{schema[-6:]}/{n}", "cdr", number)
                writer.add_message(channel, START, scan(n), START, n)
        writer.finish()  # type: ignore[no-untyped-call]
    read: list[str] = []

    def counted(name: str, definition: str) -> Any:
        read.append(definition)
        return decoder(name, definition)

    monkeypatch.setattr(bag, "decoder", counted)
    assert stored(store, path)[1] == 50 and read == [SCAN, "broken"]


@pytest.mark.parametrize("schema", ["nonsense", "wstring w", "Missing m", ""])
def test_definitions_that_are_not_read(store: Any, tmp_path: Path, schema: str) -> None:
    path = write_scans(tmp_path / "a.mcap", scan(0), schema=schema, name="acme/msg/M")
    report, new, _, errors = stored(store, path)
    assert (new, errors) == (0, []) and numbers(report) == {"/scan": (1, 0, 0, 1, 0)}
    assert report.topics["/scan", "acme/msg/M"].reason


def test_a_mapping_takes_the_place_of_usual_fields(store: Any, tmp_path: Path) -> None:
    mapping = og.Mapping(
        "observation",
        map={"object.volts": "volts", "object.hot": "cell.hot", "session_id": "bag.topic"},
        set={"subject": "robot-7", "context.run": "a"},
    )
    path = write_mcap(tmp_path / "a.mcap")
    _, new, _, _ = stored(store, path, BagSelection(topics=("/power",)), mapping=mapping)
    grain = next(iter(store))
    assert new == 20 and grain["object"] == {"volts": 24.0, "hot": True}
    assert (grain["subject"], grain["session_id"]) == ("robot-7", "/power")
    assert grain["context"]["run"] == "a" and grain["context"]["bag"]["topic"] == "/power"
    event = og.Mapping("event", map={"content": "bag.topic"}, set={})
    stored(store, path, BagSelection(topics=("/power",), sample=20), mapping=event)
    (grain,) = store.iter_query(type="event")
    assert set(grain.fields) == {"type", "created_at", "content", "context"}


# -- rosbag2 --------------------------------------------------------------------------------------


def bag_of(path: Path, plugin: StoragePlugin, *, definitions: bool = True) -> Path:
    """A directory of rosbag2 that `rosbags` wrote."""
    imu = TYPES.types["std_msgs/msg/String"]
    with BagWriter(path, version=9, storage_plugin=plugin) as writer:
        chatter = writer.add_connection("/chatter", imu.__msgtype__, typestore=TYPES)
        level = writer.add_connection("/level", "std_msgs/msg/Int32", typestore=TYPES)
        for n in range(5):
            text = TYPES.serialize_cdr(imu(f"hello {n}"), imu.__msgtype__)
            writer.write(chatter, START + n * MS, text)
            number = TYPES.serialize_cdr(
                TYPES.types["std_msgs/msg/Int32"](n), "std_msgs/msg/Int32"
            )
            writer.write(level, START + n * MS, number)
    if not definitions:  # as before Iron
        (file,) = path.glob("*.db3")
        with sqlite3.connect(file) as base:
            base.executescript("DROP TABLE message_definitions; DROP TABLE schema")
        base.close()
    return path


@pytest.mark.parametrize("definitions", [True, False])
@pytest.mark.parametrize("plugin", StoragePlugin)
def test_directories_of_rosbag2(
    store: Any, tmp_path: Path, plugin: StoragePlugin, definitions: bool
) -> None:
    sqlite = plugin is StoragePlugin.SQLITE3
    path = bag_of(tmp_path / "bag", plugin, definitions=definitions or not sqlite)
    assert is_bag(path) and not is_bag(tmp_path)
    report, new, _, errors = stored(store, path)
    assert (new, errors) == (10, [])
    assert numbers(report) == {"/chatter": (5, 5, 0, 0, 0), "/level": (5, 5, 0, 0, 0)}
    with Reader(path) as bag:
        theirs = [
            (one.topic, time, getattr(TYPES.deserialize_cdr(data, one.msgtype), "data"))  # noqa: B009
            for one, time, data in bag.messages()
        ]
    ours = [
        (grain["observer_id"], grain["context"]["bag"]["log_time"], grain["object"]["data"])
        for grain in store
    ]
    assert sorted(ours) == sorted(theirs)
    (file,) = (one for one in path.iterdir() if one.suffix in (".db3", ".mcap"))
    assert {grain["context"]["bag"]["sha256"] for grain in store} == {
        sha256(file.read_bytes()).hexdigest()
    }
    assert stored(store, path)[1:3] == (0, 10)
    assert stored(store, file)[1:3] == (0, 10)  # one file of it
    assert stored(store, path, BagSelection(topics=("/level",), sample=2))[1:3] == (0, 3)


def told(report: BagReport) -> dict[str, tuple[Any, Any]]:
    return {one.what: (one.stated, one.read) for one in report.differences}


@pytest.mark.parametrize("plugin", StoragePlugin)
def test_a_manifest_is_compared_with_the_files(
    store: Any, tmp_path: Path, plugin: StoragePlugin
) -> None:
    path = bag_of(tmp_path / "bag", plugin)
    assert stored(store, path)[0].differences == []
    assert stored(store, path, BagSelection(topics=("/level",), sample=2))[0].differences == []
    manifest = path / "metadata.yaml"
    text = manifest.read_text()
    (file,) = (one.name for one in path.iterdir() if one.suffix in (".db3", ".mcap"))
    manifest.write_text(
        text.replace("count: 10", "count: 12").replace("count: 5", "count: 6", 1)
        .replace(f"- {file}", f"- bag/{file}\n  - lost.db3").replace(str(START), str(START - 1))
    )  # fmt: skip
    report, new, known, errors = stored(store, path)
    assert (new, known, errors) == (0, 10, [])
    assert told(report) == {
        "messages": (12, 10),
        "messages of /chatter": (6, 5),
        "file lost.db3": (1, 0),
        f"messages of {file}": (12, 10),
        "time of the first message": (START - 1, START),
        "time of the last message": (START + 4 * MS - 1, START + 4 * MS),
    }
    assert {one.where for one in report.differences} == {"metadata.yaml"}
    extra = path / f"bag_7{Path(file).suffix}"
    extra.write_bytes((path / file).read_bytes())
    assert told(stored(store, path)[0])[f"file {extra.name}"] == (0, 1)


@pytest.mark.parametrize("text", ["", "a: [", "a: 1", "rosbag2_bagfile_information: {}"])
def test_a_broken_manifest_is_told(store: Any, tmp_path: Path, text: str) -> None:
    path = bag_of(tmp_path / "bag", StoragePlugin.MCAP)
    (path / "metadata.yaml").write_text(text)
    report, new, _, errors = stored(store, path)
    assert (new, errors) == (10, [])
    assert [(one.where, one.stated) for one in report.differences] == [("metadata.yaml", None)]


def test_a_cut_bag_differs_from_its_manifest(store: Any, tmp_path: Path) -> None:
    path = bag_of(tmp_path / "bag", StoragePlugin.MCAP)
    (file,) = path.glob("*.mcap")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 4])
    report, new, _, (error,) = stored(store, path, errors="collect")
    assert error.code == "ERR_FORMAT"
    assert told(report)["messages"] == (10, new)


def test_statistics_of_mcap_are_compared(store: Any, tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "drive.mcap")
    assert stored(store, path)[0].differences == []
    with (path := tmp_path / "other.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start("", "a recorder")
        channel = writer.register_channel("/a", "json", 0)
        writer.add_message(channel, START, b"{}", START, 0)
        inside: Any = writer
        statistics = next(v for v in vars(inside).values() if type(v).__name__ == "Statistics")
        statistics.message_count += 2
        statistics.channel_message_counts = {channel: 2, 9: 1}
        statistics.attachment_count = 1
        statistics.message_end_time = START + 5
        writer.finish()  # type: ignore[no-untyped-call]
    report, new, _, errors = stored(store, path)
    assert (new, errors) == (1, [])
    assert told(report) == {
        "messages": (3, 1),
        "messages of /a": (2, 1),
        "messages of channel 9": (1, 0),
        "attachments": (1, 0),
        "time of the last message": (START + 5, START),
    }


def test_compressed_messages_of_rosbag2(store: Any, tmp_path: Path) -> None:
    path = bag_of(tmp_path / "bag", StoragePlugin.SQLITE3)
    (file,) = path.glob("*.db3")
    with sqlite3.connect(file) as base:
        rows = base.execute("SELECT id, data FROM messages").fetchall()
        packed = [(_core.pack_frame(1, data), row) for row, data in rows]
        base.executemany("UPDATE messages SET data = ? WHERE id = ?", packed)
    base.close()
    assert stored(store, path)[1] == 10
    (path / "bag_1.db3.zstd").write_bytes(b"")
    with pytest.raises(UnsupportedError):
        stored(store, path)


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE messages",
        "UPDATE messages SET data = 'text'",
        "UPDATE messages SET topic_id = 99",
        "UPDATE messages SET timestamp = -1",
        "UPDATE topics SET name = x'00ff'",
        "UPDATE message_definitions SET encoded_message_definition = x'00ff'",
        "ALTER TABLE messages RENAME TO m; CREATE VIEW messages AS SELECT * FROM m",
    ],
)
def test_hostile_databases(store: Any, tmp_path: Path, change: str) -> None:
    path = bag_of(tmp_path / "bag", StoragePlugin.SQLITE3)
    (file,) = path.glob("*.db3")
    with sqlite3.connect(file) as base:
        base.executescript(change)
    base.close()
    with pytest.raises(FormatError):
        stored(store, path)
    assert len(store) == 0


def test_large_rows_are_not_read(tmp_path: Path) -> None:
    path = bag_of(tmp_path / "bag", StoragePlugin.SQLITE3)
    (file,) = path.glob("*.db3")
    assert len(list(messages(file))) == 12
    with pytest.raises(FormatError):
        list(messages(file, BagLimits(record=10)))


def test_a_damaged_database(store: Any, tmp_path: Path) -> None:
    path = bag_of(tmp_path / "bag", StoragePlugin.SQLITE3)
    (file,) = path.glob("*.db3")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError):
        stored(store, path)
    file.write_bytes(data)
    file.with_name(f"{file.name}-wal").write_bytes(b"pending")
    with pytest.raises(FormatError):
        stored(store, path)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "metadata.yaml").write_text("")
    with pytest.raises(FormatError):
        stored(store, empty)


def test_messages_in_protobuf(store: Any, tmp_path: Path) -> None:
    """The time and the frame of a message are members of it, as in Foxglove's schemas."""
    from google.protobuf import descriptor_pb2, timestamp_pb2

    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="a.proto", package="acme", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.message_type.add(name="Log")
    one = descriptor_pb2.FieldDescriptorProto
    kind.field.add(name="timestamp", number=1, type=one.TYPE_MESSAGE, label=one.LABEL_OPTIONAL,
                   type_name=".google.protobuf.Timestamp")  # fmt: skip
    kind.field.add(name="frame_id", number=2, type=one.TYPE_STRING, label=one.LABEL_OPTIONAL)
    kind.field.add(name="data", number=3, type=one.TYPE_BYTES, label=one.LABEL_OPTIONAL)
    with (path := tmp_path / "a.mcap").open("wb") as stream:
        writer = Writer(stream)
        writer.start("", "a recorder")
        number = writer.register_schema("acme.Log", "protobuf", files.SerializeToString())
        channel = writer.register_channel("/log", "protobuf", number)
        time = b"\x0a\x06\x08" + bytes([0x90, 0xAC, 0xA7, 0xCB, 0x06])
        for n, data in enumerate(
            (b"\x12\x03arm", time + b"\x1a\x81\x08" + bytes(1025), b"\x12\x09")
        ):
            writer.add_message(channel, START + n * MS, data, START, n)
        writer.finish()  # type: ignore[no-untyped-call]
    report, new, _, errors = stored(store, path, errors="collect")
    assert new == 2 and [error.code for error in errors] == ["ERR_FORMAT"]
    assert numbers(report) == {"/log": (3, 2, 0, 0, 1)}
    first, second = store
    assert (first["frame_id"], first["object"]) == ("arm", {"frame_id": "arm", "data": b""})
    assert first["observer_type"] == "bag:acme.Log"
    assert second["object"]["data"] == {"content_ref": 0}
    assert second["content_refs"][0]["size_bytes"] == 1025
    assert second["timestamp_ms"] == second["object"]["timestamp"]["seconds"] * 1000
