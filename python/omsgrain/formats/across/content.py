# SPDX-License-Identifier: Apache-2.0
"""A document in terms of the model, and one that is to be written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from omsgrain.formats import model

__all__ = ["Content", "Found", "Written", "left", "near"]


class Found(NamedTuple):
    """An item, and which of the records that were given it is of; -1 for one of its own."""

    item: model.Item
    at: int


@dataclass(slots=True)
class Content:
    """What a document says.

    Attributes:
        document: around its records.
        found: the items, in order.
    """

    document: model.Document
    found: list[Found]


@dataclass(slots=True)
class Written:
    """A document that is to be spelled.

    Attributes:
        envelope: with its arrays empty.
        arrays: by pointer, the records, each with the number of the item that it is of, or -1.
    """

    envelope: dict[str, Any]
    arrays: dict[str, list[tuple[dict[str, Any], int]]] = field(default_factory=dict)


def near(named: Iterable[tuple[str, str, str | None]]) -> dict[tuple[str, str | None], str]:
    """The ids of entities by name and type, where these say for certain which it is.

    Args:
        named: id, name and type of each.
    """
    ids: dict[tuple[str, str | None], str | None] = {}
    for id, name, type_ in named:
        key = (name, type_)
        ids[key] = id if ids.get(key, id) == id else None
    return {key: id for key, id in ids.items() if id is not None}


def left(of: Mapping[str, Any], known: Mapping[str, type]) -> Iterator[tuple[str, Any]]:
    """The members of an object that nobody knows, or that are not what they should be.

    Args:
        of: what stands around records.
        known: its other members, and of what type each is; null says nothing.
    """
    for name, value in of.items():
        if name not in known or (value is not None and not isinstance(value, known[name])):
            yield name, value
