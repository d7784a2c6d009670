# SPDX-License-Identifier: Apache-2.0
"""A MIF document into a store. Spec: MIF 2.0 §6, MIF 1.0 §8."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omsgrain.formats import source, times
from omsgrain.formats.base import Format
from omsgrain.formats.document import Import, manifest
from omsgrain.formats.json_text import drained
from omsgrain.formats.mif import Reads, vendor_keys, without_keys
from omsgrain.formats.mif1.document import DocumentConsent
from omsgrain.formats.problems import Problem
from omsgrain.formats.table import version
from omsgrain.grain import make
from omsgrain.interchange.outcome import Decision, MifReport, RecordReport, strategy_of
from omsgrain.interchange.parse import NATIVE, Arrived, ParsedDocument, arrived, hash_of, read
from omsgrain.interchange.plan import MergeTerms, Planner, RecordPlan
from omsgrain.interchange.references import lead, rename, resolved
from omsgrain.store.context import context_of, see_whole
from omsgrain.store.export_filter import SHARING
from omsgrain.store.import_batch import (
    DONE,
    ImportStep,
    RecordImport,
    RecordOutcome,
    batches,
    note_import,
    refusal,
)
from omsgrain.store.source_index import SourceSnapshot, open_sources

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

JUSTIFICATION: Final = "a document with another version of it was imported"
"""The justification of a supersession, for policies that require one."""
_GONE: Final = ""  # in place of the address of a record that is not stored
_PAGE: Final = 256
"""Grains that are read in one snapshot."""
_TRIES: Final = 100  # plans of an atomic import, if another writer is faster each time


def import_document(
    store: GrainStore,
    document: bytes | Import | ParsedDocument,
    *,
    user_id: str | None = None,
    format: str = "auto",
    merge_strategy: str = "skip_duplicates",
    dry_run: bool = False,
    atomic: bool = False,
    allow_erased: bool = False,
    keep_document: bool = True,
    batch_size: int = 1_000,
    actor: str | None = None,
    alive: Callable[[], None] = lambda: None,
    **options: Any,
) -> MifReport:
    """Import a document. Importing it again changes nothing.

    An invalid record, or one that the store refuses, is reported, and the others are imported.
    """
    see_whole("batch_size", batch_size, 1)
    strategy = strategy_of(merge_strategy)
    if isinstance(document, bytes):
        document = read(document, format=format, user_id=user_id, **options)
    came = document if isinstance(document, ParsedDocument) else arrived(document, user_id)
    del document  # the parsed document has all of it
    alive()
    terms = MergeTerms(
        user_id=came.owner,
        allow_erased=allow_erased,
        dry_run=dry_run,
        actor=actor,
        strategy=strategy,
        atomic=atomic,
        keep_document=keep_document,
    )
    bound = consent(came, context_of(store).settings.clock())
    hashes = {one.hash for one in came.records if one.hash is not None and not one.is_duplicate}
    planner = Planner(terms, came, natives(store, came.owner, hashes, came.version))
    del hashes
    changed = renamed = 0
    if strategy == "rename":
        changed = renamed = rename(store, came, planner)
    else:
        stored = planner.stored_texts(store)
        if stored or came.dangling or any(one.is_duplicate for one in came.records):
            changed = lead(store, came, stored, overwrite=strategy == "overwrite")
    if came.dangling:
        came.warnings = resolved(store, came)
    if changed:
        planner.count()
    work = _DocumentImport(store, terms, came, planner, bound)
    alive()
    if atomic:
        work.all()
    else:
        each = (one for page in drained(came.records, batch_size) for one in page)
        for batch in batches(each, batch_size, _weight):
            work.take(batch)
            alive()
        work.keep()
    report = work.report(renamed)
    if report.stored:
        note_import(context_of(store), came.origin, report.audited(), actor=actor)
    return report


def natives(
    store: GrainStore, user_id: str, hashes: Collection[str], format: Format
) -> dict[str, str]:
    """Find a user's current grains that have one of some texts, by the hash of the text."""
    found: dict[str, str] = {}
    if not hashes:
        return found
    context = context_of(store)
    with open_sources(context, user_id) as snapshot:
        seqs = snapshot.current()
    for start in range(0, len(seqs), _PAGE):
        with open_sources(context, user_id) as snapshot:
            for one in snapshot.at(seqs[start : start + _PAGE]):
                hash_ = hash_of(one.grain, format, user_id)
                if one.current and hash_ is not None and hash_ in hashes:
                    found.setdefault(hash_, one.address)
    return found


