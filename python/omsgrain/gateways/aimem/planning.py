# SPDX-License-Identifier: Apache-2.0
"""What is to be done with the records of a bundle, decided by one snapshot of the store."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from omsgrain.engine.sources import Found, Snapshot
from omsgrain.errors import NotFoundError
from omsgrain.formats.aimem import records
from omsgrain.formats.aimem.fields import Kind
from omsgrain.formats.aimem.limits import Limits
from omsgrain.formats.source import Source
from omsgrain.gateways.aimem.deciding import INSERTED, UNCHANGED, UPDATED, Decision, decide
from omsgrain.gateways.aimem.returning import returned
from omsgrain.gateways.aimem.vectors import Embeddings
from omsgrain.grain import Grain

__all__ = ["Plan", "Planner", "Record", "Terms"]

_ANY: Final = Limits(content=sys.maxsize)
"""What is stored was taken once, however large it is."""
_ENDS: Final[dict[Kind, tuple[tuple[Kind, str], ...]]] = {
    "chunk": (),
    "entity": (),
    "edge": (("chunk", "source_id"), ("chunk", "target_id")),
    "chunk_entity": (("chunk", "chunk_id"), ("entity", "entity_id")),
}


@dataclass(frozen=True, slots=True)
class Terms:
    """How an import goes about it; ``import_bundle`` says what they mean."""

    tenant: str
    allow_erased: bool
    allow_dna_updates: bool
    dry_run: bool
    actor: str | None


class Record(NamedTuple):
    """A record of the bundle, and its place among those of its kind."""

    place: int
    kind: Kind
    value: dict[str, Any]

    @property
    def name(self) -> str:
        """By what it is known."""
        return records.name_of(self.kind, self.value)


class Plan(NamedTuple):
    """What is to be done with a record.

    Attributes:
        record: that came.
        decision: what becomes of it.
        seen: the addresses of what counts under its name.
        stored: the grain that it was compared with.
        exact: whether that grain says what the record does to the last sign.
        twin: the record before it in this batch that it was compared with instead.
        carried: the grain that it was before it left as a record.
        vector: to be given to its grain.
        wave: after which other steps it comes: it supersedes a record of the same batch.
        behind: the place in the batch of the plan for the twin.
    """

    record: Record
    decision: Decision
    seen: tuple[str, ...] = ()
    stored: Found | None = None
    exact: bool = False
    twin: Record | None = None
    carried: Grain | None = None
    vector: tuple[str, bytes] | None = None
    wave: int = 0
    behind: int | None = None


class Planner:
    """Decides what becomes of records.

    Args:
        terms: of the import.
        embeddings: what becomes of them.
    """

    def __init__(self, terms: Terms, embeddings: Embeddings) -> None:
        self._terms = terms
        self._embeddings = embeddings
        self._past: dict[str, list[Found]] = {}  # by name; what counts no more stays so

    def plan(self, snapshot: Snapshot, batch: list[Record]) -> list[Plan]:
        """Decide.

        Args:
            snapshot: of the tenant's grains.
            batch: records, some perhaps of one name.
        """
        found = self._found(snapshot, batch)
        erased = self._erased(snapshot, batch)
        coming: dict[tuple[Kind, str], int] = {}
        plans: list[Plan] = []
        for i, record in enumerate(batch):
            key, there = (record.kind, record.name), found.get(record.name, [])
            seen = tuple(one.address for one in there if one.current)
            if i in erased:
                plan = Plan(record, Decision("conflict", "erased"), seen)
            elif key in coming:
                plan = self._beside(record, coming[key], plans[coming[key]])._replace(seen=seen)
            else:
                plan = self._one(snapshot, record, there, seen)
            if plan.decision in (INSERTED, UPDATED):
                coming[key] = i
            plans.append(plan)
        return plans

    def _found(self, snapshot: Snapshot, batch: list[Record]) -> dict[str, list[Found]]:
        """What counts under the names of records; where that is none of theirs, also the past."""
        found = snapshot.find((record.name for record in batch), "current")
        alone = [
            record.name
            for record in batch
            if record.name not in self._past
            and not any(_is_own(record.kind, one) for one in found.get(record.name, ()))
        ]
        self._past.update(snapshot.find(alone, "past"))
        for name in {record.name for record in batch} & self._past.keys():
            found[name] = [*found.get(name, ()), *self._past[name]]
        return found

    def _beside(self, record: Record, at: int, before: Plan) -> Plan:
        """A record behind another one of its name in the batch."""
        twin = before.record
        exact = records.same_record((twin.kind, twin.value), record.value)
        decision = self._decide(record.kind, twin.value, record.value)
        return Plan(record, decision, (), None, exact, twin, wave=before.wave + 1, behind=at)

    def _one(
        self, snapshot: Snapshot, record: Record, there: list[Found], seen: tuple[str, ...]
    ) -> Plan:
        kind, value = record.kind, record.value
        born = _stored(snapshot, kind, there)
        if born is not None:
            stored, said = born
            exact = records.same_record((kind, said), _bare(value))
            decision = self._decide(kind, said, value, stored.current)
            return self._embedded(snapshot, Plan(record, decision, seen, stored, exact))
        back = returned(snapshot, value, self._terms.tenant) if kind == "chunk" else None
        if back is None:
            return self._embedded(snapshot, Plan(record, INSERTED, seen))
        if back.found is None:
            return self._embedded(snapshot, Plan(record, INSERTED, seen, carried=back.carried))
        decision = UNCHANGED
        if back.said is not None:
            decision = self._decide(kind, *back.said, back.found.current)
        return self._embedded(snapshot, Plan(record, decision, seen, back.found))

    def _decide(
        self,
        kind: Kind,
        stored: Mapping[str, Any],
        new: Mapping[str, Any],
        current: bool = True,
    ) -> Decision:
        allowed = self._terms.allow_dna_updates
        return decide(kind, stored, new, current=current, allow_dna_updates=allowed)

    def _embedded(self, snapshot: Snapshot, plan: Plan) -> Plan:
        """The plan with the vector of a chunk, if it is to be kept and is not there."""
        if plan.record.kind != "chunk" or plan.decision.fate == "conflict":
            return plan
        vector = self._embeddings.kept(plan.record.value)
        if vector is None or plan.decision is not UNCHANGED or plan.stored is None:
            return plan._replace(vector=vector)
        other = self._embeddings.is_other(snapshot, plan.stored.address, vector)
        if other:
            return plan._replace(decision=Decision("conflict", "field_conflict", ("embedding",)))
        return plan if other is False else plan._replace(vector=vector)

    def _erased(self, snapshot: Snapshot, batch: list[Record]) -> set[int]:
        """Which records were erased, or join what was, by position."""
        if self._terms.allow_erased:
            return set()
        asked = [
            (i, kind, name)
            for i, record in enumerate(batch)
            for kind, name in (
                (record.kind, record.name),
                *((kind, record.value[field]) for kind, field in _ENDS[record.kind]),
            )
        ]
        told = snapshot.erased([(kind, name) for _, kind, name in asked], format=records.FORMAT)
        return {i for (i, _, _), gone in zip(asked, told, strict=True) if gone}


def _stored(
    snapshot: Snapshot, kind: Kind, there: list[Found]
) -> tuple[Found, dict[str, Any]] | None:
    """What is stored of a record: another kind of record may have the same name."""

    def get(address: str) -> Grain:
        part = snapshot.get(address)
        if part is None:
            raise NotFoundError("a part of a record is not in the store", expected=address)
        return part.grain

    for one in there:
        if _is_own(kind, one):
            born = records.checked(one.grain, get, _ANY)
            if born is not None:
                return one, born[1]
    return None


def _is_own(kind: Kind, found: Found) -> bool:
    source = Source.of(found.grain)
    return source is not None and (source.format, source.kind) == (records.FORMAT, kind)


def _bare(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without its embedding, which a grain does not hold."""
    return {
        name: value
        for name, value in record.items()
        if name != "embedding" or not isinstance(value, str)
    }
