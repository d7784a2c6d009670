# SPDX-License-Identifier: Apache-2.0
"""Namespaces: which one is meant, which type of memory it is for, and which one replaces it.

Ontologies write their roots without the underscore that memories write them with, so the one at
the beginning of a path counts on neither side.
"""

from __future__ import annotations

from omsgrain.formats.ontology.compose import Scope, fold_path
from omsgrain.formats.ontology.model import BASES, Namespace

__all__ = ["choose_namespace", "choose_type", "namespace_at", "replacement"]


def namespace_at(scope: Scope, path: str) -> Namespace | None:
    """The namespace of a path; None if there is none."""
    return scope.parts.namespaces.get(fold_path(path))


def replacement(scope: Scope, path: str) -> Namespace | None:
    """The namespace that replaces that of a path, or one above it; the nearest, if several do."""
    folded = fold_path(path)
    found, most = None, -1
    for one in scope.parts.namespaces.values():
        replaced = None if one.replaces is None else fold_path(one.replaces)
        if not replaced or replaced == fold_path(one.path):
            continue
        # What stands in the new one is not moved again, even where it is inside the old one.
        if _within(folded, replaced) and not _within(folded, fold_path(one.path)):
            if len(replaced) >= most:
                found, most = one, len(replaced)
    return found


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
    path = fold_path(choose_namespace(scope, namespace))
    while path:
        found = scope.parts.namespaces.get(path)
        if found is not None and found.type_hint is not None:
            return found.type_hint
        if path in BASES:
            return path
        path = path.rpartition("/")[0]
    return None


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
