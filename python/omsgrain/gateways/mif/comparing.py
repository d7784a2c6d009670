# SPDX-License-Identifier: Apache-2.0
"""Whether what is stored, or what a batch puts before it, says what a record does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TypeAlias

from omsgrain import _core
from omsgrain.engine.sources import Found, Snapshot
from omsgrain.errors import NotFoundError, OmsError
from omsgrain.formats import times
from omsgrain.formats.records import Record, is_duplicate
from omsgrain.formats.source import Source
from omsgrain.gateways.mif.arriving import Arrived, Document
from omsgrain.gateways.mif.versions import version
from omsgrain.grain import Grain

__all__ = ["Comparison", "History", "canonical", "is_it", "plain"]

_Kin: TypeAlias = tuple[str, str, str | None]
"""The format and the kind of a record, and the hash of its text."""


class History:
    """Versions that came before, found by what they say; it keeps their addresses alone."""

    def __init__(self) -> None:
        self._ids: set[tuple[str, str]] = set()
        self._exact: dict[str, str] = {}
        self._kin: dict[_Kin, list[str]] = {}
        self._said: dict[_Kin, tuple[int, dict[bytes, str]]] = {}

    def add(self, found: Found) -> None:
        """Take one more, newer than all before."""
        source = Source.of(found.grain)
        if source is None or is_duplicate(found.grain):
            return
        self._ids.add((source.format, source.kind))
        self._exact[plain(found.grain)] = found.address
        kin = source.format, source.kind, source.hash
        self._kin.setdefault(kin, []).append(found.address)

    def has(self, one: Arrived) -> bool:
        """Whether there is any version of a record."""
        return (one.format, one.kind) in self._ids

    def exact(self, one: Arrived) -> str | None:
        """The address of what says the same as a record to the last sign."""
        return self._exact.get(one.grain.address)

    def newest(self, one: Arrived) -> str | None:
        """The address of the newest version with the text of a record, if it has one."""
        found = self._kin.get((one.format, one.kind, one.hash)) if one.hash else None
        return found[-1] if found else None

    def alike(self, one: Arrived, said: bytes, read: Callable[[str], bytes | None]) -> str | None:
        """The address of a version that is the same as a record as JSON.

        Args:
            one: the record.
            said: what it says, as ``canonical`` has it.
            read: the same of what stands at an address.
        """
        kin = one.format, one.kind, one.hash
        listed = self._kin.get(kin, [])
        known, by_said = self._said.get(kin, (0, {}))
        for address in listed[known:]:
            found = read(address)
            if found is not None:
                by_said[found] = address
        self._said[kin] = len(listed), by_said
        return by_said.get(said)


class Comparison:
    """Compares the records of a document.

    Args:
        snapshot: of the user's grains.
        document: that the records are of.
        coming: grains that are not stored yet, by address.
    """

    def __init__(
        self, snapshot: Snapshot, document: Document, coming: dict[str, Found] | None = None
    ) -> None:
        self._snapshot, self._document = snapshot, document
        self.coming = {} if coming is None else coming

    def add(self, one: Arrived, grain: Grain) -> None:
        """Take a record that is not stored yet among those that others are compared with.

        Args:
            one: the record.
            grain: what is put.
        """
        self.coming[grain.address] = Found(grain, True)
        self.coming.update((part.address, Found(part, True)) for part in one.parts)

    def says(self, one: Arrived, found: Found) -> bool | None:
        """Whether a grain says what a record does to the last sign; None if it says another thing.

        Args:
            one: the record.
            found: the grain.
        """
        if plain(found.grain) == one.grain.address:
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

    def is_older(self, one: Arrived, found: Found) -> bool:
        """Whether a record is older than a grain, by a time or a number that both have.

        Args:
            one: the record.
            found: the grain.
        """
        stored, new = self._record(found.grain, one.format), self._document.record_of(one)
        if stored is None:
            return False
        after, before = _changed(new), _changed(stored)
        if after is not None and before is not None and after != before:
            return after < before
        number, known = new.get("version"), stored.get("version")
        return type(number) is int and type(known) is int and number < known

    def before(
        self, one: Arrived, histories: Iterable[History], *, text: bool
    ) -> tuple[Found, bool] | None:
        """The version of a record in its history that says the same, and whether to the last sign.

        Args:
            one: the record.
            histories: of what has its id, the newest first.
            text: the same text is enough.
        """
        listed = [history for history in histories if history.has(one)]
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

    def _at(self, address: str | None) -> Found | None:
        if address is None:
            return None
        return self.coming.get(address) or self._snapshot.get(address)

    def _said(self, address: str, format: str) -> bytes | None:
        found = self._at(address)
        record = None if found is None else self._record(found.grain, format)
        return None if record is None else canonical(record)

    def _record(self, grain: Grain, format: str) -> Record | None:
        """The record that a grain was; None if it cannot be told any more."""
        try:
            found = version(format).table.from_grain(grain, self._part)
        except OmsError:
            return None
        return None if found is None else found[1]

    def _part(self, address: str) -> Grain:
        part = self._at(address)
        if part is None:
            raise NotFoundError("a part of a record is not in the store", expected=address)
        return part.grain


def _changed(record: Record) -> times.Instant | None:
    """When a record says that it was changed last."""
    said = record.get("updated_at", record.get("modified"))
    return times.parse(said, floating=True) if isinstance(said, str) else None


def plain(grain: Grain) -> str:
    """The address of what a grain says, also where it stands sealed under another."""
    return _core.address(grain.blob)


def is_it(found: Found, address: str) -> bool:
    """Whether a grain says what stands at an address; most are not sealed, and stand there."""
    return found.address == address or plain(found.grain) == address


def canonical(record: Record) -> bytes:
    """A record such that neither order nor spelling counts: the same for what is equal as JSON."""
    text = json.dumps(record, sort_keys=True).encode("ascii")
    try:
        return _core.canonical_json(text)
    except OmsError:
        return text
