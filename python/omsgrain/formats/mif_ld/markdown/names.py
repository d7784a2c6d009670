# SPDX-License-Identifier: Apache-2.0
"""What members are called in front matter, and relationships and entities in the text.

Shape 1.x calls them as in JSON. Shape 0.1 has them in snake_case, and relationships and entities
behind the content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from omsgrain.formats import times
from omsgrain.formats.records import Record

__all__ = [
    "FRONT_1_X", "KEBAB", "PASCAL", "URN", "camel", "id_of", "mirrors", "slug", "snake", "urn_of",
]  # fmt: skip

URN: Final = "urn:mif:"
FRONT_1_X: Final[tuple[str, ...]] = (
    "created", "modified", "namespace", "title", "summary", "properties", "compressedAt", "tags",
    "aliases", "temporal", "provenance", "embedding", "relationships", "citations", "documents",
    "entities", "ontology", "entity", "extensions",
)  # fmt: skip
"""The members of front matter in shape 1.x, besides id, type and memoryType."""
KEBAB: Final = {
    "RelatesTo": "relates-to",
    "DerivedFrom": "derived-from",
    "Supersedes": "supersedes",
    "ConflictsWith": "conflicts-with",
    "PartOf": "part-of",
    "Implements": "implements",
    "Uses": "uses",
    "Created": "created-by",
    "MentionedIn": "mentioned-in",
}
"""Types of relationships in text, by their names in JSON; the one of Created is irregular."""
PASCAL: Final = {kebab: name for name, kebab in KEBAB.items()} | {"created": "Created"}

_SNAKE: Final[dict[str, dict[str, str]]] = {
    "": {"compressedAt": "compressed_at"},
    "temporal": {
        "validFrom": "valid_from", "validUntil": "valid_until", "recordedAt": "recorded_at",
        "accessCount": "access_count", "lastAccessed": "last_accessed",
        "reinforcementHistory": "reinforcement_history",
    },
    "decay": {"currentStrength": "current_strength", "lastReinforced": "last_reinforced"},
    "provenance": {
        "sourceType": "source_type", "trustLevel": "trust_level", "sourceRef": "source_ref",
        "agentVersion": "agent_version",
    },
    "embedding": {
        "modelVersion": "model_version", "sourceText": "source_text", "vectorUri": "vector_uri",
    },
    "citations": {"citationType": "type", "citationRole": "role"},
}  # fmt: skip
"""Names of shape 0.1, by the member whose object they stand in; halfLife stays as it is."""
_CAMEL: Final = {
    place: {snake: name for name, snake in names.items()} for place, names in _SNAKE.items()
}
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def snake(value: Any, place: str = "") -> Any:
    """A value of JSON as shape 0.1 spells it in front matter."""
    return _spelled(value, place, _SNAKE)


def camel(value: Any, place: str = "") -> Any:
    """A value of front matter of shape 0.1 as JSON has it."""
    return _spelled(value, place, _CAMEL)


def _spelled(value: Any, place: str, names: Mapping[str, Mapping[str, str]]) -> Any:
    if isinstance(value, list) and place == "citations":
        return [_spelled(one, place, names) for one in value]
    known = names.get(place)
    if not isinstance(value, dict) or known is None:
        return value
    spelled: Record = {}
    for name, one in value.items():
        new = known.get(name, name)
        # Of two that would be one, the one stays that is called so.
        if new != name and new in value:
            new = name
        inner = new if new in names and place in ("", "temporal") else name
        spelled[new] = _spelled(one, inner, names) if inner in names else one
    return spelled


def id_of(urn: str) -> str:
    """An ``@id`` as front matter has it."""
    bare = urn.removeprefix(URN)
    return urn if not bare or bare.startswith(URN) else bare


def urn_of(id: str) -> str:
    """The ``@id`` that front matter says; what is one already is not made one twice."""
    return id if id.startswith(URN) else URN + id


def mirrors(document: Mapping[str, Any]) -> Record:
    """The members of JSON in shape 1.x that repeat others, and that front matter leaves out."""
    at, says = document.get("modified", document.get("created")), document.get("summary")
    told = {"timestamp": at} if isinstance(at, str) and times.parse(at) is not None else {}
    return told | {"description": says} if isinstance(says, str) else told


def slug(name: str) -> str:
    """A name as a part of a URN."""
    return _NOT_PLAIN.sub("-", name.lower()).strip("-") or "unnamed"
