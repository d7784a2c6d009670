# SPDX-License-Identifier: Apache-2.0
"""What every grain of a record begins with, and how much of a text it takes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from omsgrain.formats import times
from omsgrain.formats.mif2.fields import FORMAT
from omsgrain.formats.mif2.limits import TEXT
from omsgrain.formats.records import NAME, Fields, Record

__all__ = ["NAMESPACE", "base", "belief", "instant", "name", "somebody", "text"]

NAMESPACE: Final = FORMAT
_TIME: Final = 128  # characters of a time, those of its fraction counted


def somebody(owner: str | None) -> str:
    """The subject of what is known of a user, who may have no name."""
    return owner or "user"


def base(kind: str, record: Record, owner: str | None) -> Fields:
    """The fields that say what a grain is, when it was made, and whose it is."""
    made = record.get("created_at")
    created_at = times.of_grain(instant(made) if isinstance(made, str) else None)
    fields: Fields = {"type": kind, "created_at": created_at, "namespace": NAMESPACE}
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


@lru_cache(1_024)
def instant(text: str) -> times.Instant | None:
    """A time of any spelling; None if it is none. It is asked for once to check, once to tell."""
    return times.parse(text, floating=True) if len(text) <= _TIME else None


def text(value: str) -> str:
    """As much of a text as a grain takes."""
    return value if len(value) <= TEXT else value[:TEXT]


def name(value: Any) -> str | None:
    """A name that a grain can have; None if it cannot."""
    return value if isinstance(value, str) and 0 < len(value) <= NAME else None
