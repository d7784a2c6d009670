# SPDX-License-Identifier: Apache-2.0
"""What conversion shares: tables of records, losses, options and ids.

A loss is found by reading again what was written: what an item said before and does not say then
is lost. So no list of losses has to be kept by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from uuid import NAMESPACE_OID, UUID, uuid5

from omsgrain._core import __version__
from omsgrain.formats import model, times
from omsgrain.formats.aimem import fields as aimem_fields
from omsgrain.formats.aimem import fields as utc
from omsgrain.formats.mif_ld import schema
from omsgrain.formats.model import Kind, Part
from omsgrain.formats.times import is_uuid

if TYPE_CHECKING:
    from omsgrain.formats.base import Format
    from omsgrain.formats.mif_ld.records import Shape


Record = dict[str, Any]

_SHAPED_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "bool": (bool,),
    "number": (int, float),
    "int": (int, float),  # 2.0 is one too
    "object": (dict,),
    "array": (list,),
}


class RequiredField(Protocol):
    """What is needed of a row of a format's table."""

    @property
    def name(self) -> str:
        """Its member."""

    @property
    def kind(self) -> str:
        """What it holds."""


class Attribute(NamedTuple):
    """Where a format has an attribute of the model.

    Attributes:
        name: of the attribute.
        member: where its value stands.
        types: what may stand there.
        inner: of what the value, or each item of it, is made.
        items: what each item of an array is; None for anything.
        read: the value in the model.
        write: the way back.
    """

    name: str
    member: str
    types: tuple[type, ...]
    inner: ClassShape | None = None
    items: tuple[type, ...] | None = None
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None

    def fits(self, value: Any) -> bool:
        """Whether a value is what the format says."""
        if type(value) not in self.types:
            return False
        if type(value) is list:
            wanted = (dict,) if self.inner is not None else self.items
            return wanted is None or all(type(one) in wanted for one in value)
        return True


class ClassShape(NamedTuple):
    """What a format calls the attributes of one class of the model.

    Attributes:
        cls: the class.
        attributes: in the order in which the format writes them.
    """

    cls: type[Part]
    attributes: tuple[Attribute, ...]

    def read(self, record: Mapping[str, Any], **more: Any) -> Any:
        """An item of a record."""
        given, known = {}, set()
        for one in self.attributes:
            value = record.get(one.member)
            if value is None:
                known.add(one.member)  # null says nothing
            elif one.fits(value):
                known.add(one.member)
                given[one.name] = _read(one, value)
        rest = {name: value for name, value in record.items() if name not in known}
        return self.cls(rest=rest, **(given | more))

    def write(self, item: Part) -> Record:
        """The record of an item; what only another format knows is left out."""
        record = {}
        for one in self.attributes:
            value = getattr(item, one.name)
            if said(value):
                record[one.member] = _write(one, value)
        return record

    def member(self, name: str) -> str | None:
        """Where an attribute stands."""
        return next((one.member for one in self.attributes if one.name == name), None)

    def inner(self, name: str) -> ClassShape | None:
        """Of what an attribute is made."""
        return next((one.inner for one in self.attributes if one.name == name), None)


def said(value: Any) -> bool:
    """Whether an attribute says anything."""
    return value is not None and not (isinstance(value, tuple | dict) and not value)


def shape(
    cls: type[Part],
    fields: Iterable[RequiredField],
    names: Mapping[str, str],
    *,
    inner: Mapping[str, ClassShape] | None = None,
    items: Mapping[str, type] | None = None,
    words: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] | None = None,
    more: Mapping[str, str] | None = None,
) -> ClassShape:
    """Make a shape."""
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
        # An object without a word in it says nothing.
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


def rfc3339(text: str | int | None) -> str | None:
    """A time as RFC 3339 has it; None if it is none."""
    if text is None or isinstance(text, int):
        return None if text is None else times.spell(text)
    instant = times.parse(text, floating=True)
    if instant is None or _RFC3339.fullmatch(text):
        return None if instant is None else text
    return _spelled(instant) or text


def date_time(text: str | None) -> str | None:
    """A time as `rfc3339` has it, whose leap second is one: the last of a day in UTC."""
    spelled = rfc3339(text)
    if spelled is None or schema.date_time(spelled):
        return spelled
    instant = times.parse(spelled, floating=True)
    return None if instant is None else _spelled(instant)


def in_utc(text: str | int | None) -> str | None:
    """A time as AIMEM has it; None if it is none, or none that it can say."""
    spelled = rfc3339(text) if isinstance(text, int) else text
    if spelled is None or utc.parse_time(spelled) is not None:
        return spelled
    instant = times.parse(spelled, floating=True)
    return None if instant is None else _spelled(instant)


def _spelled(instant: times.Instant) -> str | None:
    try:
        whole = (_EPOCH + timedelta(seconds=instant.seconds)).isoformat()
    except OverflowError:
        return None  # the leap second behind the last year
    return f"{whole}.{instant.fraction}Z" if instant.fraction else f"{whole}Z"


