# SPDX-License-Identifier: Apache-2.0
"""Rows made columns: what a field holds is put into its column if it fits, and else into extra."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import SimpleNamespace
from typing import Any, NamedTuple

from omsgrain.analytics.columns import EXTRA, Column, Kind, arrow, columns, schema
from omsgrain.grain import _json_bytes
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.store.state import PAST, State

__all__ = ["ROWS", "Row", "batches"]

ROWS = 16_384
"""Rows of a batch at the most."""
BYTES = 16 << 20
"""Bytes of the blobs of a batch, about; a batch of large grains has fewer rows."""
_TYPE = "type"

Fields = Mapping[str, Any]


class Row(NamedTuple):
    """A grain as it stands in a store.

    Attributes:
        seq: its sequence number.
        address: under which it is stored.
        blob: as it is stored.
        envelopes: one for each signer.
        state: what became of it.
        type: by its 1.2 name; None if nobody may look into it.
        fields: None if nobody may look into it.
    """

    seq: int
    address: str
    blob: bytes
    envelopes: Sequence[bytes]
    state: State
    type: str | None
    fields: Fields | None


def batches(rows: Iterable[Row], asked: Sequence[Column]) -> Iterator[Any]:
    """Make Arrow batches of rows, of bounded size, with the columns asked for."""
    pa, form = arrow(), schema(asked)
    source = iter(rows)
    while page := _page(source):
        yield pa.record_batch(_arrays(pa, page, asked, form), schema=form)


def _page(source: Iterator[Row]) -> list[Row]:
    page: list[Row] = []
    size = 0
    for row in islice(source, ROWS):
        page.append(row)
        size += len(row.blob)
        if size >= BYTES:
            break
    return page


def _arrays(pa: Any, page: Sequence[Row], asked: Sequence[Column], form: Any) -> list[Any]:
    named = {column.field for column in asked if column.field is not None}
    whole = SimpleNamespace(**dict(zip(Row._fields, zip(*page, strict=True), strict=True)))
    fields: list[Fields] = [one or {} for one in whole.fields] if named else []
    present: set[str] = set().union(*fields)
    left: list[dict[str, Any]] = [{} for _ in fields]
    if EXTRA in named:
        _without_column(fields, present, left)
    arrays = {}
    # What does not fit into a column is in extra, whether that column was asked for or not.
    for column in columns() if EXTRA in named else asked:
        if column.name == EXTRA or (column not in asked and column.field not in present):
            continue
        if column.field is None:
            values: Sequence[Any] = _STORED[column.name](whole)
        elif column.field == _TYPE:
            values = whole.type
        elif column.field in present:
            values = _fitting(column, fields, left)
        else:
            values = []
        if column not in asked:
            continue
        kind = form.field(column.name).type
        arrays[column.name] = pa.array(values, kind) if values else pa.nulls(len(page), kind)
    if EXTRA in named:
        arrays[EXTRA] = pa.array([_text(rest) if rest else None for rest in left], pa.string())
    return [arrays[column.name] for column in asked]


def _without_column(
    fields: Sequence[Fields], present: set[str], left: Sequence[dict[str, Any]]
) -> None:
    known = {column.field for column in columns()}
    unknown = present - known
    if not unknown:
        return
    for found, rest in zip(fields, left, strict=True):
        rest.update((name, value) for name, value in found.items() if name in unknown)


def _fitting(
    column: Column, fields: Sequence[Fields], left: Sequence[dict[str, Any]]
) -> list[Any]:
    """The values of a column; one that does not fit stays absent, and is left for extra."""
    name = column.field or ""
    found = [one.get(name) for one in fields]
    if column.name != name:  # the second of two: what the first did not take
        return [None if v is None or isinstance(v, str) else _text(v) for v in found]
    if column.kind == "json":
        return [None if value is None else _text(value) for value in found]
    if _all_fit(column.kind, found):
        return found
    fits = _FITS[column.kind]
    for i, value in enumerate(found):
        if value is not None and not fits(value):
            found[i] = None
            if column.other is None:
                left[i][name] = value
    return found


def _all_fit(kind: Kind, found: Sequence[Any]) -> bool:
    """Whether all values of a column fit, told without a call for each: nearly always they do."""
    types = set(map(type, found)) - _NONE
    if kind in _INSIDE:
        inner = set(map(type, chain.from_iterable(value for value in found if value)))
        return types <= _LIST and inner <= _INSIDE[kind]
    if kind in ("int", "time"):
        whole = [value for value in found if value is not None]
        return types <= _INT and (not whole or (_is_int(min(whole)) and _is_int(max(whole))))
    return types <= _AT_ONCE.get(kind, frozenset())


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else _json_bytes(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_int(value: object) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_float(value: object) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= 1 << 53)


def _is_list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)


_FITS: dict[Kind, Callable[[object], bool]] = {
    "text": _is_text,
    "float": _is_float,
    "int": _is_int,
    "time": _is_int,
    "bool": lambda value: isinstance(value, bool),
    "bytes": _is_bytes,
    "texts": _is_list_of(_is_text),
    "ints": _is_list_of(_is_int),
    "many_bytes": _is_list_of(_is_bytes),
    "json": lambda value: True,
}
#: Types whose values fit whatever they are; and those in lists.
_AT_ONCE: dict[Kind, frozenset[type]] = {
    "text": frozenset((str,)),
    "float": frozenset((float,)),
    "bool": frozenset((bool,)),
}
_INSIDE: dict[Kind, frozenset[type]] = {
    "texts": frozenset((str,)),
    "many_bytes": frozenset((bytes,)),
}
_NONE, _LIST, _INT = frozenset((type(None),)), frozenset((list,)), frozenset((int,))
#: From all rows, as a namespace of sequences.
_STORED: dict[str, Callable[[Any], Sequence[Any]]] = {
    "address": lambda all: all.address,
    "blob": lambda all: all.blob,
    "envelopes": lambda all: [found or None for found in all.envelopes],
    "seq": lambda all: all.seq,
    "sealed": lambda all: [blob[1] & ENCRYPTED_BIT != 0 for blob in all.blob],
    "current": lambda all: [not state.bits & PAST for state in all.state],
    "superseded_by": lambda all: [state.superseded_by for state in all.state],
    "system_valid_to": lambda all: [state.system_valid_to for state in all.state],
    "verification_status": lambda all: [state.verification_status for state in all.state],
    "access_count": lambda all: [state.access_count for state in all.state],
    "last_accessed_at": lambda all: [state.last_accessed_at for state in all.state],
}
