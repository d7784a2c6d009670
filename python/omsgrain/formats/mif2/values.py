# SPDX-License-Identifier: Apache-2.0
"""What every grain of a record begins with, and how much of a text it takes."""

from __future__ import annotations

from typing import Any, Final

from omsgrain.formats import times
from omsgrain.formats.mif2.fields import FORMAT
from omsgrain.formats.mif2.limits import NAME, TEXT
from omsgrain.formats.records import Fields, Record

__all__ = ["NAMESPACE", "base", "belief", "name", "somebody", "text"]

NAMESPACE: Final = FORMAT


def somebody(owner: str | None) -> str:
    """The subject of what is known of a user, who may have no name."""
    return owner or "user"


def base(kind: str, record: Record, owner: str | None) -> Fields:
    """The fields that say what a grain is, when it was made, and whose it is."""
    made = record.get("created_at")
    instant = times.parse(made, floating=True) if isinstance(made, str) else None
    fields: Fields = {"type": kind, "created_at": times.of_grain(instant), "namespace": NAMESPACE}
    if owner is not None:
        fields["user_id"] = owner
    return fields


def belief(
    record: Record, owner: str | None, subject: str | None, relation: str, object_: Any
) -> Fields:
    """A belief; without a subject it is one about the user."""
    fields = base("belief", record, owner)
    about = somebody(owner) if subject is None else text(subject) or "-"
    fields["subject"], fields["relation"], fields["object"] = about, relation, object_
    fields["confidence"] = 1.0
    return fields


def text(value: str) -> str:
    """As much of a text as a grain takes."""
    return value if len(value) <= TEXT else value[:TEXT]


def name(value: Any) -> str | None:
    """A name that a grain can have; None if it cannot."""
    return value if isinstance(value, str) and 0 < len(value) <= NAME else None
