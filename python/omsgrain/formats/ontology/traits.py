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
from omsgrain.formats.ontology.graph import ordered
from omsgrain.formats.ontology.model import EntityType

__all__ = ["MOST", "Composed", "Field", "Traits"]

MOST: Final = 300_000
"""Fields that traits and types of an ontology may inherit, all together: each costs memory."""


class Field(NamedTuple):
    """A field, and who defines it.

    Attributes:
        schema: its schema.
        trait: the name of the trait; None if the type itself defines it.
        ontology: the id of the ontology that that stands in.
        pointer: where the field stands there.
        also: those that define it just so elsewhere; what overrides one of them need not override
            the others.
    """

    schema: Any
    trait: str | None
    ontology: str
    pointer: str
    also: tuple[Field, ...] = ()


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
        self._of: dict[str, Composed] = {}
        self._merged: dict[tuple[str, ...], Composed] = {}
        self._types: dict[str, Composed] = {}
        self._reach: dict[str, frozenset[str]] = {}
        self._known: dict[str, tuple[str, ...]] = {}  # what each extends of those that are there
        order, self.cycles = ordered(self._traits, self._uppers)
        for name in order:
            trait = self._traits[name]
            whole = self._below(
                self._merge(trait.extends),
                trait.fields,
                name,
                trait.ontology,
                f"{trait.pointer}/fields",
            )
            if trait.requires:
                requires = {**whole.requires, **dict.fromkeys(trait.requires, name)}
                whole = whole._replace(requires=requires)
            self._of[name] = whole

    def of_trait(self, name: str) -> Composed:
        """What a trait comes to; nothing, if it is not known."""
        return self._of.get(name, _NOTHING)

    def of_type(self, one: EntityType) -> Composed:
        """What a type of entities comes to."""
        if one.name not in self._types:
            whole, place = self._merge(one.traits), f"{one.pointer}/schema/properties"
            self._types[one.name] = self._below(whole, one.properties, None, one.ontology, place)
        return self._types[one.name]

    def clashes(self, whole: Composed, names: Iterable[str]) -> Mapping[str, tuple[Field, ...]]:
        """The conflicts that arise here, and not in one of the traits already."""
        if not whole.conflicts:
            return whole.conflicts
        before = {key for name in names for key in self.of_trait(name).conflicts}
        return {key: some for key, some in whole.conflicts.items() if key not in before}

    def _below(
        self,
        above: Composed,
        own: Mapping[str, Any],
        trait: str | None,
        ontology: str,
        pointer: str,
    ) -> Composed:
        """The fields from above, and its own, which override them."""
        if not own:
            return above  # shared, for it may be large
        above = above if self._can(above) else _NOTHING
        made = {
            key: Field(schema, trait, ontology, f"{pointer}/{_token(key)}")
            for key, schema in own.items()
        }
        conflicts = {key: some for key, some in above.conflicts.items() if key not in own}
        return Composed({**above.fields, **made}, conflicts, above.requires)

    def _merge(self, names: tuple[str, ...]) -> Composed:
        """The fields of several traits, side by side."""
        # One that is not known has none, and neither has one that leads back.
        listed = [self._of[name] for name in names if name in self._of]
        if len(listed) < 2:
            return listed[0] if listed else _NOTHING
        if names in self._merged:
            return self._merged[names]
        found: dict[str, dict[tuple[str, str], Field]] = {}
        requires: dict[str, str] = {}
        for one in listed:
            if not self._can(one):
                break
            some = [
                *(
                    (key, (field._replace(also=()), *field.also) if field.also else (field,))
                    for key, field in one.fields.items()
                ),
                *one.conflicts.items(),
            ]
            for key, fields in some:
                here = found.setdefault(key, {})
                here.update({(field.ontology, field.pointer): field for field in fields})
            requires.update((key, by) for key, by in one.requires.items() if key not in requires)
        settled = {key: self._settled(tuple(here.values())) for key, here in found.items()}
        self._merged[names] = Composed(
            {key: some[0] for key, some in settled.items() if len(some) == 1},
            {key: some for key, some in settled.items() if len(some) > 1},
            requires,
        )
        return self._merged[names]

    def _can(self, one: Composed) -> bool:
        """Whether there is room for all of it once more."""
        self._left -= len(one.fields) + len(one.requires)
        self._left -= sum(len(field.also) for field in one.fields.values())
        self._left -= sum(len(some) for some in one.conflicts.values())
        self.is_full = self.is_full or self._left < 0
        return self._left >= 0

    def _settled(self, listed: tuple[Field, ...]) -> tuple[Field, ...]:
        """One definition, if all are equal or one of them overrides the others."""
        if len(listed) == 1:
            return listed
        over: set[str | None] = set()
        for one in listed:
            over |= self._over(one.trait or "")
        # In a circle each is over the other; then none overrides.
        listed = tuple(one for one in listed if one.trait not in over) or listed
        if any(one.schema != listed[0].schema for one in listed):
            return listed
        return (listed[0]._replace(also=listed[1:]),)

    def _over(self, name: str) -> frozenset[str]:
        """All that a trait extends; none, if there is no room for it."""
        if name not in self._reach:
            above = self._above(name) if self._left > 0 else set()
            self._left -= len(above)
            self.is_full = self.is_full or self._left < 0
            self._reach[name] = frozenset(above)
        return self._reach[name]

    def _above(self, name: str) -> set[str]:
        """All that a trait extends, and not it itself.

        What is known of one above is taken over: to walk from each trait through all above it
        would take the product of traits and of what they extend.
        """
        found: set[str] = set()
        waiting = [name]
        for one in waiting:
            for upper in self._uppers(one):
                if upper not in found:
                    found.add(upper)
                    known = self._reach.get(upper)
                    if known is None:
                        waiting.append(upper)
                    else:
                        found |= known
        found.discard(name)
        return found

    def _uppers(self, name: str) -> tuple[str, ...]:
        known = self._known.get(name)
        if known is None:
            trait = self._traits.get(name)
            listed = () if trait is None else trait.extends
            known = self._known[name] = tuple(up for up in listed if up in self._traits)
        return known


_NOTHING: Final = Composed({}, {}, {})


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
