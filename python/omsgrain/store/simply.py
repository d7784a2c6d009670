# SPDX-License-Identifier: Apache-2.0
"""Answers put together row by row, for stores that know no shorter way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from omsgrain import _core
from omsgrain.errors import IntegrityError
from omsgrain.grain import Grain
from omsgrain.store.base import Writer
from omsgrain.store.tables import Table

__all__ = ["dropped", "misplaced", "placed", "stored"]


def dropped(writer: Writer, table: Table, prefix: bytes, most: int) -> int:
    """Delete rows one by one, as ``drop_rows`` says."""
    rows = list(islice(writer.rows(table, prefix=prefix), most))
    for key, _ in rows:
        writer.set_row(table, key, None)
    return len(rows)


def stored(blob: bytes) -> Grain:
    """Make the grain of a stored blob; it is decoded when it is asked for its fields."""
    return Grain._stored(blob, _core.address(blob))


def placed(
    read: Callable[[int], Grain | None], places: Sequence[bytes]
) -> list[tuple[bytes, Grain]]:
    """Read the grains at some places one by one, as ``grains_at`` says."""
    read_all = [(place, read(int.from_bytes(place[12:], "big"))) for place in places]
    found = [(place, grain) for place, grain in read_all if grain is not None]
    if not _core.all_placed([place for place, _ in found], [g.address for _, g in found]):
        raise misplaced()
    return found


def misplaced() -> IntegrityError:
    """Make the error for a grain that does not belong where the index has it."""
    return IntegrityError("a stored grain or its index row is damaged")
