# SPDX-License-Identifier: Apache-2.0
"""Every rule of ontologies and of entities that are judged by them: its id and its words.

What the schema of ontologies refuses has the ids of ``mif_ld.codes``; these are the rest.
"""

from __future__ import annotations

from typing import Final

from omsgrain.formats.problems import Problem
from omsgrain.formats.reading import kind_of

__all__ = ["RULES", "WARNINGS", "problem"]

_SHOWN: Final = 200
"""Characters of names in a message."""

RULES: Final[dict[str, str]] = {
    # an ontology
    "ONT-CYCLE": "ontologies or traits that extend themselves in a circle",
    "ONT-TWICE": "an ontology that was read before, and says something else",
    "ONT-CONFLICT": "a field that two traits define differently, and nothing that overrides it",
    "ONT-SUBTYPE-UNKNOWN": "a subtype of a type that is not known",
    "ONT-SUBTYPE-SELF": "a type that is a subtype of itself",
    "ONT-SUBTYPE-CYCLE": "types that are subtypes of one another in a circle",
    "ONT-SUBTYPE-REQUIRED": "a subtype that does not require what its parent does",
    "ONT-LARGE": "more than is taken",
    # an entity
    "ENT-ONTOLOGY": "an ontology that is not loaded",
    "ENT-TYPE": "a type of entity that the ontology does not know",
    "ENT-BASE": "a memory of another type than that of its entity",
    "ENT-MISSING": "a field that the type of entity requires is missing",
    "ENT-FIELD": "a field that is not what its trait or its type of entity says",
    "ENT-REQUIRES": "a member of the memory that a trait requires is missing",
    "ENT-END": "a relationship between types that it is not for",
}
"""Breaking one of them is an error."""

WARNINGS: Final[dict[str, str]] = {
    # an ontology
    "ONT-EMPTY": "nothing is in it",
    "ONT-EXTENDS": "an ontology that is extended, and not loaded",
    "ONT-REDEFINED": "two ontologies, neither of which extends the other, define it differently",
    "ONT-TYPE-TWICE": "a type that was defined before; the first one counts",
    "ONT-TRAIT": "a trait that is not known",
    "ONT-TYPE": "a type of entity that is not known",
    "ONT-NAMESPACE": "a namespace that is not known",
    "ONT-NAME": "a relationship whose name is another one's, spelled otherwise",
    "ONT-RETYPED": "a field that is of another type in the parent of the subtype",
    "ONT-REQUIRED": "a field that is required, and that neither the type nor a trait defines",
    "ONT-SCHEMA": "a schema of a field that cannot be used: the field is not checked",
    "ONT-REGEX": "a regex that cannot be used: it is never tried",
    "ONT-PATTERN": "a pattern that can hit nothing, or suggests nothing",
    # an entity
    "ENT-NONE": "an entity without an ontology, or without a type: it is not judged",
    "ENT-UNKNOWN": "a field that neither the type of entity nor a trait has",
    "ENT-NAMESPACE": "a namespace that the ontology does not have",
    "ENT-REPLACED": "a namespace in whose place the ontology has another",
}
"""Taken, and told."""


def problem(
    rule: str, pointer: str, says: str = "", *, expected: str | None = None, found: object = None
) -> Problem:
    """One problem.

    Args:
        rule: its id.
        pointer: where.
        says: which one it is, by the names that the ontology gives.
        expected: what would have been right.
        found: what stands there; of it only the kind is told.
    """
    words = RULES.get(rule) or WARNINGS[rule]
    if len(says) > _SHOWN:  # what stands in a list of names may be of any length
        says = f"{says[: _SHOWN - 1]}…"
    message = f"{says}: {words}" if says else words
    return Problem(rule, pointer, message, expected, None if found is None else kind_of(found))
