# SPDX-License-Identifier: Apache-2.0
"""The words of MIF in JSON-LD, and those that the model has for them."""

from __future__ import annotations

import re
from typing import Final

from omsgrain.formats import model
from omsgrain.formats.across.losses import Told
from omsgrain.formats.across.shaping import Attribute
from omsgrain.formats.across.shaping import Shape as Table
from omsgrain.formats.mif_ld.markdown.names import KEBAB, slug
from omsgrain.formats.mif_ld.shape import Shape

__all__ = [
    "ARRAY", "CARRIED", "CLASSES", "ENTITIES", "ENTITY", "EXTENSIONS", "FINER", "NAMED", "SAID_SO",
    "SOURCES", "TITLE", "TOLD", "TYPES", "URN", "base_of", "kind_of_relation", "plural",
    "relation_of_kind", "singular", "urn_of",
]  # fmt: skip

TITLE: Final = "MIF in JSON-LD"
ARRAY: Final = "/memories"
CARRIED: Final = "omsgrain"
"""Our place in the extensions."""
EXTENSIONS: Final = "extensions"
URN: Final = "urn:mif:"
ENTITY: Final = "urn:mif:entity:"
TYPES: Final = frozenset(("semantic", "episodic", "procedural"))
_SEMANTIC: Final = frozenset(
    ("fact", "observation", "learning", "discovery", "pattern", "decision", "preference",
     "identity", "pitfall", "context", "intention")
)  # fmt: skip
FINER = re.compile(r"_(semantic|episodic|procedural)/([a-z][a-z0-9_]*)")
_KEBAB = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_PREFIXED = re.compile(r"[a-zA-Z][a-zA-Z0-9]*:[a-zA-Z][a-zA-Z0-9-]*")
_TOKEN = re.compile(r"[a-z0-9][a-z0-9-]*(:[a-z0-9][a-z0-9-]*)?")
_REFERENCE: Final = "related_to"

SOURCES: Final = {
    "user_explicit": "user",
    "agent_inferred": "inferred",
    "system_generated": "system",
    "external_import": "imported",
}
"""Where memories come from, by their names in the model."""
SAID_SO: Final = {own: name for name, own in SOURCES.items()} | {"ai_generated": "agent_inferred"}
ENTITIES: Final = {
    name: name.lower() for name in ("Person", "Organization", "Technology", "Concept", "File")
}
NAMED: Final = {own: name for name, own in ENTITIES.items()}
_RELATED: Final = {name: kebab.replace("-", "_") for name, kebab in KEBAB.items()} | {
    "RelatesTo": _REFERENCE
}
"""Types of relationships by their names in the model."""
_RELATES: Final = {own: name for name, own in _RELATED.items()} | {"created": "Created"}

CLASSES: Final[dict[str, Table]] = {
    "memory": Table(
        model.Memory,
        tuple(
            Attribute(name, member, (str,))
            for name, member in {
                "id": "@id", "content": "content", "type": "memoryType", "created_at": "created",
                "updated_at": "modified", "tags": "tags", "entities": "entities",
                "embedding": "embedding", "origin": "provenance", "parent": "relationships",
                "related": "relationships",
            }.items()
        ),
    ),
    "relationship": Table(
        model.Relation,
        tuple(
            Attribute(name, member, (str,))
            for name, member in {"type": "relationshipType", "source": "@id", "target": "target",
                                 "weight": "strength"}.items()
        ),
    ),
}  # fmt: skip
"""What members are called, for what is told of them."""
TOLD: Final = Told(
    {"accessed_at": "temporal/lastAccessed", "access_count": "temporal/accessCount"},
    frozenset(("of",)),
)
"""Where the rest stands."""


def base_of(kind: str | None) -> str:
    """The type that the format has for one of the model."""
    if kind in TYPES:
        return str(kind)
    if not kind or kind in _SEMANTIC:
        return "semantic"
    return "procedural" if kind == "procedure" else "episodic"


def plural(kind: str) -> str:
    """What the namespace of a finer type is called: decisions."""
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def singular(name: str) -> str:
    """The way back of `plural`, where there is one."""
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def urn_of(name: str, kind: str | None) -> str:
    """The URN of what is only mentioned."""
    return f"{ENTITY}{slug(kind or 'concept')}:{slug(name)}"


def kind_of_relation(name: str) -> str:
    """The type of a relationship in the model, of either shape."""
    if name in _RELATED:
        return _RELATED[name]
    bare = name.removeprefix(f"{CARRIED}:")
    if bare != name or ":" not in name:
        snake = bare.replace("-", "_")
        return _REFERENCE if snake == "relates_to" else snake
    return name


def relation_of_kind(kind: str | None, shape: Shape) -> str | None:
    """The way back of `kind_of_relation`, in one of the shapes; None if it has none there."""
    kebab = (kind or _REFERENCE).replace("_", "-")
    if shape == "1.x":
        kebab = "relates-to" if kebab == "related-to" else kebab
        return kebab if _TOKEN.fullmatch(kebab) else None
    if not kind or kind in _RELATES:
        return _RELATES.get(kind or _REFERENCE)
    if _PREFIXED.fullmatch(kind):
        return kind
    return f"{CARRIED}:{kebab}" if _KEBAB.fullmatch(kebab) else None
