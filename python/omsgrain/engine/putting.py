# SPDX-License-Identifier: Apache-2.0
"""Putting grains."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from omsgrain.batch import GrainBatch, ItemError, ItemWarning, OnError, stops
from omsgrain.engine.admission import admit
from omsgrain.engine.base import Base
from omsgrain.engine.reviewing import Review, add
from omsgrain.engine.world import seq_of
from omsgrain.errors import OmsError, OmsWarning, RangeError, SchemaError
from omsgrain.intake import Item, Pair, intakes, take_one
from omsgrain.store.base import Writer

__all__ = ["BATCH", "PutReport", "Putting"]

BATCH = 1_000
"""Grains a commit: enough that syncing to the disk costs little beside encoding."""

Outcome: TypeAlias = "bool | OmsError"
"""Whether a grain is new, or why it was refused."""


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

    def put(self, item: Item, *, dedupe: Literal["semantic"] | None = None) -> str:
        """Store one grain, durably when this returns; one that is there already stays as it is.

        Args:
            item: fields, a grain, or a blob.
            dedupe: ``semantic``: if a current grain says the same, apart from when it was said,
                nothing is stored and that grain's address is returned.

        Returns:
            Its address.

        Raises:
            SchemaError: the fields are not what the type asks for, or the grain claims to
                supersede another, which only ``supersede`` may do.
            OmsError: any other refusal of the format, or of a preset.
            StoreError: read-only, full or broken; nothing was stored.

        Spec: OMS §28
        """
        if dedupe not in (None, "semantic"):
            raise SchemaError("unknown way to find duplicates", expected='"semantic" or None')
        pair, notes = take_one(item)
        for note in notes:
            warnings.warn(note, OmsWarning, stacklevel=2)

        def work(writer: Writer) -> str:
            if dedupe is not None:
                from omsgrain.index.history import find_same

                same: str | None = find_same(writer, pair[1])
                if same is not None:
                    return same
            self._take(writer, [pair], stop=True)
            return pair[0].hex()

        return self._store.write(work)

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
        if type(batch_size) is not int or batch_size < 1:
            raise RangeError("a batch has at least one item", found=f"batch_size={batch_size}")
        addresses: list[str | None] = []
        bad: list[ItemError] = []
        notes: list[ItemWarning] = []
        held: list[Pair] = []
        counts = [0, 0]
        for intake in intakes(items, batch_size):
            if stop and intake.errors:
                raise intake.errors[0].error
            first = len(addresses)
            addresses += [pair and pair[0].hex() for pair in intake.pairs]
            bad += intake.errors
            notes += intake.warnings
            good = [i for i, pair in enumerate(intake.pairs) if pair is not None]
            pairs = [pair for pair in intake.pairs if pair is not None]
            if stop:
                held += pairs
                continue
            for i, outcome in zip(good, self._put_pairs(pairs, counts, stop=False), strict=True):
                if isinstance(outcome, OmsError):
                    addresses[first + i] = None
                    bad.append(ItemError(first + i, None, outcome))
        self._put_pairs(held, counts, stop=True)
        bad.sort(key=lambda item: item.index)
        return PutReport(addresses, counts[1], counts[0], bad, notes)

    def _put_pairs(self, pairs: list[Pair], counts: list[int], *, stop: bool) -> list[Outcome]:
        """Store pairs in one transaction; adds to (duplicates, new)."""
        if not pairs:
            return []
        outcomes = self._store.write(lambda writer: self._take(writer, pairs, stop))
        for outcome in outcomes:
            if isinstance(outcome, bool):
                counts[outcome] += 1
        return outcomes

    def _take(self, writer: Writer, pairs: Sequence[Pair], stop: bool) -> list[Outcome]:
        """Put what is admitted, and note it."""
        admission = admit(writer, self._settings, pairs)
        refused = admission.refused
        if stop and refused:
            raise refused[min(refused)]
        admitted = [pair for i, pair in enumerate(pairs) if i not in refused]
        flags = writer.put(admitted)
        for i, rules in admission.reviews.items():
            address, now = pairs[i][0].hex(), self._settings.clock()
            number = seq_of(writer, pairs[i][0])
            add(writer, Review(number, "put", address, None, None, now, rules))
        fresh = [pair[0] for pair, new in zip(admitted, flags, strict=True) if new]
        if fresh:
            self._note(writer, "put", fresh)
        rest = iter(flags)
        return [refused[i] if i in refused else next(rest) for i in range(len(pairs))]