def rate(value: float | None) -> float | None:
    """A number from 0 to 1."""
    return value if value is not None and 0 <= value <= 1 else None


def count(value: float | None, least: int) -> int | None:
    """A whole number that is at least so much."""
    if value is None or value < least or value != int(value):
        return None
    return int(value)


def whole(said: model.Embedding | None) -> model.Embedding | None:
    """An embedding with all that belongs to one."""
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
"""What only says in another word what these attributes say."""


class LossNames(NamedTuple):
    """How a format names what is lost of it.

    Attributes:
        elsewhere: attributes that are no member of the record, by where they stand.
        implied: attributes that only follow from others.
    """

    elsewhere: Mapping[str, str]
    implied: frozenset[str] = frozenset()


def lost(
    item: model.Part, back: Any, shape: ClassShape | None, told: LossNames, to: str
) -> Iterator[tuple[str, str]]:
    """The fields of an item that are lost, by the names of their own format, each with why."""
    within_it = LossNames({}, told.implied)
    for one in fields(item):
        value = getattr(item, one.name)
        if one.name in _OF_THE_FORMAT or one.name in told.implied or not said(value):
            continue
        if one.name == "rest":
            for name in value:
                yield name, f"{to} has no place for it"
            continue
        if one.name == "id" and isinstance(item, model.Item):
            # A changed id is reported where it is given; some items have no id.
            if back is not None or shape is None or shape.member("id") is None:
                continue
        again: Any = getattr(back, one.name, _MISSING)
        if equal(value, again):
            continue
        member = shape.member(one.name) if shape is not None else None
        name = member or told.elsewhere.get(one.name) or one.name
        inner = None if shape is None else shape.inner(one.name)
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
            yield name, f"{to} says it in another way, which is not as exact"
        else:
            yield name, f"{to} has no place for it"


def added(item: model.Part, back: Any, shape: ClassShape | None, told: LossNames) -> Iterator[str]:
    """The fields that a format says of an item and nothing said before, by its own names."""
    if not isinstance(back, model.Part):
        return
    for one in fields(back):
        value, before = getattr(back, one.name), getattr(item, one.name, _MISSING)
        if one.name in _NOT_MADE_UP or one.name in told.implied or before is _MISSING:
            continue
        name = (shape.member(one.name) if shape else None) or told.elsewhere.get(one.name)
        name = name or one.name
        if not said(before) or (value != before and _is_no_time(one.name, before)):
            follows = any(said(getattr(item, of, None)) for of in _FOLLOWS.get(one.name, ()))
            if said(value) and not follows:
                yield name
            continue
        inner = None if shape is None else shape.inner(one.name)
        parts = (before,), (value,)
        if isinstance(value, tuple) and isinstance(before, tuple) and len(value) == len(before):
            parts = before, value
        for was, is_ in zip(*parts, strict=True):
            if isinstance(was, model.Part) and type(was) is type(is_):
                yield from (f"{name}/{within}" for within in added(was, is_, inner, told))


def _is_no_time(name: str, value: Any) -> bool:
    """Whether a time is none, such as "yesterday", so that another one stands there instead."""
    return name == "created_at" and isinstance(value, str) and in_utc(value) is None


def equal(one: Any, other: Any) -> bool:
    """Whether two values say the same; numbers do if they are equal."""
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
    """An item, and which of the records that were given it is of; -1 for one of its own."""

    item: model.Item
    at: int


@dataclass(slots=True)
class Content:
    """What a document says.

    Attributes:
        document: around its records.
        found: the items, in order.
    """

    document: model.Document
    found: list[SourcedItem]


@dataclass(slots=True)
class ConvertedDocument:
    """A document that is to be spelled.

    Attributes:
        envelope: with its arrays empty.
        arrays: by pointer, the records, each with the number of the item that it is of, or -1.
    """

    envelope: dict[str, Any]
    arrays: dict[str, list[tuple[dict[str, Any], int]]] = field(default_factory=dict)


def near(named: Iterable[tuple[str, str, str | None]]) -> dict[tuple[str, str | None], str]:
    """The ids of entities by name and type, where these say for certain which it is."""
    ids: dict[tuple[str, str | None], str | None] = {}
    for id, name, type_ in named:
        key = (name, type_)
        ids[key] = id if ids.get(key, id) == id else None
    return {key: id for key, id in ids.items() if id is not None}


def left(of: Mapping[str, Any], known: Mapping[str, type]) -> Iterator[tuple[str, Any]]:
    """The members of an object that are unknown or of another type."""
    for name, value in of.items():
        if name not in known or (value is not None and not isinstance(value, known[name])):
            yield name, value


