# SPDX-License-Identifier: Apache-2.0
"""References between records, and their change when records get other ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from omsgrain.formats.mif import Mif
from omsgrain.formats.problems import Problem
from omsgrain.formats.records import Record, is_duplicate
from omsgrain.formats.schema import ANY
from omsgrain.formats.source import Source
from omsgrain.interchange.parse import NATIVE, Arrived, ParsedDocument, canonical, rebuilt
from omsgrain.interchange.plan import Look, Planner
from omsgrain.store.context import context_of
from omsgrain.store.source_index import open_sources

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

LIKE_UUID = re.compile(r"(?:[a-z]+_)?[0-9A-Fa-f]{8}-?(?:[0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}")
_TEXTS: Final = frozenset(("content", "summary", "notes", "description"))
"""Members of records that are for people: an id in one is text."""
Key = tuple[str, str]
"""The kind of a record, and its id."""


def named_in(value: Any) -> Iterator[str]:
    """The strings of a record that can be references."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            if name not in _TEXTS:
                yield from named_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from named_in(one)


def resolved(store: GrainStore, document: ParsedDocument) -> tuple[Problem, ...]:
    """Drop the warnings of references that lead to stored records."""
    names = _dangling(document)
    brought = {one.id for one in document.records if not one.is_duplicate}
    with open_sources(context_of(store), document.owner) as snapshot:
        found = snapshot.find({name for name in names.values() if name}, "current")
    there = {name for name, several in found.items()
             if any(not is_duplicate(one.grain) for one in several)}  # fmt: skip
    known = there | brought
    return tuple(
        one
        for one in document.warnings
        if one.pointer not in names or names[one.pointer] not in known
    )


def skipped_before(store: GrainStore, document: ParsedDocument) -> dict[Key, str]:
    """Find new ids for references to records that an earlier import skipped as duplicates."""
    names = {name for name in _dangling(document).values() if name}
    if not names:
        return {}
    leads: dict[Key, str] = {}
    with open_sources(context_of(store), document.owner) as snapshot:
        for name, several in snapshot.find(names, "current").items():
            sources = [Source.of(one.grain) for one in several if is_duplicate(one.grain)]
            if not several or len(sources) != len(several) or sources[0] is None:
                continue  # something is stored under this id
            of = str(several[0].grain["context"]["of"])
            there = snapshot.find([of], "current").get(of, ())
            if any(not is_duplicate(one.grain) for one in there):
                leads[sources[0].kind, name] = of
    return leads


def _dangling(document: ParsedDocument) -> dict[str, str | None]:
    """The ids that the document refers to and does not have, by pointer of the reference."""
    asked = document.dangling
    at = {pointer for one in asked if (pointer := _record_at(document.version, one.pointer))}
    records = {
        one.pointer: document.record_of(one)
        for one in (document.records if at else ())
        if one.pointer in at
    }
    return {one.pointer: _value_at(document.version, records, one.pointer) for one in asked}


def _record_at(version: Mif, pointer: str) -> str:
    """The pointer of the record that a pointer leads into."""
    array, at = version.place_of(pointer)
    return f"{array}/{at}"


def _value_at(version: Mif, records: Mapping[str, Record], pointer: str) -> str | None:
    """The string that a pointer into a record leads to."""
    record = _record_at(version, pointer)
    value: Any = records.get(record)
    for step in pointer[len(record) + 1 :].split("/"):
        if isinstance(value, list):
            value = value[int(step)] if int(step) < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


