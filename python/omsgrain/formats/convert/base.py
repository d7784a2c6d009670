# SPDX-License-Identifier: Apache-2.0
"""Shared parts of conversion: tables of records, losses, options and ids.

The converter finds losses by reading the written document again: an attribute that the second
reading does not find is lost. So the code needs no list of losses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import NAMESPACE_OID, UUID, uuid5

from omsgrain._core import __version__
from omsgrain.formats import model, times
from omsgrain.formats.aimem.fields import parse_time, parse_urn
from omsgrain.formats.json_text import value_at
from omsgrain.formats.mif_ld import schema
from omsgrain.formats.model import Kind, Part
from omsgrain.formats.schema import KINDS, SchemaField
from omsgrain.formats.times import is_uuid

if TYPE_CHECKING:
    from omsgrain.formats.base import Format
    from omsgrain.formats.mif_ld.records import Shape


Record = dict[str, Any]

_TYPES: Final = {kind: types for kind, (_, types) in KINDS.items()}
_SHAPED_TYPES: Final = _TYPES | {"int": (int, float)}  # 2.0 is an integer too


class Attribute(NamedTuple):
    """Maps an attribute of the model to a member of a format."""

    name: str  # the attribute's name
    member: str  # the member that holds it
    types: tuple[type, ...]  # the allowed types of the value
    inner: ClassShape | None = None  # the shape of the value, or of each item in it
    items: tuple[type, ...] | None = None  # the types of an array's items; None for any
    read: Callable[[Any], Any] | None = None  # converts the value to the model
    write: Callable[[Any], Any] | None = None  # converts it back

    def fits(self, value: Any) -> bool:
        if type(value) not in self.types:
            return False
        if type(value) is list:
            wanted = (dict,) if self.inner is not None else self.items
            return wanted is None or all(type(one) in wanted for one in value)
        return True


class ClassShape(NamedTuple):
    cls: type[Part]  # the class
    attributes: tuple[Attribute, ...]  # its attributes, in writing order

    def read(self, record: Mapping[str, Any], **more: Any) -> Any:
        given, known = {}, set()
        for one in self.attributes:
            value = record.get(one.member)
            if value is None:
                known.add(one.member)  # null means absent
            elif one.fits(value):
                known.add(one.member)
                given[one.name] = _read(one, value)
        rest = {name: value for name, value in record.items() if name not in known}
        return self.cls(rest=rest, **(given | more))

    def write(self, item: Part) -> Record:
        """Make a record of an item; skip attributes that the format lacks."""
        record = {}
        for one in self.attributes:
            value = getattr(item, one.name)
            if said(value):
                record[one.member] = _write(one, value)
        return record

    def attribute(self, name: str) -> Attribute | None:
        return next((one for one in self.attributes if one.name == name), None)


def named(cls: type[Part], names: Mapping[str, str]) -> ClassShape:
    """A shape that only names the members of attributes, to report losses."""
    return ClassShape(cls, tuple(Attribute(*one, (str,)) for one in names.items()))


def said(value: Any) -> bool:
    return value is not None and not (isinstance(value, tuple | dict) and not value)


def shape(
    cls: type[Part],
    fields: Iterable[SchemaField],
    names: Mapping[str, str],
    *,
    inner: Mapping[str, ClassShape] | None = None,
    items: Mapping[str, type] | None = None,
    words: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] | None = None,
    more: Mapping[str, str] | None = None,
) -> ClassShape:
    kinds = {field.name: field.kind for field in fields} | dict(more or {})
    made = []
    for name, member in names.items():
        kind, within = kinds[member], (inner or {}).get(name)
        held = (items or {}).get(name, str)
        of = None if held is object else ((int, float) if held is float else (held,))
        read, write = (words or {}).get(name, (None, None))
        made.append(Attribute(name, member, _SHAPED_TYPES[kind], within, of, read, write))
    return ClassShape(cls, tuple(made))


def _read(one: Attribute, value: Any) -> Any:
    if one.inner is not None:
        if isinstance(value, list):
            return tuple(one.inner.read(item) for item in value)
        value = one.inner.read(value)
        # An object without known members has no value.
        return None if value == one.inner.cls() else value
    if isinstance(value, list):
        value = tuple(value)
    return value if one.read is None else one.read(value)


def _write(one: Attribute, value: Any) -> Any:
    if one.inner is not None:
        if isinstance(value, tuple):
            return [one.inner.write(item) for item in value]
        return one.inner.write(value)
    if one.write is not None:
        value = one.write(value)
    return list(value) if isinstance(value, tuple) else value


_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH = datetime(1970, 1, 1)


def rfc3339(text: str | None) -> str | None:
    instant = None if text is None else times.parse(text, floating=True)
    if text is None or instant is None:
        return None
    return text if _RFC3339.fullmatch(text) else _spelled(instant) or text


def date_time(text: str | None) -> str | None:
    """Like `rfc3339`, but allows a leap second only at the end of a UTC day."""
    spelled = rfc3339(text)
    if spelled is None or schema.date_time(spelled):
        return spelled
    instant = times.parse(spelled, floating=True)
    return None if instant is None else _spelled(instant)


def in_utc(text: str | None) -> str | None:
    """Convert a time to AIMEM's UTC form; None if it is invalid or out of range."""
    if text is None or parse_time(text) is not None:
        return text
    instant = times.parse(text, floating=True)
    return None if instant is None else _spelled(instant)


