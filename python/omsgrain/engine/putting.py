# SPDX-License-Identifier: Apache-2.0
"""Putting grains."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Literal, NamedTuple

from omsgrain.batch import GrainBatch, ItemError, ItemWarning, OnError, stops
from omsgrain.counts import counted
from omsgrain.engine.admission import admit
from omsgrain.engine.bringing import Bringing
from omsgrain.engine.incoming import Incoming
from omsgrain.engine.placing import Placed, place
from omsgrain.engine.reviewing import Review, add
from omsgrain.engine.world import seq_of, stored_digest
from omsgrain.errors import OmsError, OmsWarning, RangeError, SchemaError, number_found
from omsgrain.grain import Grain
from omsgrain.intake import Intake, Item, intakes, take_one
from omsgrain.store.base import Reader, Writer
from omsgrain.store.unsealing import SealedWriter

__all__ = ["BATCH", "PutReport", "Putting", "joined"]

BATCH = 1_000
"""Grains a commit: enough that syncing to the disk costs little beside encoding."""


class Outcome(NamedTuple):
    """What became of some grains.

    Attributes:
        digests: the address that each stands under.
        new: of each, whether it was not there before.
        refused: why some were refused, by position.
    """

    digests: Sequence[bytes]
    new: Sequence[bool]
    refused: Mapping[int, OmsError]


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

    __repr__ = counted


class Putting(Bringing):
    """The part of a GrainStore that takes grains in."""

    def put(
        self,
        item: Item,
        *,
        dedupe: Literal["semantic"] | None = None,
        allow_erased: bool = False,
    ) -> str:
        """Store one grain, durably when this returns; one that is there already stays as it is.

        With keys, a grain that has a ``user_id`` is sealed, and so is one that a preset wants
        sealed; ``get`` opens it.

        Args:
            item: fields, a grain, a blob, or an envelope with a signed blob.
            dedupe: ``semantic``: if a current grain says the same, apart from when it was said,
                nothing is stored and that grain's address is returned.
            allow_erased: store it though it was erased before.

        Returns:
            The address that it is stored under: of a sealed grain that of the sealed blob. Put
            again, it has the address that it has already.

        Raises:
            ErasedError: this grain was erased.
            SignatureError: the signature does not hold, or the store wants one.
            SchemaError: the fields are not what the type asks for, or the grain claims to
                supersede another, which only ``supersede`` may do.
            OmsError: any other refusal of the format, or of a preset.
            StoreError: read-only, full or broken; nothing was stored.

        Spec: OMS §28
        """
        if dedupe not in (None, "semantic"):
            raise SchemaError("unknown way to find duplicates", expected='"semantic" or None')
        intake = take_one(item, resolver=self._settings.resolver)
        for note in intake.warnings:
            warnings.warn(note.message, OmsWarning, stacklevel=2)

        def work(writer: Writer, given: Incoming) -> str:
            if dedupe is not None:
                from omsgrain.index.history import find_same

                grain, reader = given.grain(0), _near(writer, given.grain(0))
                same: str | None = find_same(reader, grain.blob)
                if same is not None and not _signs(reader, given, same):
                    return stored_digest(reader, bytes.fromhex(same)).hex()
            return self._take(writer, given, True, allow_erased).digests[0].hex()

        return self._bring(intake, work, allow_erased=allow_erased)

    def put_many(
        self,
        items: Iterable[Item] | GrainBatch,
        *,
        errors: OnError = "raise",
        batch_size: int = BATCH,
        allow_erased: bool = False,
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
            batch_size: items a transaction, with ``collect``; fewer where the store was opened
                with so little memory that it cannot have as many.
            allow_erased: store those, too, that were erased before.

        Raises:
            OmsError: with ``raise``, the first refusal; a ``batch_size`` below 1.
            StoreError: read-only, full or broken.

        Spec: OMS §28
        """
        stop = stops(errors)
        if type(batch_size) is not int or batch_size < 1:
            found = number_found(batch_size)
            raise RangeError("a batch has at least one item", field="/batch_size", found=found)
        report = PutReport([], 0, 0, [], [])
        held: list[Intake] = []
        size = min(batch_size, self._settings.budget.batch)
        for intake in intakes(items, size, self._settings.resolver):
            if stop and intake.errors:
                raise intake.errors[0].error
            report.errors.extend(intake.errors)
            report.warnings.extend(intake.warnings)
            if stop:
                held.append(intake)
            else:
                report = self._put_intake(intake, report, False, allow_erased)
        if held:
            report = self._put_intake(joined(held), report, True, allow_erased)
        report.errors.sort(key=lambda item: item.index)
        return report

    def _put_intake(
        self, intake: Intake, report: PutReport, stop: bool, allow_erased: bool
    ) -> PutReport:
        """Store what was not refused in one transaction, and add to a report."""
        first = len(report.addresses)
        good = intake.good()
        if not good:
            report.addresses.extend([None] * len(intake.pairs))
            return report
        digests, new, refused = self._bring(
            intake,
            lambda writer, given: self._take(writer, given, stop, allow_erased),
            allow_erased=allow_erased,
        )
        if not refused and len(good) == len(intake.pairs):
            report.addresses.extend(map(bytes.hex, digests))
        else:
            report.addresses.extend([None] * len(intake.pairs))
            for n, i in enumerate(good):
                if n in refused:
                    report.errors.append(ItemError(first + i, None, refused[n]))
                else:
                    report.addresses[first + i] = digests[n].hex()
        stored = sum(new)
        return replace(
            report,
            stored=report.stored + stored,
            duplicates=report.duplicates + len(good) - len(refused) - stored,
        )

    def _take(
        self,
        writer: Writer,
        given: Incoming,
        stop: bool,
        allow_erased: bool,
        actor: str | None = None,
    ) -> Outcome:
        """Put what is admitted, and note it."""
        pairs = given.pairs
        admission = admit(writer, self._settings, given, allow_erased)
        refused = admission.refused
        if not (refused or admission.reviews or given.sealed or given.signatures):
            digests, flags = [digest for digest, _ in pairs], writer.put(pairs)
            if fresh := list(compress(digests, flags)):
                self._note(writer, "put", fresh, actor=actor)
            return Outcome(digests, flags, refused)
        if stop and refused:
            raise refused[min(refused)]
        admitted = [i for i in range(len(pairs)) if i not in refused]
        placed = place(writer, given, admitted)
        found = dict(zip(admitted, placed, strict=True))
        for i, rules in admission.reviews.items():
            digest, now = found[i].digest, self._settings.clock()
            number = seq_of(writer, digest)
            add(writer, Review(number, "put", digest.hex(), None, None, now, rules))
        late = next((one.refusal for one in placed if one.refusal is not None), None)
        if stop and late is not None:
            raise late
        if fresh := [one.digest for one in placed if one.new]:
            self._note(writer, "put", fresh, actor=actor)
        if signed := [one.digest for one in placed if one.signed]:
            self._note(writer, "sign", signed, actor=actor)
        refused.update((i, one.refusal) for i, one in found.items() if one.refusal is not None)
        ends = [found.get(i) or Placed(pair[0], False) for i, pair in enumerate(pairs)]
        return Outcome([one.digest for one in ends], [one.new for one in ends], refused)


def _near(writer: Writer, grain: Grain) -> Reader:
    """Where a grain that says the same can be: those of other users say that they are theirs.

    To look among all sealed grains costs a token for each user.
    """
    if not isinstance(writer, SealedWriter):
        return writer
    user_id = grain.get("user_id")
    return writer.narrowed(user_id if isinstance(user_id, str) else "", ())


def _signs(reader: Reader, given: Incoming, address: str) -> bool:
    """Whether a grain that stands at an address already was given with a signature."""
    if not given.signatures:
        return False
    first, second = reader.find([given.plain(0), bytes.fromhex(address)])
    return first == second


def joined(parts: Sequence[Intake]) -> Intake:
    """Several intakes as one."""
    if len(parts) == 1:
        return parts[0]
    whole = Intake([], [], [])
    for part in parts:
        first = len(whole.pairs)
        whole.pairs.extend(part.pairs)
        whole.whole.update(first + i for i in part.whole)
        whole.signatures.update({first + i: one for i, one in part.signatures.items()})
    return whole