class References:
    """Where the references of a document lead."""

    def __init__(self, version: Mif, leads: Mapping[Key, str], ids: Iterable[Key]) -> None:
        self._version, self._leads = version, leads
        self._kinds: dict[str, set[str]] = {}
        for kind, name in ids:
            self._kinds.setdefault(name, set()).add(kind)
        self._anywhere: dict[str, str] = {}
        self._of_any: dict[str, str] = {}
        for key in leads:
            self.add(key)

    def add(self, key: Key) -> None:
        """Take one more of the new ids, which is there by now."""
        (kind, name), new = key, self._leads[key]
        # An entity with the id of a memory means that memory.
        known = self._kinds.get(name, {kind}) <= {kind, "node", "entity"}
        if known and LIKE_UUID.fullmatch(name):
            self._anywhere[name] = new
        self._of_any.setdefault(name, new)

    def stood_for(self, kind: str, name: str) -> str | None:
        """The new id of the memory that an entity means, whose id it has."""
        return self._anywhere.get(name) if kind == "entity" else None

    def of_record(self, kind: str, record: Record) -> Record:
        """A record with all its references; the record itself if none of them has moved."""
        known = self._version.references.get(kind, {})
        changed: Record = {}
        for name, value in record.items():
            if name == "id" and kind in self._version.renamed:
                changed[name] = value
            elif name in _TEXTS:
                changed[name] = value
            else:
                changed[name] = self._member(name, value, known)
        return record if changed == record else changed

    def of_envelope(self, envelope: Mapping[str, Any]) -> dict[str, Any]:
        """The envelope, such as the data of vendors, with all its references."""
        return {name: self._walk(value) for name, value in envelope.items()}

    def _member(self, path: str, value: Any, known: Mapping[str, str]) -> Any:
        kind = known.get(path)
        if kind is not None:
            if isinstance(value, str):
                return self._to(kind, value)
            if isinstance(value, list):
                return [self._to(kind, one) if isinstance(one, str) else one for one in value]
        if isinstance(value, dict) and any(name.startswith(f"{path}/") for name in known):
            return {
                name: self._member(f"{path}/{name}", one, known) for name, one in value.items()
            }
        return self._walk(value)

    def _to(self, kind: str, name: str) -> str:
        if kind == ANY:
            return self._of_any.get(name, name)
        return self._leads.get((kind, name), name)

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._anywhere.get(value, value)
        if isinstance(value, dict):
            return {self._anywhere.get(name, name): self._walk(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._walk(one) for one in value]
        return value


# -- fresh ids ------------------------------------------------------------------------------------


_PREFIX = re.compile(r"[a-z]+_")
_FRESH: Final = UUID("6d1bd5f4-7f0a-5c6e-9b53-2f6f0c8b7f11")
"""The namespace of fresh ids."""
_LookedUp = tuple[int, Arrived, Look]
_PAGE = 1_000


def rename(store: GrainStore, document: ParsedDocument, planner: Planner) -> int:
    """Give new ids to the records of a document that need them, and say how many have one."""
    work = _Renaming(store, document, planner)
    records = document.records
    work.texts([i for i, one in enumerate(records) if one.hash is not None])
    bare = [i for i, one in enumerate(records) if one.hash is None]
    order = _referred_first(document, bare)
    while work.others(order):  # in a circle one that is renamed can lead to another
        pass
    return work.finish()


def lead(
    store: GrainStore, document: ParsedDocument, stored: Mapping[int, str], *, overwrite: bool
) -> int:
    """Point references at the stored memories with the same text; return how many ids changed.

    A record that overwrites a stored memory takes its id.
    """
    records = document.records
    leads = skipped_before(store, document)
    stays: set[Key] = set()
    for i, one in enumerate(records):
        if i in stored:
            leads[one.kind, one.id or ""] = stored[i]
        elif one.id and not one.is_duplicate:
            stays.add((one.kind, one.id))
    for one in records:
        if one.is_duplicate and one.id and (one.kind, one.id) not in stays:
            of = str(one.grain["context"]["of"])
            leads[one.kind, one.id] = leads.get((one.kind, of), of)
    leads = {key: id_ for key, id_ in leads.items() if key not in stays}
    if not leads and not stored:
        return 0
    references = References(document.version, leads, _ids_of(records))
    for i, one in enumerate(records):
        if one.is_duplicate or one.format != document.version.name or one.kind == NATIVE:
            continue
        record = document.record_of(one)
        changed = references.of_record(one.kind, record)
        old = None
        if overwrite and i in stored:
            changed, old = {**changed, "id": stored[i]}, one.id
        if changed is not record:
            came = one.grain, one.parts
            records[i] = rebuilt(document, one, changed, original=came, old_id=old)
    return len(stored) if overwrite else 0


def _ids_of(records: Sequence[Arrived]) -> list[Key]:
    """The ids of records, with their kinds."""
    return [(one.kind, one.id) for one in records if one.id]


class _Renaming:
    """The new ids of a document while they are found."""

    def __init__(self, store: GrainStore, document: ParsedDocument, planner: Planner) -> None:
        self._store, self._document, self._planner = store, document, planner
        self._first: dict[Key, int] = {}  # the number of the first record of an id
        for i, one in enumerate(document.records):
            if one.id and not one.is_duplicate and _is_renamed(document, one):
                self._first.setdefault((one.kind, one.id), i)
        self._ids = _ids_of(document.records)
        self.new: dict[int, str] = {}  # by the number of the record
        self.leads = skipped_before(store, document)

    def texts(self, numbers: Sequence[int]) -> None:
        """Look at memories, which differ from others by their text alone."""
        for i, one, look in self._looked_up(numbers):
            another = self._is_another(i)
            if not another and self._first[one.kind, one.id or ""] != i:
                continue  # it is twice in the document
            id_ = self._planner.same_text(look, one)
            if id_ is None and (another or self._planner.is_taken(look, one)):
                id_ = fresh(self._document, one)
            if id_ is not None:
                self._lead(i, id_)
        for one in self._document.records:
            if one.is_duplicate and one.id and (one.kind, one.id) not in self._first:
                of = str(one.grain["context"]["of"])
                self.leads[one.kind, one.id] = self.leads.get((one.kind, of), of)

    def others(self, numbers: Sequence[int]) -> int:
        """Look at records that differ by any of their fields, as they would be stored."""
        before = len(self.new)
        references = References(self._document.version, self.leads, self._ids)
        for i, one, look in self._looked_up([i for i in numbers if i not in self.new]):
            record = self._document.record_of(one)
            changed = references.of_record(one.kind, record)
            comes = one if changed is record else rebuilt(self._document, one, changed)
            if self._is_another(i) or self._planner.is_taken(look, comes):
                stood_for = references.stood_for(one.kind, one.id or "")
                if self._lead(i, stood_for or fresh(self._document, comes)):
                    references.add((one.kind, one.id or ""))
        return len(self.new) - before

    def _is_another(self, i: int) -> bool:
        """Whether an earlier record of the document has the same id and says another thing."""
        records = self._document.records
        one = records[i]
        first = records[self._first[one.kind, one.id or ""]]
        return first.grain.address != one.grain.address

    def _lead(self, i: int, id_: str) -> bool:
        """Give a record a new id; whether references to its old one lead there."""
        one = self._document.records[i]
        key = one.kind, one.id or ""
        self.new[i] = id_
        if self._first[key] == i:
            self.leads[key] = id_
        return self._first[key] == i

    def _looked_up(self, numbers: Sequence[int]) -> Iterator[_LookedUp]:
        """Records that may need another id, and what is stored under their names."""
        document = self._document
        for start in range(0, len(numbers), _PAGE):
            page = numbers[start : start + _PAGE]
            with open_sources(context_of(self._store), document.owner) as snapshot:
                records = [document.records[i] for i in page]
                look = self._planner.look(snapshot, records)
                for i, one in zip(page, records, strict=True):
                    if one.id and not one.is_duplicate and _is_renamed(document, one):
                        yield i, one, look

    def finish(self) -> int:
        """Rename the records and all references to them; return how many ids changed."""
        document, new = self._document, self.new
        if not new and not self.leads:
            return 0
        references = References(document.version, self.leads, self._ids)
        for i, one in enumerate(document.records):
            if one.id is None or one.format != document.version.name:
                continue
            record = document.record_of(one)
            changed = references.of_record(one.kind, record)
            if not one.is_duplicate and _is_renamed(document, one):
                # Its own id is no reference: of two records with one id only one may be renamed.
                own = new.get(i, one.id)
                if changed.get("id") != own:
                    changed = {**changed, "id": own}
            if changed is not record:
                old = one.id if i in new else None
                document.records[i] = rebuilt(document, one, changed, old_id=old)
        envelope = document.manifest.envelope
        envelope.update(references.of_envelope(envelope))
        return len(new)


def _referred_first(document: ParsedDocument, numbers: Sequence[int]) -> list[int]:
    """Order records so that each comes after the records that it refers to, but for circles."""
    records = document.records
    at = {one.id: i for i in numbers if (one := records[i]).id}
    order: list[int] = []
    seen: set[int] = set()
    for start in numbers:
        waiting = [(start, False)]
        while waiting:
            i, done = waiting.pop()
            if done:
                order.append(i)
            elif i not in seen:
                seen.add(i)
                waiting.append((i, True))
                named = named_in(document.record_of(records[i])) if records[i].id else ()
                waiting += [(at[name], False) for name in named if name in at]
    return order


def _is_renamed(document: ParsedDocument, one: Arrived) -> bool:
    version = document.version
    return one.format == version.name and one.kind in version.renamed


def fresh(document: ParsedDocument, one: Arrived) -> str:
    """Make a new id in the shape of the record's own, which is taken."""
    prefix = _PREFIX.match(one.id or "")
    says = one.hash or sha256(canonical(document.record_of(one))).hexdigest()
    return f"{prefix[0] if prefix else ''}{uuid5(_FRESH, f'{one.kind} {one.id} {says}')}"
