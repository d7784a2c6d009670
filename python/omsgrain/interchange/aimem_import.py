# SPDX-License-Identifier: Apache-2.0
"""A bundle into a store. Spec: AIMEM §2.9, §3.2, §5.1, §5.4.

The bundle is checked whole before anything is stored. Then records are taken by batches: what is
stored under their names is looked up together, what becomes of each is decided, and what is to be
done is one transaction. An import that was killed between two batches is run again: what is there
already is found, and the rest follows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Final

from omsgrain.errors import ErasedError, RangeError, StoreError, number_found
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.aimem import records
from omsgrain.formats.aimem.document import Bundle
from omsgrain.formats.aimem.fields import ARRAYS, LIMITS, AimemLimits, Kind
from omsgrain.formats.problems import Problem
from omsgrain.interchange.aimem_plan import (
    INSERTED,
    UPDATED,
    AimemDecision,
    AimemPlan,
    AimemPlanner,
    BundleRecord,
    BundleTerms,
    Embeddings,
)
from omsgrain.interchange.aimem_snapshot import SnapshotDocument
from omsgrain.interchange.report import ImportSummary, ImportTally
from omsgrain.interchange.user_memory import check_keys, check_tenant
from omsgrain.store.import_batch import ImportStep, RecordOutcome

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

JUSTIFICATION: Final = "a newer version was imported"
"""What stands beside a DNA-class chunk that was superseded because that was allowed."""
_WEIGHT = 4 << 20  # characters of records that are in memory together
_RUN: Final = 4_096
"""Grains after which the index is written. LMDB keeps all pages that a transaction touches in
memory, and in a large store nearly each row of a run touches one of its own. With runs as short as
these a million chunks take 230 MB in all, and no more time."""
_DONE: Final = RecordOutcome()


def _nothing() -> None:
    """Nobody stops it."""


def import_bundle(
    store: GrainStore,
    source: Bundle | IO[bytes],
    *,
    tenant: str | None = None,
    allow_erased: bool = False,
    allow_dna_updates: bool = False,
    models: Collection[str] | None = None,
    keep_document: bool = False,
    signature: str | None = None,
    dry_run: bool = False,
    batch_size: int = 1_000,
    alive: Callable[[], None] = _nothing,
    actor: str | None = None,
    limits: AimemLimits = LIMITS,
) -> ImportSummary:
    """Take a bundle into a store. Run again, it changes nothing.

    A record whose id is stored already is left as it is, superseded by a newer version, or in
    conflict; a conflict is told in the summary and holds up nothing else. A chunk with other
    content and a newer ``created_at`` supersedes an ordinary one; one that is DNA-class or pinned
    only with ``allow_dna_updates``.
    """
    if type(batch_size) is not int or batch_size < 1:
        found = number_found(batch_size)
        raise RangeError("a batch has at least one record", field="/batch_size", found=found)
    if isinstance(source, Bundle):
        envelope, warnings, arrays = source.envelope, source.warnings, frozenset(source.records)
        every: Iterable[tuple[Kind, dict[str, Any]]] = _records(source)
    else:
        start = source.tell()
        scan = stream.scan(source, limits)
        source.seek(start)
        envelope, warnings, arrays = scan.envelope, scan.warnings, frozenset(ARRAYS.values())
        every = stream.records(source)
    owner: str = envelope["tenant_id"] if tenant is None else tenant
    check_tenant(owner)
    with store._store.read() as reader:
        check_keys(reader)  # what is there already could not be found
    document = SnapshotDocument(envelope, arrays, owner) if keep_document and not dry_run else None
    embeddings = Embeddings(envelope, models)
    terms = BundleTerms(owner, allow_erased, allow_dna_updates, dry_run, actor)
    work = _AimemImport(store, terms, embeddings, document)
    for batch in _batches(every, batch_size):
        alive()
        work.take(batch)
    more: list[Problem] = embeddings.warnings()
    if document is not None:
        more += document.keep(store, allow_erased=allow_erased)
    summary = work.tally.summary([*warnings, *more])
    if not dry_run:
        details: dict[str, int | str] = dict(summary.audited())
        if signature is not None:
            details["signature"] = signature
        store.note_import(records.FORMAT, details, actor=actor)
    return summary


class _AimemImport:
    """One import while it goes on."""

    def __init__(
        self,
        store: GrainStore,
        terms: BundleTerms,
        embeddings: Embeddings,
        document: SnapshotDocument | None,
    ) -> None:
        self.tally = ImportTally()
        self._store = store
        self._terms = terms
        self._embeddings = embeddings
        self._planner = AimemPlanner(terms, embeddings)
        self._document = document
        self._unwritten = 0

    def take(self, batch: list[BundleRecord]) -> None:
        """Take some records; what somebody has changed meanwhile is decided again."""
        while batch:
            with self._store.sources(self._terms.tenant) as snapshot:
                plans = self._planner.plan(snapshot, batch)
            batch = self._carry_out(plans, snapshot.seq)

    def _carry_out(self, plans: list[AimemPlan], since: int) -> list[BundleRecord]:
        """Do what is to be done; gives the records that must be decided again."""
        terms = self._terms
        steps = {} if terms.dry_run else self._steps(plans)
        outcomes: dict[int, RecordOutcome] = {}
        if steps:
            done = self._store.record(
                list(steps.values()),
                user_id=terms.tenant,
                since=since,
                allow_erased=terms.allow_erased,
                actor=terms.actor,
            )
            outcomes = dict(zip(steps, done.outcomes, strict=True))
            self._unwritten += len(steps)
            if self._unwritten >= _RUN:
                self._unwritten = 0
                with suppress(StoreError):  # no room for it is told by the next put
                    self._store._store.flush()
        again = []
        bad = {i for i, one in outcomes.items() if one.moved or one.error is not None}
        for i, plan in enumerate(plans):
            outcome = outcomes.get(i, _DONE)
            # What was decided by what the store then refused is decided without it.
            if outcome.moved or (i not in steps and plan.behind in bad):
                again.append(plan.record)
                continue
            decision, code = plan.decision, None
            if outcome.error is not None:
                erased = isinstance(outcome.error, ErasedError)
                decision = AimemDecision("conflict", "erased" if erased else "refused")
                code = outcome.error.code
            if outcome.unkept is not None:
                self._embeddings.unkept()
            self.tally.add(plan.record.kind, plan.record.name, decision, code)
            if self._document is not None:
                step = steps.get(i)
                self._document.note(plan, decision, None if step is None else step.grain)
        return again

    def _steps(self, plans: list[AimemPlan]) -> dict[int, ImportStep]:
        """What the store is to do, by the number of the plan."""
        new = {
            i: plan.record
            for i, plan in enumerate(plans)
            if plan.carried is None and plan.decision in (INSERTED, UPDATED)
        }
        pairs = ((record.kind, record.value) for record in new.values())
        built = dict(zip(new, records.to_grains(pairs, tenant=self._terms.tenant), strict=True))
        steps: dict[int, ImportStep] = {}
        for i, plan in enumerate(plans):
            name = plan.record.name
            stored = None if plan.stored is None else plan.stored.address
            if plan.behind is not None:
                stored = steps[plan.behind].address if i in built else None
            if plan.carried is not None:
                steps[i] = ImportStep(name, plan.seen, plan.carried, vector=plan.vector)
            elif i in built:
                why = None if stored is None else JUSTIFICATION
                grain, parts = built[i].grain, tuple(built[i].parts)
                steps[i] = ImportStep(
                    name,
                    plan.seen,
                    grain,
                    parts,
                    stored,
                    why,
                    vector=plan.vector,
                    wave=plan.wave,
                )
            elif plan.vector is not None:
                steps[i] = ImportStep(name, plan.seen, about=stored, vector=plan.vector)
        return steps


def _records(bundle: Bundle) -> Iterator[tuple[Kind, dict[str, Any]]]:
    for kind in ARRAYS.values():
        for record in bundle.records.get(kind, ()):
            yield kind, record


def _batches(
    every: Iterable[tuple[Kind, dict[str, Any]]], size: int
) -> Iterator[list[BundleRecord]]:
    batch: list[BundleRecord] = []
    weight = 0
    places: dict[Kind, int] = dict.fromkeys(ARRAYS.values(), 0)
    for kind, value in every:
        batch.append(BundleRecord(places[kind], kind, value))
        places[kind] += 1
        weight += _weight(value)
        if len(batch) == size or weight > _WEIGHT:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def _weight(record: Mapping[str, Any]) -> int:
    """About how many characters a record has."""
    return sum(
        len(json.dumps(value)) if isinstance(value, dict | list) else len(str(value))
        for value in record.values()
    )