class _DocumentImport(RecordImport[Arrived, RecordPlan]):
    def __init__(
        self,
        store: GrainStore,
        terms: MergeTerms,
        document: ParsedDocument,
        planner: Planner,
        bound: ConsentBinding,
    ) -> None:
        super().__init__(store, terms)
        self._terms: MergeTerms = terms
        self._document, self._planner, self._bound = document, planner, bound
        self._keeping = DocumentSnapshot(document, terms.keep_document)
        self._reports: dict[str, RecordReport] = dict(document.bad)
        self._warnings: list[Problem] = [*document.warnings, *bound.warnings]
        self._failed = False

    def plan(self, snapshot: SourceSnapshot, batch: list[Arrived]) -> list[RecordPlan]:
        return self._planner.plan(snapshot, batch)

    def planned(self, bad: set[int], seq: int | None) -> None:
        self._planner.done(bad, seq)

    def all(self) -> None:
        good = not self._document.bad
        for _ in range(_TRIES):
            with open_sources(context_of(self.store), self._terms.user_id) as snapshot:
                plans = self._planner.plan(snapshot, self._document.records)
            steps = self.steps(plans)
            good = good and not any(one.decision.fate in ("refused", "erased") for one in plans)
            kept = self._kept(plans, steps) if good else []
            outcomes = [DONE] * len(steps)
            if good:
                outcomes = self._together(list(steps.values()), kept, snapshot.seq)
            if not any(one.moved for one in outcomes):
                break
        done = dict(zip(steps, outcomes, strict=True))
        for i, plan in enumerate(plans):
            self.tell(plan, done.get(i, DONE), steps.get(i))
        self._failed = any(one.fate in ("refused", "erased") for one in self._reports.values())

    def keep(self) -> None:
        """Keep what stood around the records."""
        steps = self._new(self._keeping.steps(self._bound.until, self._erased))
        self._warnings += self._keeping.warnings
        if steps and any(one.error for one in self.record(steps, 0).outcomes):
            self._warnings.append(self._keeping.not_kept())

    def _together(
        self, steps: list[ImportStep], kept: list[ImportStep], since: int
    ) -> list[RecordOutcome]:
        """Do all steps or none, together with those that keep the document if possible."""
        outcomes = self.record([*steps, *kept], since, together=True).outcomes
        own, beside = outcomes[: len(steps)], outcomes[len(steps) :]
        if any(one.moved or one.error for one in own) or not any(one.error for one in beside):
            return own
        self._warnings.append(self._keeping.not_kept())
        return self.record(steps, since, together=True).outcomes

    def _kept(self, plans: list[RecordPlan], steps: dict[int, ImportStep]) -> list[ImportStep]:
        keeping = DocumentSnapshot(self._document, self._terms.keep_document)
        for i, plan in enumerate(plans):
            keeping.note(plan, plan.decision, steps.get(i))
        self._keeping = keeping
        return self._new(keeping.steps(self._bound.until, self._erased))

    def _erased(self, ids: set[str]) -> set[str]:
        """Which of some ids are those of records that were erased, of whatever kind."""
        if self._terms.allow_erased or not ids:
            return set()
        version = self._document.version
        asked = [(kind, name) for name in ids for kind in version.arrays.values()]
        with open_sources(context_of(self.store), self._terms.user_id) as snapshot:
            return {name for _, name in snapshot.erased(asked, format=version.name)}

    def _new(self, steps: list[ImportStep]) -> list[ImportStep]:
        """The steps whose grain is not stored yet; the retention of a stored one runs already."""
        if not steps:
            return steps
        with open_sources(context_of(self.store), self._terms.user_id) as snapshot:
            return [
                one
                for one in steps
                if one.grain is not None and snapshot.get(one.grain.address) is None
            ]

    def steps(self, plans: list[RecordPlan]) -> dict[int, ImportStep]:
        steps: dict[int, ImportStep] = {}
        for i, plan in enumerate(plans):
            if not plan.is_put:
                continue
            one, grain = plan.one, plan.grain
            names = one.names or (grain.address,)
            steps[i] = ImportStep(
                names[0],
                plan.seen if one.names else None,
                grain,
                one.parts,
                plan.replaces,
                None if plan.replaces is None else JUSTIFICATION,
                vector=one.vector,
                also=names[1:],
                wave=plan.wave,
                under=plan.under,
                reads=self._reads_of(one) if one.kind == "memory" else None,
                until=None if one.kind == "consent" else self._bound.until,
            )
        return steps

    def _reads_of(self, one: Arrived) -> Reads | None:
        document = self._document
        envelope = document.manifest.envelope
        return document.version.reads_of(envelope, one.kept_id, partial(document.record_of, one))

    def tell(self, plan: RecordPlan, outcome: RecordOutcome, step: ImportStep | None) -> None:
        decision, code, one = plan.decision, None, plan.one
        if (refused := refusal(outcome)) is not None:
            word, code = refused
            decision = Decision(word, word)
        if outcome.unkept is not None:
            says = "a vector that the store cannot search was left in its record"
            self._warnings.append(Problem("vector_not_searched", one.pointer, says))
        old = one.id if one.old_id is None else one.old_id
        new = None if one.old_id is None else one.id
        self._reports[one.pointer] = RecordReport(
            one.pointer, old or None, one.kind, decision.fate, decision.reason, code, new
        )
        if not self._terms.atomic:
            self._keeping.note(plan, decision, step)

    def report(self, renamed: int) -> MifReport:
        order = self._document.version.order
        records = tuple(sorted(self._reports.values(), key=lambda one: order(one.pointer)))
        if renamed and self._terms.keep_document:
            says = "the document is kept with the new ids"
            self._warnings.append(Problem("document_renamed", "", says))
        if self._terms.atomic:
            self._warnings += self._keeping.warnings
        return MifReport(
            self._document.origin,
            self._terms.strategy,
            not (self._terms.dry_run or self._failed),
            records,
            self._document.problems,
            tuple(self._warnings),
            self._failed,
        )


