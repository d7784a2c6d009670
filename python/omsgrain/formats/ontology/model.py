# SPDX-License-Identifier: Apache-2.0
"""An ontology and its parts, as they were written; what is not known stays in ``raw``.

Malformed parts are left out here: the schema has reported them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from omsgrain.formats.problems import pointer_to
from omsgrain.formats.records import object_of, objects_at

BASES: Final = ("semantic", "episodic", "procedural")
"""The types of memory."""
PATHS: Final = 1 << 20
"""Characters of all paths of namespaces: each name stands in the paths of all below it."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trait:
    """Fields that several types of entities have.

    Attributes:
        name: its name.
        ontology: the id of the ontology that it stands in.
        pointer: where it stands there.
        extends: the names of the traits that it has the fields of.
        fields: schemas of fields by name.
        requires: members that a memory with this trait must have.
        raw: all of it.
    """

    name: str
    ontology: str
    pointer: str
    extends: tuple[str, ...]
    fields: Mapping[str, Any]
    requires: tuple[str, ...]
    raw: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class EntityType:
    """A type of entities.

    Attributes:
        name: its name.
        ontology: the id of the ontology that it stands in.
        pointer: where it stands there.
        base: the type of memories that it is for; None if it is none.
        traits: names of traits.
        subtype_of: names of the types in whose place it may stand.
        required: fields that must be there.
        properties: schemas of its own fields by name.
        raw: all of it.
    """

    name: str
    ontology: str
    pointer: str
    base: str | None
    traits: tuple[str, ...]
    subtype_of: tuple[str, ...]
    required: tuple[str, ...]
    properties: Mapping[str, Any]
    raw: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and those in it.

    Attributes:
        path: the names from the root on, as they were written.
        ontology: the id of the ontology that it stands in.
        pointer: where it stands there.
        type_hint: the type of memories that it is for.
        replaces: the path of the namespace that this one replaces.
        raw: all of it.
    """

    path: str
    ontology: str
    pointer: str
    type_hint: str | None
    replaces: str | None
    raw: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relationship. No ends, or ``*`` among them, are any types."""

    name: str
    ontology: str
    pointer: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    symmetric: bool
    raw: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ontology:
    """An ontology as it was written.

    Attributes:
        id: its id; empty if it has none.
        version: its version; empty if it has none.
        extends: ids of ontologies.
        traits: by name.
        types: by name.
        namespaces: all of them, those above before those in them.
        relations: by name.
        discovery: as it was written.
        document: the whole document.
        is_cut: whether there are more namespaces than are taken.
    """

    id: str
    version: str
    extends: tuple[str, ...]
    traits: Mapping[str, Trait]
    types: Mapping[str, EntityType]
    namespaces: tuple[Namespace, ...]
    relations: Mapping[str, Relationship]
    discovery: Json = field(repr=False)
    document: Json = field(repr=False)
    is_cut: bool = False

    @property
    def enabled(self) -> bool:
        """Whether its patterns are to be used."""
        return self.discovery.get("enabled") is True


def made(document: Json) -> Ontology:
    """The ontology of a document."""
    head = object_of(document, "ontology")
    name, version = head.get("id"), head.get("version")
    own = name if isinstance(name, str) else ""
    types: dict[str, EntityType] = {}
    for at, one in objects_at(document, "entity_types"):
        if isinstance(one.get("name"), str):
            types.setdefault(one["name"], _type(one, own, pointer_to(("entity_types", at))))
    spaces, is_cut = _namespaces(document.get("namespaces"), own)
    return Ontology(
        own,
        version if isinstance(version, str) else "",
        _texts(head.get("extends")),
        {
            key: _trait(key, one, own, pointer_to(("traits", key)))
            for key, one in named(document.get("traits"))
        },
        types,
        spaces,
        {
            key: _relation(key, one, own, pointer_to(("relationships", key)))
            for key, one in named(document.get("relationships"))
        },
        object_of(document, "discovery"),
        document,
        is_cut,
    )


def named(value: Any) -> Iterator[tuple[str, Json]]:
    """The objects in an object."""
    members = value.items() if isinstance(value, dict) else ()
    return ((key, one) for key, one in members if isinstance(one, dict))


def _type(one: Json, own: str, pointer: str) -> EntityType:
    schema, base = object_of(one, "schema"), one.get("base")
    return EntityType(
        one["name"],
        own,
        pointer,
        base if base in BASES else None,
        _texts(one.get("traits")),
        _texts(one.get("subtype_of")),
        _texts(schema.get("required")),
        object_of(schema, "properties"),
        one,
    )


