# SPDX-License-Identifier: Apache-2.0
"""Records of a document as grains, and back to the last sign; the same for every format.

The fields of a grain hold as much of a record as they can, so that queries find it; the side
channel holds the rest. Every record is built again from its grain before the grain is given away,
so data that a format forgets is kept as well. References stay ids: graphs have cycles, and
addresses cannot.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple

from omsgrain import _core
from omsgrain.errors import FormatError, OmsError, SchemaError
from omsgrain.formats import source as raw
from omsgrain.formats import times
from omsgrain.formats.json_text import MemberOrders
from omsgrain.formats.source import (
    KEY,
    NOT_CHECKED,
    Source,
    apply,
    difference,
    same,
    spell,
    spelled,
)
from omsgrain.grain import Grain, make, options, stored_grain

Fields = dict[str, Any]


def is_equal(one: Any, other: Any, ordered: bool) -> bool:
    """Whether two values are the same, and if that counts their keys in the same order."""
    return same(one, other) if ordered else difference(one, other, ordered=False) is None


def stripped(fields: Fields) -> Fields:
    """The fields without what a grain may refuse."""
    kept = {name: value for name, value in fields.items() if name != "structural_tags"}
    stripped: Fields = _each_text(kept, lambda text: text.lstrip("\ufeff") or "-")
    return stripped


def composed(fields: Fields) -> Fields:
    """The fields with their texts in NFC, as a grain has them."""
    composed: Fields = _each_text(fields, lambda text: unicodedata.normalize("NFC", text))
    return composed


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else change(value)
    if isinstance(value, dict):
        return {name: _each_text(one, change) for name, one in value.items()}
    if isinstance(value, list):
        return [_each_text(one, change) for one in value]
    return value


NAME: Final = 2_048
"""Code points of a name in a field of a grain; the side channel keeps a longer one."""

Record = dict[str, Any]


class RecordShape(NamedTuple):
    """How records of one kind become grains. All of it is for the usual record."""

    # the fields of the grain, by full name, from the record and whose it is: ``type``,
    # ``created_at``, ``namespace``, and ``user_id`` if it is somebody's
    to_fields: Callable[[Record, str | None], Fields]
    # the record again, from the grain's fields and the record's id, its keys in the order that the
    # format has. It is the caller's to change
    from_fields: Callable[[Mapping[str, Any], str], Record]
    name_of: Callable[[Record], str]  # by what the record is known
    # the text by which duplicates are found; None for a record that has none
    text_of: Callable[[Record], str | None] = lambda record: None
    # the order in which the format names the keys of a record, where it is to come back. The order
    # of a record that has this order already is not kept
    order: Sequence[str] = ()
    # the member that is an embedding: an object that holds the vector; empty if there is none
    embedding: str = ""

    def apart(self, record: Record) -> tuple[Record, str | None]:
        """The record without its vector, and that, packed."""
        inner = record.get(self.embedding)
        packed = raw.pack(inner.get("vector")) if isinstance(inner, dict) else None
        if packed is None:
            return record, None
        # A null keeps its place among the other members.
        return {**record, self.embedding: {**record[self.embedding], "vector": None}}, packed

    def whole(self, record: Record, packed: str) -> Record:
        """The record with its vector again."""
        inner = record.get(self.embedding)
        if not isinstance(inner, dict) or "vector" not in inner:
            raise FormatError("a record has no place for its embedding", rule="packed")
        return {**record, self.embedding: {**inner, "vector": raw.unpack(packed)}}


def id_of(record: Record) -> str:
    return str(record["id"])


def other_fields(record: Record, owner: str | None) -> Fields:
    """The fields of a grain that keeps any other value, which the side channel holds."""
    fields: Fields = {"type": "state", "created_at": 0, "namespace": raw.OTHER,
                      "context": {"kind": raw.OTHER}}  # fmt: skip
    return fields if owner is None else fields | {"user_id": owner}


def other_record(fields: Mapping[str, Any], id: str) -> Record:
    return {}


class BuiltGrain(NamedTuple):
    grain: Grain  # the grain
    parts: Sequence[Grain] = ()  # the grains that hold the record whole, if it was too large


def object_of(record: Mapping[str, Any], member: str) -> dict[str, Any]:
    """The object that a member is; an empty one if it is none."""
    value = record.get(member)
    return value if isinstance(value, dict) else {}


def objects_of(record: Mapping[str, Any], member: str) -> list[dict[str, Any]]:
    """The objects in the array that a member is; none if it is none."""
    return [one for _, one in objects_at(record, member)]


def objects_at(record: Mapping[str, Any], member: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects in the array that a member is, with their places; none if it is no array."""
    value = record.get(member)
    for at, one in enumerate(value) if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield at, one


def text_of(record: Mapping[str, Any], member: str) -> str | None:
    """The text that a member is; None if it is none."""
    value = record.get(member)
    return value if isinstance(value, str) else None


_LARGEST: Final = 600_000  # characters of a side channel in the grain itself
_LONGEST: Final = 4_096  # characters of an id there, whatever the record is
_TOGETHER: Final = 512  # records whose fields wait for one another to be written
_ABSENT: Final = object()


