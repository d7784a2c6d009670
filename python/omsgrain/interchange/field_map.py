# SPDX-License-Identifier: Apache-2.0
"""``Mapping``: which columns of foreign rows become which fields of grains."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from omsgrain import _core, registry
from omsgrain.errors import FormatError, OmsError, SchemaError
from omsgrain.formats.json_text import pointer_to
from omsgrain.interchange.cell import TYPES, UNITS, UTC, CellReader, kept, reader, type_of

if TYPE_CHECKING:
    from omsgrain.interchange.ingest import IngestStep
    from omsgrain.store import GrainStore

FILE_LIMIT: Final = 1 << 20  # bytes of a mapping file
_MEMBERS: Final = ("type", "map", "set", "rest")
_RULE: Final = ("column", "type", "unit")
_NESTED: Final = ("object", "map", "any")
_COLUMN: Final = "a column, or { column, type, unit }"
_FILE: Final = "a TOML file with type, [map], [set] and rest"


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """Where the value of a field comes from.

    Attributes:
        name: the column of a table, or the key of an object; ``a.b`` is the key b in the object a.
        type: "text", "number", "decimal_comma", "int", "bool", "time" or "json". By default the
            field's kind; for other values a cell that looks like a JSON number is a number.
        unit: of a time: "s", "ms", "us" or "ns" since 1970, or "utc" for text without a zone.
    """

    name: str
    type: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """Which columns of foreign rows become which fields of grains.

    >>> import omsgrain as og
    >>> mapping = og.Mapping(
    ...     "observation",
    ...     map={"created_at": "ts", "observer_id": "device", "object.temperature": "temp"},
    ...     set={"observer_type": "temperature"},
    ...     units={"created_at": "s"},
    ... )
    >>> mapping.apply({"ts": 1768471200, "device": "t-7", "temp": "21.5"})["object"]
    {'temperature': 21.5}

    Attributes:
        type: the grain type.
        map: field -> column. ``object.value`` is the member value of the field object.
        set: field -> value, the same in each grain.
        units: field -> the unit of its times. Numbers without a unit are refused.
        types: field -> the type of its values, where the default does not fit.
        rest: keeps all other columns as fields with this prefix, such as "x:". Without it, other
            columns are left out.
    """

    type: str
    map: Dict[str, str | SourceColumn]
    set: Dict[str, Any] = field(default_factory=dict)
    units: Dict[str, str] = field(default_factory=dict)
    types: Dict[str, str] = field(default_factory=dict)
    rest: str | None = None
    _rules: tuple[_Rule, ...] = field(init=False, repr=False, compare=False)
    _constants: tuple[tuple[tuple[str, ...], Any], ...] = field(
        init=False, repr=False, compare=False
    )
    _usual: tuple[dict[str, Any], list[tuple[Any, ...]]] | None = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Check the mapping, and prepare it."""
        _check_type(self.type)
        for given in (self.units, self.types):
            for name in given:
                if name not in self.map:
                    expected = ", ".join(self.map) or "a field of map"
                    raise SchemaError(
                        "a field without column", field=f"/{name}", expected=expected
                    )
        if self.rest is not None and not re.fullmatch(r"[a-z][a-z0-9_-]*:", self.rest):
            expected = "lower-case letters and a colon, such as x:"
            raise SchemaError("not a prefix", field="/rest", expected=expected)
        rules = tuple(
            _Rule.of(
                self.type,
                name,
                source if isinstance(source, SourceColumn) else SourceColumn(source),
                self.units.get(name),
                self.types.get(name),
            )
            for name, source in self.map.items()
        )
        constants = tuple(one for name in self.set for one in _leaves(_path(name), self.set[name]))
        for path, next in pairwise(sorted([*(rule.path for rule in rules), *dict(constants)])):
            if next[: len(path)] == path:
                expected, at = "one column or value, or members", pointer_to(path)
                raise SchemaError("a field is set twice", field=at, expected=expected)
        object.__setattr__(self, "_rules", rules)
        object.__setattr__(self, "_constants", constants)
        object.__setattr__(self, "_usual", self._for_core())

    def _for_core(self) -> tuple[dict[str, Any], list[tuple[Any, ...]]] | None:
        """Return the mapping as the core takes it; None if only Python can apply it."""
        if self.rest is not None or any(len(path) > 1 for path, _ in self._constants):
            return None
        fixed = {path[0]: value for path, value in self._constants}
        return {"type": self.type, **fixed}, [rule.for_core() for rule in self._rules]

    @property
    def columns(self) -> list[str]:
        """The columns that it reads."""
        return list(dict.fromkeys(rule.column for rule in self._rules))

    def apply(self, row: Dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the grain of a row. Empty cells and nulls give no field.

        Args:
            row: column -> value: text as in CSV, or values as in JSON.

        Raises:
            SchemaError: a value is not of the type of its field.
            RangeError: a number is not finite.
        """
        fields: dict[str, Any] = {"type": self.type}
        for path, value in self._constants:
            _place(fields, path, value)
        for rule in self._rules:
            value = row.get(rule.column)
            if value is None and rule.keys is not None:
                value = _inner(row, rule.keys)
            if value is None or value == "":
                continue
            try:
                value = rule.value(value)
            except OmsError as error:
                error.message = f"column {rule.column!r}: {error.message}"
                error.field = rule.pointer
                raise
            if len(rule.path) == 1:
                fields[rule.name] = value
            else:
                _place(fields, rule.path, value)
        if self.rest is not None:
            read = {rule.column.split(".")[0] for rule in self._rules}
            for column, value in row.items():
                if column and column not in read and value is not None and value != "":
                    fields[self.rest + column] = kept(value)
        return fields

    def apply_many(self, rows: list[dict[str, Any]]) -> list[dict[str, Any] | OmsError]:
        """Return for each row the fields of its grain, or its error."""
        usual = [None] * len(rows) if self._usual is None else _core.map_rows(rows, *self._usual)
        return [
            self._applied(row) if fields is None else fields
            for row, fields in zip(rows, usual, strict=True)
        ]

    def _applied(self, row: dict[str, Any]) -> dict[str, Any] | OmsError:
        try:
            return self.apply(row)
        except OmsError as error:
            return error

    def ingest(
        self,
        store: GrainStore,
        path: str | os.PathLike[str],
        *,
        format: Literal["auto", "json", "jsonl", "csv", "tsv", "parquet"] = "auto",
        errors: Literal["raise", "collect"] = "raise",
    ) -> Iterator[IngestStep]:
        """Store the grains of a file, 10,000 rows a commit; yield what each commit stored.

        Args:
            store: where they go.
            path: JSON, JSON lines, CSV, TSV or Parquet.
            format: "auto" goes by the name of the file.
            errors: "raise" stops at the first bad row and stores nothing of its commit; "collect"
                stores the good rows, and lists the bad ones by their lines.

        Raises:
            SchemaError: a row does not fit, or the file has no such column.
            FormatError: the file is damaged.
            StoreError: the store is read-only, full or damaged.
        """
        from omsgrain.interchange.ingest import ingest

        with Path(path).open("rb") as stream:
            yield from ingest(
                store, stream, name=str(path), format=format, errors=errors, mapping=self
            )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Mapping:
        """Read a mapping from a TOML file, as ``omsgrain ingest --suggest`` writes it.

        Raises:
            FormatError: the file is no TOML, or too large.
            SchemaError: it is no mapping.
        """
        with Path(path).open("rb") as file:
            data = file.read(FILE_LIMIT + 1)
        if len(data) > FILE_LIMIT:
            expected = f"at most {FILE_LIMIT} bytes"
            raise FormatError("the mapping file is too large", expected=expected)
        return cls.of(_toml(data))

    @classmethod
    def of(cls, given: Dict[str, Any]) -> Mapping:
        """Return the mapping of a parsed TOML file.

        Raises:
            SchemaError: it is no mapping.
        """
        for name in given:
            if name not in _MEMBERS:
                raise SchemaError("no such member", field=f"/{name}", expected=", ".join(_MEMBERS))
        if not isinstance(given.get("type"), str):
            raise SchemaError("a mapping has a type", field="/type", expected=_FILE)
        tables: list[Dict[str, Any]] = [given.get(name, {}) for name in ("map", "set")]
        for name, table in zip(("map", "set"), tables, strict=True):
            if not isinstance(table, Dict):
                raise SchemaError("not a table", field=f"/{name}", expected=_FILE)
        rest = given.get("rest")
        if rest is not None and not isinstance(rest, str):
            raise SchemaError("not a prefix", field="/rest", expected="text, such as x:")
        return cls(given["type"], dict(_columns(tables[0], "")), dict(tables[1]), rest=rest)

    def to_toml(self) -> str:
        """Return the mapping as TOML, as ``read`` takes it."""
        lines = [f"type = {_quoted(self.type)}"]
        if self.rest is not None:
            lines.append(f"rest = {_quoted(self.rest)}")
        lines += ["", "[map]"]
        for rule in self._rules:
            more = {"type": rule.type, "unit": rule.unit}
            members = "".join(f", {name} = {_quoted(text)}" for name, text in more.items() if text)
            source = (
                f"{{ column = {_quoted(rule.column)}{members} }}"
                if members
                else _quoted(rule.column)
            )
            lines.append(f"{_quoted(rule.name)} = {source}")
        if self.set:
            lines += ["", "[set]"]
            lines += [
                f"{_quoted(name)} = {_toml_value(value)}" for name, value in self.set.items()
            ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    path: tuple[str, ...]
    pointer: str
    column: str
    keys: tuple[str, ...] | None  # of a column inside an object
    type: str | None  # as given
    unit: str | None
    kind: str  # of its cells: a type, "any" or "list"
    value: CellReader

    @classmethod
    def of(
        cls, grain: str, name: str, source: SourceColumn, unit: str | None, type: str | None
    ) -> _Rule:
        path = _path(name)
        pointer = pointer_to(path)
        if not isinstance(source.name, str) or not source.name:
            raise SchemaError("not a column", field=pointer, expected="its name")
        unit, type = unit or source.unit, type or source.type
        if type is not None and type not in TYPES:
            raise SchemaError("no such type", field=pointer, expected=", ".join(TYPES))
        if unit is not None and unit not in (*UNITS, UTC):
            raise SchemaError("no such unit", field=pointer, expected=", ".join((*UNITS, UTC)))
        kind = _kind(path, grain)
        chosen = type or type_of(kind)
        if unit is not None and chosen != "time":
            expected = "a time: a field of times, or type time"
            raise SchemaError("a unit belongs to a time", field=pointer, expected=expected)
        keys = tuple(source.name.split("."))
        return cls(
            name,
            path,
            pointer,
            source.name,
            keys if len(keys) > 1 else None,
            type,
            unit,
            chosen or ("any" if kind in _NESTED else "list"),
            reader(chosen, kind, unit),
        )

    def for_core(self) -> tuple[str, str, bool, float | None, list[str]]:
        unit = UNITS.get(self.unit or "")
        kind = UTC if self.unit == UTC else self.kind
        return self.column, kind, self.keys is not None, unit, list(self.path)


def _check_type(type: str) -> None:
    names = [one.name for one in registry.TYPES]
    if type not in names:
        expected = ", ".join(names)
        raise SchemaError("no such grain type", field="/type", expected=expected)


def constant(type: str, name: str, text: str) -> Any:
    """Return text as a value of a field's kind, or as a number if it looks like one."""
    _check_type(type)
    rule = _Rule.of(type, name, SourceColumn(name), None, None)
    try:
        return rule.value(text)
    except OmsError as error:
        error.field = rule.pointer
        raise


def _path(name: str) -> tuple[str, ...]:
    """Return the parts of the name of a field, or of a member of one, that a mapping can set."""
    path = tuple(name.split("."))
    if path[0] == "type" or not all(path):
        raise SchemaError("not a field of a mapping", field=f"/{name}", expected="a field's name")
    if ":" in path[0]:
        return path
    fields = [one.name for one in registry.FIELDS]
    if path[0] not in fields:
        near = get_close_matches(path[0], fields, 1)
        expected = (
            f"{near[0]}?" if near else "a field of OMS 1.2, or one with a prefix, such as x:"
        )
        raise SchemaError("no such field", field=f"/{name}", expected=expected)
    return path


def _kind(path: tuple[str, ...], type: str) -> str:
    """Return the kind of a field; of a member, and of a field with a prefix, "any"."""
    if ":" in path[0]:
        return "any"
    kind = registry.field(path[0], type).kind
    if len(path) == 1:
        return kind
    if kind not in _NESTED:
        expected, found = _COLUMN, ".".join(path)
        raise SchemaError(
            "the field has no members", field=f"/{path[0]}", expected=expected, found=found
        )
    return "any"


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values inside an object with their paths, so that no row shares the object."""
    if isinstance(value, Dict):
        for key, inner in value.items():
            yield from _leaves((*path, key), inner)
    else:
        yield path, value


def _inner(row: Dict[str, Any], keys: tuple[str, ...]) -> Any:
    value: Any = row
    for key in keys:
        value = value.get(key) if isinstance(value, Dict) else None
    return value


def _place(fields: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a member of a field, and make the objects above it."""
    *above, last = path
    at = fields
    for key in above:
        at = at.setdefault(key, {})
    at[last] = value


def _columns(table: Dict[str, Any], above: str) -> Iterator[tuple[str, SourceColumn]]:
    """Yield the fields of a table with their columns; members may be tables of their own."""
    for key, value in table.items():
        name = f"{above}{key}"
        if isinstance(value, str):
            yield name, SourceColumn(value)
        elif not isinstance(value, Dict):
            raise SchemaError("not a column", field=f"/map/{name}", expected=_COLUMN)
        elif isinstance(value.get("column"), str):
            for member, text in value.items():
                if member not in _RULE or not isinstance(text, str):
                    expected = ", ".join(_RULE)
                    raise SchemaError(
                        "no such member", field=f"/map/{name}/{member}", expected=expected
                    )
            yield name, SourceColumn(value["column"], value.get("type"), value.get("unit"))
        else:
            yield from _columns(value, f"{name}.")


def _toml(data: bytes) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        found: dict[str, Any] = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        number = int(line[1]) if line else None
        raise FormatError("the mapping file is no TOML", line=number, expected=_FILE) from None
    return found


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Any) -> str:
    if isinstance(value, Dict):
        inner = ", ".join(f"{_quoted(key)} = {_toml_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        return _quoted(value)
    return json.dumps(value)
