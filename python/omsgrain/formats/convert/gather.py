# SPDX-License-Identifier: Apache-2.0
"""Converts grains to items: records in document order, and native grains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from omsgrain import _core
from omsgrain.errors import SchemaError
from omsgrain.formats import model, times
from omsgrain.formats import source as raw
from omsgrain.formats.aimem.records import PLAIN, text_of
from omsgrain.formats.base import Format
from omsgrain.formats.convert.aimem import vector_of
from omsgrain.formats.convert.base import BELIEFS, NOT_ASKED, ClassShape, Content, of_address
from omsgrain.formats.document import Loss, Manifest, Vector, manifest, open_manifest
from omsgrain.formats.mif import Mif
from omsgrain.formats.records import BuiltGrain, Record, is_duplicate
from omsgrain.formats.source import Source
from omsgrain.formats.table import FORMATS
from omsgrain.grain import Grain
from omsgrain.grain import bare as unsigned

_TYPES: Final = {
    "observation": "observation",
    "state": "context",
    "goal": "intention",
    "workflow": "procedure",
    "action": "task",
    "reasoning": "learning",
    "consensus": "decision",
    "event": "conversation",
}
"""Grain type -> default memory type."""
_PRIORITIES: Final = {"hot": "critical", "warm": "important", "cold": "standard"}


def item(grain: Grain, format: Format, owner: str | None) -> model.MemoryItem:
    content, used = text_of(grain, owner, format.said_by_type)
    plain = PLAIN - {"namespace"}
    rest = {name: grain[name] for name in grain if name not in used and name not in plain}
    importance, session = rest.get("importance"), rest.get("session_id")
    given: dict[str, Any] = {}
    if isinstance(importance, int | float) and 0 <= importance <= 1:
        given["importance"] = rest.pop("importance")
    if isinstance(session, str):
        given["origin"] = model.Provenance(session=rest.pop("session_id"))
    if (priority := _PRIORITIES.get(grain.get("recall_priority", ""))) is not None:
        given["priority"] = priority
    if _locked(grain):
        given["pinned"] = True
        rest.pop("invalidation_policy")
    return model.MemoryItem(
        id=of_address(grain.address),
        content=content,
        type=_type(grain),
        created_at=times.spell(grain["created_at"]),
        tags=tuple(grain.get("structural_tags", ())),
        rest=rest,
        **given,
    )


def _type(grain: Grain) -> str:
    kind = str(grain["type"])
    if kind == "belief":
        derived = grain.get("epistemic_status") == "derived"
        known = "discovery" if derived else "learning"
        return BELIEFS.get(grain.get("relation", ""), known)
    if kind == "action" and grain.get("tool_name") in ("code_edit", "file_access", "search",
                                                       "command"):  # fmt: skip
        return str(grain["tool_name"])
    if kind == "event" and grain.get("role") == "system":
        return "error"
    return _TYPES.get(kind, "observation")


def _locked(grain: Grain) -> bool:
    """Whether a grain's policy is exactly ``soft_locked``."""
    policy = grain.get("invalidation_policy")
    return isinstance(policy, Mapping) and dict(policy) == {"mode": "soft_locked"}


@dataclass(frozen=True, slots=True)
class LocatedItem:
    item: model.Item  # the item
    format: Format | None  # its original format; None if its grain never was a record
    address: str  # its grain's address; empty for a part of another record

    @property
    def name(self) -> str:
        """By what losses of it are reported."""
        return self.address if self.format is None else self.item.id

    @property
    def shape(self) -> ClassShape | None:
        return None if self.format is None else self.format.hub.shape_of(self.item)


class Born(NamedTuple):
    """A record, its kind, and the address of its grain."""

    address: str
    kind: str
    record: Record


@dataclass(slots=True)
class Heap:
    """Grains, sorted by origin."""

    grains: dict[str, Grain]  # by address
    manifests: list[Manifest]  # the documents among them
    records: dict[str, list[Born]]  # records by format, in document order, with repetitions
    natives: list[str]  # addresses of grains that never were records
    beside: list[str]  # addresses of auxiliary grains, such as manifests
    # by format, the envelope of a document whose manifest is not among the grains
    said: dict[str, dict[str, Any]] = field(default_factory=dict)

    def only_user(self) -> str | None:
        # From the blobs: decoded fields of all grains would stay in memory, at twice their bytes.
        users = set(_core.user_ids([unsigned(grain.blob) for grain in self.grains.values()]))
        return users.pop() if len(users) == 1 else None

    def envelope(self, format: str) -> dict[str, Any]:
        found = [one for one in self.manifests if one.format == format]
        return found[0].envelope if found else {}

    def content(
        self, format: Format, vectors: Mapping[str, Vector]
    ) -> tuple[Content, list[LocatedItem]]:
        records = self.records.get(format.name, [])
        bare = [(one.kind, one.record) for one in records]
        around = self.envelope(format.name) or self.said.get(format.name, {})
        said = format.hub.read(bare, around)
        held = []
        for item, at in said.found:
            address = records[at].address if at >= 0 else ""
            rest = {name: value for name, value in item.rest.items() if name != _CARRIED}
            item = replace(item, rest=rest)
            if (
                isinstance(item, model.MemoryItem)
                and item.embedding is None
                and address in vectors
            ):
                vector = vectors[address]
                item = replace(item, embedding=vector_of(vector.data, vector.model))
            held.append(LocatedItem(item, format, address))
        return said, held

    def held(
        self, vectors: Mapping[str, Vector], *, to: Format, owner: str | None
    ) -> tuple[model.Document, Format | None, list[LocatedItem]]:
        """Convert all records that do not have the format ``to``.

        Native grains are left to the format if it has its own way to write them. Returns the data
        around the records, its format, and the items.
        """
        document, found = model.Document(), list[LocatedItem]()
        of: Format | None = None
        for name, format in FORMATS.items():
            if format is not to and (self.records.get(name) or self.envelope(name)):
                said, held = self.content(format, vectors)
                if of is None or self.envelope(name):
                    document, of = said.document, format
                found += held
        for address in () if to.takes_natives else self.natives:
            found.append(LocatedItem(item(self.grains[address], to, owner), None, address))
        return document, of, found