def converted(
    item: model.Item, form: Callable[[str | None], str | None], *names: str
) -> dict[str, Any]:
    """Return some times of an item in a format's form."""
    return {name: form(getattr(item, name)) for name in names}


def _spelled(instant: times.Instant) -> str | None:
    try:
        whole = (_EPOCH + timedelta(seconds=instant.seconds)).isoformat()
    except OverflowError:
        return None  # the leap second after the year 9999
    return f"{whole}.{instant.fraction}Z" if instant.fraction else f"{whole}Z"


def rate(value: float | None) -> float | None:
    """Return a number if it is from 0 to 1, else None."""
    return value if value is not None and 0 <= value <= 1 else None


def count(value: float | None, least: int) -> int | None:
    """Return an integer if it is at least ``least``, else None."""
    if value is None or value < least or value != int(value):
        return None
    return int(value)


def whole(said: model.Embedding | None) -> model.Embedding | None:
    """Return a complete embedding; None if it has no model or vector."""
    if said is None or not isinstance(said.model, str) or not said.vector:
        return None
    dimensions = count(said.dimensions, 1)
    return replace(said, dimensions=len(said.vector) if dimensions is None else dimensions)


_MISSING: Final = object()
_OF_THE_FORMAT = frozenset(("source_kind", "target_kind", "kind"))
_NOT_MADE_UP = _OF_THE_FORMAT | {"id", "rest", "external", "entities", "of"}
_FOLLOWS: Final = {
    "importance": ("priority",),
    "priority": ("importance",),
    "dimensions": ("vector",),
}
"""Attribute -> attributes that determine it."""


class LossNames(NamedTuple):
    elsewhere: Mapping[str, str]  # attributes outside the record, with their places
    implied: frozenset[str] = frozenset()  # attributes that follow from others


def lost(
    item: model.Part, back: Any, shape: ClassShape | None, names: LossNames, to: str
) -> Iterator[tuple[str, str]]:
    within_it = LossNames({}, names.implied)
    for one in fields(item):
        value = getattr(item, one.name)
        if one.name in _OF_THE_FORMAT or one.name in names.implied or not said(value):
            continue
        if one.name == "rest":
            for name in value:
                yield name, f"{to} has no place for it"
            continue
        if one.name == "id" and isinstance(item, model.Item):
            # `build` reports changed ids; some items have no id.
            if back is not None or shape is None or shape.attribute("id") is None:
                continue
        again: Any = getattr(back, one.name, _MISSING)
        if equal(value, again):
            continue
        name, inner = _place(one.name, shape, names)
        if back is None:
            yield name, f"{to} has no such record"
        elif isinstance(value, model.Part) and isinstance(again, model.Part):
            for within, why in lost(value, again, inner, within_it, to):
                yield f"{name}/{within}", why
        elif _are_parts(value) and _are_parts(again) and len(value) == len(again):
            for i, (was, is_) in enumerate(zip(value, again, strict=True)):
                for within, why in lost(was, is_, inner, within_it, to):
                    yield f"{name}/{i}/{within}", why
        elif said(again) and again is not _MISSING:
            yield name, f"{to} stores it less exactly"
        else:
            yield name, f"{to} has no place for it"


def _place(name: str, shape: ClassShape | None, names: LossNames) -> tuple[str, ClassShape | None]:
    """Return the name of an attribute in its format, and the shape of its value."""
    own = None if shape is None else shape.attribute(name)
    if own is None:
        return names.elsewhere.get(name) or name, None
    return own.member, own.inner


