# SPDX-License-Identifier: Apache-2.0
"""A bundle into a store; it is checked whole before. Spec: AIMEM §2.9, §3.2, §5.1, §5.4."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Final

from omsgrain import _core
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.aimem import fields, records
from omsgrain.formats.aimem.check import WARNINGS
from omsgrain.formats.aimem.document import Bundle
from omsgrain.formats.aimem.fields import ARRAYS, LIMITS, AimemLimits, Kind
from omsgrain.formats.aimem.records import FORMAT
from omsgrain.formats.document import Manifest, manifest
from omsgrain.formats.problems import Problem
from omsgrain.grain import Grain
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
from omsgrain.interchange.apply import RecordImport, batches, check_batch_size, refusal
from omsgrain.interchange.report import ImportSummary, ImportTally
from omsgrain.store.context import context_of
from omsgrain.store.import_batch import ImportStep, RecordOutcome, note_import
from omsgrain.store.source_index import SourceSnapshot, check_keys, check_tenant

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

JUSTIFICATION: Final = "a newer version was imported"
"""What stands beside a DNA-class chunk that was superseded because that was allowed."""


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
    check_batch_size(batch_size)
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
    with context_of(store).storage.read() as reader:
        check_keys(reader)  # what is there already could not be found
    document = SnapshotDocument(envelope, arrays, owner) if keep_document and not dry_run else None
    embeddings = Embeddings(envelope, models)
    terms = BundleTerms(
        user_id=owner,
        allow_erased=allow_erased,
        dry_run=dry_run,
        actor=actor,
        allow_dna_updates=allow_dna_updates,
    )
    work = _BundleImport(store, terms, embeddings, document)
    for batch in batches(_placed(every), batch_size, _weight):
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
        note_import(context_of(store), records.FORMAT, details, actor=actor)
    return summary


class _BundleImport(RecordImport[BundleRecord, AimemPlan]):
    """The import of one bundle."""

    run = 4_096
    # LMDB keeps all pages that a transaction touches in memory, and in a large store nearly each
    # row of a run touches one of its own. With runs as short as these a million chunks take
    # 230 MB in all, and no more time.

    def __init__(
        self,
        store: GrainStore,
        terms: BundleTerms,
        embeddings: Embeddings,
        document: SnapshotDocument | None,
    ) -> None:
        super().__init__(store, terms)
        self.tally = ImportTally()
        self._embeddings = embeddings
        self._planner = AimemPlanner(terms, embeddings)
        self._document = document

    def plan(self, snapshot: SourceSnapshot, batch: list[BundleRecord]) -> list[AimemPlan]:
        """Decide what becomes of records."""
        return self._planner.plan(snapshot, batch)

    def tell(self, plan: AimemPlan, outcome: RecordOutcome, step: ImportStep | None) -> None:
        """Count a record, and note what it is kept as."""
        decision, code = plan.decision, None
        if (refused := refusal(outcome)) is not None:
            reason, code = refused
            decision = AimemDecision("conflict", reason)
        if outcome.unkept is not None:
            self._embeddings.unkept()
        self.tally.add(plan.one.kind, plan.one.name, decision, code)
        if self._document is not None:
            self._document.note(plan, decision, None if step is None else step.grain)

    def steps(self, plans: list[AimemPlan]) -> dict[int, ImportStep]:
        """What the store is to do, by the number of the plan; in a dry run nothing."""
        if self._terms.dry_run:
            return {}
        new = {
            i: plan.one
            for i, plan in enumerate(plans)
            if plan.carried is None and plan.decision in (INSERTED, UPDATED)
        }
        pairs = ((record.kind, record.value) for record in new.values())
        built = dict(zip(new, records.to_grains(pairs, tenant=self._terms.user_id), strict=True))
        steps: dict[int, ImportStep] = {}
        for i, plan in enumerate(plans):
            name = plan.one.name
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


def _placed(every: Iterable[tuple[Kind, dict[str, Any]]]) -> Iterator[BundleRecord]:
    """Records with their places among those of their kind."""
    places: dict[Kind, int] = dict.fromkeys(ARRAYS.values(), 0)
    for kind, value in every:
        yield BundleRecord(places[kind], kind, value)
        places[kind] += 1


def _weight(record: BundleRecord) -> int:
    """About how many characters a record has."""
    return sum(
        len(json.dumps(value)) if isinstance(value, dict | list) else len(str(value))
        for value in record.value.values()
    )


_GONE: Final = b""


class SnapshotDocument:
    """A document that is to be kept, if all its records are stored as they came."""

    def __init__(self, envelope: Mapping[str, Any], kinds: Collection[Kind], tenant: str) -> None:
        self._envelope = dict(envelope)
        self._tenant = tenant
        self._digests: dict[Kind, list[bytes]] = {
            kind: [] for kind in ARRAYS.values() if kind in kinds
        }

    def note(self, plan: AimemPlan, decision: AimemDecision, grain: Grain | None) -> None:
        """Note which grain a record is; none, if no grain says exactly what it does."""
        listed = self._digests[plan.one.kind]
        listed.extend([_GONE] * (plan.one.place + 1 - len(listed)))
        if decision.fate == "conflict":
            return
        if plan.twin is not None and plan.exact:
            listed[plan.one.place] = listed[plan.twin.place]
        if grain is None and plan.stored is not None and plan.exact:
            grain = plan.stored.grain
        if grain is not None and plan.carried is None:
            listed[plan.one.place] = bytes.fromhex(_core.address(grain.blob))

    def keep(self, store: GrainStore, *, allow_erased: bool) -> list[Problem]:
        """Store it; a warning if that cannot be."""
        if any(_GONE in listed for listed in self._digests.values()):
            return [Problem("document_not_kept", "", WARNINGS["document_not_kept"].says)]
        names = {kind: name for name, kind in ARRAYS.items()}
        arrays = {
            names[kind]: [digest.hex() for digest in listed]
            for kind, listed in self._digests.items()
        }
        created_at = fields.of_grain(fields.parse_time(self._envelope["exported_at"]))
        whole = Manifest(FORMAT, self._envelope["checksum"], self._envelope, arrays)
        grains = manifest(whole, created_at=created_at, user_id=self._tenant)
        store.put_many(grains, allow_erased=allow_erased)
        return []
