# SPDX-License-Identifier: Apache-2.0
"""rosbag2: a directory with a metadata.yaml, and its files in SQLite (.db3) or MCAP."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from omsgrain import _core
from omsgrain.errors import FormatError, OmsError, UnsupportedError, library
from omsgrain.formats.bag.base import LIMITS, BagChannel, BagCounts, BagLimits, BagMessage
from omsgrain.formats.bag.mcap import SUFFIX, is_mcap

if TYPE_CHECKING:
    import sqlite3

METADATA: Final = "metadata.yaml"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of a compressed message; those of a message in CDR begin with 0."""
_DATABASE: Final = ".db3"
_SUFFIXES: Final = (_DATABASE, SUFFIX)
_PACKED: Final = tuple(f"{suffix}.zstd" for suffix in _SUFFIXES)
_LAST: Final = re.compile(r"(\d+)$")
_COLUMNS: Final = {
    "topics": {"id", "name", "type", "serialization_format"},
    "messages": {"id", "topic_id", "timestamp", "data"},
    "message_definitions": {"topic_type", "encoding", "encoded_message_definition"},
}
_CODEC: Final = 1  # zstd, as the core numbers it
_MANIFEST: Final = 16 << 20  # bytes
_DEPTH: Final = 32
_VALUES: Final = 1_000_000

Kind = TypeVar("Kind")