def added(
    item: model.Part, back: Any, shape: ClassShape | None, names: LossNames
) -> Iterator[str]:
    if not isinstance(back, model.Part):
        return
    for one in fields(back):
        value, before = getattr(back, one.name), getattr(item, one.name, _MISSING)
        if one.name in _NOT_MADE_UP or one.name in names.implied or before is _MISSING:
            continue
        name, inner = _place(one.name, shape, names)
        if not said(before) or (value != before and _is_no_time(one.name, before)):
            follows = any(said(getattr(item, of, None)) for of in _FOLLOWS.get(one.name, ()))
            if said(value) and not follows:
                yield name
            continue
        parts = (before,), (value,)
        if isinstance(value, tuple) and isinstance(before, tuple) and len(value) == len(before):
            parts = before, value
        for was, is_ in zip(*parts, strict=True):
            if isinstance(was, model.Part) and type(was) is type(is_):
                yield from (f"{name}/{within}" for within in added(was, is_, inner, names))


def _is_no_time(name: str, value: Any) -> bool:
    """Whether a time is invalid, such as "yesterday", so that the writer replaced it."""
    return name == "created_at" and isinstance(value, str) and in_utc(value) is None


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, model.Part):
        return type(one) is type(other) and all(
            equal(getattr(one, f.name), getattr(other, f.name))
            for f in fields(one)
            if said(getattr(one, f.name)) or f.name == "rest"
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def _are_parts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, model.Part) for one in value)


class SourcedItem(NamedTuple):
    """An item, and the index of its record; -1 if it has no record of its own."""

    item: model.Item
    at: int


@dataclass(slots=True)
class Content:
    """The content of a document in terms of the model."""

    document: model.Document  # the data around its records
    found: list[SourcedItem]  # its items, in order


@dataclass(slots=True)
class ConvertedDocument:
    """A document ready to be written."""

    envelope: dict[str, Any]  # the document with empty arrays
    # by pointer, the records, each with the index of its item, or -1
    arrays: dict[str, list[tuple[dict[str, Any], int]]] = field(default_factory=dict)


PRIVACY: Final[dict[str, type]] = {
    "pii_detected": bool, "secrets_detected": bool, "redacted_fields": list,
}  # fmt: skip


def near(named: Iterable[tuple[str, str, str | None]]) -> dict[tuple[str, str | None], str]:
    """Return the ids of entities by name and type, where these are unique."""
    ids: dict[tuple[str, str | None], str | None] = {}
    for id, name, type_ in named:
        key = (name, type_)
        ids[key] = id if ids.get(key, id) == id else None
    return {key: id for key, id in ids.items() if id is not None}


def left(
    envelope: Mapping[str, Any], places: Mapping[str, Mapping[str, type]]
) -> Iterator[tuple[str, Any]]:
    """Yield the members of an envelope's objects that are unknown or have another type."""
    for place, known in places.items():
        of = value_at(envelope, place)
        for name, value in of.items() if isinstance(of, dict) else ():
            if name not in known or (value is not None and not isinstance(value, known[name])):
                yield f"{place}/{name}"[1:], value


NOT_ASKED: Final = "embeddings are exported only on request"
"""Why an embedding is lost even if the document carries its grain."""
PRODUCER: Final = "omsgrain"
"""The producer namespace for ids from other formats."""
GENERATOR: Final = {"name": PRODUCER, "version": __version__}
"""The generator of a new MIF document. Some readers require it."""
_SPACE: Final = uuid5(NAMESPACE_OID, PRODUCER)
AS_MEMORIES: Final[dict[Kind, Kind]] = {"todo": "memory", "reminder": "memory"}
"""Kinds of records that become memories in formats without them."""
PREFIXES: Final[dict[Kind, str]] = {"memory": "mem_", "todo": "todo_"}
"""The prefixes of ids that begin with their kind."""
EXPORT: Final = "exp_"
"""The prefix of an export's id in MIF 1.0."""
EPOCH: Final = times.spell(0)
"""The time of what has none."""
URN: Final = "urn:mif:"
ENTITY: Final = "entity:"
"""The prefix of an entity's id that is made of its name."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    embeddings: bool = True  # whether to include vectors
    strict: bool = False  # write only what the format defines
    producer: str = PRODUCER  # AIMEM: the producer namespace for new identifiers
    # the user; by default the document's user, or the only user of the grains
    user: str | None = None
    # the export time; by default that of the source document or the newest grain
    exported_at: str | None = None
    shape: Shape | None = None  # MIF in JSON-LD: the shape of memories; by default 0.1
    beside: bool = True  # MIF in JSON-LD: whether the layout can hold data beside the memories
    checksum: bool = True  # MIF: whether a new document has a checksum
    # MIF: the generator if no source document names one
    generator: Mapping[str, Any] = field(default_factory=lambda: GENERATOR)


def of_address(address: str) -> str:
    """Make a UUID, version 8, of the address of a grain without another id."""
    whole = bytearray.fromhex(address)[:16]
    whole[6] = 0x80 | (whole[6] & 0x0F)
    whole[8] = 0x80 | (whole[8] & 0x3F)
    return str(UUID(bytes=bytes(whole)))


def uuid_of(kind: Kind, id: str) -> str:
    """Return the UUID in an id; without one, make a UUID of the id's text."""
    bare = bare_id(id).removeprefix(PREFIXES.get(kind, ""))
    return bare if is_uuid(bare) else str(uuid5(_SPACE, id))


