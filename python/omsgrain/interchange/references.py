# SPDX-License-Identifier: Apache-2.0
"""References of records to records, and where they lead once these have other ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from omsgrain.formats.base import Mif
from omsgrain.formats.problems import Problem
from omsgrain.formats.records import Record, is_duplicate
from omsgrain.formats.schema import ANY
from omsgrain.formats.source import Source
from omsgrain.interchange.parse import ParsedDocument

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

LIKE_UUID = re.compile(r"(?:[a-z]+_)?[0-9A-Fa-f]{8}-?(?:[0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}")
_TEXTS: Final = frozenset(("content", "summary", "notes", "description"))
"""Members of records that are for people: an id in one is text."""
_DANGLING: Final = frozenset(("unknown_reference", "unknown_entity", "unknown_end"))
"""Warnings of what is not in a document; it may be in the store."""
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
    """The warnings of a document without those of references that lead to what is stored."""
    names = _dangling(document)
    if not names:
        return document.warnings
    brought = {one.id for one in document.records if not one.is_duplicate}
    with store.sources(document.owner) as snapshot:
        found = snapshot.find({name for name in names.values() if name}, "current")
    there = {name for name, several in found.items()
             if any(not is_duplicate(one.grain) for one in several)}  # fmt: skip
    known = there | brought
    return tuple(
        one
        for one in document.warnings
        if one.rule not in _DANGLING or names[one.pointer] not in known
    )


def skipped_before(store: GrainStore, document: ParsedDocument) -> dict[Key, str]:
    """Where references lead to records that an earlier import skipped as duplicates."""
    names = {name for name in _dangling(document).values() if name}
    if not names:
        return {}
    leads: dict[Key, str] = {}
    with store.sources(document.owner) as snapshot:
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
    """What the document refers to and does not have, by the pointers of its references."""
    asked = [one for one in document.warnings if one.rule in _DANGLING]
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
        # An entity with the id of a memory stands for that memory.
        known = self._kinds.get(name, {kind}) <= {kind, "node", "entity"}
        if known and LIKE_UUID.fullmatch(name):
            self._anywhere[name] = new
        self._of_any.setdefault(name, new)

    def stood_for(self, kind: str, name: str) -> str | None:
        """The new id of the memory that an entity stands for, whose id it has."""
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
        """What stands around the records, such as the data of vendors, with all its references."""
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
