# SPDX-License-Identifier: Apache-2.0
"""Documents whose records stand in arrays: what all of them do alike on their way to grains."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from omsgrain.errors import SchemaError
from omsgrain.formats import raw
from omsgrain.formats.document import Manifest, Vector, open_manifest
from omsgrain.formats.packed import float32
from omsgrain.formats.records import NAME, Built, Table
from omsgrain.formats.texts import drained
from omsgrain.grain import Grain

__all__ = ["Gathered", "Item", "bare", "gathered", "owner_of", "the_one", "vector_of"]


class Item(NamedTuple):
    """A record of a document.

    Attributes:
        kind: of what kind it is.
        value: what stands there; where it is nothing that is known, ``{"value": what}``.
        of: the id of a memory before this one that has the same content.
    """

    kind: str
    value: dict[str, Any]
    of: str | None = None


class Gathered(NamedTuple):
    """The records of a document as grains.

    Attributes:
        grains: by address, each record's own and its parts.
        arrays: the addresses of the records, by pointer of the array, in order.
        vectors: the embeddings, by address of the record's grain.
    """

    grains: dict[str, Grain]
    arrays: dict[str, list[str]]
    vectors: dict[str, Vector]


def gathered(
    table: Table,
    arrays: Mapping[str, list[Item]],
    owner: str | None,
    vector: Callable[[Item], Vector | None],
) -> Gathered:
    """Make grains of the records of a document.

    Args:
        table: the kinds of records of its format.
        arrays: the records, by pointer of the array; they are taken out of the lists.
        owner: whose they are, if that is known.
        vector: what is searched of a record's embedding.
    """
    found = Gathered({}, {}, {})
    for pointer, items in arrays.items():
        listed: list[str] = []
        found.arrays[pointer] = listed
        for page in drained(items):
            for item, one in zip(page, _built(table, page, owner), strict=True):
                for part in one.parts:
                    found.grains[part.address] = part
                address = one.grain.address
                found.grains[address] = one.grain
                listed.append(address)
                if (searched := vector(item)) is not None:
                    found.vectors[address] = searched
    return found


def _built(table: Table, items: Sequence[Item], owner: str | None) -> list[Built]:
    """The grains of an array. A memory whose content stood before is kept without being one."""
    plain = ((one.kind, one.value) for one in items if one.of is None)
    made = iter(table.to_grains(plain, owner=owner))
    return [
        next(made)
        if one.of is None
        else table.to_duplicate(one.kind, one.value, of=_taken(one.of) or "-", owner=owner)
        for one in items
    ]


def vector_of(told: Any) -> Vector | None:
    """What is searched of an embedding; None if there is none, or not one of its own length.

    Args:
        told: an object with the ``model``, the ``vector`` and its ``dimensions``; or anything.
    """
    if not isinstance(told, dict) or not isinstance(told.get("model"), str):
        return None
    vector = told.get("vector")
    if not isinstance(vector, list) or told.get("dimensions", len(vector)) != len(vector):
        return None
    data = float32(vector)
    return None if data is None else Vector(told["model"], data)


def bare(kind: str, record: dict[str, Any]) -> Any:
    """What stands in a document for a record."""
    return record.get("value") if kind == "other" else record


def owner_of(said: Any, user_id: str | None) -> tuple[str | None, bool]:
    """Whose the grains are, and whether nobody could be because of the name.

    Args:
        said: whom the document names; or anything.
        user_id: whom the caller names, who is asked first.
    """
    if user_id is not None or not isinstance(said, str) or not said:
        return user_id, False
    if len(said) <= NAME and not said.startswith("\ufeff"):
        return unicodedata.normalize("NFC", said), False
    return None, True


def the_one(grains: Iterable[Grain], format: str, get: raw.Get) -> Manifest:
    """The manifest of the one document of a format that is among grains.

    Raises:
        SchemaError: there is none, or there are several.
        FormatError: a grain is not what it must be.
        NotFoundError: one that it names is not there.
    """
    opened = (open_manifest(grain, get) for grain in grains)
    found = [one for one in opened if one is not None and one.format == format]
    if len(found) != 1:
        raise SchemaError("a document is one", expected="1", found=f"{len(found)} documents")
    return found[0]


def _taken(name: str) -> str:
    """A name as a grain takes it."""
    return unicodedata.normalize("NFC", name.lstrip("\ufeff")[:NAME])
