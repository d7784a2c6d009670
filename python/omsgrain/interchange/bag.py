# SPDX-License-Identifier: Apache-2.0
"""Messages of a recording as observations: which ones, their fields, and what was left out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from collections.abc import Mapping as Dict
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final

from omsgrain import _core
from omsgrain.counts import counted
from omsgrain.errors import FormatError, OmsError, SchemaError, TooLargeError, UnsupportedError
from omsgrain.formats.bag import protobuf
from omsgrain.formats.bag.base import BagChannel, BagMessage
from omsgrain.formats.bag.cdr import Decoder, decoder
from omsgrain.formats.bag.rosbag2 import standard_definition, unpacked
from omsgrain.query import times

OWN: Final = "omsgrain"
"""The key in a channel's metadata that says that its messages are grains of a store."""
INLINE: Final = 256
"""Bytes of the longest binary value that a grain gets."""
LARGEST: Final = 256 << 10
"""Bytes of the largest message, without its binary values, whose values a grain gets."""
_MS: Final = 1_000_000  # nanoseconds
_STAMPS: Final = (("sec", "nanosec"), ("seconds", "nanos"), ("sec", "nsec"))
"""The members of a time: of ROS, protobuf, JSON."""
_TYPE_NAME: Final = re.compile(r"[\w.:/-]{1,128}")
_OBSERVERS: Final = {
    "Imu": "imu",
    "NavSatFix": "gps",
    "LaserScan": "lidar",
    "PointCloud2": "lidar",
    "Image": "camera",
    "CompressedImage": "camera",
    "MagneticField": "magnetometer",
    "FluidPressure": "pressure",
    "Temperature": "temperature",
    "Range": "ultrasonic",
}
"""Types of the ROS package sensor_msgs whose observer OMS has a name for."""
_MODALITIES: Final = {"Image": "image", "CompressedImage": "image", "PointCloud2": "point_cloud"}


@dataclass(frozen=True, slots=True)
class BagSelection:
    """Which messages of a recording become grains.

    Attributes:
        topics: names of topics, where ``*`` is any text; none for all.
        every: the time between two messages of a topic, at least: text such as ``100ms``, or a
            timedelta.
        sample: keep each message of a topic whose number is a multiple of this.
        inline: bytes of the longest binary value that is copied into a grain. Longer ones are
            referenced by their SHA-256 and their place.
    """

    topics: tuple[str, ...] = ()
    every: timedelta | str | None = None
    sample: int | None = None
    inline: int = INLINE

    def __post_init__(self) -> None:
        """Check the values."""
        if self.every is not None and self.sample is not None:
            raise SchemaError("every and sample exclude each other", field="/every")
        if self.every is not None and (self.interval or 0) < 1:
            expected = "a text such as 100ms, or a timedelta"
            raise SchemaError("not a span of time", field="/every", expected=expected)
        if self.sample is not None and self.sample < 1:
            raise SchemaError("not positive", field="/sample", expected="1 or more")

    @property
    def interval(self) -> int | None:
        """``every`` in nanoseconds."""
        return times.nanoseconds(self.every)

    def takes(self, topic: str) -> bool:
        """Whether messages of a topic are chosen."""
        return not self.topics or any(fnmatchcase(topic, one) for one in self.topics)


@dataclass(slots=True)
class TopicReport:
    """The outcome of the messages of a topic.

    Attributes:
        topic: its name.
        schema: the type of its messages.
        encoding: of its messages.
        messages: all of them.
        observed: became a grain.
        skipped: lie between two samples.
        left_out: were not decoded, or not chosen; ``reason`` says why.
        rejected: were damaged, or are no grain.
        reason: why messages were left out.
        referenced: binary values, and large messages, that are not copied.
        referenced_bytes: their size.
        not_finite: numbers that are not finite; the grains have them as text.
        nulls: members without a value; the grains do not have them.
    """

    topic: str
    schema: str
    encoding: str
    messages: int = 0
    observed: int = 0
    skipped: int = 0
    left_out: int = 0
    rejected: int = 0
    reason: str = ""
    referenced: int = 0
    referenced_bytes: int = 0
    not_finite: int = 0
    nulls: int = 0


@dataclass(frozen=True, slots=True)
class BagDifference:
    """Something that a recording says of itself, and that was read otherwise.

    Attributes:
        where: the file that says it.
        what: such as "messages of /imu".
        stated: the number in the file; None: it says nothing, or cannot be read.
        read: the number that was read, or why nothing could be compared.
    """

    where: str
    what: str
    stated: int | None
    read: int | str | None


