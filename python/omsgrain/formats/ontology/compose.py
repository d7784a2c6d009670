# SPDX-License-Identifier: Apache-2.0
"""All that an ontology sees: its own parts, and those of the ontologies that it extends.

Ontologies come depth first, each after all that it extends, in the order of ``extends``. Of parts
with one name the last counts: its own before any other, a later ``extends`` before an earlier one.
Names are looked up from the ontology in use, so what it defines anew counts for all it inherits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from omsgrain.formats.ontology.graph import ordered, reached
from omsgrain.formats.ontology.model import EntityType, Namespace, Ontology, Relation, Trait

__all__ = ["Parts", "Scope", "fold_name", "fold_path", "scope_of"]

Part = Trait | EntityType | Relation
_P = TypeVar("_P", Trait, EntityType, Relation)


@dataclass(frozen=True, slots=True)
class Parts:
    """What an ontology sees, by name; each part says by ``ontology`` where it stands."""

    traits: Mapping[str, Trait]
    types: Mapping[str, EntityType]
    relations: Mapping[str, Relation]
    namespaces: Mapping[str, Namespace]
    replacing: Mapping[str, Namespace]


@dataclass(frozen=True, slots=True)
class Scope:
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
    parts: Parts
    redefined: tuple[tuple[Part, Part], ...]

    def is_a(self, name: str, wanted: str) -> bool:
        """Whether a type may stand wherever another one may."""
        return wanted in reached(name, self.parents)

    def parents(self, name: str) -> tuple[str, ...]:
        """The types that a type is a subtype of, as far as they are known."""
        one = self.parts.types.get(name)
        return () if one is None else tuple(p for p in one.subtype_of if p in self.parts.types)


def scope_of(own: Ontology, find: Callable[[str], Ontology | None]) -> Scope:
    """Put together what an ontology sees.

    Args:
        own: the ontology.
        find: another one by its id.
    """
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
    relations: dict[str, Relation] = {}
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
    return Scope(
        own,
        order,
        tuple(missing),
        tuple(tuple(cycle) for cycle in cycles),
        Parts(traits, types, relations, namespaces, replacing),
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
