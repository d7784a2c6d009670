# SPDX-License-Identifier: Apache-2.0
"""References of records to records, and where they lead once these have other ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from omsgrain.formats.records import Record
from omsgrain.gateways.mif.versions import ANY, Version

__all__ = ["LIKE_UUID", "Key", "References", "named_in"]

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


class References:
    """Where the references of a document lead.

    Args:
        version: of the format.
        leads: the new ids; of those that come later `add` is to be told.
        ids: of all records: one that two kinds of records have is told by the kind.
    """

    def __init__(self, version: Version, leads: Mapping[Key, str], ids: Iterable[Key]) -> None:
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
