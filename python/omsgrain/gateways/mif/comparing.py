# SPDX-License-Identifier: Apache-2.0
"""Whether what is stored, or what a batch puts before it, says what a record does."""

from __future__ import annotations

import json

from omsgrain import _core
from omsgrain.engine.sources import Found, Snapshot
from omsgrain.errors import NotFoundError, OmsError
from omsgrain.formats.records import Record
from omsgrain.formats.source import Source
from omsgrain.gateways.mif.arriving import Arrived, Document
from omsgrain.gateways.mif.versions import version
from omsgrain.grain import Grain

__all__ = ["Comparison", "is_it", "plain"]


class Comparison:
    """Compares the records of a document.

    Args:
        snapshot: of the user's grains.
        document: that the records are of.
    """

    def __init__(self, snapshot: Snapshot, document: Document) -> None:
        self._snapshot, self._document = snapshot, document
        self._parts: dict[str, Grain] = {}

    def add(self, one: Arrived) -> None:
        """Take a record that is not stored yet among those that others are compared with."""
        self._parts.update((part.address, part) for part in one.parts)

    def says(self, one: Arrived, found: Found, *, text: bool = False) -> bool | None:
        """Whether a grain says what a record does to the last sign; None if it says another thing.

        Args:
            one: the record.
            found: the grain.
            text: the same text is enough.
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
        return False if (text and one.hash is not None) or _canonical(record, new) else None

    def _record(self, grain: Grain, format: str) -> Record | None:
        """The record that a grain was; None if it cannot be told any more."""
        try:
            found = version(format).table.from_grain(grain, self._part)
        except OmsError:
            return None
        return None if found is None else found[1]

    def _part(self, address: str) -> Grain:
        if (coming := self._parts.get(address)) is not None:
            return coming
        part = self._snapshot.get(address)
        if part is None:
            raise NotFoundError("a part of a record is not in the store", expected=address)
        return part.grain


def plain(grain: Grain) -> str:
    """The address of what a grain says, also where it stands sealed under another."""
    return _core.address(grain.blob)


def is_it(found: Found, address: str) -> bool:
    """Whether a grain says what stands at an address; most are not sealed, and stand there."""
    return found.address == address or plain(found.grain) == address


def _canonical(one: Record, other: Record) -> bool:
    """Whether two records are the same as JSON: neither order nor spelling counts."""
    texts = (json.dumps(record).encode("ascii") for record in (one, other))
    try:
        first, second = map(_core.canonical_json, texts)
    except OmsError:
        return False
    return first == second