class DocumentSnapshot:
    """A document while its records are imported, to be kept as far as they are stored."""

    def __init__(self, document: ParsedDocument, wanted: bool) -> None:
        self._document, self._wanted = document, wanted
        self.warnings: list[Problem] = []  # why it is not kept, or in part
        self._addresses = {
            array: [_GONE] * len(listed) for array, listed in document.manifest.arrays.items()
        }
        self._steps: list[ImportStep] = []
        self._left = set[str]()
        self._kept = set[str]()
        self._erased = False

    def note(self, plan: RecordPlan, decision: Decision, step: ImportStep | None) -> None:
        """Note which grain a record is."""
        listed = self._addresses.get(plan.one.place.array)
        taken = decision.fate not in ("refused", "erased")
        self._erased |= decision.fate == "erased"
        if plan.one.kept_id is not None:
            (self._kept if taken else self._left).add(plan.one.kept_id)
        if not self._wanted or listed is None or not taken:
            return
        at = plan.one.place.at
        if plan.one.original is not None:
            grain, parts = plan.one.original
            self._duplicate(at, listed, plan.one._replace(grain=grain, parts=parts), None)
        elif step is not None and step.grain is not None:
            listed[at] = step.grain.address
        elif plan.stored is not None:
            listed[at] = plan.stored
        elif plan.one.is_duplicate:
            self._beside(at, listed, ImportStep("", None, plan.one.grain, plan.one.parts))
        elif plan.one.kind != NATIVE:
            self._duplicate(at, listed, plan.one, plan.of)

    def _duplicate(self, at: int, listed: list[str], one: Arrived, of: str | None) -> None:
        """Keep a record as it came beside what is stored of it."""
        document = self._document
        built = version(one.format).table.to_duplicate(
            one.kind, document.record_of(one), of=of or one.id or "-", owner=document.owner
        )
        self._beside(at, listed, ImportStep("", None, built.grain, tuple(built.parts)))

    def _beside(self, at: int, listed: list[str], step: ImportStep) -> None:
        if step.grain is not None:
            listed[at] = step.grain.address
            self._steps.append(step)

    def steps(self, until: int | None, erased: Callable[[set[str]], set[str]]) -> list[ImportStep]:
        """The steps that keep the document; none if nothing of it is kept."""
        document = self._document
        if not self._wanted or not document.manifest.id:
            return []
        arrays = {
            pointer: [one for one in listed if one is not _GONE]
            for pointer, listed in self._addresses.items()
        }
        envelope = document.manifest.envelope
        said = vendor_keys(envelope)
        gone = (said & self._left - self._kept) | erased(said)
        part = bool(document.bad or gone) or arrays != self._addresses
        if self._erased and not any(arrays.values()):
            self.warnings.append(self.not_kept())
            return []
        if part:
            says = "the document is kept without what was not taken of it"
            self.warnings.append(Problem("document_kept_in_part", "", says))
            envelope = without_keys(envelope, gone)
        whole = replace(document.manifest, arrays=arrays, envelope=envelope, text=())
        by_address = {} if part else {one.address: one for one in document.text}
        text = source.gather(list(by_address), by_address.__getitem__) if by_address else None
        grains = manifest(
            whole,
            created_at=document.created_at,
            user_id=document.owner,
            text=text,
            keyed=said & self._kept - gone,
        )
        steps = [*self._steps, *(ImportStep("", None, grain) for grain in grains)]
        return [replace(one, until=until) for one in steps]

    def not_kept(self) -> Problem:
        """The warning that it is not kept."""
        says = "the document is not kept: it was erased, or the store refuses a part of it"
        return Problem("document_not_kept", "", says)