NOT_ASKED: Final = "embeddings leave only when asked for"
"""Why something is lost even where the grains go along."""
PRODUCER: Final = "omsgrain"
"""The producer namespace of ids that were none of AIMEM's."""
GENERATOR: Final = {"name": PRODUCER, "version": __version__}
"""The generator of a new MIF document. Some readers require it."""
_SPACE: Final = uuid5(NAMESPACE_OID, PRODUCER)
AS_MEMORIES: Final[dict[Kind, Kind]] = {"todo": "memory", "reminder": "memory"}
"""What becomes a memory where a format has nothing else."""
PREFIXES: Final[dict[Kind, str]] = {"memory": "mem_", "todo": "todo_"}
"""The prefixes of ids that begin with their kind."""
EXPORT: Final = "exp_"
"""What the id of an export begins with in MIF 1.0."""
URN: Final = "urn:mif:"
ENTITY: Final = "entity:"
"""What the id of an entity begins with, where it is its name."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a document is made.

    Attributes:
        embeddings: whether vectors leave.
        strict: nothing that the format does not name.
        producer: of AIMEM: the namespace of what gets an identifier.
        user: whose it is; by default who is named around the records, or is the one of all grains.
        exported_at: when it was made; by default when the other document was, or the newest grain.
        shape: of MIF in JSON-LD: of its memories; by default 0.1.
        beside: of MIF in JSON-LD: whether anything has a place beside its memories.
        checksum: of MIF: whether a new document has a checksum.
        generator: of MIF: what wrote it, where no document that it is made of says so.
    """

    embeddings: bool = True
    strict: bool = False
    producer: str = PRODUCER
    user: str | None = None
    exported_at: str | None = None
    shape: Shape | None = None
    beside: bool = True
    checksum: bool = True
    generator: Mapping[str, Any] = field(default_factory=lambda: GENERATOR)


def of_address(address: str) -> str:
    """The UUID of a grain that never had another id: version 8, of its content address."""
    whole = bytearray.fromhex(address)[:16]
    whole[6] = 0x80 | (whole[6] & 0x0F)
    whole[8] = 0x80 | (whole[8] & 0x3F)
    return str(UUID(bytes=bytes(whole)))


def uuid_of(kind: Kind, id: str) -> str:
    """The UUID that an id has in it; of one that has none, one made of its text."""
    bare = bare_id(id).removeprefix(PREFIXES.get(kind, ""))
    return bare if is_uuid(bare) else str(uuid5(_SPACE, id))


def bare_id(id: str) -> str:
    """An id without the namespace that we gave it."""
    return local_id(id).removeprefix(URN)


def local_id(id: str) -> str:
    """The local part of a URN of ours; any other id as it is."""
    found = aimem_fields.parse_urn(id)
    return found.local if found is not None and found.producer == PRODUCER else id


def no_export_id(id: str) -> tuple[str, bool]:
    """No id, where an export has none; the old one is kept if there is none."""
    return "", not id


class OtherId(NamedTuple):
    """An id of another format, and what tells how it is spelled in this one.

    Attributes:
        kind: of what it is the id.
        id: as the other format spells it.
        external: the record's id in another system.
        name: of an entity.
        producer: of AIMEM: the namespace for a new identifier.
    """

    kind: Kind
    id: str
    external: str | None = None
    name: str | None = None
    producer: str = PRODUCER


class DocumentIds:
    """The ids of one document in another format: none twice for what was two.

    Attributes:
        format: the other one.
    """

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
        """Name a record."""
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
        """What a record is called that is named somewhere, be it there or not."""
        known = self._given.get((kind, id))
        return (
            known if known is not None else self._of(OtherId(kind, id, None, id, self._producer))
        )


@dataclass(frozen=True, slots=True)
class Hub:
    """What a format says in terms of the model.

    Attributes:
        classes: the tables of its records, by kind.
        told: how it names what is lost of it.
        read: what its records and what stands around them say.
        adapt: an item as this format has it; None if it has nothing like it.
        write: a document of items that were adapted.
        id_of: what an id of another format is called here.
        export_id: the id of an export here, and whether it gives the old one back.
    """

    classes: Mapping[str, ClassShape]
    told: LossNames
    read: Callable[[Sequence[tuple[str, Record]], Mapping[str, Any]], Content]
    adapt: Callable[[model.Item], model.Item | None]
    write: Callable[[Content, BuildOptions], ConvertedDocument]
    id_of: Callable[[OtherId], str]
    export_id: Callable[[str], tuple[str, bool]]


BELIEFS: Final = {
    "mg:prefers": "preference",
    "mg:avoids": "pitfall",
    "aimem:decided": "decision",
    "aimem:identity": "identity",
    "mif:decided": "decision",
    "mif:pattern": "pattern",
}
"""What kind of memory a belief is, by its relation."""
KNOWS: Final = "mg:knows"

_BANDS: Final = ((0.8, "critical"), (0.5, "important"))
_SHOWN: Final = {"critical": 0.9, "important": 0.6, "standard": 0.3}


def priority_of(importance: float | None) -> str | None:
    """The priority of an importance, by the bands of the SEP. Spec: MIF 1.0 §3.2."""
    if importance is None:
        return None
    return next((name for least, name in _BANDS if importance >= least), "standard")


def importance_of(priority: str | None) -> float | None:
    """An importance in the middle of the band of a priority; its way back is `priority_of`."""
    return None if priority is None else _SHOWN.get(priority)
