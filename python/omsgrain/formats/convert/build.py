# SPDX-License-Identifier: Apache-2.0
"""A document of grains that came from another format, or from none.

Every item is written, what was written is read again, and what is then not said any more is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

from omsgrain._core import __version__
from omsgrain.errors import SchemaError
from omsgrain.formats import model
from omsgrain.formats.aimem import fields
from omsgrain.formats.aimem.fields import ARRAYS as AIMEM_ARRAYS
from omsgrain.formats.aimem.records import NO_TEXT, native
from omsgrain.formats.convert import aimem, base, mif_ld
from omsgrain.formats.convert.base import (
    AIMEM,
    MIF1,
    MIF2,
    MIF_LD,
    PRODUCER,
    Content,
    ConvertedDocument,
    DocumentIds,
    LossNames,
    SourcedItem,
    added,
    lost,
)
from omsgrain.formats.convert.gather import HUBS, NATIVE, NOT_ASKED, Heap, LocatedItem
from omsgrain.formats.convert.ids import Renamed, export_id, kind_of, renamed
from omsgrain.formats.document import Added, Loss, Vector
from omsgrain.formats.mif1.check import ARRAYS as MIF1_ARRAYS
from omsgrain.formats.mif1.check import CONSENT
from omsgrain.formats.mif2.check import ARRAYS as MIF2_ARRAYS
from omsgrain.formats.mif_ld.finding import Shape
from omsgrain.formats.times import spell

ARRAYS: Final[dict[str, Mapping[str, str]]] = {
    AIMEM: AIMEM_ARRAYS,
    MIF2: MIF2_ARRAYS,
    MIF1: {**MIF1_ARRAYS, CONSENT: "consent"},
    MIF_LD: {mif_ld.ARRAY: "memory"},
}
"""The kinds of the records in each array, by format."""

GENERATOR: Final = {"name": PRODUCER, "version": __version__}
"""What a document of MIF that is made anew says wrote it. Some readers require it."""
_NATIVE: Final = LossNames({})
_EXPORTS: Final = {AIMEM: "id", MIF2: "export_meta/id", MIF1: "export/id", MIF_LD: "id"}
"""Where the id of an export stands."""


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
        checksum: of MIF: whether a document that is made anew has its checksum.
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


@dataclass(slots=True)
class Made:
    """A document that was made.

    Attributes:
        envelope: with its arrays empty.
        arrays: the records, by pointer, each with the address of its grain, or with none.
        losses: what it does not say, as if nothing went along whole.
    """

    envelope: dict[str, Any]
    arrays: dict[str, list[tuple[dict[str, Any], str]]]
    losses: list[Loss] = field(default_factory=list)


def build(heap: Heap, to: str, vectors: Mapping[str, Vector], options: BuildOptions) -> Made:
    """Make a document of all that is not of its format already."""
    owner = heap.only_user()
    around, of, held = heap.held(vectors, to=to, owner=owner)
    hub, given = HUBS[to], DocumentIds(to, options.producer)
    for kind, id in _taken(heap, to, held) if held else ():
        given.give(kind, id)
    items = list(renamed(held, given))
    losses: list[Loss] = []
    if not options.embeddings:
        items = list(_without(held, items, losses))
    adapted = [hub.adapt(one.item) for one in items]
    document, kept = _document(heap, around, to, options)
    found = [SourcedItem(item, at) for at, item in enumerate(adapted) if item is not None]
    more: dict[str, Any] = {"producer": options.producer} if to == AIMEM else {}
    if to == MIF_LD:
        more["shape"] = options.shape or "0.1"
    written: ConvertedDocument = hub.write(Content(document, found), strict=options.strict, **more)
    losses += _losses(held, items, written, to)
    losses += _around(around, of, kept, written, to)
    arrays = {
        pointer: [(record, held[at].address if at >= 0 else "") for record, at in array]
        for pointer, array in written.arrays.items()
    }
    for address in heap.natives:
        if to == AIMEM:
            chunk, gone = native(
                heap.grains[address], producer=options.producer, owner=owner, strict=True
            )
            arrays["chunks"] += [] if chunk is None else [(chunk, address)]
            losses += gone
        if heap.grains[address].get("user_id") not in (None, document.user):
            losses.append(Loss(address, "user_id", "a document is of one user"))
    return Made(written.envelope, arrays, losses)


def _taken(heap: Heap, to: str, held: Sequence[LocatedItem]) -> Iterator[tuple[model.Kind, str]]:
    """The ids of records that are of the format already.

    In a document that was made of the others, what is only a part of one of them is there already,
    under the id that it has there.
    """
    if not heap.records.get(to):
        return
    parts = set()
    if heap.envelope(to):
        ids = [(kind_of(one.item), one.item.id) for one in held if not one.address]
        parts = {(kind, base.id_in(to, kind, id)) for kind, id in ids if kind is not None}
    for item, _ in HUBS[to].read([(one.kind, one.record) for one in heap.records[to]], {}).found:
        kind = kind_of(item)
        if kind is not None and kind != "relation" and (kind, item.id) not in parts:
            yield kind, item.id


def _without(
    held: Sequence[LocatedItem], items: Iterable[Renamed], losses: list[Loss]
) -> Iterator[Renamed]:
    """The items without their embeddings, each of which is lost."""
    for one, (item, kept) in zip(held, items, strict=True):
        if isinstance(item, model.Memory | model.Todo) and item.embedding is not None:
            said = _member(one, "embedding")
            losses.append(Loss(_name(one), said, NOT_ASKED))
            item = replace(item, embedding=None)
        yield Renamed(item, kept)


def _document(
    heap: Heap, around: model.Document, to: str, options: BuildOptions
) -> tuple[model.Document, bool]:
    """What is to stand around the records, and whether the export's id is kept."""
    user = options.user or around.user or heap.only_user()
    id, kept = export_id(to, around.id)
    if not id and to not in (AIMEM, MIF_LD):
        mark = sha256("".join(sorted(heap.grains)).encode()).hexdigest()
        id = export_id(to, base.of_address(mark))[0]
    if to == AIMEM:
        if not fields.is_producer(options.producer):
            raise SchemaError("not a producer namespace", expected="1 to 63 of a-z, 0-9 and -")
        user = aimem.tenant_of(user)
        if user is None:
            raise SchemaError("whose bundle it is", field="/tenant_id", expected="a UUID or a URI")
    exported_at = (
        options.exported_at
        or around.exported_at
        or spell(max((grain["created_at"] for grain in heap.grains.values()), default=0))
    )
    named = all(isinstance(around.generator.get(name), str) for name in GENERATOR)
    generator = around.generator if named else options.generator
    told = replace(around, id=id, user=user, exported_at=exported_at, generator=generator)
    return told, kept


