# SPDX-License-Identifier: Apache-2.0
"""The parts of a recording: channels, messages, attachments, and the limits of their readers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class BagLimits:
    """The limits of a reader. It refuses more before it makes anything of it."""

    record: int = 256 << 20  # bytes of a record but an attachment
    chunk: int = 256 << 20  # bytes of a chunk, decompressed
    schemas: int = 64 << 20  # bytes of all schemas together


LIMITS: Final = BagLimits()


@dataclass(frozen=True, slots=True)
class BagChannel:
    """A channel: messages of one topic, encoded alike."""

    number: int  # its number in the file
    topic: str  # such as "/imu"
    encoding: str  # of its messages: "cdr", "json", "protobuf" and others
    schema: str = ""  # the name of the messages' type, such as "sensor_msgs/msg/Imu"
    schema_encoding: str = ""  # "ros2msg", "jsonschema" and others
    schema_data: bytes = field(default=b"", repr=False)  # the definition of the type
    metadata: dict[str, str] = field(default_factory=dict)  # free values


@dataclass(frozen=True, slots=True)
class BagMessage:
    """A message of a recording; times are nanoseconds since 1970."""

    channel: BagChannel
    sequence: int  # the number that the recorder gave it; in rosbag2's SQLite files its row
    log_time: int  # when it was recorded
    publish_time: int  # when it was sent
    data: bytes = field(repr=False)
    offset: int | None = None  # where its record begins in the file, or the record of its chunk
    offset_in_chunk: int | None = None  # where its record begins in the decompressed chunk


@dataclass(frozen=True, slots=True)
class BagAttachment:
    """A file inside a recording; ``start`` is where its bytes begin."""

    name: str
    media_type: str
    log_time: int
    create_time: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class BagMetadata:
    """Named values about a recording."""

    name: str
    values: dict[str, str]


@dataclass(slots=True)
class BagCounts:
    """Counts and times that a recording states about itself; None is not stated."""

    messages: dict[str, int] | None = None  # how many, by topic
    total: int | None = None  # all messages
    first: int | None = None  # the earliest time of a message, nanoseconds since 1970
    last: int | None = None  # the latest
    attachments: int | None = None
    metadata: int | None = None  # the records about the recording
    files: dict[str, int | None] | None = None  # the messages of each file of a directory
