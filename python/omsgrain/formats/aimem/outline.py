# SPDX-License-Identifier: Apache-2.0
"""Records that are good at first sight, as nearly all are: one look at all their fields."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from omsgrain import _core
from omsgrain.formats.aimem.fields import (
    EDGE_TYPES,
    ENTITY_KINDS,
    MEMORY_TYPES,
    RECORDS,
    ZONES,
    Field,
    Kind,
)
from omsgrain.formats.aimem.limits import TAG

__all__ = ["fits"]


class _More(NamedTuple):
    """What is asked of a field besides its type."""

    of: str | None = None
    look: str | None = None
    known: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


_UTC: Final = _More(look="utc")
_MORE: Final[dict[Kind, dict[str, _More]]] = {
    "chunk": {
        "content": _More(least=1),
        "memory_type": _More(known=MEMORY_TYPES),
        "zone": _More(known=ZONES),
        "created_at": _UTC,
        "tags": _More(of="str", least=1, most=TAG),
        "embedding": _More(look=""),  # asks more than a look
    },
    "edge": {
        "edge_type": _More(known=EDGE_TYPES),
        "weight": _More(least=0, most=1),
        "created_at": _UTC,
    },
    "entity": {
        "name": _More(least=1),
        "kind": _More(known=ENTITY_KINDS),
        "created_at": _UTC,
    },
    "chunk_entity": {},
}


def _row(field: Field, more: _More) -> Any:
    most = more.most if field.most is None else field.most
    known = (more.of, more.look, more.known, more.least, most)
    return (field.name, field.kind, *known, field.nullable, field.required)


_OUTLINE: Final = _core.Outline(
    [
        (kind, [_row(field, _MORE[kind].get(field.name, _More())) for field in table])
        for kind, table in RECORDS.items()
    ]
)


def fits(kind: Kind, record: Any) -> bool:
    """Whether a record has all that its fields ask for by themselves.

    Names, hashes and how long a content may be are not looked at. A record that does not fit may
    still be good.
    """
    return _OUTLINE.fits(kind, record)
