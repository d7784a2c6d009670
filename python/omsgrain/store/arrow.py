# SPDX-License-Identifier: Apache-2.0
"""Grains as Arrow columns: a value that does not fit its column goes into the column extra."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from itertools import chain, takewhile
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from omsgrain import _core, registry
from omsgrain.errors import SchemaError, UnsupportedError, library
from omsgrain.grain import Grain, _json_bytes, bare
from omsgrain.header import ENCRYPTED_BIT, SIGNED_BIT
from omsgrain.storage import signatures
from omsgrain.storage.base import Reader, pages
from omsgrain.storage.records import PAST, GrainStatus, unpack
from omsgrain.storage.tables import COUNTERS, MARK, SEQUENCE, STATES, Table, counter_of
from omsgrain.store.export_filter import Leavers, Numbered, chosen_pages, leavers_for, sound

if TYPE_CHECKING:
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
"""How often grains were read here; a file for others leaves it out."""
_OF_STATES = ("superseded_by", "system_valid_to", "verification_status", *COUNTS)

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
    """One column."""

    name: str
    kind: Kind  # the kind of its values
    field: str | None  # the field that it shows; None for a column of the store
    doc: str
    # the column for values of another kind; without one, they go into extra
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
    return library("arrow", "pyarrow", "Arrow and Parquet need pyarrow")


ROWS = 16_384
"""Maximum number of rows in a batch."""
BYTES = 16 << 20
"""Bytes of the blobs of a batch, about; a batch of large grains has fewer rows."""
_PAGE = 2 << 20  # bytes of blobs from one snapshot
_TYPE = "type"

Fields = Mapping[str, Any]


@dataclass(slots=True)
class ArrowPage:
    """Some grains of a store, in the order of their sequence numbers.

    By number: the envelopes of signed grains; the states of those that were changed or read; and
    encrypted grains that a key opened.
    """

    seqs: list[int] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    blobs: list[bytes] = field(default_factory=list)
    envelopes: dict[int, list[bytes]] = field(default_factory=dict)
    states: dict[int, GrainStatus] = field(default_factory=dict)
    opened: dict[int, Grain] = field(default_factory=dict)

    def add(self, page: ArrowPage) -> None:
        self.seqs += page.seqs
        self.addresses += page.addresses
        self.blobs += page.blobs
        self.envelopes |= page.envelopes
        self.states |= page.states
        self.opened |= page.opened

    def state_values(self, name: str) -> list[Any]:
        """Return one value of each grain's state."""
        usual = getattr(_UNTOUCHED, name)
        if not self.states:
            return [usual] * len(self.seqs)
        changed = {seq: getattr(state, name) for seq, state in self.states.items()}
        return [changed.get(seq, usual) for seq in self.seqs]

    def fields(self) -> Iterator[tuple[int, str, Fields]]:
        """Yield the row, type and fields of each grain that is not encrypted or was opened."""
        plain = [i for i, blob in enumerate(self.blobs) if not blob[1] & ENCRYPTED_BIT]
        blobs = [bare(self.blobs[i]) for i in plain]
        read, known, wrong = _core.decode_many(blobs)
        for _, error in wrong:
            raise error
        for i, blob, fields, said in zip(plain, blobs, read, known, strict=True):
            name = said[0] if said is not None else None
            yield i, Grain(blob).type if name is None else name, fields or {}
        for i, seq in enumerate(self.seqs) if self.opened else ():
            if (grain := self.opened.get(seq)) is not None:
                yield i, grain.type, grain.fields


class FieldValues:
    """The fields of a page's grains by column, and by row those of which there is no column."""

    def __init__(self, page: ArrowPage) -> None:
        rows, known = len(page.seqs), _known_fields()
        self.types: list[str | None] = [None] * rows
        self.columns: dict[str, list[Any]] = {}
        self.left: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        for i, kind, fields in page.fields():
            self.types[i] = kind
            for name, value in fields.items():
                column = self.columns.get(name)
                if column is None:
                    if name not in known:
                        self.left[i][name] = value
                        continue
                    column = self.columns[name] = [None] * rows
                column[i] = value


@cache
def _known_fields() -> frozenset[str | None]:
    return frozenset(column.field for column in columns() if column.name != EXTRA)


def batches(pages: Iterable[ArrowPage], asked: Sequence[Column]) -> Iterator[Any]:
    """Make Arrow batches of pages, of bounded size, with the columns asked for."""
    pa, form = arrow(), schema(asked)
    for page in _gathered(pages):
        batch = pa.record_batch(_arrays(pa, page, asked, form), schema=form)
        for start in range(0, batch.num_rows, ROWS):
            yield batch.slice(start, ROWS)


def _gathered(pages: Iterable[ArrowPage]) -> Iterator[ArrowPage]:
    whole, size = ArrowPage(), 0
    for page in pages:
        whole.add(page)
        size += sum(map(len, page.blobs))
        if len(whole.seqs) >= ROWS or size >= BYTES:
            yield whole
            whole, size = ArrowPage(), 0
    if whole.seqs:
        yield whole


