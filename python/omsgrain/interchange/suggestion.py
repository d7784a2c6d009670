# SPDX-License-Identifier: Apache-2.0
"""A first mapping for foreign rows, guessed from the names and values of their columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from math import isfinite
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from omsgrain import registry
from omsgrain.errors import OmsError, SchemaError
from omsgrain.formats.compressed import SUFFIX
from omsgrain.interchange.cell import (
    UNITS,
    UTC,
    decimals,
    has_float,
    is_fine_time,
    is_int64,
    is_number,
    is_time,
)
from omsgrain.interchange.field_map import Mapping, SourceColumn
from omsgrain.interchange.rows import RowChunk, RowFormat, format_of, row_chunks

ROWS: Final = 1_000
"""The rows that a suggestion reads."""

_DEPTH: Final = 3  # of objects whose members are columns of their own
_COLUMNS: Final = 1_000
_NOTED: Final = 20  # columns that notes are about
_FROM, _TO = 946_684_800_000, 4_102_444_800_000  # ms of the years 2000 and 2100
_MOST: Final = 0.98  # of the values: numbers in a column of numbers
_SHORT: Final = 10  # values; of so many one may be broken too
_GROUP: Final = 3  # digits after a comma that may separate thousands
_FEW: Final = 0.5  # of the rows: the most distinct values of a column that names a device
_TIMES: Final = ("created_at", "timestamp", "time", "datetime", "date", "ts", "at", "when", "t")
_DEVICES: Final = (
    "observer_id",
    "sensor",
    "device",
    "robot",
    "machine",
    "station",
    "host",
    "node",
    "frame_id",
)
_CONTENTS: Final = ("content", "text", "message", "body", "note", "comment", "description", "says")
_KNOWN: Final = {
    "user_id": ("user_id", "user", "author", "person", "who", "speaker"),
    "session_id": ("session_id", "session", "conversation", "conversation_id", "thread"),
    "role": ("role",),
    "namespace": ("namespace", "site", "plant", "topic"),
}
_SENSOR: Final = "x:sensor"
_BOOLS: Final = ({"true"}, {"false"}, {"true", "false"})
_WORD: Final = re.compile(r"\W+")


@dataclass(eq=False)
class _Seen:
    """A column with its values, without empty ones; what is cached needs all of them."""

    name: str
    values: list[Any] = field(default_factory=list)

    @cached_property
    def is_number(self) -> bool:
        """Whether nearly all values are numbers: a few cells may be broken."""
        return _nearly(len(self.values) - self.not_numbers, len(self.values))

    @property
    def not_numbers(self) -> int:
        """How many values are no numbers."""
        return len(self.values) - sum(map(is_number, self.values))

    @cached_property
    def has_commas(self) -> bool:
        """Whether nearly all values may be numbers with a decimal comma, and one has a comma."""
        found = [digits for digits in map(decimals, self.values) if digits is not None]
        return _nearly(len(found), len(self.values)) and any(found) and not self.is_number

    @cached_property
    def number_type(self) -> str | None:
        """The type of its numbers; None if it has none, or their commas may be of thousands.

        Numbers with more digits than a float has are int, or text if they are no integers.
        """
        if self.is_number:
            long = [one for one in self.values if is_number(one) and not has_float(one)]
            if not long:
                return "number"
            return "int" if all(is_int64(one) for one in long) else None
        sure = self.has_commas and any(decimals(value) not in (0, _GROUP, None)
                                       for value in self.values)  # fmt: skip
        return "decimal_comma" if sure else None

    @cached_property
    def is_text(self) -> bool:
        return (
            not self.is_number
            and self.number_type is None
            and all(isinstance(value, str) for value in self.values)
        )

    @cached_property
    def is_bool(self) -> bool:
        return self.is_text and {one.casefold() for one in self.values} in _BOOLS

    @cached_property
    def is_bytes(self) -> bool:
        return any(isinstance(value, bytes) for value in self.values)

    @cached_property
    def cells(self) -> tuple[str | None, str | None]:
        """The type and the unit that a mapping names for its values."""
        if self.unit is not None and isinstance(self.values[0], datetime):
            return "time", self.unit or None
        if self.is_bool:
            return "bool", None
        is_text = self.values and (self.is_text or self.is_number)
        return self.number_type or ("text" if is_text else None), None

    def is_full(self, rows: int) -> bool:
        """Whether nearly all rows have a value."""
        return _nearly(len(self.values), rows)

    @property
    def distinct(self) -> float:
        """The share of distinct values."""
        return len({str(value) for value in self.values}) / max(1, len(self.values))

    @property
    def length(self) -> float:
        """The average length of its texts."""
        return sum(len(str(value)) for value in self.values) / max(1, len(self.values))

    @property
    def unit(self) -> str | None:
        """The unit of its times; "" for times with a zone; None if it has no times."""
        kind, count = self._times
        nearly = _nearly(count, len(self.values))
        return (
            kind if nearly or (self.is_called(_TIMES) and 2 * count > len(self.values)) else None
        )

    @cached_property
    def _times(self) -> tuple[str | None, int]:
        """The unit of most times, and how many have it."""
        kinds = Counter(map(_time_kind, self.values))
        return max(
            ((kind, count) for kind, count in kinds.items() if kind is not None),
            key=itemgetter(1),
            default=(None, 0),
        )

    @property
    def not_times(self) -> int:
        """How many values of a column of times have another form, or are no times."""
        return len(self.values) - self._times[1]

    @property
    def has_fine_times(self) -> bool:
        """Whether a time has more digits than the milliseconds of a grain's time."""
        return any(is_fine_time(value, self.unit) for value in self.values)

    def is_called(self, names: tuple[str, ...]) -> bool:
        return _bare(self.name) in {_bare(name) for name in names}