def bare_id(id: str) -> str:
    return local_id(id).removeprefix(URN)


def local_id(id: str) -> str:
    """Return the local part of our URN; any other id unchanged."""
    found = parse_urn(id)
    return found.local if found is not None and found.producer == PRODUCER else id


def no_export_id(id: str) -> tuple[str, bool]:
    """Return no id, for a format without export ids."""
    return "", not id


class OtherId(NamedTuple):
    """An id of another format, with the data to convert it."""

    kind: Kind  # the kind of the record
    id: str  # the id in the other format
    external: str | None = None  # the record's id in another system
    name: str | None = None  # an entity's name
    producer: str = PRODUCER  # AIMEM: the producer namespace for a new identifier


class DocumentIds:
    """Gives the records of one document unique ids in another format."""

    def __init__(self, format: Format, producer: str = PRODUCER) -> None:
        self.format = format
        self._of = format.hub.id_of
        self._producer = producer
        self._given: dict[tuple[Kind, str], str] = {}
        self._taken: set[tuple[Kind, str]] = set()

    def give(
        self,
        kind: Kind,
        id: str,
        *,
        external: str | None = None,
        name: str | None = None,
    ) -> str:
        wanted = self._of(OtherId(kind, id, external, name, self._producer))
        space = self.format.spaces.get(kind, kind)
        made, count = wanted, 1
        while (space, made) in self._taken:
            count += 1
            other = str(uuid5(_SPACE, f"{id} {count}"))
            made = self.format.numbered(kind, wanted, count) or self._of(
                OtherId(kind, other, producer=self._producer)
            )
        self._taken.add((space, made))
        self._given.setdefault((kind, id), made)
        return made

    def of(self, kind: Kind, id: str) -> str:
        """Return the new id for a reference, whether its record exists or not."""
        known = self._given.get((kind, id))
        return (
            known if known is not None else self._of(OtherId(kind, id, None, id, self._producer))
        )


@dataclass(frozen=True, slots=True)
class Hub:
    """A format's conversion to and from the model."""

    classes: Mapping[str, ClassShape]  # the tables of its records, by kind
    loss_names: LossNames  # its names for lost attributes
    # converts records and envelope to the model
    read: Callable[[Sequence[tuple[str, Record]], Mapping[str, Any]], Content]
    # adapts an item to this format; None if it has no such record
    adapt: Callable[[model.Item], model.Item | None]
    # makes a document of adapted items
    write: Callable[[Content, BuildOptions], ConvertedDocument]
    id_of: Callable[[OtherId], str]  # converts an id of another format
    # converts an export's id, and says whether that is reversible
    export_id: Callable[[str], tuple[str, bool]]

    def shape_of(self, item: object) -> ClassShape | None:
        return next((one for one in self.classes.values() if one.cls is type(item)), None)


BELIEFS: Final = {
    "mg:prefers": "preference",
    "mg:avoids": "pitfall",
    "aimem:decided": "decision",
    "aimem:identity": "identity",
    "mif:decided": "decision",
    "mif:pattern": "pattern",
}
"""Relation of a belief -> memory type."""
KNOWS: Final = "mg:knows"

_BANDS: Final = ((0.8, "critical"), (0.5, "important"))
_SHOWN: Final = {"critical": 0.9, "important": 0.6, "standard": 0.3}


def priority_of(importance: float | None) -> str | None:
    """Return the priority of an importance. Spec: MIF 1.0 §3.2."""
    if importance is None:
        return None
    return next((name for least, name in _BANDS if importance >= least), "standard")


def importance_of(item: model.MemoryItem) -> float | None:
    """Return the importance of a memory, or one in the band of its priority."""
    if item.importance is not None or item.priority is None:
        return item.importance
    return _SHOWN.get(item.priority)
