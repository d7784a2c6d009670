# SPDX-License-Identifier: Apache-2.0
"""How many grains have a term: counted where few have it, kept in a row where many have.

A row for every term would be written at every put, and half of all terms have one grain. So only
terms that many have get a row, which is exact from then on: each commit adds what it added. To
find such terms costs next to nothing, because it is left to chance: of one grain in so many, told
by its address, all terms are looked at. A term without a row has a few thousand grains at the
most, nearly always, and those are counted in the index when they are asked for.

What terms have a row is remembered by each process. The head of the store has the ordinal of the
last one, so a writer sees when others have found more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from omsgrain.store.postgres import statements as sql
from omsgrain.store.postgres.adding import Added, terms_of
from omsgrain.store.postgres.arrays import byteas

if TYPE_CHECKING:
    from omsgrain.store.postgres.writing import PostgresWriter

__all__ = ["GENERATION", "MANY", "Counts"]

MANY = 1_024
"""Grains of a term that is worth a row."""

GENERATION = 1 << 32
"""Ordinals of a generation: a rebuild takes the next one, so that all are learnt anew."""

_SEEN = 1_023  # a mask: of one grain in 1,024 the terms are looked at


class Counts:
    """The terms that have a row, as far as this process knows.

    Attributes:
        ordinal: of the last of them.
        keys: all of them.
    """

    __slots__ = ("keys", "ordinal")

    def __init__(self, ordinal: int = 0, keys: frozenset[bytes] = frozenset()) -> None:
        self.ordinal = ordinal
        self.keys = keys

    def loaded(self, writer: PostgresWriter) -> Counts:
        """Return what is known in a transaction, with what others have found since."""
        if writer.head.ordinal == self.ordinal:
            return self
        # A rebuild, or a database that was put back, begins a new generation.
        same = writer.head.ordinal >> 32 == self.ordinal >> 32
        more = same and writer.head.ordinal > self.ordinal
        rows = writer.all(sql.COUNTED, self.ordinal if more else 0)
        known = self.keys if more else frozenset()
        return Counts(writer.head.ordinal, known.union(key for key, _ in rows))

    def changed(self, changes: Mapping[bytes, tuple[int, int]]) -> dict[bytes, tuple[int, int]]:
        """Pick from what changed the terms that have a row."""
        return {key: changes[key] for key in self.keys & changes.keys() if any(changes[key])}

    def chosen(self, grains: list[Added]) -> list[Added]:
        """Pick the grains whose terms are looked at."""
        return [g for g in grains if int.from_bytes(g[1][:2], "big") & _SEEN == 0]

    def noticed(self, writer: PostgresWriter, chosen: list[Added]) -> Counts:
        """Give rows to the terms of some grains, if many have them."""
        keys = sorted({key for key, _ in terms_of(chosen).lists} - self.keys)
        if not keys:
            return self
        many = [key for (key,) in writer.run(sql.MANY, byteas(keys), writer.store_id, MANY, MANY)]
        return self.counted(writer, many) if many else self

    def counted(self, writer: PostgresWriter, keys: list[bytes]) -> Counts:
        """Give rows to terms, which have none."""
        number, last = writer.store_id, writer.head.ordinal
        writer.run(sql.COUNT, number, last, number, number, byteas(keys))
        writer.head = writer.head._replace(ordinal=last + len(keys))
        return Counts(writer.head.ordinal, self.keys.union(keys))