def is_bag(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a recording: an MCAP file, a file of rosbag2, or its directory.

    A name says so too: the file of a recorder that was killed may be empty.
    """
    path = Path(path)
    if path.is_dir():
        return (path / METADATA).is_file()
    return is_mcap(path) or (path.suffix == _DATABASE and path.is_file())


def files_of(path: Path) -> list[Path]:
    """Return the files of a recording, in the order of their numbers."""
    if not path.is_dir():
        return [path]
    inside = [one for one in path.iterdir() if one.is_file() and not one.name.startswith(".")]
    if any(one.name.endswith(_PACKED) for one in inside):
        text = "the files of the bag are compressed as a whole"
        raise UnsupportedError(text, expected="files unpacked with zstd -d")
    found = [one for one in inside if one.suffix in _SUFFIXES]
    if not found:
        raise FormatError("the bag has no files", expected=" or ".join(_SUFFIXES))
    return sorted(found, key=_place)


def _place(path: Path) -> tuple[int, str]:
    number = _LAST.search(path.stem)
    return int(number[1]) if number else 0, path.name


def stated(path: Path) -> BagCounts:
    """Return what the manifest of a directory says that it has."""
    from omsgrain.formats import yaml

    with (path / METADATA).open("rb") as file:
        data = file.read(_MANIFEST + 1)
    document = yaml.read(data, most=_MANIFEST, depth=_DEPTH, values=_VALUES)
    try:
        return _counts(document["rosbag2_bagfile_information"])
    except (KeyError, TypeError, AttributeError):
        raise FormatError("not a manifest of rosbag2") from None


def _counts(told: dict[str, Any]) -> BagCounts:
    """Return what a manifest says. Old ones do not list the messages of each file."""
    messages: dict[str, int] = {}
    for one in told["topics_with_message_count"]:
        topic = _typed(one["topic_metadata"]["name"], str)
        messages[topic] = messages.get(topic, 0) + _typed(one["message_count"], int)
    total = _typed(told["message_count"], int)
    files = {_file_name(one): None for one in told["relative_file_paths"]}
    counts = {
        _file_name(one["path"]): _typed(one["message_count"], int) for one in told.get("files", ())
    }
    found = BagCounts(messages, total, files=files | counts)
    if total:
        found.first = _typed(told["starting_time"]["nanoseconds_since_epoch"], int)
        found.last = found.first + _typed(told["duration"]["nanoseconds"], int)
    return found


def _typed(value: Any, kind: type[Kind]) -> Kind:
    if type(value) is not kind:
        raise TypeError
    return value


def _file_name(path: Any) -> str:
    """Return the name of a file; before Foxy its path began with that of the directory."""
    return str(_typed(path, str)).rpartition("/")[2]


def messages(path: Path, limits: BagLimits = LIMITS) -> Iterator[BagChannel | BagMessage]:
    """Yield the channels of an SQLite file, then its messages by their time."""
    with _opened(path) as base:
        channels = {one.number: one for one in _channels(base, limits)}
        yield from channels.values()
        rows = base.execute(
            "SELECT id, topic_id, timestamp, CASE WHEN length(data) <= ? THEN data END "
            "FROM messages ORDER BY timestamp, id",
            (limits.record,),
        )
        for row, topic, time, data in rows:
            good = isinstance(time, int) and time >= 0 and isinstance(data, bytes)
            if not good or topic not in channels:
                expected = f"a topic, a time, and at most {limits.record} bytes"
                raise FormatError(
                    "not a message of rosbag2", expected=expected, found=f"row {row}"
                )
            yield BagMessage(channels[topic], row, time, time, unpacked(data, limits))


def unpacked(data: bytes, limits: BagLimits = LIMITS) -> bytes:
    """Return a message decompressed, if it was compressed alone."""
    if not data.startswith(ZSTD):
        return data
    try:
        found = _core.FrameReader(_CODEC, data, 0, len(data)).read(limits.record + 1)
    except OmsError:
        raise FormatError("the message cannot be decompressed") from None
    if len(found) > limits.record:
        raise FormatError("the message is too large", expected=f"at most {limits.record} bytes")
    return found


def _channels(base: sqlite3.Connection, limits: BagLimits) -> Iterator[BagChannel]:
    definitions = {}
    if "message_definitions" in _tables(base):
        names = "topic_type, encoding, encoded_message_definition"
        for name, encoding, text in base.execute(f"SELECT {names} FROM message_definitions"):
            if not isinstance(text, str) or len(text) > limits.schemas:
                raise FormatError("not a definition of a message")
            definitions[name] = (str(encoding), text.encode())
    for number, topic, name, encoding in base.execute(
        "SELECT id, name, type, serialization_format FROM topics"
    ):
        if not all(isinstance(one, str) for one in (topic, name, encoding)):
            raise FormatError("not a topic of rosbag2", found=f"row {number}")
        kind, data = definitions.get(name, ("", b""))
        yield BagChannel(number, topic, encoding, name, kind, data)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        text = "the bag has writes in NAME-wal"
        raise FormatError(text, expected="a bag whose recorder has ended")
    import sqlite3

    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as base:
            for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON"):
                base.execute(f"PRAGMA {pragma}")
            if not {"topics", "messages"} <= _tables(base):
                raise FormatError("not a file of rosbag2", expected="tables topics and messages")
            yield base
    except (sqlite3.Error, UnicodeDecodeError):  # a message can have bytes of the file
        raise FormatError("the file is no SQLite, or damaged") from None


def _tables(base: sqlite3.Connection) -> set[str]:
    """Return the plain tables that rosbag2 has: a view could hide endless work."""
    found = set()
    for name, columns in _COLUMNS.items():
        row = base.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)
        ).fetchone()
        if row is None or not str(row[0]).upper().startswith("CREATE TABLE "):
            continue
        known: set[Any] = {one[1] for one in base.execute(f"PRAGMA table_info({name})")}
        if columns <= known:
            found.add(name)
    return found


@cache
def standard_definition(name: str) -> str | None:
    """Return the definition of a type of ROS 2 Humble, the last whose bags may lack them."""
    says = "messages without a definition need rosbags"
    store = _typestore(library("rosbags", "rosbags.typesys", says))
    if name not in store.fielddefs:
        return None
    text: str = store.generate_msgdef(name, ros_version=2)[0]
    return text


@cache
def _typestore(module: Any) -> Any:
    return module.get_typestore(module.Stores.ROS2_HUMBLE)
