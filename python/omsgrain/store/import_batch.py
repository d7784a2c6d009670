# SPDX-License-Identifier: Apache-2.0
"""The import of records into a store, whatever their format.

An import takes records by batches. It looks up together what is stored under their names, plans
the outcome of each, and stores what was planned in one transaction. The transaction checks whether
the plan still holds. If another writer changed something since, the record is planned again. An
import that was killed between two batches can run again: it finds what is stored already, and
stores the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
)

from omsgrain.errors import ErasedError, NotFoundError, OmsError, StoreError
from omsgrain.grain import Grain
from omsgrain.storage import erasure_queue
from omsgrain.storage.base import Writer
from omsgrain.storage.tables import COUNTER, COUNTERS, SEQUENCE, counter_of
from omsgrain.store import lifecycle
from omsgrain.store.context import Context, address_of, context_of, seq_of
from omsgrain.store.expiry import renew
from omsgrain.store.prepared import PreparedGrains
from omsgrain.store.source_index import SourceSnapshot, open_sources
from omsgrain.store.vectors import add_vector
from omsgrain.store.write import admit, let_back, prepare, put_admitted, refuse, write_grains

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

_MOST = 2**63 - 1
JOINED: Final = "a newer version was there already"
"""The justification when a grain joins a history, for policies that require one."""


@dataclass(frozen=True, slots=True)
class ImportStep:
    """A step of an import: what the store does for one record."""

    id: str  # its origin
    # the addresses of the current grains that were found under it, and under ``also``, when this
    # was decided; None: it does not matter what is there
    seen: tuple[str, ...] | None = ()
    grain: Grain | None = None  # the grain to put; None if a stored grain only gets a vector
    parts: tuple[Grain, ...] = ()  # the grains that it names, stored with it or not at all
    replaces: str | None = None  # the address of the grain that it supersedes
    justification: str | None = None  # of the supersession, for policies that require one
    about: str | None = None  # without a grain, the address of the vector's grain
    vector: tuple[str, bytes] | None = None  # a model, and float32 in little-endian order
    # more origins by which it was decided, such as the hash of its content
    also: tuple[str, ...] = ()
    # steps of a higher one come after all of a lower one, and may replace what these put
    wave: int = 0
    # how often another system read it, and when last, in ms since 1970
    reads: tuple[int, int | None] | None = None
    until: int | None = None  # when it must be erased, ms since 1970
    under: str | None = None  # the address of the newer grain whose history it joins

    @property
    def address(self) -> str | None:
        return None if self.grain is None else self.grain.address


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """The outcome of one step."""

    moved: bool = False  # another writer has changed what was seen; nothing was done
    error: OmsError | None = None  # why the store refuses the grain; nothing was done then either
    unkept: OmsError | None = None  # why the vector was not stored


DONE: Final = RecordOutcome()
"""The outcome of a record for which the store does nothing."""


class Recorded(NamedTuple):
    """The outcome of each step; the last sequence number after them, None if nothing was done."""

    outcomes: list[RecordOutcome]
    seq: int | None


WEIGHT: Final = 4 << 20
"""Bytes, or characters, of records that are in one transaction."""

R = TypeVar("R")


class Planned(Protocol):
    """The part of a plan that the import loop reads."""

    @property
    def one(self) -> Any:
        """The record."""

    @property
    def leans(self) -> tuple[int, ...]:
        """The places in the batch of the plans that this one depends on."""


P = TypeVar("P", bound=Planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTerms:
    """The options of an import; ``user_id`` is the user who gets the memory."""

    user_id: str
    allow_erased: bool
    dry_run: bool
    actor: str | None


class RecordImport(ABC, Generic[R, P]):
    """An import under way; a format plans and reports its records."""

    # grains after which the index is written; None: when the store writes it anyway
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
        """Return the steps for the store, by the number of the plan."""

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
        recorded = record(
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
                context_of(self.store).inner.flush()
        return recorded


def refusal(outcome: RecordOutcome) -> tuple[Literal["erased", "refused"], str] | None:
    """Return why the store refused a record, and the error code; None if it did not."""
    if outcome.error is None:
        return None
    erased = isinstance(outcome.error, ErasedError)
    return "erased" if erased else "refused", outcome.error.code


def batches(records: Iterable[R], size: int, weight: Callable[[R], int]) -> Iterator[list[R]]:
    """Split records into batches that are neither too long nor too heavy."""
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


# -- one transaction ------------------------------------------------------------------------------


class _Undone(Exception):
    """Rolls a transaction back, because one of its steps failed."""

    def __init__(self, outcomes: list[RecordOutcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


def record(
    context: Context,
    steps: Sequence[ImportStep],
    *,
    user_id: str,
    since: int,
    allow_erased: bool = False,
    actor: str | None = None,
    together: bool = False,
) -> Recorded:
    """Do the steps for some records of one user in one transaction."""
    blobs = [grain.blob for step in steps for grain in _grains(step)]
    given = PreparedGrains([])
    if blobs:
        (given,) = prepare(blobs, len(blobs), context.settings.resolver)
    known = {place: i for i, place in enumerate(given.places)}
    errors = {bad.index: bad.error for bad in given.errors}
    places: list[list[int]] = []
    refused: dict[int, RecordOutcome] = {}
    end = 0
    for n, step in enumerate(steps):
        span = range(end, end := end + len(_grains(step)))
        places.append([known[i] for i in span if i in known])
        for i in span:
            if i in errors:
                refused[n] = RecordOutcome(error=errors[i])

    def work(writer: Writer) -> Recorded:
        done = _ImportTransaction(
            context, writer, given, places, dict(refused), actor, allow_erased
        ).run(steps, user_id, since)
        if together and any(one.moved or one.error is not None for one in done):
            raise _Undone(done)
        return Recorded(done, writer.last_seq())

    try:
        return write_grains(context, given, work, allow_erased=allow_erased)
    except _Undone as undone:
        return Recorded(undone.outcomes, None)


def note_import(
    context: Context, format: str, counts: Mapping[str, int | str], *, actor: str | None = None
) -> None:
    """Note a finished import in the audit trail."""

    def work(writer: Writer) -> None:
        context.note(writer, "import", [], reason_code=format, details=dict(counts), actor=actor)

    context.storage.write(work)


@dataclass(slots=True)
class _ImportTransaction:
    """The steps of one transaction.

    ``places`` are those of each step's grains in ``given``, without refused ones; its own is last.
    ``found`` are the outcomes by the number of the step; without one, the step is done. ``stored``
    is the address of a step's grain.
    """

    context: Context
    writer: Writer
    given: PreparedGrains
    places: Sequence[Sequence[int]]
    found: dict[int, RecordOutcome]
    actor: str | None
    allow_erased: bool
    stored: dict[int, bytes] = field(default_factory=dict)

    def run(self, steps: Sequence[ImportStep], user_id: str, since: int) -> list[RecordOutcome]:
        if self.writer.last_seq() != since:
            self._look_again(steps, user_id)
        waves: dict[int, dict[int, ImportStep]] = {}
        for n, step in enumerate(steps):
            waves.setdefault(step.wave, {})[n] = step
        for _, wave in sorted(waves.items()):
            self._wave(wave)
        return [self.found.get(n, DONE) for n in range(len(steps))]

    def _look_again(self, steps: Sequence[ImportStep], user_id: str) -> None:
        """Find the steps that depend on grains that are gone, or not current any more."""
        watched = [(n, step) for n, step in enumerate(steps) if step.seen is not None]
        names = (name for _, step in watched for name in (step.id, *step.also))
        now = SourceSnapshot(self.writer, user_id, self.context.settings.clock).find(
            names, "current"
        )
        for n, step in watched:
            there = {one.address for name in (step.id, *step.also) for one in now.get(name, ())}
            if there != set(step.seen or ()):
                self.found[n] = RecordOutcome(moved=True)
        replaced = [(n, step.replaces) for n, step in enumerate(steps) if step.replaces]
        seqs = self.writer.find([bytes.fromhex(address) for _, address in replaced])
        for (n, _), seq in zip(replaced, seqs, strict=True):
            # An earlier wave may store a grain that is missing.
            if seq is not None and self.writer.is_past(seq):
                self.found[n] = RecordOutcome(moved=True)

    def _wave(self, steps: Mapping[int, ImportStep]) -> None:
        found = self.found
        for n, step in steps.items():
            if n not in found and (step.parts or step.replaces is not None):
                self._try(n, step)
            if n not in found and step.under is not None:
                (there,) = self.writer.find([bytes.fromhex(step.under)])
                if there is None:
                    found[n] = RecordOutcome(moved=True)
        plain = {
            i: n
            for n in steps
            if n not in found
            for i in self.places[n][: -1 if n in self.stored else None]
        }
        self._put(plain)
        for n, step in steps.items():
            if n not in found and step.under is not None:
                self._bury(n, step.under)
        self._vectors(steps)
        for n, step in steps.items():
            if n not in found and (step.reads is not None or step.until is not None):
                self._tell(n, step)

    def _try(self, n: int, step: ImportStep) -> None:
        """Supersede what a step replaces; check whether the parts of a record may be stored."""
        try:
            if step.parts:
                given = self.given.only(self.places[n])
                settings = self.context.settings
                refused, _ = admit(self.writer, settings, given, self.allow_erased)
                for _, error in sorted(refused.items()):
                    raise error
            if step.replaces is not None:
                self._supersede(n, step, step.replaces)
        except NotFoundError:
            self.found[n] = RecordOutcome(moved=True)
        except StoreError:
            raise
        except OmsError as error:
            self.found[n] = RecordOutcome(error=error)

    def _supersede(self, n: int, step: ImportStep, replaces: str) -> None:
        writer, before = self.writer, bytes.fromhex(replaces)
        given = self.given.only(self.places[n][-1:])
        settings = self.context.settings
        refuse(writer, settings, given, self.allow_erased)
        after, done = lifecycle.put_successor(writer, settings, before, given, step.justification)
        if self.allow_erased:
            let_back(writer, given)
        if done:
            self.context.note(writer, "supersede", [before, after], actor=self.actor)
        self.stored[n] = after

    def _bury(self, n: int, under: str) -> None:
        """Supersede the grain of a step by the newer one that is stored."""
        writer, old = self.writer, self.stored[n]
        try:
            digest = bytes.fromhex(address_of(writer, seq_of(writer, bytes.fromhex(under))))
            blob = writer.get(digest)
            given = PreparedGrains([(digest, blob or b"")])
            settings = self.context.settings
            lifecycle.put_successor(writer, settings, old, given, JOINED)
            self.context.note(writer, "supersede", [old, digest], actor=self.actor)
        except StoreError:
            raise
        except OmsError as error:  # it must not be current beside the newer one
            writer.remove(seq_of(writer, old))
            self.found[n] = RecordOutcome(error=error)

    def _put(self, plain: dict[int, int]) -> None:
        if not plain:
            return
        given, which = self.given, list(plain)
        if len(which) < len(given.pairs):
            given = given.only(which)
        outcome = put_admitted(
            self.context, self.writer, given, False, self.allow_erased, self.actor
        )
        if known := outcome.known():
            renew(self.context, self.writer, known)
        for at, (i, n) in enumerate(plain.items()):
            if at in outcome.refused:
                self.found[n] = RecordOutcome(error=outcome.refused[at])
            elif i == self.places[n][-1]:
                self.stored[n] = outcome.digests[at]

    def _tell(self, n: int, step: ImportStep) -> None:
        """Store how often the grains of a step were read, and when their retention ends."""
        writer = self.writer
        if step.reads is not None and n in self.stored:
            key = SEQUENCE.pack(seq_of(writer, self.stored[n]))
            count, last = counter_of(writer.row(COUNTERS, key))
            reads, at = step.reads
            latest = max(last or 0, at or 0)
            told = COUNTER.pack(min(max(count, reads), _MOST), min(latest, _MOST))
            writer.set_row(COUNTERS, key, told)
        if step.until is not None:
            digests = [self.given.pairs[i][0] for i in self.places[n]]
            for seq in writer.find(digests):
                if seq is not None:
                    erasure_queue.add(
                        writer, step.until, {"kind": erasure_queue.RETENTION, "seq": seq}
                    )

    def _vectors(self, steps: Mapping[int, ImportStep]) -> None:
        writer, given = self.writer, []
        for n, step in steps.items():
            if step.vector is None or n in self.found:
                continue
            model, data = step.vector
            digest = self.stored[n] if step.about is None else bytes.fromhex(step.about)
            try:
                add_vector(writer, digest, data, model)
                given.append(digest)
            except NotFoundError:  # of what was there: nothing else was to be done with it
                self.found[n] = RecordOutcome(moved=True)
            except StoreError:
                raise
            except OmsError as error:
                self.found[n] = RecordOutcome(unkept=error)
        if given:
            self.context.note(writer, "vector", given, actor=self.actor)


def _grains(step: ImportStep) -> tuple[Grain, ...]:
    return () if step.grain is None else (*step.parts, step.grain)
