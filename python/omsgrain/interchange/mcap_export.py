# SPDX-License-Identifier: Apache-2.0
"""Grains as an MCAP file: a message for each, and the grains themselves as an attached .mg file.

A viewer shows the messages beside those of a robot's recording. An import takes the attachment, so
that the grains keep their addresses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from omsgrain import _core, container, registry
from omsgrain.container.layout import os_errors, target_path
from omsgrain.container.read import blob_of
from omsgrain.counts import counted
from omsgrain.crypto.detached import signature_path
from omsgrain.durable import NewFiles
from omsgrain.errors import TooLargeError, UnsupportedError, library
from omsgrain.formats.bag.base import BagAttachment, BagChannel, BagMessage, BagMetadata
from omsgrain.formats.bag.mcap import NEED, McapReader, is_mcap
from omsgrain.formats.bag.rosbag2 import files_of
from omsgrain.grain import Grain, bare, decode
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.interchange.bag import OWN
from omsgrain.interchange.mcap_grains import MEDIA_TYPE

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from omsgrain.policy.rules import Purpose
    from omsgrain.query.filters import Filters
    from omsgrain.store import GrainStore

TOPIC: Final = "/omsgrain/"
"""The beginning of the topics of grains; their type follows."""
ATTACHED: Final = 512 << 20
"""Bytes of the grains of a file at most: the library holds attachments in memory."""
_MS: Final = 1_000_000  # nanoseconds
_TEXT: Final = "std_msgs/msg/String", "ros2msg", b"string data\n"
_KINDS: Final = {
    "string": "string",
    "did": "string",
    "address": "string",
    "float64": "number",
    "number": "number",
    "int": "integer",
    "int64": "integer",
    "uint8": "integer",
    "datetime": "integer",
    "bool": "boolean",
    "map": "object",
}


@dataclass(frozen=True, slots=True)
class WrittenMcap:
    """The result of an export.

    Attributes:
        path: the file.
        grains: all grains in it.
        messages: the grains that are also messages.
        encrypted: the grains that are only in the attachment, because they are encrypted.
        merged: the messages of the recording that was merged.
        bytes: the size of the file.
        withheld: how many chosen grains were not exported, by reason.
    """

    path: Path
    grains: int
    messages: int
    encrypted: int
    merged: int
    bytes: int
    withheld: dict[str, int] = field(default_factory=dict)

    __repr__ = counted


def export_mcap(
    store: GrainStore,
    path: str | os.PathLike[str],
    *,
    merge: str | os.PathLike[str] | None = None,
    ros2: bool = False,
    purpose: Purpose = "transfer",
    **filters: Unpack[Filters],
) -> WrittenMcap:
    """Write grains to an MCAP file, withholding the same grains as ``export_mg``.

    Args:
        store: where they are.
        path: the file. An existing file is replaced once the new one is complete.
        merge: a recording in MCAP, or a directory of rosbag2 with MCAP files; all that it has
            goes into the file too. The recording itself is not changed.
        ros2: write the messages as texts of ROS 2 (``std_msgs/msg/String`` with JSON), which its
            tools can read and play, instead of JSON with a schema.
        purpose: as for ``export_mg``.
        **filters: as for ``export_mg``.

    Raises:
        UnsupportedError: the extra ``mcap`` is not installed; the recording is not in MCAP or has
            grains already; or a rule forbids the export.
        TooLargeError: the grains are more than an attachment can hold; choose fewer.
        FormatError: the recording is damaged. Nothing was written.
        StoreError: the file cannot be written.
    """
    target = target_path(path)
    library("mcap", "mcap.writer", NEED)
    sources = [] if merge is None else _sources(Path(merge))
    if target.exists() and any(target.samefile(source) for source in sources):
        text = "the recording itself would be replaced"
        raise UnsupportedError(text, expected="another file")
    with (
        os_errors("write", target),
        TemporaryDirectory(prefix=f".{target.name[:100]}.", dir=target.parent) as folder,
    ):
        packs = store.export_mg(
            Path(folder, "grains.mg"), codec="zstd", purpose=purpose, **filters
        )
        if packs.bytes > ATTACHED:
            expected = f"at most {ATTACHED} bytes of grains; use filters"
            raise TooLargeError("too many grains", expected=expected, found=str(packs.bytes))
        with NewFiles(replace=True) as files, files.open(target) as file:
            written = _written(file, packs.paths, sources, ros2)
            size = file.tell()
            files.drop(signature_path(target))  # of the replaced file
    return replace(written, path=target, grains=packs.grains, bytes=size, withheld=packs.withheld)


def _sources(path: Path) -> list[Path]:
    with os_errors("read", path):
        found = files_of(path)
        if not all(is_mcap(file) for file in found):
            text = "only recordings in MCAP can be merged"
            raise UnsupportedError(text, expected="an MCAP file; convert the bag first")
    return found


def _written(
    file: BinaryIO, packs: tuple[Path, ...], sources: list[Path], ros2: bool
) -> WrittenMcap:
    recorder = _Recorder(file, ros2)
    recorder.start(_profile(sources[0]) if sources else "")
    for source in sources:
        with os_errors("read", source), source.open("rb") as stream:
            recorder.merge(McapReader(stream))
    for number, pack in enumerate(packs, 1):
        recorder.add_grains(pack)
        recorder.attach(pack, "grains.mg" if len(packs) == 1 else f"grains-{number:04d}.mg")
    recorder.writer.finish()
    return WrittenMcap(
        Path(), 0, recorder.messages, recorder.encrypted, recorder.merged, file.tell()
    )


def _profile(path: Path) -> str:
    """Return the conventions that a recording follows."""
    with os_errors("read", path), path.open("rb") as stream:
        reader = McapReader(stream)
        next(iter(reader), None)
        return reader.profile


class _Recorder:
    """Writes an MCAP file: what a recording has, and grains."""

    def __init__(self, file: BinaryIO, ros2: bool) -> None:
        module = library("mcap", "mcap.writer", NEED)
        self.writer = module.Writer(file, enable_data_crcs=True)
        self.messages = self.encrypted = self.merged = 0
        self._ros2 = ros2
        self._schemas: dict[tuple[str, str, bytes], int] = {}
        self._channels: dict[str, int] = {}  # of grains, by type
        self._latest = 0

    def start(self, profile: str) -> None:
        own = "ros2" if self._ros2 else ""
        self.writer.start(profile or own, f"omsgrain {_core.__version__}")

    def merge(self, reader: McapReader) -> None:
        """Add all that a recording has."""
        numbers: dict[int, int] = {}
        for entry in reader:
            if isinstance(entry, BagMessage):
                self._message(
                    numbers[entry.channel.number],
                    entry.log_time,
                    entry.data,
                    entry.publish_time,
                    entry.sequence,
                )
                self.merged += 1
            elif isinstance(entry, BagChannel):
                if entry.metadata.get(OWN) is not None:
                    raise UnsupportedError("the recording has grains of a store already")
                numbers[entry.number] = self._channel(
                    entry.topic,
                    entry.encoding,
                    (entry.schema, entry.schema_encoding, entry.schema_data),
                    entry.metadata,
                )
            elif isinstance(entry, BagMetadata):
                self.writer.add_metadata(entry.name, entry.values)
            else:
                self._copy(reader, entry)

    def _copy(self, reader: McapReader, entry: BagAttachment) -> None:
        if entry.size > ATTACHED:
            expected = f"at most {ATTACHED} bytes"
            raise TooLargeError("the attachment is too large to merge", expected=expected)
        data = b"".join(reader.attachment(entry))
        self.writer.add_attachment(
            entry.create_time, entry.log_time, entry.name, entry.media_type, data
        )

    def add_grains(self, pack: Path) -> None:
        """Add a message for each grain of a file; each signer's envelope is the same grain."""
        last = ""
        with container.read(pack) as source:
            states = source.manifest
            for item in source:
                blob = bare(blob_of(item))
                if blob[1] & ENCRYPTED_BIT:
                    self.encrypted += 1
                    continue
                grain = decode(blob)
                address = _core.address(blob_of(item))
                if address != last:
                    self._grain(grain, address, states.get(address, {}))
                last = address

    def _grain(self, grain: Grain, address: str, state: Mapping[str, Any]) -> None:
        head = json.dumps({"address": address, **state})
        text = f"{head[:-1]}, {grain.to_json()[1:]}"
        time = grain.get("created_at", 0) * _MS  # from 1970 to 2106, as the header has it
        data = _as_text(text) if self._ros2 else text.encode()
        self._message(self._channel_of(grain.type), time, data, time, self.messages)
        self.messages += 1
        self._latest = max(self._latest, time)

    def _message(self, channel: int, time: int, data: bytes, sent: int, sequence: int) -> None:
        self.writer.add_message(channel, time, data, sent, sequence & 0xFFFFFFFF)

    def _channel_of(self, type: str) -> int:
        if type not in self._channels:
            own = {OWN: "grain"}
            schema = _TEXT if self._ros2 else (f"omsgrain.{type}", "jsonschema", _schema(type))
            encoding = "cdr" if self._ros2 else "json"
            self._channels[type] = self._channel(f"{TOPIC}{type}", encoding, schema, own)
        return self._channels[type]

    def _channel(
        self, topic: str, encoding: str, schema: tuple[str, str, bytes], metadata: dict[str, str]
    ) -> int:
        number = 0
        if any(schema):
            if schema not in self._schemas:
                self._schemas[schema] = self.writer.register_schema(*schema)
            number = self._schemas[schema]
        found: int = self.writer.register_channel(topic, encoding, number, metadata)
        return found

    def attach(self, pack: Path, name: str) -> None:
        """Attach a .mg file."""
        data = pack.read_bytes()
        digest = {"file": name, "sha256": sha256(data).hexdigest()}
        self.writer.add_metadata(OWN, {**digest, "version": _core.__version__})
        self.writer.add_attachment(self._latest, self._latest, name, MEDIA_TYPE, data)


def _as_text(text: str) -> bytes:
    """Return a text as a message of the type std_msgs/msg/String, in CDR."""
    data = text.encode() + b"\0"
    return b"\0\1\0\0" + len(data).to_bytes(4, "little") + data


@cache
def _schema(type: str) -> bytes:
    """Return the JSON Schema of the messages of a grain type: the fields with one kind."""
    properties: dict[str, Any] = {
        "address": {"type": "string", "description": "SHA-256 of the grain"}
    }
    for one in registry.FIELDS:
        if one.scope not in ("core", type):
            continue
        kind, items = one.kind, None
        if kind.startswith("array["):
            kind, items = "array", _KINDS.get(kind[6:-1])
        elif kind not in _KINDS:
            continue
        known = {"type": "array", "items": {"type": items}} if kind == "array" else {
            "type": _KINDS[kind]
        }  # fmt: skip
        if kind != "array" or items is not None:
            properties[one.name] = {**known, "description": one.doc}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"omsgrain.{type}",
        "type": "object",
        "properties": properties,
        "required": ["address", "type", "created_at"],
    }
    return json.dumps(schema, ensure_ascii=False).encode()