@dataclass(slots=True)
class BagReport:
    """The outcome of the entries of a recording.

    Attributes:
        topics: of each file's channels, by topic and type.
        attachments: names of files inside the recording; they are not stored.
        metadata: names of the records about it; they are not stored.
        differences: what the recording's manifest or statistics say otherwise than it was read.
    """

    topics: dict[tuple[str, str], TopicReport] = field(default_factory=dict)
    attachments: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    differences: list[BagDifference] = field(default_factory=list)

    __repr__ = counted

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        topics = [asdict(one) for one in self.topics.values()]
        return {
            "topics": topics,
            "attachments": self.attachments,
            "metadata": self.metadata,
            "differences": [asdict(one) for one in self.differences],
        }


def topic_report(report: BagReport, channel: BagChannel) -> TopicReport:
    """Return the part of a report about a channel's topic."""
    key = channel.topic, channel.schema
    if key not in report.topics:
        report.topics[key] = TopicReport(*key, channel.encoding)
    return report.topics[key]


@dataclass(slots=True)
class ObservedChannel:
    """A channel whose messages become observations."""

    channel: BagChannel
    report: TopicReport  # of its topic
    selection: BagSelection  # which messages are taken
    sha256: str  # of the file
    decoder_of: Callable[[str, str, str, bytes], Decoder | str]  # as the function below
    _decode: Decoder | None = None
    _interval: int | None = None
    _last: int | None = None

    def __post_init__(self) -> None:
        """Choose how the messages are decoded, or say why they are left out."""
        self._interval = self.selection.interval
        if self.channel.metadata.get(OWN) is not None:
            self.report.reason = "grains of a store: use omsgrain import"
        elif not self.selection.takes(self.channel.topic):
            self.report.reason = "not among the topics"
        else:
            one = self.channel
            found = self.decoder_of(one.encoding, one.schema, one.schema_encoding, one.schema_data)
            if isinstance(found, str):
                self.report.reason = found
            else:
                self._decode = found

    def takes(self, message: BagMessage) -> bool:
        """Count a message, and decide whether it becomes a grain."""
        report, selection = self.report, self.selection
        report.messages += 1
        if self._decode is None:
            report.left_out += 1
            return False
        if selection.sample is not None and (report.messages - 1) % selection.sample:
            report.skipped += 1
            return False
        if self._interval is not None:
            if self._last is not None and message.log_time - self._last < self._interval:
                report.skipped += 1
                return False
            self._last = message.log_time
        return True

    def observation(self, message: BagMessage) -> dict[str, Any]:
        """Return the fields of the observation that a message is."""
        fields: dict[str, Any] = {
            "type": "observation",
            "created_at": message.log_time // _MS,
            "observer_id": self.channel.topic,
            "subject": self.channel.topic,  # which queries have an index for
            "observer_type": observer_type(self.channel),
            "context": {"bag": self.place(message)},
        }
        binary = _Binary(self, message)
        values = self._values(message)
        if values is not None:
            fields |= _stamp_of(values, fields["created_at"])
            fields["object"] = binary.plain(values, "")
        if values is None or len(message.data) - binary.size > LARGEST:
            fields["object"] = {"content_ref": binary.whole()}
        if binary.references:
            fields["content_refs"] = binary.references
        return fields

    def _values(self, message: BagMessage) -> dict[str, Any] | None:
        """Return the values of a message; None if it has too many."""
        if self._decode is None or (
            len(message.data) > LARGEST and self.channel.encoding == "json"
        ):
            return None
        try:
            return self._decode(unpacked(message.data))
        except TooLargeError:
            return None

    def place(self, message: BagMessage) -> dict[str, Any]:
        """Return where a message comes from: enough to find it again."""
        found = {
            "sha256": self.sha256,
            "topic": self.channel.topic,
            "channel": self.channel.number,
            "sequence": message.sequence,
            "offset": message.offset,
            "offset_in_chunk": message.offset_in_chunk,
            "log_time": message.log_time,
            "publish_time": message.publish_time,
        }
        return {name: value for name, value in found.items() if value is not None}


