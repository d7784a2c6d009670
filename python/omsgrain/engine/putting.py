# SPDX-License-Identifier: Apache-2.0
"""Putting grains."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from omsgrain.batch import GrainBatch, ItemError, ItemWarning, OnError, stops
from omsgrain.engine.base import Base
from omsgrain.errors import OmsWarning, RangeError
from omsgrain.intake import Item, Pair, intakes, take_one

__all__ = ["BATCH", "PutReport", "Putting"]


BATCH = 1_000
"""Grains a commit: enough that syncing to the disk costs little beside encoding."""


@dataclass(frozen=True, slots=True)
class PutReport:
    """What ``put_many`` did.

    Attributes:
        addresses: one for each item, in their order; None where it was refused.
        stored: how many were new.
        duplicates: how many were there already, or came twice.
        errors: the refusals, by position.
        warnings: what is allowed but looks like a mistake.
    """

    addresses: list[str | None]
    stored: int
    duplicates: int
    errors: list[ItemError]
    warnings: list[ItemWarning]


class Putting(Base):
    """The part of a GrainStore that takes grains in."""

    def put(self, item: Item) -> str:
        """Store one grain, durably when this returns; one that is there already stays as it is.

        Args:
            item: fields, a grain, or a blob.

        Returns:
            Its address.

        Raises:
            SchemaError: the fields are not what the type asks for, or the grain claims to
                supersede another, which only ``supersede`` may do.
            OmsError: any other refusal of the format.
            StoreError: read-only, full or broken; nothing was stored.

        Spec: OMS §28
        """
        pair, notes = take_one(item)
        for note in notes:
            warnings.warn(note, OmsWarning, stacklevel=2)
        self._store.write(lambda writer: writer.put([pair]))
        return pair[0].hex()

    def put_many(
        self,
        items: Iterable[Item] | GrainBatch,
        *,
        errors: OnError = "raise",
        batch_size: int = BATCH,
    ) -> PutReport:
        """Store many grains.

        With ``errors="raise"`` it is all or nothing, whatever happens: every item is checked
        first, then one transaction stores them all. They all have to fit in memory.

        With ``errors="collect"`` each ``batch_size`` items are a transaction of their own, and a
        refused item is reported without holding up the others. An endless iterator works. When it
        fails half way (a full disk, an exception of the iterator), whole batches are stored.

        Args:
            items: as for ``put``, in any mixture; or what ``encode_many`` or ``encode_jsonl``
                gave, whose good grains are not checked again.
            errors: ``raise`` or ``collect``.
            batch_size: items a transaction, with ``collect``.

        Raises:
            OmsError: with ``raise``, the first refusal; a ``batch_size`` below 1.
            StoreError: read-only, full or broken.

        Spec: OMS §28
        """
        stop = stops(errors)
        if batch_size < 1:
            raise RangeError("a batch has at least one item", found=f"batch_size={batch_size}")
        addresses: list[str | None] = []
        bad: list[ItemError] = []
        notes: list[ItemWarning] = []
        held: list[Pair] = []
        counts = [0, 0]
        for intake in intakes(items, batch_size):
            if stop and intake.errors:
                raise intake.errors[0].error
            good = [pair for pair in intake.pairs if pair is not None]
            if stop:
                held += good
            else:
                self._put_pairs(good, counts)
            addresses += [pair and pair[0].hex() for pair in intake.pairs]
            bad += intake.errors
            notes += intake.warnings
        self._put_pairs(held, counts)
        return PutReport(addresses, counts[1], counts[0], bad, notes)

    def _put_pairs(self, pairs: list[Pair], counts: list[int]) -> None:
        if pairs:
            for new in self._store.write(lambda writer: writer.put(pairs)):
                counts[new] += 1
