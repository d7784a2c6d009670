# SPDX-License-Identifier: Apache-2.0
"""Namespaces: which one is meant, which type of memory it is for, and which one replaces it.

Ontologies write their roots without the underscore that memories write them with, so the one at
the beginning of a path counts on neither side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from omsgrain.formats.ontology.compose import Scope, fold_path
from omsgrain.formats.ontology.model import BASES, Namespace

__all__ = ["LONGEST", "choose_namespace", "choose_type", "namespace_at", "replacement"]

LONGEST: Final = 4_096
"""Characters of a path; one that is longer is that of no namespace."""


def namespace_at(scope: Scope, path: str) -> Namespace | None:
    """The namespace of a path; None if there is none."""
    return scope.parts.namespaces.get(fold_path(path))


def replacement(scope: Scope, path: str) -> Namespace | None:
    """The namespace that replaces that of a path, or the nearest one above it."""
    folded = fold_path(path)
    for replaced in _upwards(folded):
        found = scope.parts.replacing.get(replaced)
        # What stands in the new one is not moved again, even where it is inside the old one.
        if found is not None and not _within(folded, fold_path(found.path)):
            return found
    return None


def _upwards(path: str) -> Iterator[str]:
    """A path, and those above it; none, of one that is too long to be one."""
    while path and len(path) <= LONGEST:
        yield path
        path = path.rpartition("/")[0]


def choose_namespace(scope: Scope, path: str) -> str:
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
    scope: Scope, *, entity: str | None = None, namespace: str | None = None
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
