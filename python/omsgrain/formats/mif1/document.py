# SPDX-License-Identifier: Apache-2.0
"""Reads, checks, splits and rebuilds MIF 1.0 documents. Spec: MIF 1.0 §2."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from omsgrain.formats import json_text, times, yaml
from omsgrain.formats.document import lift
from omsgrain.formats.json_text import of_bytes
from omsgrain.formats.json_text import spell as spell_json
from omsgrain.formats.mif import Checksums, Parsed
from omsgrain.formats.mif1 import check, json_lines
from omsgrain.formats.records import text_of
from omsgrain.formats.source import Source
from omsgrain.grain import Grain

_HEAD: Final = 64 << 10
_HEADER = re.compile(rb'"type"\s*:\s*"header"')
_SAID = re.compile(rb"\S")
_YAML = re.compile(rb"""(?m)^["']?mif_version["']?\s*:\s*["']?1(?:\.[0-9]+)*["']?\s*(?:#.*)?$""")


_EXPORT: Final = "export"


def of_counts(document: Mapping[str, Any]) -> frozenset[str]:
    """The checksums that the reference implementation can write.

    It hashes the numbers of memories and todos and the export time, which it writes with Z in one
    place and with +00:00 in another.
    """
    export = document.get(_EXPORT)
    time = export.get("created_at") if isinstance(export, dict) else None
    if not isinstance(time, str):
        return frozenset()
    arrays = (document.get("memories"), document.get("todos"))
    counts = "".join(str(len(array) if isinstance(array, list) else 0) for array in arrays)
    bare = time.removesuffix("Z").removesuffix("+00:00")
    spelled = (time, bare + "Z", bare + "+00:00")
    return frozenset(of_bytes((counts + one).encode()) for one in spelled)


CHECKSUM: Final = Checksums(_EXPORT, of_counts)


def layout_of(data: bytes) -> check.Layout:
    if not data[:_HEAD].removeprefix(json_text.MARK).lstrip().startswith(b"{"):
        return "yaml"
    if not _HEADER.search(data, 0, _HEAD):
        return "json"
    end = data.find(b"\n")
    first = json_text.looked_into(data if end < 0 else data[:end])
    if not json_lines.is_header(first):
        return "json"
    # A single line that has `memories` is a complete JSON document, not truncated JSON lines.
    alone = end < 0 or _SAID.search(data, end) is None
    return "json" if alone and "memories" in first else "jsonl"


def looks_like_yaml(data: bytes) -> bool:
    return _YAML.search(data[:_HEAD]) is not None


def parse(
    data: bytes, layout: check.Layout | None = None, limits: check.Mif1Limits = check.LIMITS
) -> Parsed:
    layout = layout or layout_of(data)
    if layout == "json":
        return Parsed(limits.parse(data), layout)
    if layout == "yaml":
        tree = yaml.read(
            data,
            most=limits.document,
            depth=limits.depth,
            aliases=limits.aliases,
            values=limits.values,
        )
        return Parsed(tree, layout)
    json_text.bounded(data, limits.document, limits.values)
    return json_lines.read(data, limits)


def spell(document: dict[str, Any], layout: check.Layout = "json") -> bytes:
    if layout == "yaml":
        return yaml.write(document)
    return spell_json(document) if layout == "json" else b"".join(spell_lines(document))


def spell_lines(document: dict[str, Any]) -> Iterator[bytes]:
    document = json_lines.own_last(document)
    arrays = lift(document, check.ARRAYS)[1]
    records: Iterator[tuple[check.Kind, Any]] = (
        (check.ARRAYS[pointer], record) for pointer, array in arrays.items() for record in array
    )
    return json_lines.write(json_lines.header_of(document), records)


STAYS: Final = "it belongs only to its original document"
"""Why an export leaves out a consent."""

_DAY: Final = 86_400_000


class DocumentConsent(NamedTuple):
    """The permissions and the term in the consent of a document."""

    shares: bool  # true unless the consent forbids it
    retention_days: int | None  # days to keep the records
    timestamp: str | None  # when consent was given, as in the document

    @classmethod
    def of(cls, block: Mapping[str, Any] | None) -> DocumentConsent | None:
        """Read the ``consent`` of a checked document; None if it has none."""
        if not isinstance(block, Mapping):
            return None
        days = block.get("retention_days")
        return cls(
            block.get("sharing_allowed") is not False,
            int(days) if isinstance(days, int | float) else None,
            text_of(block, "timestamp"),
        )

    def expires_at(self, created: int) -> int | None:
        """When the retention period ends; None if there is none."""
        if self.retention_days is None:
            return None
        given = None if self.timestamp is None else times.parse(self.timestamp, floating=True)
        return (created if given is None else given.millis) + self.retention_days * _DAY


def is_consent(grain: Grain) -> bool:
    source = Source.of(grain) if grain.type == "state" else None
    return source is not None and (source.format, source.kind) == (check.FORMAT, "consent")


class Metadata:
    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._nodes: set[str] = set()
        self._earliest: tuple[times.Instant, str] | None = None
        self._latest: tuple[times.Instant, str] | None = None

    def add(self, kind: str, record: dict[str, Any]) -> None:
        self._counts[kind] += 1
        names = ("id",) if kind == "node" else ("source", "target") if kind == "edge" else ()
        self._nodes.update(str(record[name]) for name in names if name in record)
        if kind != "memory":
            return
        self._types[str(record.get("type"))] += 1
        text = str(record.get("created_at"))
        instant = times.parse(text, floating=True)
        if instant is None:
            return
        if self._earliest is None or instant < self._earliest[0]:
            self._earliest = instant, text
        if self._latest is None or instant > self._latest[0]:
            self._latest = instant, text

    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "total_memories": self._counts["memory"],
            "total_todos": self._counts["todo"],
        }
        if self._earliest is not None and self._latest is not None:
            found["date_range"] = {"earliest": self._earliest[1], "latest": self._latest[1]}
        return found | {"memory_types": dict(sorted(self._types.items()))}

    def graph(self) -> dict[str, Any]:
        """Return the ``graph`` of the document, without its arrays.

        Each end of an edge counts as a node, whether ``nodes`` lists it or not.
        """
        return {
            "format": "adjacency_list",
            "node_count": len(self._nodes),
            "edge_count": self._counts["edge"],
        }


def counted(
    envelope: dict[str, Any], arrays: Mapping[str, Iterable[Any]], kinds: Mapping[str, str]
) -> dict[str, Any]:
    """Count a document's metadata again, and keep its ``privacy``."""
    found = Metadata()
    for pointer, array in arrays.items():
        for record in array:
            found.add(kinds[pointer], record)
    metadata = found.metadata()
    if (privacy := envelope["metadata"].get("privacy")) is not None:
        metadata["privacy"] = privacy
    if "graph" in envelope:
        envelope = envelope | {"graph": envelope["graph"] | found.graph()}
    return envelope | {"metadata": metadata}
