# SPDX-License-Identifier: Apache-2.0
"""Records of a document as grains, and back to the last sign; the same for every format.

What a grain's fields can say stands there, so that it is found by queries; what they cannot stands
in the side channel. Every record is built again from its grain before the grain is given away, so
whatever a format forgets is kept as well. References stay ids: graphs have cycles, and addresses
cannot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from omsgrain.batch import decode_many, encode_many
from omsgrain.errors import OmsError
from omsgrain.formats import raw
from omsgrain.formats.fields import Fields, composed, is_equal, is_like, stripped
from omsgrain.formats.source import KEY, Source, apply, difference
from omsgrain.grain import Grain, make

__all__ = ["DUPLICATE", "Built", "Fields", "Record", "Shape", "Table", "is_duplicate"]

DUPLICATE: Final = "omsgrain:duplicate"
_RECORD: Final = "omsgrain:record"
_LARGEST: Final = 600_000  # characters of a side channel that stands in the grain itself
_LONGEST: Final = 4_096  # characters of an id that stands there whatever the record is
_MANY: Final = 1_024  # orders of keys that are remembered
_ABSENT: Final = object()
_quoted = json.JSONEncoder().encode

Record = dict[str, Any]


def _no_text(record: Record) -> str | None:
    return None


def _all_of_it(record: Record) -> tuple[Record, str | None]:
    return record, None


def _as_it_is(record: Record, packed: str) -> Record:
    return record


class Shape(NamedTuple):
    """How records of one kind become grains. All of it is for the usual record.

    Attributes:
        to_fields: the fields of the grain, by full name, from the record and whose it is:
            ``type``, ``created_at``, ``namespace``, and ``user_id`` if it is somebody's.
        from_fields: the record again, from the grain's fields and the record's id, its keys in
            the order that the format has. It is the caller's to change.
        name_of: by what the record is known.
        text_of: the text by which duplicates are found; None for a record that has none.
        apart: the record without its embedding, and that, packed.
        whole: the record with it again.
        order: the order in which the format names the keys of a record, where it is to come back.
            A record whose keys stand so, those of nobody else behind, says nothing of its order.
    """

    to_fields: Callable[[Record, str | None], Fields]
    from_fields: Callable[[Mapping[str, Any], str], Record]
    name_of: Callable[[Record], str]
    text_of: Callable[[Record], str | None] = _no_text
    apart: Callable[[Record], tuple[Record, str | None]] = _all_of_it
    whole: Callable[[Record, str], Record] = _as_it_is
    order: Sequence[str] = ()


class Built(NamedTuple):
    """A record as a grain.

    Attributes:
        grain: the grain.
        parts: the grains that hold the record whole, if it was too large.
    """

    grain: Grain
    parts: list[Grain]


class Table:
    """The kinds of records that a format has."""

    def __init__(self, format: str, shapes: Mapping[str, Shape], *, ordered: bool) -> None:
        """Name them.

        Args:
            format: such as ``mif2``.
            shapes: by kind of record.
            ordered: whether the order of a record's keys is to come back.
        """
        self.format = format
        self._shapes = dict(shapes)
        self._ordered = ordered
        self._orders: dict[tuple[Any, ...], list[str] | None] = {}  # most records have the same
        self._ranks = {
            kind: {name: i for i, name in enumerate(shape.order)} for kind, shape in shapes.items()
        }

    def name_of(self, kind: str, record: Record) -> str:
        """By what a record is known."""
        return self._shapes[kind].name_of(record)

    def to_grain(self, kind: str, record: Record, *, owner: str | None) -> Built:
        """Make a grain of a record that was checked.

        Args:
            kind: of what kind it is.
            record: as it stands in the document.
            owner: whose it is, if that is known.
        """
        shape = self._shapes[kind]
        bare, packed = shape.apart(record)
        fields = composed(shape.to_fields(bare, owner))
        for given in (fields, stripped(fields)):
            try:
                # The difference is taken from what a grain makes of the fields.
                source = self._source(kind, bare, make(given), packed)
                if source is None:
                    break
                grain = make(given | {KEY: source})
            except OmsError:
                continue  # a tag that asks for a profile, say: the residual can hold it
            if self.is_same(self.from_grain(grain, _nothing), record):
                return Built(grain, [])
        return self._in_parts(kind, record, owner)

    def to_grains(
        self, records: Iterable[tuple[str, Record]], *, owner: str | None
    ) -> list[Built]:
        """Make grains of many records that were checked, as `to_grain` does, in a few calls.

        Args:
            records: with their kinds, not more than fit in memory.
            owner: whose they are, if that is known.
        """
        given = list(records)
        made: list[Built | None] = [None] * len(given)
        fields = []
        for kind, record in given:
            shape = self._shapes[kind]
            bare, packed = shape.apart(record)
            one = shape.to_fields(bare, owner)
            # None does not come back, so what is too large for this is made one by one.
            one[KEY] = self._source(kind, bare, one, packed)
            fields.append(one)
        batch = encode_many(fields, errors="collect")
        read = decode_many(batch.blobs).grains
        for at, address, grain in zip(batch.indices, batch.addresses, read, strict=True):
            # The difference was taken from these fields, so where they come back the record does.
            if is_like(grain.fields, fields[at], self._ordered):
                grain._address = address  # known, and not hashed again
                grain._fields = None  # read again when they are asked for: large, beside the blob
                made[at] = Built(grain, [])
        return [
            self.to_grain(*given[at], owner=owner) if one is None else one
            for at, one in enumerate(made)
        ]

    def to_duplicate(self, kind: str, record: Record, *, of: str, owner: str | None) -> Built:
        """Keep a record whose text another one of its document has: given back, never recalled.

        Args:
            kind: of what kind it is.
            record: as it stands in the document.
            of: the id of the other one.
            owner: whose it is, if that is known.
        """
        shape = self._shapes[kind]
        created_at = shape.to_fields(record, owner)["created_at"]
        base = _state({"kind": DUPLICATE, "of": of}, created_at, DUPLICATE, owner)
        return self._beside(base, kind, record, owner, None)

    def from_grain(self, grain: Grain, get: raw.Get) -> tuple[str, Record] | None:
        """The record that a grain was; None if it never was one of these.

        Args:
            grain: any.
            get: gives the grains that hold the parts of a large record.

        Raises:
            FormatError: the side channel does not fit the grain.
        """
        source = Source.of(grain)
        if source is None or source.format != self.format or source.kind not in self._shapes:
            return None
        if source.parts:
            return source.kind, json.loads(raw.gather(source.parts, get))
        shape, residual = self._shapes[source.kind], source.residual
        if residual is not None and "=" in residual:
            record = residual["="]
        else:
            record = apply(shape.from_fields(grain, source.id), residual)
            if self._ordered and (residual is None or "o" not in residual):
                record = {name: record[name] for name in self._arranged(source.kind, record)}
        if source.packed is not None:
            record = shape.whole(record, source.packed)
        return source.kind, record

    def is_same(self, found: tuple[str, Record] | None, record: Record) -> bool:
        """Whether a record came back."""
        return found is not None and is_equal(found[1], record, self._ordered)

    def _source(
        self, kind: str, record: Record, fields: Mapping[str, Any], packed: str | None
    ) -> bytes | None:
        """The side channel; None if it is too large for a grain."""
        shape = self._shapes[kind]
        name, hash_ = shape.name_of(record), _hash(shape.text_of(record))
        rebuilt = shape.from_fields(fields, name)
        order = self._order(kind, rebuilt, record) if self._ordered else None
        # Most values are the same ones, and are not worth a call each.
        rest = {}
        for key, value in record.items():
            own = rebuilt.get(key, _ABSENT)
            if own is value or (type(own) is str and own == value):
                del rebuilt[key]
            else:
                rest[key] = value
        if not rebuilt and order is None and _is_plain(rest):
            # Most records are so; this is what `to_bytes` gives, in a quarter of its time.
            plain = _said(tuple(rest.items())) if rest else ""
            more = "" if hash_ is None else f',"h":"{hash_}"'
            if packed is not None:
                more += f',"e":"{packed}"'
            text = f'{{"f":"{self.format}","k":"{kind}","id":{_quoted(name)}{plain}{more}}}'
            source = text.encode("ascii")
        else:
            residual = difference(rebuilt, rest, ordered=self._ordered) or {}
            residual.pop("o", None)  # of these keys alone
            if order is not None:
                residual["o"] = order
            said = Source(self.format, kind, name, residual or None, (), hash_, packed)
            source = said.to_bytes()
        return source if len(source) <= _LARGEST else None

    def _order(self, kind: str, rebuilt: Record, record: Record) -> list[str] | None:
        """The order of a record's keys; None if it is the one that comes about."""
        keys = (kind, tuple(rebuilt), tuple(record))
        if keys not in self._orders:
            if len(self._orders) >= _MANY:
                self._orders.clear()
            self._orders[keys] = self._order_of(*keys)
        return self._orders[keys]

    def _order_of(
        self, kind: str, rebuilt: tuple[str, ...], record: tuple[str, ...]
    ) -> list[str] | None:
        wanted = list(record)
        names = [key for key in rebuilt if key in record]
        if len(names) < len(wanted):
            names += [key for key in wanted if key not in rebuilt]
        return None if self._arranged(kind, names) == wanted else wanted

    def _arranged(self, kind: str, names: Iterable[str]) -> list[str]:
        """Names in the order of the format; those that it does not know last, as they come."""
        rank = self._ranks[kind]
        return sorted(names, key=lambda name: rank.get(name, len(rank)))

    def _in_parts(self, kind: str, record: Record, owner: str | None) -> Built:
        shape = self._shapes[kind]
        fields = stripped(composed(shape.to_fields(shape.apart(record)[0], owner)))
        hash_ = _hash(shape.text_of(record))
        try:
            return self._with_parts(fields, kind, record, owner, hash_)
        except OmsError:
            # A text that no grain holds, say. It comes back, but no query finds it by its fields.
            context = {"kind": _RECORD, "format": self.format, "record": kind}
            namespace = fields.get("namespace", self.format)
            least = _state(context, fields["created_at"], namespace, owner)
            return self._beside(least, kind, record, owner, hash_)

    def _beside(
        self, base: Fields, kind: str, record: Record, owner: str | None, hash_: str | None
    ) -> Built:
        """A grain whose fields say nothing of the record."""
        bare, packed = self._shapes[kind].apart(record)
        name = self.name_of(kind, record)
        source = Source(self.format, kind, name, {"=": bare}, (), hash_, packed).to_bytes()
        if len(source) <= _LARGEST:
            return Built(make(base | {KEY: source}), [])
        return self._with_parts(base, kind, record, owner, hash_)

    def _with_parts(
        self, fields: Fields, kind: str, record: Record, owner: str | None, hash_: str | None
    ) -> Built:
        text = json.dumps(record, separators=(",", ":")).encode("ascii")
        parts = raw.split(text, created_at=fields["created_at"], user_id=owner)
        name = self.name_of(kind, record)
        if len(name) > _LONGEST:
            name = f"{name[:_LONGEST]} {_hash(name)}"
        addresses = tuple(part.address for part in parts)
        source = Source(self.format, kind, name, None, addresses, hash_)
        return Built(make(fields | {KEY: source.to_bytes()}), parts)


def is_duplicate(grain: Grain) -> bool:
    """Whether a grain keeps a record whose text another record of its document has."""
    context = grain.get("context")
    return isinstance(context, Mapping) and context.get("kind") == DUPLICATE


def _state(context: Fields, created_at: int, namespace: str, owner: str | None) -> Fields:
    fields: Fields = {"type": "state", "context": context}
    fields["created_at"], fields["namespace"] = created_at, namespace
    return fields if owner is None else fields | {"user_id": owner}


def _hash(text: str | None) -> str | None:
    return None if text is None else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_plain(rest: Record) -> bool:
    """Whether a few short keys have null or false, as they do again and again."""
    for key, value in rest.items():
        if (value is not None and value is not False) or len(key) > 64:
            return False
    return len(rest) <= 16


@lru_cache
def _said(more: tuple[tuple[str, bool | None], ...]) -> str:
    return ',"r":' + json.dumps({"+": dict(more)}, separators=(",", ":"))


def _nothing(address: str) -> Grain:
    raise OmsError("a record in one piece has no parts")
