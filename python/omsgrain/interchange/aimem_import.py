# SPDX-License-Identifier: Apache-2.0
"""Import AIMEM bundles: compare each record with the store, and store new records.

A bundle is checked whole before anything is stored. Spec: AIMEM §2.9, §3.2, §5.1, §5.4
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from omsgrain.errors import OmsError
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.aimem import fields, records
from omsgrain.formats.aimem.check import WARNINGS
from omsgrain.formats.aimem.document import Bundle
from omsgrain.formats.aimem.fields import ARRAYS, DNA, RECORDS, AimemLimits, Kind
from omsgrain.formats.json_text import canonical_text
from omsgrain.formats.problems import Problem
from omsgrain.formats.source import Source
from omsgrain.grain import Grain
from omsgrain.interchange.kept import KeptBundle
from omsgrain.interchange.outcome import (
    INSERTED,
    NEWEST,
    UNCHANGED,
    UPDATED,
    Decision,
    ImportSummary,
    Own,
)
from omsgrain.search.vectors import DIMENSIONS
from omsgrain.store.context import context_of, see_whole
from omsgrain.store.import_batch import (
    ImportStep,
    ImportTerms,
    RecordImport,
    RecordOutcome,
    batches,
    note_import,
    refusal,
)
from omsgrain.store.source_index import SourcedGrain, SourceSnapshot, check_keys, check_tenant
from omsgrain.store.write import prepare_one

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

JUSTIFICATION: Final = "a newer version was imported"
"""The justification when a DNA-class chunk is superseded because that was allowed."""
_ASIDE: Final[dict[Kind, frozenset[str]]] = {
    "chunk": frozenset(("created_at", "content_hash", "embedding")),
    "edge": frozenset(("created_at",)),
    "entity": frozenset(("created_at",)),
    "chunk_entity": frozenset(),
}
"""Fields that are compared in another way, or not at all."""
_NOTHING: Final[dict[str, Any]] = {"is_pinned": False, "tags": []}
"""Values that mean the same as no field."""
_TOLD, _LONGEST = 20, 64  # names of fields, and characters of one: a record can have megabytes
_NULLABLE: Final = {
    kind: frozenset(field.name for field in table if field.nullable)
    for kind, table in RECORDS.items()
}


def decide(
    kind: Kind,
    stored: Mapping[str, Any] | None,
    new: Mapping[str, Any],
    *,
    current: bool = True,
    allow_dna_updates: bool = False,
) -> Decision:
    """Decide the outcome of a record that was checked."""
    if stored is None:
        return INSERTED
    differ = changes(kind, stored, new)
    order = _order(stored, new) if differ else 0
    own: Own = "older"
    if not differ:
        own = "same"
    elif not order:
        own = "text" if kind == "chunk" and "content" in differ else "fields"
    elif order < 0:
        own = "newer"
    elif not current:
        own = "withdrawn"
    elif kind == "chunk" and is_protected(stored) and not allow_dna_updates:
        own = "protected"
    found = NEWEST[own]
    if own == "fields":
        return found._replace(fields=tuple(name[:_LONGEST] for name in differ[:_TOLD]))
    return found


def is_protected(chunk: Mapping[str, Any]) -> bool:
    """Whether a chunk is never silently superseded. Spec: AIMEM §5.1."""
    return chunk["memory_type"] in DNA or chunk.get("is_pinned") is True


def changes(kind: Kind, stored: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The fields in which two records differ, but for their times; as JSON, 1 equals 1.0."""
    names = sorted((stored.keys() | new.keys()) - _ASIDE[kind])
    return [
        name for name in names if not _equal(_value(kind, stored, name), _value(kind, new, name))
    ]


def _value(kind: Kind, record: Mapping[str, Any], name: str) -> Any:
    """The value of a field; an empty tuple if it is missing, or means the same as missing."""
    value = record.get(name, ())
    if value is None and name in _NULLABLE[kind]:
        return ()
    return () if kind == "chunk" and name in _NOTHING and value == _NOTHING[name] else value


