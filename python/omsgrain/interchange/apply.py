# SPDX-License-Identifier: Apache-2.0
"""The import of records into a store, whatever their format.

An import takes records by batches. It looks up together what is stored under their names, plans
the outcome of each, and does what was planned in one transaction. If another writer changed
something meanwhile, it plans the record again. An import that was killed between two batches can
be run again: it finds what is stored already, and stores the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar

from omsgrain.errors import ErasedError, RangeError, StoreError, number_found
from omsgrain.store import import_batch
from omsgrain.store.context import context_of
from omsgrain.store.import_batch import ImportStep, Recorded, RecordOutcome
from omsgrain.store.source_index import open_sources

if TYPE_CHECKING:
    from omsgrain.store import GrainStore
    from omsgrain.store.source_index import SourceSnapshot

DONE: Final = RecordOutcome()
"""The outcome of a record for which the store does nothing."""
WEIGHT: Final = 4 << 20
"""Bytes, or characters, of records that are in one transaction."""

R = TypeVar("R")


class Planned(Protocol):
    """What the import loop reads of a plan."""

    @property
    def one(self) -> Any:
        """The record."""

    @property
    def leans(self) -> tuple[int, ...]:
        """The places in the batch of the plans that this one depends on."""


P = TypeVar("P", bound=Planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTerms:
    """The options of an import.

    Attributes:
        user_id: the user who gets the memory.
        allow_erased: whether erased records may be stored again.
        dry_run: whether nothing is stored.
        actor: who imports, for the audit trail.
    """

    user_id: str
    allow_erased: bool
    dry_run: bool
    actor: str | None


class RecordImport(ABC, Generic[R, P]):
    """An import under way; a format plans and reports its records.

    Attributes:
        run: grains after which the index is written; None: when the store writes it anyway.
    """

    run: ClassVar[int | None] = None

    def __init__(self, store: GrainStore, terms: ImportTerms) -> None:
        self.store = store
        self._terms = terms
        self._unwritten = 0

    @abstractmethod
    def plan(self, snapshot: SourceSnapshot, batch: list[R]) -> list[P]:
        """Decide what becomes of records."""

    @abstractmethod
    def steps(self, plans: list[P]) -> dict[int, ImportStep]:
        """The steps for the store, by the number of the plan."""

    def planned(self, bad: set[int], seq: int | None) -> None:
        """Note what the store refused, by the number of the plan."""
        return

    @abstractmethod
    def tell(self, plan: P, outcome: RecordOutcome, step: ImportStep | None) -> None:
        """Report the outcome of a record."""

    def take(self, batch: list[R]) -> None:
        """Import some records; plan again what another writer changed meanwhile."""
        while batch:
            with open_sources(context_of(self.store), self._terms.user_id) as snapshot:
                plans = self.plan(snapshot, batch)
            steps = self.steps(plans)
            outcomes, seq = self.record(list(steps.values()), snapshot.seq)
            done = dict(zip(steps, outcomes, strict=True))
            bad = {i for i, one in done.items() if one.moved or one.error is not None}
            self.planned(bad, seq)
            batch = []
            for i, plan in enumerate(plans):
                outcome = done.get(i, DONE)
                # A plan that depends on a step that the store refused is made again.
                leans = () if i in steps else plan.leans
                if outcome.moved or not bad.isdisjoint(leans):
                    batch.append(plan.one)
                else:
                    self.tell(plan, outcome, steps.get(i))

    def record(self, steps: list[ImportStep], since: int, *, together: bool = False) -> Recorded:
        """Do some steps in the store, unless it is a dry run."""
        terms = self._terms
        if terms.dry_run or not steps:
            return Recorded([DONE] * len(steps), since)
        recorded = import_batch.record(
            context_of(self.store),
            steps,
            user_id=terms.user_id,
            since=since,
            allow_erased=terms.allow_erased,
            actor=terms.actor,
            together=together,
        )
        self._unwritten += len(steps)
        if self.run is not None and self._unwritten >= self.run:
            self._unwritten = 0
            with suppress(StoreError):  # the next put reports a full disk
                context_of(self.store).storage.flush()
        return recorded


def refusal(outcome: RecordOutcome) -> tuple[Literal["erased", "refused"], str] | None:
    """Why the store refused a record, and the error code; None if it did not."""
    if outcome.error is None:
        return None
    erased = isinstance(outcome.error, ErasedError)
    return "erased" if erased else "refused", outcome.error.code


def check_batch_size(size: int) -> None:
    """Refuse a batch without a record."""
    if type(size) is not int or size < 1:
        found = number_found(size)
        raise RangeError("a batch has at least one record", field="/batch_size", found=found)


def batches(records: Iterable[R], size: int, weight: Callable[[R], int]) -> Iterator[list[R]]:
    """Records by batches that are neither too long nor too heavy."""
    batch: list[R] = []
    weighs = 0
    for one in records:
        batch.append(one)
        weighs += weight(one)
        if len(batch) == size or weighs > WEIGHT:
            yield batch
            batch, weighs = [], 0
    if batch:
        yield batch
