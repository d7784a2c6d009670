# SPDX-License-Identifier: Apache-2.0
"""The fields of a type of entities: those of its traits, of what they extend, and its own.

A trait overrides what it extends; a type overrides its traits. What comes down two ways from one
trait is one field. Two traits that define a field differently are in conflict, unless one of them
extends the other or something below defines the field anew. Spec: MIF 0.1 §10.8.6
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from omsgrain.formats.ontology.compose import Scope
from omsgrain.formats.ontology.graph import ordered, reached
from omsgrain.formats.ontology.model import EntityType

__all__ = ["MOST", "Composed", "Field", "Traits", "clashes"]

MOST: Final = 1_000_000
"""Fields that all traits and types of an ontology may have, those that come down counted again."""


class Field(NamedTuple):
    """A field, and who defines it.

    Attributes:
        schema: its schema.
        trait: the name of the trait; None if the type itself defines it.
        ontology: the id of the ontology that that stands in.
        pointer: where the field stands there.
    """

    schema: Any
    trait: str | None
    ontology: str
    pointer: str


Fields = Mapping[str, tuple[Field, ...]]
"""Fields by name; one that has several definitions is in conflict."""


class Composed(NamedTuple):
    """What a type or a trait comes to.

    Attributes:
        fields: by name.
        conflicts: the definitions of each field that is in conflict, by name.
        requires: members that a memory must have, and the trait that says so.
    """

    fields: Mapping[str, Field]
    conflicts: Mapping[str, tuple[Field, ...]]
    requires: Mapping[str, str]


class Traits:
    """The traits that an ontology sees, put together.

    Attributes:
        cycles: traits that extend one another in a circle.
        is_full: whether there were more fields than are taken; then some are left out.
    """

    def __init__(self, scope: Scope) -> None:
        self._traits = scope.parts.traits
        self._left = MOST
        self.is_full = False
        self._fields: dict[str, Fields] = {}
        self._requires: dict[str, dict[str, str]] = {}
        self._merged: dict[tuple[str, ...], tuple[Fields, dict[str, str]]] = {}
        order, self.cycles = ordered(self._traits, self._above)
        for name in order:
            trait = self._traits[name]
            fields, requires = self._merge(trait.extends)
            own = {
                key: (
                    Field(schema, name, trait.ontology, f"{trait.pointer}/fields/{_token(key)}"),
                )
                for key, schema in trait.fields.items()
            }
            self._fields[name] = {**fields, **own}
            self._requires[name] = {**requires, **dict.fromkeys(trait.requires, name)}

    def of_trait(self, name: str) -> Composed:
        """What a trait comes to."""
        return _composed(self._fields[name], self._requires[name])

    def of_type(self, one: EntityType) -> Composed:
        """What a type of entities comes to."""
        fields, requires = self._merge(one.traits)
        own = {
            key: (
                Field(
                    schema, None, one.ontology, f"{one.pointer}/schema/properties/{_token(key)}"
                ),
            )
            for key, schema in one.properties.items()
        }
        return _composed({**fields, **own}, requires)

    def _above(self, name: str) -> list[str]:
        return [upper for upper in self._traits[name].extends if upper in self._traits]

    def _merge(self, names: tuple[str, ...]) -> tuple[Fields, dict[str, str]]:
        """The fields of several traits, side by side."""
        if names in self._merged:
            return self._merged[names]
        found: dict[str, dict[tuple[str, str], Field]] = {}
        requires: dict[str, str] = {}
        for name in names:
            fields = self._fields.get(name, {})  # one that is not known, or leads back, has none
            self._left -= len(fields)
            if self._left < 0:
                self.is_full = True
                break
            for key, listed in fields.items():
                here = found.setdefault(key, {})
                here.update({(one.ontology, one.pointer): one for one in listed})
            requires = {**self._requires.get(name, {}), **requires}
        merged = {key: self._settled(tuple(here.values())) for key, here in found.items()}
        self._merged[names] = merged, requires
        return merged, requires

    def _settled(self, listed: tuple[Field, ...]) -> tuple[Field, ...]:
        """One definition, if all are equal or one of them overrides the others."""
        if len(listed) > 1:
            over: set[str | None] = set()
            for one in listed:
                over.update(reached(one.trait or "", self._uppers)[1:])
            # In a circle each is over the other; then none overrides.
            listed = tuple(one for one in listed if one.trait not in over) or listed
        if all(one.schema == listed[0].schema for one in listed):
            return listed[:1]
        return listed

    def _uppers(self, name: str) -> list[str]:
        return self._above(name) if name in self._traits else []


def _composed(fields: Fields, requires: Mapping[str, str]) -> Composed:
    good = {key: listed[0] for key, listed in fields.items() if len(listed) == 1}
    return Composed(good, {key: some for key, some in fields.items() if len(some) > 1}, requires)


def clashes(whole: Composed, parts: Iterable[Composed]) -> Mapping[str, tuple[Field, ...]]:
    """The conflicts that arise here, and not in one of the parts already."""
    before = {key for part in parts for key in part.conflicts}
    return {key: some for key, some in whole.conflicts.items() if key not in before}


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