@dataclass(frozen=True, slots=True)
class SuggestedMapping:
    """A mapping, and what a person should know of it, in sentences."""

    mapping: Mapping
    notes: tuple[str, ...] = ()


def suggest(
    stream: BinaryIO,
    *,
    name: str = "",
    format: RowFormat | Literal["auto"] = "auto",
    changed: str | None = None,
) -> SuggestedMapping:
    """Return a mapping for the rows of a file, from its first thousand rows.

    The format "auto" goes by the name. Rows without a time get that when the file was ``changed``.
    """
    form = (format_of(name) or format) if format == "auto" else format
    chunks = row_chunks(stream, form, None, name=name, most=ROWS)
    refused: list[OmsError] = []
    seen: dict[str, _Seen] = {}
    is_cut, count = False, 0
    for row in islice(_rows(chunks, refused), ROWS):
        count += 1
        for column, value in _flat(row, ""):
            if column in seen or len(seen) < _COLUMNS:
                one = seen.setdefault(column, _Seen(column))
                if value is not None and value != "":
                    one.values.append(value)
            else:
                is_cut = True
    if not seen and refused:
        raise refused[0]
    if not seen:
        raise SchemaError(
            "there is no row to suggest a mapping from", expected="a row with columns"
        )
    above = {name.rpartition(".")[0] for name in seen}  # objects, which some rows lack
    named = [
        one
        for one in seen.values()
        if one.values or not (one.name.startswith("#") or one.name in above)
    ]
    columns = [one for one in named if not one.is_bytes]
    mapping = _mapping(columns, count, Path(name.removesuffix(SUFFIX)).stem or "rows")
    notes = list(_notes(named))
    if is_cut:
        notes.append(f"Only the first {_COLUMNS:,} of the columns are here.")
    if "created_at" not in mapping.map and changed is not None:
        notes.append("No column is a time: all rows get the time when the file was changed.")
        mapping = replace(mapping, set={"created_at": changed, **mapping.set})
    return SuggestedMapping(mapping, tuple(notes))


def _rows(chunks: Iterator[RowChunk], refused: list[OmsError]) -> Iterator[dict[str, Any]]:
    for chunk in chunks:
        refused += chunk.errors[: 1 - len(refused)]
        yield from chunk.rows


def _notes(columns: list[_Seen]) -> Iterator[str]:
    """Say what looks wrong with the columns."""
    types = {one.name for one in registry.TYPES}
    if any(one.name == "type" and types.issuperset(map(str, one.values)) for one in columns):
        yield "These rows look like grains already, which need no mapping."
    if any(is_number(one.name) for one in columns):
        yield "The first line looks like values. A table needs a line with its columns' names."
    for one in columns[:_NOTED]:
        if one.is_called(_TIMES) and one.has_fine_times:
            yield f"Column {one.name!r} is kept as text too: a grain's time has milliseconds."
        if not_finite := sum(isinstance(v, float) and not isfinite(v) for v in one.values):
            few = f"{not_finite} of {len(one.values)} values are NaN or infinite"
            yield f"Column {one.name!r}: {few}; their rows are refused, unless its type is text."
        if one.is_bytes:
            yield f"Column {one.name!r} has bytes: no field is suggested for it."
        elif one.has_commas and one.number_type is None:
            yield f"Column {one.name!r} stays text: give it type decimal_comma if 1,234 is 1.234."
        elif one.is_text and 0 < one.not_numbers < len(one.values) / 2:
            few = f"{one.not_numbers} of {len(one.values)} values are no numbers"
            yield f"Column {one.name!r} stays text: {few}."
        elif one.is_called(_TIMES) and one.not_times:
            few = f"{one.not_times} of {len(one.values)} values"
            if one.unit is None:
                if not (one.is_number and any(other.unit is not None for other in columns)):
                    yield f"Column {one.name!r} is no time: omsgrain cannot read {few}."
            else:
                yield f"Column {one.name!r}: {few} are no times, or of another form."


