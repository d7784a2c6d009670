# SPDX-License-Identifier: Apache-2.0
"""New ids for records whose ids are taken, and every reference to them within the document.

    a record with another text than what is stored under its id    a fresh id, made of the id and
                                                                   what the record says
    a memory whose text is stored under another id                 that id
    a memory whose text an earlier one of the document has         references lead to that one

The same document gives the same ids again, so that importing it twice changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.formats.records import Record
from omsgrain.gateways.mif.arriving import Arrived, Document, rebuilt
from omsgrain.gateways.mif.planning import Planner
from omsgrain.gateways.mif.versions import ANY, Version

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore

__all__ = ["LIKE_UUID", "References", "fresh", "rename"]

_FRESH: Final = UUID("6d1bd5f4-7f0a-5c6e-9b53-2f6f0c8b7f11")
"""The namespace of fresh ids."""
_PREFIX = re.compile(r"[a-z]+_")
LIKE_UUID = re.compile(r"(?:[a-z]+_)?[0-9A-Fa-f]{8}-?(?:[0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}")
_TEXTS: Final = frozenset(("content", "summary", "notes", "description"))
"""Members of records that are for people: an id in one is text."""
_PAGE = 1_000

Key = tuple[str, str]
"""The kind of a record, and its id."""


def rename(store: GrainStore, document: Document, planner: Planner) -> int:
    """Give new ids to the records of a document that need them, and say how many have one.

    Args:
        store: where the document is to go.
        document: is changed.
        planner: tells what is stored.
    """
    new: dict[int, str] = {}  # by the number of the record
    leads: dict[Key, str] = {}  # where references lead
    first: dict[Key, str] = {}  # the address of the first record of an id
    records = document.records
    for page in _pages(range(len(records))):
        with store.sources(document.owner) as snapshot:
            found = snapshot.find(name for i in page for name in records[i].names)
            for i in page:
                one = records[i]
                if not one.id or one.is_duplicate or not _is_renamed(document, one):
                    continue
                key = one.kind, one.id
                before = first.get(key)
                if before == one.grain.address:
                    continue  # it stands twice
                first.setdefault(key, one.grain.address)
                there = {name: found.get(name, []) for name in one.names}
                taken = before is not None or planner.is_taken(snapshot, one, there)
                id_ = fresh(document, one) if taken else planner.same_text(snapshot, one, there)
                if id_ is not None:
                    new[i] = id_
                    if before is None:
                        leads[key] = id_
    for one in records:
        if one.is_duplicate and one.id and (one.kind, one.id) not in first:
            of = str(one.grain["context"]["of"])
            leads[one.kind, one.id] = leads.get((one.kind, of), of)
    if not new and not leads:
        return 0
    ids = ((one.kind, one.id) for one in records if one.id)
    references = References(document.version, leads, ids)
    for i, one in enumerate(records):
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
            records[i] = rebuilt(document, one, changed, old_id=old)
    document.manifest.envelope.update(references.of_envelope(document.manifest.envelope))
    return len(new)


def _is_renamed(document: Document, one: Arrived) -> bool:
    version = document.version
    return one.format == version.name and one.kind in version.renamed


def fresh(document: Document, one: Arrived) -> str:
    """The id of a record whose own is taken: of the shape that its own has."""
    prefix = _PREFIX.match(one.id or "")
    says = one.hash or sha256(_canonical(document.record_of(one))).hexdigest()
    return f"{prefix[0] if prefix else ''}{uuid5(_FRESH, f'{one.kind} {one.id} {says}')}"


class References:
    """Where the references of a document lead.

    Args:
        version: of the format.
        leads: the new ids.
        ids: of all records: one that two kinds of records have is told by the kind.
    """

    def __init__(self, version: Version, leads: Mapping[Key, str], ids: Iterable[Key]) -> None:
        self._version, self._leads = version, leads
        kinds: dict[str, set[str]] = {}
        for kind, name in ids:
            kinds.setdefault(name, set()).add(kind)
        self._anywhere = {
            name: new
            for (kind, name), new in leads.items()
            # An entity with the id of a memory stands for that memory.
            if LIKE_UUID.fullmatch(name) and kinds.get(name, {kind}) <= {kind, "node", "entity"}
        }
        self._of_any: dict[str, str] = {}
        for (_, name), new in leads.items():
            self._of_any.setdefault(name, new)

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


def _canonical(record: Record) -> bytes:
    text = json.dumps(record, sort_keys=True).encode("ascii")
    try:
        return _core.canonical_json(text)
    except OmsError:
        return text


def _pages(whole: Sequence[int]) -> Iterator[list[int]]:
    rest = iter(whole)
    while page := list(islice(rest, _PAGE)):
        yield page