def observer_type(channel: BagChannel) -> str:
    """Return the kind of observer whose messages a channel has."""
    package, _, name = channel.schema.rpartition("/")
    if package.partition("/")[0] == "sensor_msgs" and name in _OBSERVERS:
        return _OBSERVERS[name]
    good = _TYPE_NAME.fullmatch(channel.schema)
    return f"{'ros2' if channel.encoding == 'cdr' else 'bag'}:{good[0] if good else 'message'}"


def decoder_of(encoding: str, schema: str, schema_encoding: str, data: bytes) -> Decoder | str:
    """Return the function that decodes messages, or why there is none."""
    try:
        return _decoder(encoding, schema, schema_encoding, data)
    except OmsError as error:
        return error.message + (f": {error.expected}" if error.expected else "")


def _decoder(encoding: str, schema: str, schema_encoding: str, data: bytes) -> Decoder:
    """Return the function that decodes messages; an UnsupportedError if there is none."""
    if encoding == "json":
        return _json
    if encoding == "protobuf" and schema_encoding == encoding:
        return protobuf.decoder(schema, data)
    if encoding != "cdr":
        raise UnsupportedError(f"messages in {_named(encoding)} are not decoded")
    if schema_encoding not in ("", "ros2msg"):
        raise UnsupportedError(f"definitions in {_named(schema_encoding)} are not read")
    text: str | None
    if data:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise FormatError("the definition is not UTF-8") from None
    else:
        text = standard_definition(schema)
    if text is None:
        raise UnsupportedError("the bag has no definition of the messages")
    return decoder(schema, text)


def _named(encoding: str) -> str:
    return encoding if _TYPE_NAME.fullmatch(encoding) else "an unknown encoding"


def _json(data: bytes) -> dict[str, Any]:
    values, _ = _core.parse_json(data)
    return values if isinstance(values, dict) else {"value": values}


def _stamp_of(values: Dict[str, Any], created_at: int) -> dict[str, Any]:
    """Return the frame and the time of a message, from a header of ROS or from its members."""
    found: dict[str, Any] = {}
    header = values.get("header")
    if not isinstance(header, Dict):
        header = {"frame_id": values.get("frame_id"), "stamp": values.get("timestamp")}
    stamp, frame = header.get("stamp"), header.get("frame_id")
    if isinstance(frame, str) and frame:
        found["frame_id"] = frame
    if isinstance(stamp, Dict):
        for first, second in _STAMPS:
            seconds, rest = stamp.get(first), stamp.get(second)
            if isinstance(seconds, int) and isinstance(rest, int) and (seconds or rest):
                time = seconds * 1000 + rest // _MS
                if time != created_at:
                    found["timestamp_ms"] = time
    return found


@dataclass(slots=True)
class _Binary:
    """The values of a message as a grain has them: long binary ones are references."""

    channel: ObservedChannel
    message: BagMessage
    references: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0  # bytes of the values that are references

    def plain(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind is float:
            if math.isfinite(value):
                return value
            self.channel.report.not_finite += 1
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if kind is dict:
            nulls = sum(one is None for one in value.values())
            self.channel.report.nulls += nulls
            return {name: self.plain(one, f"{path}/{name}") for name, one in value.items()
                    if one is not None}  # fmt: skip
        if kind is list:
            return [self.plain(one, path) for one in value]
        if kind is bytes and len(value) > self.channel.selection.inline:
            self.size += len(value)
            return {"content_ref": self._reference(value, path)}
        return value

    def whole(self) -> int:
        """Make one reference to the message of all that it has."""
        report = self.channel.report
        report.referenced -= len(self.references)
        report.referenced_bytes -= self.size
        self.references.clear()
        return self._reference(self.message.data, "")

    def _reference(self, data: bytes, path: str) -> int:
        report, channel = self.channel.report, self.channel.channel
        report.referenced += 1
        report.referenced_bytes += len(data)
        name = channel.schema.rpartition("/")[2]
        message = self.message
        place = f"offset={message.offset}" if message.offset is not None else ""
        if message.offset_in_chunk is not None:
            place += f"&offset_in_chunk={message.offset_in_chunk}"
        self.references.append({
            "uri": f"urn:sha256:{self.channel.sha256}#{place or f'row={message.sequence}'}",
            "modality": _MODALITIES.get(name, "binary"),
            "size_bytes": len(data),
            "checksum": f"sha256:{sha256(data).hexdigest()}",
            "metadata": {"field": path} if path else {"encoding": channel.encoding},
        })  # fmt: skip
        return len(self.references) - 1
