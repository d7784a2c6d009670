# SPDX-License-Identifier: Apache-2.0
"""Grains as Arrow columns: a value that does not fit its column goes into the column extra."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice, takewhile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from omsgrain import _core, registry
from omsgrain.batch import decode_many
from omsgrain.errors import SchemaError, UnsupportedError, packages_of
from omsgrain.grain import _json_bytes, bare
from omsgrain.header import ENCRYPTED_BIT, SIGNED_BIT
from omsgrain.storage import signatures
from omsgrain.storage.base import Reader
from omsgrain.storage.records import PAST, GrainStatus, unpack
from omsgrain.storage.tables import COUNTERS, SEQUENCE, STATES, Table, counter_of
from omsgrain.store.export_filter import Leavers, Numbered
from omsgrain.store.mg_files import chosen_pages, leavers_for

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from omsgrain.query.filters import Filters
    from omsgrain.store.context import Context

Kind: TypeAlias = Literal[
    "text", "float", "int", "bool", "time", "bytes", "texts", "ints", "many_bytes", "json"
]

EXTRA = "extra"
"""The column for all values that have no other."""
NEEDED = ("address", "blob", "envelopes", "superseded_by", "verification_status")
"""The columns that an import reads; the others are only for analysis."""
COUNTS = ("access_count", "last_accessed_at")
"""Counts of reads in this store, which no other store needs."""

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
        name: its name.
        kind: the kind of its values.
        field: the field that it shows; None for a column of the store.
        doc: what it means.
        other: the column for values of another kind; without one, they go into extra.
    """

    name: str
    kind: Kind
    field: str | None
    doc: str
    other: str | None = None


