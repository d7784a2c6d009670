# SPDX-License-Identifier: Apache-2.0
"""The three layouts of a document, and which one a text has. Spec: MIF 1.0 §1.

In JSON and in YAML a document is one tree; by lines it is the same tree, a record a line.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from omsgrain.formats import reading, yaml_reader
from omsgrain.formats.arrays import lift
from omsgrain.formats.exact import spell as spell_json
from omsgrain.formats.mif1 import json_lines, yaml_writer
from omsgrain.formats.mif1.fields import ARRAYS, Kind, Layout
from omsgrain.formats.mif1.limits import LIMITS, Limits
from omsgrain.formats.problems import Problem

__all__ = ["Parsed", "layout_of", "looks_like_yaml", "parse", "spell", "spell_lines"]

_HEAD: Final = 64 << 10
_HEADER = re.compile(rb'"type"\s*:\s*"header"')
_SAID = re.compile(rb"\S")
_YAML = re.compile(rb"""(?m)^["']?mif_version["']?\s*:\s*["']?1(?:\.[0-9]+)*["']?\s*(?:#.*)?$""")


@dataclass(slots=True)
class Parsed:
    """A document that was read, and not yet checked.

    Attributes:
        document: the whole tree.
        layout: how it was laid out.
        lines: of the records, by pointer of their array, if they came by lines.
        problems: lines that are no records.
        warnings: what is taken, and told.
        left_out: how many lines are no records.
    """

    document: Any
    layout: Layout
    lines: dict[str, list[int]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    left_out: int = 0

    def line(self, pointer: str, i: int) -> int | None:
        """The line of a record, if it came by lines."""
        lines = self.lines.get(pointer)
        # What the header holds itself comes before all lines.
        return None if lines is None or i >= len(lines) else lines[i]


def layout_of(data: bytes) -> Layout:
    """Tell the layout of a document by its beginning."""
    if not data[:_HEAD].removeprefix(reading.MARK).lstrip().startswith(b"{"):
        return "yaml"
    if not _HEADER.search(data, 0, _HEAD):
        return "json"
    end = data.find(b"\n")
    first = reading.looked_into(data if end < 0 else data[:end])
    if not json_lines.is_header(first):
        return "json"
    # One line alone with all its records in it is no document by lines that was cut short.
    alone = end < 0 or _SAID.search(data, end) is None
    return "json" if alone and "memories" in first else "jsonl"


def looks_like_yaml(data: bytes) -> bool:
    """Whether a text says in YAML that it is a document of this format."""
    return _YAML.search(data[:_HEAD]) is not None


def parse(data: bytes, layout: Layout | None = None, limits: Limits = LIMITS) -> Parsed:
    """Read a document.

    Args:
        data: its bytes.
        layout: how it is laid out; by default that is told from the content.
        limits: how large it may be.

    Raises:
        DocumentError: it is too large, or cannot be read, or was cut short.
        UnsupportedError: it is YAML, and there is no PyYAML.
    """
    layout = layout or layout_of(data)
    if layout == "json":
        tree = reading.parse(data, most=limits.document, depth=limits.depth, values=limits.values)
        return Parsed(tree, layout)
    if layout == "yaml":
        tree = yaml_reader.read(
            data,
            most=limits.document,
            depth=limits.depth,
            aliases=limits.aliases,
            values=limits.values,
        )
        return Parsed(tree, layout)
    reading.bounded(data, limits.document, limits.values)
    return _by_lines(data, limits)


def spell(document: dict[str, Any], layout: Layout = "json") -> bytes:
    """Write a document in a layout, in UTF-8."""
    if layout == "yaml":
        return yaml_writer.write(document)
    return spell_json(document) if layout == "json" else b"".join(spell_lines(document))


def spell_lines(document: dict[str, Any]) -> Iterator[bytes]:
    """Write a document by lines, record by record."""
    document = json_lines.own_last(document)
    arrays = lift(document, ARRAYS)[1]
    records: Iterator[tuple[Kind, Any]] = (
        (ARRAYS[pointer], record) for pointer, array in arrays.items() for record in array
    )
    return json_lines.write(json_lines.header_of(document), records)


_POINTERS: Final = {kind: pointer for pointer, kind in ARRAYS.items()}


def _by_lines(data: bytes, limits: Limits) -> Parsed:
    lines = json_lines.Lines(io.BytesIO(data), limits)
    arrays: dict[str, list[Any]] = {}
    numbers: dict[str, list[int]] = {}
    within = lift(lines.header, ARRAYS)[1]
    for kind, record, number in lines:
        pointer = _POINTERS[kind]
        if pointer not in arrays:
            arrays[pointer], numbers[pointer] = [], [1] * len(within.get(pointer, ()))
        arrays[pointer].append(record)
        numbers[pointer].append(number)
    return Parsed(
        json_lines.assembled(lines.header, arrays),
        "jsonl",
        numbers,
        tuple(lines.problems.found),
        tuple(lines.warnings.found),
        lines.problems.total,
    )