def _arrays(pa: Any, page: ArrowPage, asked: Sequence[Column], form: Any) -> list[Any]:
    named = [column for column in asked if column.field is not None]
    if page.opened or (found := _quick_arrays(pa, page, named, form)) is None:
        found = _decoded_arrays(pa, page, named, form)
    for column in asked:
        if column.field is None:
            values = _STORED[column.name](page)
            found[column.name] = pa.array(values, form.field(column.name).type)
    return [found[column.name] for column in asked]


def _quick_arrays(
    pa: Any, page: ArrowPage, named: Sequence[Column], form: Any
) -> dict[str, Any] | None:
    """Have the core make columns of fields; None if it leaves them to ``decode_many``.

    A fast path for the benchmark row A1: 1,000,000 rows of three columns.
    """
    wanted = [(column.field or "", column.kind) for column in named]
    found = _core.field_columns(page.blobs, wanted) if wanted else []
    if found is None:
        return None
    arrays = {}
    for column, (present, nulls, offsets, entries, values) in zip(named, found, strict=True):
        kind, rows = form.field(column.name).type, len(page.blobs)
        buffers, inside = [None if present is None else pa.py_buffer(present)], None
        if column.kind == "texts":
            parts = [None, pa.py_buffer(entries), pa.py_buffer(values)]
            inside = [pa.Array.from_buffers(pa.string(), len(entries) // 4 - 1, parts)]
            buffers.append(pa.py_buffer(offsets))
        else:
            buffers += [pa.py_buffer(offsets)] if column.kind == "text" else []
            buffers.append(pa.py_buffer(values))
        arrays[column.name] = pa.Array.from_buffers(kind, rows, buffers, nulls, 0, inside)
    return arrays


def _decoded_arrays(
    pa: Any, page: ArrowPage, named: Sequence[Column], form: Any
) -> dict[str, Any]:
    values = FieldValues(page)
    extra = any(column.name == EXTRA for column in named)
    arrays = {}
    # Values that fit no column are in extra, whether their column was asked for or not.
    for column in columns() if extra else named:
        if column.field is None or column.name == EXTRA:
            continue
        held: Sequence[Any] | None = values.columns.get(column.field)
        if column.field == _TYPE:
            held = values.types
        elif held is not None:
            held = _fitting(column, held, values.left)
        if column in named:
            kind = form.field(column.name).type
            rows = len(values.types)
            arrays[column.name] = pa.nulls(rows, kind) if held is None else pa.array(held, kind)
    if extra:
        left = values.left
        texts = [_text(left[i]) if i in left else None for i in range(len(values.types))]
        arrays[EXTRA] = pa.array(texts, pa.string())
    return arrays


def _fitting(
    column: Column, found: Sequence[Any], left: Mapping[int, dict[str, Any]]
) -> Sequence[Any]:
    """Return the values of a column; values that do not fit become null and go into extra."""
    name = column.field or ""
    if column.name != name:  # the JSON column of a pair
        return [None if v is None or isinstance(v, str) else _text(v) for v in found]
    if column.kind == "json":
        return [None if value is None else _text(value) for value in found]
    if _all_fit(column.kind, found):
        return found
    fits, found = _FITS[column.kind], list(found)
    for i, value in enumerate(found):
        if value is not None and not fits(value):
            found[i] = None
            if column.other is None:
                left[i][name] = value
    return found


def _all_fit(kind: Kind, found: Sequence[Any]) -> bool:
    """Whether all values fit a column, checked by their set of types: nearly always they do."""
    types = set(map(type, found)) - {NoneType}
    if kind in ("int", "time"):
        whole = [value for value in found if value is not None]
        return types <= {int} and (not whole or (_is_int(min(whole)) and _is_int(max(whole))))
    if kind in ("texts", "many_bytes") and types <= {list}:
        types = set(map(type, chain.from_iterable(value for value in found if value)))
    return types <= {_USUAL.get(kind)}


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else _json_bytes(value)


# json.dumps would make an encoder for each value.
_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode


def _is_int(value: object) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_float(value: object) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= 1 << 53)


def _is_list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


_FITS: dict[Kind, Callable[[object], bool]] = {
    "text": _is(str),
    "float": _is_float,
    "int": _is_int,
    "time": _is_int,
    "bool": _is(bool),
    "bytes": _is(bytes),
    "texts": _is_list_of(_is(str)),
    "ints": _is_list_of(_is_int),
    "many_bytes": _is_list_of(_is(bytes)),
    "json": lambda value: True,
}
#: The type of values that always fit, or of the items of lists that do.
_USUAL: dict[Kind, type] = {
    "text": str,
    "float": float,
    "bool": bool,
    "texts": str,
    "many_bytes": bytes,
}
_SPREAD = 4  # numbers a grain, up to which it is quicker to walk the states than to look them up
_UNTOUCHED = GrainStatus()
#: The values of a column that shows no field.
_STORED: dict[str, Callable[[ArrowPage], Sequence[Any]]] = {
    "address": lambda page: page.addresses,
    "blob": lambda page: page.blobs,
    "envelopes": lambda page: [page.envelopes.get(seq) for seq in page.seqs],
    "seq": lambda page: page.seqs,
    "sealed": lambda page: [blob[1] & ENCRYPTED_BIT != 0 for blob in page.blobs],
    "current": lambda page: [not bits & PAST for bits in page.state_values("bits")],
    **{name: partial(ArrowPage.state_values, name=name) for name in _OF_STATES},
}


def to_arrow(
    context: Context, columns: Iterable[str] | None, unsealed: bool, filters: Filters
) -> Any:
    """Return grains as a stream of Arrow batches, read from the store on demand."""
    asked = chosen(columns)
    form = schema(asked)
    leavers = leavers_for(context, "transfer")
    pages = pages_of(context, filters, leavers, asked, unsealed)
    return arrow().RecordBatchReader.from_batches(form, batches(pages, asked))


def needed(package: str) -> Any:
    """Import a package that the caller must have installed."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        text = f"{package} is not installed"
        raise UnsupportedError(text, expected=f"pip install {package}") from None


def pages_of(
    context: Context,
    filters: Filters,
    leavers: Leavers,
    asked: Sequence[Column],
    unsealed: bool,
) -> Iterator[ArrowPage]:
    """Return the chosen grains, page by page.

    The first page is read now, so that the caller gets the error of a wrong filter, not the
    reader of the table.
    """
    found = chosen_pages(context, filters) if filters else _all(context, leavers)
    first = next(found, [])
    return _pages(context, chain([first], found), leavers, asked, unsealed)


def _all(context: Context, leavers: Leavers) -> Iterator[list[Numbered]]:
    """All blobs, hashed in the core where the storage gives rows; else one by one."""
    after = 0
    while after < leavers.last:
        with context.storage.read() as reader:
            page, after = _hashed(reader, after)
        if not page:
            found = next(pages(context.storage, after), [])
            page, after = sound(found), found[-1].seq if found else leavers.last
        yield page


def _hashed(reader: Reader, after: int) -> tuple[list[Numbered], int]:
    """The next blobs, and the last one's number; none where a grain was deleted or is damaged."""
    rows, end = reader.marked_rows(after, _PAGE) or ([], after)
    # A gap is a deleted grain; the rows do not say which.
    blobs = _core.sound_blobs(rows, MARK) if end - after == len(rows) else None
    return ([], after) if blobs is None else (list(enumerate(blobs, after + 1)), end)


def _pages(
    context: Context,
    found: Iterable[list[Numbered]],
    leavers: Leavers,
    asked: Sequence[Column],
    unsealed: bool,
) -> Iterator[ArrowPage]:
    """Read what the columns need; no more."""
    names = {column.name for column in asked}
    counts = not names.isdisjoint(COUNTS)
    unsealed = unsealed and any(column.field is not None for column in asked)
    for numbered in found:
        page = leavers.of(numbered)
        seqs, blobs = [seq for seq, _ in page], [blob for _, blob in page]
        made = ArrowPage(seqs, _core.address_many(blobs) if "address" in names else [], blobs)
        with context.storage.read() as reader:
            made.states = _states(reader, seqs, counts)
            for seq, blob in page:
                if blob[1] & SIGNED_BIT and (envelopes := _envelopes(reader, seq, blob)):
                    made.envelopes[seq] = envelopes
                if unsealed and blob[1] & ENCRYPTED_BIT:
                    if (opened := reader.grain(seq)) and not opened.sealed:
                        made.opened[seq] = opened
        yield made


def _envelopes(reader: Reader, seq: int, blob: bytes) -> list[bytes]:
    # Envelopes from before the encryption contain the plain blob.
    found = signatures.signatures(reader, seq)
    return [one.envelope for one in found if signatures.over(one, blob)]


def _states(reader: Reader, seqs: list[int], counts: bool) -> dict[int, GrainStatus]:
    """The states of the grains that have one, without holds."""
    rows = _near(reader, STATES, seqs)
    found = {seq: unpack(row) for seq, row in rows.items()}
    if counts:
        for seq, row in _near(reader, COUNTERS, seqs).items():
            count, last = counter_of(row)
            state = found.get(seq, _UNTOUCHED)
            found[seq] = replace(state, access_count=count, last_accessed_at=last)
    return found


def _near(reader: Reader, table: Table, seqs: list[int]) -> dict[int, bytes]:
    """Return rows of grains by number; nearly all grains have none."""
    first, last = min(seqs, default=1), max(seqs, default=0)
    if last - first > _SPREAD * len(seqs):
        asked = ((seq, reader.row(table, SEQUENCE.pack(seq))) for seq in seqs)
        return {seq: row for seq, row in asked if row is not None}
    end, after = SEQUENCE.pack(last), SEQUENCE.pack(first - 1)
    near = takewhile(lambda row: row[0] <= end, reader.rows(table, after))
    return {SEQUENCE.unpack(key)[0]: row for key, row in near}
