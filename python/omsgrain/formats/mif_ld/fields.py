# SPDX-License-Identifier: Apache-2.0
"""The members of a memory: what each becomes of a grain, and which of them change by themselves.

Spec: MIF in JSON-LD, shapes 0.1 and 1.x
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["CONTEXT", "FORMAT", "LOCAL", "MEMBERS", "ORDER", "TYPES", "VOLATILE", "Member"]

FORMAT: Final = "mif-ld"
CONTEXT: Final = "https://mif-spec.dev/schema/context.jsonld"
"""What most documents name; nothing is fetched from there."""
LOCAL: Final = "_local"
"""The root of namespaces that do not leave where they are."""
TYPES: Final = {"semantic": "belief", "episodic": "event", "procedural": "workflow"}
"""The type of grain that each type of memory is."""


class Member(NamedTuple):
    """A member of a memory.

    Attributes:
        name: its key.
        shapes: in which shapes it is named: ``0.1``, ``1.x``, or both.
        grain: the field of the grain that says it; None if only the side channel does.
    """

    name: str
    shapes: str
    grain: str | None


_BOTH: Final = "0.1, 1.x"
MEMBERS: Final = (
    Member("@context", _BOTH, None),
    Member("@type", _BOTH, None),
    Member("@id", _BOTH, "x_src"),
    Member("memoryType", _BOTH, "type"),
    Member("conceptType", "1.x", "type"),
    Member("content", _BOTH, "object, content or steps"),
    Member("created", _BOTH, "created_at"),
    Member("title", _BOTH, "context"),
    Member("modified", _BOTH, "system_valid_from"),
    Member("timestamp", "1.x", None),
    Member("description", "1.x", None),
    Member("namespace", _BOTH, "namespace"),
    Member("tags", _BOTH, "structural_tags"),
    Member("aliases", _BOTH, None),
    Member("properties", "1.x", None),
    Member("ontology", _BOTH, None),
    Member("entity", _BOTH, None),
    Member("entities", _BOTH, "subject"),
    Member("relationships", _BOTH, None),
    Member("temporal", _BOTH, "valid_from, valid_to, system_valid_from"),
    Member("provenance", _BOTH, "source_type, confidence"),
    Member("embedding", _BOTH, "embedding_refs"),
    Member("citations", _BOTH, "content_refs"),
    Member("documents", "1.x", "content_refs"),
    Member("summary", _BOTH, "context"),
    Member("compressedAt", _BOTH, None),
    Member("blocks", "0.1", None),
    Member("extensions", _BOTH, None),
)
"""In the order in which they are written."""
ORDER: Final = tuple(member.name for member in MEMBERS)

VOLATILE: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    ("temporal",): ("accessCount", "lastAccessed", "reinforcementHistory"),
    ("temporal", "decay"): ("currentStrength", "strength", "lastReinforced"),
}
"""What a recall changes, by the way to the object that it stands in; no part of a grain."""
