# SPDX-License-Identifier: Apache-2.0
"""What is to be done with the records of a document, decided by one snapshot of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from omsgrain.engine.origins import TEXT
from omsgrain.engine.sources import Found, Snapshot
from omsgrain.formats.records import is_duplicate
from omsgrain.formats.source import Source
from omsgrain.gateways.mif.arriving import NATIVE, Arrived, Document
from omsgrain.gateways.mif.comparing import Comparison, is_it, plain
from omsgrain.gateways.mif.deciding import Decision, Own, Strategy, decide
from omsgrain.grain import Grain, make

__all__ = ["Plan", "Planner", "Terms"]

_HERE = Decision("duplicate", "same_text_here")
_UNCHANGED = Decision("unchanged")
_ERASED = Decision("erased", "erased")
_ANOTHER = Decision("refused", "another_user")
_UPDATED = Decision("updated", None, "own")


@dataclass(frozen=True, slots=True)
class Terms:
    """How an import goes about it; ``import_document`` says what they mean."""

    user_id: str
    strategy: Strategy
    allow_erased: bool
    dry_run: bool
    atomic: bool
    keep_document: bool
    actor: str | None


class Plan(NamedTuple):
    """What is to be done with a record.

    Attributes:
        one: the record.
        decision: what becomes of it.
        seen: the addresses that its names led to.
        stored: the plain address of what says the same as the record to the last sign, if that
            is stored.
        replaces: the address of what it supersedes.
        of: the id, or the address, of what is stored with the same text.
        wave: after which other steps it comes: it supersedes a record of the same import.
        before: the places in the batch of those that it puts before under the same id; in a dry
            run there may be others, in the batches before.
    """

    one: Arrived
    decision: Decision
    seen: tuple[str, ...] = ()
    stored: str | None = None
    replaces: str | None = None
    of: str | None = None
    wave: int = 0
    before: tuple[int, ...] = ()

    @property
    def is_put(self) -> bool:
        """Whether the record becomes a grain that counts."""
        return self.decision.fate in ("imported", "updated", "renamed")

    @property
    def grain(self) -> Grain:
        """What is put: the record, and from what it comes if it was renamed."""
        if self.decision.fate != "renamed" or self.of is None:
            return self.one.grain
        return make({**self.one.grain.fields, "derived_from": [self.of]})


_Key: TypeAlias = tuple[str, str]
"""The kind of a record, and its id."""


class _Coming(NamedTuple):
    """A record that this batch puts, or a dry run would have put, and its place in its batch."""

    at: int
    plan: Plan


class Planner:
    """Decides what becomes of records.

    Args:
        terms: of the import.
        document: that the records are of.
        natives: grains that no index finds, by the hash of their text.
    """

    def __init__(self, terms: Terms, document: Document, natives: Mapping[str, str]) -> None:
        self._terms, self._document, self._natives = terms, document, natives
        # Python's hash is keyed: nobody can make two names that have the same.
        self._brings: set[int] = set()
        met: set[int] = set()
        self._twice: set[int] = set()  # ids of several records: a dry run stores none of these
        self._would: dict[_Key, list[_Coming]] = {}
        for one in document.records:
            if one.id and one.hash is not None:
                self._brings.update((hash((one.kind, one.id)), hash((one.kind, one.id, one.hash))))
            if one.id and terms.dry_run:
                key = hash((one.kind, one.id))
                (self._twice if key in met else met).add(key)

    def plan(self, snapshot: Snapshot, batch: Sequence[Arrived]) -> list[Plan]:
        """Decide.

        Args:
            snapshot: of the user's grains.
            batch: records, some perhaps of one id.
        """
        found = snapshot.find(name for one in batch for name in one.names)
        erased = self._erased(snapshot, batch)
        compared = Comparison(snapshot, self._document)
        coming: dict[_Key, list[_Coming]] = {}
        for key in {(one.kind, one.id or "") for one in batch} & self._would.keys():
            coming[key] = list(self._would[key])
            for each in coming[key]:
                compared.add(each.plan.one)
        plans: list[Plan] = []
        for i, one in enumerate(batch):
            there = {name: found.get(name, []) for name in one.names}
            seen = tuple({f.address: None for several in there.values() for f in several})
            if i in erased:
                plan = Plan(one, _ERASED, seen)
            elif one.is_duplicate:
                plan = Plan(one, _HERE)
            elif not one.id:
                plan = self._nameless(snapshot, one, there)._replace(seen=seen)
            else:
                before = coming.get((one.kind, one.id), ())
                plan = self._one(snapshot, compared, one, there, before)._replace(seen=seen)
            if plan.is_put and one.id:
                coming.setdefault((one.kind, one.id), []).append(_Coming(i, plan))
                compared.add(one)
            plans.append(plan)
        self._would |= {
            key: several for key, several in coming.items() if hash(key) in self._twice
        }
        return plans

    def is_taken(self, snapshot: Snapshot, one: Arrived, there: Mapping[str, list[Found]]) -> bool:
        """Whether a record needs another id, since what is stored under its own is another one.

        Args:
            snapshot: of the user's grains.
            one: the record.
            there: what its names lead to.
        """
        own = self._own(one, there)
        compared = Comparison(snapshot, self._document)
        return self._state(snapshot, compared, one, own)[0] == "text" and (
            self._twin(snapshot, one, there)[0] is None
        )

    def same_text(
        self, snapshot: Snapshot, one: Arrived, there: Mapping[str, list[Found]]
    ) -> str | None:
        """The id of the record that is stored with the text of this one, if it is another id."""
        own = self._own(one, there)
        twin, _ = self._twin(snapshot, one, there)
        compared = Comparison(snapshot, self._document)
        state, _ = self._state(snapshot, compared, one, own)
        if twin is None or state not in ("nothing", "text"):
            return None
        source = Source.of(twin.grain)
        if source is None or (source.format, source.kind) != (one.format, one.kind):
            return None
        return source.id

    def _one(
        self,
        snapshot: Snapshot,
        compared: Comparison,
        one: Arrived,
        there: Mapping[str, list[Found]],
        before: Sequence[_Coming],
    ) -> Plan:
        for found in () if before else there[one.id or ""]:
            # On a second import nearly all are so, and nothing else need be asked.
            if found.current and one.old_id is None and is_it(found, one.grain.address):
                return Plan(one, _UNCHANGED, stored=one.grain.address)
        own = self._own(one, there, before)
        twin, gone = self._twin(snapshot, one, there)
        state, stored = self._state(snapshot, compared, one, own)
        if state == "nothing" and gone:
            state = "withdrawn"
        decision = self._decide(one, state, twin is not None)
        current = next((found for found in own if found.current), None)
        target = twin if decision.target == "twin" else current
        same = current if twin is None else twin
        if decision.fate == "renamed":
            old = (found for found in there[one.old_id or ""] if self._is_own(one, found))
            same = next((found for found in old if found.current), None)
        return Plan(
            one,
            decision,
            (),
            stored,
            target.address if decision.target and target is not None else None,
            None if same is None else _known(same.grain, decision),
            before[-1].plan.wave + 1 if before else 0,
            tuple(one.at for one in before),
        )

    def _own(
        self, one: Arrived, there: Mapping[str, list[Found]], before: Sequence[_Coming] = ()
    ) -> list[Found]:
        """What is stored under a record's id, as it is after what the batch puts before it."""
        own = [found for found in there[one.id or ""] if self._is_own(one, found)]
        if not before:
            return own
        last = before[-1]
        coming = [Found(each.plan.grain, each is last) for each in reversed(before)]
        return [*coming, *(found._replace(current=False) for found in own)]

    def _decide(self, one: Arrived, state: Own, twin: bool) -> Decision:
        decision = decide(self._terms.strategy, state, twin)
        if decision.fate == "renamed":
            # What has a new id by now is not renamed again; what has no id cannot be.
            return _UPDATED
        if one.old_id is not None and decision.fate == "imported":
            return Decision("renamed")
        if one.old_id is not None and one.hash is not None and state == "same":
            return Decision("duplicate", "same_text")
        return decision

    def _nameless(
        self, snapshot: Snapshot, one: Arrived, there: Mapping[str, list[Found]]
    ) -> Plan:
        """A record that is known by what it says alone, or carries a grain."""
        if one.grain.get("user_id") != self._terms.user_id:
            return Plan(one, _ANOTHER)
        found = snapshot.get(one.grain.address)
        if found is None:
            twin, gone = self._twin(snapshot, one, there)
            state: Own = "withdrawn" if gone else "nothing"
            decision = decide(self._terms.strategy, state, twin is not None)
            target = None if twin is None or decision.target is None else twin.address
            of = None if twin is None else _known(twin.grain, decision)
            return Plan(one, decision, replaces=target, of=of)
        if found.current:
            return Plan(one, _UNCHANGED, stored=one.grain.address)
        older = not snapshot.is_withdrawn(found)
        decision = decide(self._terms.strategy, "older" if older else "withdrawn", False)
        return Plan(one, decision, stored=one.grain.address if older else None)

    def _is_own(self, one: Arrived, found: Found) -> bool:
        """Whether a grain is what is stored under a record's id: other kinds have ids as well."""
        source = Source.of(found.grain)
        return (
            source is not None
            and (source.format, source.kind) == (one.format, one.kind)
            and not is_duplicate(found.grain)
        )

    def _twin(
        self, snapshot: Snapshot, one: Arrived, there: Mapping[str, list[Found]]
    ) -> tuple[Found | None, bool]:
        """What has the same text under another id, and whether such a one was withdrawn."""
        if one.hash is None:
            return None, False
        several = [
            found
            for found in there[f"sha256:{one.hash}"]
            if not (self._is_own(one, found) and (_id(found.grain) == one.id or self._goes(found)))
        ]
        current = next((found for found in several if found.current), None)
        native = self._natives.get(one.hash)
        if current is None and native is not None:
            found = snapshot.get(native)
            current = found if found is not None and found.current else None
        return current, current is None and any(map(snapshot.is_withdrawn, several))

    def _goes(self, found: Found) -> bool:
        """Whether the document gives another text to what has the text of one of its records.

        Or the text would be nowhere in the end.
        """
        source = Source.of(found.grain)
        if source is None or self._terms.strategy == "rename":
            return False
        key = source.kind, source.id
        return hash(key) in self._brings and hash((*key, source.hash)) not in self._brings

    def _state(
        self, snapshot: Snapshot, compared: Comparison, one: Arrived, own: Sequence[Found]
    ) -> tuple[Own, str | None]:
        """What is stored under a record's id, and the address of what says exactly the same."""
        current = next((found for found in own if found.current), None)
        past = [found for found in own if not found.current]
        # Several can have its text: what is the very record comes first.
        past.sort(key=lambda found: not is_it(found, one.grain.address))
        if current is not None:
            says = compared.says(one, current)
            if says is not None:
                return "same", plain(current.grain) if says else None
        for found in past:
            says = compared.says(one, found, text=current is not None)
            if says is not None and snapshot.is_withdrawn(found):
                return "withdrawn", None
            if says is not None:
                return "older", plain(found.grain) if says else None
        if current is None:
            return ("withdrawn" if past else "nothing"), None
        source = Source.of(current.grain)
        same_text = one.hash is not None and source is not None and source.hash == one.hash
        return ("fields" if same_text else "text"), None

    def _erased(self, snapshot: Snapshot, batch: Sequence[Arrived]) -> set[int]:
        """Which records were erased, by position: under their id, or by their text."""
        if self._terms.allow_erased:
            return set()
        asked = [
            (i, kind, name)
            for i, one in enumerate(batch)
            for kind, name in ((one.kind, one.id), (one.kind, one.old_id), (TEXT, one.hash))
            if name and one.kind != NATIVE
        ]
        told = snapshot.erased(
            [(kind, name) for _, kind, name in asked], format=self._document.version.name
        )
        return {i for (i, _, _), gone in zip(asked, told, strict=True) if gone}


def _id(grain: Grain) -> str | None:
    source = Source.of(grain)
    return None if source is None else source.id


def _known(grain: Grain, decision: Decision) -> str:
    """By what a grain is named: by its address where another derives from it, else by its id."""
    return (None if decision.fate == "renamed" else _id(grain)) or grain.address
