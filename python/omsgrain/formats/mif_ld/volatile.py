# SPDX-License-Identifier: Apache-2.0
"""Counters of a memory apart from the memory, so that a recall does not change its address.

They stand in the manifest of the document, by ``@id`` of the memory and by which one of that id it
is: the difference between the memory without them and the memory as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from omsgrain.errors import FormatError
from omsgrain.formats.mif_ld.fields import VOLATILE
from omsgrain.formats.records import Record
from omsgrain.formats.source import Difference, apply, difference

__all__ = ["Counters", "apart", "together"]

_ID: Final = "@id"
_TEMPORAL: Final = "temporal"
"""All counters stand below it."""
Counters: TypeAlias = "dict[str, list[Difference | None]]"


def apart(records: Iterable[Any]) -> tuple[list[Any], Counters]:
    """Memories without what a recall changes, and that.

    Args:
        records: memories as they came; anything else among them stays as it is.
    """
    bare: list[Any] = []
    counters: Counters = {}
    seen: dict[str, int] = {}
    for record in records:
        without = _without(record, ()) if isinstance(record, dict) else record
        bare.append(without)
        id = record.get(_ID) if isinstance(record, dict) else None
        if not isinstance(id, str):
            continue
        at = seen[id] = seen.get(id, -1) + 1
        if without is not record:
            listed = counters.setdefault(id, [])
            listed += [None] * (at - len(listed))
            listed.append(_difference(without, record))
    return bare, counters


def _difference(bare: Record, record: Record) -> Difference | None:
    """As `difference`, but only where counters stand is looked."""
    way = _TEMPORAL
    if way not in bare:
        return difference(bare, record)
    left, whole = bare[way], record[way]
    gone = {name: value for name, value in whole.items() if name not in left}
    if any(whole[name] is not value for name, value in left.items()):
        inner = difference(left, whole)  # some stood deeper
    elif [*left, *gone] == list(whole):
        inner = {"+": gone}
    else:
        inner = {"+": gone, "o": list(whole)}
    return None if inner is None else {"~": {way: inner}}


def together(records: Iterable[Any], counters: Mapping[str, Any]) -> Iterator[Any]:
    """The memories as they came; the other way of `apart`.

    Raises:
        FormatError: the counters are not of these memories.
    """
    seen: dict[str, int] = {}
    for record in records:
        id = record.get(_ID) if isinstance(record, dict) else None
        listed = counters.get(id) if isinstance(id, str) else None
        if not isinstance(id, str) or listed is None:
            yield record
            continue
        if not isinstance(listed, list):
            raise FormatError("counters that are none", rule="manifest")
        at = seen[id] = seen.get(id, -1) + 1
        yield apply(record, listed[at]) if at < len(listed) else record


def _without(value: Record, way: tuple[str, ...]) -> Record:
    """An object without its counters; what holds nothing else goes with them."""
    gone = VOLATILE.get(way, ())
    made = None
    for name, inner in value.items():
        within = (*way, name)
        if name in gone:
            made = made or dict(value)
            del made[name]
        elif within in VOLATILE and isinstance(inner, dict):
            bare = _without(inner, within)
            if bare is not inner:
                made = made or dict(value)
                if bare:
                    made[name] = bare
                else:
                    del made[name]
    return value if made is None else made
