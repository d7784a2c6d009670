# SPDX-License-Identifier: Apache-2.0
"""Plan the import of a document's records: compare them with one snapshot of the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from omsgrain.errors import OmsError
from omsgrain.formats import times
from omsgrain.formats.convert.base import OtherId, of_address
from omsgrain.formats.records import Record, is_duplicate
from omsgrain.formats.source import Source
from omsgrain.formats.table import FORMATS, version
from omsgrain.grain import Grain, make
from omsgrain.interchange.outcome import UNCHANGED, UPDATED, Decision, MifStrategy, Own, decide
from omsgrain.interchange.parse import Arrived, ParsedDocument, canonical
from omsgrain.store.context import context_of
from omsgrain.store.import_batch import ImportTerms
from omsgrain.store.source_index import SourcedGrain, SourceSnapshot, open_sources

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

_PAGE: Final = 1_000
"""Records that are looked up in one snapshot."""
_HERE = Decision("duplicate", "same_text_here")
_ERASED = Decision("erased", "erased")
_ANOTHER = Decision("refused", "another_user")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTerms(ImportTerms):
    """The options of an import of MIF; ``import_document`` explains the attributes."""

    strategy: MifStrategy
    atomic: bool
    keep_document: bool


class RecordPlan(NamedTuple):
    one: Arrived
    decision: Decision
    # the addresses of the grains that were current under its names before the batch
    seen: tuple[str, ...] = ()
    stored: str | None = None  # the plain address of the stored grain that says exactly the same
    replaces: str | None = None  # the address of the grain that it supersedes
    of: str | None = None  # the id, or the address, of what is stored with the same text
    wave: int = 0  # its step comes after all steps of a lower wave, which it may supersede
    leans: tuple[int, ...] = ()  # the places in the batch of the plans that this one depends on
    under: str | None = None  # the address of the newer grain that supersedes it

    @property
    def is_put(self) -> bool:
        """Whether the record becomes a grain, one that counts or one in the history."""
        return self.decision.fate in ("imported", "updated", "renamed", "older")

    @property
    def grain(self) -> Grain:
        """The grain that is stored; a renamed one names what it is derived from."""
        if self.decision.fate != "renamed" or self.of is None:
            return self.one.grain
        return make({**self.one.grain.fields, "derived_from": [self.of]})


_Kin: TypeAlias = tuple[str, str, str | None]
"""The format and the kind of a record, and the hash of its text."""


class History:
    """Earlier versions of a record, found by their content; it keeps only their addresses."""

    def __init__(self) -> None:
        self._ids: set[tuple[str, str]] = set()
        self._exact: dict[str, str] = {}
        self._kin: dict[_Kin, list[str]] = {}
        self._said: dict[_Kin, tuple[int, dict[bytes, str]]] = {}

    def add(self, found: SourcedGrain) -> None:
        """Add a version that is newer than all before."""
        source = Source.of(found.grain)
        if source is None or is_duplicate(found.grain):
            return
        self._ids.add((source.format, source.kind))
        self._exact[found.plain] = found.address
        kin = source.format, source.kind, source.hash
        self._kin.setdefault(kin, []).append(found.address)

    def has(self, one: Arrived) -> bool:
        """Whether there is any version of a record."""
        return (one.format, one.kind) in self._ids

    def exact(self, one: Arrived) -> str | None:
        """The address of the version that says exactly what a record says."""
        return self._exact.get(one.grain.address)

    def newest(self, one: Arrived) -> str | None:
        """The address of the newest version with the text of a record, if it has one."""
        found = self._kin.get((one.format, one.kind, one.hash)) if one.hash else None
        return found[-1] if found else None

    def alike(self, one: Arrived, said: bytes, read: Callable[[str], bytes | None]) -> str | None:
        """The address of a version that is the same as a record as JSON."""
        kin = one.format, one.kind, one.hash
        listed = self._kin.get(kin, [])
        known, by_said = self._said.get(kin, (0, {}))
        for address in listed[known:]:
            found = read(address)
            if found is not None:
                by_said[found] = address
        self._said[kin] = len(listed), by_said
        return by_said.get(said)


class Look:
    """The stored grains while a batch is planned, with those that the batch stores so far."""

    def __init__(
        self,
        snapshot: SourceSnapshot,
        document: ParsedDocument,
        coming: dict[str, SourcedGrain],
        now: dict[str, list[SourcedGrain]],
        past: Mapping[str, History],
        gone: Mapping[str, list[SourcedGrain]],
    ) -> None:
        self.snapshot, self.gone = snapshot, gone
        self.coming = coming  # by address the grains that are not stored yet
        self.now = now  # by name the current grains, the newest first
        self.late: dict[str, History] = {}  # by name the grains that the batch supersedes
        # Grains that join a history: the place of the plan that causes it, and the name.
        self.moves: list[tuple[int, str, SourcedGrain]] = []
        self._document, self._past = document, past
        self._began = {name: tuple(one.address for one in found) for name, found in now.items()}
        self._placed: dict[str, int] = {}
        self._waves: dict[int, int] = {}

    def histories(self, name: str) -> Iterator[History]:
        """The histories of the records under a name, the newest first."""
        for known in (self.late, self._past):
            if (found := known.get(name)) is not None:
                yield found

    def seen(self, one: Arrived) -> tuple[str, ...]:
        """The addresses that were current under the names of a record before the batch."""
        return tuple(dict.fromkeys(at for name in one.names for at in self._began.get(name, ())))

    def leans(self, *addresses: str | None) -> tuple[int, ...]:
        """The places in the batch of the plans that store the grains at some addresses."""
        return tuple(self._placed[one] for one in addresses if one in self._placed)

    def wave(self, leans: Iterable[int]) -> int:
        """The wave of a step that depends on the plans at some places."""
        return max((self._waves[one] + 1 for one in leans), default=0)

    def put(self, at: int, plan: RecordPlan) -> None:
        """Note a grain that the batch stores."""
        one, found = plan.one, SourcedGrain(plan.grain, True)
        self._placed[found.address], self._waves[at] = at, plan.wave
        self.coming[found.address] = found
        self.coming.update((part.address, SourcedGrain(part, True)) for part in one.parts)
        if plan.under is not None:
            self._joins(at, one.id or "", found._replace(current=False))
            return
        names = [name for name in (one.id, one.hashed) if name]
        for before in [each for name in names for each in self.now.get(name, ())]:
            if before.address == plan.replaces:
                self._leaves(at, before)
        for name in names:
            self.now[name] = [found, *self.now.get(name, ())]

    def _leaves(self, at: int, found: SourcedGrain) -> None:
        """Remove a grain from the current ones."""
        source = Source.of(found.grain)
        if source is None:
            return
        for name in (source.id, f"sha256:{source.hash}"):
            left = [one for one in self.now.get(name, ()) if one.address != found.address]
            if name in self.now:
                self.now[name] = left
        self._joins(at, source.id, found)

    def _joins(self, at: int, name: str, found: SourcedGrain) -> None:
        """Add a grain to the history of a name."""
        self.late.setdefault(name, History()).add(found)
        self.moves.append((at, name, found))

    def says(self, one: Arrived, found: SourcedGrain) -> bool | None:
        """Whether a grain says exactly what a record says; None if it says something else.

        False: the two are equal as JSON.
        """
        if found.plain == one.grain.address:
            return True
        source = Source.of(found.grain)
        if source is None or source.hash != one.hash:
            return None
        record = self._record(found.grain, one.format)
        if record is None:
            return None
        new = self._document.record_of(one)
        if version(one.format).table.is_same((one.kind, record), new):
            return True
        return False if canonical(record) == canonical(new) else None

    def is_older(self, one: Arrived, found: SourcedGrain) -> bool:
        """Whether a record is older than a grain, by a time or a version that both have."""
        stored, new = self._record(found.grain, one.format), self._document.record_of(one)
        if stored is None:
            return False
        after, before = _changed(new), _changed(stored)
        if after is not None and before is not None and after != before:
            return after < before
        number, known = new.get("version"), stored.get("version")
        return type(number) is int and type(known) is int and number < known

    def before(self, one: Arrived, *, text: bool) -> tuple[SourcedGrain, bool] | None:
        """The earlier version that says the same as a record, and whether it says exactly that.

        With ``text`` the same text is enough.
        """
        listed = [history for history in self.histories(one.id or "") if history.has(one)]
        for history in listed:
            if (found := self._at(history.exact(one))) is not None:
                return found, True
        if not listed:
            return None
        if text and one.hash is not None:
            for history in listed:
                if (found := self._at(history.newest(one))) is not None:
                    return found, bool(self.says(one, found))
            return None
        said = canonical(self._document.record_of(one))
        for history in listed:
            address = history.alike(one, said, lambda at: self._said(at, one.format))
            if (found := self._at(address)) is not None:
                return found, bool(self.says(one, found))
        return None

    def _at(self, address: str | None) -> SourcedGrain | None:
        if address is None:
            return None
        return self.coming.get(address) or self.snapshot.get(address)

    def _said(self, address: str, format: str) -> bytes | None:
        found = self._at(address)
        record = None if found is None else self._record(found.grain, format)
        return None if record is None else canonical(record)

    def _record(self, grain: Grain, format: str) -> Record | None:
        """The record of a grain; None if it cannot be read any more."""
        try:
            found = version(format).table.from_grain(grain, self._part)
        except OmsError:
            return None
        return None if found is None else found[1]

    def _part(self, address: str) -> Grain:
        part = self.coming.get(address)
        return self.snapshot.part(address) if part is None else part.grain


def _changed(record: Record) -> times.Instant | None:
    """The time of the last change, by the record."""
    said = record.get("updated_at", record.get("modified"))
    return times.parse(said, floating=True) if isinstance(said, str) else None


class Planner:
    """Plans the records of a document.

    It keeps what it read under names that several records have, so that a long history is read
    once. It looks up current grains again as soon as another writer has written.
    """

    def __init__(
        self, terms: MergeTerms, document: ParsedDocument, natives: Mapping[str, str]
    ) -> None:
        self._terms, self._document, self._natives = terms, document, natives
        # Python's hash is keyed: a document cannot contain names with a chosen hash.
        self._brings: set[int] = set()
        for one in document.records:
            if one.id and one.hash is not None:
                self._brings.update((hash((one.kind, one.id)), hash((one.kind, one.id, one.hash))))
        self._often: set[int] = set()
        self.count()
        self._now: dict[str, list[SourcedGrain]] = {}  # of names that several records have
        self._past: dict[str, History] = {}
        self._withdrawn: dict[tuple[str, str, str], bool] = {}
        self._coming: dict[str, SourcedGrain] = {}  # in a dry run, what would be stored
        self._seq: int | None = None  # until which that is so
        self._look: Look | None = None

    def count(self) -> None:
        """Find the names, and the ids of a kind, that several records of the document have."""
        met: set[int] = set()
        self._often = set()
        for one in self._document.records:
            for name in () if one.is_duplicate else (*one.names, (one.kind, one.id)):
                key = hash(name)
                (self._often if key in met else met).add(key)

    def look(self, snapshot: SourceSnapshot, batch: Sequence[Arrived]) -> Look:
        """Look up what is stored under the names of records."""
        if not (self._terms.dry_run or snapshot.seq == self._seq):
            self._now = {}
        # A duplicate that is kept beside a document has the id of its record.
        names = dict.fromkeys(n for one in batch if not one.is_duplicate for n in one.names)
        now = snapshot.find((name for name in names if name not in self._now), "current")
        past = snapshot.find((name for name in names if name not in self._past), "past")
        known = {name: self._past[name] for name in names if name in self._past}
        for name in {one.id for one in batch if one.id and not one.is_duplicate} - known.keys():
            known[name] = History()
            for found in reversed(past.get(name, ())):
                known[name].add(found)
            if self._is_often(name):
                self._past[name] = known[name]
        for name in names:
            now.setdefault(name, self._now.get(name, []))
        return Look(snapshot, self._document, dict(self._coming), now, known, past)

    def plan(self, snapshot: SourceSnapshot, batch: Sequence[Arrived]) -> list[RecordPlan]:
        """Plan a batch; call ``done`` with the outcome."""
        look = self._look = self.look(snapshot, batch)
        gone = frozenset[tuple[str, str]]()
        if not self._terms.allow_erased:
            names = (name for one in batch for name in one.erasable)
            gone = snapshot.erased(names, format=self._document.version.name)
        plans: list[RecordPlan] = []
        for i, one in enumerate(batch):
            if gone and not gone.isdisjoint(one.erasable):
                plan = RecordPlan(one, _ERASED)
            elif one.is_duplicate:
                plan = RecordPlan(one, _HERE)
            else:
                plan = self._one(look, one) if one.id else self._nameless(look, one)
            plan = plan._replace(seen=look.seen(one))
            if plan.is_put:
                look.put(i, plan)
            plans.append(plan)
        self._seq = None
        return plans

    def done(self, bad: Collection[int], seq: int | None) -> None:
        """Note the outcome of the batch that was planned last."""
        look, self._look = self._look, None
        if look is None:
            return
        for at, name, found in look.moves:
            if at not in bad and name in self._past:
                self._past[name].add(found)
        self._now = {}
        if not bad and seq is not None:
            self._seq = seq
            self._now = {name: one for name, one in look.now.items() if self._is_often(name)}
        if self._terms.dry_run:
            self._coming = look.coming

    def is_taken(self, look: Look, one: Arrived) -> bool:
        """Whether a record needs another id, since another record is stored under its own."""
        state = self._state(look, one)[0]
        return state in ("text", "newer") and self._twin(look, one) is None

    def same_text(self, look: Look, one: Arrived) -> str | None:
        """The id under which a record's text is stored, if that is another one than its own."""
        twin, state = self._twin(look, one), self._state(look, one)[0]
        if twin is None or state not in ("nothing", "text", "newer"):
            return None
        if self._terms.strategy == "overwrite":
            alone = not self._is_often((one.kind, one.id))
            if _id(twin.grain) is None or (alone and state != "nothing"):
                return None  # it gives a native grain its id, or supersedes what has its own
        return _id_in(twin, one)

    def stored_texts(self, store: GrainStore) -> dict[int, str]:
        """The ids under which texts of the document are stored, by number of the record."""
        records, stored = self._document.records, dict[int, str]()
        for start in range(0, len(records), _PAGE):
            with open_sources(context_of(store), self._terms.user_id) as snapshot:
                known = self._same_texts(snapshot, records[start : start + _PAGE])
            stored.update((start + at, id_) for at, id_ in known.items())
        return stored

    def _same_texts(self, snapshot: SourceSnapshot, records: Sequence[Arrived]) -> dict[int, str]:
        """The ids under which the texts of some records are stored, by place in the list."""
        texts = [
            i for i, one in enumerate(records) if one.id and one.hash and not one.is_duplicate
        ]
        there = snapshot.find((records[i].hashed or "" for i in texts), "current")
        asked: list[int] = []
        for i in texts:
            one = records[i]
            named = there.get(one.hashed or "", ())
            if one.hash in self._natives or any(not self._is_version(one, o) for o in named):
                asked.append(i)
        if not asked:
            return {}
        look = self.look(snapshot, [records[i] for i in asked])
        known = ((i, self.same_text(look, records[i])) for i in asked)
        return {i: id_ for i, id_ in known if id_ is not None}

    def _is_often(self, name: str | tuple[str, str | None]) -> bool:
        return hash(name) in self._often

    def _one(self, look: Look, one: Arrived) -> RecordPlan:
        for found in look.now[one.id or ""]:
            # On a second import nearly all are so, and nothing else need be asked.
            if one.old_id is None and found.is_at(one.grain.address):
                leans = look.leans(found.address)
                return RecordPlan(one, UNCHANGED, stored=one.grain.address, leans=leans)
        current, twin = self._own(look, one), self._twin(look, one)
        state, stored, met = self._state(look, one)
        if state == "nothing" and twin is None and self._is_gone(look, one):
            state = "withdrawn"
        decision = self._decide(one, state, twin is not None)
        target = twin if decision.target == "twin" else current
        same = current if twin is None else twin
        if decision.fate == "renamed":
            old = look.now[one.old_id or ""]
            same = next((found for found in old if self._is_own(one, found)), None)
        known = [found.address for found in (current, twin, met) if found is not None]
        leans = look.leans(*dict.fromkeys(known))
        return RecordPlan(
            one,
            decision,
            (),
            stored,
            target.address if decision.target and target is not None else None,
            None if same is None else _known(same.grain, decision),
            look.wave(leans),
            leans,
            current.address if decision.fate == "older" and current is not None else None,
        )

    def _own(self, look: Look, one: Arrived) -> SourcedGrain | None:
        """The current grain under a record's id."""
        own = look.now.get(one.id or "", ())
        return next((found for found in own if self._is_own(one, found)), None)

    def _decide(self, one: Arrived, state: Own, twin: bool) -> Decision:
        decision = decide(self._terms.strategy, state, twin)
        if decision.fate == "renamed":
            # A record with a new id is not renamed again; one without an id cannot be.
            return UPDATED
        if one.old_id is not None and decision.fate == "imported":
            return Decision("renamed")
        if one.old_id is not None and one.hash is not None and state == "same":
            return Decision("duplicate", "same_text")
        return decision

    def _nameless(self, look: Look, one: Arrived) -> RecordPlan:
        """A record that is known by what it says alone, or carries a grain."""
        if one.grain.get("user_id") != self._terms.user_id:
            return RecordPlan(one, _ANOTHER)
        found = look.snapshot.get(one.grain.address)
        if found is None:
            twin = self._twin(look, one)
            gone = twin is None and self._is_gone(look, one)
            decision = decide(
                self._terms.strategy, "withdrawn" if gone else "nothing", twin is not None
            )
            target = None if twin is None or decision.target is None else twin.address
            of = None if twin is None else _known(twin.grain, decision)
            leans = () if twin is None else look.leans(twin.address)
            return RecordPlan(
                one, decision, replaces=target, of=of, wave=look.wave(leans), leans=leans
            )
        if found.current:
            return RecordPlan(one, UNCHANGED, stored=one.grain.address)
        older = not look.snapshot.is_withdrawn(found)
        decision = decide(self._terms.strategy, "superseded" if older else "withdrawn")
        return RecordPlan(one, decision, stored=one.grain.address if older else None)

    def _is_own(self, one: Arrived, found: SourcedGrain) -> bool:
        """Whether a grain is a record of the same format and kind; other kinds have ids too."""
        source = Source.of(found.grain)
        return (
            source is not None
            and (source.format, source.kind) == (one.format, one.kind)
            and not is_duplicate(found.grain)
        )

    def _twin(self, look: Look, one: Arrived) -> SourcedGrain | None:
        """The current grain that has the same text under another id."""
        if one.hash is None or one.hashed is None:
            return None
        for found in look.now[one.hashed]:
            if not self._is_version(one, found):
                return found
        native = self._natives.get(one.hash)
        found_ = None if native is None else look.snapshot.get(native)
        return found_ if found_ is not None and found_.current else None

    def _is_gone(self, look: Look, one: Arrived) -> bool:
        """Whether the text of a record that is stored under no id was withdrawn."""
        name = one.hashed
        if name is None or not (several := look.gone.get(name, ())):
            return self._withdrawn.get((name or "", one.format, one.kind), False)
        gone = any(
            look.snapshot.is_withdrawn(found)
            for found in several
            if not self._is_version(one, found)
        )
        if self._is_often(name):
            self._withdrawn[name, one.format, one.kind] = gone
        return gone

    def _is_version(self, one: Arrived, found: SourcedGrain) -> bool:
        """Whether a grain with a record's text is a version of it, or of a record that changes."""
        return self._is_own(one, found) and (_id(found.grain) == one.id or self._goes(found))

    def _goes(self, found: SourcedGrain) -> bool:
        """Whether the document gives another text to the record of a stored grain.

        Then the grain is no twin, or its text would be in no current grain at the end.
        """
        source = Source.of(found.grain)
        if source is None or self._terms.strategy == "rename":
            return False
        key = source.kind, source.id
        return hash(key) in self._brings and hash((*key, source.hash)) not in self._brings

    def _state(self, look: Look, one: Arrived) -> tuple[Own, str | None, SourcedGrain | None]:
        """Find the state under a record's id.

        Gives with it the address of what says exactly the same, and the version that says it.
        """
        current, name = self._own(look, one), one.id or ""
        if current is not None:
            says = look.says(one, current)
            if says is not None:
                return "same", current.plain if says else None, current
        before = look.before(one, text=current is not None)
        if before is not None:
            found, says = before
            if look.snapshot.is_withdrawn(found):
                return "withdrawn", None, found
            return "superseded", found.plain if says else None, found
        if current is None:
            past = any(history.has(one) for history in look.histories(name))
            return ("withdrawn" if past else "nothing"), None, None
        source = Source.of(current.grain)
        same_text = one.hash is not None and source is not None and source.hash == one.hash
        if same_text:
            return "fields", None, None
        return ("newer" if look.is_older(one, current) else "text"), None, None


def _id(grain: Grain) -> str | None:
    source = Source.of(grain)
    return None if source is None else source.id


def _id_in(found: SourcedGrain, one: Arrived) -> str:
    """The id of a stored memory in the format of a record that has its text."""
    source = Source.of(found.grain)
    if source is not None and source.format == one.format:
        return source.id
    known = of_address(found.plain) if source is None else source.id
    return FORMATS[one.format].hub.id_of(OtherId("memory", known))


def _known(grain: Grain, decision: Decision) -> str:
    """The name of a grain: its address if a grain derives from it, else its id."""
    return (None if decision.fate == "renamed" else _id(grain)) or grain.address