def _flat(row: Dict[str, Any], above: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict) and value and depth < _DEPTH:
            yield from _flat(value, f"{above}{key}.", depth + 1)
        elif key:
            yield f"{above}{key}", value


def _mapping(seen: list[_Seen], rows: int, stem: str) -> Mapping:
    """Choose the type by the columns: numbers of a device are observations, texts are events.

    Required fields come from columns that nearly all rows have.
    """
    columns: dict[str, str | SourceColumn] = {}
    left = list(seen)
    time = _take(left, lambda one: one.unit is not None and one.is_called(_TIMES))
    time = time or _take(left, lambda one: one.unit is not None)
    if time is not None:
        columns["created_at"] = SourceColumn(time.name, unit=time.unit or None)
    device = _called(left, _DEVICES)
    texts = [one for one in left if one.is_text and one.is_full(rows)]
    content = _take(left, lambda one: one in texts and one.is_called(_CONTENTS))
    numbers = [one for one in left if one.number_type is not None]
    if device is None and content is None and numbers:
        device = _take(left, lambda one: one in texts and one.distinct <= _FEW and one.length < 80)
    if not texts and not numbers:
        texts = [one for one in left if one.is_text]
    if device is not None or not texts:
        left += [content] if content else []
        if time is not None and time.has_fine_times:
            columns[f"context.{_member(time)}"] = SourceColumn(time.name, "text")
        return _observation(columns, device, left, stem)
    if content is None:
        longest = max((one for one in left if one in texts), key=lambda one: one.length)
        content = _take(left, lambda one: one is longest)
    assert content is not None, "one of the columns is text"
    columns["content"] = content.name
    for name, names in _KNOWN.items():
        known = _called(left, names)
        if known is not None:
            columns[name] = known.name
    if time is not None and time.has_fine_times:
        columns[f"x:{_member(time)}"] = SourceColumn(time.name, "text")
    return Mapping("event", columns, rest="x:" if left else None)


def _observation(
    columns: dict[str, str | SourceColumn], device: _Seen | None, left: list[_Seen], stem: str
) -> Mapping:
    constants = {} if device is not None else {"observer_id": stem}
    if device is not None:
        columns["observer_id"] = columns["subject"] = device.name
    numbers = [one for one in left if one.number_type is not None]
    kinds = registry.field("observer_type").open_enum
    named = [kind for kind in kinds for one in numbers if kind in _bare(one.name)]
    constants["observer_type"] = named[0] if len(set(named)) == 1 else _SENSOR
    for one in left:
        place = "context" if one.number_type is None else "object"
        member = f"{place}.{_member(one)}"
        while member in columns:
            member += "_"
        kind, unit = one.cells
        columns[member] = one.name if kind is None else SourceColumn(one.name, kind, unit)
    return Mapping("observation", columns, constants)


def _member(column: _Seen) -> str:
    """Return the name of the member for a column."""
    return _WORD.sub("_", column.name).strip("_") or "column"


def _nearly(count: int, all: int) -> bool:
    """Whether so many are nearly all: a few may be broken."""
    return count > 0 and (count >= _MOST * all or (all - 1 <= count and all >= _SHORT))


def _called(left: list[_Seen], names: tuple[str, ...]) -> _Seen | None:
    return _take(left, lambda one: one.is_called(names))


def _take(left: list[_Seen], test: Callable[[_Seen], bool]) -> _Seen | None:
    """Return the first column that passes a test, and take it off the list."""
    found = next((one for one in left if test(one)), None)
    if found is not None:
        left.remove(found)
    return found


def _bare(name: str) -> str:
    return _WORD.sub("", name.rsplit(".", 1)[-1]).casefold().replace("_", "")


def _time_kind(value: Any) -> str | None:
    """Return the unit of one time: "" for one with a zone, "utc" without; None: no time."""
    if is_number(value):
        ms = float(value)
        return next((unit for unit, of in UNITS.items() if _FROM <= ms * of <= _TO), None)
    if isinstance(value, str) and len(value) < len("2026-01-15"):
        return None
    return next((unit or "" for unit in (None, UTC) if is_time(value, unit)), None)
