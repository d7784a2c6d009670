# SPDX-License-Identifier: Apache-2.0
"""Members of objects that may be anything: what they hold if it is of the type, else nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["object_of", "objects_at", "objects_of", "text_of"]


def object_of(record: Mapping[str, Any], member: str) -> dict[str, Any]:
    """The object that a member is; an empty one if it is none."""
    value = record.get(member)
    return value if isinstance(value, dict) else {}


def objects_of(record: Mapping[str, Any], member: str) -> list[dict[str, Any]]:
    """The objects in the array that a member is; none if it is none."""
    return [one for _, one in objects_at(record, member)]


def objects_at(record: Mapping[str, Any], member: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects in the array that a member is, and where they stand; none if it is none."""
    value = record.get(member)
    for at, one in enumerate(value) if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield at, one


def text_of(record: Mapping[str, Any], member: str) -> str | None:
    """The text that a member is; None if it is none."""
    value = record.get(member)
    return value if isinstance(value, str) else None
