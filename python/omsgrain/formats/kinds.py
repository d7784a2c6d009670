# SPDX-License-Identifier: Apache-2.0
"""Kinds of records: how those of one kind become grains, and what comes of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from omsgrain.formats.fields import Fields
from omsgrain.grain import Grain

__all__ = ["NAME", "Built", "Fields", "Record", "Shape"]

NAME: Final = 2_048
"""Code points of a name that stands in a field of a grain; a longer one is only kept."""

Record = dict[str, Any]


def _no_text(record: Record) -> str | None:
    return None


def _all_of_it(record: Record) -> tuple[Record, str | None]:
    return record, None


def _as_it_is(record: Record, packed: str) -> Record:
    return record


class Shape(NamedTuple):
    """How records of one kind become grains. All of it is for the usual record.

    Attributes:
        to_fields: the fields of the grain, by full name, from the record and whose it is:
            ``type``, ``created_at``, ``namespace``, and ``user_id`` if it is somebody's.
        from_fields: the record again, from the grain's fields and the record's id, its keys in
            the order that the format has. It is the caller's to change.
        name_of: by what the record is known.
        text_of: the text by which duplicates are found; None for a record that has none.
        apart: the record without its embedding, and that, packed.
        whole: the record with it again.
        order: the order in which the format names the keys of a record, where it is to come back.
            A record whose keys stand so, those of nobody else behind, says nothing of its order.
    """

    to_fields: Callable[[Record, str | None], Fields]
    from_fields: Callable[[Mapping[str, Any], str], Record]
    name_of: Callable[[Record], str]
    text_of: Callable[[Record], str | None] = _no_text
    apart: Callable[[Record], tuple[Record, str | None]] = _all_of_it
    whole: Callable[[Record, str], Record] = _as_it_is
    order: Sequence[str] = ()


class Built(NamedTuple):
    """A record as a grain.

    Attributes:
        grain: the grain.
        parts: the grains that hold the record whole, if it was too large.
    """

    grain: Grain
    parts: Sequence[Grain] = ()
