# SPDX-License-Identifier: Apache-2.0
"""Put the messages of a recording into a store, as observations that say where they come from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

import omsgrain as og
from omsgrain.container.layout import os_errors
from omsgrain.errors import FormatError, OmsError, SchemaError, UnsupportedError
from omsgrain.formats.bag import rosbag2
from omsgrain.formats.bag.base import BagAttachment, BagChannel, BagCounts, BagMessage, BagMetadata
from omsgrain.formats.bag.mcap import BagEntry, McapReader, is_mcap
from omsgrain.interchange.bag import (
    BagDifference,
    BagReport,
    BagSelection,
    ObservedChannel,
    decoder_of,
    topic_report,
)
from omsgrain.interchange.ingest import IngestOptions, IngestStep, store_batch

if TYPE_CHECKING:
    from omsgrain.grain import EncodeOptions
    from omsgrain.interchange.field_map import Mapping
    from omsgrain.store import GrainStore

_MESSAGES: Final = 1_000  # of a commit
_BYTES: Final = 4 << 20  # of their messages, about
_PIECE: Final = 1 << 20
_PLACE: Final = "bag"  # the column of a mapping with the place of a message


def import_bag(
    store: GrainStore,
    path: str | os.PathLike[str],
    selection: BagSelection | None = None,
    *,
    mapping: Mapping | None = None,
    report: BagReport | None = None,
    errors: Literal["raise", "collect"] = "raise",
    options: EncodeOptions | None = None,
    allow_erased: bool = False,
) -> Iterator[IngestStep]:
    """Store messages of a recording as observations; each step stores one batch.

    The same messages give the same grains, so that a second import changes nothing.

    Args:
        store: where they go.
        path: an MCAP file, or a directory or an SQLite file of rosbag2.
        selection: which messages; None for all.
        mapping: fields that take the place of the usual ones, from columns of the message's
            values, such as "linear_acceleration.x", or of its place, such as "bag.topic".
        report: gets what became of all entries.
        errors: "raise" stops at the first bad message and stores nothing of its batch; "collect"
            stores the good ones. A damaged file ends the import in both.
        options: how grains are encoded.
        allow_erased: store also grains that were erased.

    Raises:
        FormatError: the file or a message is damaged; ``offset`` says where.
        SchemaError: a topic that was asked for is in no file.
        UnsupportedError: the extra ``mcap`` or ``rosbags`` is not installed.
        StoreError: the store is read-only, full or damaged.
    """
    selection = BagSelection() if selection is None else selection
    report = BagReport() if report is None else report
    with os_errors("read", Path(path)):
        if not rosbag2.is_bag(path) and Path(path).exists():
            raise FormatError("not a recording", expected="MCAP, or rosbag2")
        whole = _Counts()
        for file in rosbag2.files_of(Path(path)):
            batch = _Observations(mapping, IngestOptions(errors, options or {}, allow_erased))
            batch.file = "" if file == Path(path) else f"{file.name}: "
            counts = _Counts()
            with file.open("rb") as stream:
                for consumed in _batches(file, stream, selection, report, batch, counts):
                    yield batch.store(store, consumed)
            whole.add_file(file.name, counts)
        if Path(path).is_dir():
            _compare_manifest(Path(path), whole, report)
    _check_topics(selection, report)


def _compare_manifest(path: Path, read: _Counts, report: BagReport) -> None:
    try:
        stated = rosbag2.stated(path)
    except (FormatError, UnsupportedError) as error:
        why = error.message if error.expected is None else f"{error.message}: {error.expected}"
        report.differences.append(BagDifference(rosbag2.METADATA, "all", None, why))
    else:
        report.differences += read.differences(rosbag2.METADATA, stated)


def _check_topics(selection: BagSelection, report: BagReport) -> None:
    """See that each topic that was asked for is in a file."""
    known = sorted({topic for topic, _ in report.topics})
    for asked in selection.topics:
        if not any(replace(selection, topics=(asked,)).takes(topic) for topic in known):
            expected = ", ".join(known[:20]) or "a bag with topics"
            raise SchemaError(f"the bag has no topic {asked!r}", expected=expected)


@dataclass(slots=True)
class _Counts:
    """Counts of the entries that were read."""

    messages: Counter[str] = field(default_factory=Counter)
    first: int | None = None
    last: int | None = None
    attachments: int = 0
    metadata: int = 0
    files: dict[str, int] = field(default_factory=dict)

    def add(self, entry: BagEntry) -> None:
        if isinstance(entry, BagMessage):
            self.messages[entry.channel.topic] += 1
            self._add_times(entry.log_time, entry.log_time)
        elif isinstance(entry, BagAttachment):
            self.attachments += 1
        elif isinstance(entry, BagMetadata):
            self.metadata += 1

    def add_file(self, name: str, counts: _Counts) -> None:
        self.files[name] = counts.messages.total()
        self.messages += counts.messages
        if counts.first is not None and counts.last is not None:
            self._add_times(counts.first, counts.last)

    def _add_times(self, first: int, last: int) -> None:
        self.first = first if self.first is None else min(first, self.first)
        self.last = last if self.last is None else max(last, self.last)

    def differences(self, where: str, stated: BagCounts) -> Iterator[BagDifference]:
        """Yield what a recording states otherwise than it was read; None is not stated."""
        pairs: list[tuple[str, int | None, int | None]] = [
            ("messages", stated.total, self.messages.total()),
            ("attachments", stated.attachments, self.attachments),
            ("metadata records", stated.metadata, self.metadata),
            ("time of the first message", stated.first, self.first),
            ("time of the last message", stated.last, self.last),
        ]
        if stated.messages is not None:
            topics = sorted(stated.messages.keys() | self.messages)
            pairs += [
                (f"messages of {topic}", stated.messages.get(topic, 0), self.messages[topic])
                for topic in topics
            ]
        files = self.files if stated.files is None else stated.files
        for name in sorted(files.keys() | self.files):
            if name in files and name in self.files:
                pairs.append((f"messages of {name}", files[name], self.files[name]))
            else:
                pairs.append((f"file {name}", int(name in files), int(name in self.files)))
        for what, one, other in pairs:
            if one is not None and one != other:
                yield BagDifference(where, what, one, other)


def _batches(
    file: Path,
    stream: BinaryIO,
    selection: BagSelection,
    report: BagReport,
    batch: _Observations,
    counts: _Counts,
) -> Iterator[int]:
    """Fill the batch from a file; yield the bytes that were read whenever it is to be stored."""
    digest, at = _sha256(stream), 0
    entries = McapReader(stream) if is_mcap(file) else rosbag2.messages(file)
    channels: dict[int, ObservedChannel] = {}
    decoders = cache(decoder_of)  # channels share definitions
    try:
        for entry in entries:
            counts.add(entry)
            if isinstance(entry, BagChannel):
                channels[entry.number] = ObservedChannel(
                    entry, topic_report(report, entry), selection, digest, decoders
                )
            elif isinstance(entry, BagMessage):
                batch.add(channels[entry.channel.number], entry)
                if batch.is_full:
                    yield stream.tell() - at
                    at = stream.tell()
            elif isinstance(entry, BagAttachment):
                report.attachments.append(entry.name)
            else:
                report.metadata.append(entry.name)
    except (FormatError, UnsupportedError) as error:
        error.message = batch.file + error.message
        if batch.how.errors == "raise":
            raise
        batch.rejected.append(error)
    if isinstance(entries, McapReader) and entries.stated is not None:
        where = f"statistics of {file.name}"
        report.differences += counts.differences(where, entries.stated)
    yield stream.seek(0, os.SEEK_END) - at


@dataclass(slots=True)
class _Observations:
    """The grains that are stored next, and the errors of the messages that are none."""

    mapping: Mapping | None
    how: IngestOptions
    fields: list[dict[str, Any]] = field(default_factory=list)
    origins: list[tuple[ObservedChannel, BagMessage]] = field(default_factory=list)
    rejected: list[OmsError] = field(default_factory=list)
    size: int = 0
    file: str = ""  # its name before each message, if it is one of several

    @property
    def is_full(self) -> bool:
        return len(self.fields) + len(self.rejected) >= _MESSAGES or self.size >= _BYTES

    def add(self, observed: ObservedChannel, message: BagMessage) -> None:
        """Add the grain of a message, or the error, if the message is taken."""
        if not observed.takes(message):
            return
        self.size += len(message.data)
        try:
            fields = observed.observation(message)
            if self.mapping is not None:
                fields = _mapped(fields, self.mapping)
        except OmsError as error:
            observed.report.rejected += 1
            self.rejected.append(self._located(error, observed, message))
            return
        observed.report.observed += 1
        self.fields.append(fields)
        self.origins.append((observed, message))

    def store(self, store: GrainStore, consumed: int) -> IngestStep:
        """Store the batch, and begin the next one."""
        batch = og.encode_many(self.fields, errors="collect", **self.how.encoding)
        rejected = self.rejected
        for item in batch.errors:
            self.place_item(item.index, item.error)
            rejected.append(item.error)
        warnings = [
            (0, f"{self._place(*self.origins[w.index])}: {w.message}") for w in batch.warnings
        ]
        step = IngestStep(consumed, rejected=rejected, warnings=warnings)
        step = store_batch(store, batch, step, self, self.how)
        self.fields, self.origins, self.rejected, self.size = [], [], [], 0
        return step

    def place_item(self, item: int, error: OmsError) -> None:
        """Say which message an error is about."""
        observed, message = self.origins[item]
        observed.report.observed -= 1
        observed.report.rejected += 1
        self._located(error, observed, message)

    def _place(self, observed: ObservedChannel, message: BagMessage) -> str:
        return f"{self.file}{observed.channel.topic}, message {message.sequence}"

    def _located(
        self, error: OmsError, observed: ObservedChannel, message: BagMessage
    ) -> OmsError:
        """Say in an error which message it is about, and where that is in the file."""
        inside = "" if error.offset is None else f", byte {error.offset} of the message"
        error.message = f"{self._place(observed, message)}: {error.message}{inside}"
        error.offset = message.offset
        return error


def _mapped(fields: dict[str, Any], mapping: Mapping) -> dict[str, Any]:
    """Return the fields that a mapping makes of a message; an observation keeps its others."""
    context = fields["context"]
    mapped = mapping.apply({**fields["object"], _PLACE: context[_PLACE]})
    if mapping.type != fields["type"]:
        fields = {"created_at": fields["created_at"]}
    return {**fields, **mapped, "context": {**mapped.get("context", {}), **context}}


def _sha256(stream: BinaryIO) -> str:
    digest = sha256()
    while piece := stream.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