_CARRIED = "x_omsgrain"


def heap(grains: Iterable[Grain]) -> Heap:
    by_address = {grain.address: grain for grain in grains}
    get = raw.getter(by_address)
    found = Heap(by_address, [], {}, [], [])
    for address, grain in by_address.items():
        source, of_own = Source.of(grain), raw.own(grain, get)
        if source is not None and (opened := open_manifest(grain, of_own)) is not None:
            found.manifests.append(opened)
            found.beside.append(address)
        elif source is not None and (record := born(grain, source, of_own)) is not None:
            found.records.setdefault(source.format, []).append(Born(address, *record))
        elif grain["type"] == "state" and raw.kind_of_ours(grain) is not None:
            found.beside.append(address)
        else:
            found.natives.append(address)
    formats = [one.format for one in found.manifests]
    if len(set(formats)) != len(formats):
        raise SchemaError(
            "the grains must be those of one document", found=f"{len(formats)} documents"
        )
    for one in found.manifests:
        _in_order(found, one)
    return found


def parts_of(grain: Grain) -> tuple[str, ...]:
    source = Source.of(grain)
    return () if source is None else source.parts


def born(grain: Grain, source: Source, get: raw.Get) -> tuple[str, Record] | None:
    known = FORMATS.get(source.format)
    return None if known is None else known.record_of(grain, get, source)


def _in_order(found: Heap, manifest: Manifest) -> None:
    """Sort a format's records: those of the document first, in its order."""
    records = found.records.get(manifest.format, [])
    known = {one.address: one for one in records}
    order = [known[one] for listed in manifest.arrays.values() for one in listed if one in known]
    listed = {one.address for one in order}
    found.records[manifest.format] = order + [one for one in records if one.address not in listed]


def bare(found: Heap, stays: str | None) -> tuple[Heap, list[Loss]]:
    """Remove the embeddings from records, and the kept text of a document, which has them too.

    Those of the format that stays are left to its document.
    """
    made: dict[str, BuiltGrain] = {}
    losses: list[Loss] = []
    for format in FORMATS.values():
        if not isinstance(format, Mif) or format.embedding_member is None or format.name == stays:
            continue
        member = format.embedding_member
        for one in found.records.get(format.name, ()):
            if isinstance(one.record.get(member), dict):
                made[one.address] = _without(found.grains[one.address], format, one)
                losses.append(Loss(str(one.record.get("id", "")), member, NOT_ASKED))
    if not made:
        return found, losses
    gone = {part for address in made for part in parts_of(found.grains[address])}
    # Manifests name addresses, so they change too.
    gone.update(found.beside)
    kept = [grain for address, grain in found.grains.items() if address not in gone]
    grains: list[Grain] = []
    for grain in kept:
        built = made.get(grain.address)
        grains += [grain] if built is None else [*built.parts, built.grain]
    for whole in found.manifests:
        arrays = {
            pointer: [made[one].grain.address if one in made else one for one in listed]
            for pointer, listed in whole.arrays.items()
        }
        was = next(g for g in found.grains.values() if _is_of(g, whole.id, whole.format))
        created_at, owner = was["created_at"], was.get("user_id")
        grains += manifest(replace(whole, arrays=arrays, text=()), created_at=created_at,
                           user_id=owner)  # fmt: skip
    needed = {part for grain in grains for part in parts_of(grain)} - {g.address for g in grains}
    grains += [found.grains[part] for part in needed if part in found.grains]
    again = heap(grains)
    again.said = found.said
    return again, losses


def _without(grain: Grain, format: Mif, one: Born) -> BuiltGrain:
    left = {name: value for name, value in one.record.items() if name != format.embedding_member}
    table, owner = format.table, grain.get("user_id")
    if not is_duplicate(grain):
        return table.to_grain(one.kind, left, owner=owner)
    context = grain["context"]
    of = str(context.get("of")) if isinstance(context, Mapping) else "-"
    return table.to_duplicate(one.kind, left, of=of, owner=owner)


def _is_of(grain: Grain, id: str, format: str) -> bool:
    source = Source.of(grain)
    return source is not None and (source.kind, source.id, source.format) == (
        "document",
        id,
        format,
    )
