# SPDX-License-Identifier: Apache-2.0
"""An ontology and its parts; ``raw`` also holds unknown members.

Malformed parts are skipped, because the schema check reports them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from omsgrain.formats.json_text import pointer_to
from omsgrain.formats.records import object_of, objects_at

BASES: Final = ("semantic", "episodic", "procedural")
PATHS: Final = 1 << 20
"""Characters of all namespace paths. A name repeats in every path below it."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trait:
    name: str  # its name
    ontology: str  # the id of its ontology
    pointer: str  # its JSON pointer in that ontology
    extends: tuple[str, ...]  # the names of the traits whose fields it inherits
    fields: Mapping[str, Any]  # schemas of fields by name
    requires: tuple[str, ...]  # members that a memory with this trait must have
    raw: Json = field(repr=False)  # the whole object


@dataclass(frozen=True, slots=True)
class EntityType:
    name: str  # its name
    ontology: str  # the id of its ontology
    pointer: str  # its JSON pointer in that ontology
    base: str | None  # the memory type that it is for; None if it names none
    traits: tuple[str, ...]  # names of traits
    subtype_of: tuple[str, ...]  # names of its parent types
    required: tuple[str, ...]  # names of required fields
    properties: Mapping[str, Any]  # schemas of its own fields by name
    raw: Json = field(repr=False)  # the whole object


@dataclass(frozen=True, slots=True)
class Namespace:
    path: str  # the names from the root, joined by ``/``
    ontology: str  # the id of its ontology
    pointer: str  # its JSON pointer in that ontology
    type_hint: str | None  # the memory type that it is for
    replaces: str | None  # the path of the namespace that this one replaces
    raw: Json = field(repr=False)  # the whole object


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relationship. Empty ends, or ends with ``*``, allow any type."""

    name: str
    ontology: str
    pointer: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    symmetric: bool
    raw: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ontology:
    id: str  # its id; empty if it has none
    version: str  # its version; empty if it has none
    extends: tuple[str, ...]  # ids of ontologies
    traits: Mapping[str, Trait]  # by name
    types: Mapping[str, EntityType]  # by name
    namespaces: tuple[Namespace, ...]  # all namespaces, parents before children
    relations: Mapping[str, Relationship]  # by name
    discovery: Json = field(repr=False)  # the ``discovery`` object
    document: Json = field(repr=False)  # the whole document
    is_cut: bool = False  # whether namespaces were skipped because of the limit

    @property
    def enabled(self) -> bool:
        return self.discovery.get("enabled") is True


def made(document: Json) -> Ontology:
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
    """Yield the members of an object that are objects."""
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
    """Return all namespaces, and whether some were skipped."""
    waiting: deque[tuple[tuple[str, ...], str, Json]] = deque(
        (("namespaces", key), key, one) for key, one in named(roots)
    )
    made: list[Namespace] = []
    left = PATHS
    while waiting:  # a loop, because the nesting can be deeper than the call stack
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
"""Reported cycles. Each can be as long as all names together."""
_SHOWN: Final = 10


def ordered(
    roots: Iterable[str], above: Callable[[str], Iterable[str]]
) -> tuple[list[str], list[list[str]]]:
    """Return the names in depth-first order from the roots, and the cycles."""
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
    """Return a name and everything above it, nearest first."""
    found = {start: None}
    waiting = [start]
    for name in waiting:
        for upper in above(name):
            if upper not in found:
                found[upper] = None
                waiting.append(upper)
    return waiting


def said(cycle: Sequence[str]) -> str:
    """Describe a cycle; shorten a long one."""
    shown = [*cycle[:_SHOWN], *(["..."] if len(cycle) > _SHOWN else []), cycle[0]]
    return " -> ".join(shown)


Part = Trait | EntityType | Relationship
_P = TypeVar("_P", Trait, EntityType, Relationship)


@dataclass(frozen=True, slots=True)
class OntologyScope:
    ontology: Ontology  # the ontology itself
    order: tuple[Ontology, ...]  # the extended ontologies, then the ontology itself
    missing: tuple[str, ...]  # ids of extended ontologies that are not loaded
    cycles: tuple[tuple[str, ...], ...]  # ids that extend one another in a circle
    # the visible parts, by name; each names its own ``ontology``
    traits: Mapping[str, Trait]
    types: Mapping[str, EntityType]
    relations: Mapping[str, Relationship]  # by folded name
    namespaces: Mapping[str, Namespace]  # by folded path
    replacing: Mapping[str, Namespace]  # by the folded path that each replaces
    # pairs of parts of the same name, from unrelated ontologies
    redefined: tuple[tuple[Part, Part], ...]

    def parents(self, name: str) -> tuple[str, ...]:
        """The known parent types of a type."""
        one = self.types.get(name)
        return () if one is None else tuple(p for p in one.subtype_of if p in self.types)


def scope_of(own: Ontology, find: Callable[[str], Ontology | None]) -> OntologyScope:
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
        traits,
        types,
        relations,
        namespaces,
        replacing,
        tuple(redefined),
    )


def _add(
    mine: Mapping[str, _P],
    into: dict[str, _P],
    key: Callable[[str], str],
    over: set[str],
    redefined: list[tuple[Part, Part]],
) -> None:
    """Add an ontology's parts to the earlier ones; ``over`` holds the ids that it extends."""
    for name, part in mine.items():
        before = into.get(key(name))
        if before is not None and before.ontology not in over and before.raw != part.raw:
            redefined.append((before, part))
        into[key(name)] = part


def fold_name(name: str) -> str:
    """Fold the spellings of a relationship's name: ``farm:LocatedOn`` equals ``located_on``."""
    return name.rpartition(":")[2].replace("-", "").replace("_", "").casefold()


def fold_path(path: str) -> str:
    """Fold a namespace path: ``_semantic/facts`` becomes ``semantic/facts``."""
    return path.removeprefix("_")


LONGEST: Final = 4_096
"""Characters of a path; a longer path matches no namespace."""


def namespace_at(scope: OntologyScope, path: str) -> Namespace | None:
    return scope.namespaces.get(fold_path(path))


def replacement(scope: OntologyScope, path: str) -> Namespace | None:
    """Return the namespace that replaces a path or its nearest ancestor."""
    folded = fold_path(path)
    for replaced in _upwards(folded):
        found = scope.replacing.get(replaced)
        # A path inside the new namespace stays, even if that is inside the old one.
        if found is not None and not f"{folded}/".startswith(f"{fold_path(found.path)}/"):
            return found
    return None


def _upwards(path: str) -> Iterator[str]:
    """Yield a path and its ancestors; nothing if the path is too long."""
    while path and len(path) <= LONGEST:
        yield path
        path = path.rpartition("/")[0]


def choose_namespace(scope: OntologyScope, path: str) -> str:
    """Return the namespace path for a memory.

    Args:
        scope: the ontology.
        path: the wanted path. If a namespace of the ontology ``replaces`` it, the result is that
            namespace with the rest of the path. A leading underscore stays.
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
    """Return the memory type for an entity type, else for a namespace.

    Args:
        scope: the ontology.
        entity: an entity type.
        namespace: a path. Its nearest ``type_hint``, at it or above it, decides; without one, a
            root named like a memory type.
    """
    known = None if entity is None else scope.types.get(entity)
    if known is not None and known.base is not None:
        return known.base
    if namespace is None:
        return None
    for path in _upwards(fold_path(choose_namespace(scope, namespace))):
        found = scope.namespaces.get(path)
        if found is not None and found.type_hint is not None:
            return found.type_hint
        if path in BASES:
            return path
    return None
