# SPDX-License-Identifier: Apache-2.0
"""Items with the ids of another format, and every reference with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from omsgrain.formats import model
from omsgrain.formats.convert.base import DocumentIds
from omsgrain.formats.convert.gather import NATIVE, LocatedItem
from omsgrain.formats.table import FORMATS

_KINDS: Final[dict[type[model.Item], model.Kind]] = {
    model.Memory: "memory",
    model.Todo: "todo",
    model.Project: "project",
    model.Reminder: "reminder",
    model.Entity: "entity",
    model.Relation: "relation",
}
_REFERENCES: Final[dict[type[model.Item], dict[str, model.Kind]]] = {
    model.Memory: {"parent": "memory", "related": "memory", "related_todos": "todo"},
    model.Todo: {"project": "project", "parent": "todo", "subtasks": "todo",
                 "blocked_by": "todo", "related": "memory"},
}  # fmt: skip


class Renamed(NamedTuple):
    """An item with its new ids, and whether the old one can be told from the new one."""

    item: model.Item
    kept: bool


def kind_of(item: model.Item) -> model.Kind | None:
    """Of what an item has the id; None if it has one of no kind that another format knows."""
    return _KINDS.get(type(item))


def renamed(held: Sequence[LocatedItem], names: DocumentIds) -> Iterator[Renamed]:
    """The items with the ids of another format."""
    given = [_given(one, names) for one in held]
    for one, id in zip(held, given, strict=True):
        yield _renamed(one, id, names)


def _given(one: LocatedItem, names: DocumentIds) -> str:
    kind, item = kind_of(one.item), one.item
    if kind is None:
        return item.id
    external = getattr(item, "external", None)
    name = item.name if isinstance(item, model.Entity) else None
    return names.give(kind, item.id, external=external, name=name)


def _renamed(one: LocatedItem, id: str, names: DocumentIds) -> Renamed:
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
    if isinstance(item, model.Memory):
        more["entities"] = tuple(
            replace(each, of=None if each.of is None else names.of("entity", each.of))
            for each in item.entities
        )
    if isinstance(item, model.Relation):
        more["source"] = names.of(item.source_kind, item.source)
        more["target"] = names.of(item.target_kind, item.target)
    external = getattr(item, "external", None)
    if names.format.external == "id" and external == id:
        more["external"] = None  # which it is now
    elif names.format.external == "member" and isinstance(item, model.Memory | model.Todo):
        if one.format != NATIVE and external is None and not _returns(one, id, names, None):
            external = more["external"] = item.id
    kept = one.format == NATIVE or _returns(one, id, names, more.get("external", external))
    return Renamed(replace(item, **more), kept)


def _returns(one: LocatedItem, id: str, names: DocumentIds, external: str | None) -> bool:
    """Whether an id gives the one that it was made of."""
    kind, item = kind_of(one.item), one.item
    assert kind is not None
    if kind == "relation":
        # Where relations have no id, it is made of what they join.
        return not FORMATS[one.format].relation_ids
    name = item.name if isinstance(item, model.Entity) else None
    placed = external if names.format.external == "member" else None
    hub = FORMATS[one.format].hub
    return hub.id_of(kind, id, external=placed, name=name) == item.id