def _weight(one: Arrived) -> int:
    """Bytes of the grains of a record."""
    return len(one.grain.blob) + sum(len(part.blob) for part in one.parts)


# -- consent --------------------------------------------------------------------------------------


_LAST = 2**62


class ConsentBinding(NamedTuple):
    """The terms of a document's consent for the records that the import stores.

    After ``retention_days`` they are erased, with what is kept of the document. With
    ``sharing_allowed`` false they are in no export that shares them. Spec: MIF 1.0 §6.3
    """

    until: int | None = None  # when they must be erased, ms since 1970
    warnings: tuple[Problem, ...] = ()  # consequences that may be unexpected


def consent(document: ParsedDocument, now: int) -> ConsentBinding:
    """Read the consent of a document, and mark the records that must not be shared."""
    given = next((one for one in document.records if one.kind == "consent"), None)
    if given is None:
        return ConsentBinding()
    said = DocumentConsent.of(document.record_of(given))
    if said is None:
        return ConsentBinding()
    if not said.shares:
        # A part is exported only with the grain that names it.
        document.records = [
            one._replace(grain=make({**one.grain.fields, SHARING: False}))
            for one in document.records
        ]
    until = said.expires_at(_made(document, now))
    if until is None:
        return ConsentBinding()
    if until > now:
        return ConsentBinding(min(until, _LAST))
    says = "the time is over for which the consent lets its records be kept"
    return ConsentBinding(max(until, 0), (Problem("retention_over", given.pointer, says),))


def _made(document: ParsedDocument, now: int) -> int:
    """When the document was made; now, if it does not say."""
    export = document.manifest.envelope.get("export")
    made = export.get("created_at") if isinstance(export, Mapping) else None
    instant = times.parse(made, floating=True) if isinstance(made, str) else None
    return now if instant is None else instant.millis
