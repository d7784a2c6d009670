# SPDX-License-Identifier: Apache-2.0
"""Records of a document as grains, and back to the last sign; the same for every format.

What a grain's fields can say stands there, so that it is found by queries; what they cannot stands
in the side channel. Every record is built again from its grain before the grain is given away, so
whatever a format forgets is kept as well. References stay ids: graphs have cycles, and addresses
cannot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from omsgrain import _core
from omsgrain.errors import FormatError, OmsError
from omsgrain.formats import raw
from omsgrain.formats.fields import composed, is_equal, stripped
from omsgrain.formats.kinds import NAME, Built, Fields, Record, Shape
from omsgrain.formats.orders import Orders
from omsgrain.formats.source import (
    KEY,
    NOT_CHECKED,
    Source,
    apply,
    difference,
    spell,
    spelled,
)
from omsgrain.grain import Grain, make, options

__all__ = [
    "NAME",
    "Built",
    "Fields",
    "Record",
    "Shape",
    "Table",
    "is_duplicate",
    "newest",
]

_LARGEST: Final = 600_000  # characters of a side channel that stands in the grain itself
_LONGEST: Final = 4_096  # characters of an id that stands there whatever the record is
_TOGETHER: Final = 512  # records whose fields wait for one another to be written
_ABSENT: Final = object()


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
        self._orders = Orders({kind: shape.order for kind, shape in shapes.items()})

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
                return Built(grain)
        return self._in_parts(kind, record, owner)

    def to_grains(
        self, records: Iterable[tuple[str, Record]], *, owner: str | None
    ) -> list[Built]:
        """Make grains of many records that were checked, as `to_grain` does, in a few calls.

        Args:
            records: with their kinds.
            owner: whose they are, if that is known.
        """
        waiting = iter(records)
        built: list[Built] = []
        while given := list(islice(waiting, _TOGETHER)):
            built += self._together(given, owner)
        return built

    def _together(self, given: list[tuple[str, Record]], owner: str | None) -> list[Built]:
        made: list[Built | None] = [None] * len(given)
        fields = []
        for kind, record in given:
            shape = self._shapes[kind]
            bare, packed = shape.apart(record)
            one = shape.to_fields(bare, owner)
            # None does not come back, so what is too large for this is made one by one.
            one[KEY] = self._source(kind, bare, one, packed)
            fields.append(one)
        batch = _core.encode_many(fields, options(), False)
        # The difference was taken from these fields, so where they come back the record does.
        same = batch.is_like(fields, self._ordered)
        found = zip(same, batch.indices(), batch.addresses(), batch.blobs(), strict=True)
        for is_same, at, address, blob in found:
            if is_same:
                made[at] = Built(Grain._stored(blob, address))
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
        base = _state({"kind": raw.DUPLICATE, "of": of}, created_at, raw.DUPLICATE, owner)
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
        whole = raw.gather(source.parts, get) if source.parts else None
        try:
            record = self._rebuilt(source, grain) if whole is None else json.loads(whole)
        except NOT_CHECKED:
            record = None
        if not isinstance(record, dict):
            raise FormatError("the side channel does not fit the grain", rule="residual")
        return source.kind, record

    def _rebuilt(self, source: Source, grain: Grain) -> Any:
        """The record that a grain was which has all of it in itself."""
        shape, residual = self._shapes[source.kind], source.residual
        if residual is not None and "=" in residual:
            record = residual["="]
        else:
            record = apply(shape.from_fields(grain, source.id), residual)
            if self._ordered and (residual is None or "o" not in residual):
                record = {
                    name: record[name] for name in self._orders.arranged(source.kind, record)
                }
        return record if source.packed is None else shape.whole(record, source.packed)

    def is_same(self, found: tuple[str, Record] | None, record: Record) -> bool:
        """Whether a record came back."""
        return found is not None and is_equal(found[1], record, self._ordered)

    def _source(
        self, kind: str, record: Record, fields: Mapping[str, Any], packed: str | None
    ) -> bytes | None:
        """The side channel; None if it is too large for a grain."""
        shape = self._shapes[kind]
        name = shape.name_of(record)
        rebuilt = shape.from_fields(fields, name)
        order = self._orders.said(kind, rebuilt, record) if self._ordered else None
        # Most values are the same ones, and are not worth a call each.
        rest = {}
        for key, value in record.items():
            own = rebuilt.get(key, _ABSENT)
            if own is value or (type(own) is str and own == value) or _same_texts(own, value):
                del rebuilt[key]
            else:
                rest[key] = value
        if rebuilt:
            residual = difference(rebuilt, rest, ordered=self._ordered) or {}
            residual.pop("o", None)  # of these keys alone
        else:
            residual = {"+": rest} if rest else {}
        if order is not None:
            residual["o"] = order
        hash_ = _hash(shape.text_of(record))
        source = spelled(self.format, kind, name, residual or None, [], hash_, packed)
        return source if len(source) <= _LARGEST else None

    def _in_parts(self, kind: str, record: Record, owner: str | None) -> Built:
        shape = self._shapes[kind]
        fields = stripped(composed(shape.to_fields(shape.apart(record)[0], owner)))
        hash_ = _hash(shape.text_of(record))
        try:
            return self._with_parts(fields, kind, record, owner, hash_)
        except OmsError:
            # A text that no grain holds, say. It comes back, but no query finds it by its fields.
            context = {"kind": raw.RECORD, "format": self.format, "record": kind}
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
            return Built(make(base | {KEY: source}))
        return self._with_parts(base, kind, record, owner, hash_)

    def _with_parts(
        self, fields: Fields, kind: str, record: Record, owner: str | None, hash_: str | None
    ) -> Built:
        parts = raw.split(spell(record), created_at=fields["created_at"], user_id=owner)
        name = self.name_of(kind, record)
        if len(name) > _LONGEST:
            name = f"{name[:_LONGEST]} {_hash(name)}"
        addresses = tuple(part.address for part in parts)
        source = Source(self.format, kind, name, None, addresses, hash_)
        return Built(make(fields | {KEY: source.to_bytes()}), parts)


def is_duplicate(grain: Grain) -> bool:
    """Whether a grain keeps a record whose text another record of its document has."""
    context = grain.get("context")
    return isinstance(context, Mapping) and context.get("kind") == raw.DUPLICATE


def newest(grains: Iterable[Grain]) -> int:
    """The last ``created_at`` of grains, in ms; 0 if there are none.

    Of most only the header is looked at, which has whole seconds.
    """
    listed = list(grains)
    seconds = [_core.header(grain.blob)[4] for grain in listed]
    last = max(seconds, default=0)
    at_last = (grain for grain, second in zip(listed, seconds, strict=True) if second == last)
    return max((grain["created_at"] for grain in at_last), default=0)


def _state(context: Fields, created_at: int, namespace: str, owner: str | None) -> Fields:
    fields: Fields = {"type": "state", "context": context}
    fields["created_at"], fields["namespace"] = created_at, namespace
    return fields if owner is None else fields | {"user_id": owner}


def _hash(text: str | None) -> str | None:
    return None if text is None else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _same_texts(one: Any, other: Any) -> bool:
    return type(one) is list and one == other and {*map(type, other)} == {str}


def _nothing(address: str) -> Grain:
    raise OmsError("a record in one piece has no parts")