STORED = (
    Column("address", "text", None, "The grain's address: SHA-256 of the blob, 64 hex digits"),
    Column(
        "blob", "bytes", None, "The bytes as stored; for an encrypted grain, the encrypted bytes"
    ),
    Column("envelopes", "many_bytes", None, "For a signed grain: one envelope for each signer"),
    Column("seq", "int", None, "Sequence number: the order in which grains were stored"),
    Column("sealed", "bool", None, "Whether it is stored encrypted"),
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
        elif kinds[row.name] & {*_ANY}:  # content is a text, but anything in actions
            other = f"{row.name}_json"
            yield Column(row.name, "text", row.name, row.doc, other)
            yield Column(other, "json", row.name, "The same as JSON, if it is not a text")
        else:
            yield Column(row.name, _KINDS[row.kind], row.name, row.doc)


def chosen(names: Iterable[str] | None, *, counts: bool = True) -> tuple[Column, ...]:
    """Return the columns with these names, in the order given."""
    if names is None:
        return tuple(c for c in columns() if counts or c.name not in COUNTS)
    if isinstance(names, str):
        raise SchemaError(
            "columns must be a list of names", field="/columns", found="a single text"
        )
    known = {column.name: column for column in columns()}
    asked = list(names)
    for name in asked:
        if name not in known:
            found = ascii(name)[1:-1][:60] if isinstance(name, str) else type(name).__name__
            raise SchemaError("unknown column", field="/columns", found=found)
    if not asked or len(set(asked)) < len(asked):
        raise SchemaError("columns must be named once, and at least one", field="/columns")
    return tuple(known[name] for name in asked)


def schema(of: Iterable[Column]) -> Any:
    """Return the Arrow schema of columns."""
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
    """Import and return pyarrow."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        text = "Arrow and Parquet need pyarrow"
        raise UnsupportedError(text, expected=packages_of("arrow")) from None
    return pyarrow


ROWS = 16_384
"""Maximum number of rows in a batch."""
BYTES = 16 << 20
"""Approximate bytes of blobs in a batch; a batch of large grains has fewer rows."""
_TYPE = "type"

Fields = Mapping[str, Any]


class ArrowRow(NamedTuple):
    """A stored grain as a row.

    Attributes:
        seq: its sequence number.
        address: its stored address.
        blob: its stored blob.
        envelopes: one for each signer.
        state: its status.
        type: its 1.2 name; None if it is encrypted.
        fields: None if it is encrypted.
    """

    seq: int
    address: str
    blob: bytes
    envelopes: Sequence[bytes]
    state: GrainStatus
    type: str | None
    fields: Fields | None


def batches(rows: Iterable[ArrowRow], asked: Sequence[Column]) -> Iterator[Any]:
    """Make Arrow batches of bounded size with the given columns."""
    pa, form = arrow(), schema(asked)
    source = iter(rows)
    while page := _page(source):
        yield pa.record_batch(_arrays(pa, page, asked, form), schema=form)


def _page(source: Iterator[ArrowRow]) -> list[ArrowRow]:
    page: list[ArrowRow] = []
    size = 0
    for row in islice(source, ROWS):
        page.append(row)
        size += len(row.blob)
        if size >= BYTES:
            break
    return page


def _arrays(pa: Any, page: Sequence[ArrowRow], asked: Sequence[Column], form: Any) -> list[Any]:
    named = {column.field for column in asked if column.field is not None}
    whole = SimpleNamespace(**dict(zip(ArrowRow._fields, zip(*page, strict=True), strict=True)))
    fields: list[Fields] = [one or {} for one in whole.fields] if named else []
    present: set[str] = set().union(*fields)
    left: list[dict[str, Any]] = [{} for _ in fields]
    if EXTRA in named:
        _without_column(fields, present, left)
    arrays = {}
    # Values that do not fit their column go into extra, even if that column was not asked for.
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
    """Return the values of a column; values that do not fit become null and go into extra."""
    name = column.field or ""
    found = [one.get(name) for one in fields]
    if column.name != name:  # the JSON column of a pair
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
    """Whether all values fit a column, checked by their set of types: nearly always they do."""
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
#: Types whose values always fit, and the types of list items.
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
#: Column -> its values from a namespace of sequences, one for each attribute of a row.
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


_SPREAD = 4  # numbers per grain up to which a scan of the states is faster than look-ups
_UNTOUCHED = GrainStatus()


def to_arrow(
    context: Context,
    *,
    columns: Iterable[str] | None = None,
    unsealed: bool = False,
    **filters: Unpack[Filters],
) -> Any:
    """Return grains as a stream of Arrow batches, read from the store on demand."""
    asked = chosen(columns)
    form = schema(asked)
    leavers = leavers_for(context, "transfer")
    rows = rows_of(context, with_past(filters), leavers, RowChoice.of(asked, unsealed))
    return arrow().RecordBatchReader.from_batches(form, batches(rows, asked))


def rows_of(
    context: Context, filters: Filters, leavers: Leavers, look: RowChoice
) -> Iterator[ArrowRow]:
    """Return the chosen grains as rows, page by page, each page from one snapshot.

    The first page is read at once, so that an invalid filter raises here and not in the reader of
    the table.
    """
    chosen = chosen_pages(context, filters)
    first = next(chosen, [])
    return _rows(context, chain([first], chosen), leavers, look)


def _rows(
    context: Context, pages: Iterable[list[Numbered]], leavers: Leavers, look: RowChoice
) -> Iterator[ArrowRow]:
    for page in pages:
        with context.storage.read() as reader:
            found = _looked_at(reader, leavers.of(page), look)
        yield from found


def with_past(filters: Filters) -> Filters:
    """Include past grains unless the filters say otherwise."""
    return {"current": None, **filters} if filters else {}


class RowChoice(NamedTuple):
    """Which parts of a grain to read: only those that a column shows."""

    fields: bool
    counts: bool
    unsealed: bool

    @classmethod
    def of(cls, asked: Iterable[Column], unsealed: bool) -> RowChoice:
        """Return what the columns need."""
        named = {column.name: column.field for column in asked}
        fields = any(field is not None for field in named.values())
        return cls(fields, not named.keys().isdisjoint(COUNTS), unsealed)


def _looked_at(reader: Reader, page: list[Numbered], look: RowChoice) -> list[ArrowRow]:
    """Return the rows of grains, with one call for all where possible."""
    seqs, blobs = [seq for seq, _ in page], [blob for _, blob in page]
    states = _states(reader, seqs, look.counts)
    envelopes = [_envelopes(reader, *one) if one[1][1] & SIGNED_BIT else () for one in page]
    types: list[str | None] = [None] * len(page)
    fields: list[Mapping[str, Any] | None] = [None] * len(page)
    if look.fields:
        plain = [i for i, blob in enumerate(blobs) if not blob[1] & ENCRYPTED_BIT]
        for i, grain in zip(plain, decode_many([bare(blobs[i]) for i in plain]), strict=True):
            types[i], fields[i] = grain.type, grain.fields
        if look.unsealed and len(plain) < len(page):
            for i, (seq, blob) in enumerate(page):
                if blob[1] & ENCRYPTED_BIT and (opened := reader.grain(seq)) and not opened.sealed:
                    types[i], fields[i] = opened.type, opened.fields
    addresses = _core.address_many(blobs)
    return list(map(ArrowRow, seqs, addresses, blobs, envelopes, states, types, fields))


def _envelopes(reader: Reader, seq: int, blob: bytes) -> list[bytes]:
    # Envelopes from before the encryption contain the plain blob.
    found = signatures.signatures(reader, seq)
    return [one.envelope for one in found if signatures.over(one, blob)]


def _states(reader: Reader, seqs: list[int], counts: bool) -> list[GrainStatus]:
    """Return the status of grains, without holds."""
    rows = _near(reader, STATES, seqs)
    found = {seq: unpack(row) for seq, row in rows.items()}
    if counts:
        for seq, row in _near(reader, COUNTERS, seqs).items():
            count, last = counter_of(row)
            state = found.get(seq, _UNTOUCHED)
            found[seq] = replace(state, access_count=count, last_accessed_at=last)
    return [found.get(seq, _UNTOUCHED) for seq in seqs]


def _near(reader: Reader, table: Table, seqs: list[int]) -> dict[int, bytes]:
    """Return rows of grains by number; nearly all grains have none."""
    first, last = min(seqs, default=1), max(seqs, default=0)
    if last - first > _SPREAD * len(seqs):
        asked = ((seq, reader.row(table, SEQUENCE.pack(seq))) for seq in seqs)
        return {seq: row for seq, row in asked if row is not None}
    end, after = SEQUENCE.pack(last), SEQUENCE.pack(first - 1)
    near = takewhile(lambda row: row[0] <= end, reader.rows(table, after))
    return {SEQUENCE.unpack(key)[0]: row for key, row in near}
