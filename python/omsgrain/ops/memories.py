# SPDX-License-Identifier: Apache-2.0
"""A grain as an agent reads it: an id, a kind, a text, tags, times; whatever format it came in."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from omsgrain.errors import FormatError, NotFoundError
from omsgrain.formats.source import Source
from omsgrain.ops.plain import time_text
from omsgrain.ops.query import gist

if TYPE_CHECKING:
    from omsgrain.formats.raw import Get
    from omsgrain.grain import Grain
    from omsgrain.store.state import State

__all__ = ["id_of", "record_of", "told"]

_READERS: Final = {
    "aimem": "omsgrain.formats.aimem.records",
    "mif2": "omsgrain.formats.mif2.records",
    "mif1": "omsgrain.formats.mif1.records",
    "mif-ld": "omsgrain.formats.mif_ld.records",
}
"""Format -> the module that makes records of its grains again."""
_TEXTS: Final = ("content", "summary", "name")
_TYPES: Final = (
    "memory_type",
    "conceptType",
    "memoryType",
    "type",
    "entity_type",
    "relation_type",
)


def id_of(grain: Grain) -> str:
    """By what a grain is known: the id that it came with, or its address."""
    source = Source.of(grain)
    return grain.address if source is None else source.id


def record_of(
    grain: Grain, get: Get, *, format: str | None = None
) -> tuple[str, dict[str, Any]] | None:
    """The kind and the record that a grain was; None if it never was one that can be read.

    Args:
        grain: any.
        get: gives the grains that hold the parts of a large record.
        format: only if it was of this one.
    """
    source = Source.of(grain)
    if source is None or format not in (None, source.format):
        return None
    module = _READERS.get(source.format)
    if module is None:
        return None
    reader = import_module(module)
    try:
        found = getattr(reader, "TABLE", reader).from_grain(grain, get)
    except (FormatError, NotFoundError):  # its fields can still be told
        return None
    return None if found is None else (str(found[0]), dict(found[1]))


def told(
    grain: Grain, get: Get, *, state: State | None = None, most: int | None = None
) -> dict[str, Any]:
    """A grain as JSON-ready values; what is not known is left out.

    Args:
        grain: any.
        get: gives the grains that hold the parts of a large record.
        state: what became of it, if that shall be told.
        most: characters of its text; ``cut`` says that there are more.
    """
    kind, record = record_of(grain, get) or (grain.type, {})
    content = next((text for name in _TEXTS if (text := record.get(name))), None) or gist(grain)
    metadata = record.get("metadata")
    importance = record.get("importance", grain.get("importance"))
    if importance is None and isinstance(metadata, dict):
        importance = metadata.get("importance")
    values: dict[str, Any] = {
        "id": id_of(grain),
        "kind": kind,
        "type": next((name for key in _TYPES if (name := record.get(key))), kind),
        "content": content if most is None else content[:most],
        "cut": True if most is not None and len(content) > most else None,
        "tags": record.get("tags") or grain.get("structural_tags"),
        "importance": importance,
        "metadata": metadata or None,
        "created_at": record.get("created_at") or time_text(grain["created_at"]),
        "content_address": grain.address,
    }
    if state is not None:
        values |= {
            "current": state.superseded_by is None and not state.successors,
            "superseded_by": state.superseded_by,
            "verification_status": state.verification_status,
        }
    return {name: value for name, value in values.items() if value is not None}