# -- losses ---------------------------------------------------------------------------------------


def _losses(
    held: Sequence[LocatedItem], items: Sequence[Renamed], written: ConvertedDocument, to: str
) -> Iterator[Loss]:
    again = _again(written, to)
    for one, (item, kept) in zip(held, items, strict=True):
        back = again(item)
        told = _NATIVE if one.format == NATIVE else HUBS[one.format].TOLD
        kinds = {} if one.format == NATIVE else HUBS[one.format].CLASSES
        shape = next((each for each in kinds.values() if each.cls is type(item)), None)
        seen = set()
        if one.format == NATIVE and isinstance(item, model.Memory) and not item.content:
            seen.add("content")
            yield Loss(_name(one), "content", NO_TEXT)
        if back is not None and not kept:
            seen.add("id")
            yield Loss(_name(one), "id", f"{HUBS[to].TITLE} has ids of another form")
        for name, why in lost(item, back, shape, told, HUBS[to].TITLE):
            if name not in seen:
                seen.add(name)
                yield Loss(_name(one), name, why)
        there = next((s for s in HUBS[to].CLASSES.values() if s.cls is type(back)), None)
        for name in added(item, back, there, HUBS[to].TOLD):
            yield Added(_name(one), name, f"{HUBS[to].TITLE} needs it, and nothing says it")


def _again(written: ConvertedDocument, to: str) -> Callable[[model.Item], model.Item | None]:
    """What a document says of an item that was written to it, each once."""
    arrays = ARRAYS[to]
    records = [
        (arrays[pointer], record) for pointer, array in written.arrays.items()
        for record, _ in array
    ]  # fmt: skip
    found: dict[tuple[type, str], list[model.Item]] = {}
    mentioned: set[tuple[str, str | None]] = set()
    for item, _ in HUBS[to].read(records, written.envelope).found:
        found.setdefault(_key(item), []).append(item)
        if isinstance(item, model.Memory):
            mentioned.update((item.id, mention.of) for mention in item.entities)
    for same in found.values():
        same.reverse()

    def back(item: model.Item) -> model.Item | None:
        same = found.get(_key(item))
        if same:
            return same.pop()
        if isinstance(item, model.Relation) and (item.source, item.target) in mentioned:
            # A link says no more than that.
            return model.Relation(source=item.source, target=item.target, type=item.type)
        for cls in (model.Todo, model.Memory):
            # What has no kind of its own there is written as its nearest.
            if isinstance(item, model.Todo | model.Reminder) and found.get((cls, item.id)):
                return found[(cls, item.id)].pop()
        return None

    return back


def _key(item: model.Item) -> tuple[type, str]:
    if isinstance(item, model.Relation):
        return model.Relation, f"{item.source} {item.target}"
    return type(item), item.id


def _around(
    around: model.Document, of: str, kept: bool, written: ConvertedDocument, to: str
) -> Iterator[Loss]:
    if of == NATIVE:
        return
    if not kept:
        yield Loss("", _EXPORTS[of], f"{HUBS[to].TITLE} has ids of another form")
    back = HUBS[to].read([], written.envelope).document
    for name, why in lost(around, back, None, HUBS[of].TOLD, HUBS[to].TITLE):
        yield Loss("", name, why)


def _name(one: LocatedItem) -> str:
    return one.address if one.format == NATIVE else one.item.id


def _member(one: LocatedItem, name: str) -> str:
    if one.format == NATIVE:
        return name
    shapes = (each for each in HUBS[one.format].CLASSES.values() if each.cls is type(one.item))
    return next((each.member(name) for each in shapes), None) or name