class RecordTable:
    """The kinds of records that a format has."""

    def __init__(self, format: str, shapes: Mapping[str, RecordShape], *, ordered: bool) -> None:
        self.format = format
        self._shapes = dict(shapes)
        self._ordered = ordered
        self._orders = MemberOrders({kind: shape.order for kind, shape in shapes.items()})

    def name_of(self, kind: str, record: Record) -> str:
        return self._shapes[kind].name_of(record)

    def to_grain(self, kind: str, record: Record, *, owner: str | None) -> BuiltGrain:
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
                return BuiltGrain(grain)
        return self._in_parts(kind, record, owner)

    def to_grains(
        self, records: Iterable[tuple[str, Record]], *, owner: str | None
    ) -> list[BuiltGrain]:
        """Make grains of many records that were checked, as `to_grain` does, in a few calls."""
        waiting = iter(records)
        built: list[BuiltGrain] = []
        while given := list(islice(waiting, _TOGETHER)):
            built += self._together(given, owner)
        return built

    def _together(self, given: list[tuple[str, Record]], owner: str | None) -> list[BuiltGrain]:
        made: list[BuiltGrain | None] = [None] * len(given)
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
                made[at] = BuiltGrain(stored_grain(blob, address))
        return [
            self.to_grain(*given[at], owner=owner) if one is None else one
            for at, one in enumerate(made)
        ]

    def to_duplicate(self, kind: str, record: Record, *, of: str, owner: str | None) -> BuiltGrain:
        """Keep a record whose text another one of its document has: given back, never recalled."""
        shape = self._shapes[kind]
        created_at = shape.to_fields(record, owner)["created_at"]
        base = _state({"kind": raw.DUPLICATE, "of": of}, created_at, raw.DUPLICATE, owner)
        return self._beside(base, kind, record, owner, None)

    def from_grain(
        self, grain: Grain, get: raw.Get, source: Source | None = None
    ) -> tuple[str, Record] | None:
        """The record that a grain was; None if it never was one of these."""
        source = source or Source.of(grain)
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

    def listed(self, address: str, get: raw.Get) -> tuple[str, Record]:
        """The record of a grain that a manifest lists."""
        found = self.from_grain(get(address), get)
        if found is None:
            says = "the manifest lists a grain that is not a record of this format"
            raise SchemaError(says, field=f"/{address}")
        return found

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
        if source.packed is None or not shape.embedding:
            return record
        return shape.whole(record, source.packed)

    def is_same(self, found: tuple[str, Record] | None, record: Record) -> bool:
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
        hash_ = text_hash(shape.text_of(record))
        source = spelled(self.format, kind, name, residual or None, [], hash_, packed)
        return source if len(source) <= _LARGEST else None

    def _in_parts(self, kind: str, record: Record, owner: str | None) -> BuiltGrain:
        shape = self._shapes[kind]
        fields = stripped(composed(shape.to_fields(shape.apart(record)[0], owner)))
        hash_ = text_hash(shape.text_of(record))
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
    ) -> BuiltGrain:
        """A grain whose fields say nothing of the record."""
        bare, packed = self._shapes[kind].apart(record)
        name = self.name_of(kind, record)
        source = Source(self.format, kind, name, {"=": bare}, (), hash_, packed).to_bytes()
        if len(source) <= _LARGEST:
            return BuiltGrain(make(base | {KEY: source}))
        return self._with_parts(base, kind, record, owner, hash_)

    def _with_parts(
        self, fields: Fields, kind: str, record: Record, owner: str | None, hash_: str | None
    ) -> BuiltGrain:
        parts = raw.split(spell(record), created_at=fields["created_at"], user_id=owner)
        name = self.name_of(kind, record)
        if len(name) > _LONGEST:
            name = f"{name[:_LONGEST]} {text_hash(name)}"
        addresses = tuple(part.address for part in parts)
        source = Source(self.format, kind, name, None, addresses, hash_)
        return BuiltGrain(make(fields | {KEY: source.to_bytes()}), parts)


def is_duplicate(grain: Grain) -> bool:
    """Whether a grain keeps a record whose text another record of its document has."""
    return raw.kind_of_ours(grain) == raw.DUPLICATE


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


def text_hash(text: str | None) -> str | None:
    """SHA-256 of a text, in hex, by which duplicates are found."""
    return None if text is None else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _same_texts(one: Any, other: Any) -> bool:
    return type(one) is list and one == other and {*map(type, other)} == {str}


def _nothing(address: str) -> Grain:
    raise OmsError("a record in one piece has no parts")


TEXT = 65_536
"""Code points of a text that are searched; all of a longer one is kept."""
_TIME: Final = 128  # characters of a time, those of its fraction counted


def somebody(owner: str | None) -> str:
    """The subject of what is known of a user, who may have no name."""
    return owner or "user"


def grain_fields(kind: str, record: Record, owner: str | None, *, namespace: str) -> Fields:
    """The fields of a grain with its type, its time and its user."""
    made = record.get("created_at")
    created_at = created_at_of(made) if isinstance(made, str) else 0
    fields: Fields = {"type": kind, "created_at": created_at, "namespace": namespace}
    if owner is not None:
        fields["user_id"] = owner
    return fields


def belief_fields(
    record: Record,
    owner: str | None,
    subject: str | None,
    relation: str,
    object_: Any,
    *,
    namespace: str,
) -> Fields:
    """A belief; without a subject it is one about the user."""
    fields = grain_fields("belief", record, owner, namespace=namespace)
    about = somebody(owner) if subject is None else value_text(subject) or "-"
    fields["subject"], fields["relation"], fields["object"] = about, relation, object_
    fields["confidence"] = 1.0
    return fields


@lru_cache(1_024)
def instant(text: str) -> times.Instant | None:
    """A time of any spelling; None if it is none. The check and the grain both read it."""
    return times.parse(text, floating=True) if len(text) <= _TIME else None


@lru_cache(1_024)
def created_at_of(text: str) -> int:
    """Return the nearest ``created_at`` that a grain can have; 1970 if the text is no time."""
    return times.of_grain(instant(text))


def value_text(value: str) -> str:
    """As much of a text as a grain takes."""
    return value if len(value) <= TEXT else value[:TEXT]


def short_name(value: Any) -> str | None:
    """A name that a grain can have; None if it cannot."""
    return value if isinstance(value, str) and 0 < len(value) <= NAME else None
