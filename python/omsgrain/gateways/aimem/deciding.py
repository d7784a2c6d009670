# SPDX-License-Identifier: Apache-2.0
"""What becomes of a record that comes: told from it and from what is stored, and nothing else.

Spec: AIMEM §2.9, §5.1, §5.4
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from omsgrain import _core
from omsgrain.formats.aimem import times
from omsgrain.formats.aimem.fields import DNA, RECORDS, Kind

__all__ = [
    "INSERTED",
    "REASONS",
    "UNCHANGED",
    "UPDATED",
    "Decision",
    "Fate",
    "Reason",
    "changes",
    "decide",
    "is_protected",
]

Fate: TypeAlias = Literal["inserted", "unchanged", "updated", "conflict"]
Reason: TypeAlias = Literal[
    "created_at_conflict",
    "field_conflict",
    "older",
    "dna_conflict",
    "withdrawn",
    "erased",
    "refused",
]

REASONS: Final[dict[Reason, str]] = {
    "created_at_conflict": "other content, and the same created_at",
    "field_conflict": "other fields, and no newer created_at",
    "older": "other content or fields than what is stored, and an older created_at",
    "dna_conflict": "DNA-class or pinned: superseded only when that is allowed",
    "withdrawn": "what is stored was superseded, retracted or restricted here",
    "erased": "it was erased, and comes back only when that is allowed",
    "refused": "a policy of the store or of a grain in it refuses",
}
"""Why a record is in conflict. Nothing is done then, and the other records are not touched."""

_SAYS: Final[dict[Kind, frozenset[str]]] = {
    "chunk": frozenset(("content",)),
    "edge": frozenset(("weight",)),
    "entity": frozenset(("name", "kind")),
    "chunk_entity": frozenset(),
}
"""What a record says; the rest describes it."""
_ASIDE: Final[dict[Kind, frozenset[str]]] = {
    "chunk": frozenset(("created_at", "content_hash", "embedding")),
    "edge": frozenset(("created_at",)),
    "entity": frozenset(("created_at",)),
    "chunk_entity": frozenset(),
}
"""What is compared in other ways, or not at all."""
_NOTHING: Final[dict[str, Any]] = {"is_pinned": False, "tags": []}
"""Values that are as if the field were not there."""
_TOLD, _LONGEST = (
    20,
    64,
)  # names of fields, and letters of one: a record can have megabytes of them
_NULLABLE: Final = {
    kind: frozenset(field.name for field in table if field.nullable)
    for kind, table in RECORDS.items()
}


class Decision(NamedTuple):
    """What becomes of a record.

    Attributes:
        fate: that.
        reason: of a conflict.
        fields: those that differ, of a ``field_conflict``; the first twenty.
    """

    fate: Fate
    reason: Reason | None = None
    fields: tuple[str, ...] = ()


INSERTED: Final = Decision("inserted")
UNCHANGED: Final = Decision("unchanged")
UPDATED: Final = Decision("updated")


def decide(
    kind: Kind,
    stored: Mapping[str, Any] | None,
    new: Mapping[str, Any],
    *,
    current: bool = True,
    allow_dna_updates: bool = False,
) -> Decision:
    """Decide what becomes of a record that was checked.

    Args:
        kind: of what kind both are.
        stored: the record of the same id that is stored; None if there is none.
        new: the record that comes. Embeddings are not compared.
        current: whether what is stored counts still; if not, nothing is put in its place.
        allow_dna_updates: let a newer chunk take the place of one that is DNA-class or pinned.
    """
    if stored is None:
        return INSERTED
    differ = changes(kind, stored, new)
    says = [name for name in differ if name in _SAYS[kind]]
    order = _order(stored, new)
    if not differ:
        return UNCHANGED
    if not order:
        if kind == "chunk" and says:
            return Decision("conflict", "created_at_conflict")
        return Decision("conflict", "field_conflict", tuple(n[:_LONGEST] for n in differ[:_TOLD]))
    if order < 0:
        return Decision("conflict", "older")
    if not current:
        return Decision("conflict", "withdrawn")
    if kind == "chunk" and is_protected(stored) and not allow_dna_updates:
        return Decision("conflict", "dna_conflict")
    return UPDATED


def is_protected(chunk: Mapping[str, Any]) -> bool:
    """Whether a chunk is never silently superseded. Spec: AIMEM §5.1."""
    return chunk["memory_type"] in DNA or chunk.get("is_pinned") is True


def changes(kind: Kind, stored: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The fields in which two records differ, but for their times; as JSON, 1 is what 1.0 is."""
    names = sorted((stored.keys() | new.keys()) - _ASIDE[kind])
    return [
        name for name in names if not _same(_value(kind, stored, name), _value(kind, new, name))
    ]


def _value(kind: Kind, record: Mapping[str, Any], name: str) -> Any:
    """What a field says; what is not there, and what says as much, is an empty tuple."""
    value = record.get(name, ())
    if value is None and name in _NULLABLE[kind]:
        return ()
    return () if kind == "chunk" and name in _NOTHING and value == _NOTHING[name] else value


def _same(one: Any, other: Any) -> bool:
    if any(isinstance(value, str | tuple) for value in (one, other)):
        return bool(one == other)
    return _canonical(one) == _canonical(other)


def _canonical(value: Any) -> bytes:
    return _core.canonical_json(json.dumps(value).encode("ascii"))


def _order(stored: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """Below 0 if the new one is older, above if it is newer; what has no time is no newer."""
    before, after = (times.parse(one.get("created_at", "")) for one in (stored, new))
    if before is None or after is None:
        return 0
    return (after > before) - (after < before)