def _equal(one: Any, other: Any) -> bool:
    if any(isinstance(value, str | tuple) for value in (one, other)):
        return bool(one == other)
    return canonical_text(one) == canonical_text(other)


def _order(stored: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """Negative if the new record is older, positive if it is newer, 0 without times."""
    before, after = (fields.parse_time(one.get("created_at", "")) for one in (stored, new))
    if before is None or after is None:
        return 0
    return (after > before) - (after < before)


_ANY: Final = AimemLimits(content=sys.maxsize)
"""Stored content was accepted before, whatever its size."""
_ENDS: Final[dict[Kind, tuple[tuple[Kind, str], ...]]] = {
    "chunk": (),
    "entity": (),
    "edge": (("chunk", "source_id"), ("chunk", "target_id")),
    "chunk_entity": (("chunk", "chunk_id"), ("entity", "entity_id")),
}
_FLOAT = 4
_LOCAL = re.compile("[0-9a-f]{32}")
_ADDRESS = re.compile("[0-9a-f]{64}")


class Embeddings:
    """Chooses which embeddings of a bundle are stored."""

    def __init__(self, envelope: Mapping[str, Any]) -> None:
        named = envelope.get("embedding_model")
        self._model = named if isinstance(named, str) else ""
        self._dropped: dict[tuple[str, str, str], None] = {}

    def kept(self, chunk: Mapping[str, Any]) -> tuple[str, bytes] | None:
        """Return the vector to store for a checked chunk, or None."""
        text = chunk.get("embedding")
        data = fields.decode(text) if isinstance(text, str) else None
        if data is None:
            return None
        size = len(data) // _FLOAT
        if not 0 < size <= DIMENSIONS:
            self._drop(f"1 to {DIMENSIONS} values", f"{size} values")
        elif fields.is_zero(data):
            self._drop("a number that is not zero", "zeros", "zero_embedding")
        else:
            return self._model, data
        return None

    def unkept(self) -> None:
        """Note that the store could not keep a vector, because of one model too many, say."""
        self._drop("a vector that can be kept", self._model)

    def warnings(self) -> list[Problem]:
        """A warning for each reason why embeddings were dropped."""
        return [
            Problem(rule, "/embedding_model", WARNINGS[rule], expected, found)
            for rule, expected, found in self._dropped
        ]

    def _drop(self, expected: str, found: str, rule: str = "unsupported_model") -> None:
        self._dropped[rule, expected, found] = None


class BundleRecord(NamedTuple):
    """A record of the bundle, and its place among those of its kind."""

    place: int
    kind: Kind
    value: dict[str, Any]

    @property
    def name(self) -> str:
        return records.TABLE.name_of(self.kind, self.value)

    @property
    def names(self) -> list[tuple[str, str]]:
        """The kinds and names of the record, and of those that it joins."""
        ends = ((kind, self.value[field]) for kind, field in _ENDS[self.kind])
        return [(self.kind, self.name), *ends]

    @property
    def weight(self) -> int:
        """About how many characters it has."""
        return sum(
            len(json.dumps(value)) if isinstance(value, dict | list) else len(str(value))
            for value in self.value.values()
        )


class AimemPlan(NamedTuple):
    one: BundleRecord
    decision: Decision
    seen: tuple[str, ...] = ()  # the addresses of the current grains under its name
    stored: SourcedGrain | None = None  # the grain that it was compared with
    exact: bool = False  # whether that grain says exactly what the record says
    # the earlier record of this batch that it was compared with instead
    twin: BundleRecord | None = None
    carried: Grain | None = None  # the grain that the chunk was made of
    vector: tuple[str, bytes] | None = None  # to be stored for its grain
    wave: int = 0  # its step comes after all steps of a lower wave, which it may supersede
    behind: int | None = None  # the place in the batch of the plan for the twin

    @property
    def leans(self) -> tuple[int, ...]:
        """The place of the plan for the twin, if this plan depends on it."""
        return () if self.behind is None else (self.behind,)


def _stored(
    snapshot: SourceSnapshot, kind: Kind, there: list[SourcedGrain]
) -> tuple[SourcedGrain, dict[str, Any]] | None:
    """The stored grain of a record, and its record; other kinds may have the same name."""
    for one in there:
        if records.is_record(one.grain, kind):
            born = records.checked(one.grain, snapshot.part, _ANY)
            if born is not None:
                return one, born[1]
    return None


def _source(snapshot: SourceSnapshot, chunk: Mapping[str, Any], local: str) -> SourcedGrain | None:
    """The stored grain that a chunk was made of."""
    member = chunk.get(records.MEMBER)
    address = member.get("address") if isinstance(member, dict) else None
    if isinstance(address, str) and _ADDRESS.fullmatch(address):
        return snapshot.get(address)
    created = fields.parse_time(chunk["created_at"])
    if created is None or created.seconds < 0 or not _LOCAL.fullmatch(local):
        return None
    return snapshot.begins(local, created.millis)


def _may_come(grain: Grain) -> bool:
    """Whether a grain can be stored as it is; one that superseded another cannot."""
    try:
        prepare_one(grain)
    except OmsError:
        return False
    return not grain.sealed


def import_bundle(
    store: GrainStore,
    source: Bundle | IO[bytes],
    *,
    tenant: str | None = None,
    allow_erased: bool = False,
    allow_dna_updates: bool = False,
    keep_document: bool = False,
    signature: str | None = None,
    dry_run: bool = False,
    batch_size: int = 1_000,
    alive: Callable[[], None] = lambda: None,
    actor: str | None = None,
) -> ImportSummary:
    """Import a bundle. Importing it again changes nothing.

    A record whose id is already stored is unchanged, superseded by the newer version, or in
    conflict. The summary lists conflicts; the other records are imported. A chunk with other
    content and a newer ``created_at`` supersedes an ordinary one; one that is DNA-class or pinned
    only with ``allow_dna_updates``.
    """
    see_whole("batch_size", batch_size, 1)
    if isinstance(source, Bundle):
        envelope, warnings, arrays = source.envelope, source.warnings, frozenset(source.records)
        every: Iterable[tuple[Kind, dict[str, Any]]] = (
            (kind, record) for kind in ARRAYS.values() for record in source.records.get(kind, ())
        )
    else:
        start = source.tell()
        scan = stream.scan(source)
        source.seek(start)
        envelope, warnings, arrays = scan.envelope, scan.warnings, frozenset(ARRAYS.values())
        every = stream.records(source)
    owner: str = envelope["tenant_id"] if tenant is None else tenant
    check_tenant(owner)
    with context_of(store).storage.read() as reader:
        check_keys(reader)  # without keys, stored records could not be found
    document = KeptBundle(envelope, arrays, owner) if keep_document and not dry_run else None
    embeddings = Embeddings(envelope)
    terms = ImportTerms(user_id=owner, allow_erased=allow_erased, dry_run=dry_run, actor=actor)
    work = _BundleImport(store, terms, embeddings, document, allow_dna_updates)
    for batch in batches(_placed(every), batch_size, lambda record: record.weight):
        alive()
        work.take(batch)
    summary = work.summary
    summary.warnings = (*warnings, *embeddings.warnings())
    if document is not None:
        summary.warnings += tuple(document.keep(store, allow_erased=allow_erased))
    if not dry_run:
        details: dict[str, int | str] = dict(summary.audited())
        if signature is not None:
            details["signature"] = signature
        note_import(context_of(store), records.FORMAT, details, actor=actor)
    return summary


class _BundleImport(RecordImport[BundleRecord, AimemPlan]):
    run = 4_096
    # LMDB keeps all pages that a transaction touches in memory, and in a large store nearly each
    # row of a run touches one of its own. With runs as short as these a million chunks take
    # 230 MB in all, and no more time.

    def __init__(
        self,
        store: GrainStore,
        terms: ImportTerms,
        embeddings: Embeddings,
        document: KeptBundle | None,
        allow_dna_updates: bool,
    ) -> None:
        super().__init__(store, terms)
        self.summary = ImportSummary()
        self._embeddings = embeddings
        self._document = document
        self._allow_dna_updates = allow_dna_updates
        self._past: dict[str, list[SourcedGrain]] = {}  # by name; past grains stay past

    def plan(self, snapshot: SourceSnapshot, batch: list[BundleRecord]) -> list[AimemPlan]:
        found = self._found(snapshot, batch)
        gone = frozenset[tuple[str, str]]()
        if not self._terms.allow_erased:
            names = (name for record in batch for name in record.names)
            gone = snapshot.erased(names, format=records.FORMAT)
        coming: dict[tuple[Kind, str], int] = {}
        plans: list[AimemPlan] = []
        for i, record in enumerate(batch):
            key, there = (record.kind, record.name), found.get(record.name, [])
            seen = tuple(one.address for one in there if one.current)
            if gone and not gone.isdisjoint(record.names):
                plan = AimemPlan(record, Decision("conflict", "erased"))
            elif key in coming:
                plan = self._beside(record, coming[key], plans[coming[key]])
            else:
                plan = self._one(snapshot, record, there)
            if plan.decision in (INSERTED, UPDATED):
                coming[key] = i
            plans.append(plan._replace(seen=seen))
        return plans

    def _found(
        self, snapshot: SourceSnapshot, batch: list[BundleRecord]
    ) -> dict[str, list[SourcedGrain]]:
        """The current grains under records' names; if none is a record's own, also past ones."""
        found = snapshot.find((record.name for record in batch), "current")
        alone = [
            record.name
            for record in batch
            if record.name not in self._past
            and not any(
                records.is_record(one.grain, record.kind) for one in found.get(record.name, ())
            )
        ]
        self._past.update(snapshot.find(alone, "past"))
        for name in {record.name for record in batch} & self._past.keys():
            found[name] = [*found.get(name, ()), *self._past[name]]
        return found

    def _beside(self, record: BundleRecord, at: int, before: AimemPlan) -> AimemPlan:
        """Plan a record that has the same name as an earlier one of the batch."""
        twin = before.one
        exact = records.TABLE.is_same((twin.kind, twin.value), record.value)
        decision = self._decide(record, twin.value)
        return AimemPlan(record, decision, exact=exact, twin=twin, wave=before.wave + 1, behind=at)

    def _one(
        self, snapshot: SourceSnapshot, record: BundleRecord, there: list[SourcedGrain]
    ) -> AimemPlan:
        born = _stored(snapshot, record.kind, there)
        if born is not None:
            stored, said = born
            bare = records.bare(record.kind, record.value)
            exact = records.TABLE.is_same((record.kind, said), bare)
            decision = self._decide(record, said, current=stored.current)
            plan = AimemPlan(record, decision, stored=stored, exact=exact)
        else:
            plan = self._made(snapshot, record)
        return self._embedded(snapshot, plan)

    def _made(self, snapshot: SourceSnapshot, record: BundleRecord) -> AimemPlan:
        """Plan a record that is not stored; a chunk may have been made of a stored grain."""
        plan, chunk = AimemPlan(record, INSERTED), record.value
        named = fields.parse_urn(chunk["id"]) if record.kind == "chunk" else None
        if named is None:
            return plan
        found = _source(snapshot, chunk, named.local)
        tenant = self._terms.user_id
        if found is None:
            grain = records.carried(chunk)
            if grain is None or grain.get("user_id") != tenant or not _may_come(grain):
                return plan
            stored = snapshot.get(grain.address)
            if stored is None:
                return plan._replace(carried=grain)
            return AimemPlan(record, UNCHANGED, stored=stored)
        if Source.of(found.grain) is not None:  # it has a name of its own
            return plan
        made, _ = records.native(found.grain, producer=named.producer, owner=tenant, strict=True)
        if made is None:
            return plan
        came = {name: value for name, value in chunk.items() if name != records.MEMBER}
        decision = self._decide(
            record._replace(value=came), made | {"id": chunk["id"]}, current=found.current
        )
        return AimemPlan(record, decision, stored=found)

    def _decide(
        self, record: BundleRecord, stored: Mapping[str, Any], *, current: bool = True
    ) -> Decision:
        allowed = self._allow_dna_updates
        return decide(
            record.kind, stored, record.value, current=current, allow_dna_updates=allowed
        )

    def _embedded(self, snapshot: SourceSnapshot, plan: AimemPlan) -> AimemPlan:
        """The plan with the vector of a chunk, if it is wanted and not stored."""
        if plan.one.kind != "chunk" or plan.decision.fate == "conflict":
            return plan
        vector = self._embeddings.kept(plan.one.value)
        if vector is not None and plan.decision is UNCHANGED and plan.stored is not None:
            model, data = vector
            before = snapshot.vector(plan.stored.address, model)
            if before == data:
                return plan
            if before is not None:
                decision = Decision("conflict", "field_conflict", fields=("embedding",))
                return plan._replace(decision=decision)
        return plan._replace(vector=vector)

    def tell(self, plan: AimemPlan, outcome: RecordOutcome, step: ImportStep | None) -> None:
        decision, code = plan.decision, None
        if (refused := refusal(outcome)) is not None:
            reason, code = refused
            decision = Decision("conflict", reason)
        if outcome.unkept is not None:
            self._embeddings.unkept()
        self.summary.add(plan.one.kind, plan.one.name, decision, code)
        if self._document is not None:
            self._document.note(plan.one.kind, plan.one.place, *_same(plan, decision, step))

    def steps(self, plans: list[AimemPlan]) -> dict[int, ImportStep]:
        if self._terms.dry_run:
            return {}
        new = {
            i: plan.one
            for i, plan in enumerate(plans)
            if plan.carried is None and plan.decision in (INSERTED, UPDATED)
        }
        pairs = ((one.kind, records.bare(one.kind, one.value)) for one in new.values())
        made = records.TABLE.to_grains(pairs, owner=self._terms.user_id)
        built = dict(zip(new, made, strict=True))
        steps: dict[int, ImportStep] = {}
        for i, plan in enumerate(plans):
            stored = None if plan.stored is None else plan.stored.address
            if plan.behind is not None:
                stored = steps[plan.behind].address if i in built else None
            grain, replaces = plan.carried, None
            parts: tuple[Grain, ...] = ()
            if i in built:
                grain, parts, replaces = built[i].grain, tuple(built[i].parts), stored
            elif grain is None and plan.vector is None:
                continue
            steps[i] = ImportStep(
                plan.one.name,
                plan.seen,
                grain,
                parts,
                replaces,
                None if replaces is None else JUSTIFICATION,
                stored if grain is None else None,
                plan.vector,
                wave=plan.wave,
            )
        return steps


def _same(
    plan: AimemPlan, decision: Decision, step: ImportStep | None
) -> tuple[Grain | None, int | None]:
    """The grain that says exactly what a record does, or the place of the record that does."""
    if decision.fate == "conflict":
        return None, None
    grain = None if step is None else step.grain
    if grain is None and plan.stored is not None and plan.exact:
        grain = plan.stored.grain
    twin = plan.twin.place if plan.twin is not None and plan.exact else None
    return (grain if plan.carried is None else None), twin


def _placed(every: Iterable[tuple[Kind, dict[str, Any]]]) -> Iterator[BundleRecord]:
    """Records with their places among those of their kind."""
    places: dict[Kind, int] = dict.fromkeys(ARRAYS.values(), 0)
    for kind, value in every:
        yield BundleRecord(places[kind], kind, value)
        places[kind] += 1