def _trait(name: str, one: Json, own: str, pointer: str) -> Trait:
    fields, requires = object_of(one, "fields"), _texts(one.get("requires"))
    return Trait(name, own, pointer, _texts(one.get("extends")), fields, requires, one)


def _relation(name: str, one: Json, own: str, pointer: str) -> Relationship:
    ends = _texts(one.get("from")), _texts(one.get("to"))
    return Relationship(name, own, pointer, *ends, one.get("symmetric") is True, one)


def _namespaces(roots: Any, own: str) -> tuple[tuple[Namespace, ...], bool]:
    """All namespaces, and whether some were left out."""
    waiting: deque[tuple[tuple[str, ...], str, Json]] = deque(
        (("namespaces", key), key, one) for key, one in named(roots)
    )
    made: list[Namespace] = []
    left = PATHS
    while waiting:  # a list, not calls: they may stand deep inside one another
        way, path, one = waiting.popleft()
        left -= len(path)
        if left < 0:
            return tuple(made), True
        hint, replaces = one.get("type_hint"), one.get("replaces")
        made.append(
            Namespace(
                path,
                own,
                pointer_to(way),
                hint if hint in BASES else None,
                replaces if isinstance(replaces, str) else None,
                one,
            )
        )
        inner = list(named(one.get("children")))
        if (len(path) + 1) * len(inner) > left:
            return tuple(made), True
        waiting += [((*way, "children", key), f"{path}/{key}", child) for key, child in inner]
    return tuple(made), False


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


MOST: Final = 100
"""Cycles that are told, for each can be as long as all names."""
_SHOWN: Final = 10


def ordered(
    roots: Iterable[str], above: Callable[[str], Iterable[str]]
) -> tuple[list[str], list[list[str]]]:
    """Go depth first from the roots up, each name once."""
    order: list[str] = []
    cycles: list[list[str]] = []
    done: set[str] = set()
    for root in roots:
        if root in done:
            continue
        path: dict[str, Iterator[str]] = {root: iter(above(root))}  # keeps its order
        while path:
            name = next(reversed(path))
            for upper in path[name]:
                if upper in path:
                    if len(cycles) < MOST:
                        names = list(path)
                        cycles.append(names[names.index(upper) :])
                elif upper not in done:
                    path[upper] = iter(above(upper))
                    break
            else:
                del path[name]
                done.add(name)
                order.append(name)
    return order, cycles


def reached(start: str, above: Callable[[str], Iterable[str]]) -> list[str]:
    """A name and everything above it, the nearest first."""
    found = {start: None}
    waiting = [start]
    for name in waiting:
        for upper in above(name):
            if upper not in found:
                found[upper] = None
                waiting.append(upper)
    return waiting


def said(cycle: Sequence[str]) -> str:
    """A cycle in words; of a long one its beginning."""
    shown = [*cycle[:_SHOWN], *(["..."] if len(cycle) > _SHOWN else []), cycle[0]]
    return " -> ".join(shown)


Part = Trait | EntityType | Relationship
_P = TypeVar("_P", Trait, EntityType, Relationship)


@dataclass(frozen=True, slots=True)
class OntologyParts:
    """What an ontology sees, by name; each part says by ``ontology`` where it stands."""

    traits: Mapping[str, Trait]
    types: Mapping[str, EntityType]
    relations: Mapping[str, Relationship]
    namespaces: Mapping[str, Namespace]
    replacing: Mapping[str, Namespace]


@dataclass(frozen=True, slots=True)
class OntologyScope:
    """An ontology and all that it sees.

    Attributes:
        ontology: that one.
        order: what it extends, and it itself at the end.
        missing: ids that are extended, and not loaded.
        cycles: ids that extend one another in a circle.
        parts: all that is seen. Relationships stand by folded names, namespaces by folded
            paths, and again by the folded paths of what they replace.
        redefined: pairs of parts with one name, of ontologies neither of which extends the other.
    """

    ontology: Ontology
    order: tuple[Ontology, ...]
    missing: tuple[str, ...]
    cycles: tuple[tuple[str, ...], ...]
    parts: OntologyParts
    redefined: tuple[tuple[Part, Part], ...]

    def parents(self, name: str) -> tuple[str, ...]:
        """The types that a type is a subtype of, as far as they are known."""
        one = self.parts.types.get(name)
        return () if one is None else tuple(p for p in one.subtype_of if p in self.parts.types)


