# SPDX-License-Identifier: Apache-2.0
"""The columns of a table of grains.

    of the store      address, blob, envelopes, seq, sealed, current, and the fields that the
                      index layer keeps: superseded_by, system_valid_to and so on
    of the registry   one for each field of a grain and of a profile, by its full name and kind
    extra             JSON of what has no column of its own, or does not fit into it

A field that may be of any kind has two: ``object`` holds it where it is a text, ``object_json``
where it is something else. Maps are JSON text. A grain has at most one row, and what is absent is
null; bytes in JSON are ``{"$bytes": base64}``, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from omsgrain import registry
from omsgrain.errors import SchemaError, UnsupportedError, packages_of

__all__ = ["COUNTS", "EXTRA", "NEEDED", "STORED", "Column", "Kind", "chosen", "columns", "schema"]

Kind: TypeAlias = Literal[
    "text", "float", "int", "bool", "time", "bytes", "texts", "ints", "many_bytes", "json"
]

EXTRA = "extra"
"""The column of all that has no other."""
NEEDED = ("address", "blob", "envelopes", "superseded_by", "verification_status")
"""What brings grains back: an import reads these columns and no others."""
COUNTS = ("access_count", "last_accessed_at")
"""How grains are read here, which nobody else needs to know."""

_KINDS: dict[str, Kind] = {
    "string": "text",
    "did": "text",
    "address": "text",
    "float64": "float",
    "number": "float",
    "int": "int",
    "int64": "int",
    "uint8": "int",
    "bool": "bool",
    "datetime": "time",
    "array[string]": "texts",
    "array[did]": "texts",
    "array[address]": "texts",
    "array[uint8]": "ints",
    "array[bytes]": "many_bytes",
    "map": "json",
    "map[string]": "json",
    "array[map]": "json",
}
_ANY = ("any", "object")


class Column(NamedTuple):
    """One column.

    Attributes:
        name: as it is called.
        kind: what its values are.
        field: the field that it shows; None: it is of the store.
        doc: what it means.
        other: the column that has what is of another kind; else that is left for extra.
    """

    name: str
    kind: Kind
    field: str | None
    doc: str
    other: str | None = None


STORED = (
    Column(
        "address", "text", None, "Under which it is stored: SHA-256 of the blob, 64 hex digits"
    ),
    Column(
        "blob", "bytes", None, "The bytes as they are stored; of a sealed grain the sealed ones"
    ),
    Column("envelopes", "many_bytes", None, "Of a signed grain: an envelope for each signer"),
    Column("seq", "int", None, "Sequence number: the order of arrival"),
    Column("sealed", "bool", None, "Whether it is stored sealed"),
    Column("current", "bool", None, "Whether it was neither superseded, retracted nor restricted"),
)


@cache
def columns() -> tuple[Column, ...]:
    """All columns, in order."""
    return (*STORED, *_of_fields(), Column(EXTRA, "json", EXTRA, "JSON of all other fields"))


def _of_fields() -> Iterator[Column]:
    rows = list(registry.FIELDS) + [f for p in registry.PROFILES for f in p.fields]
    kinds: dict[str, set[str]] = {}
    for row in rows:
        kinds.setdefault(row.name, set()).add(row.kind)
    seen: set[str] = set()
    for row in sorted(rows, key=lambda row: not row.index_layer):
        if row.name in seen:
            continue
        seen.add(row.name)
        if row.index_layer:
            yield Column(row.name, _KINDS[row.kind], None, row.doc)
        elif kinds[row.name] & {*_ANY}:  # content is a text, and in actions anything
            other = f"{row.name}_json"
            yield Column(row.name, "text", row.name, row.doc, other)
            yield Column(other, "json", row.name, "The same as JSON, if it is no text")
        else:
            yield Column(row.name, _KINDS[row.kind], row.name, row.doc)


def chosen(names: Iterable[str] | None, *, counts: bool = True) -> tuple[Column, ...]:
    """Find columns by their names, in the order given.

    Args:
        names: of the columns; None for all.
        counts: whether all are with those of ``COUNTS``.

    Raises:
        SchemaError: a name that no column has, or twice the same; or no names, or a text.
    """
    if names is None:
        return tuple(c for c in columns() if counts or c.name not in COUNTS)
    if isinstance(names, str):
        raise SchemaError("a list of columns", field="/columns", found="one text")
    known = {column.name: column for column in columns()}
    asked = list(names)
    for name in asked:
        if name not in known:
            found = ascii(name)[1:-1][:60] if isinstance(name, str) else type(name).__name__
            raise SchemaError("no such column", field="/columns", found=found)
    if not asked or len(set(asked)) < len(asked):
        raise SchemaError("each column once, and at least one", field="/columns")
    return tuple(known[name] for name in asked)


def schema(of: Iterable[Column]) -> Any:
    """The Arrow schema of some columns.

    Raises:
        UnsupportedError: pyarrow is not installed.
    """
    pa = arrow()
    types = {
        "text": pa.string(),
        "float": pa.float64(),
        "int": pa.int64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("ms", tz="UTC"),
        "bytes": pa.binary(),
        "texts": pa.list_(pa.string()),
        "ints": pa.list_(pa.int64()),
        "many_bytes": pa.list_(pa.binary()),
        "json": pa.string(),
    }
    certain = ("address", "blob", "seq", "sealed", "current")
    return pa.schema([pa.field(c.name, types[c.kind], nullable=c.name not in certain) for c in of])


def arrow() -> Any:
    """The module pyarrow.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        text = "tables need more packages"
        raise UnsupportedError(text, expected=packages_of("arrow")) from None
    return pyarrow
