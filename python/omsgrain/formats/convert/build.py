# SPDX-License-Identifier: Apache-2.0
"""Makes a document of grains from other formats, or from none.

It writes every item and reads it again. Anything that the second reading does not find is lost.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, NamedTuple

from omsgrain.errors import OmsError
from omsgrain.formats import model
from omsgrain.formats.aimem.records import NO_TEXT
from omsgrain.formats.base import Format
from omsgrain.formats.convert import aimem, base, mif2, mif_ld
from omsgrain.formats.convert.gather import Heap, LocatedItem, parts_of
from omsgrain.formats.document import Added, Loss, Vector
from omsgrain.formats.mif import Mif
from omsgrain.formats.source import Source
from omsgrain.formats.table import FORMATS
from omsgrain.formats.times import spell
from omsgrain.grain import Grain

_NATIVE: Final = base.LossNames({})


@dataclass(slots=True)
class Made:
    envelope: dict[str, Any]  # the document with empty arrays
    # by pointer, the records, each with its grain's address or an empty string
    arrays: dict[str, list[tuple[dict[str, Any], str]]]
    losses: list[Loss] = field(default_factory=list)  # its losses, not counting carried grains


def build(
    heap: Heap, to: Format, vectors: Mapping[str, Vector], options: base.BuildOptions
) -> Made:
    owner = heap.only_user()
    around, of, held = heap.held(vectors, to=to, owner=owner)
    hub, given = to.hub, base.DocumentIds(to, options.producer)
    for kind, id in _taken(heap, to, held) if held else ():
        given.give(kind, id)
    items = list(renamed(held, given))
    losses: list[Loss] = []
    if not options.embeddings:
        items = list(_without(held, items, losses))
    adapted = [hub.adapt(one.item) for one in items]
    document, kept = _document(heap, around, owner, to, options)
    found = [base.SourcedItem(item, at) for at, item in enumerate(adapted) if item is not None]
    written = hub.write(base.Content(document, found), options)
    losses += _losses(held, items, written, to)
    if of is not None:
        losses += _around(around, of, kept, written, to)
    arrays = {
        pointer: [(record, held[at].address if at >= 0 else "") for record, at in array]
        for pointer, array in written.arrays.items()
    }
    for address in heap.natives:
        if to.takes_natives:
            array, record, gone = to.native(
                heap.grains[address],
                producer=options.producer,
                owner=owner,
                strict=options.strict,
            )
            arrays[array] += [] if record is None else [(record, address)]
            losses += gone
        if heap.grains[address].get("user_id") not in (None, document.user):
            losses.append(Loss(address, "user_id", "a document has only one user"))
    return Made(written.envelope, arrays, losses)


def _taken(
    heap: Heap, to: Format, held: Sequence[LocatedItem]
) -> Iterator[tuple[model.Kind, str]]:
    """Yield the ids of records that have the format already.

    If the document was made of the other records, it also has their parts, with the parts' own
    ids. These ids do not count.
    """
    records = [(one.kind, one.record) for one in heap.records.get(to.name, ())]
    if not records:
        return
    parts = set()
    if heap.envelope(to.name):
        ids = [(kind_of(one.item), one.item.id) for one in held if not one.address]
        parts = {
            (kind, to.hub.id_of(base.OtherId(kind, id))) for kind, id in ids if kind is not None
        }
    for item, _ in to.hub.read(records, {}).found:
        kind = kind_of(item)
        if kind is not None and kind != "relation" and (kind, item.id) not in parts:
            yield kind, item.id


def _without(
    held: Sequence[LocatedItem], items: Iterable[Renamed], losses: list[Loss]
) -> Iterator[Renamed]:
    for one, (item, kept) in zip(held, items, strict=True):
        if isinstance(item, model.MemoryItem | model.Todo) and item.embedding is not None:
            own = None if one.shape is None else one.shape.attribute("embedding")
            said = "embedding" if own is None else own.member
            losses.append(Loss(one.name, said, base.NOT_ASKED))
            item = replace(item, embedding=None)
        yield Renamed(item, kept)


def _document(
    heap: Heap, around: model.Document, owner: str | None, to: Format, options: base.BuildOptions
) -> tuple[model.Document, bool]:
    """Return the data around the records, and whether the export keeps its id."""
    user = options.user or around.user or owner
    id, kept = to.hub.export_id(around.id)
    if not id and to.export_member is not None:
        mark = sha256("".join(sorted(heap.grains)).encode()).hexdigest()
        id = to.hub.export_id(base.of_address(mark))[0]
    user = to.user_of(user, options.producer)
    exported_at = (
        options.exported_at
        or around.exported_at
        or spell(max((grain["created_at"] for grain in heap.grains.values()), default=0))
    )
    named = all(isinstance(around.generator.get(name), str) for name in base.GENERATOR)
    generator = around.generator if named else options.generator
    made = replace(around, id=id, user=user, exported_at=exported_at, generator=generator)
    return made, kept


# -- losses ---------------------------------------------------------------------------------------


def _losses(
    held: Sequence[LocatedItem],
    items: Sequence[Renamed],
    written: base.ConvertedDocument,
    to: Format,
) -> Iterator[Loss]:
    again = _again(written, to)
    for one, (item, kept) in zip(held, items, strict=True):
        back = again(item)
        names = _NATIVE if one.format is None else one.format.hub.loss_names
        seen = set()
        if one.format is None and isinstance(item, model.MemoryItem) and not item.content:
            seen.add("content")
            yield Loss(one.name, "content", NO_TEXT)
        if back is not None and not kept:
            seen.add("id")
            yield Loss(one.name, "id", f"{to.title} uses another form of ids")
        for name, why in base.lost(item, back, one.shape, names, to.title):
            if name not in seen:
                seen.add(name)
                yield Loss(one.name, name, why)
        for name in base.added(item, back, to.hub.shape_of(back), to.hub.loss_names):
            yield Added(one.name, name, f"{to.title} requires it, and the source has none")


def _again(
    written: base.ConvertedDocument, to: Format
) -> Callable[[model.Item], model.Item | None]:
    """Return a function that finds an item in the written document, each only once."""
    arrays = to.arrays
    records = [
        (arrays[pointer], record) for pointer, array in written.arrays.items()
        for record, _ in array
    ]  # fmt: skip
    found: dict[tuple[type, str], list[model.Item]] = {}
    mentioned: set[tuple[str, str | None]] = set()
    for item, _ in to.hub.read(records, written.envelope).found:
        found.setdefault(_key(item), []).append(item)
        if isinstance(item, model.MemoryItem):
            mentioned.update((item.id, mention.of) for mention in item.entities)
    for same in found.values():
        same.reverse()

    def back(item: model.Item) -> model.Item | None:
        same = found.get(_key(item))
        if same:
            return same.pop()
        if isinstance(item, model.Relation) and (item.source, item.target) in mentioned:
            # A link holds nothing else.
            return model.Relation(source=item.source, target=item.target, type=item.type)
        for cls in (model.Todo, model.MemoryItem):
            # A format without this kind of record writes the nearest kind.
            if isinstance(item, model.Todo | model.Reminder) and found.get((cls, item.id)):
                return found[(cls, item.id)].pop()
        return None

    return back


def _key(item: model.Item) -> tuple[type, str]:
    if isinstance(item, model.Relation):
        return model.Relation, f"{item.source} {item.target}"
    return type(item), item.id


def _around(
    around: model.Document, of: Format, kept: bool, written: base.ConvertedDocument, to: Format
) -> Iterator[Loss]:
    if not kept:
        yield Loss("", of.export_member or "id", f"{to.title} uses another form of ids")
    back = to.hub.read([], written.envelope).document
    for name, why in base.lost(around, back, None, of.hub.loss_names, to.title):
        yield Loss("", name, why)


# -- ids ------------------------------------------------------------------------------------------


_KINDS: Final[dict[type[model.Item], model.Kind]] = {
    model.MemoryItem: "memory",
    model.Todo: "todo",
    model.Project: "project",
    model.Reminder: "reminder",
    model.Entity: "entity",
    model.Relation: "relation",
}
_REFERENCES: Final[dict[type[model.Item], dict[str, model.Kind]]] = {
    model.MemoryItem: {"parent": "memory", "related": "memory", "related_todos": "todo"},
    model.Todo: {"project": "project", "parent": "todo", "subtasks": "todo",
                 "blocked_by": "todo", "related": "memory"},
}  # fmt: skip


class Renamed(NamedTuple):
    """An item with its new ids, and whether its id is reversible."""

    item: model.Item
    kept: bool


def kind_of(item: model.Item) -> model.Kind | None:
    return _KINDS.get(type(item))


def renamed(held: Sequence[LocatedItem], names: base.DocumentIds) -> Iterator[Renamed]:
    given = [_given(one, names) for one in held]
    for one, id in zip(held, given, strict=True):
        yield _renamed(one, id, names)


def _given(one: LocatedItem, names: base.DocumentIds) -> str:
    kind, item = kind_of(one.item), one.item
    if kind is None:
        return item.id
    external = getattr(item, "external", None)
    name = item.name if isinstance(item, model.Entity) else None
    return names.give(kind, item.id, external=external, name=name)


def _renamed(one: LocatedItem, id: str, names: base.DocumentIds) -> Renamed:
    item, kind = one.item, kind_of(one.item)
    if kind is None:
        return Renamed(item, False)
    more: dict[str, Any] = {"id": id}
    for name, of in _REFERENCES.get(type(item), {}).items():
        value = getattr(item, name)
        if isinstance(value, str):
            more[name] = names.of(of, value)
        elif value:
            more[name] = tuple(names.of(of, each) for each in value)
    if isinstance(item, model.MemoryItem):
        more["entities"] = tuple(
            replace(each, of=None if each.of is None else names.of("entity", each.of))
            for each in item.entities
        )
    if isinstance(item, model.Relation):
        more["source"] = names.of(item.source_kind, item.source)
        more["target"] = names.of(item.target_kind, item.target)
    external = getattr(item, "external", None)
    if names.format.external == "id" and external == id:
        more["external"] = None  # the id itself now
    elif names.format.external == "member" and isinstance(item, model.MemoryItem | model.Todo):
        if one.format is not None and external is None and not _returns(one, id, names, None):
            external = more["external"] = item.id
    kept = one.format is None or _returns(one, id, names, more.get("external", external))
    return Renamed(replace(item, **more), kept)


def _returns(one: LocatedItem, id: str, names: base.DocumentIds, external: str | None) -> bool:
    """Whether the original id can be restored from a new id."""
    kind, item, format = kind_of(one.item), one.item, one.format
    assert kind is not None and format is not None
    if kind == "relation":
        # Formats without relation ids make the id of a relation's ends.
        return not format.relation_ids
    name = item.name if isinstance(item, model.Entity) else None
    placed = external if names.format.external == "member" else None
    return format.hub.id_of(base.OtherId(kind, id, placed, name)) == item.id


MEMBER: Final = aimem.CARRIED
_GRAINS: Final = "grains"
_VENDORS: Final = "vendor_extensions"


def load_up(made: Made, heap: Heap, to: Format, vectors: Mapping[str, Vector]) -> None:
    """Put the grains into a document made of them."""
    own = {one.address for one in heap.records.get(to.name, ())}
    own |= {part for address in own for part in parts_of(heap.grains[address])}
    left = dict.fromkeys(address for address in heap.grains if address not in own)
    for array in made.arrays.values() if to.carries_inside else ():
        for record, address in array:
            if address not in left:
                continue
            del left[address]
            if member_of(record) is None:  # else it carries the grain already
                member: dict[str, Any] = {"address": address, "blob": _text(heap.grains[address])}
                if (
                    to.carries_vectors
                    and address in vectors
                    and not holds_embedding(heap.grains[address])
                ):
                    model, data = vectors[address]
                    said = base64.b64encode(data).decode("ascii")
                    member |= {"model": model, "vector": said}
                to.carry(record, member)
    if left:
        beside = {address: _text(heap.grains[address]) for address in left}
        to.carry_beside(made.envelope, beside)


def vector_of(record: Mapping[str, Any]) -> Vector | None:
    member = member_of(record)
    if not isinstance(member, dict) or not isinstance(member.get("model"), str):
        return None
    try:
        data = base64.b64decode(str(member.get("vector")), validate=True)
    except (binascii.Error, ValueError):
        return None
    return Vector(member["model"], data) if data and len(data) % 4 == 0 else None


def holds_embedding(grain: Grain) -> bool:
    """Whether the grain itself holds its embedding: of MIF it does, of a bundle it does not."""
    source = Source.of(grain)
    known = None if source is None else FORMATS.get(source.format)
    return isinstance(known, Mif) and known.embedding_member is not None


def carried(envelope: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> list[Grain]:
    """Return the carried grains; skip damaged ones without a report."""
    found: dict[str, Grain] = {}
    for address, blob in _members(envelope, records):
        try:
            grain = Grain(base64.b64decode(blob, validate=True))
        except (OmsError, binascii.Error, ValueError):
            continue
        if grain.address == address:
            found[address] = grain
    return list(found.values())


def _members(
    envelope: Mapping[str, Any], records: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    for record in records:
        member = member_of(record)
        if isinstance(member, dict):
            yield from _pair(member.get("address"), member.get("blob"))
    vendors = envelope.get(_VENDORS) or _extensions(envelope)
    beside = vendors.get(mif2.CARRIED) if isinstance(vendors, dict) else envelope.get(MEMBER)
    grains = beside.get(_GRAINS) if isinstance(beside, dict) else None
    for address, blob in grains.items() if isinstance(grains, dict) else ():
        yield from _pair(address, blob)


def has_beside(envelope: Mapping[str, Any]) -> bool:
    extensions = _extensions(envelope)
    return isinstance(extensions, dict) and mif_ld.CARRIED in extensions


def member_of(record: Mapping[str, Any]) -> Any:
    """Return the grain that a record carries; None if it carries none."""
    return record.get(MEMBER) or mif_ld.member_of(record)


def _extensions(envelope: Mapping[str, Any]) -> Any:
    files = envelope.get("files")
    first = files[0] if isinstance(files, list) and files else None
    whole = first.get("corpus") if isinstance(first, dict) else None
    return whole.get("extensions") if isinstance(whole, dict) else None


def _pair(address: Any, blob: Any) -> Iterator[tuple[str, str]]:
    if isinstance(address, str) and isinstance(blob, str):
        yield address, blob


def _text(grain: Grain) -> str:
    return base64.b64encode(grain.blob).decode("ascii")