def scope_of(own: Ontology, find: Callable[[str], Ontology | None]) -> OntologyScope:
    """Put together what an ontology sees."""
    known: dict[str, Ontology] = {own.id: own}
    missing: dict[str, None] = {}

    def above(name: str) -> list[str]:
        listed = []
        for upper in known[name].extends:
            found = known.get(upper) or find(upper)
            if found is None:
                missing.setdefault(upper)
            else:
                known[upper] = found
                listed.append(upper)
        return listed

    names, cycles = ordered([own.id], above)
    order = tuple(known[name] for name in names)
    traits: dict[str, Trait] = {}
    types: dict[str, EntityType] = {}
    relations: dict[str, Relationship] = {}
    namespaces: dict[str, Namespace] = {}
    redefined: list[tuple[Part, Part]] = []
    for one in order:
        over = set(reached(one.id, above))
        _add(one.traits, traits, str, over, redefined)
        _add(one.types, types, str, over, redefined)
        _add(one.relations, relations, fold_name, over, redefined)
        namespaces.update({fold_path(space.path): space for space in one.namespaces})
    replacing = {
        fold_path(space.replaces): space for space in namespaces.values() if space.replaces
    }
    return OntologyScope(
        own,
        order,
        tuple(missing),
        tuple(tuple(cycle) for cycle in cycles),
        OntologyParts(traits, types, relations, namespaces, replacing),
        tuple(redefined),
    )


def _add(
    mine: Mapping[str, _P],
    into: dict[str, _P],
    key: Callable[[str], str],
    over: set[str],
    redefined: list[tuple[Part, Part]],
) -> None:
    """Add the parts of an ontology to those of the ones before; ``over``: what it extends."""
    for name, part in mine.items():
        before = into.get(key(name))
        if before is not None and before.ontology not in over and before.raw != part.raw:
            redefined.append((before, part))
        into[key(name)] = part


def fold_name(name: str) -> str:
    """A name of a relationship, however it is spelled: ``farm:LocatedOn`` is ``located_on``."""
    return name.rpartition(":")[2].replace("-", "").replace("_", "").casefold()


def fold_path(path: str) -> str:
    """A path of a namespace: ``_semantic/facts`` is ``semantic/facts``."""
    return path.removeprefix("_")


LONGEST: Final = 4_096
"""Characters of a path; one that is longer is that of no namespace."""


def namespace_at(scope: OntologyScope, path: str) -> Namespace | None:
    """The namespace of a path; None if there is none."""
    return scope.parts.namespaces.get(fold_path(path))


def replacement(scope: OntologyScope, path: str) -> Namespace | None:
    """The namespace that replaces that of a path, or the nearest one above it."""
    folded = fold_path(path)
    for replaced in _upwards(folded):
        found = scope.parts.replacing.get(replaced)
        # Values already in the new one are not moved again, even inside the old one.
        if found is not None and not _within(folded, fold_path(found.path)):
            return found
    return None


def _upwards(path: str) -> Iterator[str]:
    """A path, and those above it; none, of one that is too long to be one."""
    while path and len(path) <= LONGEST:
        yield path
        path = path.rpartition("/")[0]


def choose_namespace(scope: OntologyScope, path: str) -> str:
    """The path that a memory should have.

    Args:
        scope: the ontology.
        path: what is asked or suggested. Where the ontology has a namespace that ``replaces``
            it, that one is chosen, with the rest of the path; an underscore stays.
    """
    found = replacement(scope, path)
    if found is None or found.replaces is None:
        return path
    rest = fold_path(path)[len(fold_path(found.replaces)) :]
    mark = "_" if path.startswith("_") and not found.path.startswith("_") else ""
    return mark + found.path + rest


def choose_type(
    scope: OntologyScope, *, entity: str | None = None, namespace: str | None = None
) -> str | None:
    """The type of memory to make: that of the entity, else what the namespace hints at.

    Args:
        scope: the ontology.
        entity: a type of entity.
        namespace: a path. The nearest ``type_hint`` at it or above it counts; without one, a
            root that is called by a type of memory is for it.
    """
    known = None if entity is None else scope.parts.types.get(entity)
    if known is not None and known.base is not None:
        return known.base
    if namespace is None:
        return None
    for path in _upwards(fold_path(choose_namespace(scope, namespace))):
        found = scope.parts.namespaces.get(path)
        if found is not None and found.type_hint is not None:
            return found.type_hint
        if path in BASES:
            return path
    return None


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
